"""`make soak`: the promises of docs/promises.md held against kills, full disks, damage and power cuts."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence

from benchmarks.soak.work import Row

PARTS = ("kills", "stops", "disks", "damage", "clocks", "power", "endpoints")


def run(parts: Sequence[str] = ()) -> None:
    """Run every part, or the ones named, and print the table of promises with what was measured."""
    started, found = time.monotonic(), []
    for name in parts or PARTS:
        for row in importlib.import_module(f"benchmarks.soak.{name}").rows():
            found.append(row)
            print(f"[{time.monotonic() - started:4.0f} s] {row.fault}: {row.measured}", flush=True)
    print(f"\n{'promise':<50}{'under':<42}{'trials':>7}  held  measured")
    for row in found:
        print(_line(row))
    broken = [row for row in found if not row.held]
    print(f"{len(found) - len(broken)} of {len(found)} held, in {time.monotonic() - started:.0f} s")
    if broken:
        raise SystemExit("a promise was broken")


def _line(row: Row) -> str:
    return f"{row.promise:<50}{row.fault:<42}{row.trials:>7}  {'yes' if row.held else 'NO':<4}  {row.measured}"
