"""Several judges' codes as counts by item and category, the form that agreement among judges is computed from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Ints


def rating_counts(codes: ArrayLike, categories: int) -> Ints:
    """How many judges put each item into each category.

    Args:
        codes: judges × items; a negative code is a missing vote.
        categories: how many there are.

    Example:
        >>> rating_counts([[0, 1], [0, -1]], 2).tolist()
        [[2, 0], [0, 1]]
    """
    table = np.asarray(codes, np.int64)
    cast = table >= 0
    items = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    cells = items[cast] * categories + table[cast]
    return np.bincount(cells, minlength=table.shape[1] * categories).reshape(-1, categories).astype(np.int64)
