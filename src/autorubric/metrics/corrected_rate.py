"""The pass rate of a criterion: as judged, from labels alone, and corrected for the judge's errors; also PPI++."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autorubric.errors import InputError, pluralize
from autorubric.metrics.intervals import (
    Estimate,
    Interval,
    LabelledCells,
    check_confidence,
    normal_quantile,
    rate_interval,
)

NO_LABELS = "no label can be used"
ALL_LABELLED = "every item is labelled, so there is nothing to correct"
"""The reason for a correction without an estimate."""
_NO_VARIANCE = "the estimated variance is 0: the labels, or their differences from the verdicts, do not vary"
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Corrections:
    """One estimate by every method; `ppi` is the one to report.

    Attributes:
        raw: the judge's estimate on all judged items. Its interval covers the judge's value, not the true one.
        labels_only: the estimate from the labels alone.
        ppi: prediction-powered. Of a rate it is post-stratified by the judge's verdict: the rate of labels within
            each verdict, weighted by how often the judge gives it. Of a mean it is the labels' mean, adjusted by the
            judge's scores of the rest as far as they predict the labels.
        rogan_gladen: from the judge's sensitivity and specificity; for binary criteria only.
        labelled: items with a label and a verdict.
        unlabelled: items with a verdict alone.
        ppi_plus_plus: the published PPI++ with its normal interval, which covers too little with few labels.
    """

    raw: Estimate
    labels_only: Estimate
    ppi: Estimate
    rogan_gladen: RoganGladen | None
    labelled: int
    unlabelled: int
    ppi_plus_plus: Estimate


def correct_rate(
    labels: npt.ArrayLike, judged: npt.ArrayLike, judged_rest: npt.ArrayLike, confidence: float = 0.95
) -> Corrections:
    """Return the pass rate of a binary criterion, corrected for the judge's errors.

    The labelled items must be a random part of the run; for `ppi` they may also be chosen by the judge's verdict,
    and for `rogan_gladen` by their label. `ppi` is the post-stratified estimate: the rate of labels within each
    verdict of the judge, weighted by how often the judge gives that verdict (Holt and Smith, J. R. Statist. Soc. A
    142 (1979); as prediction-powered inference: Hofer et al., arXiv:2405.06034), with the interval of its posterior.
    `ppi_plus_plus` is PPI++ as published
    (Angelopoulos, Duchi and Zrnic, arXiv:2311.01453); with 30 labels the two can differ by 0.1.

    Args:
        labels: 1 for MET, 0 for UNMET, for each labelled item.
        judged: the judge's verdicts on the labelled items.
        judged_rest: the judge's verdicts on the items without labels.
        confidence: the level of the intervals.

    Raises:
        InputError: a value is not 0 or 1, or there is not one verdict for each label.

    Example:
        >>> labels, judged = [1] * 12 + [0] * 18, [1] * 10 + [0] * 2 + [1] * 3 + [0] * 15
        >>> rates = correct_rate(labels, judged, [1] * 500 + [0] * 500)
        >>> round(rates.raw.value, 3), rates.labels_only.value, round(rates.ppi.value, 3)
        (0.498, 0.4, 0.442)
        >>> rates.ppi.interval.width < rates.labels_only.interval.width
        True
    """
    check_confidence(confidence)
    for name, values in (("labels", labels), ("judged", judged), ("judged_rest", judged_rest)):
        _check_binary(name, values)
    cells = count_cells(labels, judged)
    verdicts = np.asarray(judged_rest, dtype=float)
    rest, rest_met, n = len(verdicts), int(verdicts.sum()), cells.labels
    return Corrections(
        raw=estimate_rate(np.concatenate([np.asarray(judged, dtype=float), verdicts]), confidence),
        labels_only=estimate_rate(labels, confidence, NO_LABELS),
        ppi=_estimate_ppi_rate(cells, rest_met, rest, confidence),
        rogan_gladen=rogan_gladen(cells, rest_met, rest, confidence),
        labelled=n,
        unlabelled=rest,
        ppi_plus_plus=ppi_plus_plus(labels, judged, judged_rest, confidence),
    )


def estimate_rate(verdicts: npt.ArrayLike, confidence: float = 0.95, missing: str = "no verdicts") -> Estimate:
    """Estimate the mean of values in [0, 1], with `rate_interval`; `missing` is the reason if there are none."""
    values = np.asarray(verdicts, dtype=float)
    if not len(values):
        return Estimate(None, reason=missing)
    n, total = len(values), float(values.sum())
    interval = rate_interval(n, total, float(values @ values), confidence)
    return Estimate(total / n, interval, n, None if interval else "only 1 value; an interval needs 2")


def count_cells(labels: npt.ArrayLike, judged: npt.ArrayLike) -> LabelledCells:
    """Return the 2 × 2 table of labels and verdicts, both 0 or 1."""
    truth, verdicts = np.asarray(labels, dtype=bool), np.asarray(judged, dtype=bool)
    check_paired(len(truth), len(verdicts))
    return LabelledCells(
        int((truth & verdicts).sum()),
        int((~truth & verdicts).sum()),
        int((truth & ~verdicts).sum()),
        int((~truth & ~verdicts).sum()),
    )


def _check_binary(name: str, values: npt.ArrayLike) -> None:
    """Refuse values other than 0 and 1."""
    for number, value in enumerate(np.asarray(values, dtype=object).ravel(), 1):
        if value not in (0, 1):
            raise InputError(f"{name}: value {number} is {value!r}; expected 0 or 1; leave out undecided pairs")


def _estimate_ppi_rate(cells: LabelledCells, rest_met: int, rest: int, confidence: float) -> Estimate:
    """Estimate the post-stratified rate, Σ P(judge says v)·P(MET | v) (Holt and Smith 1979), with its interval."""
    missing = build_missing_estimate(cells.labels, rest, 2)
    if missing is not None:
        return missing
    n = cells.labels
    share = (rest_met + cells.judged_met) / (n + rest)
    judged_unmet = n - cells.judged_met
    if cells.judged_met and judged_unmet:
        value = share * cells.true_met / cells.judged_met + (1 - share) * cells.false_unmet / judged_unmet
    else:
        value = cells.met / n
    value = min(1.0, value)
    interval = post_stratified_interval(cells, rest_met, rest, confidence)
    return Estimate(value, interval.widen(value), n + rest)


_DRAWS = 20_000


@dataclass(frozen=True)
class RoganGladen(Estimate):
    """A Rogan-Gladen rate with its variance.

    Attributes:
        variance: its large-sample variance; None if there is no estimate.

    Example:
        >>> round(rogan_gladen(LabelledCells(45, 5, 5, 45), 300, 1000).variance, 6)
        0.001745
    """

    variance: float | None = None


def rogan_gladen(cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95) -> RoganGladen:
    """Estimate the pass rate (q + Sp - 1) / (Se + Sp - 1), where q is the judge's MET rate over all items.

    Also valid if the labelled items were chosen by their label (such as equal numbers of each), because only the
    judge's error rates are estimated from them. Not valid if they were chosen by the judge's verdict. If they are a
    random part of the run, the prediction-powered interval is narrower.

    With J = Se + Sp - 1, the estimate is equal to (n p + M r) / (n + M): p is the rate of MET among the n labels and
    r = (q' + Sp - 1) / J the rate of the M other items, where q' is how often the judge says MET of those. Unlike q,
    q' is independent of Se and Sp. The variance is that of the sum, where r has (q'(1-q')/M + r² Se(1-Se)/n₁ +
    (1-r)² Sp(1-Sp)/n₀) / J² (Rogan and Gladen, Am. J. Epidemiology 107, 1978). The interval comes from a posterior
    and not from this variance, so that it is wide but defined if labels of a class are few.

    Args:
        cells: the labelled items.
        rest_met: how many unlabelled items the judge calls MET.
        rest: how many items are unlabelled.
        confidence: the level of the interval.

    Example:
        >>> estimate = rogan_gladen(LabelledCells(45, 5, 5, 45), 300, 1000)
        >>> round(estimate.value, 3), [round(end, 3) for end in estimate.interval[:2]]
        (0.273, [0.169, 0.343])
        >>> rogan_gladen(LabelledCells(0, 1, 0, 29), 50, 1000).reason
        'no label is MET'
    """
    met, n = cells.met, cells.labels
    unmet, total = n - met, n + rest
    if not (met and unmet and rest):
        return RoganGladen(None, n=n, reason=_explain_missing(met, unmet, rest))
    sensitivity, specificity = cells.true_met / met, cells.true_unmet / unmet
    gain = sensitivity + specificity - 1.0
    if gain <= 0.0:
        return RoganGladen(None, n=n, reason="the judge is no better than chance on the labels")
    rate_of_rest = (rest_met / rest + specificity - 1.0) / gain
    value = (met + rest * rate_of_rest) / total
    interval = rogan_gladen_interval(cells, rest_met, rest, confidence)
    if interval is None:
        often = "less" if value < 0.5 else "more"
        return RoganGladen(None, n=n, reason=f"the judge says MET {often} often than its errors allow")
    value = min(1.0, max(0.0, value))
    seen, of = (rest_met / rest, sensitivity, specificity), (rest, met, unmet)
    weights = (1.0, rate_of_rest, 1.0 - rate_of_rest)
    variance = sum(w * w * p * (1.0 - p) / n for w, p, n in zip(weights, seen, of, strict=True)) / gain**2
    variance = (met * unmet / n + rest**2 * variance) / total**2
    return RoganGladen(value, interval.widen(value), total, None, variance)


@lru_cache(maxsize=8192)
def post_stratified_interval(cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95) -> Interval:
    """Return the posterior interval of the pass rate q·p₁ + (1 - q)·p₀, by Monte Carlo with a fixed seed.

    q is the rate at which the judge says MET, p₁ and p₀ are the rates of MET within its MET and UNMET. All three
    have Jeffreys' prior. This is the chain rule estimate of Hofer, Maynez, Dhingra, Fisch, Globerson and Cohen,
    Bayesian Prediction-Powered Inference, arXiv:2405.06034 (2024).
    """
    judged = cells.judged_met + rest_met
    share, met, unmet = _draw_posteriors(
        (judged, cells.labels + rest - judged),
        (cells.true_met, cells.false_met),
        (cells.false_unmet, cells.true_unmet),
    )
    return _compute_credible_interval(share * met + (1.0 - share) * unmet, confidence)


@lru_cache(maxsize=8192)
def rogan_gladen_interval(
    cells: LabelledCells, rest_met: int, rest: int, confidence: float = 0.95
) -> Interval | None:
    """Return the interval of the pass rate of `rogan_gladen`, by Monte Carlo with a fixed seed.

    The judge's rates on the rest and on each class, and the rate of MET among the labels, are drawn from their
    posteriors with Jeffreys' prior; each draw gives a rate, clipped to [0, 1] (Henrion, bootComb, Int. J.
    Epidemiology 50 (2021) 1071-1076). A draw whose judge is no better than chance is uninformative: half of these
    count as 0 and half as 1. None if fewer than 1 - confidence of the draws have a rate between 0 and 1: then the
    errors on the labels do not explain the verdicts.
    """
    n, met = cells.labels, cells.met
    rate, sensitivity, false_rate, labelled = _draw_posteriors(
        (rest_met, rest - rest_met),
        (cells.true_met, cells.false_unmet),
        (cells.false_met, cells.true_unmet),
        (met, n - met),
    )
    gain = sensitivity - false_rate
    informed = gain > 0.0
    solved = (n * labelled + rest * (rate - false_rate) / np.where(informed, gain, 1.0)) / (n + rest)
    if (informed & (solved >= 0.0) & (solved <= 1.0)).mean() < 1.0 - confidence:
        return None
    solved = np.clip(solved, 0.0, 1.0)
    return _compute_credible_interval(np.where(informed, solved, np.arange(_DRAWS) % 2), confidence)


def _draw_posteriors(*counts: tuple[int, int]) -> Iterator[npt.NDArray[np.float64]]:
    """Draws of rates from their posteriors with Jeffreys' prior, given hits and misses."""
    return (_draw_posterior(hits, misses, seed) for seed, (hits, misses) in enumerate(counts))


@lru_cache(maxsize=128)
def _draw_posterior(hits: int, misses: int, seed: int) -> npt.NDArray[np.float64]:
    """Draw one rate from Beta(hits + 1/2, misses + 1/2); cached, because many calls share seed and counts."""
    return np.random.default_rng(seed).beta(hits + 0.5, misses + 0.5, _DRAWS)


def _compute_credible_interval(draws: npt.NDArray[np.float64], confidence: float) -> Interval:
    """Return the equal-tailed credible interval of a posterior, from draws of it."""
    low, high = np.quantile(draws, ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0))
    return Interval(float(low), float(high), confidence)


def _explain_missing(met: int, unmet: int, rest: int) -> str:
    """Explain why Rogan-Gladen has no estimate: it needs labels of both classes, and items without labels."""
    if not (met or unmet):
        return NO_LABELS
    if not rest:
        return ALL_LABELLED
    return f"no label is {'UNMET' if met else 'MET'}"


def build_missing_estimate(labels: int, rest: int, least: int) -> Estimate | None:
    """Return the estimate of a correction with too few labels, or nothing to correct; None if it can be computed."""
    if not labels:
        return Estimate(None, reason=NO_LABELS)
    if labels < least:
        return Estimate(None, n=labels, reason=f"{pluralize(labels, 'label')}; a correction needs {least}")
    return None if rest else Estimate(None, n=labels, reason=ALL_LABELLED)


def check_paired(labels: int, judged: int) -> None:
    """Raise InputError unless there are as many verdicts as labels."""
    if labels != judged:
        raise InputError(
            f"{pluralize(labels, 'label')}, but {pluralize(judged, 'verdict')}; expected one for each label"
        )


def ppi_plus_plus(
    labels: npt.ArrayLike, judged: npt.ArrayLike, judged_rest: npt.ArrayLike, confidence: float = 0.95
) -> Estimate:
    """PPI++ of a mean: mean(label) + λ·(mean(judged rest) − mean(judged labelled)), and its normal interval.

    λ = Cov(label, judged) / ((1 + n/N)·Var(judged)), cut to [0, 1], with the covariance over the n labelled items
    (divided by n) and the variance over all n + N. The variance of the estimate is Var(label − λ·judged)/n +
    λ²·Var(judged rest)/N. Source: Angelopoulos, Duchi and Zrnic, arXiv:2311.01453, example 6.1; the same figures as
    `ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3, except that no interval is given where the
    variance is 0, as where all labels are equal. With few labels of a rare criterion the normal interval covers far
    less than it states.

    Args:
        labels: the true values of the labelled items, which are a random part.
        judged: the judge's values of them.
        judged_rest: the judge's values of the items without labels.
        confidence: the level of the interval.

    Raises:
        InputError: a value is not a finite number, or there is not one verdict for each label.

    Example:
        >>> found = ppi_plus_plus([1, 0, 1, 0, 1, 0], [1, 0, 1, 1, 1, 0], [1, 0, 1, 1] * 50)
        >>> round(found.value, 3), [round(end, 3) for end in found.interval[:2]]
        (0.571, [0.281, 0.861])
    """
    check_confidence(confidence)
    truth, seen, rest = (np.asarray(values, dtype=float) for values in (labels, judged, judged_rest))
    n, others = len(truth), len(rest)
    check_paired(n, len(seen))
    if not np.isfinite(np.concatenate([truth, seen, rest])).all():
        raise InputError("labels and verdicts must be finite numbers; leave out the pairs without one")
    missing = build_missing_estimate(n, others, 2)
    if missing is not None:
        return missing
    spread = float(np.concatenate([seen, rest]).var(ddof=1))
    shared = float(((truth - truth.mean()) * (seen - seen.mean())).mean())
    weight = min(1.0, max(0.0, shared / ((1.0 + n / others) * spread))) if spread > 0.0 else 0.0
    value = float(truth.mean() + weight * (rest.mean() - seen.mean()))
    variance = float((truth - weight * seen).var()) / n + weight**2 * float(rest.var()) / others
    if math.sqrt(variance) <= _ROUNDING * max(1.0, float(np.abs(truth).max())):
        return Estimate(value, n=n + others, reason=_NO_VARIANCE)
    reach = normal_quantile(0.5 + confidence / 2.0) * math.sqrt(variance)
    return Estimate(value, Interval(value - reach, value + reach, confidence), n + others)
