"""The labelled items of a run, coded and scored, with abstentions resolved: the input to all agreement metrics."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from autorubric.core.scoring import LengthPenalty, compute_length_penalty
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, pluralize
from autorubric.llm.thinking import split_submission
from autorubric.metrics.arrays import Floats, nan_to_none
from autorubric.metrics.confusion import count_pairs, kappas
from autorubric.metrics.criterion_results import CannotAssessStats, CoverageStats, NAStats
from autorubric.metrics.joining import describe_ungraded
from autorubric.metrics.reading_runs import read_table
from autorubric.metrics.scores import ScorePairs, pair_scores
from autorubric.metrics.statistic_results import KappaResult
from autorubric.metrics.table import ABSENT, ABSTAINED, EXCLUDE, FAILED, GradedRun, Modes, Points, Table, map_codes

S = TypeVar("S", CannotAssessStats, NAStats)


def resolve_abstentions(table: Table) -> Points:
    """Return the points with a category in both label and verdict: failures left out, abstentions resolved."""
    points = table.points
    judged = points.select(points.judged > FAILED)
    if table.modes.na == "as_category":
        abstained = np.unique(judged.column[(judged.truth == ABSTAINED) | (judged.judged == ABSTAINED)])
        problems = [
            f"na_mode='as_category' has no place among the ordered options of {table.columns[place].name!r}; "
            "use 'exclude' or 'as_unmet'"
            for place in abstained
            if table.columns[place].kind == "ordinal"
        ]
        if problems:
            raise InputError(problems)
    truth, verdicts = (map_codes(codes, table.columns, judged.column) for codes in (judged.truth, judged.judged))
    return replace(judged, truth=truth, judged=verdicts).select((truth >= 0) & (verdicts >= 0))


def measure_coverage(points: Points, covered: int, lost: Points | None = None) -> CoverageStats:
    """Count the compared points, and the others by reason; `lost` are the points of items without a judgment."""
    judged = points.judged if lost is None else np.concatenate([points.judged, lost.judged])
    n, failed = len(judged), int((judged == FAILED).sum())
    return CoverageStats(
        n_total=n,
        n_covered=covered,
        coverage=covered / n if n else None,
        judge_abstain_rate=float((points.judged == ABSTAINED).sum() / n) if n else None,
        gt_abstain_rate=float((points.truth == ABSTAINED).mean()) if len(points) else None,
        union_exclusion_rate=1.0 - covered / n if n else None,
        n_errored=failed,
        error_rate=failed / n if n else None,
        n_not_requested=int((judged == ABSENT).sum()),
    )


def compare_abstentions(table: Table, kind: type[S]) -> S | None:
    """Compare judge and labels on abstentions (binary) or "not applicable"; None without such criteria.

    "Not applicable" counts on criteria that have such an option, or where judges were offered one and used it.
    """
    prefix = "ca" if kind is CannotAssessStats else "na"
    chosen = table.is_binary == (prefix == "ca")
    if not chosen.any():
        return None
    points = table.points
    if prefix == "na":
        used = points.column[(points.judged == ABSTAINED) | (points.truth == ABSTAINED)]
        chosen &= np.array([ABSTAINED in column.option_codes for column in table.columns]) | np.isin(
            np.arange(len(table.columns)), used
        )
    points = points.select(chosen[points.column] & (points.judged > FAILED) & (points.truth > ABSENT))
    counts = count_pairs(points.truth != ABSTAINED, points.judged != ABSTAINED, 2)
    kappa = nan_to_none(kappas(counts))
    found = {
        "count_true": int(counts[0].sum()),
        "count_pred": int(counts[:, 0].sum()),
        "kappa": kappa,
        "kappa_interpretation": None if kappa is None else KappaResult.interpret_kappa(kappa),
        "false_positive": int(counts[1, 0]),
        "false_negative": int(counts[0, 1]),
    }
    return kind.model_validate({f"{prefix}_{name}": value for name, value in found.items()})


PerItemMetrics: TypeAlias = Literal["auto", "pooled", "per_criterion"]

_MOST_NAMED = 5


@dataclass(frozen=True)
class LabelledRun:
    """The labelled items of a run."""

    table: Table  # items with labels and a judgment
    points: Points  # the pairs of label and verdict, abstentions resolved
    scores: ScorePairs
    lost: Points  # labelled points of items that have no judgment at all; they are not in `table` and `points`
    warnings: tuple[str, ...] = ()  # what did not match
    pooled: bool = False  # whether criteria are pooled because items have rubrics of their own


def read_labelled_run(
    run: GradedRun,
    dataset: RubricDataset,
    modes: Modes = EXCLUDE,
    per_item_metrics: PerItemMetrics = "auto",
) -> LabelledRun:
    """Return the labelled items of a run."""
    if per_item_metrics not in get_args(PerItemMetrics):
        raise InputError(f"per_item_metrics={per_item_metrics!r} is not one of {', '.join(get_args(PerItemMetrics))}")
    whole = read_table(run, dataset, modes)
    labelled = whole.select_rows(whole.labelled).trim()
    table = labelled.select_rows(~labelled.failed)
    lost = labelled.points.select(labelled.failed[labelled.points.row])
    warnings = tuple(_collect_warnings(whole, lost))
    if not len(table.items):
        raise InputError(["no graded item has both ground truth and a judgment", *warnings])
    if whole.repeated_votes:
        more = len(whole.repeated_votes) - _MOST_NAMED
        rest = [f"and {more} more repeated votes"] if more > 0 else []
        raise InputError([*whole.repeated_votes[:_MOST_NAMED], *rest])
    points = resolve_abstentions(table)
    if not len(points):
        raise InputError("no pair of a label and a verdict is left to compare: all have an abstention or failed")
    penalty = table.rule and table.rule.length_penalty
    penalties = None if penalty is None else _find_penalties(table, dataset, penalty)
    counts = np.bincount(table.points.column, minlength=len(table.columns))
    differ = bool((counts != len(table.items)).any())
    return LabelledRun(
        table,
        points,
        pair_scores(table, table.scores, table.points.judged, table.means, penalties),
        lost,
        warnings,
        per_item_metrics == "pooled" or (per_item_metrics == "auto" and dataset.rubric is None and differ),
    )


def _find_penalties(table: Table, dataset: RubricDataset, penalty: LengthPenalty) -> Floats:
    """Return each submission's length penalty, by words: runs do not record a custom length function."""
    parts = (split_submission(dataset[int(item)].submission) for item in table.items)
    return np.array([compute_length_penalty(each, penalty) for each in parts])


def _collect_warnings(table: Table, lost: Points) -> Iterator[str]:
    """Yield notes on graded items that are left out, with their counts."""
    graded = len(table.items) + len(table.extra) + table.repeated
    for count, sentence in (
        (len(table.extra), "are not in the dataset and are left out"),
        (table.repeated, "have the same text as an earlier item and are left out"),
        (len(table.items) - int(table.labelled.sum()), "have no ground truth and are left out"),
    ):
        if count:
            yield f"{count} of {graded} graded items {sentence}"
    if table.missing:
        yield describe_ungraded(table.missing)
    failed = np.isin(lost.row, lost.row[lost.judged == FAILED])
    rest = " or was not requested" if (lost.judged[failed] == ABSENT).any() else ""
    for rows, sentence in (
        (lost.row[failed], f"without a judgment (every one failed{rest})"),
        (lost.row[~failed], "of which no judgment was requested"),
    ):
        if len(rows):
            yield f"left out: {pluralize(len(np.unique(rows)), 'item')} {sentence}"
