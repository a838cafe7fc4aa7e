"""What is quick to look for before a pattern: whatever the pattern finds, its hints let through."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.rules import comparative, scales, undecidable, unfinished, unseen, vague
from autorubric.linting.rules import compound_demands as compound

_JOINED = re.compile(r"\w['’-]\w")


class Guarded(NamedTuple):
    """A pattern, and whether a text is shown to it."""

    pattern: re.Pattern[str]
    lets_through: Callable[[str], bool]


def hinted(*hints: Hints) -> Callable[[str], bool]:
    return lambda text: all(one.occur_in(text) for one in hints)


def told(text: str) -> bool:
    # Words are compared whole there, and "always-met" is one.
    return _JOINED.search(text) is not None or undecidable.find_verdict_command(Phrasing(text)) is not None


def holding(words: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda text: any(word in text for word in words)


GUARDED = {
    "reference": Guarded(unseen._REFERENCE.pattern, hinted(unseen._REFERENCE.hints)),
    "other response": Guarded(unseen._OTHER_RESPONSE.pattern, hinted(unseen._OTHER_RESPONSE.hints)),
    "picture": Guarded(unseen._PICTURE.pattern, hinted(unseen._PICTURE.hints)),
    "other criterion": Guarded(unseen._OTHER_CRITERION.pattern, hinted(unseen._OTHER_CRITERION.hints)),
    "speed": Guarded(unseen._SPEED.pattern, hinted(unseen._SPEED.hints)),
    "compared": Guarded(comparative._COMPARED, hinted(comparative._COMPARED_HINTS)),
    "forced": Guarded(undecidable._FORCED, hinted(undecidable._OUTCOME_HINTS)),
    "told": Guarded(undecidable._TOLD, told),
    "other form": Guarded(compound._OTHER_FORM, hinted(compound._FORM_HINTS)),
    "examples": Guarded(compound._EXAMPLES, hinted(compound._EXAMPLE_HINTS)),
    **{
        f"next {name}": Guarded(pattern, holding(compound._JOINTS))
        for name, pattern in (
            ("third", compound._NEXT_THIRD),
            ("any", compound._NEXT_ANY),
            ("any base", compound._NEXT_ANY_BASE),
            ("state", compound._NEXT_STATE),
            ("base", compound._NEXT_BASE),
        )
    },
    "scale": Guarded(
        scales._SCALE,
        lambda text: hinted(scales._SCALE_HINTS)(text) and scales._AMOUNT.search(text) is not None,
    ),
    "slot": Guarded(unfinished._SLOT, hinted(unfinished._SLOT_MARKS)),
    "marks": Guarded(unfinished._MARKS, lambda text: hinted(unfinished._HINTS)(text.lower())),
    "placeholder": Guarded(unfinished._PLACEHOLDER, lambda text: hinted(unfinished._HINTS)(text.lower())),
    **{f"open {hints[0]}": Guarded(pattern, holding(hints)) for hints, pattern in vague._OPEN if hints},
}
CASED = ("marks", "placeholder")


@pytest.mark.parametrize("name", GUARDED)
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_whatever_a_pattern_finds_its_hints_let_through(name: str, data: st.DataObject) -> None:
    pattern, lets_through = GUARDED[name]
    alphabet = "".join(sorted({*string.printable[:95], *pattern.pattern}))
    text = data.draw(st.from_regex(re.compile(pattern.pattern, pattern.flags), alphabet=alphabet))
    text = text if name in CASED else text.lower()
    assume(pattern.search(text))
    assert lets_through(text)
