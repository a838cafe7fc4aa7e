"""Criteria that ask for the same twice."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sameness import Gist, nearly_same
from autorubric.linting.sheet import Draft, Sheet

_ADVICE = "Keep the better wording, once: what is asked for twice counts twice"


def _duplicate(sheet: Sheet) -> Iterator[Hit]:
    first: dict[tuple[str, ...], tuple[int, Draft]] = {}
    for position, draft in sheet.read():
        key = draft.wording.tokens
        if key in first:
            there, earlier = first[key]
            yield Hit(position, f"criterion {there} ({earlier.label}) says the same, word for word", _ADVICE)
        else:
            first[key] = position, draft


def _near(sheet: Sheet) -> Iterator[Hit]:
    read = sheet.read()
    gists = [Gist.of(draft.wording, draft.weight < 0) for _, draft in read]
    for later, (position, draft) in enumerate(read):
        for earlier in range(later):
            there, other = read[earlier]
            if draft.wording.tokens != other.wording.tokens and nearly_same(gists[earlier], gists[later]):
                yield Hit(position, f"criterion {there} ({other.label}) asks for nearly the same", _ADVICE)
                break


DUPLICATE = Rule("duplicate", "error", "two criteria have the same words", _duplicate)
NEAR_DUPLICATE = Rule(
    "near-duplicate", "warning", "two criteria ask for nearly the same: same numbers, units and negations", _near
)
