"""PPI++: the published power-tuned prediction-powered estimate of a mean, with its normal interval."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autorubric.core.display import counted
from autorubric.errors import InputError
from autorubric.metrics.intervals import Estimate, Interval, check_confidence, normal_quantile

NO_LABELS = "no label can be used"
ALL_LABELLED = "every item is labelled, so there is nothing to correct"
"""Why a correction has no estimate."""
_NO_VARIANCE = "the estimated variance is 0: the labels, or their differences from the verdicts, do not vary"
_ROUNDING = 1e-12


def missing_estimate(labels: int, rest: int, least: int) -> Estimate | None:
    """What a correction gives that has too few labels, or nothing to correct; None where it has what it needs."""
    if not labels:
        return Estimate(None, reason=NO_LABELS)
    if labels < least:
        return Estimate(None, n=labels, reason=f"{counted(labels, 'label')}; a correction needs {least}")
    return None if rest else Estimate(None, n=labels, reason=ALL_LABELLED)


def check_paired(labels: int, judged: int) -> None:
    """Raises InputError unless there are as many verdicts as labels."""
    if labels != judged:
        raise InputError(f"{counted(labels, 'label')}, but {counted(judged, 'verdict')}; expected one for each label")


def ppi_plus_plus(
    labels: npt.ArrayLike, judged: npt.ArrayLike, judged_rest: npt.ArrayLike, confidence: float = 0.95
) -> Estimate:
    """PPI++ of a mean: mean(label) + λ·(mean(judged rest) − mean(judged labelled)), and its normal interval.

    λ = Cov(label, judged) / ((1 + n/N)·Var(judged)), cut to [0, 1], with the covariance over the n labelled items
    (divided by n) and the variance over all n + N. The variance of the estimate is Var(label − λ·judged)/n +
    λ²·Var(judged rest)/N. Source: Angelopoulos, Duchi and Zrnic, arXiv:2311.01453, example 6.1; the same figures as
    `ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3, except that there is no interval where the
    variance is 0, as where all labels are equal. With few labels of a rare criterion the normal interval covers far
    less than it states.

    Args:
        labels: the true values of the labelled items, which are a random part.
        judged: the judge's values of them.
        judged_rest: the judge's values of the items without labels.
        confidence: of the interval.

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
    missing = missing_estimate(n, others, 2)
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
