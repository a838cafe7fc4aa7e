"""The cost of the ledger and the executor per call, compared with the same calls without them."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Message, Reply, Request, Usage
from benchmarks.record import Record

CALLS = 20_000
IN_FLIGHT = 64
REPLY_BYTES = 2_000
LATENCY = 0.2
SPREAD = 0.8

Ask: TypeAlias = Callable[[Request], Awaitable[object]]


@dataclass(frozen=True)
class Measured:
    wall: float
    cpu: float
    written: int

    def cells(self, calls: int) -> list[str]:
        """Calls a second, CPU and bytes of a call."""
        return [f"{calls / self.wall:,.0f}", f"{1e6 * self.cpu / calls:.1f}", f"{self.written / calls:,.0f}"]


class PlainModel:
    """Answers after about `latency` seconds (lognormal), at once for 0; `IN_FLIGHT` calls at a time."""

    name = "bench/plain"

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self.places = asyncio.Semaphore()
        chance = random.Random(7)
        words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(2_000)]
        self._texts = [" ".join(chance.choices(words, k=330))[:REPLY_BYTES] for _ in range(500)]
        self._latencies = [latency * chance.lognormvariate(0, SPREAD) for _ in range(997)]

    def identity(self) -> tuple[Any, ...]:
        return ("http://localhost:1/v1", "plain", {"temperature": 0.0, "max_tokens": 1000})

    def ceiling(self, request: Request) -> Usage:
        return Usage(1_000, 1_000)

    def cost(self, usage: Usage) -> float:
        return usage.total_tokens * 1e-6

    async def complete(self, request: Request) -> Reply:
        number = int(request.item[1:])
        latency = self._latencies[number % len(self._latencies)]
        async with self.places:
            await asyncio.sleep(latency)
        text = self._texts[number % len(self._texts)]
        return Reply(text, model="plain", usage=Usage(500, 500), cost=0.001, latency=latency)

    async def close(self) -> None: ...


MOST_WALL = 1.08
"""Times the floor with a model that takes 0.2 s: the ledger keeps 2,000 calls per second within 8 % of no ledger."""


def run() -> Record:
    """The price of the ledger, at full speed and at 200 ms per call, and of hits."""
    record = Record(f"{IN_FLIGHT} in flight, replies of {REPLY_BYTES:,} bytes; floor: no executor, no ledger")
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        rows += _compare("no latency", PlainModel(), CALLS, Path(folder) / "fast", record)
        rows += _compare(f"{LATENCY} s", PlainModel(LATENCY), CALLS // 10, Path(folder) / "slow", record)
    record.table(
        "calls", ["latency", "calls", "", "calls per second", "µs CPU per call", "bytes written per call"], rows
    )
    return record


def _compare(title: str, model: PlainModel, calls: int, directory: Path, record: Record) -> list[list[str]]:
    floor = _measure(model, model.complete, calls)
    paid, hits = (_measure_executor(model, calls, directory) for _ in range(2))
    if model.latency:
        record.limit(f"{title}: wall, times the floor", paid.wall / floor.wall, most=MOST_WALL)
        record.limit(f"{title}: wall of hits, times the calls", hits.wall / paid.wall, most=1.0)
    named = {"floor": floor, "executor and ledger": paid, "the same again": hits}
    return [[title, f"{calls:,}", name, *one.cells(calls)] for name, one in named.items()]


def _measure_executor(model: PlainModel, calls: int, directory: Path) -> Measured:
    with Ledger.open(directory) as ledger:
        executor = Executor(ledger)
        return _measure(model, lambda request: executor.ask(model, request), calls, ledger.close)


def _measure(model: PlainModel, ask: Ask, calls: int, finish: Callable[[], None] = lambda: None) -> Measured:
    requests = _requests(calls)
    wall, cpu, written = time.perf_counter(), time.process_time(), _written()
    asyncio.run(_drive(model, ask, requests))
    finish()
    return Measured(time.perf_counter() - wall, time.process_time() - cpu, _written() - written)


async def _drive(model: PlainModel, ask: Ask, requests: list[Request]) -> None:
    model.places, waiting = asyncio.Semaphore(IN_FLIGHT), iter(requests)

    async def work() -> None:
        for request in waiting:
            await ask(request)

    # More tasks than slots, as in a run: while one waits for its commit, another one's call is in flight.
    await asyncio.gather(*(work() for _ in range(8 * IN_FLIGHT)))


def _requests(calls: int) -> list[Request]:
    system = Message("system", "You judge one criterion. " * 20)
    return [
        Request(
            (system, Message("user", f"Submission {number}. " + "It says a thing. " * 90)),
            "judge",
            item=f"q{number}",
        )
        for number in range(calls)
    ]


def _written() -> int:
    """Bytes that this process has passed to `write`, if the system counts them."""
    try:
        lines = Path(f"/proc/{os.getpid()}/io").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


if __name__ == "__main__":
    run()
