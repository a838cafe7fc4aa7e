"""The report of 10,000 graded items by 10 criteria: seconds, memory and size of the file, in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import Record

ITEMS, CRITERIA = 10_000, 10
MOST_CPU = 20.0
"""A guard, times the CPU of the floor: a third above what was measured on 2026-11-23."""
MOST_MEMORY, MOST_BYTES = 150.0, 300.0
"""The goals: MB, and kB without the texts that are shown. The guide states that a comparison is larger."""
MOST_COMPARED = 400.0
"""A guard on the kB of a comparison: a third above what was measured on 2026-11-23."""
_TEXT = "The moon pulls the water, and the sun helps a little. " * 8


def run() -> Record:
    """CPU, memory and size of each kind of report, against `json.loads` of the runs it reads."""
    record, rows = Record(f"{ITEMS:,} items × {CRITERIA} criteria; CPU with start-up; floor: json.loads of items"), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one in ("now", "before"):
            _write_run(folder / one, 0 if one == "now" else 7)
        for words in (["now"], ["now", "--no-text"], ["now", "--against", "before"], ["now", "--format", "md"]):
            rows.append(_measure(folder, words, record))
    record.table("reports", ["report", "floor s of CPU", "s of CPU", "s", "MB", "kB", "kB of texts"], rows)
    return record


def _measure(folder: Path, words: list[str], record: Record) -> list[str]:
    out = folder / "report.html"
    command = [sys.executable, "-m", "autorubric", "report", *words, "-o", out.name, "--force"]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, memory = time.perf_counter() - started, _bytes(used)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    size, texts, name = out.stat().st_size / 1e3, _texts(folder, words) / 1e3, " ".join(words[1:]) or "one run"
    cpu = used.ru_utime + used.ru_stime
    floor = sum(_floor(folder / run / "items.jsonl") for run in {"now", "before"} & set(words))
    record.limit(f"{name}: CPU, times the floor", cpu / floor, most=MOST_CPU)
    record.limit(f"{name}: MB", memory / 1e6, most=MOST_MEMORY)
    record.limit(f"{name}: kB without texts", size - texts, most=MOST_BYTES, known="--against" in words)
    record.limit(f"{name}: kB without texts, guard", size - texts, most=MOST_COMPARED)
    shown = [f"{floor:.2f}", f"{cpu:.2f}", f"{seconds:.1f}", f"{memory / 1e6:.0f}", f"{size:.0f}", f"{texts:.0f}"]
    return [name, *shown]


def _floor(path: Path) -> float:
    started = time.process_time()
    for line in path.read_text("utf-8").splitlines():
        json.loads(line)
    return time.process_time() - started


def _bytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def _texts(folder: Path, words: list[str]) -> int:
    """The bytes of submissions, queries, requirements and reasons of the fifty items that a report shows."""
    if "--no-text" in words or "md" in words:
        return 0
    return 50 * (len(_TEXT) + len("Explain the tides.") + CRITERIA * (len(_requirement(0)) + len(_reason(0, 0))))


def _requirement(number: int) -> str:
    return f"Requirement {number}: names the cause that the water rises twice a day."


def _reason(item: int, number: int) -> str:
    return f"Reason {item}.{number}: the essay names the moon as the cause in its first sentence."


def _write_run(folder: Path, shift: int) -> None:
    folder.mkdir()
    rubric = [{"name": f"Criterion {n}", "weight": n + 1, "requirement": _requirement(n)} for n in range(CRITERIA)]
    head = json.dumps({"name": "tides", "prompt": "Explain the tides.", "rubric": rubric}, indent=2)[:-2]
    with (folder / "dataset.json").open("w", encoding="utf-8") as file:
        file.write(head + ',\n  "items": [')
        for n in range(ITEMS):
            item = {"id": f"e{n}", "submission": _TEXT, "description": f"essay {n}", "ground_truth": _labels(n)}
            indented = json.dumps(item, indent=2).replace("\n", "\n    ")
            file.write(f"{',' if n else ''}\n    {indented}")
        file.write("\n  ]\n}\n")
    with (folder / "items.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(_lines(rubric, shift))
    manifest = {"kind": "evaluation", "experiment_name": folder.name, "status": "completed", "total_items": ITEMS}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _labels(item: int) -> list[str]:
    return ["MET" if (item * 3 + n) % 5 else "UNMET" for n in range(CRITERIA)]


def _lines(rubric: list[dict[str, Any]], shift: int) -> Iterator[str]:
    for item in range(ITEMS):
        verdicts = ["MET" if ((item + shift) * 7 + n) % 3 else "UNMET" for n in range(CRITERIA)]
        score = sum(n + 1 for n in range(CRITERIA) if verdicts[n] == "MET") / sum(range(1, CRITERIA + 1))
        found = [
            {"criterion": one, "final_verdict": verdict, "final_reason": _reason(item, n), "votes": []}
            for n, (one, verdict) in enumerate(zip(rubric, verdicts, strict=True))
        ]
        report = {"report_type": "ensemble", "score": score, "error": None, "flags": [], "criterion_reports": found}
        record = {"item_idx": item, "duration_seconds": 0.5, "error": None, "report": report}
        yield json.dumps(record, separators=(",", ":")) + "\n"
