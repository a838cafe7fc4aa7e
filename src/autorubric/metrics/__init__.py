"""Judge-human agreement: how reliable a judge is, and what that means for its scores."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.metrics.agreement_statistics import Part, Statistic
    from autorubric.metrics.compare import Difference, JudgeComparison, compare_judges
    from autorubric.metrics.compute import compute_metrics
    from autorubric.metrics.corrected import CorrectedScores, corrected_scores
    from autorubric.metrics.criterion_results import (
        BinaryCriterionMetrics,
        CannotAssessStats,
        ConfusionMatrix,
        CoverageStats,
        CriterionMetrics,
        CriterionMetricsUnion,
        NAStats,
        NominalCriterionMetrics,
        OptionMetrics,
        OrdinalCriterionMetrics,
    )
    from autorubric.metrics.distribution import (
        earth_movers_distance,
        ks_test,
        ks_test_uniform,
        score_distance,
        score_distribution,
        systematic_bias,
        wasserstein_distance,
    )
    from autorubric.metrics.label_choice import CellLabel, LabelRequest, label_next, sampled_score
    from autorubric.metrics.labelled_run import CannotAssessMode, NAMode
    from autorubric.metrics.results import BootstrapResults, JudgeMetrics, MetricsResult, PooledScaleMetrics
    from autorubric.metrics.rubric_analysis import CriterionAnalysis, RubricAnalysis, Thresholds, analyze_rubric
    from autorubric.metrics.statistic_results import (
        BiasResult,
        BootstrapResult,
        ConfidenceInterval,
        CorrelationResult,
        DistributionResult,
        EMDResult,
        KSTestResult,
    )
    from autorubric.metrics.table import CriterionType, classify_criteria, classify_criterion
    from autorubric.metrics.verdicts import (
        extract_all_verdicts_from_report,
        extract_verdicts_from_report,
        filter_cannot_assess,
        filter_na_multi_choice,
        get_option_value,
        is_na_option,
        resolve_ground_truth,
        verdict_to_binary,
        verdict_to_string,
    )

__all__ = [
    "BiasResult",
    "BinaryCriterionMetrics",
    "BootstrapResult",
    "BootstrapResults",
    "CannotAssessMode",
    "CannotAssessStats",
    "CellLabel",
    "ConfidenceInterval",
    "ConfusionMatrix",
    "CorrectedScores",
    "CorrelationResult",
    "CoverageStats",
    "CriterionAnalysis",
    "CriterionMetrics",
    "CriterionMetricsUnion",
    "CriterionType",
    "Difference",
    "DistributionResult",
    "EMDResult",
    "JudgeComparison",
    "JudgeMetrics",
    "KSTestResult",
    "LabelRequest",
    "MetricsResult",
    "NAMode",
    "NAStats",
    "NominalCriterionMetrics",
    "OptionMetrics",
    "OrdinalCriterionMetrics",
    "Part",
    "PooledScaleMetrics",
    "RubricAnalysis",
    "Statistic",
    "Thresholds",
    "analyze_rubric",
    "classify_criteria",
    "classify_criterion",
    "compare_judges",
    "compute_metrics",
    "corrected_scores",
    "earth_movers_distance",
    "extract_all_verdicts_from_report",
    "extract_verdicts_from_report",
    "filter_cannot_assess",
    "filter_na_multi_choice",
    "get_option_value",
    "is_na_option",
    "ks_test",
    "ks_test_uniform",
    "label_next",
    "resolve_ground_truth",
    "sampled_score",
    "score_distance",
    "score_distribution",
    "systematic_bias",
    "verdict_to_binary",
    "verdict_to_string",
    "wasserstein_distance",
]

_HOMES = {
    "agreement_statistics": "Part Statistic",
    "compare": "Difference JudgeComparison compare_judges",
    "compute": "compute_metrics",
    "corrected": "CorrectedScores corrected_scores",
    "criterion_results": (
        "BinaryCriterionMetrics CannotAssessStats ConfusionMatrix CoverageStats CriterionMetrics "
        "CriterionMetricsUnion NAStats NominalCriterionMetrics OptionMetrics OrdinalCriterionMetrics"
    ),
    "distribution": (
        "earth_movers_distance ks_test ks_test_uniform score_distance score_distribution systematic_bias "
        "wasserstein_distance"
    ),
    "label_choice": "CellLabel LabelRequest label_next sampled_score",
    "labelled_run": "CannotAssessMode NAMode",
    "results": "BootstrapResults JudgeMetrics MetricsResult PooledScaleMetrics",
    "rubric_analysis": "CriterionAnalysis RubricAnalysis Thresholds analyze_rubric",
    "statistic_results": (
        "BiasResult BootstrapResult ConfidenceInterval CorrelationResult DistributionResult EMDResult KSTestResult"
    ),
    "table": "CriterionType classify_criteria classify_criterion",
    "verdicts": (
        "extract_all_verdicts_from_report extract_verdicts_from_report filter_cannot_assess "
        "filter_na_multi_choice get_option_value is_na_option resolve_ground_truth verdict_to_binary "
        "verdict_to_string"
    ),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The public name, loaded on first use: a run needs the mean of its scores, not every statistic."""
    if name not in _NAMES:
        raise AttributeError(f"module 'autorubric.metrics' has no attribute {name!r}")
    return getattr(import_module(f"autorubric.metrics.{_NAMES[name]}"), name)
