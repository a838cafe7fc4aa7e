"""Fleiss' κ: agreement beyond chance of several judges who all voted on every item."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import defined, ratio


def fleiss_kappa(ratings: ArrayLike, judges: int) -> float | None:
    """Fleiss' κ over the items that all judges voted on; None where it is undefined.

    κ = (P̄ − P̄_e) / (1 − P̄_e), P_i = Σ n_ij·(n_ij − 1) / (n·(n − 1)), P̄_e = Σ p_j². Source: Fleiss 1971.

    Args:
        ratings: how many judges put each item (row) into each category (column).
        judges: how many there are; items with fewer votes are left out.

    Example:
        >>> fleiss_kappa([[2, 0], [2, 0], [0, 2], [1, 1]], 2)
        0.4666666666666667
    """
    table = np.asarray(ratings, float)
    table = table[table.sum(axis=1) == judges]
    if judges < 2 or not len(table):
        return None
    observed = ((table * (table - 1.0)).sum(axis=1) / (judges * (judges - 1.0))).mean()
    chance = ((table.sum(axis=0) / table.sum()) ** 2).sum()
    return defined(ratio(observed - chance, 1.0 - chance))
