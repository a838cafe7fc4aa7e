"""What guessing reaches: the accuracy of always saying the commonest label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autorubric.metrics.column import Column
from autorubric.metrics.table import Points


def base_rate(columns: Sequence[Column], points: Points, *, pooled: bool = False) -> float | None:
    """The accuracy of guessing the commonest label of each criterion, over the pairs; None without any.

    Args:
        columns: the criteria.
        points: the pairs, abstentions settled.
        pooled: one guess for all criteria that have the same categories, as items with rubrics of their own have
            too few labels of one criterion to guess by.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> column, one = Column.of(Criterion(requirement="Is brief"), 0), np.zeros(4, np.int64)
        >>> pairs = Points(one, one, np.array([0, 0, 0, 1]), one, one[None])
        >>> base_rate([column], pairs)
        0.75
    """
    if not len(points):
        return None
    places: dict[object, int] = {}
    groups = np.array(
        [
            places.setdefault((column.kind == "binary", column.labels) if pooled else column.index, len(places))
            for column in columns
        ]
    )
    width = int(points.truth.max()) + 1
    counts = np.bincount(groups[points.column] * width + points.truth, minlength=len(places) * width)
    return float(counts.reshape(-1, width).max(axis=1).sum() / len(points))
