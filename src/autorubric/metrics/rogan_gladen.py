"""A pass rate from a judge's rate, its sensitivity and its specificity."""

from __future__ import annotations

from autorubric.metrics.interval import Estimate, Interval
from autorubric.metrics.jeffreys import LabelledCells, misjudged_rate_interval


def rogan_gladen(cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95) -> Estimate:
    """The pass rate (q + Sp - 1) / (Se + Sp - 1), where q is the rate at which the judge says MET.

    Valid also where the labelled items were chosen by their label (as many MET as UNMET, say): only how the
    judge errs on each class is taken from them. Where they are a random part of the run, the tuned
    prediction-powered figure is narrower.

    Source: Rogan and Gladen, Am. J. Epidemiology 107 (1978). The interval holds every rate that fits the posteriors
    of the judge's rate, sensitivity and specificity; it is wide, not missing, where labels of a class are few.

    Args:
        cells: the labelled items.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: of the interval.

    Example:
        >>> estimate = rogan_gladen(LabelledCells(45, 5, 5, 45), 300, 1000)
        >>> round(estimate.value, 3), [round(end, 3) for end in estimate.interval[:2]]
        (0.25, [0.128, 0.326])
        >>> rogan_gladen(LabelledCells(0, 1, 0, 29), 50, 1000).reason
        'no label is MET'
    """
    met, unmet = cells.met, cells.labels - cells.met
    if not (met and unmet and rest):
        return Estimate(None, n=cells.labels, reason=_missing(met, unmet))
    sensitivity, specificity = cells.true_met / met, cells.true_unmet / unmet
    rate, gain = rest_met / rest, sensitivity + specificity - 1.0
    if gain <= 0.0:
        return Estimate(None, n=cells.labels, reason="the judge is no better than chance on the labels")
    value = min(1.0, max(0.0, (rate + specificity - 1.0) / gain))
    interval = misjudged_rate_interval(cells, rest_met, rest, confidence)
    if interval is None:
        often = "less" if value < 0.5 else "more"
        return Estimate(value, n=cells.labels, reason=f"the judge says MET {often} often than its errors allow")
    return Estimate(value, Interval(min(interval.low, value), max(interval.high, value), confidence), cells.labels)


def delta_variance(cells: LabelledCells, rest_met: int, rest: int) -> float | None:
    """The large-sample variance of the Rogan-Gladen rate; None where it is undefined.

    With J = Se + Sp - 1 and the rate π: (q(1-q)/N + π² Se(1-Se)/n₁ + (1-π)² Sp(1-Sp)/n₀) / J².

    Example:
        >>> round(delta_variance(LabelledCells(45, 5, 5, 45), 300, 1000), 6)
        0.002086
    """
    met, unmet = cells.met, cells.labels - cells.met
    if not (met and unmet and rest):
        return None
    se, sp, q = cells.true_met / met, cells.true_unmet / unmet, rest_met / rest
    gain = se + sp - 1.0
    if gain <= 0.0:
        return None
    rate = (q + sp - 1.0) / gain
    spread = q * (1 - q) / rest + rate**2 * se * (1 - se) / met + (1 - rate) ** 2 * sp * (1 - sp) / unmet
    return spread / gain**2


def _missing(met: int, unmet: int) -> str:
    if met and unmet:
        return "every item is labelled"
    return f"no label is {'UNMET' if met else 'MET'}"
