"""Accuracy as if every label were equally frequent."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio


def balanced_accuracies(counts: ArrayLike) -> Floats:
    """The mean recall over the categories that the truth holds, for each table (the last two axes).

    NaN where the truth holds fewer than two: a recall that was never put to the test is not known.
    Source: Brodersen et al. 2010, equation 1.

    Example:
        >>> balanced_accuracies([[90, 0], [5, 5]]).tolist()
        0.75
    """
    table = np.asarray(counts, float)
    support = table.sum(axis=-1)
    recall = ratio(np.diagonal(table, axis1=-2, axis2=-1), support)
    present = (support > 0).sum(axis=-1)
    mean = ratio(np.where(support > 0, recall, 0.0).sum(axis=-1), present)
    return np.where(present >= 2, mean, np.nan)


def balanced_accuracy(counts: ArrayLike) -> float | None:
    """`balanced_accuracies` of one table; None where it is undefined.

    Example:
        >>> balanced_accuracy([[3, 1], [0, 0]]) is None
        True
    """
    return defined(balanced_accuracies(counts))
