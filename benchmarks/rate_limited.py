"""Endpoints with limits: requests refused, share of the limit used, and what refusals at random cost."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

LIMIT = 60
CALLERS = 256
SECONDS = 50.0
AT_A_TIME = 4  # more would measure how busy this machine is
WARM_UP = 20.0  # two of the longest windows
MOST_REFUSED, LEAST_USED = 0.03, 0.9
RANDOM, LEAST_THROUGHPUT = 0.1, 0.8

_REPLY = json.dumps(
    {
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": '{"explanation": "Seen.", "criterion_status": "MET"}'},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320},
    }
).encode()


@dataclass
class Bucket:
    """Tokens that come back steadily; `burst` of them at most."""

    burst: float
    level: float = 0.0
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until there is room; 0 takes the room."""
        self.level, self.at = min(self.burst, self.level + (now - self.at) * LIMIT), now
        if self.level < 1:
            return (1 - self.level) / LIMIT
        self.level -= 1
        return 0.0


@dataclass
class Window:
    """The requests of each window are counted; windows follow each other."""

    seconds: float
    number: int = 0
    taken: int = 0

    def wait(self, now: float) -> float:
        """Seconds until there is room; 0 takes the room."""
        if int(now / self.seconds) != self.number:
            self.number, self.taken = int(now / self.seconds), 0
        if self.taken >= LIMIT * self.seconds:
            return (self.number + 1) * self.seconds - now
        self.taken += 1
        return 0.0


@dataclass
class Sliding:
    """The requests of the last seconds are counted."""

    seconds: float
    taken: deque[float] = field(default_factory=deque)

    def wait(self, now: float) -> float:
        """Seconds until there is room; 0 takes the room."""
        while self.taken and self.taken[0] <= now - self.seconds:
            self.taken.popleft()
        if len(self.taken) >= LIMIT * self.seconds:
            return self.taken[0] + self.seconds - now
        self.taken.append(now)
        return 0.0


POLICIES: dict[str, Callable[[], Bucket | Window | Sliding]] = {
    "bucket of a tenth of a second": lambda: Bucket(LIMIT / 10),
    "bucket of a second": lambda: Bucket(LIMIT),
    "whole seconds": lambda: Window(1),
    "sliding second": lambda: Sliding(1),
    "windows of ten seconds": lambda: Window(10),
    "sliding ten seconds": lambda: Sliding(10),
}
HINTS = {"a Retry-After in seconds": True, "no hint": False}

Log = list[tuple[float, bool]]


def run() -> None:
    """Print, for each kind of limit and hint, the share of 429s and of the limit used after warming up."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{here.recv()}"
    names = [f"{policy}, {hint}" for policy in POLICIES for hint in HINTS]
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(names), AT_A_TIME):
            asyncio.run(_load([f"{address}/{place}" for place in range(len(names))[start : start + AT_A_TIME]]))
        _grade(Path(folder), f"{address}/{len(names)}")
    here.send("done")
    logs: list[Log] = here.recv()
    server.terminate()
    print(f"{LIMIT} requests a second, {CALLERS} callers, after {WARM_UP:g} s of warming up:")
    print(f"{'limit':<64}{'429s then':>10}{'limit used':>11}{'429s before':>12}")
    names.append("autorubric grade, bucket of a tenth of a second, a Retry-After")
    held = [_printed(name, log) for name, log in zip(names, logs, strict=True)]
    print(f"targets: at most {MOST_REFUSED:.0%} 429s, at least {LEAST_USED:.0%} of the limit")
    held.append(_at_random())
    if not all(held):
        raise SystemExit("a target was missed")


def _printed(name: str, log: Log) -> bool:
    start, end = log[0][0] + WARM_UP, log[-1][0] - 1.0
    warm = [passed for at, passed in log if start <= at < end]
    refused, used = warm.count(False) / len(warm), warm.count(True) / (LIMIT * (end - start))
    before = sum(not passed for at, passed in log if at < start)
    print(f"{name:<64}{refused:>10.2%}{used:>11.1%}{before:>12}", flush=True)
    return refused <= MOST_REFUSED and used >= LEAST_USED


def _at_random() -> bool:
    """What refusing one request in ten costs, against the same calls where none is refused."""
    from autorubric.testing import LoopbackProcess

    done: list[float] = []
    for options in ((), ("--fault", f"429={RANDOM}")):
        with LoopbackProcess("--latency", "lognormal:0.3,0.4", *options) as endpoint:
            asyncio.run(_load([endpoint.base_url], 15.0))
            done.append(endpoint.stats()["by_status"]["200"] / 15.0)
    share = done[1] / done[0]
    print(f"{RANDOM:.0%} refused at random: {done[1]:.0f} calls a second, {done[0]:.0f} without ({share:.0%})")
    print(f"target: at least {LEAST_THROUGHPUT:.0%}")
    return share >= LEAST_THROUGHPUT


async def _load(addresses: Sequence[str], seconds: float = SECONDS) -> None:
    from autorubric.llm.config import LLMConfig
    from autorubric.llm.http.chat import ChatModel
    from autorubric.llm.http.endpoints import Endpoints
    from autorubric.llm.request import CallError, Message, Request

    ends = time.monotonic() + seconds
    request = Request((Message("user", "Hi"),), "judge")
    models = [
        ChatModel(LLMConfig("m", api_base=address, max_retries=20), Endpoints(max_in_flight=CALLERS))
        for address in addresses
    ]

    async def work(model: ChatModel) -> None:
        while time.monotonic() < ends:
            with suppress(CallError):
                await model.complete(request)

    workers = [asyncio.create_task(work(model)) for model in models for _ in range(CALLERS)]
    await asyncio.sleep(seconds)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    for model in models:
        await model.close()


def _grade(folder: Path, address: str) -> None:
    from benchmarks.grading_speed import dataset_file

    source = dataset_file(folder, int(LIMIT * SECONDS) // 10)
    words = [sys.executable, "-m", "autorubric", "grade", str(source), "-o", str(folder / "out")]
    words += ["--judge", f"judge@{address}", "-j", str(CALLERS), "--retry", "20"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=True)


def _serve(pipe: Connection) -> None:
    from aiohttp import web

    limits = [(make(), hint) for make in POLICIES.values() for hint in HINTS.values()]
    limits.append((Bucket(LIMIT / 10), True))
    logs: list[Log] = [[] for _ in limits]
    latency = count()

    async def answer(request: web.Request) -> web.Response:
        place = int(request.match_info["place"])
        await request.read()
        policy, hint = limits[place]
        now = time.monotonic()
        wait = policy.wait(now)
        logs[place].append((now, wait == 0.0))
        if wait:
            headers = {"Retry-After": str(int(wait) + 1)} if hint else {}
            return web.json_response({"error": {"message": "too many requests"}}, status=429, headers=headers)
        await asyncio.sleep(0.1 + 0.1 * (next(latency) % 10))
        return web.Response(body=_REPLY, content_type="application/json")

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/{place}/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.to_thread(pipe.recv)
        pipe.send(logs)

    asyncio.run(main())


if __name__ == "__main__":
    run()
