"""The published home of functions on submissions and on usage: a module of AutoRubric 1.6."""

from autorubric.core.published import compute_length_penalty, normalize_to_grade_input, parse_thinking_output
from autorubric.core.scoring import LengthPenalty
from autorubric.core.submission import ThinkingOutputDict, ToGradeInput, word_count
from autorubric.core.usage import (
    TokenUsage,
    aggregate_completion_cost,
    aggregate_evaluation_usage,
    aggregate_token_usage,
)
from autorubric.runs.runner import fill_ground_truth

__all__ = [
    "LengthPenalty",
    "ThinkingOutputDict",
    "ToGradeInput",
    "TokenUsage",
    "aggregate_completion_cost",
    "aggregate_evaluation_usage",
    "aggregate_token_usage",
    "compute_length_penalty",
    "fill_ground_truth",
    "normalize_to_grade_input",
    "parse_thinking_output",
    "word_count",
]
