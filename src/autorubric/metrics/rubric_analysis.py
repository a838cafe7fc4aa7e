"""Analysis of a rubric on graded submissions: statistics of each criterion, with advice."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from autorubric.core.display import Displayed, flatten, join_first
from autorubric.core.report import Report
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize
from autorubric.metrics import item_analysis
from autorubric.metrics.arrays import Floats, nan_to_none, ratio
from autorubric.metrics.corrected_rate import estimate_rate
from autorubric.metrics.intervals import Estimate, check_confidence
from autorubric.metrics.reading_runs import describe_left_out, read_graded_table
from autorubric.metrics.table import Column, GradedRun, Table

Advice: TypeAlias = Literal["drop", "relabel", "sharpen", "merge", "keep"]


@dataclass(frozen=True)
class Thresholds:
    """The thresholds for the advice.

    Attributes:
        saturated: a criterion with a pass rate above this, or below 1 minus this, is saturated.
        agreement: the minimum share of labels that a judge should match.
        disagreement: the largest acceptable disagreement between votes.
        redundant: the correlation beyond which two criteria are redundant.
    """

    saturated: float = 0.95
    agreement: float = 0.8
    disagreement: float = 0.2
    redundant: float = 0.8


@dataclass(frozen=True)
class CriterionAnalysis:
    """How one criterion performs over a set of graded submissions.

    Attributes:
        name: of the criterion.
        index: its place in the rubric, from 0.
        weight: its weight.
        n: the number of submissions on which it was judged, without abstentions and failures.
        pass_rate: the share of submissions that meet it, or the mean option value.
        saturated: whether the whole interval of the pass rate lies beyond the threshold.
        discrimination: the corrected item-total correlation: its points with those of all other criteria.
        slope: the discrimination in the item-response model; negative if poor submissions meet it more often. None if
            all or no submissions meet it, or with fewer than three criteria or ten submissions.
        difficulty: in the same model, the ability, in standard deviations, at which half of the submissions meet it.
        partner: the criterion with the most similar verdicts.
        redundancy: the correlation (φ for binary criteria) with the partner.
        same_verdicts: the share of submissions on which both have the same verdict.
        score_share: its share of the variance of the score; the shares sum to 1.
        disagreement: the share of pairs of votes that differ, or for ordered options the mean difference of their
            values; None for one judge.
        label_agreement: the share of labelled submissions on which the verdict equals the label; for ordered options
            the mean of 1 − the difference of their values.
        advice: drop, merge, sharpen, relabel or keep.
        reason: the reason for the advice, with the numbers.
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
    advice: Advice = "keep"
    reason: str = ""

    def to_row(self) -> dict[str, Any]:
        """Return the metrics as JSON values, estimates with value, low, high and n."""
        return {key: {**v.to_row(), "n": v.n} if isinstance(v, Estimate) else v for key, v in vars(self).items()}


def advise(found: CriterionAnalysis, lighter: bool, thresholds: Thresholds) -> tuple[Advice, str]:
    """Return the advice on a criterion (`lighter` than its partner or not), and the reason with the numbers."""
    split = found.disagreement is not None and found.disagreement > thresholds.disagreement
    estimates = found.label_agreement, found.discrimination, found.redundancy
    agreement, rest, alike = (estimate.interval for estimate in estimates)
    if found.saturated:
        rate = f"pass rate {_format_estimate(found.pass_rate)} over {pluralize(found.pass_rate.n, 'submission')}"
        return "drop", f"{rate}: it does not discriminate between them"
    if agreement is not None and agreement.high < thresholds.agreement and not split:
        labels = pluralize(found.label_agreement.n, "label")
        share = _format_estimate(found.label_agreement)
        return "relabel", f"agreement with {labels} is {share}; either the judge or the labels are wrong"
    if split:
        return "sharpen", f"the disagreement between votes is {found.disagreement:.2f}"
    if rest is not None and rest.high < 0.0:
        return (
            "sharpen",
            f"correlation with the other criteria is {_format_estimate(found.discrimination)}: it contradicts them",
        )
    if lighter and alike is not None and (alike.low > thresholds.redundant or alike.high < -thresholds.redundant):
        return "merge", f"correlation with {found.partner!r} is {_format_estimate(found.redundancy)}"
    return "keep", ""


def _format_estimate(estimate: Estimate) -> str:
    """Format a value with its interval for a reason."""
    if estimate.value is None or estimate.interval is None:
        return "undefined"
    return f"{estimate.value:.2f} [{estimate.interval.low:.2f}, {estimate.interval.high:.2f}]"


_DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class RubricAnalysis(Displayed):
    """How a rubric performs over a set of graded submissions.

    Attributes:
        criteria: its criteria, worst first.
        effective: the effective number of independent criteria; None if all verdicts are constant.
        group: the variance that groups of rollouts of one prompt are expected to show in the score.
        notes: what was left out.
    """

    criteria: list[CriterionAnalysis]
    effective: float | None
    group: item_analysis.GroupVariance
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        advice = join_first([f"{analysis.name}: {analysis.advice}" for analysis in self.criteria])
        effective = "unknown" if self.effective is None else f"{self.effective:.2f}"
        return f"<RubricAnalysis of {pluralize(len(self.criteria), 'criterion')}, effective {effective}; {advice}>"

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        return (flatten(analysis.to_row()) for analysis in self.criteria)


def analyze_rubric(
    run: GradedRun | Sequence[Report | None],
    dataset: RubricDataset | None,
    *,
    rollouts: int = 8,
    thresholds: Thresholds = _DEFAULT_THRESHOLDS,
    confidence: float = 0.95,
) -> RubricAnalysis:
    """Analyze a rubric: its criteria, worst first, to drop, relabel, sharpen, merge or keep; and the whole rubric.

    Among criteria with the same advice, those that contribute least to the variance of the score come first. The
    rules are those of `autorubric.metrics.rubric_analysis`. Submissions without a report are left out. Needs no
    labels.

    Args:
        run: a run, or one report (or None) per item of the dataset.
        dataset: the graded dataset, with one rubric for all items.
        rollouts: the number of submissions per prompt in a training group.
        thresholds: the thresholds for the advice.
        confidence: the level of the intervals.

    Raises:
        InputError: the run does not fit the dataset, or its items have different rubrics.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> dataset, reports = example_run()
        >>> found = analyze_rubric(reports, dataset, rollouts=4)
        >>> [(criterion.name, criterion.pass_rate.value, criterion.advice) for criterion in found.criteria]
        [('Errors', 0.16..., 'keep'), ('Style', 0.5, 'keep'), ('Causes', 0.5, 'keep')]
        >>> round(found.effective, 2), round(found.group.silent, 2)
        (2.24, 0.0)
    """
    check_confidence(confidence)
    table = read_graded_table(run, dataset)
    if not len(table.items):
        raise InputError("the run has no report with criteria; expected at least one graded item")
    whole = _analyze_table(table)
    found = [_analyze_criterion(whole, place, thresholds, confidence) for place in range(len(whole.columns))]
    items = table.items.tolist()
    prompts = [dataset.get_item_prompt(index) for index in items] if dataset is not None else [""] * len(items)
    return RubricAnalysis(
        sorted(
            found, key=lambda analysis: (_RANK[analysis.advice], abs(analysis.score_share or 0.0), analysis.index)
        ),
        item_analysis.count_effective_criteria(whole.values),
        item_analysis.estimate_group_variance(table.scores, prompts, rollouts),
        tuple(describe_left_out(table, "the groups")),
    )


_ALONE = Estimate(None, reason="no other criterion varies with it")
_RANK: dict[Advice, int] = {"drop": 0, "relabel": 1, "sharpen": 2, "merge": 3, "keep": 4}


class _RubricStatistics(NamedTuple):
    """The run as items × criteria, and the statistics of all criteria together."""

    columns: list[Column]
    values: Floats
    agrees: Floats
    dissent: Floats
    weights: Floats
    discrimination: Floats
    alike: Floats
    shares: Floats | None
    model: item_analysis.ItemResponse | None


def _analyze_table(table: Table) -> _RubricStatistics:
    columns = table.rubric_columns
    values = table.to_matrix(table.values)
    truth, judged = table.points.truth, table.points.judged
    is_ordered = np.array([column.kind == "ordinal" for column in table.columns])[table.points.column]
    agrees = np.where(is_ordered, 1.0 - np.abs(table.truth_values - table.values), truth == judged)
    agrees[(truth < 0) | (judged < 0)] = np.nan
    votes = [table.find_values(codes) for codes in table.points.votes]
    gaps = np.array([np.abs(a - b) for a, b in itertools.combinations(votes, 2)]).reshape(-1, len(truth))
    apart = ratio(np.nansum(gaps, axis=0), (~np.isnan(gaps)).sum(axis=0))
    weights = np.array([column.criterion.weight for column in columns])
    return _RubricStatistics(
        columns,
        values,
        table.to_matrix(agrees),
        table.to_matrix(np.where(is_ordered, apart, table.dissent)),
        weights,
        item_analysis.compute_item_rest_correlations(values, weights),
        item_analysis.correlate_columns(values),
        item_analysis.compute_score_shares(values, weights),
        item_analysis.fit_item_response(np.where(weights < 0, 1.0 - values, values)),
    )


def _analyze_criterion(
    whole: _RubricStatistics, place: int, thresholds: Thresholds, confidence: float
) -> CriterionAnalysis:
    """Return the statistics of the criterion at a place of the rubric, with the advice."""
    own, partner, weights = whole.values[:, place], _find_partner(whole.alike, place), whole.weights
    n = int((~np.isnan(own)).sum())
    redundancy = same = _ALONE
    lighter = False
    if partner is not None:
        other = whole.values[:, partner]
        both = ~np.isnan(own) & ~np.isnan(other)
        redundancy = item_analysis.estimate_correlation(
            float(whole.alike[place, partner]), int(both.sum()), confidence
        )
        same = estimate_rate(own[both] == other[both], confidence)
        lighter = bool((abs(weights[place]), -place) < (abs(weights[partner]), -partner))
    agrees, split = (table[~np.isnan(table[:, place]), place] for table in (whole.agrees, whole.dissent))
    rate = estimate_rate(own[~np.isnan(own)], confidence, "it was not judged on any submission")
    ends, limit = rate.interval, thresholds.saturated
    # For a criterion that all or no submissions meet, the model would only return its priors.
    model = None if math.isnan(whole.alike[place, place]) else whole.model
    found = CriterionAnalysis(
        name=whole.columns[place].name,
        index=place,
        weight=float(weights[place]),
        n=n,
        pass_rate=rate,
        saturated=ends is not None and (ends.low > limit or ends.high < 1.0 - limit),
        discrimination=item_analysis.estimate_correlation(float(whole.discrimination[place]), n, confidence),
        slope=None if model is None else nan_to_none(model.slope[place]),
        difficulty=None if model is None else nan_to_none(model.difficulty[place]),
        partner=None if partner is None else whole.columns[partner].name,
        redundancy=redundancy,
        same_verdicts=same,
        score_share=None if whole.shares is None else float(whole.shares[place]),
        disagreement=float(split.mean()) if len(split) else None,
        label_agreement=estimate_rate(agrees, confidence, "nothing to compare with"),
    )
    advice, reason = advise(found, lighter, thresholds)
    return replace(found, advice=advice, reason=reason)


def _find_partner(alike: Floats, place: int) -> int | None:
    sizes = np.nan_to_num(np.abs(alike[place]))
    sizes[place] = 0.0
    return int(sizes.argmax()) if sizes.size and sizes.max() > 0.0 else None
