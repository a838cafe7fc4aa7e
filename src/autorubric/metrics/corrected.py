"""A run's scores, corrected with the labels of some of its items."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.core.display import Displayed, flatten, join_first
from autorubric.core.report import Report
from autorubric.core.scoring import ScoreRule
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, clip, pluralize
from autorubric.metrics.arrays import Flags, Floats
from autorubric.metrics.corrected_rate import (
    NO_LABELS,
    Corrections,
    build_missing_estimate,
    correct_rate,
    estimate_rate,
    ppi_plus_plus,
)
from autorubric.metrics.intervals import Estimate, bounded_interval, check_confidence, mean_interval
from autorubric.metrics.reading_runs import describe_left_out, read_graded_table
from autorubric.metrics.scores import score_rows
from autorubric.metrics.table import Column, GradedRun, Table

_MOST_LEVERAGE = 0.9


class ScoreRange(NamedTuple):
    """The range of scores, and how far one judgment can move them.

    Attributes:
        low: the lowest score.
        high: the highest score.
        one_error: how far an error on the heaviest criterion moves the score of one item. One pseudo-label with an
            error of this size represents errors that a few labels may not show.
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
    """Return the mean score, corrected for the judge's errors.

    The labelled items must be a random part of the run. With β the slope of label on judged score,
    λ = β / (1 + n/N) and the estimate mean(label) + λ·(mean(judged rest) − mean(judged labelled)), whose
    variance is s²(residuals)/n + β²·s²(judged)/(n + N): power-tuned prediction-powered inference (PPI++;
    Angelopoulos, Duchi and Zrnic, arXiv:2311.01453, example 6.1), the regression estimator of double sampling
    (Cochran, Sampling Techniques, section 12.6). For small samples: residuals are scaled up by leverage (HC2), one
    pseudo-label errs by `scale.one_error`, and the interval is Wilson's with the effective number of trials that the
    variance implies, so that it is asymmetric near the ends of the scale. It uses the normal quantile, as Wilson's
    does: with Student's quantile, 30 labels cover up to 96.9%.

    Args:
        labels: the true scores of the labelled items.
        judged: the judge's scores of the labelled items.
        judged_rest: the judge's scores of the items without labels.
        scale: the range of the scores.
        confidence: the level of the intervals.

    Example:
        >>> labels, judged = [0.2, 0.5, 0.6, 0.9] * 8, [0.3, 0.5, 0.8, 1.0] * 8
        >>> means = correct_mean(labels, judged, [0.3, 0.6, 0.9, 1.0] * 100, ScoreRange(one_error=0.3))
        >>> round(means.raw.value, 3), round(means.labels_only.value, 3), round(means.ppi.value, 3)
        (0.696, 0.55, 0.592)
    """
    check_confidence(confidence)
    truth, seen, rest = (np.asarray(values, dtype=float) for values in (labels, judged, judged_rest))
    n, others = len(truth), len(rest)
    everything = np.concatenate([seen, rest])
    ppi = build_missing_estimate(n, others, 3) or _estimate_ppi_mean(truth, seen, rest, scale, confidence)
    return Corrections(
        raw=estimate_mean(everything, scale, confidence),
        labels_only=estimate_mean(truth, scale, confidence) if n else Estimate(None, reason=NO_LABELS),
        ppi=ppi,
        rogan_gladen=None,
        labelled=n,
        unlabelled=others,
        ppi_plus_plus=ppi_plus_plus(truth, seen, rest, confidence),
    )


def estimate_mean(values: npt.ArrayLike, scale: ScoreRange = UNIT, confidence: float = 0.95) -> Estimate:
    """Return the mean of scores, with an interval that stays on their scale; see `mean_interval`."""
    numbers = np.asarray(values, dtype=float)
    n, total = len(numbers), float(numbers.sum())
    interval = mean_interval(n, total, float(numbers @ numbers), scale[:2], confidence)
    if interval is None:
        return Estimate(total if n else None, n=n, reason=f"{pluralize(n, 'score')}; an interval needs 2")
    return Estimate(float(numbers.mean()), interval.widen(float(numbers.mean())), n)


def _estimate_ppi_mean(truth: Floats, seen: Floats, rest: Floats, scale: ScoreRange, confidence: float) -> Estimate:
    """Return the regression estimator of `correct_mean`: PPI++ with its variance for small samples."""
    n, others, judged = len(truth), len(rest), np.concatenate([seen, rest])
    apart = seen - seen.mean()
    total = float(apart @ apart)
    slope = float(apart @ (truth - truth.mean())) / total if total > 0.0 else 0.0
    value = float(truth.mean() + slope / (1.0 + n / others) * (rest.mean() - seen.mean()))
    residuals = truth - truth.mean() - slope * apart
    leverage = 1.0 / n + (apart**2 / total if total > 0.0 else 0.0)
    squares = float((residuals**2 / (1.0 - np.minimum(leverage, _MOST_LEVERAGE))).sum()) + scale.one_error**2
    variance = squares / (n + 1) / n + slope**2 * float(judged.var(ddof=1)) / (n + others)
    interval = bounded_interval(value, variance, scale[:2], confidence)
    shown = min(scale.high, max(scale.low, value))
    return Estimate(shown, interval.widen(shown), n + others)


@dataclass(frozen=True)
class CorrectedScores(Displayed):
    """The mean score of a run and the mean of each criterion, by every method.

    Attributes:
        score: the mean rubric score.
        criteria: by name, the pass rate or, for a multi-choice criterion, the mean option value. Empty if items have
            their own rubrics.
        notes: remarks on items left out, and on too few or unusable labels.
        weighted: whether the labels are for drawn pairs and weighted by the probabilities of the draw.
        apart: with weighted labels, how many scores are clamped or have a length penalty; `score` is before both.
    """

    score: Corrections
    criteria: dict[str, Corrections]
    notes: tuple[str, ...] = ()
    weighted: bool = False
    apart: int = 0

    def __repr__(self) -> str:
        found = [f"{name} {_format_estimate(corrections.ppi)}" for name, corrections in self.criteria.items()]
        notes = f"; {pluralize(len(self.notes), 'note')}" if self.notes else ""
        score = f"score {_format_estimate(self.score.ppi)}, as judged {_format_estimate(self.score.raw)}"
        return f"<CorrectedScores: {score}; {join_first(found) or 'no criteria'}{notes}>"

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        for name, corrections in (("score", self.score), *self.criteria.items()):
            found = {
                "raw": corrections.raw.to_row(),
                "labels_only": corrections.labels_only.to_row(),
                "ppi": corrections.ppi.to_row(),
            }
            yield {
                "name": name,
                **flatten(found),
                "labelled": corrections.labelled,
                "unlabelled": corrections.unlabelled,
            }


def corrected_scores(
    run: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    *,
    rule: ScoreRule | None = None,
    confidence: float = 0.95,
) -> CorrectedScores:
    """Correct the run's scores with the ground truth of the labelled items.

    The estimates describe all submissions like these, not only the graded ones. They are valid if the labelled items
    were drawn at random from the dataset; Rogan-Gladen also if they were chosen by their label, and `ppi` of a
    pass rate if they were chosen by the judge's verdict on that criterion. Submissions without a score (failed
    judgments, nothing to assess) are left out and counted in `notes`.

    Args:
        run: a run, or one report (or None) for each item of the dataset.
        dataset: what was graded, with ground truth on some items.
        rule: the scoring rule; by default the recorded one, else abstentions skipped and scores in [0, 1]. A length
            penalty is not applied to labels.
        confidence: the level of the intervals.

    Raises:
        InputError: the run does not fit the dataset, or no item has ground truth.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> figures = corrected_scores(reports, dataset)
        >>> figures.score.raw.value, figures.score.labels_only.value
        (0.5, 0.5)
        >>> figures.criteria["Style"].labels_only.value
        0.5
    """
    return correct_table(read_graded_table(run, dataset), rule, confidence)


def correct_table(table: Table, rule: ScoreRule | None = None, confidence: float = 0.95) -> CorrectedScores:
    """Do the work of `corrected_scores` for a run that has been read."""
    every = list(build_estimands(table, rule))
    named = {estimand.name: estimand.correct(confidence) for estimand in every}
    score = named.pop("")
    notes = _collect_notes(table, [("mean score", score), *named.items()])
    return CorrectedScores(score, named, (*notes, *_describe_unpaired(every)))


class Estimand(NamedTuple):
    """A mean to correct: of the scores, or of a criterion.

    Attributes:
        name: the criterion's name; empty for the mean score.
        truth: the true values of the labelled items.
        seen: the judge's values of the labelled items.
        rest: the judge's values of the items without labels.
        judged: the judge's values of all items.
        labels: the labels of all items, including items without a value from the judge.
        scale: the scale of scores; None for verdicts, which are 0 and 1.
    """

    name: str
    truth: Floats
    seen: Floats
    rest: Floats
    judged: Floats
    labels: Floats
    scale: ScoreRange | None

    def correct(self, confidence: float) -> Corrections:
        """Return the estimates by every method."""
        parts = self.truth, self.seen, self.rest
        if self.scale is None:
            labels_only = estimate_rate(self.labels, confidence, NO_LABELS)
            raw = estimate_rate(self.judged, confidence)
            return replace(correct_rate(*parts, confidence), raw=raw, labels_only=labels_only)
        made = correct_mean(*parts, self.scale, confidence)
        labels_only = estimate_mean(self.labels, self.scale, confidence) if len(self.labels) else made.labels_only
        return replace(made, raw=estimate_mean(self.judged, self.scale, confidence), labels_only=labels_only)


def build_estimands(table: Table, rule: ScoreRule | None = None) -> Iterator[Estimand]:
    """Yield the mean score of a run and the mean of each criterion; no criteria if items have their own rubrics.

    Raises:
        InputError: no item has ground truth.
    """
    if not table.labelled.any():
        raise InputError("no graded item has ground truth; label some items, drawn at random, to correct the scores")
    yield _build_score_estimand(table, rule or table.rule or ScoreRule())
    if not len(table.find_other_rubrics()):
        values, truth = table.to_matrix(table.values), table.to_matrix(table.truth_values)
        for place, column in enumerate(table.rubric_columns):
            yield _build_criterion_estimand(column, values[:, place], truth[:, place], table.labelled)


def _build_score_estimand(table: Table, rule: ScoreRule) -> Estimand:
    """Build the estimand of the mean score."""
    truth, scored = score_rows(table, table.points.truth, rule), ~np.isnan(table.scores)
    labelled = table.labelled & ~np.isnan(truth)
    both, rest = labelled & scored, scored & ~table.labelled
    parts = truth[both], table.scores[both], table.scores[rest], table.scores[scored], truth[labelled]
    return Estimand("", *parts, _find_score_range(table.select_rows(scored), rule))


def _find_score_range(table: Table, rule: ScoreRule) -> ScoreRange:
    """Return the range of a run's scores, and how far one error on the heaviest criterion moves one."""
    if not len(table.items):
        return ScoreRange(0.0, 1.0 if rule.normalize else 0.0)
    row, weights = table.points.row, table.weights[table.points.column]
    positive, negative = (np.bincount(row, np.maximum(sign * weights, 0.0), len(table.items)) for sign in (1.0, -1.0))
    most = np.zeros(len(table.items))
    np.maximum.at(most, row, np.abs(weights))
    if rule.normalize:
        unit = np.where(positive > 0, positive, np.where(negative > 0, negative, 1.0))
        return ScoreRange(0.0, 1.0, min(1.0, float((most / unit).max())))
    return ScoreRange(-float(negative.max()), float(positive.max()), float(most.max()))


def _build_criterion_estimand(column: Column, judged: Floats, truth: Floats, labelled: Flags) -> Estimand:
    """Return the mean of a criterion, from verdicts and labels (0, 1 or values); NaN if missing."""
    seen = ~np.isnan(judged)
    both = seen & ~np.isnan(truth)
    parts = truth[both], judged[both], judged[seen & ~labelled], judged[seen], truth[~np.isnan(truth)]
    # A panel's mean of options, or the value of a split vote, is a number and not a verdict.
    if column.kind == "binary" and {*parts[4].tolist(), *judged[seen].tolist()} <= {0.0, 1.0}:
        return Estimand(column.name, *parts, None)
    low, high = float(column.values.min()), float(column.values.max())
    return Estimand(column.name, *parts, ScoreRange(low, high, high - low))


def _collect_notes(table: Table, named: list[tuple[str, Corrections]]) -> Iterator[str]:
    """Yield notes on items left out, too few labels, and criteria without a usable label."""
    yield from describe_left_out(table, "the mean score")
    labelled = named[0][1].labelled
    if 0 < labelled < 30:
        yield f"{pluralize(labelled, 'labelled item')}; the coverage of these intervals was checked for 30 or more"
    unusable = [name for name, found in named if not found.labelled]
    if unusable:
        yield (
            f"{', '.join(unusable)}: every label is an abstention (CANNOT_ASSESS, not applicable) "
            "or has no verdict to compare with"
        )


def _describe_unpaired(every: list[Estimand]) -> Iterator[str]:
    """Yield a note on labels without a value from the judge, which no correction uses."""
    lost = [(estimand, len(estimand.labels) - len(estimand.truth)) for estimand in every]
    named = [f"{one.name or 'mean score'} {count} of {len(one.labels)}" for one, count in lost if count]
    if named:
        yield (
            "labels whose judgment failed, abstained or was not made count in 'labels alone' and in no correction: "
            + ", ".join(named)
        )


def _format_estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"unknown ({clip(estimate.reason or '', 60)})"
    ends = estimate.interval
    return f"{estimate.value:.3f}" + ("" if ends is None else f" ({ends.low:.3f} to {ends.high:.3f})")
