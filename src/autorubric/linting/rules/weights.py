"""Weights that carry no information, or all of it."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

_FEWEST = 3


def _equal(sheet: Sheet) -> Iterator[Hit]:
    weights = {draft.weight for draft in sheet.criteria}
    if len(sheet.criteria) >= _FEWEST and len(weights) == 1 and 0 not in weights:
        yield Hit(
            None,
            f"all {len(sheet.criteria)} criteria have weight {weights.pop():g}",
            "Give what matters most a higher weight, unless all of it matters alike",
        )


def _dominant(sheet: Sheet) -> Iterator[Hit]:
    rewards = [(draft.weight, n) for n, draft in enumerate(sheet.criteria, 1) if draft.weight > 0]
    if len(rewards) < _FEWEST:
        return
    heaviest, position = max(rewards, key=lambda pair: pair[0])
    total = sum(weight for weight, _ in rewards)
    if heaviest * 2 > total:
        yield Hit(
            position,
            f"it holds {heaviest:g} of {total:g} points, more than all other criteria together",
            "Lower its weight, or split it into what it is made of",
        )


def _zero(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in enumerate(sheet.criteria, 1):
        if draft.weight == 0:
            yield Hit(position, "weight 0: it is judged, and changes no score", "Give it a weight, or remove it")


def _no_reward(sheet: Sheet) -> Iterator[Hit]:
    if sheet.criteria and not any(draft.weight > 0 for draft in sheet.criteria):
        yield Hit(
            None,
            "no criterion has a positive weight, so no submission can earn a point",
            "Add what a good submission shows, or turn the signs about",
        )


EQUAL_WEIGHTS = Rule("equal-weights", "note", "all weights of a rubric are the same", _equal)
DOMINANT_WEIGHT = Rule("dominant-weight", "warning", "one criterion holds more than half of the points", _dominant)
ZERO_WEIGHT = Rule("zero-weight", "warning", "a criterion of weight 0 costs a call and changes nothing", _zero)
NO_REWARD = Rule("no-positive-weight", "error", "nothing in the rubric can earn points", _no_reward)
