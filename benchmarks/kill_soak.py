"""SIGKILL at random points over small runs, and the finished runs held against the endpoint's books."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.grading_speed import CRITERIA, dataset_file
from benchmarks.synthesis_speed import CALLS_A_QUERY, SLOTS

KILLS = 50
QUERIES = 240
ITEMS = 180
IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class Work:
    """A command that is killed again and again: its words, where its rows end up, and how many there must be."""

    name: str
    words: Sequence[str]
    rows: Path
    key: str
    wanted: int
    calls: int


def run() -> None:
    """Print, for synthesis and for grading, kills, calls paid twice, rows lost and rows doubled."""
    for make in (_synthesis, _grading):
        with (
            LoopbackProcess("--latency", "lognormal:0.1,0.6", "--reply-chars", "600") as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            _soak(make(Path(folder), endpoint.base_url), endpoint)


def _soak(work: Work, endpoint: LoopbackProcess) -> None:
    kills, repeats = _killed(work.words, endpoint)
    counts = Counter(json.loads(line)[work.key] for line in work.rows.read_bytes().splitlines())
    stats = endpoint.stats()
    lost, doubled = work.wanted - len(counts), sum(count > 1 for count in counts.values())
    mean, most = stats["repeated_calls"] / max(kills, 1), max(repeats, default=0)
    print(f"{work.name}: {kills} SIGKILLs over {work.calls:,} calls, {IN_FLIGHT} in flight")
    print(f"  rows {len(counts)}, lost {lost}, doubled {doubled}")
    print(f"  paid twice {stats['repeated_calls']} ({mean:.1f} a kill, most {most})", flush=True)
    if lost or doubled or stats["distinct_bodies"] != work.calls:
        raise SystemExit("the soak found lost, doubled or missing work")


def _killed(command: Sequence[str], endpoint: LoopbackProcess) -> tuple[int, list[int]]:
    """Start and kill until `KILLS` kills are done or the work is, then let it finish."""
    rng = random.Random(2026)
    kills, repeats, before = 0, [], 0
    while kills < KILLS:
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.6 + rng.random() * 0.5)
        if running.poll() is not None:
            break
        running.kill()
        running.wait()
        kills += 1
        time.sleep(0.3)  # what was in flight is answered into the void
        repeated = endpoint.stats()["repeated_calls"]
        repeats.append(repeated - before)
        before = repeated
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit("the run could not be finished after the kills")
    return kills, repeats


def _synthesis(folder: Path, base_url: str) -> Work:
    source, out = folder / "q.jsonl", folder / "out"
    rows = [{"id": f"q{i}", "question": f"Query number {i}?"} for i in range(QUERIES)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [sys.executable, "-m", "autorubric", "synthesize", str(source), "--out", str(out)]
    words += ["--id-column", "id", "-j", str(IN_FLIGHT)]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        words += [f"--{part}-model" + (f"-{letter}" if letter else ""), slot, f"--{slot}-base-url", base_url]
    return Work("synthesis", words, out / "final.jsonl", "id", QUERIES, QUERIES * CALLS_A_QUERY)


def _grading(folder: Path, base_url: str) -> Work:
    source, out = dataset_file(folder, ITEMS), folder / "out"
    words = [sys.executable, "-m", "autorubric", "grade", str(source), "-o", str(out)]
    words += ["--judge", f"judge@{base_url}", "-j", str(IN_FLIGHT)]
    return Work("grading", words, out / "items.jsonl", "item_idx", ITEMS, ITEMS * CRITERIA)


if __name__ == "__main__":
    run()
