"""How criteria hang together: with the rest of the rubric, with each other, and with the score."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autorubric.metrics.distributions import normal_quantile
from autorubric.metrics.interval import Estimate, Interval

Array = npt.NDArray[np.float64]


def correlations(values: npt.ArrayLike) -> Array:
    """Pearson's correlation of each pair of columns (φ for 0/1), over rows that have both; NaN where constant.

    Example:
        >>> correlations([[1, 0], [0, 1], [1, 0], [0, 1]])[0, 1].round(2)
        np.float64(-1.0)
    """
    table = np.asarray(values, dtype=float)
    seen = (~np.isnan(table)).astype(float)
    # Centred first, so that large means cost no digits.
    filled = np.nan_to_num(table - _column_means(table))
    n = seen.T @ seen
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = filled.T @ seen
        cross = filled.T @ filled - sums * sums.T / n
        squares = (filled**2).T @ seen - sums**2 / n
        spread = np.sqrt(np.where(squares > 1e-12, squares, np.nan))
        found = cross / (spread * spread.T)
    return np.asarray(np.clip(found, -1.0, 1.0))


def correlation_estimate(value: float, n: int, confidence: float = 0.95) -> Estimate:
    """A correlation with Fisher's interval: atanh r ± z / √(n − 3).

    Example:
        >>> estimate = correlation_estimate(0.5, 28)
        >>> round(estimate.interval.low, 3), round(estimate.interval.high, 3)
        (0.156, 0.736)
    """
    if math.isnan(value):
        return Estimate(None, n=n, reason="one side is constant")
    if n < 4:
        return Estimate(value, n=n, reason=f"{n} items; an interval needs 4")
    reach = normal_quantile(0.5 + confidence / 2.0) / math.sqrt(n - 3)
    # A correlation of 1 in a sample is not certain: Fisher's z is taken just short of it.
    centre = math.atanh(max(-1.0 + 0.5 / n, min(1.0 - 0.5 / n, value)))
    low, high = math.tanh(centre - reach), math.tanh(centre + reach)
    return Estimate(value, Interval(min(low, value), max(high, value), confidence), n)


def item_rest_correlations(values: npt.ArrayLike, weights: npt.ArrayLike) -> Array:
    """The corrected item-total correlation: each criterion's points with the points of all others.

    Of the others, those that were judged on the item count, as a mean over their weights. A negative weight counts
    as what it costs, so that a sound pitfall has a positive correlation too. NaN where either side is constant.

    Example:
        >>> item_rest_correlations([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 1]], [1, 1, -1]).round(2)
        array([1., 1., 1.])
    """
    table, weight = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    seen = ~np.isnan(table)
    points = np.where(seen, table * weight, 0.0)
    size = seen * np.abs(weight)
    rest_size = size.sum(axis=1, keepdims=True) - size
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.where(rest_size > 0, (points.sum(axis=1, keepdims=True) - points) / rest_size, np.nan)
    own = np.where(seen, table * np.where(weight < 0, -1.0, 1.0), np.nan)
    pairs = [correlations(np.column_stack([own[:, c], rest[:, c]]))[0, 1] for c in range(table.shape[1])]
    return np.array(pairs)


def effective_criteria(values: npt.ArrayLike) -> float | None:
    """How many independent criteria these amount to: (Σλ)² / Σλ² over the eigenvalues of their correlations.

    Constant criteria count for nothing; k copies of one criterion count for one. None where all are constant.

    Example:
        >>> effective_criteria([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
        1.8
    """
    matrix = correlations(values)
    varied = ~np.isnan(np.diag(matrix))
    if not varied.any():
        return None
    # Σλ is the trace, and Σλ² the sum of squares of a symmetric matrix.
    kept = np.nan_to_num(matrix[np.ix_(varied, varied)])
    return float(np.trace(kept) ** 2 / np.sum(kept**2))


def score_shares(values: npt.ArrayLike, weights: npt.ArrayLike) -> Array | None:
    """The share of the variance of the points that each criterion decides: Cov(w·v, Σ w·v) / Var(Σ w·v).

    The shares sum to 1; one below 0 works against the rest. Only items with every criterion judged count; None with
    fewer than two, or where all score the same.

    Example:
        >>> score_shares([[1, 1], [1, 0], [0, 1], [0, 0]], [3, 1]).round(2)
        array([0.9, 0.1])
    """
    table = np.asarray(values, dtype=float)
    points = table[~np.isnan(table).any(axis=1)] * np.asarray(weights, dtype=float)
    if len(points) < 2:
        return None
    apart = points - points.mean(axis=0)
    total = apart.sum(axis=1)
    variance = float(total @ total)
    return np.asarray(total @ apart / variance) if variance > 1e-12 else None


def _column_means(table: Array) -> Array:
    seen = ~np.isnan(table)
    return np.asarray(np.nan_to_num(table).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
