"""Kendall's τ-b: how many pairs of items two series put in the same order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Ints, number_pairs
from autorubric.metrics.distributions import normal_p_value


def kendall(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """τ-b and its two-sided p-value; None for fewer than three pairs or a series that is constant.

    τ-b = (C − D) / √((P − T_x)·(P − T_y)), P all pairs, T those tied in one series. The p-value is exact without
    ties up to 33 pairs (Kendall 1970), else by the normal approximation with the variance for ties.

    Example:
        >>> tau, p = kendall([1, 2, 3, 4], [1, 2, 4, 3])
        >>> round(tau, 12), round(p, 12)
        (0.666666666667, 0.333333333333)
    """
    a, b = (np.unique(series, return_inverse=True)[1] for series in number_pairs(x, y))
    n = len(a)
    if n < 3 or a.max() == 0 or b.max() == 0:
        return None
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    ties_x, ties_y = _tie_sizes(a), _tie_sizes(b)
    ties_both = _tie_sizes(a * (b.max() + 1) + b)
    pairs = n * (n - 1) // 2
    tied_x, tied_y, tied_both = (int((t * (t - 1) // 2).sum()) for t in (ties_x, ties_y, ties_both))
    discordant = inversions(b)
    difference = pairs - tied_x - tied_y + tied_both - 2 * discordant
    tau = difference / math.sqrt(pairs - tied_x) / math.sqrt(pairs - tied_y)
    tau = min(1.0, max(-1.0, tau))
    if not tied_x and not tied_y and (n <= 33 or min(discordant, pairs - discordant) <= 1):
        return tau, _exact_p_value(n, min(discordant, pairs - discordant))
    return tau, normal_p_value(difference / math.sqrt(_variance(n, ties_x, ties_y)))


def inversions(places: Ints) -> int:
    """How many pairs stand in falling order.

    Bit by bit from the highest: among values that agree so far, each 1 before a 0 is a pair. O(n · log n).

    Example:
        >>> inversions(np.array([2, 0, 1, 1]))
        3
    """
    values = np.asarray(places, np.int64)
    total = 0
    for bit in reversed(range(int(values.max(initial=0)).bit_length())):
        group, one = values >> (bit + 1), (values >> bit) & 1
        ones = np.cumsum(one) - one
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        ones -= np.repeat(ones[starts], np.diff(np.r_[starts, len(values)]))
        total += int(ones[one == 0].sum())
        # Stable, so that those with the same bits keep the order that is counted.
        values = values[np.argsort(values >> bit, kind="stable")]
    return total


def _tie_sizes(places: Ints) -> Ints:
    return np.unique(places, return_counts=True)[1].astype(np.int64)


def _variance(n: int, ties_x: Ints, ties_y: Ints) -> float:
    """Of C − D without correlation. Source: Kendall 1970, equation 4.3."""

    def sums(t: Ints) -> tuple[float, float, float]:
        s = t.astype(float)
        return (
            float((s * (s - 1.0)).sum()),
            float((s * (s - 1.0) * (s - 2.0)).sum()),
            float((s * (s - 1.0) * (2.0 * s + 5.0)).sum()),
        )

    x1, x2, x3 = sums(ties_x)
    y1, y2, y3 = sums(ties_y)
    m = n * (n - 1.0)
    return (m * (2.0 * n + 5.0) - x3 - y3) / 18.0 + x1 * y1 / (2.0 * m) + x2 * y2 / (9.0 * m * (n - 2.0))


def _exact_p_value(n: int, few: int) -> float:
    """Twice the share of all orders of n items with at most `few` inversions."""
    if few == n * (n - 1) / 4:
        return 1.0
    counts = [1] + [0] * few
    for size in range(2, n + 1):
        sums, running = [], 0
        for place in range(few + 1):
            running += counts[place] - (counts[place - size] if place >= size else 0)
            sums.append(running)
        counts = sums
    return min(1.0, 2 * sum(counts) / math.factorial(n))
