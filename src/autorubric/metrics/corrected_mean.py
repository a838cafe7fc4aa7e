"""A mean score: as the judge has it, as labels have it, and corrected by prediction-powered inference."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.distributions import t_quantile
from autorubric.metrics.interval import Estimate, Interval, checked_confidence

Array = npt.NDArray[np.float64]

_MOST_LEVERAGE = 0.9


class ScoreRange(NamedTuple):
    """Where scores lie, and how far one judgment can move them.

    Attributes:
        low: the least score.
        high: the greatest score.
        one_error: how far an error on the heaviest criterion moves the score of one item. One pseudo-label
            with an error of this size stands for the errors that few labels do not show.
    """

    low: float = 0.0
    high: float = 1.0
    one_error: float = 0.0


UNIT = ScoreRange()


def correct_mean(
    labels: npt.ArrayLike,
    judged: npt.ArrayLike,
    judged_rest: npt.ArrayLike,
    scale: ScoreRange = UNIT,
    confidence: float = 0.95,
) -> Corrections:
    """The mean score, corrected for the judge's errors.

    The labelled items must be a random part of the run. With β the slope of label on judged score,
    λ = β / (1 + n/N) and the estimate mean(label) + λ·(mean(judged rest) − mean(judged labelled)), whose
    variance is s²(residuals)/n + β²·s²(judged)/(n + N). PPI has λ = 1; PPI++ (Angelopoulos, Duchi and Zrnic,
    arXiv:2311.01453, example 6.1) is the regression estimator of double sampling (Cochran, Sampling
    Techniques, section 12.6). For small samples: residuals are scaled up by leverage (HC2), one pseudo-label errs by
    `scale.one_error` (half a one for PPI), quantiles are Student's, and the interval of the tuned mean is Wilson's
    with the effective number of trials that the variance implies, so that it leans away from the ends of the scale.
    PPI's leans nowhere: it varies with the judge's errors, of either sign, and not with its own nearness to an end.

    Args:
        labels: the true scores of the labelled items.
        judged: the judge's scores of them.
        judged_rest: the judge's scores of the items without labels.
        scale: the range of the scores.
        confidence: of the intervals.

    Example:
        >>> labels, judged = [0.2, 0.5, 0.6, 0.9] * 8, [0.3, 0.5, 0.8, 1.0] * 8
        >>> means = correct_mean(labels, judged, [0.3, 0.6, 0.9, 1.0] * 100, ScoreRange(one_error=0.3))
        >>> round(means.raw.value, 3), round(means.labels_only.value, 3), round(means.ppi_tuned.value, 3)
        (0.696, 0.55, 0.592)
    """
    checked_confidence(confidence)
    truth, seen, rest = (np.asarray(values, dtype=float) for values in (labels, judged, judged_rest))
    n, others = len(truth), len(rest)
    everything = np.concatenate([seen, rest])
    missing = (
        f"{n} labels; a correction needs 3" if n < 3 else "every item is labelled, so there is nothing to correct"
    )
    ppi = tuned = Estimate(None, n=n, reason=missing)
    if n >= 3 and others:
        ppi = _Correction(truth, seen, rest, 1.0, tuned=False).estimate(scale, confidence)
        slope = _slope(truth, seen)
        tuned = _Correction(truth, seen, rest, slope / (1.0 + n / others), tuned=True).estimate(scale, confidence)
    return Corrections(
        raw=plain_mean(everything, scale, confidence),
        labels_only=plain_mean(truth, scale, confidence),
        ppi=ppi,
        ppi_tuned=tuned,
        rogan_gladen=None,
        labelled=n,
        unlabelled=others,
    )


def plain_mean(values: npt.ArrayLike, scale: ScoreRange = UNIT, confidence: float = 0.95) -> Estimate:
    """The mean of scores, with an interval that stays on their scale.

    Half a pseudo-score stands at each end of the scale, so that scores which are all the same do not look certain.

    Example:
        >>> estimate = plain_mean([1.0] * 20)
        >>> estimate.value, round(estimate.interval.low, 2)
        (1.0, 0.78)
    """
    numbers = np.asarray(values, dtype=float)
    n = len(numbers)
    if n < 2:
        return Estimate(float(numbers[0]) if n else None, n=n, reason=f"{n} scores; an interval needs 2")
    mean = (numbers.sum() + (scale.low + scale.high) / 2.0) / (n + 1)
    squares = ((numbers - mean) ** 2).sum() + ((scale.low - mean) ** 2 + (scale.high - mean) ** 2) / 2.0
    interval = bounded_interval(float(mean), float(squares / (n + 1) / n), n - 1, scale, confidence)
    value = float(numbers.mean())
    return Estimate(value, Interval(min(interval.low, value), max(interval.high, value), confidence), n)


def bounded_interval(value: float, variance: float, df: float, scale: ScoreRange, confidence: float) -> Interval:
    """Wilson's interval for a mean on a bounded scale, of as many trials as its variance implies.

    Example:
        >>> interval = bounded_interval(0.5, 0.25 / 100, 1e9, ScoreRange(), 0.95)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.4038, 0.5962)
    """
    t = t_quantile(0.5 + confidence / 2.0, df)
    span = scale.high - scale.low
    if not 0.0 < span < math.inf:
        reach = t * math.sqrt(variance)
        return Interval(value - reach, value + reach, confidence)
    share = min(1.0, max(0.0, (value - scale.low) / span))
    if variance <= 0.0:
        return Interval(value, value, confidence)
    of_one = max(share * (1.0 - share), 1e-3)
    trials = of_one * span * span / variance
    centre = (share * trials + t * t / 2.0) / (trials + t * t)
    reach = t / (trials + t * t) * math.sqrt(trials * share * (1.0 - share) + t * t / 4.0)
    ends = Interval(scale.low + span * (centre - reach), scale.low + span * (centre + reach), confidence)
    return ends.within(scale.low, scale.high)


class _Correction(NamedTuple):
    """The estimate mean(truth) + weight · (mean(rest) − mean(seen))."""

    truth: Array
    seen: Array
    rest: Array
    weight: float
    tuned: bool

    def estimate(self, scale: ScoreRange, confidence: float) -> Estimate:
        n, others = len(self.truth), len(self.rest)
        value = float(self.truth.mean() + self.weight * (self.rest.mean() - self.seen.mean()))
        # PPI (weight 1) takes the judge's mean from the rest alone; the tuned figure from all items.
        slope = self.weight * (1.0 + n / others) if self.tuned else self.weight
        squares = self._squared_residuals(slope) + (1.0 if self.tuned else 0.5) * scale.one_error**2
        judged = np.concatenate([self.seen, self.rest]) if self.tuned else self.rest
        spread = float(judged.var(ddof=1)) if len(judged) > 1 else 0.0
        variance = squares / (n + 1) / n + slope**2 * spread / len(judged)
        shown = min(scale.high, max(scale.low, value))
        if self.tuned:
            interval = bounded_interval(value, variance, n - 2, scale, confidence)
        else:
            reach = t_quantile(0.5 + confidence / 2.0, n - 1) * math.sqrt(variance)
            if abs(value - shown) > reach:
                return Estimate(shown, n=n + others, reason="the judge's errors put the mean beyond its scale")
            interval = Interval(value - reach, value + reach, confidence).within(scale.low, scale.high)
        return Estimate(shown, Interval(min(interval.low, shown), max(interval.high, shown), confidence), n + others)

    def _squared_residuals(self, slope: float) -> float:
        n = len(self.truth)
        apart = self.seen - self.seen.mean()
        residuals = self.truth - self.truth.mean() - slope * apart
        leverage = np.full(n, 1.0 / n)
        total = float(apart @ apart)
        if self.tuned and total > 0.0:
            leverage = leverage + apart**2 / total
        return float((residuals**2 / (1.0 - np.minimum(leverage, _MOST_LEVERAGE))).sum())


def _slope(truth: Array, seen: Array) -> float:
    apart = seen - seen.mean()
    total = float(apart @ apart)
    return float(apart @ (truth - truth.mean())) / total if total > 0.0 else 0.0
