"""Distributions of scores: their shape, their distance and systematic bias."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from autorubric.extras import require
from autorubric.metrics.arrays import Floats, read_numbers
from autorubric.metrics.correlation import is_constant
from autorubric.metrics.intervals import check_confidence, t_p_value, t_quantile
from autorubric.metrics.statistic_results import (
    INSUFFICIENT,
    BiasResult,
    ConfidenceInterval,
    DistributionResult,
    EMDResult,
    KSTestResult,
)

_LEAST_BIAS = 0.001
_ROUNDING = 1e-9
"""A spread of differences below this share of the values is treated as a rounding error."""


def systematic_bias(
    y_pred: ArrayLike, y_true: ArrayLike, *, paired: bool = True, confidence: float = 0.95
) -> BiasResult:
    """Return the mean of predicted − true, with a t-test, Cohen's d and an interval.

    If all differences are equal, effect size and interval are undefined: their spread is unknown.

    Args:
        y_pred: the judge's values.
        y_true: the true values.
        paired: whether the values are paired; False compares two independent samples (Welch 1947).
        confidence: of the interval; a p-value below 1 − confidence is significant.

    Example:
        >>> found = systematic_bias([0.6, 0.7, 0.9], [0.5, 0.5, 0.6])
        >>> round(found.mean_bias, 3), round(found.effect_size, 3), round(found.p_value, 4), found.direction
        (0.2, 2.0, 0.0742, 'positive')
        >>> constant = systematic_bias([0.6, 0.7], [0.5, 0.6])
        >>> constant.effect_size, constant.ci
        (None, None)
    """
    check_confidence(confidence)
    predicted, true = read_numbers(y_pred, y_true) if paired else [*read_numbers(y_pred), *read_numbers(y_true)]
    n, mean = min(len(predicted), len(true)), None
    direction: Literal["positive", "negative", "none"] = "none"
    if n:
        mean = float((predicted - true).mean() if paired else predicted.mean() - true.mean())
        if abs(mean) > _LEAST_BIAS:
            direction = "positive" if mean > 0 else "negative"
    if n < 2 or mean is None:
        return BiasResult(mean_bias=mean, std_bias=None, is_significant=False, direction=direction, n_samples=n)
    if paired:
        spread = float((predicted - true).std(ddof=1))
        error, degrees = spread / math.sqrt(n), n - 1.0
    else:
        spread, error, degrees = _compare_samples(predicted, true)
    ci, p_value, effect_size = None, None if direction == "none" else 0.0, None
    if spread <= _ROUNDING * max(float(abs(predicted).max()), float(abs(true).max())):
        spread = 0.0
    else:
        p_value, effect_size = t_p_value(mean / error, degrees), mean / spread
        half = t_quantile(0.5 + confidence / 2.0, degrees) * error
        ci = ConfidenceInterval(lower=mean - half, upper=mean + half, confidence=confidence, method="t")
    return BiasResult(
        mean_bias=mean,
        std_bias=spread,
        is_significant=p_value is not None and p_value < 1.0 - confidence,
        p_value=p_value,
        direction=direction,
        effect_size=effect_size,
        ci=ci,
        n_samples=n,
    )


def _compare_samples(first: Floats, second: Floats) -> tuple[float, float, float]:
    """Return two samples' pooled standard deviation, and standard error and degrees of freedom of Welch's test."""
    n, m, one, other = len(first), len(second), first.var(ddof=1), second.var(ddof=1)
    a, b = one / n, other / m
    pooled = math.sqrt(((n - 1) * one + (m - 1) * other) / (n + m - 2))
    return pooled, math.sqrt(a + b), (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1)) if a + b else 1.0


_LEAST_SHIFT = 0.01


def wasserstein_distance(dist1: ArrayLike, dist2: ArrayLike, *, normalize: bool = True) -> float | None:
    """Return the area between the two distribution functions; None if a sample is empty.

    Args:
        dist1: one sample.
        dist2: the other; the sizes may differ.
        normalize: measure in shares of the range of both samples together; False measures in the units of the values.

    Example:
        >>> round(wasserstein_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8]), 6)
        0.333333
        >>> round(wasserstein_distance([0, 20, 40], [10, 30, 50], normalize=False), 12)
        10.0
    """
    return earth_movers_distance(dist1, dist2, normalize=normalize).emd


def earth_movers_distance(dist1: ArrayLike, dist2: ArrayLike, *, normalize: bool = True) -> EMDResult:
    """Return the earth mover's distance, and the direction in which the first sample differs.

    The normalized distance is a share of the range of the two samples, so samples of nearly equal scores can be as
    far apart as 0 and 1. `score_distance` uses the scale of scores instead.

    Args:
        dist1: one sample, such as the judge's scores.
        dist2: the other, such as the true scores.
        normalize: measure in shares of the range of the values; False measures in the units of the values.

    Example:
        >>> found = earth_movers_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8])
        >>> round(found.emd, 6), found.bias_direction, found.interpretation
        (0.333333, 'lower', 'substantial differences')
    """
    [first], [second] = read_numbers(dist1), read_numbers(dist2)
    unit = float(np.ptp(np.concatenate([first, second]))) if normalize and len(first) and len(second) else 1.0
    return _measure_distance(first, second, unit or 1.0)


def score_distance(dist1: ArrayLike, dist2: ArrayLike) -> EMDResult:
    """Return the earth mover's distance in shares of the scale of scores: [0, 1], extended to values outside it.

    Args:
        dist1: one sample, such as the judge's scores.
        dist2: the other, such as the true scores.

    Example:
        >>> round(score_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8]).emd, 12)
        0.1
        >>> found = score_distance([0.5] * 3, [0.501] * 3)
        >>> round(found.emd, 6), found.bias_direction, found.interpretation
        (0.001, 'none', 'very similar')
    """
    [first], [second] = read_numbers(dist1), read_numbers(dist2)
    every = np.concatenate([first, second, [0.0, 1.0]])
    return _measure_distance(first, second, float(np.ptp(every)))


def _measure_distance(first: Floats, second: Floats, unit: float) -> EMDResult:
    """Return the distance of two samples, in multiples of `unit`."""
    if not len(first) or not len(second):
        return EMDResult(
            emd=None,
            mean_diff=None,
            std_diff=None,
            bias_direction="none",
            bias_magnitude=None,
            interpretation=INSUFFICIENT,
        )
    emd = _compute_area_between(np.sort(first), np.sort(second)) / unit
    shift = float(first.mean() - second.mean()) / unit
    direction: Literal["higher", "lower", "none"] = "none"
    if abs(shift) > _LEAST_SHIFT:
        direction = "higher" if shift > 0 else "lower"
    return EMDResult(
        emd=emd,
        mean_diff=shift,
        std_diff=float(first.std() - second.std()) / unit,
        bias_direction=direction,
        bias_magnitude=abs(shift),
        interpretation=EMDResult.interpret_emd(emd),
    )


def _compute_area_between(first: Floats, second: Floats) -> float:
    """Return the area between two empirical distribution functions (Wasserstein-1), from sorted samples."""
    every = np.sort(np.concatenate([first, second]))
    steps = np.diff(every)
    below_first = np.searchsorted(first, every[:-1], side="right") / len(first)
    below_second = np.searchsorted(second, every[:-1], side="right") / len(second)
    return float((np.abs(below_first - below_second) * steps).sum())


def ks_test(sample1: ArrayLike, sample2: ArrayLike | None = None) -> KSTestResult:
    """Return the two-sided Kolmogorov-Smirnov test of two samples, or of one against a normal distribution, by scipy.

    The p-value is exact for two samples of up to 10,000 values each and for one sample, else asymptotic.

    Args:
        sample1: one sample.
        sample2: the other; None tests against the normal distribution with the sample's own mean and standard
            deviation. The p-value is then too large (Lilliefors 1967), because the distribution was fitted to the
            sample. `ks_test_uniform` tests against a fixed distribution.

    Raises:
        MissingPackageError: scipy is not installed (the extra `stats`).

    Example:
        >>> found = ks_test([0.1, 0.2, 0.3, 0.4], [0.6, 0.7, 0.8, 0.9])
        >>> found.statistic, round(found.p_value, 6), found.is_significant
        (1.0, 0.028571, True)
    """
    [first] = read_numbers(sample1)
    if sample2 is None:
        spread = float(first.std()) if len(first) and not is_constant(first) else 0.0
        return _run_test("kstest", first, "norm", (first.mean(), spread)) if spread else _run_test("kstest")
    [second] = read_numbers(sample2)
    return _run_test("ks_2samp", first, second) if len(first) and len(second) else _run_test("ks_2samp")


def ks_test_uniform(sample: ArrayLike) -> KSTestResult:
    """Test one sample against the uniform distribution on [0, 1], the scale of scores (Kolmogorov-Smirnov).

    Raises:
        MissingPackageError: scipy is not installed (the extra `stats`).

    Example:
        >>> found = ks_test_uniform([0.9, 0.92, 0.95, 0.97])
        >>> found.statistic, found.is_significant
        (0.9, True)
    """
    [values] = read_numbers(sample)
    return _run_test("kstest", values, "uniform") if len(values) else _run_test("kstest")


def _run_test(test: str, *sample: object) -> KSTestResult:
    """Return the result of a test of scipy; undefined without a sample."""
    require(["scipy"], "stats", "the Kolmogorov-Smirnov test")
    if not sample:
        return KSTestResult(statistic=None, p_value=None, is_significant=False)
    from scipy import stats

    found = getattr(stats, test)(*sample)
    p_value = float(found.pvalue)
    return KSTestResult(statistic=float(found.statistic), p_value=p_value, is_significant=p_value < 0.05)


def score_distribution(
    scores: ArrayLike, *, bins: int | Sequence[float] = 10, include_histogram: bool = True
) -> DistributionResult:
    """Return mean, spread, quartiles, skewness, kurtosis and histogram of scores.

    The spread is computed with n − 1. Skewness and kurtosis are the biased moments m₃/m₂^1.5 and m₄/m₂² − 3.

    Args:
        scores: the scores.
        bins: the number of bins, or their edges.
        include_histogram: False leaves the histogram out.

    Example:
        >>> found = score_distribution([0.0, 0.5, 1.0], bins=2)
        >>> found.mean, found.std, found.iqr, found.histogram
        (0.5, 0.5, 0.5, ([1.0, 2.0], [0.0, 0.5, 1.0]))
    """
    [values] = read_numbers(scores)
    n = len(values)
    if not n:
        return DistributionResult(n=0, **dict.fromkeys(_FIGURES))
    q25, median, q75 = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    spread = n > 1
    skewness, kurtosis = _compute_shape(values)
    counts, edges = np.histogram(values, bins=bins)
    return DistributionResult(
        n=n,
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if spread else None,
        variance=float(values.var(ddof=1)) if spread else None,
        min=float(values.min()),
        max=float(values.max()),
        median=median,
        q25=q25,
        q75=q75,
        iqr=q75 - q25,
        skewness=skewness if n > 2 else None,
        kurtosis=kurtosis if n > 3 else None,
        histogram=([float(c) for c in counts], [float(e) for e in edges]) if include_histogram else None,
    )


_FIGURES = ("mean", "std", "variance", "min", "max", "median", "q25", "q75", "iqr", "skewness", "kurtosis")


def _compute_shape(values: Floats) -> tuple[float | None, float | None]:
    """Return skewness and excess kurtosis; None if all values are equal."""
    if is_constant(values):
        return None, None
    centred = values - values.mean()
    second = float((centred**2).mean())
    return float((centred**3).mean()) / second**1.5, float((centred**4).mean()) / second**2 - 3.0
