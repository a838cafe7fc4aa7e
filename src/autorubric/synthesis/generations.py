"""How often each role was asked to start anew: `--refresh` moves a role to fresh draws, and they stay its draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from autorubric.llm.records.ledger import Ledger

DRAWS_A_GENERATION = 1000
"""Distance between the draws of two generations; above the number of stages that can share a prompt."""


def next_generations(ledger: Ledger, slots: Collection[str], refresh: Collection[str]) -> Mapping[str, int]:
    """The generation of every slot, those of `refresh` moved on by one, durably.

    A run that is interrupted and started again without `--refresh` goes on with the same generation, so that
    nothing it paid for is asked twice.
    """
    held: dict[str, int] = ledger.find_note("generations") or {}
    now = {slot: held.get(slot, 0) + (slot in refresh) for slot in slots}
    if refresh:
        ledger.keep_note("generations", {**held, **now})
    return now
