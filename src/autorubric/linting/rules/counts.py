"""Rubrics with too few or too many criteria, and criteria without words."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

FEWEST, MOST = 3, 25


def _count(sheet: Sheet) -> Iterator[Hit]:
    count = len(sheet.criteria)
    if not FEWEST <= count <= MOST:
        noun = "criterion" if count == 1 else "criteria"
        advice = (
            "Ask for what is missing, implicit needs included" if count < FEWEST else "Keep those that matter most"
        )
        yield Hit(None, f"{count} {noun}; expected {FEWEST} to {MOST}", advice)


def _empty(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in enumerate(sheet.criteria, 1):
        if draft.check is None and not any(mark.isalnum() for mark in draft.text):
            yield Hit(position, "it has no words", "Say what is asked of the submission, or remove it")


CRITERIA_COUNT = Rule("criteria-count", "warning", "a rubric has fewer than 3 or more than 25 criteria", _count)
EMPTY_CRITERION = Rule("empty-criterion", "error", "a criterion has no words", _empty)
