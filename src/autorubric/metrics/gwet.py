"""Gwet's AC1 and AC2: agreement beyond chance that stays put where one verdict is rare."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, defined, ratio
from autorubric.metrics.confusion import shares


def gwets(counts: ArrayLike, weights: Floats | None = None) -> Floats:
    """The coefficient of each table of two raters (the last two axes); NaN for an empty table.

    p_e = Σw / (q·(q − 1)) · Σ π·(1 − π), π the mean share of a category over both raters; AC = (p_o − p_e) /
    (1 − p_e). Source: Gwet 2014, Handbook of Inter-Rater Reliability, equations 4.7 and 5.12.

    Args:
        counts: of pairs of verdicts.
        weights: how much each pair counts as agreement (AC2); by default the same category alone (AC1).

    Example:
        >>> round(float(gwets([[118, 5], [2, 0]])), 4)
        0.9408
    """
    p = shares(counts)
    q = p.shape[-1]
    w = np.eye(q) if weights is None else weights
    mean = (p.sum(axis=-1) + p.sum(axis=-2)) / 2.0
    observed = (p * w).sum(axis=(-2, -1))
    return _beyond(observed, mean, w)


def gwet_ac(ratings: ArrayLike, weights: Floats | None = None) -> float | None:
    """Gwet's AC1 (AC2 with weights) of any number of raters; None where no item has two ratings.

    Args:
        ratings: how many raters put each item (row) into each category (column). Raters may be missing.
        weights: how much each pair of categories counts as agreement.

    Example:
        >>> gwet_ac([[2, 0], [2, 0], [0, 2], [1, 1]])
        0.5294117647058824
    """
    table = np.asarray(ratings, float)
    w = np.eye(table.shape[1]) if weights is None else weights
    raters = table.sum(axis=1)
    paired = raters >= 2
    if not paired.any():
        return None
    some = table[paired]
    count = raters[paired]
    observed = ((some * (some @ w - 1.0)).sum(axis=1) / (count * (count - 1.0))).mean()
    rated = raters >= 1
    mean = (table[rated] / raters[rated, None]).mean(axis=0)
    return defined(_beyond(observed, mean, w))


def _beyond(observed: ArrayLike, mean: Floats, w: Floats) -> Floats:
    q = len(w)
    chance = w.sum() / (q * (q - 1.0)) * (mean * (1.0 - mean)).sum(axis=-1)
    return ratio(np.asarray(observed) - chance, 1.0 - chance)
