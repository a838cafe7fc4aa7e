"""The share of verdicts that equal their label, and the share that is at most one option off."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio


def accuracies(counts: ArrayLike, ranks: ArrayLike | None = None, within: int = 0) -> Floats:
    """The accuracy of each table of counts (the last two axes); NaN for an empty one.

    Args:
        counts: rows are the truth.
        ranks: the place of each category in the order of their values; by default their own order.
        within: how many places off still count as right.

    Example:
        >>> accuracies([[2, 1, 0], [0, 1, 0], [1, 0, 0]], within=1).tolist()
        0.8
    """
    table = np.asarray(counts, float)
    places = np.arange(table.shape[-1]) if ranks is None else np.asarray(ranks)
    right = np.abs(places[:, None] - places[None, :]) <= within
    return ratio((table * right).sum(axis=(-2, -1)), table.sum(axis=(-2, -1)))


def accuracy(counts: ArrayLike) -> float | None:
    """The share of pairs on the diagonal of a table of counts; None for an empty one.

    Example:
        >>> accuracy([[2, 1], [0, 1]]), accuracy([[0, 0], [0, 0]])
        (0.75, None)
    """
    return defined(accuracies(counts))
