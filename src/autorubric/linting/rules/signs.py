"""Weights whose sign contradicts the wording."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.core.sign_wording import contradiction_of
from autorubric.linting.finding import Hit, RawRubric, Rule


def _contradicts(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        words = contradiction_of(criterion.wording.bare, criterion.weight)
        if words and criterion.weight < 0:
            yield Hit(
                position,
                f"weight {criterion.weight:g} takes points away although {words!r} describes a strength",
                "Describe the fault itself, or make the weight positive",
            )
        elif words:
            yield Hit(
                position,
                f"weight {criterion.weight:g} gives points although {words!r} describes a fault",
                "Make the weight negative, or ask for the right thing",
            )


SIGN = Rule("sign-contradiction", "error", "the sign of the weight contradicts the wording", _contradicts)
