"""From a run's reports and the labels of its items to how far they agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from autorubric.dataset import RubricDataset
from autorubric.metrics.abstentions import (
    CannotAssessMode,
    Modes,
    NAMode,
    cannot_assess_stats,
    coverage_of,
    na_stats,
)
from autorubric.metrics.arrays import defined
from autorubric.metrics.base_rate import base_rate
from autorubric.metrics.bootstrap import Bootstrap, bootstrap_intervals
from autorubric.metrics.column import FAILED
from autorubric.metrics.common_rule import rule_text
from autorubric.metrics.confusion import balanced_accuracy, confusion_counts, mcc, precision_recall
from autorubric.metrics.criterion_agreement import criterion_agreement
from autorubric.metrics.criterion_results import CriterionMetricsUnion
from autorubric.metrics.intervals import Interval, checked_confidence, wilson_interval
from autorubric.metrics.joining import GradedItems
from autorubric.metrics.kappa import gwets, kappas
from autorubric.metrics.labelled_run import LabelledRun, PerItemMetrics, labelled_run
from autorubric.metrics.per_judge import per_judge_metrics, without_each_judge
from autorubric.metrics.pooled import as_pooled, pooled_by_scale
from autorubric.metrics.results import BootstrapResults, MetricsResult, PooledScaleMetrics
from autorubric.metrics.scores import score_agreement
from autorubric.metrics.self_consistency import self_consistency
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.metrics.subsets import by_tag, part_figures
from autorubric.metrics.sums import FIGURES, Layout, contributions, figures


def compute_metrics(  # noqa: PLR0913 (published signature)
    eval_result: GradedItems,
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
    """How far a run agrees with the labels of its items.

    Args:
        eval_result: the run: whatever has `item_results`.
        dataset: the items with their ground truth.
        bootstrap: draw intervals by resampling items.
        n_bootstrap: how often.
        per_judge: also the figures of each judge of a panel, and of the panel without each.
        cannot_assess: CANNOT_ASSESS leaves its pair out (`exclude`), counts as UNMET (`as_unmet`) or is a verdict
            of its own (`as_category`).
        na_mode: likewise for options that are not applicable; `as_unmet` takes the option that scores least.
        confidence_level: of all intervals.
        seed: for the same intervals again.
        per_item_metrics: `pooled` takes the criteria of items with rubrics of their own together by kind,
            `per_criterion` lists every distinct criterion; `auto` pools where the dataset has no rubric and the
            items' rubrics differ.

    Raises:
        InputError: the run's items are not the dataset's, its criteria are not the labels', a judge voted twice on
            one criterion of an item, no pair is left, or an argument is wrong.

    Example:
        >>> from types import SimpleNamespace as Run
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.core.report import CriterionReport, EvaluationReport
        >>> from autorubric.core.rubric import Rubric
        >>> dataset = RubricDataset("Explain.", Rubric([Criterion(name="Brief", requirement="Is brief")]))
        >>> results = []
        >>> for place, (label, said) in enumerate([("MET", "MET"), ("UNMET", "UNMET"), ("UNMET", "MET")]):
        ...     dataset.add_item(f"Text {place}", "", [label])
        ...     entry = CriterionReport(name="Brief", requirement="Is brief", verdict=said, reason=None)
        ...     report = EvaluationReport(score=float(said == "MET"), report=[entry])
        ...     results.append(Run(item_idx=place, report=report, error=None))
        >>> found = compute_metrics(Run(item_results=results), dataset)
        >>> round(found.criterion_accuracy, 3), round(found.mean_kappa, 3), found.n_items
        (0.667, 0.4, 3)
    """
    checked_confidence(confidence_level)
    drawing = Bootstrap(n_bootstrap, confidence_level, seed) if bootstrap else None
    found = labelled_run(eval_result, dataset, Modes(cannot_assess, na_mode), per_item_metrics)
    result = result_of(found, confidence_level, drawing, per_judge=per_judge)
    repeated = self_consistency(eval_result.item_results, confidence_level)
    return result.model_copy(update={"self_consistency": repeated}) if repeated else result


def result_of(found: LabelledRun, confidence: float, drawing: Bootstrap | None, *, per_judge: bool) -> MetricsResult:
    """Every figure of the run.

    Args:
        found: a run and its labels.
        confidence: of the intervals.
        drawing: how intervals are bootstrapped; None for none.
        per_judge: also the figures of each judge.
    """
    table, points, modes = found.table, found.points, found.modes
    each = [] if found.pooled else _per_criterion(found, confidence)
    intervals = _intervals(found, drawing) if drawing is not None else {}
    kinds = [column.kind for column in table.columns]
    return MetricsResult(
        **_whole(found, each, confidence, intervals.get("accuracy")),
        **score_agreement(found.scores, confidence),
        per_criterion=[_with_interval(figures, intervals) for figures in each],
        pooled_by_scale=_pooled(found, drawing) if found.pooled else None,
        bootstrap=_bootstrap_results(intervals, drawing),
        per_judge=per_judge_metrics(found, confidence, drawing) if per_judge else None,
        without_judge=without_each_judge(found) if per_judge else [],
        per_tag=by_tag(found, drawing),
        n_items=table.rows,
        n_criteria=len(points) if found.pooled else len(table.columns),
        n_binary_criteria=kinds.count("binary"),
        n_ordinal_criteria=kinds.count("ordinal"),
        n_nominal_criteria=kinds.count("nominal"),
        na_stats=na_stats(table),
        cannot_assess_stats=cannot_assess_stats(table),
        cannot_assess_mode=modes.cannot_assess,
        na_mode=modes.na,
        n_samples=len(points),
        coverage_stats=coverage_of(table.points, len(points), int(table.errored.sum())),
        n_scores=len(found.scores.rows),
        score_rule=rule_text(found.scores.rule),
        warnings=[*found.warnings, *_warnings(found, each)],
    )


def _per_criterion(found: LabelledRun, confidence: float) -> list[CriterionMetricsUnion]:
    made = []
    raw_order, order = (np.argsort(p.column, kind="stable") for p in (found.table.points, found.points))
    raw_ends = np.cumsum(np.bincount(found.table.points.column, minlength=len(found.table.columns)))
    ends = np.cumsum(np.bincount(found.points.column, minlength=len(found.table.columns)))
    for place, column in enumerate(found.table.columns):
        raw = found.table.points.where(raw_order[raw_ends[place - 1] if place else 0 : raw_ends[place]])
        own = found.points.where(order[ends[place - 1] if place else 0 : ends[place]])
        failed = int(found.table.errored[place])
        made.append(criterion_agreement(column, own, raw, found.modes, confidence, failed))
    return made


def _pooled(found: LabelledRun, drawing: Bootstrap | None) -> list[PooledScaleMetrics]:
    """The figures by kind, with intervals of accuracy and of the κ over all binary pairs."""
    kinds = np.array([column.kind for column in found.table.columns])
    made = []
    for scale in pooled_by_scale(found.table, found.points, found.modes):
        part = part_figures(found, kinds == scale.scale_type, drawing)
        kappa_ci = part.micro_kappa_ci if scale.scale_type == "binary" else None
        made.append(scale.model_copy(update={"accuracy_ci": part.accuracy_ci, "kappa_ci": kappa_ci}))
    return made


def _whole(
    found: LabelledRun, each: list[CriterionMetricsUnion], confidence: float, drawn: Interval | None
) -> dict[str, Any]:
    """The figures over all criteria, by name."""
    points = found.points
    binary = np.array([column.kind == "binary" for column in found.table.columns], bool)
    flat = points.where(binary[points.column])
    counts = confusion_counts(flat.truth, flat.judged, 3 if found.modes.cannot_assess == "as_category" else 2)
    precision, recall, f1 = precision_recall(counts)
    hits = int((points.truth == points.judged).sum())
    known = [figures.kappa for figures in each if figures.kappa is not None]
    interval = ConfidenceInterval.of(drawn, "bca")
    if interval is None:
        # As if the criteria of an item said one thing: never too narrow, and Wilson's own for one criterion each.
        items = len(np.unique(points.row))
        interval = ConfidenceInterval.of(wilson_interval(hits / len(points) * items, items, confidence), "wilson")
    return {
        "criterion_accuracy": hits / len(points),
        "criterion_precision": precision,
        "criterion_recall": recall,
        "criterion_f1": f1,
        "mean_kappa": float(np.mean(known)) if known else None,
        "n_kappa_criteria": len(known),
        "criterion_phi": mcc(confusion_counts(flat.truth > 0, flat.judged > 0, 2)),
        "micro_kappa": defined(kappas(counts)),
        "criterion_gwet": defined(gwets(counts)),
        "criterion_balanced_accuracy": balanced_accuracy(counts),
        "base_rate": base_rate(found.table.columns, points, pooled=found.pooled),
        "macro_accuracy": _mean([figures.accuracy for figures in each]),
        "mean_krippendorff_alpha": _mean([figures.krippendorff_alpha for figures in each]),
        "accuracy_ci": interval,
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _intervals(found: LabelledRun, drawing: Bootstrap) -> dict[str, Interval | None]:
    """Intervals by the names of `FIGURES`, and of each criterion's κ by its number."""
    table, points = as_pooled(found.table, found.points) if found.pooled else (found.table, found.points)
    layout = Layout.of(table, found.modes)
    sums = contributions(table, points, found.scores, layout)
    drawn = bootstrap_intervals(sums, lambda total: figures(total, layout), drawing)
    names = [*FIGURES, *(str(place) for place in range(len(table.columns)))]
    intervals = dict(zip(names, drawn, strict=True))
    return {**intervals, "mean_kappa": None} if found.pooled else intervals


def _with_interval(figures: CriterionMetricsUnion, intervals: dict[str, Interval | None]) -> CriterionMetricsUnion:
    drawn = intervals.get(str(figures.index))
    if drawn is None:
        return figures
    return figures.model_copy(update={"kappa_ci": ConfidenceInterval.of(drawn, "bca")})


def _bootstrap_results(intervals: dict[str, Interval | None], drawing: Bootstrap | None) -> BootstrapResults | None:
    if drawing is None:
        return None
    ends = {name: None if found is None else (found.low, found.high) for name, found in intervals.items()}
    return BootstrapResults(
        accuracy_ci=ends["accuracy"],
        kappa_ci=ends["mean_kappa"],
        rmse_ci=ends["rmse"],
        n_bootstrap=drawing.replicates,
        confidence_level=drawing.confidence,
        micro_kappa_ci=ends["micro_kappa"],
        bias_ci=ends["bias"],
        mae_ci=ends["mae"],
        method=drawing.method,
    )


def _warnings(found: LabelledRun, each: list[CriterionMetricsUnion]) -> list[str]:
    """What a reader must know of the figures."""
    sentences = list(found.scores.warnings)
    failed = int((found.table.points.judged == FAILED).sum())
    if failed:
        sentences.append(f"{failed} of {len(found.table.points)} labelled judgments failed and are left out")
    without = found.table.rows - len(found.scores.rows)
    if without:
        sentences.append(f"{without} of {found.table.rows} items have no score or no true score")
    values = len(np.unique(found.scores.true))
    if 0 < values <= 2:
        sentences.append(f"the true scores take {values} distinct value{'s'[: values - 1]}; correlations say little")
    one_class = [figures.name for figures in each if figures.kappa is None and figures.n_samples]
    if one_class:
        sentences.append(
            f"labels and verdicts are all one category, so chance agreement cannot be told: {', '.join(one_class)}"
        )
    empty = [figures.name for figures in each if not figures.n_samples]
    if empty:
        sentences.append(f"no pair of label and verdict: {', '.join(empty)}")
    return sentences
