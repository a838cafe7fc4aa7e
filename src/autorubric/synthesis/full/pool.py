"""The candidate pool: the responses of a query that can be graded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autorubric.llm.reading.structured import read_text
from autorubric.llm.request import Answer, Failure, Reply, Unreadable
from autorubric.synthesis.full.filters import response_fault
from autorubric.synthesis.full.settings import Filters
from autorubric.synthesis.plan import Derivation, Fields, Settled
from autorubric.synthesis.stages.asking import has_text


def pool_stage(letters: Sequence[str], filters: Filters) -> Derivation:
    """The stage that writes `pool`: the slots of the responses that stay, and of those left out with reasons.

    Example:
        >>> stage = pool_stage(["a", "b"], Filters())
        >>> stage.derive({"response_a": "4 g.", "response_b": "```x"}).value
        {'slots': ['a'], 'left_out': [{'slot': 'b', 'reason': 'a code fence is never closed'}]}
    """

    def derive(fields: Fields) -> Settled | Failure:
        texts = {letter: str(fields.get(f"response_{letter}") or "") for letter in letters}
        faults = {letter: response_fault(text, filters) for letter, text in texts.items() if has_text(text)}
        slots = [letter for letter, fault in faults.items() if fault is None]
        left_out = [{"slot": letter, "reason": fault} for letter, fault in faults.items() if fault]
        if not slots:
            return Failure("missing_input", "missing responses: none can be graded")
        notes = tuple(f"a response left the pool: {one['reason']}" for one in left_out)
        return Settled({"slots": slots, "left_out": left_out}, "filters", notes)

    reads = tuple(f"response_{letter}" for letter in letters)
    return Derivation("pool", 1, reads, derive, _is_pool)


def read_answer(reply: Reply) -> Answer[str] | Unreadable:
    """The text of a response.

    Example:
        >>> read_answer(Reply("4 g.")).value
        '4 g.'
    """
    return read_text(reply, whole=reply.limit is not None)


def _is_pool(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("slots"))
