"""From a graded run and the labels of its items to judge-human agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from autorubric.core.self_consistency import SelfConsistency
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.metrics.agreement_statistics import Part, measure
from autorubric.metrics.agreement_sums import SUMMED, Layout
from autorubric.metrics.arrays import Flags, defined
from autorubric.metrics.confusion import confusion_counts
from autorubric.metrics.criterion_results import CannotAssessStats, ConfusionMatrix, CriterionMetricsUnion, NAStats
from autorubric.metrics.intervals import check_confidence, wilson_interval
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.judge_influence import leave_out_judges
from autorubric.metrics.labelled_run import (
    CannotAssessMode,
    LabelledRun,
    Modes,
    NAMode,
    PerItemMetrics,
    compare_abstentions,
    measure_coverage,
    read_labelled_run,
    settle,
)
from autorubric.metrics.per_criterion import majority_baseline, measure_criteria, measure_scales
from autorubric.metrics.results import BootstrapResults, JudgeMetrics, JudgeSelfConsistency, MetricsResult, TagMetrics
from autorubric.metrics.scores import ScorePairs, compare_scores, describe_rule, pair_scores
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.table import ABSENT, ABSTAINED, FAILED, Column, GradedRun, Points, Table

_NAMED = {"kappa": "micro_kappa", "bias": "the mean bias", "rmse": "score_rmse", "mae": "score_mae"}


def compute_metrics(  # noqa: PLR0913 (published signature)
    eval_result: GradedRun,
    dataset: RubricDataset,
    *,
    bootstrap: bool = False,
    n_bootstrap: int = 1000,
    per_judge: bool = False,
    cannot_assess: CannotAssessMode = "exclude",
    na_mode: NAMode = "exclude",
    confidence_level: float = 0.95,
    seed: int | None = None,
    per_item_metrics: PerItemMetrics = "auto",
) -> MetricsResult:
    """Judge-human agreement: how well the verdicts of a run match the labels of its items.

    Args:
        eval_result: the run: whatever has `item_results`.
        dataset: the items with their ground truth.
        bootstrap: compute confidence intervals.
        n_bootstrap: draws of the posteriors.
        per_judge: also measure each judge of a panel, and the panel without each judge.
        cannot_assess: CANNOT_ASSESS leaves its pair out (`exclude`), counts as UNMET (`as_unmet`) or is a category
            of its own (`as_category`).
        na_mode: likewise for options that are not applicable; `as_unmet` takes the option that scores least.
        confidence_level: of all confidence intervals.
        seed: for reproducible intervals.
        per_item_metrics: `pooled` pools the criteria of items with rubrics of their own by kind, `per_criterion`
            lists every distinct criterion; `auto` pools where the dataset has no rubric and the items' rubrics
            differ.

    Raises:
        InputError: the run's items are not the dataset's, its criteria are not the labels', a judge voted twice on
            one criterion of an item, no pair is left, or an argument is wrong.

    Example:
        >>> from autorubric.metrics.example_run import example_run
        >>> from types import SimpleNamespace as Run
        >>> dataset, reports = example_run()
        >>> results = [Run(item_idx=place, report=report, error=None) for place, report in enumerate(reports)]
        >>> found = compute_metrics(Run(item_results=results), dataset)
        >>> round(found.criterion_accuracy, 3), round(found.mean_kappa, 3), found.n_items
        (0.833, 0.667, 4)
    """
    check_confidence(confidence_level)
    draws = Draws(n_bootstrap, confidence_level, seed) if bootstrap else None
    run = read_labelled_run(eval_result, dataset, Modes(cannot_assess, na_mode), per_item_metrics)
    return measure_run(run, confidence_level, draws, per_judge=per_judge)


def measure_run(run: LabelledRun, confidence: float, draws: Draws | None, *, per_judge: bool) -> MetricsResult:
    """All statistics of the labelled items of a run; with intervals where `draws` says how."""
    table, points = run.table, run.points
    each = [] if run.pooled else measure_criteria(run, confidence)
    whole = measure_columns(run, np.ones(len(table.columns), bool), draws)
    kinds = [column.kind for column in table.columns]
    accuracy_ci = whole.intervals.get("accuracy") or _wilson(points, whole.values["accuracy"], confidence)
    shift = {"bias": 0.0 if len(run.scores.rows) else None}  # defined where an item has both scores
    return MetricsResult(
        **MetricsResult.measured(whole.values),
        **compare_scores(run.scores, confidence),
        n_kappa_criteria=sum(criterion.kappa is not None for criterion in each),
        macro_accuracy=_mean([criterion.accuracy for criterion in each]),
        mean_krippendorff_alpha=_mean([criterion.krippendorff_alpha for criterion in each]),
        mean_kappa=_mean([criterion.kappa for criterion in each]),
        accuracy_ci=accuracy_ci,
        per_criterion=[c.model_copy(update={"kappa_ci": whole.intervals.get(str(c.index))}) for c in each],
        pooled_by_scale=_measure_scales(run, draws) if run.pooled else None,
        bootstrap=draws and _bootstrap_results(whole, draws, accuracy_ci),
        per_judge=measure_judges(run, confidence, draws) if per_judge else None,
        without_judge=leave_out_judges(run) if per_judge else [],
        per_tag=_measure_tags(run, draws) if any(column.criterion.tags for column in table.columns) else [],
        n_items=table.rows,
        n_criteria=len(points) if run.pooled else len(table.columns),
        n_binary_criteria=kinds.count("binary"),
        n_ordinal_criteria=kinds.count("ordinal"),
        n_nominal_criteria=kinds.count("nominal"),
        na_stats=compare_abstentions(table, NAStats),
        cannot_assess_stats=compare_abstentions(table, CannotAssessStats),
        cannot_assess_mode=run.modes.cannot_assess,
        na_mode=run.modes.na,
        n_samples=len(points),
        coverage_stats=measure_coverage(table.points, len(points), int(run.errored.sum())),
        n_scores=len(run.scores.rows),
        score_rule=describe_rule(run.scores.rule),
        self_consistency=[_read_consistency(judge, confidence) for judge in table.consistency],
        warnings=[*run.warnings, *_notes_on(run, each), *name_missing(whole.values | shift, whole.intervals)],
    )


def _notes_on(run: LabelledRun, each: list[CriterionMetricsUnion]) -> list[str]:
    """What a reader must know of the numbers."""
    sentences = list(run.scores.warnings)
    failed = int((run.table.points.judged == FAILED).sum())
    if failed:
        sentences.append(f"{failed} of {len(run.table.points)} labelled judgments failed and are left out")
    without = run.table.rows - len(run.scores.rows)
    if without:
        sentences.append(f"{without} of {run.table.rows} items have no score or no true score")
    values = len(np.unique(run.scores.true))
    if 0 < values <= 2:
        plural = "s" if values > 1 else ""
        sentences.append(f"the true scores take {values} distinct value{plural}; correlations say little")
    one_class = [criterion.name for criterion in each if criterion.kappa is None and criterion.n_samples]
    if one_class:
        sentences.append(f"kappa is undefined where all labels and verdicts are one category: {', '.join(one_class)}")
    empty = [criterion.name for criterion in each if not criterion.n_samples]
    if empty:
        sentences.append(f"no pair of label and verdict: {', '.join(empty)}")
    return sentences


def name_missing(values: Mapping[str, float | None], intervals: Mapping[str, object]) -> Iterator[str]:
    """Sentences on the statistics that have no interval although one was computed and they are defined.

    Example:
        >>> list(name_missing({"kappa": 1.0}, {"accuracy": None, "kappa": None, "mean_kappa": (0.1, 0.5)}))
        ['no interval for micro_kappa: the items do not vary, or without one of them it is undefined']
    """
    missing = [name for name in SUMMED[1:] if intervals.get(name, 0) is None and values.get(name) is not None]
    if missing:
        named = ", ".join(_NAMED.get(name, name) for name in missing)
        yield f"no interval for {named}: the items do not vary, or without one of them it is undefined"


class Measured(NamedTuple):
    """The agreement over some of the criteria: statistics by name, and the intervals of some."""

    values: dict[str, float | None]
    intervals: dict[str, ConfidenceInterval | None]


def measure_columns(run: LabelledRun, columns: Flags, draws: Draws | None) -> Measured:
    """The agreement over the chosen columns; intervals by resampling items.

    Accuracy and the majority-class baseline are over all pairs, all other statistics over the binary ones.
    """
    points = run.points.where(columns[run.points.column])
    binary = points.where(run.table.is_binary[points.column])
    extra = ("CANNOT_ASSESS",) if run.modes.cannot_assess == "as_category" else ()
    values = measure(Part("binary", binary.truth, binary.judged, ("MET", "UNMET", *extra)))
    values["accuracy"] = float((points.truth == points.judged).mean()) if len(points) else None
    values["majority_baseline"] = majority_baseline(run.table.columns, points, pooled=run.pooled)
    if not len(points):
        return Measured(values | {"mean_kappa": None}, {})
    if run.pooled:
        chosen, points = pool(run.table.columns, points)
    else:
        chosen = tuple(column for column, wanted in zip(run.table.columns, columns, strict=True) if wanted)
        points = replace(points, column=(np.cumsum(columns) - 1)[points.column])
    layout = Layout.of(chosen, run.modes, run.scores.span)
    sums = layout.sum_items(run.table.rows, points, run.scores)
    mean = layout.summarize(sums.sum(axis=0))[SUMMED.index("mean_kappa")]
    # Columns that stand for many criteria at once have no κ of their own.
    values["mean_kappa"] = None if run.pooled else defined(mean)
    if draws is None:
        return Measured(values, {})
    names = [*SUMMED, *(column.name if run.pooled else str(column.index) for column in chosen)]
    found = zip(names, layout.intervals(sums, draws), strict=True)
    intervals = {name: ConfidenceInterval.of(*each) for name, each in found}
    return Measured(values, intervals | ({"mean_kappa": None} if run.pooled else {}))


def pool(columns: Sequence[Column], points: Points) -> tuple[tuple[Column, ...], Points]:
    """The same points with one column for all binary criteria and one, right or wrong, for all others."""
    binary = np.array([column.kind == "binary" for column in columns])[points.column]
    criterion = columns[0].criterion.model_copy(update={"options": None})
    pooled = Column.of(criterion, 0, "binary"), Column.of(criterion, 1, "multi-choice")
    made = replace(
        points,
        column=np.where(binary, 0, 1),
        truth=np.where(binary, points.truth, 0),
        judged=np.where(binary, points.judged, (points.truth != points.judged).astype(np.int64)),
    )
    return pooled, made


def _measure_scales(run: LabelledRun, draws: Draws | None) -> list[Any]:
    """The agreement by kind of criterion, with intervals of accuracy and of the κ over all binary pairs."""
    kinds = np.array([column.kind for column in run.table.columns])
    made = []
    for scale in measure_scales(run):
        found = measure_columns(run, kinds == scale.scale_type, draws).intervals
        kappa = found.get("kappa") if scale.scale_type == "binary" else None
        made.append(scale.model_copy(update={"accuracy_ci": found.get("accuracy"), "kappa_ci": kappa}))
    return made


def _measure_tags(run: LabelledRun, draws: Draws | None) -> list[TagMetrics]:
    """The agreement over the criteria of each tag, by name of the tag."""
    columns = run.table.columns
    made = []
    for tag in sorted({tag for column in columns for tag in column.criterion.tags or ()}):
        tagged = np.array([tag in (column.criterion.tags or ()) for column in columns], bool)
        found = measure_columns(run, tagged, draws)
        made.append(
            TagMetrics(
                tag=tag,
                n_criteria=int(tagged.sum()),
                n_samples=int(tagged[run.points.column].sum()),
                mean_kappa=found.values["mean_kappa"],
                accuracy_ci=found.intervals.get("accuracy"),
                mean_kappa_ci=found.intervals.get("mean_kappa"),
                micro_kappa_ci=found.intervals.get("kappa"),
                **TagMetrics.measured(found.values),
            )
        )
    return made


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _wilson(points: Points, accuracy: float | None, confidence: float) -> ConfidenceInterval | None:
    """With items for n: never too narrow, however the criteria of an item agree."""
    items = len(np.unique(points.row))
    return ConfidenceInterval.of(wilson_interval((accuracy or 0.0) * items, items, confidence), "wilson")


def _bootstrap_results(whole: Measured, draws: Draws, accuracy_ci: ConfidenceInterval | None) -> BootstrapResults:
    intervals = whole.intervals | {"accuracy": accuracy_ci}
    ends = {name: None if found is None else (found.lower, found.upper) for name, found in intervals.items()}
    named = {"mean_kappa": "kappa_ci", "kappa": "micro_kappa_ci"}
    fields: dict[str, Any] = {named.get(name, f"{name}_ci"): ends[name] for name in SUMMED}
    return BootstrapResults(
        **fields,
        n_bootstrap=draws.replicates,
        confidence_level=draws.confidence,
    )


def _read_consistency(judge: SelfConsistency, confidence: float) -> JudgeSelfConsistency:
    ends = judge.interval(confidence)
    interval = ends and ConfidenceInterval(lower=ends[0], upper=ends[1], confidence=confidence, method="normal")
    return JudgeSelfConsistency(
        judge_id=judge.judge_id,
        n_judgments=judge.judgments,
        n_repeats=judge.repeats,
        agreement=judge.agreement,
        agreement_ci=interval,
        unanimous=judge.unanimous_share,
        variance=judge.variance,
    )


def measure_judges(run: LabelledRun, confidence: float, draws: Draws | None) -> dict[str, JudgeMetrics]:
    """The agreement of each judge, by its id; refuses judges with gaps that no cascade explains."""
    table, modes = run.table, run.modes
    if not table.escalated:
        _refuse_gaps(table)
    found = {}
    for place, judge in enumerate(table.judges):
        votes = table.points.votes[place]
        own = replace(table, points=replace(table.points, judged=votes))
        asked = table.points.where(votes > ABSENT)
        pairs = settle(own, modes)
        scores = pair_scores(table, table.judge_scores[place], votes)
        every = np.ones(len(table.columns), bool)
        measured = measure_columns(replace(run, table=own, points=pairs, scores=scores), every, draws)
        found[judge] = JudgeMetrics(
            judge_id=judge,
            mean_kappa=measured.values["mean_kappa"],
            **JudgeMetrics.measured(measured.values),
            **_score_fields(scores, confidence),
            confusion_matrix=_count_verdicts(own),
            coverage="full" if len(asked) == len(table.points) or not table.escalated else "escalated",
            n_pairs=len(pairs),
            coverage_stats=measure_coverage(replace(asked, judged=asked.votes[place]), len(pairs)),
            accuracy_ci=measured.intervals.get("accuracy"),
            kappa_ci=measured.intervals.get("mean_kappa"),
            micro_kappa_ci=measured.intervals.get("kappa"),
        )
    return found


def _score_fields(scores: ScorePairs, confidence: float) -> dict[str, Any]:
    """The fields about a judge's scores: None, not statistics of nothing, where it has no scores."""
    fields = compare_scores(scores, confidence)
    return fields if len(scores.judged) else dict.fromkeys(fields)


def _count_verdicts(table: Table) -> ConfusionMatrix | None:
    """Binary votes and labels before abstentions are settled."""
    points = table.points
    chosen = points.where(table.is_binary[points.column] & (points.judged > FAILED))
    if not len(chosen):
        return None
    truth, judged = (np.where(codes == ABSTAINED, 2, codes) for codes in (chosen.truth, chosen.judged))
    counts = confusion_counts(truth, judged, 3)
    return ConfusionMatrix(matrix=counts.tolist(), labels=["MET", "UNMET", "CANNOT_ASSESS"])


def _refuse_gaps(table: Table) -> None:
    problems = []
    every = np.bincount(table.points.column, minlength=len(table.columns))
    for judge, votes in zip(table.judges, table.points.votes, strict=True):
        asked = np.bincount(table.points.column[votes > ABSENT], minlength=len(table.columns))
        part = np.flatnonzero((asked > 0) & (asked < every))
        if len(part):
            column = int(part[0])
            problems.append(
                f"judge {judge!r} voted on {table.columns[column].name!r} for {asked[column]} of {every[column]} "
                "items; metrics per judge need the same judges on every item"
            )
    if problems:
        raise InputError(problems)
