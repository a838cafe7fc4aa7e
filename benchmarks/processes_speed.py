"""One process against two (`--processes 2`): a job of checks that keeps a core busy, and one of judge calls.

Wall times on a shared machine favour two processes, which get twice the share of one. The processor time on the
longest path does not depend on the load: that of the first process, and half of that of the two others. Each process
pays its own start, so the figures are those of the rows between a small and a large job.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.grading_speed import dataset_file
from benchmarks.record import Record

CHARACTERS, SIZES = 8000, (150, 750)
_WORDS = ("tide", "moon", "water", "gravity", "bulge", "orbit", "shore", "depth", "wave", "season", "current", "wind")

_COMMAND = """
import json, resource, sys
from autorubric.cli.app import run
status = run(sys.argv[1:])
own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps([status, own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime]))
"""


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of a command: on the clock, of its own processor, and of those of its other processes together."""

    wall: float
    own: float
    others: float

    def longest_path(self, processes: int) -> float:
        """Processor seconds that cannot overlap, where the other processes have equal shares of the work."""
        return self.own + self.others / processes


def took(words: Sequence[str]) -> Took:
    """The cost of a command in a separate process."""
    started = time.perf_counter()
    command = [sys.executable, "-c", _COMMAND, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    wall = time.perf_counter() - started
    status, own, others = json.loads(done.stdout.splitlines()[-1])
    if status != 0:
        raise SystemExit(f"the run ended with status {status}:\n{done.stdout}")
    return Took(wall, own, others)


def checked_file(folder: Path, essays: int) -> Path:
    """Essays that checks decide: sentences, length and twelve words each."""
    checks = [
        {"name": "sentence_count", "parameters": {"at_least": 3}},
        {"name": "word_count", "parameters": {"at_most": 5000}},
        *({"name": "regex", "parameters": {"pattern": rf"(?i)\b{word}s?\b"}} for word in _WORDS),
    ]
    rubric = [
        {"name": f"c{n}", "weight": 1, "requirement": f"Passes check {n}.", "check": c} for n, c in enumerate(checks)
    ]
    body = " ".join(
        f"The {_WORDS[n % 12]} rises with the {_WORDS[(5 * n) % 12]}, as Dr. Fox said." for n in range(400)
    )
    items = [{"submission": f"Essay {n}. {body}"[:CHARACTERS], "description": ""} for n in range(essays)]
    path = folder / "checked.json"
    path.write_text(json.dumps({"prompt": "Explain the tides.", "rubric": rubric, "items": items}))
    return path


def compare(name: str, sources: Sequence[Path], folder: Path, *flags: str) -> tuple[float, list[str]]:
    """By how much two processes shorten the longest path, and a row of the table.

    Both for the rows between a small and a large job; the last columns are the seconds of the large one.
    """
    rows = SIZES[1] - SIZES[0]
    more: dict[int, Took] = {}
    walls: list[str] = []
    for processes in (1, 2):
        small, large = (
            took(
                [
                    "grade",
                    str(source),
                    "-o",
                    str(folder / f"{name}{n}{processes}"),
                    "--processes",
                    f"{processes}",
                    *flags,
                ]
            )
            for n, source in enumerate(sources)
        )
        more[processes] = Took(large.wall - small.wall, large.own - small.own, large.others - small.others)
        walls.append(f"{large.wall:.1f}")
    one, two = more[1].longest_path(1), more[2].longest_path(2)
    return one / two, [name, f"{1000 * one / rows:.1f}", f"{1000 * two / rows:.1f}", f"{one / two:.2f}", *walls]


GOAL = 1.8
"""By how much two processes should be faster where the processor limits. The guide states the measured gain."""


def run() -> Record:
    """The figures of both jobs; the floor is one process."""
    record = Record(f"rows {SIZES[0]} to {SIZES[1]}; ms of CPU per row on the longest path; floor: one process")
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        places = [folder / str(size) for size in SIZES]
        for path in places:
            path.mkdir()
        checked = [checked_file(path, size) for path, size in zip(places, SIZES, strict=True)]
        found["checks"] = compare("checks", checked, folder)
        with LoopbackProcess() as endpoint:
            sources = [dataset_file(path, size) for path, size in zip(places, SIZES, strict=True)]
            found["judge calls"] = compare("judge-calls", sources, folder, "--judge", f"judge@{endpoint.base_url}")
    for name, (gain, _) in found.items():
        record.limit(f"{name}: gain of two processes", gain, least=1.0)
    record.limit("checks: goal", found["checks"][0], least=GOAL, known=True)
    header = ["job", "one process", "two processes", "ratio", f"s for {SIZES[1]} rows, one process", "two processes"]
    record.table("gain", header, [row for _, row in found.values()])
    return record


if __name__ == "__main__":
    run()
