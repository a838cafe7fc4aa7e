"""The Kolmogorov-Smirnov test: whether two samples come from one distribution."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, numbers
from autorubric.metrics.statistic_results import KSTestResult

_MOST_EXACT = 10_000
_MOST_STEPS = 100


def ks_test(sample1: ArrayLike, sample2: ArrayLike | None = None) -> KSTestResult:
    """The two-sided Kolmogorov-Smirnov test.

    The p-value is exact for two samples of up to 10,000 values each and for one sample (Marsaglia, Tsang and Wang
    2003) where n · statistic is at most 100, else asymptotic.

    Args:
        sample1: one sample.
        sample2: the other; None tests against the uniform distribution on [0, 1], the scale of scores.

    Example:
        >>> found = ks_test([0.1, 0.2, 0.3, 0.4], [0.6, 0.7, 0.8, 0.9])
        >>> found.statistic, round(found.p_value, 6), found.is_significant
        (1.0, 0.028571, True)
    """
    first = np.sort(numbers(sample1))
    second = None if sample2 is None else np.sort(numbers(sample2))
    if not len(first) or (second is not None and not len(second)):
        return KSTestResult(statistic=None, p_value=None, is_significant=False)
    if second is None:
        statistic, p_value = _against_uniform(first)
    else:
        statistic, p_value = _of_two(first, second)
    return KSTestResult(statistic=statistic, p_value=p_value, is_significant=p_value < 0.05)


def _of_two(first: Floats, second: Floats) -> tuple[float, float]:
    n, m = len(first), len(second)
    every = np.concatenate([first, second])
    steps = np.searchsorted(first, every, side="right") * m - np.searchsorted(second, every, side="right") * n
    largest = int(np.abs(steps).max())
    statistic = largest / (n * m)
    if max(n, m) <= _MOST_EXACT:
        return statistic, _paths_outside(n, m, largest)
    return statistic, _kolmogorov_tail(statistic * math.sqrt(n * m / (n + m)))


def _paths_outside(n: int, m: int, largest: int) -> float:
    """The share of orders of n + m values whose distribution functions come `largest`/(n·m) apart somewhere.

    Value by value, the probability of having drawn so many of the first sample without having been that far apart;
    what leaves this band adds up to the share. Source: Hodges 1958, section 3.
    """
    inside, least, outside = np.ones(1), 0, 0.0
    for drawn in range(n + m):
        firsts = np.arange(least, least + len(inside))
        left = n + m - drawn
        reached = np.zeros(len(inside) + 1)
        reached[:-1] = inside * ((m - (drawn - firsts)) / left)
        reached[1:] += inside * ((n - firsts) / left)
        firsts = np.arange(least, least + len(reached))
        near = np.flatnonzero(np.abs(firsts * m - (drawn + 1 - firsts) * n) < largest)
        if not len(near):
            return 1.0
        first, last = int(near[0]), int(near[-1]) + 1
        outside += float(reached[:first].sum() + reached[last:].sum())
        inside, least = reached[first:last], least + first
    return min(1.0, outside)


def _against_uniform(values: Floats) -> tuple[float, float]:
    n = len(values)
    expected = np.clip(values, 0.0, 1.0)
    above = (np.arange(1, n + 1) / n - expected).max()
    below = (expected - np.arange(n) / n).max()
    statistic = float(max(above, below))
    if n * statistic <= _MOST_STEPS:
        return statistic, min(1.0, max(0.0, 1.0 - _kolmogorov_cdf(n, statistic)))
    return statistic, _kolmogorov_tail(statistic * math.sqrt(n))


def _kolmogorov_cdf(n: int, d: float) -> float:
    """P(D_n < d). Source: Marsaglia, Tsang and Wang 2003, Evaluating Kolmogorov's Distribution."""
    if d >= 1.0:
        return 1.0
    k = math.floor(n * d) + 1
    h = k - n * d
    size = 2 * k - 1
    rows, columns = np.indices((size, size))
    gaps = rows - columns + 1
    table = (gaps >= 0).astype(float)
    powers = h ** np.arange(1, size + 1)
    table[:, 0] -= powers
    table[-1] -= powers[::-1]
    table[-1, 0] += max(0.0, 2.0 * h - 1.0) ** size
    factorials = np.array([float(math.factorial(g)) if g < 170 else math.inf for g in range(size + 1)])
    table = np.where(gaps > 0, table / factorials[np.maximum(gaps, 0)], table)
    power, exponent = _matrix_power(table, n)
    value, scale = float(power[k - 1, k - 1]), exponent
    for i in range(1, n + 1):
        value *= i / n
        if value < 1e-140:
            value, scale = value * 1e140, scale - 140
    return value * 10.0**scale


def _matrix_power(table: Floats, exponent: int) -> tuple[Floats, int]:
    """The power of a matrix as a matrix and a power of ten, so that nothing overflows."""
    result, base = np.eye(len(table)), table
    result_scale = base_scale = 0
    while exponent:
        if exponent & 1:
            result, result_scale = _tamed(result @ base, result_scale + base_scale)
        base, base_scale = _tamed(base @ base, 2 * base_scale)
        exponent >>= 1
    return result, result_scale


def _tamed(table: Floats, scale: int) -> tuple[Floats, int]:
    size = float(np.abs(table).max())
    if size < 1e140:
        return table, scale
    return table * 1e-140, scale + 140


def _kolmogorov_tail(x: float) -> float:
    """The asymptotic two-sided p-value: 2·Σ (−1)^(j−1)·exp(−2·j²·x²)."""
    if x < 0.2:
        return 1.0
    terms = (2.0 * (-1.0) ** (j - 1) * math.exp(-2.0 * j * j * x * x) for j in range(1, 101))
    return min(1.0, max(0.0, sum(terms)))
