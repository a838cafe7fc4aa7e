"""Spearman's correlation: how closely the order of one series follows another's."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, number_pairs, numbers
from autorubric.metrics.pearson import correlation_p_value


def mean_ranks(values: ArrayLike) -> Floats:
    """The rank of each value from 1; equal values share the mean of their ranks.

    Example:
        >>> mean_ranks([0.5, 0.1, 0.5]).tolist()
        [2.5, 1.0, 2.5]
    """
    _, place, counts = np.unique(numbers(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2.0)[place])


def spearman(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """ρ, Pearson's correlation of the ranks, and its two-sided p-value by Student's t with n − 2.

    None for fewer than three pairs or a series that is constant.

    Example:
        >>> rho, p = spearman([1, 2, 3, 4], [1, 2, 4, 3])
        >>> round(rho, 12), round(p, 12)
        (0.8, 0.2)
    """
    # Twice the distance from the mean rank is a whole number, so that one order on both sides gives 1, not nearly 1.
    a, b = (2.0 * ranks - (len(ranks) + 1.0) for ranks in map(mean_ranks, number_pairs(x, y)))
    spread = math.sqrt(float(a @ a) * float(b @ b))
    if len(a) < 3 or not spread:
        return None
    rho = float(a @ b) / spread
    return rho, correlation_p_value(rho, len(a))
