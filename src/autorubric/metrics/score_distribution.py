"""The shape of a set of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from autorubric.metrics.arrays import Floats, numbers
from autorubric.metrics.pearson import is_constant
from autorubric.metrics.statistic_results import DistributionResult


def score_distribution(
    scores: ArrayLike, *, bins: int | Sequence[float] = 10, include_histogram: bool = True
) -> DistributionResult:
    """Mean, spread, quartiles, skewness, kurtosis and histogram of scores.

    Spread divides by n − 1. Skewness and kurtosis are the biased moments m₃/m₂^1.5 and m₄/m₂² − 3.

    Args:
        scores: the scores.
        bins: how many bins, or their edges.
        include_histogram: False leaves the histogram out.

    Example:
        >>> found = score_distribution([0.0, 0.5, 1.0], bins=2)
        >>> found.mean, found.std, found.iqr, found.histogram
        (0.5, 0.5, 0.5, ([1.0, 2.0], [0.0, 0.5, 1.0]))
    """
    values = numbers(scores)
    n = len(values)
    if not n:
        return DistributionResult(n=0, **dict.fromkeys(_FIGURES))
    q25, median, q75 = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    spread = n > 1
    skewness, kurtosis = _shape(values)
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


def _shape(values: Floats) -> tuple[float | None, float | None]:
    """Skewness and excess kurtosis; None where all values are alike."""
    if is_constant(values):
        return None, None
    centred = values - values.mean()
    second = float((centred**2).mean())
    return float((centred**3).mean()) / second**1.5, float((centred**4).mean()) / second**2 - 3.0
