"""Grading against the loopback endpoint: calls per second, CPU per call, memory, resume, prefix caches."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.testing import LoopbackProcess
from benchmarks.command import Figures, Started, cpu_seconds, measured, on_our_loop
from benchmarks.record import Record

ITEMS, CRITERIA, IN_FLIGHT = 2000, 10, 256
PAIRS = 3
ROUNDS = 9
CALLS = ITEMS * CRITERIA
MOST_CPU, MOST_WALL, MOST_OF_COMMAND = 2.0, 1.11, 1.1
"""Limits, as multiples of the floor's CPU and wall time, and of the command's CPU."""
MOST_MEMORY, MOST_REPEAT = 120, 60
"""Guards: MB, and microseconds a call of a run that is repeated when it has ended."""

_SENTENCE = "The essay names the cause, gives one worked example, and says where it stops to hold. "


def dataset_file(folder: Path, items: int, characters: int = 1000) -> Path:
    """A dataset of submissions that differ from their first words on."""
    rubric = Rubric([Criterion(name=f"c{n}", requirement=f"Names fact {n} and its source") for n in range(CRITERIA)])
    text = _SENTENCE * (characters // len(_SENTENCE) + 1)
    made = RubricDataset("Explain the tides.", rubric, name="bench")
    made.items = [DataItem(f"Essay {n}. {text}"[:characters], f"essay {n}", id=f"e{n}") for n in range(items)]
    folder.mkdir(exist_ok=True)
    path = folder / "essays.json"
    made.to_file(path)
    return path


def grade_words(source: Path, out: Path, base_url: str, *more: str) -> list[str]:
    """The arguments of `autorubric grade`."""
    return ["grade", str(source), "-o", str(out), "--judge", f"judge@{base_url}", "-j", str(IN_FLIGHT), *more]


def grade(source: Path, out: Path, base_url: str, *more: str, **variables: str) -> Figures:
    """Run `autorubric grade` in a separate process."""
    return measured(grade_words(source, out, base_url, *more), **variables)


_API = """
import asyncio
from pathlib import Path
from autorubric import LLMConfig, RubricDataset, evaluate, grade
from autorubric.runs.plan import EvalConfig
from autorubric.runs.runner import EvalRunner
from autorubric.graders import CriterionGrader
how, source, out, base_url = sys.argv[1:]
out = Path(out)
grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=base_url))
settings = {"experiments_dir": out.parent, "experiment_name": out.name}
if how == "grade":
    result = grade(source, judge=f"judge@{base_url}", out=out)
elif how == "evaluate":
    result = asyncio.run(evaluate(RubricDataset.from_file(source), grader, **settings))
else:
    result = EvalRunner(RubricDataset.from_file(source), grader, EvalConfig(**settings)).run_sync()
status = 1 if result.errors else 0
"""


async def floor(base_url: str, calls: int) -> tuple[float, float]:
    """Seconds and CPU seconds that a bare aiohttp loop takes for as many calls of the same size."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    text = "x" * 4000
    started, cpu = time.perf_counter(), time.process_time()

    async def call(session: aiohttp.ClientSession, number: int) -> None:
        body: dict[str, Any] = {"model": "judge", "max_tokens": 2048, "temperature": 0.0}
        body["messages"] = [{"role": "user", "content": f"{number} {text} criterion_status"}]
        try:
            async with session.post(f"{base_url}/chat/completions", data=json.dumps(body)) as response:
                json.loads(await response.read())
        finally:
            slots.release()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for number in range(calls):
            await slots.acquire()
            group.create_task(call(session, number))
    return time.perf_counter() - started, time.process_time() - cpu


def run() -> Record:
    """Measure, and fail where a ratio to the floor or to the command is missed; memory and resume are guards."""
    record = Record(f"{ITEMS:,} items x {CRITERIA} criteria = {CALLS:,} calls, {IN_FLIGHT} in flight, start left out")
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), _start(Path(name))
        source = dataset_file(folder, ITEMS)
        rows = [_speed(record, source, folder / latency, latency, start) for latency in ("fixed:0", "fixed:0.2")]
        header = [
            "latency",
            "calls/s",
            "floor calls/s",
            "µs of CPU per call",
            "floor µs",
            "peak MB",
            "repeated run s",
        ]
        record.table("command", header, rows)
        header = ["function", "µs of CPU per call", "command µs", "ratio", "least", "most"]
        record.table("python", header, _python(record, folder))
        header = ["times the CPU of the floor", "least", "most"]
        record.table("overhead", header, _overhead(record, source, folder))
    header = ["8 kB submissions", "prompt tokens per item", "cached"]
    record.table("prefix", header, _prefix_caches())
    return record


def _start(folder: Path) -> Figures:
    """The cost of the command for one item."""
    with LoopbackProcess("--latency", "fixed:0") as endpoint:
        return grade(dataset_file(folder, 1), folder / "start", endpoint.base_url)


def _speed(record: Record, source: Path, out: Path, latency: str, start: Figures) -> list[str]:
    """A row of the table: the command against the floor, and the same command again."""
    with LoopbackProcess("--latency", latency) as endpoint:
        floor_wall, floor_cpu = on_our_loop(floor(endpoint.base_url, CALLS))
        before = endpoint.stats()["completed_calls"]
        figures = grade(source, out, endpoint.base_url)
        calls = endpoint.stats()["completed_calls"] - before
        _expect(calls, CALLS)
        again = grade(source, out, endpoint.base_url)
        _expect(endpoint.stats()["completed_calls"] - before - calls, 0)
    wall, cpu = figures.wall - start.wall, (figures.cpu - start.cpu) / CALLS * 1e6
    record.limit(f"{latency}: MB at most", figures.memory, most=MOST_MEMORY)
    record.limit(f"{latency}: us a call of a finished run", (again.wall - start.wall) / CALLS * 1e6, most=MOST_REPEAT)
    if latency != "fixed:0":
        record.limit(f"{latency}: times the floor's wall", wall / floor_wall, most=MOST_WALL)
    rates, memory = [f"{CALLS / seconds:,.0f}" for seconds in (wall, floor_wall)], f"{figures.memory:.0f}"
    return [latency, *rates, f"{cpu:.0f}", f"{floor_cpu / CALLS * 1e6:.0f}", memory, f"{again.wall:.1f}"]


def _python(record: Record, folder: Path) -> list[list[str]]:
    """The CPU of a call from Python against the command's; both run at the same time, so that noise hits both.

    The limit is that of all ratios but the least, which is above the true median in 2 % of all cases: (1 + 9) / 2^9.
    """
    rows, half, small = [], dataset_file(folder / "half", ITEMS // 2), dataset_file(folder / "small", 1)
    with LoopbackProcess("--latency", "fixed:0") as endpoint, LoopbackProcess("--latency", "fixed:0") as other:
        urls = endpoint.base_url, other.base_url
        for how in ("grade", "evaluate", "run_sync"):
            began = _both(how, small, folder / f"{how}-start", urls)
            runs = [_both(how, half, folder / f"{how}-{number}", urls) for number in range(ROUNDS)]
            python, command = ([(run[n] - began[n]) * 2 / CALLS * 1e6 for run in runs] for n in range(2))
            ratios = sorted(ours / theirs for ours, theirs in zip(python, command, strict=True))
            record.limit(f"{how}: times the CPU of the command in all pairs but one", ratios[1], most=MOST_OF_COMMAND)
            shown = [f"{value:.2f}" for value in (statistics.median(ratios), ratios[0], ratios[-1])]
            rows.append([how, *(f"{statistics.median(side):.0f}" for side in (python, command)), *shown])
    return rows


def _both(how: str, source: Path, out: Path, urls: tuple[str, str]) -> tuple[float, float]:
    """The CPU seconds of a function (`grade`, `evaluate` in `asyncio.run`, or `run_sync`) and of the command."""
    words = grade_words(source, out.with_name(f"{out.name}-command"), urls[1])
    with Started([how, str(source), str(out), urls[0]], _API) as python, Started(words) as command:
        return python.figures().cpu, command.figures().cpu


def _overhead(record: Record, source: Path, folder: Path) -> list[list[str]]:
    """The CPU of a call against that of a bare loop that runs at the same time, so that noise hits both."""
    ratios = []
    with LoopbackProcess("--latency", "fixed:0") as endpoint, LoopbackProcess("--latency", "fixed:0") as other:
        for number in range(PAIRS):
            with Started(grade_words(source, folder / f"overhead-{number}", endpoint.base_url)) as started:
                ratios.append(_times_the_floor(started, endpoint, other.base_url))
    median = statistics.median(ratios)
    record.limit("times the CPU of a bare loop", median, most=MOST_CPU)
    return [[f"{value:.2f}" for value in (median, min(ratios), max(ratios))]]


def _times_the_floor(started: Started, endpoint: LoopbackProcess, base_url: str) -> float:
    """The CPU of a call of a command, while a bare loop makes half as many, over that of a call of the loop."""
    before = first = endpoint.stats()["completed_calls"]
    while started.is_running and first == before:
        time.sleep(0.05)
        first = endpoint.stats()["completed_calls"]
    cpu = -cpu_seconds(started.pid)
    floor_cpu = on_our_loop(floor(base_url, CALLS // 2))[1] / (CALLS // 2)
    calls: int = endpoint.stats()["completed_calls"] - first
    cpu += cpu_seconds(started.pid)
    started.figures()
    _expect(endpoint.stats()["completed_calls"] - before, CALLS)
    return cpu / calls / floor_cpu


def _prefix_caches() -> list[list[str]]:
    flags = {"first call ahead": (), "all at once": ("--no-prefix-first",)}
    return [[name, *(f"{tokens:,.0f}" for tokens in _tokens(100, more))] for name, more in flags.items()]


def _tokens(items: int, flags: Sequence[str]) -> tuple[float, float]:
    with (
        LoopbackProcess("--latency", "fixed:0.05", "--prefix-cache") as endpoint,
        tempfile.TemporaryDirectory() as folder,
    ):
        source = dataset_file(Path(folder), items, characters=8000)
        out = Path(folder) / "run"
        grade(source, out, endpoint.base_url, *flags)
        from autorubric.llm.records.ledger import Ledger

        with Ledger.open(out / "ledger") as ledger:
            [total] = ledger.add_up()
    cached = total.usage.cached_tokens
    return (total.usage.prompt_tokens - cached) / items, cached / items


def _expect(calls: int, wanted: int) -> None:
    if calls != wanted:
        raise SystemExit(f"{calls} calls were made; expected {wanted}")


if __name__ == "__main__":
    run()
