"""A run's scores, corrected with the labels that some of its items have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autorubric.core.counted import counted
from autorubric.core.criterion import Criterion
from autorubric.core.display import Displayed, clipped, flat, listed
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.corrected_mean import ScoreRange, correct_mean, plain_mean
from autorubric.metrics.corrected_rate import Corrections, correct_rate, plain_rate
from autorubric.metrics.intervals import Estimate
from autorubric.metrics.judged_table import (
    Graded,
    GradedRun,
    JudgedTable,
    Report,
    graded_items,
    judged_table,
    left_out,
)
from autorubric.metrics.scores import ScoreRule, grader_settings, recorded_rule


@dataclass(frozen=True)
class CorrectedScores(Displayed):
    """The mean score of a run and the mean of each criterion, by every method.

    Attributes:
        score: the mean rubric score.
        criteria: by name: the pass rate, or the mean option value of a multi-choice criterion. Empty where
            items have rubrics of their own.
        notes: what a reader should know: items left out, labels too few or of no use.
    """

    score: Corrections
    criteria: dict[str, Corrections]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        found = [f"{name} {_shown(one.ppi)}" for name, one in self.criteria.items()]
        notes = f"; {counted(len(self.notes), 'note')}" if self.notes else ""
        score = f"score {_shown(self.score.ppi)}, as judged {_shown(self.score.raw)}"
        return f"<CorrectedScores: {score}; {listed(found) or 'no criteria'}{notes}>"

    def _rows(self) -> Iterator[dict[str, Any]]:
        for name, one in (("score", self.score), *self.criteria.items()):
            yield {"name": name, **flat(_estimates(one)), "labelled": one.labelled, "unlabelled": one.unlabelled}


def corrected_scores(
    run: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    *,
    rule: ScoreRule | None = None,
    confidence: float = 0.95,
) -> CorrectedScores:
    """The run's scores, corrected with the ground truth of the items that have it.

    The figures speak of all submissions like these, not of these alone. They are right if the labelled items
    were drawn at random from the dataset; Rogan-Gladen also if they were chosen by their label. Submissions
    without a score (failed judgments, nothing to assess) are left out and counted in `notes`.

    Args:
        run: a run, or one report (or None) for each item of the dataset.
        dataset: what was graded, with ground truth on some items.
        rule: how the run scored; what it recorded by default, else abstentions skipped and scores in [0, 1].
            A length penalty is not applied to labels.
        confidence: of the intervals.

    Raises:
        InputError: the run does not fit the dataset, or no item has ground truth.

    Example:
        >>> from autorubric.metrics.judged_table import example_run
        >>> dataset, reports = example_run()
        >>> figures = corrected_scores(reports, dataset)
        >>> figures.score.raw.value, figures.score.labels_only.value
        (0.5, 0.5)
        >>> figures.criteria["Style"].labels_only.value
        0.5
    """
    rule = rule or recorded_rule(grader_settings(run)) or ScoreRule()
    graded = graded_items(run, dataset)
    if not any(g.item.ground_truth is not None for g in graded):
        raise InputError("no graded item has ground truth; label some items, drawn at random, to correct the scores")
    criteria = {}
    if len({tuple(g.criteria) for g in graded}) == 1:
        table = judged_table(run, dataset)
        criteria = {name: _criterion(table, column, confidence) for column, name in enumerate(table.names)}
    score = _score(graded, rule, confidence)
    notes = _notes(graded, len(dataset), [("mean score", score), *criteria.items()])
    return CorrectedScores(score, criteria, tuple(notes))


def _score(graded: list[Graded], rule: ScoreRule, confidence: float) -> Corrections:
    scored = [(g, g.report.score) for g in graded if g.report.score is not None]
    labels, judged, rest = [], [], []
    for g, score in scored:
        truth = _true_score(g, rule)
        if truth is not None:
            labels.append(truth)
            judged.append(score)
        elif g.item.ground_truth is None:
            rest.append(score)
    scale = _score_range([g.criteria for g, _ in scored], rule)
    raw = plain_mean([score for _, score in scored], scale, confidence)
    return replace(correct_mean(labels, judged, rest, scale, confidence), raw=raw)


def _true_score(graded: Graded, rule: ScoreRule) -> float | None:
    if graded.item.ground_truth is None:
        return None
    strategy, credit = rule.cannot_assess.strategy, rule.cannot_assess.partial_credit
    return Rubric(list(graded.criteria)).compute_score(graded.item.ground_truth, rule.normalize, strategy, credit)


def _score_range(rubrics: list[Sequence[Criterion]], rule: ScoreRule) -> ScoreRange:
    lows, highs, errors = [0.0], [0.0], [0.0]
    for criteria in rubrics:
        weights = np.array([criterion.weight for criterion in criteria])
        positive, negative = weights[weights > 0].sum(), -weights[weights < 0].sum()
        unit = (positive or negative or 1.0) if rule.normalize else 1.0
        errors.append(float(np.abs(weights).max() / unit))
        lows.append(-float(negative))
        highs.append(float(positive))
    if rule.normalize:
        return ScoreRange(0.0, 1.0, min(1.0, max(errors)))
    return ScoreRange(min(lows), max(highs), max(errors))


def _criterion(table: JudgedTable, column: int, confidence: float) -> Corrections:
    judged, truth = table.values[:, column], table.truth[:, column]
    seen = ~np.isnan(judged)
    labelled = seen & ~np.isnan(truth)
    unlabelled = seen.copy()
    unlabelled[list(table.labelled)] = False
    parts = truth[labelled], judged[labelled], judged[unlabelled]
    criterion = table.criteria[column]
    # A panel's mean of options, or a split vote scored in between, is a number and no verdict.
    if criterion.options is None and {*truth[labelled].tolist(), *judged[seen].tolist()} <= {0.0, 1.0}:
        return replace(correct_rate(*parts, confidence), raw=plain_rate(judged[seen], confidence))
    values = [option.value for option in criterion.options or () if not option.na] or [0.0, 1.0]
    low, high = min(values), max(values)
    scale = ScoreRange(low, high, high - low)
    return replace(correct_mean(*parts, scale, confidence), raw=plain_mean(judged[seen], scale, confidence))


def _notes(graded: list[Graded], items: int, named: Iterable[tuple[str, Corrections]]) -> Iterator[str]:
    yield from left_out(graded, items, "the mean score")
    labelled = sum(g.item.ground_truth is not None for g in graded)
    if labelled < 30:
        yield f"{counted(labelled, 'labelled item')}; intervals are checked from 30 labels up"
    unusable = [name for name, figures in named if not figures.labelled]
    if unusable:
        yield (
            f"{', '.join(unusable)}: every label is an abstention (CANNOT_ASSESS, not applicable) "
            "or stands beside no verdict"
        )


def _shown(estimate: Estimate) -> str:
    """A figure with its interval."""
    if estimate.value is None:
        return f"unknown ({clipped(estimate.reason or '', 60)})"
    ends = estimate.interval
    return f"{estimate.value:.3f}" + ("" if ends is None else f" ({ends.low:.3f} to {ends.high:.3f})")


def _estimates(one: Corrections) -> dict[str, dict[str, float | None]]:
    found = {"raw": one.raw, "labels_only": one.labels_only, "ppi": one.ppi}
    return {
        name: {
            "value": figure.value,
            "low": figure.interval and figure.interval.low,
            "high": figure.interval and figure.interval.high,
        }
        for name, figure in found.items()
    }
