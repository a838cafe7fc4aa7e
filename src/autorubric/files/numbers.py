"""Which values are numbers that a float can hold."""

from __future__ import annotations

import sys
from typing import TypeGuard


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, neither infinite nor NaN nor a whole number beyond every float.

    JSON has no largest number, so that a file or a reply may hold one that `float` and `math.isfinite` trip over.

    Example:
        >>> is_finite(2.5), is_finite(True), is_finite("2"), is_finite(float("nan")), is_finite(10**400)
        (True, False, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
