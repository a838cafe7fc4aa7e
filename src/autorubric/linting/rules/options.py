"""Options that can never be told apart, or never be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Draft, Sheet


def _unreachable(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in enumerate(sheet.criteria, 1):
        problem = None if draft.options is None else _problem(draft)
        if problem:
            yield Hit(position, *problem)


def _problem(draft: Draft) -> tuple[str, str] | None:
    options = draft.options or ()
    scored = [option for option in options if not option.na]
    twice = [label for label, n in Counter(o.label.strip().casefold() for o in options).items() if n > 1]
    if twice:
        return (
            f"the label {twice[0]!r} is given twice, so one of the two can never be chosen",
            "Give every option a label of its own",
        )
    if len(scored) < 2:
        return (
            f"it has {len(scored)} options with a score; no choice makes a difference",
            "Add options, or make it a binary criterion",
        )
    if len({option.value for option in scored}) == 1:
        return (
            f"all its options are worth {scored[0].value:g}; no choice makes a difference",
            "Give the options values from 0 (worst) to 1 (best)",
        )
    return None


def _values(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in enumerate(sheet.criteria, 1):
        scored = [option for option in draft.options or () if not option.na]
        values = [option.value for option in scored]
        if len(set(values)) < 2 or len(scored) < 2:
            continue
        if max(values) < 1:
            yield Hit(
                position,
                f"its best option is worth {max(values):g}, so the full weight can never be earned",
                "Give the best option the value 1",
            )
        elif draft.scale == "ordinal" and len(set(values)) < len(values):
            same = next(value for value in values if values.count(value) > 1)
            labels = " and ".join(repr(option.label) for option in scored if option.value == same)
            yield Hit(
                position,
                f"{labels} are both worth {same:g} on an ordinal scale",
                "Join them, or give them values of their own",
            )


UNREACHABLE_OPTION = Rule(
    "unreachable-option", "error", "options that share a label, or that all count the same", _unreachable
)
OPTION_VALUES = Rule("option-values", "warning", "full marks cannot be reached, or two steps count the same", _values)
