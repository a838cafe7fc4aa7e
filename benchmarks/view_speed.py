"""`autorubric view` on 100,000 graded items of ten criteria: start, indexing, pages, memory, size, and what it adds.

Wall times depend on the machine; run it on an idle one.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.record import Record

ITEMS, CRITERIA, REQUESTS = 100_000, 10, 100
_WORDS = [
    "the",
    "moon",
    "pulls",
    "on",
    "water",
    "and",
    "the",
    "sun",
    "does",
    "too",
    "so",
    "that",
    "tides",
    "rise",
    "twice",
    "a",
    "day",
    "in",
    "most",
    "places",
]


BUSY = 2.0
"""Guards on times are the goals times this, for a busy machine. Sizes and memory have no such margin."""


class Row(NamedTuple):
    """What was measured, its unit, and the goal: the most that it should be."""

    name: str
    value: float
    unit: str
    goal: float


def run() -> Record:
    """Each value and its goal; the floor of the index is `json.loads` of the same lines."""
    items = int(os.environ.get("VIEW_ITEMS", ITEMS))
    with tempfile.TemporaryDirectory() as folder:
        made = write_run(Path(folder) / "run", items)
        size, floor = (made / "items.jsonl").stat().st_size / 1e6, _floor(made / "items.jsonl")
        record = Record(f"{items:,} items × {CRITERIA} criteria, {size:.0f} MB; floor of the index: json.loads")
        rows = list(_measure(made, items))
    assets = sum(path.stat().st_size for path in (_package() / "static").iterdir())
    rows.append(Row("style sheet and script", assets / 1000, "kB", 35))
    for name, value, unit, goal in rows:
        record.limit(f"{name}, {unit}", value, most=goal * (BUSY if unit in ("s", "ms") else 1.0))
    shown = [[name, f"{value:.1f} {unit}", f"{goal:g} {unit}"] for name, value, unit, goal in rows]
    record.table(
        "view", ["", "measured", "goal"], [["json.loads of the items (floor)", f"{floor:.1f} s", "–"], *shown]
    )
    return record


def _floor(path: Path) -> float:
    started = time.perf_counter()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            json.loads(line)
    return time.perf_counter() - started


def _measure(made: Path, items: int) -> Iterator[Row]:
    started = time.perf_counter()
    command = [sys.executable, "-m", "autorubric", "view", str(made), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1].rstrip("/")
            _wait_for_page(url)
            yield Row("first answer", time.perf_counter() - started, "s", 0.5)
            while (state := _state(url))["share"] < 1 or not state["size"]:
                time.sleep(0.5)  # as often as a person who waits; each look costs the server a page
            yield Row("whole index", time.perf_counter() - started, "s", 10)
            rng = random.Random(0)
            sorts = ("place", "worst", "best", "doubt", "longest")
            lists = [f"/r/0/items?sort={sorts[n % 5]}&after={_after(url, sorts[n % 5])}" for n in range(10)]
            yield _p95("page of the list", [_timed(url, rng.choice(lists)) for _ in range(REQUESTS)], 50)
            yield _p95("one item", [_timed(url, f"/r/0/items/{rng.randrange(items)}") for _ in range(REQUESTS)], 30)
            others = ("/r/0/", "/r/0/criteria", "/r/0/agreement", "/r/0/items?disputed=1&sort=doubt")
            for path in others:
                yield _p95(path, [_timed(url, path) for _ in range(20)], 50)
            yield Row("memory of the server", _megabytes(process.pid), "MB", 150)
        finally:
            process.terminate()
            process.wait()


def _p95(name: str, answers: Sequence[tuple[float, int]], most: float) -> Row:
    times = sorted(1000 * seconds for seconds, _ in answers)
    largest = max(size for _, size in answers) / 1000
    return Row(f"{name}, 95th percentile, up to {largest:.0f} kB", times[int(0.95 * len(times)) - 1], "ms", most)


def _timed(url: str, path: str) -> tuple[float, int]:
    started = time.perf_counter()
    size = len(_read(url, path))
    return time.perf_counter() - started, size


def _read(url: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return text
    finally:
        connection.close()


def _wait_for_page(url: str) -> None:
    while True:
        try:
            _read(url, "/")
            return
        except OSError:
            time.sleep(0.005)


def _state(url: str) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(_read(url, "/r/0/items?format=json"))["index"]
    except RuntimeError:
        return {"share": 0.0, "size": 0}
    return found


def _after(url: str, sort: str) -> str:
    """A position in the list, some pages further."""
    place = ""
    for _ in range(random.Random(sort).randrange(1, 6)):
        place = json.loads(_read(url, f"/r/0/items?sort={sort}&after={place}&format=json"))["next"]
    return place


def _megabytes(process: int) -> float:
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1000


def _package() -> Path:
    import autorubric.view

    return Path(autorubric.view.__file__).parent


def write_run(folder: Path, items: int = ITEMS) -> Path:
    """A run of two judges with a label on every tenth item."""
    rng = random.Random(0)
    folder.mkdir()
    rubric = [
        {"name": f"Criterion {n}", "weight": 1.0 + n % 5, "requirement": f"Handles aspect {n} with an example."}
        for n in range(CRITERIA)
    ]
    head = json.dumps({"name": "big", "prompt": "Explain the tides.", "rubric": rubric}, indent=2)
    with (folder / "dataset.json").open("w") as dataset, (folder / "items.jsonl").open("w") as lines:
        dataset.write(head[:-2] + ',\n  "items": [')
        for n in range(items):
            item: dict[str, object] = {
                "id": f"e{n}",
                "submission": _text(rng, 120),
                "description": f"essay {n}",
                "ground_truth": None,
            }
            if n % 10 == 0:
                item["ground_truth"] = [rng.choice(("MET", "UNMET")) for _ in rubric]
            text = json.dumps(item, indent=2).replace("\n", "\n    ")
            dataset.write(("," if n else "") + "\n    " + text)
            lines.write(_line(rng, n, rubric) + "\n")
        dataset.write("\n  ]\n}\n")
    digest = sha256((folder / "dataset.json").read_bytes()[:-1]).hexdigest()[:16]
    manifest = {
        "kind": "evaluation", "experiment_name": "big", "created_at": "2026-11-22T17:13:22+00:00",
        "dataset_name": "big", "dataset_hash": digest, "total_items": items, "status": "completed",
        "completed_indices": list(range(items)), "grader_config": {"judges": []},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _line(rng: random.Random, number: int, rubric: Sequence[dict[str, object]]) -> str:
    criteria = []
    for criterion in rubric:
        words = rng.choices(("MET", "UNMET", "CANNOT_ASSESS"), (0.5, 0.45, 0.05), k=2)
        votes = [
            {"judge_id": judge, "verdict": word, "reason": _text(rng, 6)}
            for judge, word in zip(("judge-a", "judge-b"), words, strict=True)
        ]
        verdict = words[0] if words[0] == words[1] else "UNMET"
        reason, confidence = _text(rng, 12), round(rng.random(), 2)
        told = {"criterion": criterion, "final_verdict": verdict, "final_reason": reason, "votes": votes}
        criteria.append({**told, "confidence": confidence})
    report = {
        "report_type": "ensemble",
        "score": rng.random(),
        "error": None,
        "flags": [],
        "criterion_reports": criteria,
    }
    record = {"item_idx": number, "duration_seconds": 0.5, "error": None, "report": report}
    return json.dumps(record, separators=(",", ":"))


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


if __name__ == "__main__":
    run()
