"""SIGKILL at random points over one small run, and the finished run held against the endpoint's books."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.synthesis_speed import CALLS_A_QUERY, SLOTS

KILLS = 50
QUERIES = 240
IN_FLIGHT = 16


def run() -> None:
    """Print kills, calls paid twice for each kill, rows lost and rows doubled."""
    with (
        LoopbackProcess("--latency", "lognormal:0.1,0.6", "--reply-chars", "600") as endpoint,
        tempfile.TemporaryDirectory() as folder,
    ):
        kills, repeats = _killed_runs(Path(folder), endpoint)
        rows = [json.loads(line) for line in (Path(folder) / "out" / "final.jsonl").read_bytes().splitlines()]
        stats = endpoint.stats()
    counts = Counter(row["id"] for row in rows)
    lost = QUERIES - len(counts)
    doubled = sum(count > 1 for count in counts.values())
    print(f"{kills} SIGKILLs over {QUERIES} queries x {CALLS_A_QUERY} calls, {IN_FLIGHT} in flight")
    print(f"rows lost {lost}, rows doubled {doubled}, rows {len(rows)}")
    print(f"distinct calls {stats['distinct_bodies']}, paid twice {stats['repeated_calls']}", end="")
    mean, most = stats["repeated_calls"] / max(kills, 1), max(repeats, default=0)
    print(f" ({mean:.1f} a kill, most {most}; in flight {IN_FLIGHT})")
    if lost or doubled or stats["distinct_bodies"] != QUERIES * CALLS_A_QUERY:
        raise SystemExit("the soak found lost, doubled or missing work")


def _killed_runs(folder: Path, endpoint: LoopbackProcess) -> tuple[int, list[int]]:
    """Start and kill until `KILLS` kills are done or the work is, then let it finish."""
    source = folder / "q.jsonl"
    rows = [{"id": f"q{i}", "question": f"Query number {i}?"} for i in range(QUERIES)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "autorubric", "synthesize", str(source), "--out", str(folder / "out")]
    command += ["--id-column", "id", "-j", str(IN_FLIGHT)]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        command += [f"--{part}-model" + (f"-{letter}" if letter else ""), slot]
        command += [f"--{slot}-base-url", endpoint.base_url]
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


if __name__ == "__main__":
    run()
