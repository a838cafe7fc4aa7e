"""Whether a judge scores higher or lower than the truth."""

from __future__ import annotations

import math
from typing import Literal

from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, number_pairs, numbers
from autorubric.metrics.distributions import t_p_value, t_quantile
from autorubric.metrics.interval import Interval, checked_confidence
from autorubric.metrics.statistic_results import BiasResult, ConfidenceInterval

_LEAST_BIAS = 0.001
_ROUNDING = 1e-9
"""Differences that spread less than this share of the values are one difference and rounding."""


def systematic_bias(
    y_pred: ArrayLike, y_true: ArrayLike, *, paired: bool = True, confidence: float = 0.95
) -> BiasResult:
    """The mean of predicted − true, with a t-test, Cohen's d and an interval.

    Where all differences are the same, effect size and interval are undefined: nothing is known of their spread.

    Args:
        y_pred: what the judge said.
        y_true: the truth.
        paired: the two belong together value by value; False compares two independent samples (Welch 1947).
        confidence: of the interval; a p-value below 1 − confidence is significant.

    Example:
        >>> found = systematic_bias([0.6, 0.7, 0.9], [0.5, 0.5, 0.6])
        >>> round(found.mean_bias, 3), round(found.effect_size, 3), round(found.p_value, 4), found.direction
        (0.2, 2.0, 0.0742, 'positive')
        >>> constant = systematic_bias([0.6, 0.7], [0.5, 0.6])
        >>> constant.effect_size, constant.ci
        (None, None)
    """
    checked_confidence(confidence)
    predicted, true = number_pairs(y_pred, y_true) if paired else (numbers(y_pred), numbers(y_true))
    if not len(predicted) or not len(true):
        return BiasResult(mean_bias=None, std_bias=None, is_significant=False, direction="none", n_samples=0)
    scale = max(float(abs(predicted).max()), float(abs(true).max()))
    if paired:
        differences = predicted - true
        return _result(differences.mean(), _spread(differences, scale), len(differences), None, confidence)
    return _independent(predicted, true, scale, confidence)


def _independent(predicted: Floats, true: Floats, scale: float, confidence: float) -> BiasResult:
    n, m = len(predicted), len(true)
    mean = float(predicted.mean() - true.mean())
    if n < 2 or m < 2:
        return _result(mean, None, min(n, m), None, confidence)
    a, b = predicted.var(ddof=1) / n, true.var(ddof=1) / m
    pooled = math.sqrt(((n - 1) * predicted.var(ddof=1) + (m - 1) * true.var(ddof=1)) / (n + m - 2))
    spread = pooled if pooled > _ROUNDING * scale else 0.0
    error = math.sqrt(a + b)
    degrees = (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1)) if spread else 1.0
    return _result(mean, spread, min(n, m), (error, degrees), confidence)


def _spread(differences: Floats, scale: float) -> float | None:
    """The standard deviation, 0 where it is rounding; None for a single difference."""
    if len(differences) < 2:
        return None
    found = float(differences.std(ddof=1))
    return found if found > _ROUNDING * scale else 0.0


def _result(
    mean: float, spread: float | None, n: int, test: tuple[float, float] | None, confidence: float
) -> BiasResult:
    mean = float(mean)
    direction: Literal["positive", "negative", "none"] = "none"
    if abs(mean) > _LEAST_BIAS:
        direction = "positive" if mean > 0 else "negative"
    if spread is None:
        return BiasResult(mean_bias=mean, std_bias=None, is_significant=False, direction=direction, n_samples=n)
    error, degrees = test or (spread / math.sqrt(n), n - 1.0)
    interval: Interval | None = None
    if spread == 0.0:
        p_value = None if direction == "none" else 0.0
    else:
        p_value = t_p_value(mean / error, degrees)
        half = t_quantile(0.5 + confidence / 2.0, degrees) * error
        interval = Interval(mean - half, mean + half, confidence)
    return BiasResult(
        mean_bias=mean,
        std_bias=spread,
        is_significant=p_value is not None and p_value < 1.0 - confidence,
        p_value=p_value,
        direction=direction,
        effect_size=mean / spread if spread > 0.0 else None,
        ci=ConfidenceInterval.of(interval, "t"),
        n_samples=n,
    )
