"""Krippendorff's α: agreement of any number of judges, with votes missing."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal", values: ArrayLike | None = None) -> float | None:
    """Krippendorff's α; None where every vote is the same or no item has two.

    α = 1 − D_observed / D_expected, both weighted by the squared distance of categories. Items with fewer than
    two votes are left out. Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.

    Args:
        ratings: how many judges put each item (row) into each category (column).
        level: `nominal`, `ordinal` (categories stand in the order of the columns, or of `values`) or `interval`.
        values: of the categories, for `interval` and the order of `ordinal`; by default their numbers.

    Example:
        >>> krippendorff_alpha([[2, 0], [2, 0], [0, 2], [1, 1]])
        0.5333333333333333
    """
    table = np.asarray(ratings, float)
    points = np.arange(table.shape[1], dtype=float) if values is None else np.asarray(values, float)
    table = table[table.sum(axis=1) >= 2]
    votes = table.sum(axis=1)
    pairs = (table / (votes - 1.0)[:, None]).T @ table
    pairs -= np.diag((table / (votes - 1.0)[:, None]).sum(axis=0))
    totals = table.sum(axis=0)
    distance = _distances(totals, points, level)
    expected = (np.outer(totals, totals) * distance).sum() / max(totals.sum() - 1.0, 1.0)
    return defined(1.0 - ratio((pairs * distance).sum(), expected))


def _distances(totals: Floats, points: Floats, level: Level) -> Floats:
    """The squared distance of every two categories."""
    if level == "nominal":
        return 1.0 - np.eye(len(points))
    if level == "ordinal":
        # Categories of one value share a place: what stands between two is counted by value.
        places, place = np.unique(points, return_inverse=True)
        at = np.bincount(place, weights=totals, minlength=len(places))
        points = (np.cumsum(at) - at / 2.0)[place]
    return np.asarray((points[:, None] - points[None, :]) ** 2)
