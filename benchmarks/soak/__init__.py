"""`make soak`: tests the promises of docs/promises.md with kills, full disks, damage and power cuts."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.soak.work import Row

LANES = (("kills", "batches"), ("stops", "disks", "damage", "clocks", "power", "endpoints"))
"""The parts, in two rows that run at the same time: most of a soak is waiting."""
PARTS = tuple(name for lane in LANES for name in lane)


def run(parts: Sequence[str] = ()) -> None:
    """Run every part, or the ones named, and print the table of promises with what was measured."""
    started = time.monotonic()
    lanes = [[name for name in lane if name in (parts or PARTS)] for lane in LANES]
    with ThreadPoolExecutor(len(lanes)) as pool:
        found = [row for rows in pool.map(partial(_lane, started), lanes) for row in rows]
    print(f"\n{'promise':<50}{'under':<42}{'trials':>7}  held  measured")
    for row in found:
        print(_line(row))
    broken = [row for row in found if not row.held]
    print(f"{len(found) - len(broken)} of {len(found)} held, in {time.monotonic() - started:.0f} s")
    if broken:
        raise SystemExit("a promise was broken")


def _lane(started: float, names: Sequence[str]) -> list[Row]:
    found = []
    for name in names:
        for row in importlib.import_module(f"benchmarks.soak.{name}").rows():
            found.append(row)
            print(f"[{time.monotonic() - started:4.0f} s] {row.fault}: {row.measured}", flush=True)
    return found


def _line(row: Row) -> str:
    return f"{row.promise:<50}{row.fault:<42}{row.trials:>7}  {'yes' if row.held else 'NO':<4}  {row.measured}"
