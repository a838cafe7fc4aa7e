"""Checks that do not exist, or that cannot run with their parameters."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.errors import InputError
from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet


def _invalid(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in enumerate(sheet.criteria, 1):
        if draft.check is None:
            continue
        from autorubric.checks import validate_check

        try:
            validate_check(str(draft.check.get("name")), draft.check.get("parameters") or {})
        except InputError as error:
            yield Hit(position, "; ".join(error.problems), "Name a check that exists, with its parameters")


INVALID_CHECK = Rule("invalid-check", "error", "a criterion names a check that cannot run", _invalid)
