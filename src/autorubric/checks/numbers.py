"""The check on a numeric answer."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

from annotated_types import Ge, MinLen
from pydantic import AllowInfNan

from autorubric.checks.check import CheckOutcome, check

# Thousands groups first: `1,234.5` is one number, `1,2` is two.
_NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,400})?(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?")
_SIGNS = str.maketrans({"−": "-", "–": "-", "\u00a0": " ", "\u202f": " "})
Finite = Annotated[float, AllowInfNan(False)]
Tolerance = Annotated[Finite, Ge(0)]
Unit = Annotated[str, MinLen(1)]


@check("numeric_value")
def numeric_value(
    text: str,
    *,
    expected: Finite,
    tolerance: Tolerance = 0,
    relative_tolerance: Tolerance = 0,
    unit: Unit | Annotated[list[Unit], MinLen(1)] | None = None,
    which: Literal["any", "first", "last", "only"] = "any",
) -> CheckOutcome:
    """Passed when the text gives the expected number, in one of the units where units are given.

    A number is close enough within `tolerance`, or within `relative_tolerance` times the expected value,
    whichever is wider. Units are spellings, compared as written and never converted; they stand after the
    number, or right before it (`$5`). `which` says which of the numbers (that carry the unit) is the answer.

    Example:
        >>> numeric_value("It takes 1,250 km.", expected=1240, relative_tolerance=0.01, unit=["km"])
        CheckOutcome(passed=True, reason='found 1,250 km; expected 1240 ± 12.4 km')
    """
    units = [unit] if isinstance(unit, str) else unit or []
    numbers = _numbers(text.translate(_SIGNS), units)
    target, margin = (
        _exact(expected),
        max(_exact(tolerance), _exact(relative_tolerance) * abs(_exact(expected))),
    )
    candidates = {"first": numbers[:1], "last": numbers[-1:]}.get(which, numbers)
    close = [abs(value - target) <= margin for value, _ in candidates]
    passed = any(close) if which == "any" else bool(close) and all(close)
    shown = ", ".join(written for _, written in candidates[:5]) or "no number"
    spread = f" ± {margin.normalize():f}" if margin else ""
    named = f" {' or '.join(units)}" if units else ""
    return CheckOutcome(passed, f"found {shown}; expected {expected:g}{spread}{named}")


def _numbers(text: str, units: list[str]) -> list[tuple[Decimal, str]]:
    found = []
    for match in _NUMBER.finditer(text):
        value = _decimal(match.group())
        if value is None:
            continue
        unit = _unit_at(text, match.start(), match.end(), units)
        if unit is not None:
            found.append((value, f"{match.group()} {unit}".strip()))
    return found


def _decimal(written: str) -> Decimal | None:
    try:
        return Decimal(written.replace(",", ""))
    except InvalidOperation:
        return None


def _exact(number: float) -> Decimal:
    # Through its shortest spelling, so that 0.1 is a tenth and 0.3 within 0.1 of 0.2.
    return Decimal(repr(number))


def _unit_at(text: str, start: int, end: int, units: list[str]) -> str | None:
    """The unit next to a number; the empty string where none is required, None where it has none of them."""
    if not units:
        return ""
    after = text[end : end + 80].lstrip(" ")
    before = text[max(0, start - 80) : start].rstrip(" ")
    for unit in sorted(units, key=len, reverse=True):
        if after.startswith(unit) and not (unit[-1].isalnum() and after[len(unit) : len(unit) + 1].isalnum()):
            return unit
        if before.endswith(unit) and not (unit[0].isalnum() and before[: -len(unit)][-1:].isalnum()):
            return unit
    return None
