"""The published home of the nouns: criteria, verdicts, votes, reports and their settings."""

from autorubric.core.criterion import (
    CANONICAL_NA_OPTION,
    AggregationStrategy,
    Criterion,
    CriterionOption,
    NominalAggregation,
    OrdinalAggregation,
    ScaleType,
)
from autorubric.core.judgment_schemas import (
    CriterionJudgment,
    MultiChoiceJudgment,
    RubricCriterionJudgment,
    RubricJudgment,
)
from autorubric.core.length_penalty import CountFn, LengthPenalty, PenaltyType
from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
)
from autorubric.core.submission import ThinkingOutputDict, ToGradeInput
from autorubric.core.usage import TokenUsage
from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy, CriterionVerdict
from autorubric.core.votes import (
    AggregatedMultiChoiceVerdict,
    JudgeVote,
    MultiChoiceJudgeVote,
    MultiChoiceVerdict,
)
from autorubric.graders.assembly import LLMCalls
from autorubric.graders.few_shot import FewShotConfig, FewShotExample

__all__ = [
    "CANONICAL_NA_OPTION",
    "AggregatedMultiChoiceVerdict",
    "AggregationStrategy",
    "CannotAssessConfig",
    "CannotAssessStrategy",
    "CountFn",
    "Criterion",
    "CriterionJudgment",
    "CriterionOption",
    "CriterionReport",
    "CriterionVerdict",
    "EnsembleCriterionReport",
    "EnsembleEvaluationReport",
    "EvaluationReport",
    "FewShotConfig",
    "FewShotExample",
    "JudgeVote",
    "LLMCalls",
    "LengthPenalty",
    "MultiChoiceJudgeVote",
    "MultiChoiceJudgment",
    "MultiChoiceVerdict",
    "NominalAggregation",
    "OrdinalAggregation",
    "PenaltyType",
    "RubricCriterionJudgment",
    "RubricJudgment",
    "ScaleType",
    "ThinkingOutputDict",
    "ToGradeInput",
    "TokenUsage",
]
