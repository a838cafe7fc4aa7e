"""Confidence intervals, estimates, adjusted p-values, and the distributions that they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from autorubric.errors import InputError

normal_quantile = NormalDist().inv_cdf
"""The value below which a standard normal variable lies with this probability."""
_TINY = 1e-300
_CLOSE = 1e-16
_MOST_TERMS = 100_000
_MOST_STEPS = 500
_NEARLY_NORMAL = 1e6
_AT_EACH_END = 0.25
"""The weight of a pseudo-value at each end of a scale."""


DISTRUST, TRUST = 0.41, 0.61
"""Rely on a judge if its interval of κ starts at `TRUST` or above; do not if it ends below `DISTRUST`."""


class Interval(NamedTuple):
    """A confidence interval.

    Attributes:
        low: its lower end.
        high: its upper end.
        confidence: the share of such intervals that contain the true value, such as 0.95.

    Example:
        >>> Interval(0.25, 0.75, 0.95).width
        0.5
    """

    low: float
    high: float
    confidence: float = 0.95

    @property
    def width(self) -> float:
        """The distance between its ends."""
        return self.high - self.low

    def contains(self, value: float) -> bool:
        """Return whether the value lies in it, its ends included."""
        return self.low <= value <= self.high

    def clip(self, least: float, most: float) -> Interval:
        """Return the part of the interval between two bounds, for quantities that cannot lie outside them."""
        return Interval(
            float(min(max(self.low, least), most)), float(max(min(self.high, most), least)), self.confidence
        )

    def widen(self, value: float) -> Interval:
        """Return the interval, extended to contain a value."""
        return Interval(min(self.low, value), max(self.high, value), self.confidence)


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval and the number of observations.

    Attributes:
        value: the estimate; None if it is undefined.
        interval: the confidence interval; None if there is no valid one.
        n: the number of observations.
        reason: why `value` or `interval` is None.

    Example:
        >>> Estimate(None, reason="no labels").interval is None
        True
    """

    value: float | None
    interval: Interval | None = None
    n: int = 0
    reason: str | None = None

    def to_row(self) -> dict[str, float | None]:
        """Return the value and the ends of the interval, by name."""
        low, high = (None, None) if self.interval is None else self.interval[:2]
        return {"value": self.value, "low": low, "high": high}


def check_confidence(confidence: float) -> float:
    """Return the confidence level if it is valid."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence={confidence}; expected a number between 0 and 1, such as 0.95")
    return confidence


def wilson_interval(
    hits: float, n: float, confidence: float = 0.95, quantile: float | None = None
) -> Interval | None:
    """Return Wilson's score interval of a proportion; None without observations.

    (p + z²/2n ± z·√(p·(1 − p)/n + z²/4n²)) / (1 + z²/n). Source: Wilson 1927. Observations must be independent, one
    per item; `autorubric.metrics.jackknife.share_interval` allows for several criteria of one item.

    Args:
        hits: the number of successes, or the share times `n`.
        n: the number of observations, or their effective number.
        confidence: the level of the interval.
        quantile: z; None uses the normal distribution.

    Example:
        >>> low, high, _ = wilson_interval(8, 10)
        >>> round(low, 4), round(high, 4)
        (0.4902, 0.9433)
    """
    if n <= 0:
        return None
    z = normal_quantile(0.5 + check_confidence(confidence) / 2.0) if quantile is None else quantile
    share, z2 = hits / n, z**2
    half = math.sqrt(z2 * (max(share * (1.0 - share), 0.0) / n + z2 / (4.0 * n * n)))
    middle = share + z2 / (2.0 * n)
    low, high = (middle - half) / (1.0 + z2 / n), (middle + half) / (1.0 + z2 / n)
    # Rounding must not exclude the share itself.
    return Interval(max(0.0, min(low, share)), min(1.0, max(high, share)), confidence)


def bounded_interval(value: float, variance: float, ends: tuple[float, float], confidence: float = 0.95) -> Interval:
    """Return Wilson's interval for a mean on a bounded scale, with the number of trials that its variance implies.

    The effective sample size n* = p·(1 − p) / Var of Korn and Graubard 1998, with p the place of the mean on the
    scale, so that the interval is asymmetric near the ends. Without ends, it is the normal interval.

    Args:
        value: the mean.
        variance: the variance of the mean.
        ends: the ends of the scale.
        confidence: the level of the interval.
    """
    low, span = ends[0], ends[1] - ends[0]
    if not 0.0 < span < math.inf:
        reach = normal_quantile(0.5 + confidence / 2.0) * math.sqrt(variance)
        return Interval(value - reach, value + reach, confidence)
    share = min(1.0, max(0.0, (value - low) / span))
    trials = max(share * (1.0 - share), 1e-3) * span * span / variance if variance > 0.0 else 0.0
    found = wilson_interval(share * trials, trials, confidence)
    if found is None:
        return Interval(value, value, confidence)
    return Interval(low + span * found.low, low + span * found.high, confidence).clip(low, ends[1])


def mean_interval(
    n: int,
    total: float,
    squares: float,
    ends: tuple[float, float] | None = None,
    confidence: float = 0.95,
    clusters: Sequence[tuple[int, float]] = (),
) -> Interval | None:
    """Return the confidence interval of a mean, from the sums of its values; None for fewer than two.

    On a bounded scale, this is `bounded_interval` with a quarter of a pseudo-value added at each end, so that equal
    values do not look certain. Otherwise it is Student's t, mean ± t·s/√n; None if all values are equal. For values
    in clusters, the variance is the cluster-robust one (Liang and Zeger 1986, with the factor G/(G − 1) for G
    clusters), a pseudo-value weighs as much as a mean cluster, and Student's t has G − 1 degrees of freedom. With one
    value in each cluster, that is the same.

    Args:
        n: the number of values.
        total: the sum of the values.
        squares: the sum of their squares.
        ends: the ends of their scale; None if it has none.
        confidence: the level of the interval.
        clusters: the number of values in each cluster, and their sum; ignored if there is only one cluster.

    Example:
        >>> low, high, _ = mean_interval(4, 2.0, 2.0, (0.0, 1.0))
        >>> round(low, 3), round(high, 3)
        (0.138, 0.862)
        >>> [round(end, 3) for end in mean_interval(4, 2.0, 1.5)[:2]]
        [-0.15, 1.15]
        >>> twice = mean_interval(8, 4.0, 4.0, (0.0, 1.0), clusters=[(2, 2.0), (2, 0.0)] * 2)
        >>> [round(end, 3) for end in twice[:2]]
        [0.138, 0.862]
    """
    if n < 2:
        return None
    if len(clusters) > 1:
        return _estimate_clustered_interval(n, total, clusters, ends, confidence)
    value = total / n
    if ends is None:
        spread = squares - n * value * value
        if spread <= 1e-12 * max(squares, 1.0):
            return None
        half = t_quantile(0.5 + confidence / 2.0, n - 1) * math.sqrt(spread / (n - 1) / n)
        return Interval(value - half, value + half, confidence)
    weight = n + 2.0 * _AT_EACH_END
    mean = (total + _AT_EACH_END * sum(ends)) / weight
    spread = squares + _AT_EACH_END * (ends[0] ** 2 + ends[1] ** 2) - weight * mean**2
    return bounded_interval(mean, max(spread, 0.0) / weight / (weight - 1.0), ends, confidence).widen(value)


def _estimate_clustered_interval(
    n: int, total: float, clusters: Sequence[tuple[int, float]], ends: tuple[float, float] | None, confidence: float
) -> Interval | None:
    """Return the interval of `mean_interval` for values in clusters."""
    size, scale = n / len(clusters), ends or ()
    weight, number = n + _AT_EACH_END * size * len(scale), len(clusters) + _AT_EACH_END * len(scale)
    mean = (total + _AT_EACH_END * size * sum(scale)) / weight
    spread = math.fsum((part - count * mean) ** 2 for count, part in clusters)
    spread += _AT_EACH_END * size**2 * sum((end - mean) ** 2 for end in scale)
    variance = spread * number / (number - 1.0) / weight**2
    if ends is not None:
        return bounded_interval(mean, variance, ends, confidence).widen(total / n)
    half = t_quantile(0.5 + confidence / 2.0, len(clusters) - 1) * math.sqrt(variance)
    return Interval(mean - half, mean + half, confidence) if half > 1e-12 * max(abs(mean), 1.0) else None


def rate_interval(n: int, total: float, squares: float, confidence: float = 0.95) -> Interval | None:
    """Return the interval of a mean of values in [0, 1], from their sums: Wilson's if all of them are 0 or 1.

    Otherwise it is `mean_interval`. None without values.

    Example:
        >>> rate_interval(10, 8.0, 8.0) == wilson_interval(8, 10)
        True
    """
    # x² = x only for 0 and 1.
    if total - squares <= 1e-9 * n:
        return wilson_interval(round(total), n, confidence)
    return mean_interval(n, total, squares, (0.0, 1.0), confidence)


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, which control the probability of any false rejection.

    The i-th smallest of m becomes the maximum of (m − i + 1)·p over it and all smaller ones, at most 1. Source: Holm
    1979. Tests without a p-value (None) do not count.

    Example:
        >>> adjust_p_values([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        adjusted[place] = least
    return adjusted


def t_p_value(t: float, df: float) -> float:
    """Return the two-sided p-value of Student's t with `df` degrees of freedom: I_x(df/2, 1/2), x = df/(df + t²).

    With infinite `df` that of a standard normal statistic.
    """
    if math.isinf(t):
        return 0.0
    if df > _NEARLY_NORMAL:
        # Abramowitz and Stegun 26.7.8, with an error of about 1/df²; the fraction would lose digits to rounding.
        return math.erfc(abs(t) * (1.0 - 0.25 / df) / math.sqrt(1.0 + t * t / (2.0 * df)) / math.sqrt(2.0))
    return beta_cdf(df / (df + t * t), df / 2.0, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """Return the value below which Student's t with `df` degrees of freedom lies with this probability."""
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    if math.isinf(df):
        return normal_quantile(probability)
    tail = 1.0 - probability
    # The tail is convex above 0 and heavier than the normal one, so Newton's steps from the normal quantile only
    # increase.
    t = normal_quantile(probability)
    scale = math.exp(math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0)) / math.sqrt(df * math.pi)
    for _ in range(_MOST_STEPS):
        density = scale * (1.0 + t * t / df) ** (-(df + 1.0) / 2.0)
        step = (t_p_value(t, df) / 2.0 - tail) / density
        t += step
        if step <= 1e-15 * t:
            break
    return t


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction.

    Source: Abramowitz and Stegun 26.5.8, evaluated by Lentz's method.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8)."""
    c, d = 1.0, 1.0 / _avoid_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _avoid_zero(1.0 + term * d)
            c = _avoid_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _CLOSE * 4:
            break
    return value


def _avoid_zero(value: float) -> float:
    """Return the value, or a tiny one instead of 0, as a divisor."""
    return value if abs(value) > _TINY else _TINY


class LabelledCells(NamedTuple):
    """The verdicts of a judge on labelled items, compared with the labels.

    Attributes:
        true_met: the judge and the label say MET.
        false_met: the judge says MET, the label UNMET.
        false_unmet: the judge says UNMET, the label MET.
        true_unmet: both say UNMET.

    Example:
        >>> LabelledCells(6, 1, 2, 21).labels
        30
    """

    true_met: int
    false_met: int
    false_unmet: int
    true_unmet: int

    @property
    def labels(self) -> int:
        """The number of labelled items."""
        return sum(self)

    @property
    def judged_met(self) -> int:
        """The number of labelled items that the judge calls MET."""
        return self.true_met + self.false_met

    @property
    def met(self) -> int:
        """The number of labelled items whose label is MET."""
        return self.true_met + self.false_unmet
