"""Any of the three correlations as one result, with p-value and interval."""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, number_pairs
from autorubric.metrics.distributions import normal_quantile
from autorubric.metrics.interval import Interval
from autorubric.metrics.kendall import kendall
from autorubric.metrics.pearson import pearson
from autorubric.metrics.spearman import spearman
from autorubric.metrics.statistic_results import (
    INSUFFICIENT,
    UNDEFINED,
    ConfidenceInterval,
    CorrelationMethod,
    CorrelationResult,
)

_WAYS: dict[str, Callable[[Floats, Floats], tuple[float, float] | None]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


def correlation(
    x: ArrayLike, y: ArrayLike, method: CorrelationMethod = "spearman", confidence: float = 0.95
) -> CorrelationResult:
    """The correlation of two series.

    The interval is Fisher's on the scale of artanh r, with the variance 1/(n − 3) for Pearson, (1 + r²/2)/(n − 3)
    for Spearman (Bonett and Wright 2000) and 0.437/(n − 4) for Kendall (Fieller, Hartley and Pearson 1957).

    Args:
        x: one series.
        y: the other, of the same length.
        method: which correlation.
        confidence: of the interval.

    Example:
        >>> found = correlation([1, 2, 3, 4], [1, 2, 4, 3], "kendall")
        >>> round(found.coefficient, 4), found.interpretation, found.n_samples
        (0.6667, 'moderate', 4)
        >>> correlation([1, 1, 1], [1, 2, 3]).interpretation
        'undefined'
    """
    first, second = number_pairs(x, y)
    n = len(first)
    if n < 3:
        return CorrelationResult(coefficient=None, interpretation=INSUFFICIENT, n_samples=n, method=method)
    found = _WAYS[method](first, second)
    if found is None:
        return CorrelationResult(coefficient=None, interpretation=UNDEFINED, n_samples=n, method=method)
    r, p_value = found
    return CorrelationResult(
        coefficient=r,
        p_value=p_value,
        ci=ConfidenceInterval.of(_interval(r, n, method, confidence), "fisher-z"),
        interpretation=CorrelationResult.interpret_correlation(r),
        n_samples=n,
        method=method,
    )


def _interval(r: float, n: int, method: CorrelationMethod, confidence: float) -> Interval | None:
    if n < 5 or abs(r) >= 1.0:
        return None
    variance = {
        "pearson": 1.0 / (n - 3),
        "spearman": (1.0 + r * r / 2.0) / (n - 3),
        "kendall": 0.437 / (n - 4),
    }[method]
    half = normal_quantile(0.5 + confidence / 2.0) * math.sqrt(variance)
    return Interval(math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half), confidence)
