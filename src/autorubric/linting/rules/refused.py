"""Rubrics that grading refuses for a reason that no other rule gives."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.linting.rules.checks import INVALID_CHECK
from autorubric.linting.rules.counts import EMPTY_CRITERION
from autorubric.linting.rules.options import OPTION_VALUES, UNREACHABLE_OPTION
from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

_TELL_MORE = (EMPTY_CRITERION, INVALID_CHECK, OPTION_VALUES, UNREACHABLE_OPTION)


def _refused(sheet: Sheet) -> Iterator[Hit]:
    told = {hit.criterion for rule in _TELL_MORE for hit in rule.find(sheet)} if sheet.refusals else set()
    for position, problem in sheet.refusals:
        if position is None or position not in told:
            yield Hit(position, problem, "Grading refuses this rubric; correct it")


REFUSED = Rule(
    "refused", "error", "grading refuses the rubric, such as for an unknown key or a name given twice", _refused
)
