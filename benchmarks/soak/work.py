"""The commands that the soak interrupts, and the audit of their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.testing import LoopbackProcess
from benchmarks.grading_speed import CRITERIA, dataset_file
from benchmarks.synthesis_speed import CALLS_A_QUERY, SLOTS

IN_FLIGHT = 16
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

# Fields of a row about its session rather than its input.
_OF_THE_SESSION = ("duration_seconds",)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was done to the program, how often, what was measured, and whether it held."""

    promise: str
    fault: str
    trials: int
    measured: str
    held: bool


@dataclass(frozen=True, slots=True)
class Work:
    """A command: its words, its directory, where its rows end up, and how many rows and calls there must be."""

    name: str
    words: Sequence[str]
    out: Path
    rows: Path
    key: str
    wanted: int
    calls: int

    @property
    def ledger(self) -> Path:
        return self.out / "ledger" / "ledger.sqlite"

    def start(self, *before: str, environment: Mapping[str, str] = ENVIRONMENT) -> subprocess.Popen[str]:
        """The running command, prefixed with the words `before`, with its output in pipes."""
        pipe = subprocess.PIPE
        return subprocess.Popen([*before, *self.words], stdout=pipe, stderr=pipe, text=True, env=environment)

    def finish(self, *before: str, environment: Mapping[str, str] = ENVIRONMENT) -> tuple[int, str]:
        """The status and everything printed by the command, run to its end."""
        running = self.start(*before, environment=environment)
        out, err = running.communicate(timeout=300)
        return running.returncode, out + err

    def results(self) -> dict[str, Any]:
        """The rows by id, without what a session says of itself; empty where there is no file."""
        found = [json.loads(line) for line in self.rows.read_bytes().splitlines()] if self.rows.exists() else []
        return {str(row[self.key]): {k: v for k, v in row.items() if k not in _OF_THE_SESSION} for row in found}


@dataclass(frozen=True, slots=True)
class Audit:
    """A finished run, compared with the endpoint's counts."""

    lost: int
    doubled: int
    missing: int
    repeated: int

    @property
    def whole(self) -> bool:
        """Whether nothing is lost or duplicated."""
        return not (self.lost or self.doubled or self.missing)

    def __str__(self) -> str:
        return f"rows lost {self.lost}, doubled {self.doubled}; calls paid twice {self.repeated}"


def audited(work: Work, endpoint: LoopbackProcess) -> Audit:
    """The audit of finished work: rows lost and doubled, requests never answered, calls made twice.

    A call that arrived counts as paid, answered or not: some providers bill what nobody waited for.
    """
    lines = work.rows.read_bytes().splitlines() if work.rows.exists() else []
    counts = Counter(json.loads(line)[work.key] for line in lines)
    stats = endpoint.stats()
    return Audit(
        lost=work.wanted - len(counts),
        doubled=sum(count > 1 for count in counts.values()),
        missing=work.calls - stats["distinct_bodies"],
        repeated=stats["requests"] - work.calls,
    )


def synthesis(folder: Path, base_url: str, queries: int = 60, *more: str) -> Work:
    """`autorubric synthesize` with seven models, each call a request of its own."""
    source, out = folder / "q.jsonl", folder / "out"
    rows = [{"id": f"q{i}", "question": f"Query number {i}?"} for i in range(queries)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [sys.executable, "-m", "autorubric", "synthesize", str(source), "--out", str(out)]
    words += ["--id-column", "id", "-j", str(IN_FLIGHT)]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        words += [f"--{part}-model" + (f"-{letter}" if letter else ""), slot, f"--{slot}-base-url", base_url]
    words += more
    return Work("synthesize", words, out, out / "final.jsonl", "id", queries, queries * CALLS_A_QUERY)


def grading(folder: Path, base_url: str, items: int = 40, *more: str) -> Work:
    """`autorubric grade` with one judge and ten criteria an item."""
    source, out = dataset_file(folder, items), folder / "out"
    words = [sys.executable, "-m", "autorubric", "grade", str(source), "-o", str(out)]
    words += ["--judge", f"judge@{base_url}", "-j", str(IN_FLIGHT), *more]
    return Work("grade", words, out, out / "items.jsonl", "item_idx", items, items * CRITERIA)


def selection(folder: Path, base_url: str, queries: int = 40, *more: str) -> Work:
    """`autorubric select` with a sampled answer a query and two criteria to judge it by."""
    source, out = folder / "final.jsonl", folder / "out"
    rubric = [{"criterion": f"Names fact {number}.", "points": 1} for number in range(2)]
    rows = [{"id": f"q{i}", "question": f"Query number {i}?", "rubrics": rubric} for i in range(queries)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [sys.executable, "-m", "autorubric", "select", str(source), "-o", str(out), "-k", "1"]
    words += ["--sample", f"writer@{base_url}", "--judge", f"judge@{base_url}", "-j", str(IN_FLIGHT), *more]
    return Work("select", words, out, out / "decisions.jsonl", "id", queries, queries * (1 + len(rubric)))


WORKS = (synthesis, grading)


def until_answered(endpoint: LoopbackProcess, count: int) -> None:
    """Return when the endpoint has answered `count` calls."""
    ends = time.monotonic() + 60
    while endpoint.stats()["completed_calls"] < count:
        if time.monotonic() > ends:
            raise SystemExit(f"the command did not get to {count} calls")
        time.sleep(0.02)
