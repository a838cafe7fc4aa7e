"""Means with their confidence intervals."""

from __future__ import annotations

import math
from typing import NamedTuple

from autorubric.metrics.intervals import t_quantile

Z95 = 1.959964
"""The 97.5th percentile of the normal distribution."""


class Mean(NamedTuple):
    """A mean with its 95 % confidence interval by Student's t; None for fewer than two values, or equal ones."""

    value: float | None
    interval: tuple[float, float] | None
    n: int


def estimate_mean(n: int, total: float, squares: float, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Mean:
    """The mean of numbers, from their sums; the interval ends at the `bounds` of the numbers.

    Example:
        >>> mean = estimate_mean(4, 2.0, 2.0, (0.0, 1.0))
        >>> mean.value, mean.interval
        (0.5, (0.0, 1.0))
        >>> [round(end, 3) for end in estimate_mean(4, 2.0, 1.5).interval]
        [-0.15, 1.15]
    """
    if not n:
        return Mean(None, None, 0)
    value = total / n
    spread = squares - n * value * value
    if n < 2 or spread <= 1e-12 * max(squares, 1.0):
        return Mean(value, None, n)
    half = t_quantile(0.975, n - 1) * math.sqrt(spread / (n - 1) / n)
    return Mean(value, (max(value - half, bounds[0]), min(value + half, bounds[1])), n)
