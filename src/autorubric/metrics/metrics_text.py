"""The metrics of a run as text, and as rows of a table."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from autorubric.errors import pluralize
from autorubric.metrics.agreement_statistics import load_statistics
from autorubric.metrics.criterion_results import CoverageStats, CriterionMetricsUnion
from autorubric.metrics.results import JudgeMetrics, MetricsResult, PooledScaleMetrics
from autorubric.metrics.statistic_results import ConfidenceInterval

_Part: TypeAlias = MetricsResult | CriterionMetricsUnion | PooledScaleMetrics | JudgeMetrics


def show(value: float | None, interval: ConfidenceInterval | None = None) -> str:
    """Return a number with three decimals and its interval; a dash if it is undefined."""
    if value is None:
        return "–"
    return f"{value:.3f}" + ("" if interval is None else f" [{interval.lower:.3f}, {interval.upper:.3f}]")


def sort_worst_first(found: MetricsResult) -> list[CriterionMetricsUnion]:
    """Return the criteria, lowest κ first, ties by accuracy; criteria without a κ last."""
    return sorted(found.per_criterion, key=lambda c: (c.kappa is None, c.kappa or 0.0, c.accuracy or 0.0))


def render_summary(found: MetricsResult, *, verbose: bool) -> Iterator[str]:
    """Yield the metrics as lines of text; see `MetricsResult.summary`."""
    yield (
        f"{pluralize(found.n_items, 'labelled item')}, {pluralize(found.n_samples or 0, 'pair')} of label and "
        f"verdict (abstentions: binary {found.cannot_assess_mode}, options {found.na_mode})"
    )
    yield _render_coverage(found.coverage_stats)
    accuracy, baseline = show(found.criterion_accuracy, found.accuracy_ci), show(found.majority_baseline)
    yield f"  accuracy        {accuracy}; majority-class baseline {baseline}"
    kappa, criteria = show(found.mean_kappa, found.mean_kappa_ci), pluralize(found.n_kappa_criteria, "criterion")
    yield f"  mean kappa      {kappa} over {criteria}"
    balanced = show(found.criterion_balanced_accuracy)
    yield f"  Gwet's AC1      {show(found.criterion_gwet)}; balanced accuracy {balanced}"
    yield (
        f"  MET             precision {show(found.criterion_precision)}, recall {show(found.criterion_recall)}, "
        f"F1 {show(found.criterion_f1)}"
    )
    yield (
        f"  score           RMSE {show(found.score_rmse)}, MAE {show(found.score_mae)}, bias "
        f"{show(found.bias.mean_bias, found.bias.ci)} over {pluralize(found.n_scores, 'item')} ({found.score_rule})"
    )
    for criterion in sort_worst_first(found):
        accuracy, baseline = show(criterion.accuracy, criterion.accuracy_ci), show(criterion.majority_baseline)
        yield (
            f"  {criterion.name}: kappa {show(criterion.kappa, criterion.kappa_ci)} "
            f"({criterion.kappa_interpretation}), accuracy {accuracy} (baseline {baseline}), n={criterion.n_samples}"
        )
    for scale in found.pooled_by_scale or []:
        yield (
            f"  {scale.scale_type}: accuracy {show(scale.exact_accuracy, scale.accuracy_ci)} (baseline "
            f"{show(scale.majority_baseline)}), kappa {show(scale.kappa, scale.kappa_ci)}, n={scale.n_points}"
        )
    yield from (f"  {line}" for line in render_consistency(found))
    yield from _render_details(found) if verbose else ()
    for warning in found.warnings:
        yield f"  note: {warning}"


def render_consistency(found: MetricsResult) -> Iterator[str]:
    """Yield a line for each judge that was asked repeatedly."""
    for judge in found.self_consistency:
        agreement = show(judge.agreement, judge.agreement_ci)
        yield (
            f"self-consistency of {judge.judge_id}: two repeats agree in {agreement}, all repeats in "
            f"{show(judge.unanimous)} of {judge.n_judgments:,} judgments; variance within the judge "
            f"{show(judge.variance)}"
        )


def _render_details(found: MetricsResult) -> Iterator[str]:
    """Yield the lines of a verbose summary: correlations of scores, coverage of criteria, and the judges."""
    for correlation in (found.score_spearman, found.score_kendall, found.score_pearson):
        value, p_value = show(correlation.coefficient, correlation.ci), show(correlation.p_value)
        yield (
            f"  {correlation.method.title()}: {value}, p {p_value} ({correlation.interpretation}, "
            f"n={correlation.n_samples})"
        )
    for criterion in found.per_criterion:
        yield f"  {criterion.name} —{_render_coverage(criterion.coverage_stats)}"
    if found.mean_krippendorff_alpha is not None:
        yield f"  among judges: mean alpha {show(found.mean_krippendorff_alpha)}"
    for scale in found.pooled_by_scale or []:
        if scale.krippendorff_alpha is not None:
            yield f"  among {scale.n_judges} judges, {scale.scale_type}: alpha {show(scale.krippendorff_alpha)}"
    for judge in (found.per_judge or {}).values():
        yield (
            f"  judge {judge.judge_id}: accuracy {show(judge.criterion_accuracy, judge.accuracy_ci)} (baseline "
            f"{show(judge.majority_baseline)}), mean kappa {show(judge.mean_kappa, judge.kappa_ci)}, "
            f"kappa {show(judge.micro_kappa, judge.micro_kappa_ci)}, "
            f"n={judge.n_pairs} ({judge.coverage})"
        )
    for influence in found.without_judge:
        yield f"  panel without {influence.judge_id}: accuracy {show(influence.accuracy_without)}"


def _render_coverage(found: CoverageStats | None) -> str:
    """Return a line on how many labelled points are compared, and why the others are not."""
    if found is None or not found.n_total:
        return "  coverage: –"
    return (
        f"  coverage {show(found.coverage)}: {found.n_covered} of {found.n_total} labelled points compared; "
        f"judge abstains {show(found.judge_abstain_rate)}, labels abstain {show(found.gt_abstain_rate)}, "
        f"failed {found.n_errored}, not requested {found.n_not_requested}"
    )


_PUBLISHED = """
    level name criterion_type accuracy_micro accuracy_macro precision_micro recall_micro f1_micro
    mean_kappa_macro kappa_micro phi_micro mean_krippendorff_alpha cannot_assess_mode na_mode n_samples rmse mae
    spearman kendall pearson bias adjacent_accuracy weighted_kappa phi fpr fnr is_degenerate krippendorff_alpha
    fleiss_kappa coverage judge_abstain_rate gt_abstain_rate union_exclusion_rate n_errored error_rate
""".split()  # noqa: SIM905 - a list of words reads best as words
"""The columns of AutoRubric 1.6, in order; further columns follow."""

_POOLED = ("accuracy", "precision", "recall", "f1", "kappa")
_COVERAGE = (
    *("coverage", "judge_abstain_rate", "gt_abstain_rate", "union_exclusion_rate", "n_errored", "error_rate"),
    "n_not_requested",
)


def build_rows(found: MetricsResult) -> list[dict[str, Any]]:
    """Return a row for the whole run, then one for each criterion, pooled kind and judge, all with the same keys."""
    whole = _build_row(found, "aggregate", "overall", "all") | _build_score_columns(found)
    whole |= {
        "accuracy_macro": found.macro_accuracy,
        "mean_kappa_macro": found.mean_kappa,
        "phi_micro": found.criterion_phi,
        "phi": None,
        "mean_krippendorff_alpha": found.mean_krippendorff_alpha,
        "cannot_assess_mode": found.cannot_assess_mode,
        "na_mode": found.na_mode,
        "n_samples": found.n_samples,
    }
    rows = [whole]
    for metrics in found.per_criterion:
        row = _build_row(metrics, "criterion", metrics.name, metrics.criterion_type)
        row |= {"n_samples": metrics.n_samples, "is_degenerate": metrics.is_degenerate}
        if metrics.criterion_type == "ordinal":
            row |= {"spearman": metrics.spearman.coefficient, "kendall": metrics.kendall.coefficient}
            row["weighted_kappa"] = metrics.weighted_kappa
        rows.append(row)
    for scale in found.pooled_by_scale or []:
        row = _build_row(scale, "scale", scale.scale_type, scale.scale_type)
        rows.append(row | {"n_samples": scale.n_points, "spearman": scale.value_spearman})
    for judge in (found.per_judge or {}).values():
        row = _build_row(judge, "judge", judge.judge_id, "all") | _build_score_columns(judge)
        row |= {"mean_kappa_macro": judge.mean_kappa, "n_samples": judge.n_pairs, "judge_coverage": judge.coverage}
        rows.append(row)
    every = dict.fromkeys([*_PUBLISHED, *(name for row in rows for name in row)])
    return [every | row for row in rows]


def _build_row(part: _Part, level: str, name: str, kind: str) -> dict[str, Any]:
    """Build the row with the statistics and the coverage of a part of the run."""
    names = [statistic.name for statistic in load_statistics()]
    values = {f"{one}_micro" if one in _POOLED else one: part.find(one) for one in names}
    coverage = {column: getattr(part.coverage_stats, column, None) for column in _COVERAGE}
    return {"level": level, "name": name, "criterion_type": kind, **values, **coverage}


def _build_score_columns(part: MetricsResult | JudgeMetrics) -> dict[str, float | None]:
    """Return the statistics of scores, by column name."""
    correlations = {
        name: None if found is None else found.coefficient
        for name, found in (
            ("spearman", part.score_spearman),
            ("kendall", part.score_kendall),
            ("pearson", part.score_pearson),
        )
    }
    return {
        "rmse": part.score_rmse,
        "mae": part.score_mae,
        "bias": None if part.bias is None else part.bias.mean_bias,
        **correlations,
    }
