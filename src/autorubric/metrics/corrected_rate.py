"""The pass rate of a binary criterion: as the judge has it, as labels have it, and corrected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autorubric.core.counted import counted
from autorubric.metrics.interval import Estimate, Interval, checked_confidence
from autorubric.metrics.jeffreys import LabelledCells, split_rate_interval
from autorubric.metrics.rogan_gladen import ALL_LABELLED, NO_LABELS, RoganGladen, rogan_gladen
from autorubric.metrics.wilson import wilson_interval


@dataclass(frozen=True)
class Corrections:
    """One figure by every method; `ppi` is the one to report.

    Attributes:
        raw: as the judge has it, on all judged items. Its interval covers the judge's figure, not the truth.
        labels_only: as the labels have it, the judge aside.
        ppi: prediction-powered: the labels' figure, moved by what the judge says of the rest, weighted by how well it
            predicts the labels (power-tuned, PPI++).
        rogan_gladen: from the judge's sensitivity and specificity; for binary criteria only.
        labelled: items with a label and a verdict.
        unlabelled: items with a verdict alone.
    """

    raw: Estimate
    labels_only: Estimate
    ppi: Estimate
    rogan_gladen: RoganGladen | None
    labelled: int
    unlabelled: int


def correct_rate(
    labels: npt.ArrayLike, judged: npt.ArrayLike, judged_rest: npt.ArrayLike, confidence: float = 0.95
) -> Corrections:
    """The pass rate of a binary criterion, corrected for the judge's errors.

    The labelled items must be a random part of the run (Rogan-Gladen alone does without). Prediction-powered
    inference: Angelopoulos et al., Science 382 (2023), power-tuned: Angelopoulos, Duchi and Zrnic,
    arXiv:2311.01453. For binary verdicts the figure is the rate of labels within each verdict, weighted by how
    often the judge gives that verdict; its interval is the posterior of just that, since the published normal
    interval covers 60 to 80 % of the time with 30 labels and a rate of 5 %.

    Args:
        labels: 1 for MET, 0 for UNMET, of the labelled items.
        judged: the judge's verdicts on them.
        judged_rest: the judge's verdicts on the items without labels.
        confidence: of the intervals.

    Example:
        >>> labels, judged = [1] * 12 + [0] * 18, [1] * 10 + [0] * 2 + [1] * 3 + [0] * 15
        >>> rates = correct_rate(labels, judged, [1] * 500 + [0] * 500)
        >>> round(rates.raw.value, 3), rates.labels_only.value, round(rates.ppi.value, 3)
        (0.498, 0.4, 0.442)
        >>> rates.ppi.interval.width < rates.labels_only.interval.width
        True
    """
    checked_confidence(confidence)
    cells = labelled_cells(labels, judged)
    verdicts = np.asarray(judged_rest, dtype=float)
    rest, rest_met, n = len(verdicts), int(verdicts.sum()), cells.labels
    return Corrections(
        raw=plain_rate(np.concatenate([np.asarray(judged, dtype=float), verdicts]), confidence),
        labels_only=_rate(cells.met, n, confidence, NO_LABELS),
        ppi=_prediction_powered(cells, rest_met, rest, confidence),
        rogan_gladen=rogan_gladen(cells, rest_met, rest, confidence),
        labelled=n,
        unlabelled=rest,
    )


def plain_rate(verdicts: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
    """The share of verdicts that are 1, of 0 and 1, with Wilson's interval.

    Example:
        >>> estimate = plain_rate([1, 1, 0, 1])
        >>> estimate.value, round(estimate.interval.low, 2), round(estimate.interval.high, 2)
        (0.75, 0.3, 0.95)
    """
    met = np.asarray(verdicts, dtype=float)
    return _rate(int(met.sum()), len(met), confidence, "there are no verdicts")


def labelled_cells(labels: npt.ArrayLike, judged: npt.ArrayLike) -> LabelledCells:
    """The 2 × 2 table of labels and verdicts, both 0 or 1.

    Example:
        >>> labelled_cells([1, 1, 0], [1, 0, 0])
        LabelledCells(true_met=1, false_met=0, false_unmet=1, true_unmet=1)
    """
    truth, verdicts = np.asarray(labels, dtype=bool), np.asarray(judged, dtype=bool)
    return LabelledCells(
        int((truth & verdicts).sum()),
        int((~truth & verdicts).sum()),
        int((truth & ~verdicts).sum()),
        int((~truth & ~verdicts).sum()),
    )


def _rate(successes: int, trials: int, confidence: float, missing: str) -> Estimate:
    if not trials:
        return Estimate(None, reason=missing)
    return Estimate(successes / trials, wilson_interval(successes, trials, confidence), trials)


def _unavailable(cells: LabelledCells, rest: int) -> Estimate | None:
    if not cells.labels:
        return Estimate(None, reason=NO_LABELS)
    if cells.labels < 2:
        return Estimate(None, n=cells.labels, reason=f"{counted(cells.labels, 'label')}; a correction needs 2")
    if not rest:
        return Estimate(None, n=cells.labels, reason=ALL_LABELLED)
    return None


def _prediction_powered(cells: LabelledCells, rest_met: int, rest: int, confidence: float) -> Estimate:
    missing = _unavailable(cells, rest)
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
    interval = split_rate_interval(cells, rest_met, rest, confidence)
    return Estimate(value, _around(value, interval), n + rest)


def _around(value: float, interval: Interval) -> Interval:
    return Interval(min(interval.low, value), max(interval.high, value), interval.confidence)
