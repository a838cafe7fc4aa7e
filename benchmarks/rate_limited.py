"""Endpoints with limits: requests refused, share of the limit used, and the cost of random refusals."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, NamedTuple

from autorubric.testing import RateWindow
from benchmarks.record import Record
from benchmarks.simulated_limits import Bucket, Simulated

KINDS: tuple[Literal["fixed", "sliding"], ...] = ("fixed", "sliding")
LIMIT = 60
CALLERS = 256
SECONDS = 50.0
AT_A_TIME = 4  # more would measure how busy this machine is
TOKENS = 100  # taken by each request, about
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


def _window(seconds: float, kind: Literal["fixed", "sliding"], told: str, *, tokens: bool = False) -> Simulated:
    limit = int(LIMIT * seconds)
    return RateWindow(
        None if tokens else limit,
        limit * TOKENS if tokens else None,
        seconds,
        kind,
        retry_after=told == "Retry-After",
        ratelimit_headers=told == "headers",
    ).open()


class Row(NamedTuple):
    """One limited endpoint, and for how long it is called."""

    name: str
    make: Callable[[], Simulated]
    seconds: float


TOLD = ("nothing", "Retry-After", "headers")
SHORT = [
    *(
        Row(
            f"bucket of {burst:g} s, told {told}",
            partial(Bucket, LIMIT, LIMIT * burst, retry_after=told != "nothing"),
            50,
        )
        for burst in (0.1, 1)
        for told in TOLD[:2]
    ),
    *(
        Row(f"{kind} windows of {seconds} s, told {told}", partial(_window, seconds, kind, told), 50)
        for seconds in (1, 10)
        for kind in KINDS
        for told in TOLD
    ),
]
MINUTES = [
    *(
        Row(f"{kind} windows of 60 s, told {told}", partial(_window, 60, kind, told), 240)
        for kind in KINDS
        for told in TOLD[::2]
    ),
    *(
        Row(f"fixed windows of 60 s, of tokens, told {told}", partial(_window, 60, "fixed", told, tokens=True), 240)
        for told in TOLD[::2]
    ),
]

Log = list[tuple[float, bool]]


def run() -> Record:
    """For each kind of limit, the share of the limit used and of 429s from the second window on."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{here.recv()}"
    rows = [*SHORT, *MINUTES]
    for start in range(0, len(SHORT), AT_A_TIME):
        asyncio.run(_load([f"{address}/{place}" for place in range(len(SHORT))[start : start + AT_A_TIME]]))
    asyncio.run(_load([f"{address}/{place}" for place in range(len(SHORT), len(rows))], MINUTES[0].seconds))
    with tempfile.TemporaryDirectory() as folder:
        _grade(Path(folder), f"{address}/{len(rows)}")
    here.send("done")
    logs: list[Log] = here.recv()
    server.terminate()
    record = Record(
        f"{LIMIT} requests a second, {CALLERS} callers, from the second window (a second at least) on; "
        "floor: the limit; the same calls without refusals"
    )
    rows.append(Row("autorubric grade, bucket of 0.1 s, told Retry-After", rows[0].make, 50))
    found = [_row(row.name, log, record) for row, log in zip(rows, logs, strict=True)]
    record.table("limits", ["limit", "limit used", "429s", "429s before"], found)
    _at_random(record)
    return record


def _row(name: str, log: Log, record: Record) -> list[str]:
    found = re.search(r"of (\d+) s", name)
    start, end = log[0][0] + max(1.0, float(found[1]) if found else 1.0), log[-1][0] - 1.0
    warm = [passed for at, passed in log if start <= at < end]
    refused, used = warm.count(False) / len(warm), warm.count(True) / (LIMIT * (end - start))
    before = sum(not passed for at, passed in log if at < start)
    record.limit(f"{name}: limit used", used, least=LEAST_USED)
    record.limit(f"{name}: refused", refused, most=MOST_REFUSED)
    return [name, f"{used:.1%}", f"{refused:.2%}", f"{before:,}"]


def _at_random(record: Record) -> None:
    """The cost of refusing one request in ten, compared with the same calls without refusals."""
    from autorubric.testing import LoopbackProcess

    done: list[float] = []
    for options in ((), ("--fault", f"429={RANDOM}")):
        with LoopbackProcess("--latency", "lognormal:0.3,0.4", *options) as endpoint:
            asyncio.run(_load([endpoint.base_url], 15.0))
            done.append(endpoint.stats()["by_status"]["200"] / 15.0)
    share = done[1] / done[0]
    record.figure("at_random", f"{done[1]:.0f} calls per second; without refusals {done[0]:.0f} ({share:.0%})")
    record.limit(f"{RANDOM:.0%} refused at random: throughput", share, least=LEAST_THROUGHPUT)


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

    limits = [row.make() for row in (*SHORT, *MINUTES, SHORT[1])]
    logs: list[Log] = [[] for _ in limits]
    latency = count()

    async def answer(request: web.Request) -> web.Response:
        place = int(request.match_info["place"])
        await request.read()
        now = time.monotonic()
        wait, told = limits[place].admit(now, TOKENS)
        logs[place].append((now, wait == 0.0))
        headers = dict(told)
        if wait:
            return web.json_response({"error": {"message": "too many requests"}}, status=429, headers=headers)
        await asyncio.sleep(0.1 + 0.1 * (next(latency) % 10))
        return web.Response(body=_REPLY, content_type="application/json", headers=headers)

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
