"""SIGKILL at random times, over synthesis and over grading."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import IN_FLIGHT, Row, Work, audited, grading, synthesis

KILLS = 100  # for each of the two commands


def rows() -> Iterator[Row]:
    """One line for each command."""
    for make, size in ((synthesis, 700), (grading, 600)):
        with (
            LoopbackProcess("--latency", "lognormal:0.1,0.6", "--reply-chars", "600") as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            yield _soaked(make(Path(folder), endpoint.base_url, size), endpoint)


def _soaked(work: Work, endpoint: LoopbackProcess) -> Row:
    rng = random.Random(2026)
    kills, recorded, shrank = 0, 0, 0
    while kills < KILLS:
        running = work.start()
        time.sleep(rng.uniform(0.2, 1.4))
        if running.poll() is not None:
            break
        running.kill()
        running.communicate()
        kills += 1
        now = _recorded(work)
        shrank, recorded = shrank + (now < recorded), now
    status, _ = work.finish()
    audit = audited(work, endpoint)
    # A reply is acknowledged within 50 ms, in which another call may take its place in flight.
    held = status == 0 and audit.whole and not shrank and audit.repeated <= kills * 2 * IN_FLIGHT
    figures = f"{audit} ({audit.repeated / max(kills, 1):.1f} a kill, {IN_FLIGHT} in flight)"
    return Row("a kill loses nothing and doubles nothing", f"SIGKILL, {work.name}", kills, figures, held)


def _recorded(work: Work) -> int:
    """Replies in the ledger; opening it recovers it, as the next session would."""
    if not work.ledger.exists():
        return 0
    connection = sqlite3.connect(work.ledger)
    try:
        [[found]] = connection.execute("SELECT count(*) FROM payloads").fetchall()
    except sqlite3.OperationalError:  # killed before the tables were made
        return 0
    finally:
        connection.close()
    return int(found)
