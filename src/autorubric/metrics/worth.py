"""What each criterion of a rubric is worth, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autorubric.core.display import Displayed, flat, listed
from autorubric.dataset import RubricDataset
from autorubric.metrics.corrected_mean import ScoreRange, plain_mean
from autorubric.metrics.intervals import Estimate, checked_confidence, wilson_interval
from autorubric.metrics.item_analysis import (
    GroupVariance,
    ItemResponse,
    correlation_estimate,
    correlations,
    effective_criteria,
    expected_group_variance,
    fit_item_response,
    item_rest_correlations,
    score_shares,
)
from autorubric.metrics.judged_table import (
    Array,
    GradedRun,
    JudgedTable,
    Report,
    graded_items,
    judged_table,
    left_out,
)
from autorubric.metrics.worth_advice import Advice, Signs, Thresholds, advise

_DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class CriterionWorth:
    """What one criterion is worth over a set of graded submissions.

    Attributes:
        name: of the criterion.
        index: its place in the rubric, from 0.
        weight: its weight.
        n: submissions on which it was judged; abstentions and failures aside.
        pass_rate: the share that meet it, or the mean option value.
        saturated: whether the interval of the pass rate lies beyond the threshold, so that it tells nothing apart.
        discrimination: the corrected item-total correlation: its points with those of all other criteria.
        slope: the discrimination of the item-response model; below 0 poor submissions fare better on it. None for
            a criterion that all meet or none, fewer than three criteria or ten submissions.
        difficulty: of the same model: the ability, in standard deviations, at which half fare well on it.
        partner: the criterion whose verdicts are most like its own.
        redundancy: the correlation (φ for binary criteria) with the partner.
        same_verdicts: the share of submissions on which both say the same.
        score_share: the share of the variance of the score that it decides; all sum to 1.
        disagreement: the share of pairs of votes that differ; None for one judge.
        label_agreement: the share of labelled submissions on which the judge says what the label says.
        advice: what to do: drop, merge, sharpen, relabel or keep.
        reason: why, with the figures.
    """

    name: str
    index: int
    weight: float
    n: int
    pass_rate: Estimate
    saturated: bool
    discrimination: Estimate
    slope: float | None
    difficulty: float | None
    partner: str | None
    redundancy: Estimate
    same_verdicts: Estimate
    score_share: float | None
    disagreement: float | None
    label_agreement: Estimate
    advice: Advice
    reason: str

    def to_row(self) -> dict[str, Any]:
        """The figures as JSON values, estimates with value, low, high and n."""
        return {key: _flat(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class RubricWorth(Displayed):
    """What a rubric as a whole is worth over a set of graded submissions.

    Attributes:
        criteria: its criteria, worst first.
        effective: how many independent criteria they amount to; None where all verdicts are constant.
        group: the variance that groups of rollouts of one prompt are expected to show in the score.
        notes: what was left out.
    """

    criteria: list[CriterionWorth]
    effective: float | None
    group: GroupVariance
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        advice = listed([f"{worth.name}: {worth.advice}" for worth in self.criteria])
        effective = "unknown" if self.effective is None else f"{self.effective:.2f}"
        return f"<RubricWorth of {len(self.criteria)} criteria, effective {effective}; {advice}>"

    def _rows(self) -> Iterator[dict[str, Any]]:
        return (flat(worth.to_row()) for worth in self.criteria)


def criteria_worth(
    reports: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    *,
    thresholds: Thresholds = _DEFAULT_THRESHOLDS,
    confidence: float = 0.95,
) -> list[CriterionWorth]:
    """What each criterion is worth, worst first: to drop, to relabel, to sharpen, to merge, to keep.

    Within one advice those that decide least of the score come first. The rules are those of
    `autorubric.metrics.worth_advice`. Submissions without a report are left out.

    Args:
        reports: a run, or one report (or None) for each item of the dataset.
        dataset: what was graded; one rubric for all items.
        thresholds: where the advice draws its lines.
        confidence: of the intervals.

    Raises:
        InputError: the run does not fit the dataset, or its items have different rubrics.

    Example:
        >>> from autorubric.metrics.judged_table import example_run
        >>> dataset, reports = example_run()
        >>> [(worth.name, worth.pass_rate.value, worth.advice) for worth in criteria_worth(reports, dataset)]
        [('Errors', 0.16..., 'keep'), ('Style', 0.5, 'keep'), ('Causes', 0.5, 'keep')]
    """
    checked_confidence(confidence)
    table = judged_table(reports, dataset)
    figures = _figures_of(table)
    rows = [
        _worth(table, column, _signs(table, figures, column, confidence), figures, thresholds)
        for column in range(len(table.criteria))
    ]
    return sorted(rows, key=lambda row: (_RANK[row.advice], abs(row.score_share or 0.0), row.index))


def rubric_worth(
    reports: GradedRun | Sequence[Report | None],
    dataset: RubricDataset,
    *,
    rollouts: int = 8,
    thresholds: Thresholds = _DEFAULT_THRESHOLDS,
    confidence: float = 0.95,
) -> RubricWorth:
    """The criteria, worst first, and what they amount to together.

    Args:
        reports: a run, or one report (or None) for each item of the dataset.
        dataset: what was graded; one rubric for all items.
        rollouts: how many submissions of one prompt a training group has.
        thresholds: where the advice draws its lines.
        confidence: of the intervals.

    Raises:
        InputError: as `criteria_worth`.

    Example:
        >>> from autorubric.metrics.judged_table import example_run
        >>> dataset, reports = example_run()
        >>> worth = rubric_worth(reports, dataset, rollouts=4)
        >>> round(worth.effective, 2), round(worth.group.silent, 2)
        (2.24, 0.0)
    """
    graded = graded_items(reports, dataset)
    scores = [math.nan if g.report.score is None else g.report.score for g in graded]
    return RubricWorth(
        criteria_worth(reports, dataset, thresholds=thresholds, confidence=confidence),
        effective_criteria(judged_table(reports, dataset).values),
        expected_group_variance(scores, [dataset.get_item_prompt(g.index) for g in graded], rollouts),
        tuple(left_out(graded, len(dataset), "the groups")),
    )


_ALONE = Estimate(None, reason="no other criterion varies with it")
_RANK: dict[Advice, int] = {"drop": 0, "relabel": 1, "sharpen": 2, "merge": 3, "keep": 4}


class _Figures(NamedTuple):
    """What is computed for all criteria at once."""

    weights: Array
    discrimination: Array
    alike: Array
    shares: Array | None
    model: ItemResponse | None


def _figures_of(table: JudgedTable) -> _Figures:
    weights = np.array([criterion.weight for criterion in table.criteria])
    return _Figures(
        weights,
        item_rest_correlations(table.values, weights),
        correlations(table.values),
        score_shares(table.values, weights),
        fit_item_response(np.where(weights < 0, 1.0 - table.values, table.values)),
    )


def _signs(table: JudgedTable, figures: _Figures, column: int, confidence: float) -> Signs:
    partner = _partner(figures.alike, column)
    rest, n = float(figures.discrimination[column]), _judged(table, column)
    pair = _both(table, column, partner)
    return Signs(
        pass_rate=_pass_rate(table, column, confidence),
        discrimination=correlation_estimate(rest, n, confidence),
        redundancy=_ALONE
        if partner is None
        else correlation_estimate(float(figures.alike[column, partner]), len(pair[0]), confidence),
        same_verdicts=_ALONE if partner is None else _share_of(pair[0] == pair[1], confidence),
        partner=None if partner is None else table.names[partner],
        lighter=partner is not None and _lighter(figures.weights, column, partner),
        disagreement=_mean(table.dissent[:, column]),
        label_agreement=_label_agreement(table, column, confidence),
    )


def _worth(
    table: JudgedTable, column: int, signs: Signs, figures: _Figures, thresholds: Thresholds
) -> CriterionWorth:
    advice, reason = advise(signs, thresholds)
    shares = figures.shares
    # What all meet or none has no place on the scale of abilities: the model's figures would be its priors alone.
    model = None if math.isnan(figures.alike[column, column]) else figures.model
    return CriterionWorth(
        name=table.names[column],
        index=column,
        weight=table.criteria[column].weight,
        n=_judged(table, column),
        pass_rate=signs.pass_rate,
        saturated=signs.saturated(thresholds),
        discrimination=signs.discrimination,
        slope=None if model is None else _number(model.slope[column]),
        difficulty=None if model is None else _number(model.difficulty[column]),
        partner=signs.partner,
        redundancy=signs.redundancy,
        same_verdicts=signs.same_verdicts,
        score_share=None if shares is None else float(shares[column]),
        disagreement=signs.disagreement,
        label_agreement=signs.label_agreement,
        advice=advice,
        reason=reason,
    )


def _judged(table: JudgedTable, column: int) -> int:
    return int((~np.isnan(table.values[:, column])).sum())


def _pass_rate(table: JudgedTable, column: int, confidence: float) -> Estimate:
    values = table.values[:, column]
    values = values[~np.isnan(values)]
    if not len(values):
        return Estimate(None, reason="it was judged on no submission")
    if set(np.unique(values)) <= {0.0, 1.0}:
        met = int(values.sum())
        return Estimate(met / len(values), wilson_interval(met, len(values), confidence), len(values))
    return plain_mean(values, ScoreRange(0.0, 1.0), confidence)


def _partner(alike: Array, column: int) -> int | None:
    sizes = np.nan_to_num(np.abs(alike[column]))
    sizes[column] = 0.0
    return int(sizes.argmax()) if sizes.size and sizes.max() > 0.0 else None


def _lighter(weights: Array, column: int, partner: int) -> bool:
    return (abs(weights[column]), -column) < (abs(weights[partner]), -partner)


def _both(table: JudgedTable, column: int, partner: int | None) -> tuple[Array, Array]:
    left, right = table.values[:, column], table.values[:, column if partner is None else partner]
    seen = ~np.isnan(left) & ~np.isnan(right)
    return left[seen], right[seen]


def _label_agreement(table: JudgedTable, column: int, confidence: float) -> Estimate:
    judged, truth = table.values[:, column], table.truth[:, column]
    seen = ~np.isnan(judged) & ~np.isnan(truth)
    return _share_of(judged[seen] == truth[seen], confidence)


def _share_of(same: npt.NDArray[np.bool_], confidence: float) -> Estimate:
    n, hits = len(same), int(same.sum())
    if not n:
        return Estimate(None, reason="there is nothing to compare with")
    return Estimate(hits / n, wilson_interval(hits, n, confidence), n)


def _mean(values: Array) -> float | None:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _flat(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    low, high = (None, None) if value["interval"] is None else value["interval"][:2]
    return {"value": value["value"], "low": low, "high": high, "n": value["n"]}
