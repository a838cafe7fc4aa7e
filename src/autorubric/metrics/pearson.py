"""Pearson's correlation: how closely two series follow a line."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import number_pairs, numbers
from autorubric.metrics.distributions import t_p_value

_CONSTANT = 1e-13
"""A spread below this share of the values' own size is rounding."""


def pearson(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """R and its two-sided p-value (t = r·√((n − 2)/(1 − r²)), n − 2 degrees of freedom).

    None for fewer than three pairs or a series that is constant.

    Example:
        >>> r, p = pearson([1, 2, 3, 4], [1, 2, 3, 5])
        >>> round(r, 4), round(p, 4)
        (0.9827, 0.0173)
    """
    first, second = number_pairs(x, y)
    n = len(first)
    if n < 3 or is_constant(first) or is_constant(second):
        return None
    a, b = first - first.mean(), second - second.mean()
    r = float(np.clip((a / np.linalg.norm(a)) @ (b / np.linalg.norm(b)), -1.0, 1.0))
    return r, correlation_p_value(r, n)


def correlation_p_value(r: float, n: int) -> float:
    """The two-sided p-value of a correlation of n pairs by Student's t.

    Example:
        >>> correlation_p_value(0.0, 10), correlation_p_value(1.0, 10)
        (1.0, 0.0)
    """
    rest = (1.0 - r) * (1.0 + r)
    return 0.0 if rest <= 0.0 else t_p_value(r * math.sqrt((n - 2) / rest), n - 2)


def is_constant(values: ArrayLike) -> bool:
    """Whether the values are all the same but for rounding.

    Example:
        >>> is_constant([0.1 + 0.2, 0.3]), is_constant([0.3, 0.4])
        (True, False)
    """
    found = numbers(values)
    return len(found) == 0 or bool(np.ptp(found) <= _CONSTANT * np.abs(found).max())
