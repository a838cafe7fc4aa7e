"""Confidence intervals of agreement statistics: Student's t of the jackknife over items, and two posteriors.

The criteria of one item are correlated, so whole items are left out, not single verdicts. A statistic is a function
of sums over items; leaving an item out subtracts its contribution. `benchmarks.agreement_intervals` measures
coverage.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from autorubric.errors import InputError
from autorubric.metrics.arrays import Floats, ratio
from autorubric.metrics.confusion import kappas
from autorubric.metrics.intervals import Interval, check_confidence, t_quantile, wilson_interval

Summary: TypeAlias = Callable[[Floats], Floats]
"""From sums (…, m) to statistics (…, s); NaN where one is undefined."""
Scale: TypeAlias = Literal["plain", "share", "correlation"]

_BLOCK = 20_000
_GROUPS = 1000
_NO_SPREAD = 1e-12
_TRANSFORMS: dict[Scale, tuple[Callable[[Floats], Floats], Callable[[float], float], float, float]] = {
    "plain": (lambda x: x, lambda x: x, -math.inf, math.inf),
    "correlation": (np.arctanh, math.tanh, -1.0, 1.0),
}
"""The transform of each scale, its inverse, and the bounds that it maps to infinity."""


class Draws(NamedTuple):
    """The number of draws of a posterior or a permutation test, the seed, and the level of intervals.

    A posterior of κ takes `finer` draws for each replicate, within the limits of `count_kappa_draws`.
    """

    replicates: int = 1000
    confidence: float = 0.95
    seed: int | None = None
    finer: int = 20

    def count_kappa_draws(self, points: int) -> int:
        """Return the number of draws for a posterior of κ: more for fewer points, where draws are cheap.

        With 20,000 draws, an end of the interval has a Monte-Carlo error of about 1% of the interval's width; with
        1,000 draws it is about 4%, enough to change whether a judge can be relied on.

        Args:
            points: the number of distinct observations that are weighted.

        Example:
            >>> [Draws().count_kappa_draws(points) for points in (4, 1000, 50_000)]
            [20000, 2000, 1000]
        """
        return max(self.replicates, min(self.finer * self.replicates, 20_000, 2_000_000 // points))


def check_draws(named: str, replicates: int, confidence: float, seed: int | None) -> Draws:
    """Return the draws, validated; `named` is the caller's name for `replicates`.

    Raises:
        InputError: a value is out of its range.
    """
    check_confidence(confidence)
    problems = []
    if not isinstance(replicates, Integral) or replicates < 2:
        problems.append(f"{named}={replicates!r}; expected a whole number, 2 or more")
    if seed is not None and (not isinstance(seed, Integral) or seed < 0):
        problems.append(f"seed={seed!r}; expected a whole number, 0 or more, or None")
    if problems:
        raise InputError(problems)
    return Draws(replicates, confidence, seed)


def jackknife_intervals(
    contributions: Floats,
    statistic: Summary,
    scales: Sequence[Scale],
    confidence: float,
    times: Floats | None = None,
    least_error: float = 0.0,
) -> list[Interval | None]:
    """Return an interval for each statistic; None if it is undefined or does not depend on any item.

    Student's t with n − 1 degrees of freedom of the jackknife's variance (Tukey 1958), on the scale where the
    statistic is nearest to normal: artanh for κ (Fleiss and Davies 1982 for the jackknife of κ). A share has Wilson's
    interval with its effective sample size (Korn and Graubard 1998; Franco, Little, Louis and Slud 2019). For a mean
    this is the t interval itself.

    Args:
        contributions: the contribution of each item to the sums: items × m.
        statistic: maps sums to statistics.
        scales: the scale of each statistic.
        confidence: the level of the intervals.
        times: the number of items that each row stands for; None for one each.
        least_error: the smallest standard error, on the scale, of statistics that are not shares.
    """
    times = np.ones(len(contributions)) if times is None else times
    total = times @ contributions
    values = np.atleast_1d(statistic(total))
    parts = [statistic(total - contributions[at : at + _BLOCK]) for at in range(0, len(contributions), _BLOCK)]
    every = np.concatenate(parts) if parts else np.empty((0, len(values)))
    n, intervals = int(times.sum()), list[Interval | None]()
    for value, left_out, scale in zip(values.tolist(), every.T, scales, strict=True):
        if n < 2 or np.isnan(value) or np.isnan(left_out).any() or np.ptp(left_out) <= _NO_SPREAD:
            intervals.append(None)
            continue
        quantile = t_quantile(0.5 + confidence / 2.0, n - 1)
        if scale == "share":
            worth = value * (1.0 - value) / jackknife_variance(left_out, times)
            intervals.append(wilson_interval(value * worth, worth, confidence, quantile))
            continue
        to, back, least, most = _TRANSFORMS[scale]
        if not (least < min(value, left_out.min()) and max(value, left_out.max()) < most):
            # A single item keeps the statistic off its bound, where the transform is infinite.
            to, back = _TRANSFORMS["plain"][:2]
        centre = float(to(np.array([value]))[0])
        reach = quantile * max(least_error, math.sqrt(jackknife_variance(to(left_out), times)))
        intervals.append(Interval(back(centre - reach), back(centre + reach), confidence).clip(least, most))
    return intervals


def jackknife_variance(left_out: Floats, times: Floats | None = None) -> float:
    """Return the jackknife's variance of a statistic, Σ (θ₋ᵢ − mean)²·(n − 1)/n (Tukey 1958).

    Args:
        left_out: the statistic without each item.
        times: the number of items with each value; None for one each.
    """
    times = np.ones(len(left_out)) if times is None else times
    n = float(times.sum())
    return float(times @ (left_out - times @ left_out / n) ** 2) * (n - 1.0) / n


def share_interval(
    hits: Floats, pairs: Floats, confidence: float = 0.95, times: Floats | None = None
) -> Interval | None:
    """Return the interval of the share Σ hits / Σ pairs, with items as clusters; None without pairs.

    Wilson's with the effective number of pairs and Student's quantile (see `jackknife_intervals`). If each item is
    one observation, Wilson's plain interval. If the share is the same in every item, its variance is unknown: then
    Wilson's with `count_effective_items` for n, as if all pairs of an item were one observation.

    Args:
        hits: the number of agreeing pairs of each item.
        pairs: the number of pairs of each item, above 0; with weighted labels, the number that they represent, in any
            unit.
        confidence: the level of the interval.
        times: the number of items with these numbers; None for one each.

    Example:
        >>> low, high, _ = share_interval(np.array([5.0, 3.0, 4.0, 5.0]), np.full(4, 5.0))
        >>> round(low, 3), round(high, 3)
        (0.428, 0.977)
    """
    if not len(pairs):
        return None
    times = np.ones(len(pairs)) if times is None else times
    worth = count_effective_items(pairs, times)
    if (hits * (pairs - hits)).any() or not math.isclose(worth, float(times.sum())):
        sums = np.column_stack([hits, pairs])
        [found] = jackknife_intervals(sums, lambda s: ratio(s[..., :1], s[..., 1:]), ["share"], confidence, times)
        if found is not None:
            return found
    return wilson_interval(float(times @ hits) / float(times @ pairs) * worth, worth, confidence)


def count_effective_items(sizes: Floats, times: Floats | None = None) -> float:
    """Return the effective number of items of different sizes, (Σ size)² / Σ size² (Kish 1965).

    Args:
        sizes: the number of pairs of each item, or the number that they stand for.
        times: the number of items of each size; None for one each.

    Example:
        >>> count_effective_items(np.array([2.0, 2.0])), count_effective_items(np.array([3.0, 1.0]))
        (2.0, 1.6)
    """
    times = np.ones(len(sizes)) if times is None else times
    return float(times @ sizes) ** 2 / float(times @ sizes**2)


def bounded_mean_intervals(values: Floats, ends: Floats, draws: Draws) -> list[Interval]:
    """Return an interval for the mean of each bounded column, by a Bayesian bootstrap with the ends of the scale.

    Every item has a gamma weight with shape 1 (Rubin, Annals of Statistics 9 (1981)). The lower end of the interval
    also counts half an item at the lower end of the scale, and the upper end half an item at the upper: for shares,
    Jeffreys' half of the item that Clopper and Pearson, and for any bounded values Gaffke (2005), count in full. So
    the interval allows for rare large values even if the sample contains none.

    Args:
        values: items × columns.
        ends: the ends of each column's scale: 2 × columns.
        draws: the number of draws, the seed and the level.

    Example:
        >>> shares = bounded_mean_intervals(np.zeros((30, 1)), np.array([[0.0], [1.0]]), Draws(20_000, seed=0))
        >>> [round(end, 2) for end in shares[0][:2]]
        [0.0, 0.08]
    """
    points, counts = np.unique(np.round(values, 12), axis=0, return_counts=True)
    rng, block = np.random.default_rng(draws.seed), max(1, 2_000_000 // len(counts))
    lows, highs = [], []
    for start in range(0, draws.replicates, block):
        size = min(block, draws.replicates - start)
        weights, half = rng.standard_gamma(counts, (size, len(counts))), rng.standard_gamma(0.5, (size, 1))
        total, above = weights.sum(axis=1, keepdims=True) + half, weights @ points
        lows.append((above + half * ends[0]) / total)
        highs.append((above + half * ends[1]) / total)
    tail = (1.0 - draws.confidence) / 2.0
    low, high = (np.quantile(np.concatenate(means), at, axis=0) for means, at in ((lows, tail), (highs, 1.0 - tail)))
    return [
        Interval(float(one), float(other), draws.confidence).widen(float(mean))
        for one, other, mean in zip(low, high, values.mean(axis=0), strict=True)
    ]


def _compute_null_error(counts: Floats, weights: Floats, pairs: float) -> float:
    """Return the standard error of κ if labels and verdicts are independent (Fleiss, Cohen and Everitt 1969)."""
    rows, columns = (counts.sum(axis=axis) / counts.sum() for axis in (1, 0))
    expected, chance = float(rows @ weights @ columns), np.outer(rows, columns)
    variance = float((chance * (weights - (weights @ columns)[:, None] - rows @ weights) ** 2).sum()) - expected**2
    return math.sqrt(max(variance, 0.0) / pairs) / (1.0 - expected)


class IntervalResult(NamedTuple):
    """An interval, or None, and its method, as in `ConfidenceInterval.method`."""

    interval: Interval | None
    method: str


def kappa_interval(tables: Floats, weights: Floats, draws: Draws, times: Floats | None = None) -> IntervalResult:
    """Return the interval of κ, with items as the unit; None where κ is undefined.

    For two categories, it is the equal-tailed interval of κ's posterior, by Monte Carlo: the cells have a Dirichlet
    posterior with Jeffreys' prior, 1/2 each (Basu, Banerjee and Sen, Biometrics 56 (2000)). If items have several
    pairs or labels have different weights, the pairs count with their effective number. For more categories, it is
    that of `jackknife_intervals`, with at least the standard error of independent labels.

    Args:
        tables: labels (rows) against verdicts, of each item; weights of labels with a mean of 1.
        weights: how much each pair of categories counts as agreement.
        draws: the number of draws, the seed and the level.
        times: the number of items with each table, which then has one pair; None for one each.

    Example:
        >>> cells, times = np.eye(4).reshape(4, 2, 2), np.array([14.0, 1.0, 1.0, 14.0])
        >>> (low, high, _), method = kappa_interval(cells, np.eye(2), Draws(20_000, seed=0), times)
        >>> round(low, 2), round(high, 2), method
        (0.57, 0.96, 'jeffreys')
    """
    if times is None:
        tables = tables[tables.any(axis=(1, 2))]
    size = tables.shape[1]
    flat = tables.reshape(len(tables), size * size)
    counts = tables.sum(axis=0) if times is None else np.tensordot(times, tables, 1)
    value = float(kappas(counts, weights))
    if np.isnan(value):
        return IntervalResult(None, "jeffreys" if size == 2 else "jackknife")
    sizes, n = flat.sum(axis=1), len(flat) if times is None else float(times.sum())
    # An item with a single cell is one pair, whatever its weight.
    single, worth = bool((flat.max(axis=1) == sizes).all()), count_effective_items(sizes, times)
    if size != 2:
        [found] = jackknife_intervals(
            flat,
            lambda sums: kappas(sums.reshape(*sums.shape[:-1], size, size), weights)[..., None],
            ["correlation"],
            draws.confidence,
            times,
            _compute_null_error(counts, weights, worth if single else float(sizes.sum())),
        )
        return IntervalResult(found, "jackknife")
    if not (single and math.isclose(worth, n)):
        pairs = float(len(sizes) if single else sizes.sum())
        left_out = kappas(counts - tables, weights)
        worth = _count_effective_pairs(counts, left_out, (worth, pairs), draws.confidence)
    cells = np.random.default_rng(draws.seed).standard_gamma(
        counts * (worth / counts.sum()) + 0.5, (draws.count_kappa_draws(size * size), size, size)
    )
    tail = (1.0 - draws.confidence) / 2.0
    low, high = np.quantile(kappas(cells, weights), (tail, 1.0 - tail))
    return IntervalResult(Interval(float(low), float(high), draws.confidence).widen(value), "jeffreys")


def mean_kappa_interval(tables: Sequence[Floats], weights: Sequence[Floats], draws: Draws) -> Interval:
    """Return an interval for the mean κ of several criteria, by a Bayesian bootstrap with half pairs at the ends.

    Every item has a gamma weight with shape 1, as in `bounded_mean_intervals`. Each criterion also has one pair that
    the sample lacks, spread over cells as in Jeffreys' prior: at the lower end a pair whose label and verdict differ,
    at the upper end one whose label and verdict agree. So the interval allows for errors and for cases of a rare
    class that the sample does not show. More than 1,000 items are weighted in 1,000 groups drawn at random.

    Args:
        tables: by criterion, the table of labels (rows) and verdicts of each item: items × categories × categories.
        weights: how much each pair of categories counts as agreement, for each criterion.
        draws: the number of draws, the seed and the level.

    Example:
        >>> right = np.repeat(np.eye(4).reshape(4, 2, 2)[[0, 3]], 10, axis=0)
        >>> low, high, _ = mean_kappa_interval([right, right], [np.eye(2)] * 2, Draws(20_000, seed=0))
        >>> round(low, 2), round(high, 2)
        (0.73, 1.0)
    """
    rng = np.random.default_rng(draws.seed)
    units = [table.sum() / np.count_nonzero(table.any(axis=(1, 2))) for table in tables]
    flat = np.concatenate([t.reshape(len(t), -1) / unit for t, unit in zip(tables, units, strict=True)], axis=1)
    if len(flat) > _GROUPS:
        groups = np.array_split(rng.permutation(len(flat)), _GROUPS)
        flat = np.array([flat[rows].sum(axis=0) for rows in groups])
    points, counts = np.unique(np.round(flat, 12), axis=0, return_counts=True)
    replicates, block = draws.count_kappa_draws(len(counts)), max(1, 2_000_000 // len(counts))
    sizes = [min(block, replicates - start) for start in range(0, replicates, block)]
    sums = np.concatenate([rng.standard_gamma(counts, (size, len(counts))) @ points for size in sizes])
    lows, highs = [], []
    places = np.cumsum([0, *(table[0].size for table in tables)])
    for table, weight, start in zip(tables, weights, places, strict=False):
        size = table.shape[1]
        drawn = sums[:, start : start + size * size].reshape(-1, size, size)
        agree = np.eye(size)
        shape = agree / size + (1.0 - agree) / (size * (size - 1))
        unseen = rng.standard_gamma(shape, drawn.shape)
        lows.append(kappas(drawn + unseen * (1.0 - agree), weight))
        highs.append(kappas(drawn + unseen * agree, weight))
    tail = (1.0 - draws.confidence) / 2.0
    low, high = (np.quantile(np.mean(of, axis=0), at) for of, at in ((lows, tail), (highs, 1.0 - tail)))
    mean = float(np.mean([kappas(table.sum(axis=0), w) for table, w in zip(tables, weights, strict=True)]))
    return Interval(float(low), float(high), draws.confidence).widen(mean)


def _count_effective_pairs(counts: Floats, left_out: Floats, sizes: tuple[float, float], confidence: float) -> float:
    """Return the effective sample size for κ: the number of independent pairs that has the jackknife's variance.

    Uses the large-sample variance of κ (Fleiss, Cohen and Everitt 1969), reduced for few items as in Korn and
    Graubard (1998); if κ does not vary, the effective number of items. `sizes` has that number and that of pairs.
    """
    items, pairs = len(left_out), sizes[1]
    known = left_out[~np.isnan(left_out)]
    variance = jackknife_variance(known) if len(known) > 1 else 0.0
    if variance <= _NO_SPREAD**2 or pairs <= 2.0:
        return sizes[0]
    of_pairs, of_items = (t_quantile(0.5 + confidence / 2.0, n - 1.0) for n in (pairs, float(items)))
    return max(1.0, _kappa_variance(counts) / variance * (of_pairs / of_items) ** 2)


def _kappa_variance(counts: Floats) -> float:
    """Return the large-sample variance of κ times the number of independent pairs, by the delta method."""
    p = counts / counts.sum()
    row, column = p.sum(axis=1), p.sum(axis=0)
    apart, chance = 1.0 - float(np.trace(p)), 1.0 - float(row @ column)
    # κ = 1 − apart/chance; the gradient with respect to the cells, where that of chance is row[j] + column[i].
    slope = -(1.0 - np.eye(len(p))) / chance - apart / chance**2 * (column[:, None] + row[None, :])
    return max(0.0, float((p * slope**2).sum() - (p * slope).sum() ** 2))
