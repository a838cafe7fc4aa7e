"""The main job against a bare pipelined loop that makes the same calls to the same endpoint."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import aiohttp

from autorubric.testing import LoopbackProcess
from benchmarks.command import Figures, measured, on_our_loop
from benchmarks.record import Record

CALLS_A_QUERY = 7
IN_FLIGHT = 64
CASES: list[tuple[str, int, str, float]] = [
    ("fixed:0", 1000, "", 6.0),
    ("fixed:0.2", 1000, "", 1.15),
    ("fixed:0.2", 1000, "busy", 1.2),
    ("fixed:0.2", 5000, "", 1.05),
    ("lognormal:0.2,0.8", 1000, "", 1.15),
    ("lognormal:0.2,0.8+0.002@20", 1000, "", 1.15),
]
"""Latency, queries, what else the machine does, and the most times the floor that a run may take."""
MOST_MEMORY = 200
SLOTS = ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment")


def queries_file(folder: Path, queries: int) -> Path:
    """A file of so many queries."""
    path = folder / "queries.jsonl"
    path.write_text("".join(json.dumps({"question": f"Query {i}: {_PADDING}"}) + "\n" for i in range(queries)))
    return path


def synthesis_words(source: Path, out: Path, base_url: str, in_flight: int = IN_FLIGHT) -> list[str]:
    """The arguments of `autorubric synthesize` with seven models at one endpoint."""
    words = ["synthesize", str(source), "--out", str(out), "-j", str(in_flight)]
    for slot in SLOTS:
        part, _, letter = slot.partition("-")
        words += [f"--{part}-model" + (f"-{letter}" if letter else ""), slot, f"--{slot}-base-url", base_url]
    return words


def synthesis(queries: int, base_url: str, folder: Path, in_flight: int = IN_FLIGHT) -> tuple[Figures, int]:
    """The cost of `autorubric synthesize`, and the bytes that it writes."""
    out = folder / "out"
    command = synthesis_words(queries_file(folder, queries), out, base_url, in_flight)
    figures = measured(command)
    left = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return figures, left


_PADDING = "explain how tides arise, why there are two a day, and what the moon and the sun have to do with it. " * 2


async def floor(queries: int, base_url: str, in_flight: int = IN_FLIGHT) -> tuple[float, float]:
    """Seconds and CPU seconds of a bare aiohttp loop for the same calls, each record pipelined, and nothing else."""
    url = f"{base_url}/chat/completions"
    slots = asyncio.Semaphore(in_flight)
    opened = asyncio.Semaphore(2 * in_flight)

    async def call(session: aiohttp.ClientSession, query: int, slot: str, characters: int) -> None:
        body: dict[str, Any] = {"model": slot, "max_tokens": 2048, "temperature": 0.2}
        body["messages"] = [{"role": "user", "content": f"{query} " + "x" * characters}]
        async with slots, session.post(url, json=body) as response:
            json.loads(await response.read())

    async def record(session: aiohttp.ClientSession, query: int) -> None:
        try:
            anchor = asyncio.create_task(call(session, query, "reference", 1500))
            answers = [asyncio.create_task(call(session, query, f"response-{x}", 1500)) for x in "ab"]
            await anchor
            await asyncio.gather(*(call(session, query, f"rubric-{x}", 5500) for x in "ab"))
            await call(session, query, "merge", 5000)
            await asyncio.gather(*answers)
            await call(session, query, "augment", 7000)
        finally:
            opened.release()

    started, used = time.perf_counter(), time.process_time()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for query in range(queries):
            await opened.acquire()
            group.create_task(record(session, query))
    return time.perf_counter() - started, time.process_time() - used


def run() -> Record:
    """Wall time, CPU, bytes and memory for each latency, next to the floor of the same minute."""
    record = Record(f"{CALLS_A_QUERY} calls per query, {IN_FLIGHT} in flight; floor: bare aiohttp on uvloop")
    start = _measured(1, "fixed:0")[0].cpu
    print(f"Synthesis: {CALLS_A_QUERY} calls per query, {IN_FLIGHT} in flight.")
    print(f"CPU per call leaves out the {start:.2f} s that starting and ending take, whatever the input.")
    rows = []
    for latency, queries, beside, most in CASES:
        with _neighbour() if beside else nullcontext():
            ours, left, (wall, cpu) = _measured(queries, latency)
        calls, ratio = queries * CALLS_A_QUERY, ours.wall / wall
        name = ", ".join(filter(None, (latency, f"{queries:,} queries", beside)))
        record.limit(f"synthesis, {name}: times the floor", ratio, most=most)
        floor_cpu, own_cpu = cpu / calls * 1e6, (ours.cpu - start) / calls * 1e6
        times = [f"{wall:.1f}", f"{ours.wall:.1f}", f"{ratio:.2f}", f"{floor_cpu:.0f}", f"{own_cpu:.0f}"]
        other = "one busy process" if beside else "–"
        rows.append([latency, f"{queries:,}", other, *times, f"{ours.written / left:.2f}", f"{ours.memory:.0f}"])
    header = (
        "latency|queries|next to it|floor s|ours s|ratio|floor µs CPU per call|ours µs CPU per call|written / left|MB"
    )
    record.table("latencies", header.split("|"), rows)
    print("\nMemory at no latency, as the input grows")
    for queries in (1000, 5000, 20_000):
        ours, _, _ = _measured(queries, "fixed:0")
        print(f"{queries:>8,} queries: {ours.memory:.0f} MB, {ours.wall:.1f} s", flush=True)
        record.limit(f"synthesis, memory of {queries:,} queries, MB", ours.memory, most=MOST_MEMORY)
    return record


@contextmanager
def _neighbour() -> Iterator[None]:
    """Another process that uses a whole core."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def _measured(queries: int, latency: str) -> tuple[Figures, int, tuple[float, float]]:
    options = ("--latency", latency, "--reply-chars", "1200")
    with LoopbackProcess(*options) as endpoint:
        least = on_our_loop(floor(queries, endpoint.base_url))
    with LoopbackProcess(*options) as endpoint, tempfile.TemporaryDirectory() as folder:
        figures, left = synthesis(queries, endpoint.base_url, Path(folder))
        calls = endpoint.stats()["completed_calls"]
        if calls != queries * CALLS_A_QUERY:
            raise SystemExit(f"{calls} calls were made; expected {queries * CALLS_A_QUERY}")
    return figures, left, least


if __name__ == "__main__":
    run()
