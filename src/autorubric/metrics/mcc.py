"""Matthews' correlation of verdicts and labels; φ for two categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio


def mccs(counts: ArrayLike) -> Floats:
    """The coefficient of each table of counts (the last two axes); NaN where one side is constant.

    (c·s − Σ t·p) / √((s² − Σ p²)·(s² − Σ t²)), s the total, c the diagonal, t and p the margins.
    Source: Gorodkin 2004; φ where there are two categories.

    Example:
        >>> mccs([[4, 1], [1, 4]]).tolist()
        0.6
    """
    table = np.asarray(counts, float)
    total = table.sum(axis=(-2, -1))
    true, given = table.sum(axis=-1), table.sum(axis=-2)
    covariance = np.trace(table, axis1=-2, axis2=-1) * total - (true * given).sum(axis=-1)
    spread = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (given**2).sum(axis=-1))
    return ratio(covariance, np.sqrt(spread))


def mcc(counts: ArrayLike) -> float | None:
    """`mccs` of one table; None where it is undefined.

    Example:
        >>> mcc([[4, 0], [1, 0]]) is None
        True
    """
    return defined(mccs(counts))
