"""`make scale`: a synthesis run and a grading run of a million calls each, watched while they run, then repeated.

Other work on the machine changes wall times, so costs are processor time. It changes that too, but the endpoint's by
about as much, which answers every call with the same work: growth is stated relative to it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from autorubric.testing import LoopbackProcess
from benchmarks.command import Figures, Started, cpu_seconds
from benchmarks.grading_speed import CRITERIA, IN_FLIGHT, dataset_file
from benchmarks.record import Record
from benchmarks.synthesis_speed import CALLS_A_QUERY, queries_file, synthesis_words

QUERIES, ITEMS = 100_000, 100_000
MOST_GROWTH, MOST_MEMORY_GROWTH = 1.10, 1.10
MOST_BYTES = {"synthesize": (400, 5000), "grade": (350, 550)}
"""Bytes a call of the ledger, and of all other files."""
MOST_REPEAT = 60
"""Microseconds of CPU per call, of a finished run that is repeated."""
_WARM = 35_000
"""Calls after which memory has its working size: from there it should not grow, however small the run."""
_SECONDS = 0.5
_MILLION, _CALLS_A_MINUTE = 1_000_000, 10_000
"""Rows to which the figures are extrapolated, and calls per minute of an ordinary tier of an API."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a running command and its endpoint had used when so many calls had been answered."""

    calls: int
    cpu: float
    endpoint_cpu: float
    memory: float


class Cost(NamedTuple):
    """Microseconds of CPU per call: of the command and of the endpoint."""

    command: float
    endpoint: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A command that ended: its figures, samples in order, and the bytes of its ledger and of its other files."""

    figures: Figures
    samples: Sequence[Sample]
    ledger: int
    files: int

    def at(self, share: float) -> Sample:
        """The first sample with a share of all calls."""
        calls = share * self.samples[-1].calls
        return next(sample for sample in self.samples if sample.calls >= calls)

    def cost(self, begin: float, end: float) -> Cost:
        """The median from sample to sample between two shares of the calls.

        The speed of a machine changes within seconds, so the command is compared with the endpoint in each of them.
        """
        most = self.samples[-1].calls
        inside = [sample for sample in self.samples if begin <= sample.calls / most <= end]
        steps = [
            (after.calls - before.calls, after.cpu - before.cpu, after.endpoint_cpu - before.endpoint_cpu)
            for before, after in pairwise(inside)
        ]
        endpoint = statistics.median(theirs / calls * 1e6 for calls, _, theirs in steps)
        return Cost(endpoint * statistics.median(ours / theirs for _, ours, theirs in steps), endpoint)


def watch(words: Sequence[str], out: Path, endpoint: LoopbackProcess) -> Watched:
    """Run a command to its end, and look at it twice a second."""
    before = endpoint.stats()["completed_calls"]
    samples: list[Sample] = []
    with Started(words) as started:
        while started.is_running:
            calls = endpoint.stats()["completed_calls"] - before
            sample = Sample(calls, cpu_seconds(started.pid), cpu_seconds(endpoint.pid), _peak(started.pid))
            if sample.memory and calls > (samples[-1].calls if samples else 0):
                samples.append(sample)
            time.sleep(_SECONDS)
        figures = started.figures()
    calls = endpoint.stats()["completed_calls"] - before
    if calls > (samples[-1].calls if samples else 0):  # the last ones came shortly before the end
        samples.append(Sample(calls, figures.cpu, cpu_seconds(endpoint.pid), figures.memory))
    files = [(path, path.stat().st_size) for path in out.rglob("*") if path.is_file()]
    ledger = sum(size for path, size in files if path.parent.name == "ledger")
    return Watched(figures, samples, ledger, sum(size for _, size in files) - ledger)


def _peak(pid: int) -> float:
    """Peak memory of a process in MB so far; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def run() -> Record:
    """Both runs, their limits, and the table from which docs/scale.md extrapolates."""
    size = float(os.environ.get("SIZE", "1"))
    queries, items = round(QUERIES * size), round(ITEMS * size)
    if min(queries, items) < 1000:
        raise SystemExit(f"SIZE={size:g} is too small; expected at least 0.01")
    record = Record(
        f"SIZE={size:g}: {queries:,} queries x {CALLS_A_QUERY} calls, {items:,} submissions x {CRITERIA} criteria, "
        f"{IN_FLIGHT} in flight, endpoint without latency, replies of 1,200 characters and of a verdict, load "
        f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    )
    ran = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_FOLDER")) as place:
        folder = Path(place)
        with LoopbackProcess("--latency", "fixed:0", "--reply-chars", "1200") as endpoint:
            ran.append(_ran(_synthesize, queries, folder / "synthesize", endpoint))
        with LoopbackProcess("--latency", "fixed:0") as endpoint:
            ran.append(_ran(_grade, items, folder / "grade", endpoint))
    _tell(record, ran)
    return record


@dataclass(frozen=True, slots=True)
class Ran:
    """A run and its repetition, with the calls that it made and those of one row of its input.

    `start` is the CPU of a finished run of one row that is repeated: what starting and ending take.
    """

    name: str
    calls: int
    calls_a_row: int
    start: float
    paid: Watched
    again: Watched

    def a_call(self, amount: float) -> float:
        """An amount of the whole run for one call."""
        return amount / self.calls

    @property
    def repeat(self) -> float:
        """Microseconds of CPU per call of the run again."""
        return self.a_call(self.again.figures.cpu - self.start) * 1e6


def _synthesize(rows: int, folder: Path, base_url: str) -> list[str]:
    return synthesis_words(queries_file(folder, rows), folder / "out", base_url, IN_FLIGHT)


def _grade(rows: int, folder: Path, base_url: str) -> list[str]:
    source, judge = dataset_file(folder, rows), f"judge@{base_url}"
    return ["grade", str(source), "-o", str(folder / "out"), "-j", str(IN_FLIGHT), "--judge", judge]


def _ran(prepare: Callable[[int, Path, str], list[str]], rows: int, folder: Path, endpoint: LoopbackProcess) -> Ran:
    """Run a command on so many rows, after a run on one row."""
    one, out = folder / "one", folder / "out"
    one.mkdir(parents=True)
    words = prepare(1, one, endpoint.base_url)
    calls_a_row = watch(words, one / "out", endpoint).samples[-1].calls
    start = watch(words, one / "out", endpoint).figures.cpu
    words, calls = prepare(rows, folder, endpoint.base_url), rows * calls_a_row
    print(f"{words[0]}: {calls:,} calls", flush=True)
    paid = watch(words, out, endpoint)
    _expect(paid.samples[-1].calls, calls)
    again = watch(words, out, endpoint)
    _expect(len(again.samples), 0)
    print(f"{words[0]}: {paid.figures.wall:.0f} s, {paid.figures.cpu:.0f} s of CPU; again {again.figures.cpu:.1f} s")
    return Ran(words[0], calls, calls_a_row, start, paid, again)


def _tell(record: Record, runs: Sequence[Ran]) -> None:
    """The tables and limits."""
    memory, cost, size, extrapolated = [], [], [], []
    for ran in runs:
        name, paid, calls = ran.name, ran.paid, f"{ran.calls:,}"
        peaks = [paid.at(share).memory for share in (0.1, 0.5, 1)]
        # The last calls are left out: the last sample can include the end of the run.
        first, last = paid.cost(0, 0.3), paid.cost(0.65, 0.95)
        growth = (last.command / first.command) / (last.endpoint / first.endpoint)
        after = ran.a_call(paid.figures.cpu - paid.samples[-1].cpu) * 1e6
        ledger, files, written = map(ran.a_call, (paid.ledger, paid.files, paid.figures.written))
        warm = paid.at(min(1.0, max(0.1, _WARM / ran.calls))).memory
        record.limit(f"{name}: peak memory, all calls to a tenth", peaks[2] / warm, most=MOST_MEMORY_GROWTH)
        record.limit(f"{name}: CPU per call, late calls to early ones", growth, most=MOST_GROWTH)
        record.limit(f"{name}: bytes per call in the ledger", ledger, most=MOST_BYTES[name][0])
        record.limit(f"{name}: bytes per call in other files", files, most=MOST_BYTES[name][1])
        record.limit(f"{name}: microseconds a call of the finished run again", ran.repeat, most=MOST_REPEAT)
        more = [f"{one:.0f}" for one in (*peaks, paid.figures.memory, ran.again.figures.memory)]
        memory.append([name, calls, *more])
        costs = [f"{one:.0f}" for one in (first.command, last.command, first.endpoint, last.endpoint)]
        cost.append([name, calls, *costs, f"{growth:.2f}", f"{after:.0f}", f"{ran.repeat:.0f}"])
        size.append([name, calls, f"{ledger:.0f}", f"{files:.0f}", f"{written:.0f}"])
        extrapolated.append(_extrapolated(ran))
    record.table(
        "memory", ["command", "calls", "MB at 10 %", "at 50 %", "at 100 %", "at the end", "repeated"], memory
    )
    header = ["µs per call, first 30 %", "at 65 to 95 %", "endpoint, first 30 %", "at 65 to 95 %", "growth"]
    record.table("cpu", ["command", "calls", *header, "after the calls", "repeated"], cost)
    record.table("bytes", ["command", "calls", "ledger, bytes per call", "other files", "written to the disk"], size)
    header = ["hours of CPU", "hours at 10,000 calls per minute", "ledger, GB", "other files, GB"]
    record.table("million", ["command", "calls", *header, "repeated, hours of CPU"], extrapolated)


def _extrapolated(ran: Ran) -> list[str]:
    """The cost of a million rows, at the measured cost per row."""
    calls = _MILLION * ran.calls_a_row
    cpu, repeat = (ran.a_call(figures.cpu) * calls / 3600 for figures in (ran.paid.figures, ran.again.figures))
    sizes = [f"{ran.a_call(one) * calls / 1e9:.1f}" for one in (ran.paid.ledger, ran.paid.files)]
    return [ran.name, f"{calls:,}", f"{cpu:.1f}", f"{calls / _CALLS_A_MINUTE / 60:.1f}", *sizes, f"{repeat:.2f}"]


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise SystemExit(f"{found:,} calls were made; expected {wanted:,}")


if __name__ == "__main__":
    run()
