"""SIGKILL at random times, over synthesis, grading and selection."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from autorubric.llm.records.ledger import Ledger
from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import IN_FLIGHT, Row, Work, audited, grading, selection, synthesis

WORKS = ((synthesis, 700, 100, 1.4), (grading, 600, 100, 1.4), (selection, 1000, 50, 2.6))
"""Each command, how many rows it has, how often it is killed, and within how many seconds."""


def rows() -> Iterator[Row]:
    """One line for each command."""
    for make, size, kills, longest in WORKS:
        with (
            LoopbackProcess("--latency", "lognormal:0.1,0.6", "--reply-chars", "600") as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            yield _soaked(make(Path(folder), endpoint.base_url, size), endpoint, kills, longest)


def _soaked(work: Work, endpoint: LoopbackProcess, wanted: int, longest: float) -> Row:
    rng = random.Random(2026)
    kills, recorded, lost, shrank = 0, 0, [0], 0
    while kills < wanted:
        running = work.start()
        time.sleep(rng.uniform(0.2, longest))
        if running.poll() is not None:
            break
        running.kill()
        running.communicate()
        kills += 1
        time.sleep(0.02)  # what is on its way to the endpoint arrives
        now = _recorded(work)
        shrank, recorded = shrank + (now < recorded), now
        lost.append(endpoint.stats()["requests"] - now)
    status, _ = work.finish()
    audit = audited(work, endpoint)
    most = max(after - before for before, after in pairwise(lost))
    held = status == 0 and audit.whole and not shrank and most <= IN_FLIGHT
    figures = f"{audit} ({audit.repeated / max(kills, 1):.1f} a kill, {most} at most; {IN_FLIGHT} in flight)"
    return Row("a kill costs the calls in flight, no more", f"SIGKILL, {work.name}", kills, figures, held)


def _recorded(work: Work) -> int:
    """Calls in the ledger; opening it recovers it, as the next session would."""
    with Ledger.open(work.ledger.parent) as ledger:
        return ledger.count
