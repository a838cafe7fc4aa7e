"""The published home of the result types."""

from __future__ import annotations

from autorubric.metrics.abstentions import CannotAssessMode, NAMode
from autorubric.metrics.columns import CriterionType
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
from autorubric.metrics.results import BootstrapResults, JudgeMetrics, MetricsResult, PooledScaleMetrics
from autorubric.metrics.statistic_results import (
    BiasResult,
    BootstrapResult,
    ClassificationReport,
    ConfidenceInterval,
    CorrelationResult,
    DistributionResult,
    EMDResult,
    KappaResult,
    KSTestResult,
    MetricWithCI,
    ScoreCorrelationResult,
)

__all__ = [
    "BiasResult",
    "BinaryCriterionMetrics",
    "BootstrapResult",
    "BootstrapResults",
    "CannotAssessMode",
    "CannotAssessStats",
    "ClassificationReport",
    "ConfidenceInterval",
    "ConfusionMatrix",
    "CorrelationResult",
    "CoverageStats",
    "CriterionMetrics",
    "CriterionMetricsUnion",
    "CriterionType",
    "DistributionResult",
    "EMDResult",
    "JudgeMetrics",
    "KSTestResult",
    "KappaResult",
    "MetricWithCI",
    "MetricsResult",
    "NAMode",
    "NAStats",
    "NominalCriterionMetrics",
    "OptionMetrics",
    "OrdinalCriterionMetrics",
    "PooledScaleMetrics",
    "ScoreCorrelationResult",
]
