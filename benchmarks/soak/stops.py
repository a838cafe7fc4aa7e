"""Ctrl-C once and twice, SIGTERM, and a second process in the same directory."""

from __future__ import annotations

import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import IN_FLIGHT, WORKS, Row, Work, audited, until_answered

DRAINS = "Ctrl-C drains, saves, and says how to go on"


def rows() -> Iterator[Row]:
    """A line for each way of stopping and each command."""
    for make in WORKS:
        for kind in (signal.SIGINT, signal.SIGTERM):
            with (
                LoopbackProcess("--latency", "lognormal:0.1,0.6") as endpoint,
                tempfile.TemporaryDirectory() as folder,
            ):
                yield _once(make(Path(folder), endpoint.base_url), endpoint, kind)
        with LoopbackProcess("--latency", "fixed:2") as endpoint, tempfile.TemporaryDirectory() as folder:
            yield _twice(make(Path(folder), endpoint.base_url, 8), endpoint)
        # Slow, so that on a busy machine the first process still runs when the second has started.
        with LoopbackProcess("--latency", "fixed:1") as endpoint, tempfile.TemporaryDirectory() as folder:
            yield _second(make(Path(folder), endpoint.base_url), endpoint)


def _once(work: Work, endpoint: LoopbackProcess, kind: signal.Signals) -> Row:
    running = work.start()
    until_answered(endpoint, work.calls // 3)
    running.send_signal(kind)
    out, _ = running.communicate(timeout=60)
    told = running.returncode == 130 and f"resume with:\n  {shlex.join(work.words)}\n" in out
    status, _ = work.finish()
    audit = audited(work, endpoint)
    held = told and status == 0 and audit.whole and not audit.repeated
    return Row(DRAINS, f"{kind.name}, {work.name}", 1, f"status {running.returncode}; {audit}", held)


def _twice(work: Work, endpoint: LoopbackProcess) -> Row:
    running = work.start()
    until_answered(endpoint, IN_FLIGHT)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    time.sleep(0.3)
    started = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    seconds = time.monotonic() - started
    time.sleep(2.2)  # what was in flight is answered into the void
    status, _ = work.finish()
    audit = audited(work, endpoint)
    held = running.returncode == 130 and "Traceback" not in err and status == 0 and audit.whole
    held = held and seconds < 1.5 and audit.repeated <= IN_FLIGHT
    figures = f"status {running.returncode} after {seconds:.1f} s; {audit}"
    return Row("a second Ctrl-C stops at once, consistent", f"SIGINT twice, {work.name}", 1, figures, held)


def _second(work: Work, endpoint: LoopbackProcess) -> Row:
    running = work.start()
    until_answered(endpoint, 20)
    status, told = work.finish()
    refused = status == 1 and f"in use by process {running.pid}" in told
    waiting = replace(work, words=[*work.words, "--wait"]).start()
    running.communicate(timeout=120)
    waiting.communicate(timeout=120)
    held = refused and running.returncode == waiting.returncode == 0
    audit = audited(work, endpoint)
    figures = f"status {status} for the second; {audit}"
    held = held and audit.whole and not audit.repeated
    return Row("one process at a time works in a run", f"second process, {work.name}", 2, figures, held)
