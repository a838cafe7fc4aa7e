"""What drawn labels say of two runs and of scores, weighted by the probabilities of the draw."""

from __future__ import annotations

import numpy as np

from autorubric.core.display import counted
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.labels.agreement import Measure
from autorubric.labels.event import PairFinder
from autorubric.labels.store import History
from autorubric.labels.weights import weighted_labels
from autorubric.metrics.compare import JudgeComparison, comparison, differences
from autorubric.metrics.corrected import CorrectedScores
from autorubric.metrics.corrected_rate import Corrections
from autorubric.metrics.intervals import Estimate
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.label_choice import item_mean
from autorubric.metrics.labelled_run import Modes
from autorubric.metrics.table import GradedRun

_SINGLE = "labels of single pairs that were drawn with unequal chances give none without the judge's verdicts"


def compare_by_labels(
    runs: tuple[GradedRun, GradedRun],
    dataset: RubricDataset,
    history: History,
    modes: Modes,
    draws: Draws,
    annotator: str | None = None,
) -> JudgeComparison:
    """How two runs differ in their agreement with the labels of a store, weighted by the probabilities of the draw.

    Args:
        runs: the run whose pairs were drawn, and another on the same items.
        dataset: what was graded.
        history: the events of the store.
        modes: how abstentions count.
        draws: how intervals and p-values are drawn.
        annotator: whose labels count; None for all, with adjudications.

    Raises:
        InputError: the labels cannot be weighted, or no labelled pair has a verdict of both runs.
    """
    first, second = (Measure(run, dataset, modes, draws) for run in runs)
    chosen = weighted_labels(history, PairFinder(dataset), first.pairs, annotator)
    common = chosen.only(second.at(chosen) >= 0)
    one, other = first.codes(common), second.codes(common)
    if [(column.name, column.labels) for column in one.columns] != [(c.name, c.labels) for c in other.columns]:
        raise InputError("the two runs have other criteria; expected runs on the same items and rubrics")
    both = (one.truth >= 0) & (one.judged >= 0) & (other.judged >= 0)
    if not both.any():
        raise InputError("the two runs have no labelled pair in common that both judged")
    notes = [*chosen.notes, "scores are not compared, as labels of single pairs give no score of an item"]
    if left := len(chosen.labels) - int(both.sum()):
        notes.append(f"{counted(left, 'labelled pair')} left out: one of the runs has no verdict on it")
    if chosen.drawn:
        notes.append("labels are weighted by the probabilities of the draw")
    pooled = first.pooled or second.pooled
    codes = [found.only(both).pooled() if pooled else found.only(both) for found in (one, other)]
    names = [] if pooled else list(codes[0].names)
    sizes = np.bincount(codes[0].column, minlength=len(codes[0].sizes))
    made = differences(codes[0].layout(), (codes[0].sums(), codes[1].sums()), (names, sizes, 0), draws)
    return comparison(made, len(np.unique(codes[0].row)), draws, notes)


def correct_by_labels(
    run: GradedRun, dataset: RubricDataset, history: History, confidence: float = 0.95, annotator: str | None = None
) -> CorrectedScores:
    """The mean score and the mean of each criterion, plus the judge's errors on drawn labels, weighted.

    Args:
        run: the graded run.
        dataset: what was graded.
        history: the events of the store.
        confidence: of the intervals.
        annotator: whose labels count; None for all, with adjudications.

    Raises:
        InputError: the labels cannot be weighted, or none counts.
    """
    measure = Measure(run, dataset, Modes(), Draws(2, confidence, 0, named="replicates"))
    chosen = weighted_labels(history, PairFinder(dataset), measure.pairs, annotator)
    if not chosen.labels:
        raise InputError(["no judged pair of the run has a label that counts", *chosen.notes])
    pairs, none = measure.pairs, Estimate(None, reason=_SINGLE)
    items = len(pairs.items)
    raw = item_mean(pairs.sums, items, 0.0, pairs.range, confidence)
    part = Estimate(None, reason="the labels were drawn from a part of the pairs")
    labelled = len(np.unique(pairs.rows[measure.at(chosen)]))
    score = Corrections(
        raw, none, part if chosen.partial else measure.mean_score(chosen), None, labelled, items - labelled, none
    )
    criteria = {
        name: Corrections(judged, none, right, None, n, judged.n - n, none)
        for name, (judged, right, n) in measure.means(chosen).items()
    }
    notes = [
        *chosen.notes,
        "labels are weighted by the probabilities of the draw; the mean score is that before clamping",
    ]
    return CorrectedScores(score, criteria, tuple(notes), weighted=True)
