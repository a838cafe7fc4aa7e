"""Item analysis of a rubric: correlations of criteria, item-response model, variance within groups of rollouts."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.errors import InputError, pluralize
from autorubric.metrics.arrays import Floats
from autorubric.metrics.intervals import Estimate, Interval, normal_quantile


def correlate_columns(values: npt.ArrayLike) -> Floats:
    """Pearson's correlation of each pair of columns (φ for 0/1), over rows that have both; NaN where constant."""
    table = np.asarray(values, dtype=float)
    seen = (~np.isnan(table)).astype(float)
    # Centred first, so that large means do not reduce precision.
    filled = np.nan_to_num(table - np.nan_to_num(table).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    n = seen.T @ seen
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = filled.T @ seen
        cross = filled.T @ filled - sums * sums.T / n
        squares = (filled**2).T @ seen - sums**2 / n
        spread = np.sqrt(np.where(squares > 1e-12, squares, np.nan))
        found = cross / (spread * spread.T)
    return np.asarray(np.clip(found, -1.0, 1.0))


def estimate_correlation(value: float, n: int, confidence: float = 0.95) -> Estimate:
    """Return a correlation with Fisher's interval: atanh r ± z / √(n − 3)."""
    if math.isnan(value):
        return Estimate(None, n=n, reason="one side is constant")
    if n < 4:
        return Estimate(value, n=n, reason=f"{pluralize(n, 'item')}; an interval needs 4")
    reach = normal_quantile(0.5 + confidence / 2.0) / math.sqrt(n - 3)
    # A sample correlation of 1 does not prove a correlation of 1, so Fisher's z is taken just below it.
    centre = math.atanh(max(-1.0 + 0.5 / n, min(1.0 - 0.5 / n, value)))
    interval = Interval(math.tanh(centre - reach), math.tanh(centre + reach), confidence)
    return Estimate(value, interval.widen(value), n)


def compute_item_rest_correlations(values: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """Return the corrected item-total correlation: each criterion's points with the points of all others.

    The others are those judged on the item, as a mean over their weights. A pitfall (negative weight) counts with the
    points that it subtracts, so that a sound pitfall correlates positively too. NaN if either side is constant.
    """
    table, weight = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    seen = ~np.isnan(table)
    points = np.where(seen, table * weight, 0.0)
    size = seen * np.abs(weight)
    rest_size = size.sum(axis=1, keepdims=True) - size
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.where(rest_size > 0, (points.sum(axis=1, keepdims=True) - points) / rest_size, np.nan)
    own = np.where(seen, table * np.where(weight < 0, -1.0, 1.0), np.nan)
    pairs = [correlate_columns(np.column_stack([own[:, c], rest[:, c]]))[0, 1] for c in range(table.shape[1])]
    return np.array(pairs)


def count_effective_criteria(values: npt.ArrayLike) -> float | None:
    """Return the effective number of independent criteria, (Σλ)² / Σλ² over the eigenvalues of their correlations.

    Constant criteria do not count; k copies of one criterion count as one. None if all are constant.
    """
    matrix = correlate_columns(values)
    varied = ~np.isnan(np.diag(matrix))
    if not varied.any():
        return None
    # Σλ is the trace, and Σλ² the sum of squares of a symmetric matrix.
    kept = np.nan_to_num(matrix[np.ix_(varied, varied)])
    return float(np.trace(kept) ** 2 / np.sum(kept**2))


def compute_score_shares(values: npt.ArrayLike, weights: npt.ArrayLike) -> Floats | None:
    """Return each criterion's share of the variance of the points: Cov(w·v, Σ w·v) / Var(Σ w·v).

    The shares sum to 1; a criterion with a negative share works against the rest. Only items with every criterion
    judged count; None with fewer than two, or if all score the same.
    """
    table = np.asarray(values, dtype=float)
    points = table[~np.isnan(table).any(axis=1)] * np.asarray(weights, dtype=float)
    if len(points) < 2:
        return None
    apart = points - points.mean(axis=0)
    total = apart.sum(axis=1)
    variance = float(total @ total)
    return np.asarray(total @ apart / variance) if variance > 1e-12 else None


class GroupVariance(NamedTuple):
    """The variance of rewards to expect in groups of n rollouts of one query.

    Attributes:
        within: the variance of rewards of one query, unbiased and pooled over queries; None if no query has
            two rewards.
        expected: the expected variance around the group's own mean, within · (n - 1) / n; None if `within` is.
        silent: the probability that all n rewards are equal, so that the group gives no signal; None if no query has
            n rewards.
        queries: the number of queries with two rewards or more.
    """

    within: float | None
    expected: float | None
    silent: float | None
    queries: int


def estimate_group_variance(rewards: npt.ArrayLike, queries: Sequence[Hashable], n: int) -> GroupVariance:
    """Return the variance of the reward in groups of n rollouts, from the rewards of submissions by query.

    `silent` averages over queries the share of groups of n, drawn without replacement from the query's
    rewards, that are all equal: Σ C(count of a value, n) / C(rewards, n).

    Args:
        rewards: one per submission; NaN if there is none.
        queries: the query of each submission.
        n: the number of rollouts in a group, at least 2.

    Raises:
        InputError: `n` is below 2, or there are not as many queries as rewards.

    Example:
        >>> figures = estimate_group_variance([0, 1, 0, 1, 1, 1], ["a", "a", "a", "a", "b", "b"], 2)
        >>> round(figures.within, 3), round(figures.expected, 3), round(figures.silent, 3)
        (0.25, 0.125, 0.667)
    """
    values = np.asarray(rewards, dtype=float)
    if n < 2:
        raise InputError(f"n={n}; a group has at least 2 rollouts")
    if len(values) != len(queries):
        raise InputError(
            f"got {pluralize(len(values), 'reward')} for {pluralize(len(queries), 'query')}; expected one query each"
        )
    groups: dict[Hashable, list[float]] = {}
    for value, query in zip(values.tolist(), queries, strict=True):
        if not math.isnan(value):
            groups.setdefault(query, []).append(value)
    several = [np.array(group) for group in groups.values() if len(group) > 1]
    if not several:
        return GroupVariance(None, None, None, 0)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    within = squares / sum(len(group) - 1 for group in several)
    alike = [
        sum(math.comb(count, n) for count in Counter(group.tolist()).values()) / math.comb(len(group), n)
        for group in several
        if len(group) >= n
    ]
    silent = sum(alike) / len(alike) if alike else None
    return GroupVariance(within, within * (n - 1) / n, silent, len(several))


_ABILITIES = np.linspace(-5.0, 5.0, 41)
_PRIOR = np.exp(-(_ABILITIES**2) / 2.0) / np.exp(-(_ABILITIES**2) / 2.0).sum()
_MOST_ROUNDS = 500
_CLOSE = 1e-6
_SLOPE_MEAN, _SLOPE_VARIANCE, _LEVEL_VARIANCE = 1.0, 1.0, 9.0
_FLAT = 0.1


class ItemResponse(NamedTuple):
    """The two-parameter logistic model P(met | θ) = 1 / (1 + exp(-slope·(θ - difficulty))), θ ~ N(0, 1).

    Attributes:
        slope: the discrimination of each criterion; negative if poor submissions meet it more often.
        difficulty: the ability at which half of the submissions meet it; NaN if the slope is nearly 0.
        level: slope · (-difficulty), which is always defined.
    """

    slope: Floats
    difficulty: Floats
    level: Floats


def fit_item_response(values: npt.ArrayLike) -> ItemResponse | None:
    """Fit the model by marginal maximum likelihood; None with fewer than three criteria or ten items.

    EM over 41 abilities (Bock and Aitkin, Psychometrika 46 (1981)), with one damped Newton step per criterion and
    round. Weak normal priors (slope 1 ± 1, level 0 ± 3) keep the parameters of criteria that all items meet finite,
    at the cost of some shrinkage with few items.

    Args:
        values: items × criteria in [0, 1], NaN without a verdict; give a pitfall as 1 - MET.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ability = rng.standard_normal((2000, 1))
        >>> chance = 1 / (1 + np.exp(-np.array([0.7, 1.0, 1.5, 2.0]) * (ability - np.array([-1, 0, 0.5, 1]))))
        >>> model = fit_item_response(rng.random(chance.shape) < chance)
        >>> bool(np.abs(model.difficulty - [-1, 0, 0.5, 1]).max() < 0.2)
        True
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[0] < 10 or table.shape[1] < 3:
        return None
    # Items with the same verdicts share one row with a count: at most 2¹⁰ rows for ten binary criteria.
    patterns, counts = np.unique(np.where(np.isnan(table), -1.0, table), axis=0, return_counts=True)
    seen = patterns >= 0.0
    met, missed = np.where(seen, patterns, 0.0), np.where(seen, 1.0 - patterns, 0.0)
    share = np.clip(counts @ met / np.maximum(counts @ seen, 1), 0.02, 0.98)
    slope, level = np.ones(table.shape[1]), np.log(share / (1.0 - share))
    for _ in range(_MOST_ROUNDS):
        posterior = _compute_posterior(met, missed, slope, level) * counts[:, None]
        new_slope, new_level = _compute_newton_step(met.T @ posterior, missed.T @ posterior, slope, level)
        moved = max(float(np.abs(new_slope - slope).max()), float(np.abs(new_level - level).max()))
        slope, level = new_slope, new_level
        if moved < _CLOSE:
            break
    steep = np.abs(slope) >= _FLAT
    difficulty = np.where(steep, -level / np.where(steep, slope, 1.0), np.nan)
    return ItemResponse(slope, difficulty, level)


def _compute_posterior(met: Floats, missed: Floats, slope: Floats, level: Floats) -> Floats:
    """Return the E-step: the posterior of each item's ability over the grid, items × abilities; rows sum to 1."""
    logit = np.outer(slope, _ABILITIES) + level[:, None]
    log_met, log_missed = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    log_joint = met @ log_met + missed @ log_missed + np.log(_PRIOR)
    joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _compute_newton_step(met: Floats, missed: Floats, slope: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Return the M-step: one damped Newton step of slope and level of all criteria together.

    `met` and `missed` are the expected counts of the E-step, criteria × abilities.
    """
    chance = 1.0 / (1.0 + np.exp(-(np.outer(slope, _ABILITIES) + level[:, None])))
    counts = met + missed
    residual, curvature = met - counts * chance, counts * chance * (1.0 - chance)
    of_slope = residual @ _ABILITIES - (slope - _SLOPE_MEAN) / _SLOPE_VARIANCE
    of_level = residual.sum(axis=1) - level / _LEVEL_VARIANCE
    ss = curvature @ _ABILITIES**2 + 1.0 / _SLOPE_VARIANCE
    sl = curvature @ _ABILITIES
    ll = curvature.sum(axis=1) + 1.0 / _LEVEL_VARIANCE
    determinant = ss * ll - sl * sl
    slope_step = (ll * of_slope - sl * of_level) / determinant
    level_step = (ss * of_level - sl * of_slope) / determinant
    return slope + np.clip(slope_step, -1.0, 1.0), level + np.clip(level_step, -1.0, 1.0)
