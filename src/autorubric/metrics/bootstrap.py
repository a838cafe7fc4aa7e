"""Intervals of any figure that is a function of sums over items, by resampling whole items.

The criteria of one item hang together, so items are drawn and not verdicts. A replicate is a count of how often each
item was drawn; all its sums are one product of matrices, and the figures of all replicates are computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, TypeAlias

import numpy as np

from autorubric.errors import InputError
from autorubric.metrics.arrays import Floats
from autorubric.metrics.intervals import Interval, checked_confidence
from autorubric.metrics.quantiles import normal_quantile

Method: TypeAlias = Literal["bca", "percentile"]
Statistic: TypeAlias = Callable[[Floats], Floats]
"""From sums (…, m) to figures (…, s); NaN where a figure is undefined."""

_BLOCK = 500_000
_LEAST_DEFINED = 0.9
"""The share of replicates in which a figure must be defined to have an interval."""
_NO_SPREAD = 1e-12


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are drawn.

    Attributes:
        replicates: how often the items are drawn.
        confidence: of the intervals.
        seed: for the same intervals again; None for others each time.
        method: `bca` (bias-corrected and accelerated) or `percentile`.
        named: what the caller calls `replicates`, for the message where they are wrong.

    Raises:
        InputError: the replicates are no whole number from 2, the seed none from 0, or the confidence is none.
    """

    replicates: int = 1000
    confidence: float = 0.95
    seed: int | None = None
    method: Method = "bca"
    named: str = "n_bootstrap"

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)
        problems = []
        if not isinstance(self.replicates, Integral) or self.replicates < 2:
            problems.append(f"{self.named}={self.replicates!r}; expected a whole number, 2 or more")
        if self.seed is not None and (not isinstance(self.seed, Integral) or self.seed < 0):
            problems.append(f"seed={self.seed!r}; expected a whole number, 0 or more, or None")
        if problems:
            raise InputError(problems)


def resampled_sums(contributions: Floats, replicates: int, rng: np.random.Generator) -> Floats:
    """The sums of each replicate: replicates × m.

    Args:
        contributions: items × m.
        replicates: how many.
        rng: where chance comes from.

    Example:
        >>> resampled_sums(np.ones((5, 1)), 2, np.random.default_rng(0)).tolist()
        [[5.0], [5.0]]
    """
    n = len(contributions)
    block = max(1, _BLOCK // max(n, 1))
    parts = []
    for start in range(0, replicates, block):
        size = min(block, replicates - start)
        drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        parts.append(counts.astype(float) @ contributions)
    return np.concatenate(parts)


def bootstrap_intervals(contributions: Floats, statistic: Statistic, how: Bootstrap) -> list[Interval | None]:
    """An interval for each figure; None where it is undefined, also in more than a tenth of the replicates.

    A figure that is the same in all replicates (every verdict right, a judge that always says the same) has none
    either: resampling cannot tell what was never seen.

    Source: Efron 1987, Better Bootstrap Confidence Intervals; the acceleration comes from leaving out one item at
    a time.

    Args:
        contributions: items × m: what each item adds to the sums.
        statistic: the figures of sums.
        how: replicates, confidence, seed and method.

    Example:
        >>> coin = np.repeat([[1.0, 1.0], [0.0, 1.0]], 50, axis=0)  # 50 hits in 100
        >>> share = lambda sums: sums[..., :1] / sums[..., 1:]
        >>> [found] = bootstrap_intervals(coin, share, Bootstrap(2000, seed=1))
        >>> round(found.low, 2), round(found.high, 2)
        (0.4, 0.6)
    """
    if len(contributions) < 2:
        figures = np.atleast_1d(statistic(contributions.sum(axis=0)))
        return [None] * len(figures)
    total = contributions.sum(axis=0)
    figures = statistic(total)
    drawn = statistic(resampled_sums(contributions, how.replicates, np.random.default_rng(how.seed)))
    left_out = statistic(total - contributions) if how.method == "bca" else None
    return [
        _interval(float(figure), drawn[:, place], None if left_out is None else left_out[:, place], how)
        for place, figure in enumerate(figures)
    ]


def _interval(figure: float, drawn: Floats, left_out: Floats | None, how: Bootstrap) -> Interval | None:
    known = np.sort(drawn[~np.isnan(drawn)])
    if np.isnan(figure) or len(known) < _LEAST_DEFINED * len(drawn) or np.ptp(known) <= _NO_SPREAD:
        return None
    tail = (1.0 - how.confidence) / 2.0
    ends = (tail, 1.0 - tail)
    if left_out is not None:
        ends = _corrected(figure, known, left_out, ends)
    low, high = np.quantile(known, ends)
    return Interval(float(low), float(high), how.confidence)


def _corrected(figure: float, known: Floats, left_out: Floats, ends: tuple[float, float]) -> tuple[float, float]:
    """The tails, moved by the bias of the replicates and by how their spread grows with the figure."""
    # Of equal values half lie below: figures of few items have many.
    below = float(((known < figure).mean() + (known <= figure).mean()) / 2.0)
    if not 0.0 < below < 1.0:
        return ends
    bias = normal_quantile(below)
    gaps = left_out[~np.isnan(left_out)]
    gaps = gaps.mean() - gaps
    spread = float((gaps**2).sum()) ** 1.5
    acceleration = float((gaps**3).sum()) / (6.0 * spread) if spread > 0 else 0.0

    def moved(tail: float) -> float:
        z = bias + normal_quantile(tail)
        shifted = bias + z / (1.0 - acceleration * z)
        return 0.5 * math.erfc(-shifted / math.sqrt(2.0))

    return moved(ends[0]), moved(ends[1])
