"""Names of the published AutoRubric package that are not names of this product's own.

They can be imported from `autorubric` as well, which finds them here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.core.criterion import CANONICAL_NA_OPTION as CANONICAL_NA_OPTION
    from autorubric.core.criterion import AggregationStrategy as AggregationStrategy
    from autorubric.core.criterion import NominalAggregation as NominalAggregation
    from autorubric.core.criterion import OrdinalAggregation as OrdinalAggregation
    from autorubric.core.criterion import ScaleType as ScaleType
    from autorubric.core.judgment import AggregatedMultiChoiceVerdict as AggregatedMultiChoiceVerdict
    from autorubric.core.judgment import CannotAssessConfig as CannotAssessConfig
    from autorubric.core.judgment import CannotAssessStrategy as CannotAssessStrategy
    from autorubric.core.judgment import CriterionJudgment as CriterionJudgment
    from autorubric.core.judgment import JudgeVote as JudgeVote
    from autorubric.core.judgment import MultiChoiceJudgeVote as MultiChoiceJudgeVote
    from autorubric.core.judgment import MultiChoiceJudgment as MultiChoiceJudgment
    from autorubric.core.judgment import MultiChoiceVerdict as MultiChoiceVerdict
    from autorubric.core.scoring import CountFn as CountFn
    from autorubric.core.scoring import PenaltyType as PenaltyType
    from autorubric.core.submission import ThinkingOutputDict as ThinkingOutputDict
    from autorubric.core.submission import ToGradeInput as ToGradeInput
    from autorubric.core.submission import word_count as word_count
    from autorubric.core.usage import TokenUsage as TokenUsage
    from autorubric.core.usage import aggregate_completion_cost as aggregate_completion_cost
    from autorubric.core.usage import aggregate_evaluation_usage as aggregate_evaluation_usage
    from autorubric.core.usage import aggregate_token_usage as aggregate_token_usage
    from autorubric.graders.asking import ErrorCategory as ErrorCategory
    from autorubric.graders.asking import classify_grading_error as classify_grading_error
    from autorubric.graders.assembly import EscalationConfig as EscalationConfig
    from autorubric.graders.assembly import LLMCalls as LLMCalls
    from autorubric.graders.few_shot import FewShotConfig as FewShotConfig
    from autorubric.graders.few_shot import FewShotExample as FewShotExample
    from autorubric.graders.grader import Grader as Grader
    from autorubric.llm.client import GenerateResult as GenerateResult
    from autorubric.llm.client import LLMClient as LLMClient
    from autorubric.llm.client import generate as generate
    from autorubric.llm.config import ThinkingConfig as ThinkingConfig
    from autorubric.llm.config import ThinkingLevel as ThinkingLevel
    from autorubric.llm.config import ThinkingLevelLiteral as ThinkingLevelLiteral
    from autorubric.llm.config import ThinkingParam as ThinkingParam
    from autorubric.metrics import BiasResult as BiasResult
    from autorubric.metrics import BootstrapResult as BootstrapResult
    from autorubric.metrics import BootstrapResults as BootstrapResults
    from autorubric.metrics import CannotAssessMode as CannotAssessMode
    from autorubric.metrics import ConfidenceInterval as ConfidenceInterval
    from autorubric.metrics import CorrelationResult as CorrelationResult
    from autorubric.metrics import CriterionMetrics as CriterionMetrics
    from autorubric.metrics import DistributionResult as DistributionResult
    from autorubric.metrics import EMDResult as EMDResult
    from autorubric.metrics import JudgeMetrics as JudgeMetrics
    from autorubric.metrics import KSTestResult as KSTestResult
    from autorubric.metrics import MetricsResult as MetricsResult
    from autorubric.metrics import compute_metrics as compute_metrics
    from autorubric.metrics import earth_movers_distance as earth_movers_distance
    from autorubric.metrics import extract_verdicts_from_report as extract_verdicts_from_report
    from autorubric.metrics import filter_cannot_assess as filter_cannot_assess
    from autorubric.metrics import ks_test as ks_test
    from autorubric.metrics import score_distribution as score_distribution
    from autorubric.metrics import systematic_bias as systematic_bias
    from autorubric.metrics import verdict_to_binary as verdict_to_binary
    from autorubric.metrics import verdict_to_string as verdict_to_string
    from autorubric.metrics import wasserstein_distance as wasserstein_distance
    from autorubric.metrics.compare import JudgeComparison as JudgeComparison
    from autorubric.metrics.compare import compare_judges as compare_judges
    from autorubric.reviewing.published import evaluate_rubric_in_context as evaluate_rubric_in_context
    from autorubric.reviewing.published import evaluate_rubric_standalone as evaluate_rubric_standalone
    from autorubric.reviewing.published import get_in_context_meta_rubric as get_in_context_meta_rubric
    from autorubric.reviewing.published import get_standalone_meta_rubric as get_standalone_meta_rubric
    from autorubric.runs.manifest import ExperimentManifest as ExperimentManifest
    from autorubric.runs.plan import EvalConfig as EvalConfig
    from autorubric.runs.runner import EvalRunner as EvalRunner
    from autorubric.runs.runner import evaluate as evaluate
    from autorubric.runs.runner import evaluate_sync as evaluate_sync
    from autorubric.runs.runner import fill_ground_truth as fill_ground_truth
    from autorubric.runs.runner import fill_ground_truth_sync as fill_ground_truth_sync
    from autorubric.runs.summary import EvalTimingStats as EvalTimingStats
    from autorubric.utils import compute_length_penalty as compute_length_penalty
    from autorubric.utils import normalize_to_grade_input as normalize_to_grade_input
    from autorubric.utils import parse_thinking_output as parse_thinking_output

_HOMES = {
    "autorubric.core.criterion": "CANONICAL_NA_OPTION AggregationStrategy NominalAggregation OrdinalAggregation "
    "ScaleType",
    "autorubric.utils": "compute_length_penalty normalize_to_grade_input parse_thinking_output",
    "autorubric.core.scoring": "CountFn PenaltyType",
    "autorubric.core.submission": "ThinkingOutputDict ToGradeInput word_count",
    "autorubric.core.usage": "TokenUsage aggregate_completion_cost aggregate_evaluation_usage aggregate_token_usage",
    "autorubric.core.judgment": "AggregatedMultiChoiceVerdict CannotAssessConfig CannotAssessStrategy "
    "CriterionJudgment JudgeVote MultiChoiceJudgeVote MultiChoiceJudgment MultiChoiceVerdict",
    "autorubric.runs.plan": "EvalConfig",
    "autorubric.runs.manifest": "ExperimentManifest",
    "autorubric.runs.summary": "EvalTimingStats",
    "autorubric.runs.runner": "EvalRunner evaluate evaluate_sync fill_ground_truth fill_ground_truth_sync",
    "autorubric.graders.assembly": "EscalationConfig LLMCalls",
    "autorubric.graders.few_shot": "FewShotConfig FewShotExample",
    "autorubric.graders.grader": "Grader",
    "autorubric.graders.asking": "ErrorCategory classify_grading_error",
    "autorubric.llm.client": "GenerateResult LLMClient generate",
    "autorubric.llm.config": "ThinkingConfig ThinkingLevel ThinkingLevelLiteral ThinkingParam",
    "autorubric.metrics": (
        "BiasResult BootstrapResult BootstrapResults CannotAssessMode ConfidenceInterval CorrelationResult "
        "CriterionMetrics DistributionResult EMDResult JudgeMetrics KSTestResult MetricsResult "
        "compute_metrics earth_movers_distance extract_verdicts_from_report filter_cannot_assess ks_test "
        "score_distribution systematic_bias verdict_to_binary verdict_to_string wasserstein_distance"
    ),
    "autorubric.metrics.compare": "JudgeComparison compare_judges",
    "autorubric.reviewing.published": (
        "evaluate_rubric_in_context evaluate_rubric_standalone get_in_context_meta_rubric get_standalone_meta_rubric"
    ),
}

NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'autorubric.compat' has no attribute {name!r}")
    return getattr(import_module(NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(NAMES)
