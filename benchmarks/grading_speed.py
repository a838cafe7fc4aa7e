"""Grading against the loopback endpoint: calls a second, CPU a call, memory, resume, and what prefix caches save."""

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
from benchmarks.command import Figures, measured, on_our_loop

ITEMS, CRITERIA, IN_FLIGHT = 2000, 10, 256
PAIRS = 5
CALLS = ITEMS * CRITERIA

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


def grade(source: Path, out: Path, base_url: str, *more: str, **variables: str) -> Figures:
    """Run `autorubric grade` in a process of its own."""
    flags = ["-o", str(out), "--judge", f"judge@{base_url}", "-j", str(IN_FLIGHT), *more]
    return measured(["grade", str(source), *flags], **variables)


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
dataset = RubricDataset.from_file(source)
if how == "grade":
    result = grade(source, judge=f"judge@{base_url}", out=out)
elif how == "evaluate":
    result = asyncio.run(evaluate(dataset, grader, **settings))
else:
    result = EvalRunner(dataset, grader, EvalConfig(**settings)).run_sync()
status = 1 if result.errors else 0
"""


def from_python(how: str, source: Path, out: Path, base_url: str) -> Figures:
    """The same from Python, in a process of its own: `grade`, `evaluate` in `asyncio.run`, or `run_sync`."""
    return measured([how, str(source), str(out), base_url], _API)


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


def run() -> None:
    """Print the figures beside their targets."""
    print(f"Grading: {ITEMS:,} items x {CRITERIA} criteria = {CALLS:,} calls")
    with tempfile.TemporaryDirectory() as folder:
        start = _start(Path(folder))
        print(f"Rates and CPU leave out the {start.wall:.2f} s that starting and ending take, whatever the input.")
        source = dataset_file(Path(folder), ITEMS)
        _speed(source, Path(folder) / "fast", "fixed:0", start, bound=None)
        _speed(source, Path(folder) / "slow", "fixed:0.2", start, bound=IN_FLIGHT / 0.2)
        _python(source, Path(folder), start)
        _transports(Path(folder))
    _prefix_caches()


def _start(folder: Path) -> Figures:
    """What the command takes for one item."""
    with LoopbackProcess("--latency", "fixed:0") as endpoint:
        return grade(dataset_file(folder, 1), folder / "start", endpoint.base_url)


def _speed(source: Path, out: Path, latency: str, start: Figures, bound: float | None) -> None:
    with LoopbackProcess("--latency", latency) as endpoint:
        floor_wall, floor_cpu = on_our_loop(floor(endpoint.base_url, CALLS))
        before = endpoint.stats()["completed_calls"]
        figures = grade(source, out, endpoint.base_url)
        calls = endpoint.stats()["completed_calls"] - before
        _expect(calls, CALLS)
        again = grade(source, out, endpoint.base_url)
        _expect(endpoint.stats()["completed_calls"] - before - calls, 0)
    rate = CALLS / (figures.wall - start.wall)
    share = f", {rate / bound:.0%} of the bound (target 90 %)" if bound else " (target 2,500)"
    print(f"{latency}: {rate:,.0f} calls/s{share}; a bare aiohttp loop {CALLS / floor_wall:,.0f}")
    cpu = (figures.cpu - start.cpu) / CALLS * 1e6
    print(
        f"  {cpu:.0f} us of CPU a call (target 350), bare loop {floor_cpu / CALLS * 1e6:.0f}; "
        f"peak memory {figures.memory:.0f} MB (target 120)"
    )
    print(f"  finished run again: {again.wall:.1f} s (target 3), 0 calls, {again.memory:.0f} MB", flush=True)


def _python(source: Path, folder: Path, start: Figures) -> None:
    """The CPU of a call from Python, measured in turn with the command's, so that noise hits both."""
    for how in ("grade", "evaluate", "run_sync"):
        with LoopbackProcess("--latency", "fixed:0") as endpoint:
            small = dataset_file(folder / "small", 1)
            began = from_python(how, small, folder / f"{how}-start", endpoint.base_url)
            command = grade(source, folder / f"{how}-command", endpoint.base_url)
            python = from_python(how, source, folder / how, endpoint.base_url)
        spent, spent_command = ((f.cpu - s.cpu) / CALLS * 1e6 for f, s in ((python, began), (command, start)))
        print(
            f"from Python, {how}: {spent:.0f} us of CPU a call, the command {spent_command:.0f} "
            f"(ratio {spent / spent_command:.2f}, target 1.10)",
            flush=True,
        )


def _transports(folder: Path) -> None:
    """The CPU of a call through each HTTP library, measured in turn."""
    spent: dict[str, list[float]] = {"aiohttp": [], "pyreqwest": []}
    many, one = dataset_file(folder / "half", ITEMS // 2), dataset_file(folder / "one", 1)
    with LoopbackProcess("--latency", "fixed:0") as endpoint:
        for number in range(PAIRS):
            floor_cpu = on_our_loop(floor(endpoint.base_url, CALLS // 2))[1]
            for library, rounds in spent.items():
                out, chosen = folder / f"{library}-{number}", {"AUTORUBRIC_TRANSPORT": library}
                began = grade(one, out.with_suffix(".one"), endpoint.base_url, **chosen)
                figures = grade(many, out, endpoint.base_url, **chosen)
                rounds.append((figures.cpu - began.cpu) / floor_cpu)
    for library, rounds in spent.items():
        print(f"{library}: {statistics.median(rounds):.2f} times the CPU of a bare aiohttp loop, median of {PAIRS}")
    saved = statistics.median(1 - other / usual for usual, other in zip(*spent.values(), strict=True))
    print(f"pyreqwest saves {saved:.0%} of the CPU of a call, median of {PAIRS} pairs", flush=True)


def _prefix_caches() -> None:
    items = 100
    for name, flags in (("first call ahead", ()), ("all at once", ("--no-prefix-first",))):
        computed, cached = _tokens(items, flags)
        print(
            f"prefix cache, 8 kB submissions, {name}: {computed:,.0f} tokens an item computed, {cached:,.0f} cached"
        )


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
            [total] = ledger.totals()
    cached = total.usage.cached_tokens
    return (total.usage.prompt_tokens - cached) / items, cached / items


def _expect(calls: int, wanted: int) -> None:
    if calls != wanted:
        raise SystemExit(f"{calls} calls were made; expected {wanted}")


if __name__ == "__main__":
    run()
