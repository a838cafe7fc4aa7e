"""A pass rate from a judge's rate, its sensitivity and its specificity."""

from __future__ import annotations

import math

from autorubric.metrics.distributions import normal_quantile
from autorubric.metrics.interval import Estimate, Interval
from autorubric.metrics.jeffreys import LabelledCells

FEWEST_OF_A_CLASS = 5
"""Labels of either class below which sensitivity or specificity is too unsure for the interval."""


def rogan_gladen(cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95) -> Estimate:
    """The pass rate (q + Sp - 1) / (Se + Sp - 1), where q is the rate at which the judge says MET.

    Valid also where the labelled items were chosen by their label (as many MET as UNMET, say): only how the
    judge errs on each class is taken from them. Where they are a random part of the run, the tuned
    prediction-powered figure is narrower.

    Source: Rogan and Gladen, Am. J. Epidemiology 107 (1978); the interval is that of Lang and Reiczigel,
    Preventive Veterinary Medicine 113 (2014), which adds z² trials to the rate and two to Se and Sp each.
    It is withheld with fewer than five labels of a class, or where a judge is hardly better than chance.

    Args:
        cells: the labelled items.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: of the interval.

    Example:
        >>> estimate = rogan_gladen(LabelledCells(45, 5, 5, 45), 300, 1000)
        >>> round(estimate.value, 3), [round(end, 3) for end in estimate.interval[:2]]
        (0.25, [0.136, 0.33])
        >>> rogan_gladen(LabelledCells(1, 0, 0, 29), 50, 1000).reason
        'only 1 label is MET; the interval needs 5 of each class'
    """
    met, unmet = cells.met, cells.labels - cells.met
    if not (met and unmet and rest):
        return Estimate(None, n=cells.labels, reason=_missing(met, unmet))
    sensitivity, specificity = cells.true_met / met, cells.true_unmet / unmet
    rate, gain = rest_met / rest, sensitivity + specificity - 1.0
    if gain <= 0.0:
        return Estimate(None, n=cells.labels, reason="the judge is no better than chance on the labels")
    value = min(1.0, max(0.0, (rate + specificity - 1.0) / gain))
    if min(met, unmet) < FEWEST_OF_A_CLASS:
        few, word = min((met, "MET"), (unmet, "UNMET"))
        labels = "label is" if few == 1 else "labels are"
        return Estimate(
            value,
            n=cells.labels,
            reason=f"only {few} {labels} {word}; the interval needs {FEWEST_OF_A_CLASS} of each class",
        )
    interval = _lang_reiczigel(cells, rest_met, rest, confidence)
    if interval is None:
        return Estimate(value, n=cells.labels, reason="the judge is hardly better than chance on the labels")
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


def _lang_reiczigel(cells: LabelledCells, rest_met: int, rest: int, confidence: float) -> Interval | None:
    z = normal_quantile(0.5 + confidence / 2.0)
    trials = rest + z * z
    positive, negative = cells.met + 2, cells.labels - cells.met + 2
    q = (rest_met + z * z / 2.0) / trials
    se, sp = (cells.true_met + 1) / positive, (cells.true_unmet + 1) / negative
    gain = se + sp - 1.0
    if gain <= 2.0 * math.sqrt(se * (1 - se) / positive + sp * (1 - sp) / negative):
        return None
    rate = (q + sp - 1.0) / gain
    of_se, of_sp = se * (1 - se) / positive, sp * (1 - sp) / negative
    shift = 2.0 * z * z * (rate * of_se - (1.0 - rate) * of_sp)
    reach = z * math.sqrt(q * (1 - q) / trials + rate**2 * of_se + (1 - rate) ** 2 * of_sp) / gain
    return Interval(rate + shift - reach, rate + shift + reach, confidence).within(0.0, 1.0)
