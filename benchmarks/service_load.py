"""The reward service under load: nothing lost, nothing answered twice, nothing paid twice, and what it adds in time.

Against a loopback judge of 200 ms: as many callers as there are, each with its next call as soon as the last was
answered; calls that come at half of that rate, whatever is answered; and the first again with the service ended in
the middle, by SIGTERM (nothing may be paid twice) and by SIGKILL (at most what was in flight), and started again in
its directory.

Every call has a submission of its own, and a rubric with a criterion that a check decides, whose weight makes the
reward tell which call it belongs to.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autorubric.background import rare_collections
from autorubric.testing import LoopbackProcess
from benchmarks.callers import Caller, callers_of
from benchmarks.command import on_our_loop
from benchmarks.record import Record

CALLERS = int(os.environ.get("AUTORUBRIC_CALLERS", "1000"))
SECONDS = float(os.environ.get("AUTORUBRIC_SECONDS", "60"))
LATENCY = 0.2
CONCURRENCY = 2000
CONTROL = 20.0  # calls per second to the judge itself, in addition to those of the service
CONTROL_CALLERS = 64
RUBRICS = 500


@dataclass
class Outcome:
    """The results of the callers.

    Attributes:
        latencies: seconds from sending a call to its answer, retries included.
        wrong: answers that belong to another call.
        failed: answers without a reward.
        retries: calls sent once more, by why.
        asked: calls begun.
    """

    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    failed: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    def overhead(self, share: float) -> float:
        """Milliseconds over the judge's latency, at a share of the calls."""
        ordered = sorted(self.latencies)
        return (ordered[min(len(ordered) - 1, int(share * len(ordered)))] - LATENCY) * 1e3


@dataclass(frozen=True)
class Part:
    """What a load has measured, and the judge's own answers meanwhile."""

    name: str
    seen: Outcome
    rate: float
    twice: int
    floor: Outcome | None

    @property
    def spoiled(self) -> int:
        """Calls that are lost, or have the reward of another call or none."""
        return self.seen.asked - len(self.seen.latencies) + self.seen.wrong + self.seen.failed

    def row(self) -> list[str]:
        """Its row of the table."""
        added = [f"{self.seen.overhead(share):.0f}" for share in (0.5, 0.9, 0.99)]
        floor = f"{self.floor.overhead(0.99):.0f}" if self.floor else "–"
        return [self.name, f"{len(self.seen.latencies):,}", f"{self.rate:.0f}", str(self.twice), *added, floor]


class Service:
    """The service in a process of its own."""

    def __init__(self, directory: Path, judge: str, *more: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/reward"
        flags = ["--judge", f"judge@{judge}", "-o", str(directory), "--port", str(self.port), "--wait"]
        flags += ["-j", str(CONCURRENCY), "--timeout", "20", *more]
        self._command = [sys.executable, "-m", "autorubric", "serve", *flags]

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "rewards at" not in line:
            raise SystemExit(f"the service did not start: {line}{self.process.stdout.read()}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.communicate()

    def cpu(self) -> float:
        """CPU seconds of the service's first process so far."""
        return cpu_of(self.process.pid)

    def cpu_of_others(self) -> list[float]:
        """CPU seconds of each process that the first one has started."""
        found = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [cpu_of(int(number)) for path in found for number in path.read_text(encoding="utf-8").split()]


def cpu_of(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def call_of(name: str, number: int) -> tuple[bytes, float]:
    """The body of a call, and the reward that only this kind of call has."""
    weight = number % RUBRICS + 1
    rubric = [
        {"name": "Kind", "requirement": "Is kind.", "weight": 1000},
        {
            "name": "Missing",
            "requirement": "Names the word.",
            "weight": weight,
            "check": {"name": "contains", "parameters": {"phrases": ["zzz"]}},
        },
    ]
    submission = f"Submission {name}-{number}: " + "it says something of some length. " * 12
    body = {"query": f"Why {number % RUBRICS}?", "submission": submission, "rubric": rubric}
    return json.dumps(body).encode(), 1000 / (1000 + weight)


async def call(caller: Caller, name: str, number: int, outcome: Outcome) -> None:
    """One call to its answer, sent again where the service was away or busy."""
    body, expected = call_of(name, number)
    outcome.asked += 1
    started = time.perf_counter()
    while True:
        try:
            status, answer = await caller.post(body)
        except (OSError, EOFError) as error:
            outcome.retries[type(error).__name__] += 1
            await asyncio.sleep(0.1 + random.random() * 0.2)
            continue
        if status == 200:
            break
        outcome.retries[str(status)] += 1
        await asyncio.sleep(0.2 + random.random() * 0.2)
    outcome.latencies.append(time.perf_counter() - started)
    reward = json.loads(answer)["reward"]
    outcome.failed += reward is None
    outcome.wrong += reward is not None and abs(reward - expected) > 1e-9


async def full_load(callers: Sequence[Caller], name: str, seconds: float) -> Outcome:
    """Callers that each send the next call when the last is answered."""
    outcome, numbers = Outcome(), iter(range(10**9))
    end = time.monotonic() + seconds

    async def calling(caller: Caller) -> None:
        while time.monotonic() < end:
            await call(caller, name, next(numbers), outcome)

    await asyncio.gather(*map(calling, callers))
    return outcome


async def steady_load(callers: Sequence[Caller], rate: float, seconds: float) -> Outcome:
    """Calls at a rate that does not depend on the answers, by callers in turn, in an order that is drawn."""
    outcome, order = Outcome(), random.Random(0).sample(callers, len(callers))
    await _at_rate(rate, seconds, lambda number: call(order[number % len(order)], "steady", number, outcome))
    return outcome


async def straight(judge: str, rate: float, seconds: float) -> Outcome:
    """The judge asked without the service: what the machine itself adds at this moment."""
    outcome = Outcome()
    with callers_of(f"{judge}/chat/completions", CONTROL_CALLERS) as callers:

        async def ask(number: int) -> None:
            body = {"model": "control", "messages": [{"role": "user", "content": f"control {number}"}]}
            started = time.perf_counter()
            await callers[number % len(callers)].post(json.dumps(body).encode())
            outcome.latencies.append(time.perf_counter() - started)

        await _at_rate(rate, seconds, ask)
    return outcome


async def _at_rate(rate: float, seconds: float, begun: Callable[[int], Coroutine[None, None, None]]) -> None:
    """Begin one after the other at a rate, whatever they take, and wait for all."""
    started = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            tasks.create_task(begun(number))


async def with_restart(callers: Sequence[Caller], service: Service, seconds: float, how: signal.Signals) -> Outcome:
    """Full load while the service is ended in the middle, and started again in its directory."""

    async def restart() -> None:
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(service.end, how)
        await asyncio.to_thread(service.start)

    loaded, _ = await asyncio.gather(full_load(callers, how.name, seconds), restart())
    return loaded


def run() -> Record:
    """Measure, and fail where a call is lost, gets the reward of another, or is paid for twice."""
    record = Record(f"{CALLERS:,} callers, a judge of {LATENCY * 1e3:.0f} ms on loopback, {SECONDS:.0f} s a part")
    rows = on_our_loop(_run())
    for part in rows:
        record.limit(f"{part.name}: calls lost, wrong or without a reward", part.spoiled, most=0)
        # A kill repeats at most the calls in flight: one of each caller.
        record.limit(f"{part.name}: calls paid twice", part.twice, most=CALLERS if "SIGKILL" in part.name else 0)
    header = ["load", "answered", "calls/s", "paid twice", "ms added: p50", "p90", "p99", "floor p99"]
    record.table("service", header, [part.row() for part in rows])
    return record


async def _run() -> list[Part]:
    with tempfile.TemporaryDirectory() as folder, LoopbackProcess("--latency", f"fixed:{LATENCY}") as judge:
        service = Service(Path(folder), judge.base_url)
        service.start()
        with rare_collections(), callers_of(service.url, CALLERS) as callers:
            parts = [await _part(f"{CALLERS:,} callers", judge, full_load(callers, "full", SECONDS))]
            steady = steady_load(callers, parts[0].rate / 2, SECONDS)
            control = asyncio.create_task(straight(judge.base_url, CONTROL, SECONDS))
            parts.append(await _part("half of that rate", judge, steady, control))
            for how in (signal.SIGTERM, signal.SIGKILL):
                restarted = with_restart(callers, service, SECONDS / 2, how)
                parts.append(await _part(f"{how.name} in the middle", judge, restarted))
        service.end()
    return parts


async def _part(
    name: str, judge: LoopbackProcess, load: Awaitable[Outcome], control: asyncio.Task[Outcome] | None = None
) -> Part:
    """Run a part; calls of `control` go to the judge directly, not through the service."""
    before = Counter(judge.calls_by_body())
    started = time.perf_counter()
    seen = await load
    seconds = time.perf_counter() - started
    paid = Counter(judge.calls_by_body())
    paid.subtract(before)
    floor = await control if control else None
    return Part(name, seen, len(seen.latencies) / seconds, sum(count - 1 for count in paid.values() if count), floor)
