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

WORKS = ((synthesis, 700, 100), (grading, 600, 100), (selection, 1000, 50))
"""Each command, how many rows it has, and how often it is killed."""
LONGEST = 0.7
"""Seconds from a session's first call, or from its start, to its kill at most."""
EARLY = 0.2
"""The share of kills that may come before the first call."""


def rows() -> Iterator[Row]:
    """One line for each command."""
    for make, size, kills in WORKS:
        with (
            LoopbackProcess("--latency", "lognormal:0.1,0.6", "--reply-chars", "600") as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            yield _soaked(make(Path(folder), endpoint.base_url, size), endpoint, kills)


def _soaked(work: Work, endpoint: LoopbackProcess, wanted: int) -> Row:
    rng = random.Random(2026)
    kills, recorded, lost, shrank = 0, 0, [0], 0
    while kills < wanted:
        before, early, running = endpoint.stats()["requests"], rng.random() < EARLY, work.start()
        while not early and running.poll() is None and endpoint.stats()["requests"] == before:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, LONGEST))
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
    each = [after - before for before, after in pairwise(lost)]
    hits, most = sum(one > 0 for one in each), max(each)
    held = status == 0 and audit.whole and not shrank and most <= IN_FLIGHT and hits >= kills / 2
    figures = f"{audit} ({audit.repeated / max(kills, 1):.1f} a kill, {most} at most; {IN_FLIGHT} in flight)"
    figures += f"; {hits} kills hit calls"
    return Row("a kill costs the calls in flight, no more", f"SIGKILL, {work.name}", kills, figures, held)


def _recorded(work: Work) -> int:
    """Replies in the ledger; opening it recovers it, as the next session would. Calls in flight become failures."""
    with Ledger.open(work.ledger.parent) as ledger:
        return ledger.count - sum(1 for _ in ledger.read_failures())
