"""Correlations of two series, and the size of the difference between them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, Ints, read_numbers
from autorubric.metrics.intervals import t_p_value
from autorubric.metrics.jackknife import jackknife_intervals
from autorubric.metrics.statistic_results import (
    INSUFFICIENT,
    UNDEFINED,
    ConfidenceInterval,
    CorrelationMethod,
    CorrelationResult,
)

_CONSTANT = 1e-13
"""A spread below this share of the values counts as a rounding error, as does such a distance of |r| from 0 or 1."""

_GROUPS = 20
"""Maximum number of groups that the jackknife leaves out; each costs another correlation."""


def pearson(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """Return r and its two-sided p-value (t = r·√((n − 2)/(1 − r²)), n − 2 degrees of freedom).

    None for fewer than three pairs or a series that is constant.

    Example:
        >>> r, p = pearson([1, 2, 3, 4], [1, 2, 3, 5])
        >>> round(r, 4), round(p, 4)
        (0.9827, 0.0173)
    """
    first, second = read_numbers(x, y)
    n = len(first)
    if n < 3 or is_constant(first) or is_constant(second):
        return None
    # Scaled by a power of 2: squares neither overflow nor underflow, and those of ranks stay whole.
    a, b = (np.ldexp(v, -np.frexp(np.abs(v).max())[1]) for v in (first - first.mean(), second - second.mean()))
    # A single root of the product, so that equal series give exactly 1.
    r = float(np.clip(a @ b / math.sqrt(float(a @ a) * float(b @ b)), -1.0, 1.0))
    rest = (1.0 - r) * (1.0 + r)
    if abs(r) < _CONSTANT:
        return 0.0, 1.0
    return r, 0.0 if rest <= 0.0 else t_p_value(r * math.sqrt((n - 2) / rest), n - 2)


def is_constant(values: Floats) -> bool:
    """Return whether the values are all the same, up to rounding."""
    return len(values) == 0 or bool(np.ptp(values) <= _CONSTANT * np.abs(values).max())


def spearman(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """Return ρ (Pearson's correlation of the ranks) and its two-sided p-value by Student's t with n − 2.

    None for fewer than three pairs or a series that is constant.

    Example:
        >>> rho, p = spearman([1, 2, 3, 4], [1, 2, 4, 3])
        >>> round(rho, 12), round(p, 12)
        (0.8, 0.2)
    """
    places = (np.unique(v, return_inverse=True, return_counts=True)[1:] for v in read_numbers(x, y))
    # n equal values share their mean rank: the last of their ranks less (n − 1) / 2.
    return pearson(*((np.cumsum(n) - (n - 1) / 2.0)[place] for place, n in places))


def kendall(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """Return τ-b and its two-sided p-value; None for fewer than three pairs or a series that is constant.

    τ-b = (C − D) / √((P − T_x)·(P − T_y)), P all pairs, T those tied in one series. The p-value is exact without
    ties up to 33 pairs (Kendall 1970), else by the normal approximation with the variance for ties.

    Example:
        >>> tau, p = kendall([1, 2, 3, 4], [1, 2, 4, 3])
        >>> round(tau, 12), round(p, 12)
        (0.666666666667, 0.333333333333)
    """
    n, pairs, tied_x, tied_y, concordant, discordant = (int(counts[0]) for counts in count_orders(x, y))
    if n < 3 or pairs in (tied_x, tied_y):
        return None
    # A single root of integers, so that equal orders give exactly 1.
    tau = (concordant - discordant) / math.sqrt((pairs - tied_x) * (pairs - tied_y))
    if not tied_x and not tied_y and (n <= 33 or min(discordant, concordant) <= 1):
        return tau, _compute_exact_p_value(n, min(discordant, concordant))
    return tau, t_p_value(tau / _compute_null_error("kendall", x, y), math.inf)


class OrderCounts(NamedTuple):
    """How two series order the pairs of items within each group.

    Attributes:
        n: the number of items in each group.
        pairs: the number of pairs.
        tied_x: pairs with equal values in the first series.
        tied_y: pairs with equal values in the second series.
        concordant: pairs in the same strict order in both.
        discordant: pairs in opposite orders.
    """

    n: Ints
    pairs: Ints
    tied_x: Ints
    tied_y: Ints
    concordant: Ints
    discordant: Ints


def count_orders(x: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> OrderCounts:
    """Count the pairs that two series order alike, and those that they order differently, in O(n · log n).

    Args:
        x: one series.
        y: the other.
        groups: numbers from 0; only items of one group are paired. None for one group.

    Example:
        >>> [int(counts[0]) for counts in count_orders([1, 2, 3, 3], [1, 3, 2, 2])]
        [4, 6, 1, 1, 3, 2]
    """
    a, b = (np.unique(series, return_inverse=True)[1] for series in read_numbers(x, y))
    group = np.zeros(len(a), np.int64) if groups is None else np.asarray(groups, np.int64)
    order = np.lexsort((b, a, group))
    a, b, group = a[order], b[order], group[order]
    if not len(group):
        return OrderCounts(*np.zeros((6, 1), np.int64))
    size, width = int(group.max(initial=0)) + 1, int(b.max(initial=0)).bit_length()

    keys = group << width | b
    n = np.bincount(group, minlength=size)
    pairs, ties = n * (n - 1) // 2, list[Ints]()
    for series in ((group, a), (np.sort(keys),), (a, keys)):
        starts = np.flatnonzero(np.any([np.r_[True, values[1:] != values[:-1]] for values in series], axis=0))
        runs = np.diff(np.r_[starts, len(group)])
        ties.append(np.bincount(group[starts], runs * (runs - 1) // 2, size).astype(np.int64))
    tied_x, tied_y, tied_both = ties
    discordant = _count_inversions(keys, width, size)
    return OrderCounts(n, pairs, tied_x, tied_y, pairs - tied_x - tied_y + tied_both - discordant, discordant)


def _compute_null_error(method: CorrelationMethod, x: ArrayLike, y: ArrayLike) -> float:
    """Return the standard error of the correlation of independent series with the same ties.

    1/√(n − 1) for Pearson's, and for Spearman's of the ranks (Pitman 1937); Kendall 1970, equation 4.3, for τ-b.
    """
    n = np.size(x)
    if method != "kendall":
        return 1.0 / math.sqrt(n - 1.0)
    (x1, x2, x3), (y1, y2, y3) = (
        ((t * (t - 1.0)) @ np.column_stack([np.ones(len(t)), t - 2.0, 2.0 * t + 5.0])).tolist()
        for t in (np.unique(series, return_counts=True)[1] for series in read_numbers(x, y))
    )
    m = n * (n - 1.0)
    variance = (m * (2.0 * n + 5.0) - x3 - y3) / 18.0 + x1 * y1 / (2.0 * m) + x2 * y2 / (9.0 * m * (n - 2.0))
    return math.sqrt(variance / ((m - x1) * (m - y1))) * 2.0


def _count_inversions(values: Ints, width: int, size: int) -> Ints:
    """Return the number of pairs in descending order within each group.

    Works from the highest bit down: among values with equal higher bits, each 1 before a 0 is a pair.

    Args:
        values: in order of their groups; the bits from `width` on are the group's number.
        width: the number of bits to compare.
        size: the number of groups.
    """
    total = np.zeros(size)
    for bit in reversed(range(width)):
        rest, one = values >> (bit + 1), (values >> bit) & 1
        ones = np.cumsum(one) - one
        starts = np.flatnonzero(np.r_[True, rest[1:] != rest[:-1]])
        ones -= np.repeat(ones[starts], np.diff(np.r_[starts, len(values)]))
        total += np.bincount(values >> width, np.where(one == 0, ones, 0), size)
        # A stable sort: values with the same bits keep their order.
        values = values[np.argsort(values >> bit, kind="stable")]
    return total.astype(np.int64)


def _compute_exact_p_value(n: int, few: int) -> float:
    """Return the exact two-sided p-value of Kendall's τ without ties (Kendall 1970).

    That is twice the share of the n! orders with at most `few` inversions; `few` counts the rarer kind of pairs.
    """
    if few == n * (n - 1) / 4:
        return 1.0
    counts = [1] + [0] * few
    for size in range(2, n + 1):
        sums, running = [], 0
        for place in range(few + 1):
            running += counts[place] - (counts[place - size] if place >= size else 0)
            sums.append(running)
        counts = sums
    return min(1.0, 2 * sum(counts) / math.factorial(n))


_METHODS: dict[str, Callable[[ArrayLike, ArrayLike], tuple[float, float] | None]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


def compute_correlation(
    x: ArrayLike, y: ArrayLike, method: CorrelationMethod = "spearman", confidence: float = 0.95
) -> CorrelationResult:
    """Return the correlation of two series.

    The interval is Student's t of the jackknife on the scale of artanh r; more than 20 pairs are left out in 20
    random groups (the delete-a-group jackknife, Kott 2001). The formulas for Fisher's z assume normal values, or
    ranks without ties, which scores and options are not. Its standard error is at least that of independent series:
    if nearly all values of a series are equal, leaving out single pairs shows too little of it.

    Args:
        x: one series.
        y: the other, of the same length.
        method: which correlation.
        confidence: the level of the interval.

    Example:
        >>> found = compute_correlation([1, 2, 3, 4], [1, 2, 4, 3], "kendall")
        >>> round(found.coefficient, 4), found.interpretation, found.n_samples
        (0.6667, 'moderate positive', 4)
        >>> compute_correlation([1, 1, 1], [1, 2, 3]).interpretation
        'undefined'
    """
    found, n = _METHODS[method](x, y), np.size(x)
    if found is None:
        why = INSUFFICIENT if n < 3 else UNDEFINED
        return CorrelationResult(coefficient=None, interpretation=why, n_samples=n, method=method)
    r, p_value = found
    ci = None
    if n >= 5 and 1.0 - abs(r) > _CONSTANT:
        # Sorted by value, so that the groups do not depend on the order of the pairs.
        first, second = read_numbers(x, y)
        order = np.lexsort((second, first))
        place = np.random.default_rng(0).permutation(n) % _GROUPS

        def correlate(kept: Floats) -> float:
            without = _METHODS[method](*(values[kept[place] > 0] for values in (first[order], second[order])))
            return math.nan if without is None else without[0]

        [found_ci] = jackknife_intervals(
            np.eye(min(n, _GROUPS)),
            lambda kept: np.apply_along_axis(correlate, -1, kept)[..., None],
            ["correlation"],
            confidence,
            least_error=_compute_null_error(method, x, y),
        )
        ci = ConfidenceInterval.from_interval(found_ci, "jackknife")
    return CorrelationResult(
        coefficient=r,
        p_value=p_value,
        ci=ci,
        interpretation=CorrelationResult.interpret_correlation(r),
        n_samples=n,
        method=method,
    )


class Errors(NamedTuple):
    """The size of the differences of two series, in units of the values; None for no values.

    Attributes:
        rmse: the root of the mean squared difference.
        mae: the mean size of the difference.
    """

    rmse: float | None
    mae: float | None


def measure_errors(predicted: ArrayLike, true: ArrayLike) -> Errors:
    """Measure how far two series are apart.

    Example:
        >>> measure_errors([0.0, 1.0], [0.0, 0.5])
        Errors(rmse=0.3535533905932738, mae=0.25)
    """
    difference = np.subtract(*read_numbers(predicted, true))
    if not len(difference):
        return Errors(None, None)
    return Errors(math.sqrt(float(np.mean(difference**2))), float(np.mean(np.abs(difference))))
