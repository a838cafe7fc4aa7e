"""How often each verdict met each label."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, Ints


def confusion_counts(truth: ArrayLike, judged: ArrayLike, categories: int) -> Ints:
    """The counts of each pair: rows are the truth, columns what was judged.

    Args:
        truth: codes from 0 to `categories` − 1.
        judged: likewise, one for each of `truth`.
        categories: how many there are, those that nobody chose included.

    Example:
        >>> confusion_counts([0, 0, 1], [0, 1, 1], 3).tolist()
        [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    pairs = np.asarray(truth, np.int64) * categories + np.asarray(judged, np.int64)
    return np.bincount(pairs, minlength=categories * categories).reshape(categories, categories).astype(np.int64)


def shares(counts: ArrayLike) -> Floats:
    """Each count of a table (its last two axes) as a share of all; NaN for an empty table.

    Example:
        >>> shares([[1, 1], [0, 2]]).tolist()
        [[0.25, 0.25], [0.0, 0.5]]
    """
    table = np.asarray(counts, float)
    total = table.sum(axis=(-2, -1), keepdims=True)
    found: Floats = np.divide(table, total, out=np.full(table.shape, np.nan), where=total > 0)
    return found
