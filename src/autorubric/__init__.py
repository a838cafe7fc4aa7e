"""Rubrics for language models: synthesis, grading, agreement, training.

Importing the package is cheap: every public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.core.criterion import CANONICAL_NA_OPTION, Criterion, CriterionOption
    from autorubric.core.judgment_schemas import CriterionJudgment, MultiChoiceJudgment
    from autorubric.core.length_penalty import LengthPenalty
    from autorubric.core.report import (
        CriterionReport,
        EnsembleCriterionReport,
        EnsembleEvaluationReport,
        EvaluationReport,
    )
    from autorubric.core.rubric import Rubric
    from autorubric.core.submission import ThinkingOutputDict, ToGradeInput
    from autorubric.core.usage import TokenUsage
    from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy, CriterionVerdict
    from autorubric.core.votes import (
        AggregatedMultiChoiceVerdict,
        JudgeVote,
        MultiChoiceJudgeVote,
        MultiChoiceVerdict,
    )
    from autorubric.dataset import DataItem, RubricDataset
    from autorubric.errors import AutorubricError, InputError
    from autorubric.evaluation import (
        EvalConfig,
        EvalResult,
        EvalRunner,
        EvalTimingStats,
        ExperimentManifest,
        ItemResult,
        evaluate,
        evaluate_sync,
        fill_ground_truth,
        fill_ground_truth_sync,
    )
    from autorubric.graders.assembly import EscalationConfig
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.graders.few_shot import FewShotConfig, FewShotExample
    from autorubric.graders.grader import Grader
    from autorubric.graders.judge_spec import JudgeSpec
    from autorubric.jobs.grade import grade, grade_async
    from autorubric.jobs.synthesize import synthesize, synthesize_async
    from autorubric.llm.config import LLMConfig, ThinkingConfig, ThinkingLevel
    from autorubric.metrics import (
        BiasResult,
        BootstrapResult,
        BootstrapResults,
        ConfidenceInterval,
        CorrelationResult,
        CriterionMetrics,
        DistributionResult,
        EMDResult,
        JudgeMetrics,
        KSTestResult,
        MetricsResult,
        compute_metrics,
        earth_movers_distance,
        extract_verdicts_from_report,
        filter_cannot_assess,
        ks_test,
        score_distribution,
        systematic_bias,
        verdict_to_binary,
        verdict_to_string,
        wasserstein_distance,
    )
    from autorubric.metrics.compare import JudgeComparison, compare_judges
    from autorubric.synthesis.run_summary import SynthesisResult

    __version__: str

__all__ = [
    "CANONICAL_NA_OPTION",
    "AggregatedMultiChoiceVerdict",
    "AutorubricError",
    "BiasResult",
    "BootstrapResult",
    "BootstrapResults",
    "CannotAssessConfig",
    "CannotAssessStrategy",
    "ConfidenceInterval",
    "CorrelationResult",
    "Criterion",
    "CriterionGrader",
    "CriterionJudgment",
    "CriterionMetrics",
    "CriterionOption",
    "CriterionReport",
    "CriterionVerdict",
    "DataItem",
    "DistributionResult",
    "EMDResult",
    "EnsembleCriterionReport",
    "EnsembleEvaluationReport",
    "EscalationConfig",
    "EvalConfig",
    "EvalResult",
    "EvalRunner",
    "EvalTimingStats",
    "EvaluationReport",
    "ExperimentManifest",
    "FewShotConfig",
    "FewShotExample",
    "Grader",
    "InputError",
    "ItemResult",
    "JudgeComparison",
    "JudgeMetrics",
    "JudgeSpec",
    "JudgeVote",
    "KSTestResult",
    "LLMConfig",
    "LengthPenalty",
    "MetricsResult",
    "MultiChoiceJudgeVote",
    "MultiChoiceJudgment",
    "MultiChoiceVerdict",
    "Rubric",
    "RubricDataset",
    "SynthesisResult",
    "ThinkingConfig",
    "ThinkingLevel",
    "ThinkingOutputDict",
    "ToGradeInput",
    "TokenUsage",
    "__version__",
    "compare_judges",
    "compute_metrics",
    "earth_movers_distance",
    "evaluate",
    "evaluate_sync",
    "extract_verdicts_from_report",
    "fill_ground_truth",
    "fill_ground_truth_sync",
    "filter_cannot_assess",
    "grade",
    "grade_async",
    "ks_test",
    "score_distribution",
    "synthesize",
    "synthesize_async",
    "systematic_bias",
    "verdict_to_binary",
    "verdict_to_string",
    "wasserstein_distance",
]

_HOMES = {
    "AggregatedMultiChoiceVerdict": "autorubric.core.votes",
    "AutorubricError": "autorubric.errors",
    "BiasResult": "autorubric.metrics",
    "BootstrapResult": "autorubric.metrics",
    "BootstrapResults": "autorubric.metrics",
    "CANONICAL_NA_OPTION": "autorubric.core.criterion",
    "CannotAssessConfig": "autorubric.core.verdict",
    "CannotAssessStrategy": "autorubric.core.verdict",
    "ConfidenceInterval": "autorubric.metrics",
    "CorrelationResult": "autorubric.metrics",
    "Criterion": "autorubric.core.criterion",
    "CriterionGrader": "autorubric.graders.criterion_grader",
    "CriterionJudgment": "autorubric.core.judgment_schemas",
    "CriterionMetrics": "autorubric.metrics",
    "CriterionOption": "autorubric.core.criterion",
    "CriterionReport": "autorubric.core.report",
    "CriterionVerdict": "autorubric.core.verdict",
    "DataItem": "autorubric.dataset",
    "DistributionResult": "autorubric.metrics",
    "EMDResult": "autorubric.metrics",
    "EnsembleCriterionReport": "autorubric.core.report",
    "EnsembleEvaluationReport": "autorubric.core.report",
    "EscalationConfig": "autorubric.graders.assembly",
    "EvalConfig": "autorubric.evaluation",
    "EvalResult": "autorubric.evaluation",
    "EvalRunner": "autorubric.evaluation",
    "EvalTimingStats": "autorubric.evaluation",
    "EvaluationReport": "autorubric.core.report",
    "ExperimentManifest": "autorubric.evaluation",
    "FewShotConfig": "autorubric.graders.few_shot",
    "FewShotExample": "autorubric.graders.few_shot",
    "Grader": "autorubric.graders.grader",
    "InputError": "autorubric.errors",
    "ItemResult": "autorubric.evaluation",
    "JudgeComparison": "autorubric.metrics.compare",
    "JudgeMetrics": "autorubric.metrics",
    "JudgeSpec": "autorubric.graders.judge_spec",
    "JudgeVote": "autorubric.core.votes",
    "KSTestResult": "autorubric.metrics",
    "LLMConfig": "autorubric.llm.config",
    "LengthPenalty": "autorubric.core.length_penalty",
    "MetricsResult": "autorubric.metrics",
    "MultiChoiceJudgeVote": "autorubric.core.votes",
    "MultiChoiceJudgment": "autorubric.core.judgment_schemas",
    "MultiChoiceVerdict": "autorubric.core.votes",
    "Rubric": "autorubric.core.rubric",
    "RubricDataset": "autorubric.dataset",
    "SynthesisResult": "autorubric.synthesis.run_summary",
    "ThinkingConfig": "autorubric.llm.config",
    "ThinkingLevel": "autorubric.llm.config",
    "ThinkingOutputDict": "autorubric.core.submission",
    "ToGradeInput": "autorubric.core.submission",
    "TokenUsage": "autorubric.core.usage",
    "compare_judges": "autorubric.metrics.compare",
    "compute_metrics": "autorubric.metrics",
    "earth_movers_distance": "autorubric.metrics",
    "evaluate": "autorubric.evaluation",
    "evaluate_sync": "autorubric.evaluation",
    "extract_verdicts_from_report": "autorubric.metrics",
    "fill_ground_truth": "autorubric.evaluation",
    "fill_ground_truth_sync": "autorubric.evaluation",
    "filter_cannot_assess": "autorubric.metrics",
    "grade": "autorubric.jobs.grade",
    "grade_async": "autorubric.jobs.grade",
    "ks_test": "autorubric.metrics",
    "score_distribution": "autorubric.metrics",
    "synthesize": "autorubric.jobs.synthesize",
    "synthesize_async": "autorubric.jobs.synthesize",
    "systematic_bias": "autorubric.metrics",
    "verdict_to_binary": "autorubric.metrics",
    "verdict_to_string": "autorubric.metrics",
    "wasserstein_distance": "autorubric.metrics",
}


def __getattr__(name: str) -> Any:
    """The public name, loaded from its home on first use (PEP 562)."""
    if name == "__version__":
        found: Any = import_module("importlib.metadata").version("autorubric-hub")
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'autorubric' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
