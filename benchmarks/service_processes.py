"""The reward service with one process and with two: what two thousand callers get, and what a call costs.

Against a loopback judge of 200 ms: two thousand callers, each with its next call as soon as the last was answered;
then calls that come at half of that rate, whatever is answered, from the same callers in turn. In the same seconds
the judge is asked through a bare aiohttp server that passes requests on and does nothing else: what it takes is the
floor, and what the service takes beyond that is what the service adds.

The load, the judge and the service share the machine, so calls per second say little of the service alone. The
processor time on its longest path does not depend on the load: that of the first process, and that of the busiest of
the others.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autorubric.background import rare_collections
from autorubric.testing import LoopbackProcess
from benchmarks.callers import callers_of
from benchmarks.command import on_our_loop
from benchmarks.record import Record
from benchmarks.service_load import CONTROL, Outcome, Service, full_load, steady_load, straight

CALLERS = int(os.environ.get("AUTORUBRIC_CALLERS", "2000"))
SECONDS = float(os.environ.get("AUTORUBRIC_SECONDS", "30"))
_LATENCY = 0.2
_MOST_ADDED = 50.0  # milliseconds at half load, p99
_LEAST_GAIN = 1.4


_FLOOR = """
import sys
from aiohttp import ClientSession, TCPConnector, web

async def passed_on(request):
    async with session.post(sys.argv[1] + "/chat/completions", data=await request.read(), headers=KIND) as answer:
        return web.Response(body=await answer.read(), content_type="application/json")

async def opened(app):
    global session
    session = ClientSession(connector=TCPConnector(limit=0))
    yield
    await session.close()

KIND = {"Content-Type": "application/json"}
app = web.Application()
app.router.add_post("/chat/completions", passed_on)
app.cleanup_ctx.append(opened)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=lambda _: print("ready", flush=True))
"""


@contextmanager
def floor_before(judge: str) -> Iterator[str]:
    """The address of a bare server that passes requests on to the judge."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _FLOOR, judge, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@dataclass(frozen=True, slots=True)
class Part:
    """What a load has measured: calls per second, CPU milliseconds per call, and calls paid twice or lost."""

    seen: Outcome
    rate: float
    path: float
    all_: float
    twice: int


def run() -> Record:
    """Measure both, and fail where the service adds too much, or a second process gains too little."""
    seconds = f"{SECONDS:.0f} s of full and {SECONDS:.0f} s of half load"
    load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    record = Record(f"{CALLERS:,} callers, a judge of {_LATENCY * 1e3:.0f} ms on loopback, {seconds}, {load}")
    found = {processes: on_our_loop(_measured(processes, record)) for processes in (1, 2)}
    rows = []
    for processes, (full, half, control) in found.items():
        added = half.seen.overhead(0.99) - control.overhead(0.99)
        record.limit(f"milliseconds added at half load, p99, {processes} processes", added, most=_MOST_ADDED)
        times = [f"{half.seen.overhead(share) + _LATENCY * 1e3:.0f} ms" for share in (0.5, 0.99)]
        floor = f"{control.overhead(0.99) + _LATENCY * 1e3:.0f} ms"
        cpu = [f"{full.path:.2f} ms", f"{full.all_:.2f} ms"]
        rows.append([processes, f"{full.rate:.0f}", f"{half.rate:.0f}", *times, floor, f"{added:.0f} ms", *cpu])
    header = ["processes", "calls/s", "at half load", "p50", "p99", "floor, p99", "added, p99"]
    record.table("load", [*header, "CPU per call, longest path", "all"], rows)
    gain = found[1][0].path / found[2][0].path
    record.figure("gain", f"{gain:.2f}")
    record.limit("times as many calls in a second of the longest path with two processes", gain, least=_LEAST_GAIN)
    return record


async def _measured(processes: int, record: Record) -> tuple[Part, Part, Outcome]:
    with tempfile.TemporaryDirectory() as folder, LoopbackProcess("--latency", f"fixed:{_LATENCY}") as judge:
        service = Service(Path(folder), judge.base_url, "--processes", str(processes))
        service.start()
        with rare_collections(), callers_of(service.url, CALLERS) as callers:
            full = await _part(judge, service, full_load(callers, "full", SECONDS))
            steady = steady_load(callers, full.rate / 2, SECONDS)
            with floor_before(judge.base_url) as floor:
                control = asyncio.create_task(straight(floor, CONTROL, SECONDS))
                half = await _part(judge, service, steady, control)
        service.end()
    for name, part in (("full", full), ("half", half)):
        where = f"{name} load, {processes} processes"
        lost = part.seen.asked - len(part.seen.latencies) + part.seen.wrong + part.seen.failed
        record.limit(f"calls lost or wrong, {where}", lost, most=0)
        record.limit(f"calls paid twice, {where}", part.twice, most=0)
        print(
            f"{where}: {part.rate:.0f}/s, {part.path:.2f} ms CPU on the longest path, {part.seen.retries}", flush=True
        )
    return full, half, await control


async def _part(
    judge: LoopbackProcess,
    service: Service,
    load: Awaitable[Outcome],
    control: asyncio.Task[Outcome] | None = None,
) -> Part:
    before, cpu, others = Counter(judge.calls_by_body()), service.cpu(), service.cpu_of_others()
    started = time.perf_counter()
    seen = await load
    seconds = time.perf_counter() - started
    if control is not None:
        await control
    paid = Counter(judge.calls_by_body())
    paid.subtract(before)
    own = service.cpu() - cpu
    more = [now - then for now, then in zip(service.cpu_of_others(), others, strict=True)]
    answered = len(seen.latencies)
    path, all_ = ((own + part) / answered * 1e3 for part in (max(more, default=0.0), sum(more)))
    return Part(seen, answered / seconds, path, all_, sum(count - 1 for count in paid.values() if count))
