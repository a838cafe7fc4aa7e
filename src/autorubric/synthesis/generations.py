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
    now = coming_generations(ledger, slots, refresh)
    if refresh:
        ledger.keep_note("generations", {**(ledger.find_note("generations") or {}), **now})
    return now


def coming_generations(ledger: Ledger, slots: Collection[str], refresh: Collection[str]) -> Mapping[str, int]:
    """The generation that a run would give every slot, for a dry run: nothing is kept.

    Example:
        >>> with Ledger.in_memory() as ledger:
        ...     coming_generations(ledger, ["merge", "judge_a"], ["merge"])
        {'merge': 1, 'judge_a': 0}
    """
    held: dict[str, int] = ledger.find_note("generations") or {}
    return {slot: held.get(slot, 0) + (slot in refresh) for slot in slots}
