"""Which values are numbers that a float can hold."""

from __future__ import annotations

import re
import sys
from typing import TypeGuard

_DECIMAL = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, neither infinite nor NaN nor a whole number beyond every float.

    JSON has no largest number, so that a file or a reply may hold one that `float` and `math.isfinite` trip over.

    Example:
        >>> is_finite(2.5), is_finite(True), is_finite("2"), is_finite(float("nan")), is_finite(10**400)
        (True, False, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def as_number(value: object) -> float | None:
    """The finite number that a value is or, as files of tables have it, spells in plain decimal; None for all else.

    Example:
        >>> as_number(2), as_number(" -2.5 "), as_number("1e3")
        (2.0, -2.5, 1000.0)
        >>> [as_number(value) for value in ("1_000", "1,5", "0x10", "nan", "", True, None, "9" * 400)]
        [None, None, None, None, None, None, None, None]
    """
    if isinstance(value, str):
        value = float(value) if _DECIMAL.fullmatch(value) else None
    return float(value) if is_finite(value) else None
