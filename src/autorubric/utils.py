"""The module of AutoRubric 1.6 for submissions and usage.

Graders use `core.submission` and `core.scoring` instead of these functions, to keep text outside the marked parts.
"""

import re

from autorubric.core.scoring import LengthPenalty, compute_lost_points, measure_length
from autorubric.core.submission import ThinkingOutputDict, ToGradeInput, word_count
from autorubric.core.usage import (
    TokenUsage,
    aggregate_completion_cost,
    aggregate_evaluation_usage,
    aggregate_token_usage,
)
from autorubric.errors import InputError, warn
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


_THINKING = re.compile("<thinking>(.*?)</thinking>", re.DOTALL | re.IGNORECASE)
_OUTPUT = re.compile("<output>(.*?)</output>", re.DOTALL | re.IGNORECASE)


def parse_thinking_output(text: str) -> ThinkingOutputDict:
    """Return the first thinking and the first output section of a text; without the latter, the rest of the text.

    Example:
        >>> parse_thinking_output("Well: <thinking>Hm.</thinking> <output>Yes.</output> Bye.")
        {'thinking': 'Hm.', 'output': 'Yes.'}
    """
    thinking, output = _THINKING.search(text), _OUTPUT.search(text)
    rest = _THINKING.sub("", text).strip() if thinking else text
    return {"thinking": thinking[1].strip() if thinking else "", "output": output[1].strip() if output else rest}


def normalize_to_grade_input(to_grade: ToGradeInput) -> ThinkingOutputDict:
    """Return both parts of a submission; other keys of a dict are ignored with a warning.

    Raises:
        ValueError: it is neither a string nor a dict of strings.

    Example:
        >>> normalize_to_grade_input({"output": "Yes."})
        {'thinking': '', 'output': 'Yes.'}
    """
    if isinstance(to_grade, str):
        return parse_thinking_output(to_grade)
    if not isinstance(to_grade, dict):
        raise InputError(f"to_grade must be a string or dict, got {type(to_grade).__name__}")
    parts: ThinkingOutputDict = {"thinking": to_grade.get("thinking", ""), "output": to_grade.get("output", "")}
    for key, value in parts.items():
        if not isinstance(value, str):
            raise InputError(f"{key!r} must be a string, got {type(value).__name__}")
    extra = to_grade.keys() - parts.keys()
    if extra:
        warn(f"Unexpected keys in to_grade dict: {extra}. Only 'thinking' and 'output' are used.")
    return parts


def compute_length_penalty(text: ToGradeInput, config: LengthPenalty) -> float:
    """Return the points that a text loses for its length; a string counts as a whole, tags included.

    Example:
        >>> penalty = LengthPenalty(free_budget=2, max_cap=6, exponent=1.0)
        >>> [compute_length_penalty("w " * words, penalty) for words in (2, 4, 9)]
        [0.0, 0.25, 0.5]
    """
    parts: ThinkingOutputDict = {"thinking": "", "output": text} if isinstance(text, str) else text
    thinking, output = parts.get("thinking", ""), parts.get("output", "")
    counted = {"ALL": f"{thinking} {output}", "OUTPUT_ONLY": output, "THINKING_ONLY": thinking}[config.penalty_type]
    return compute_lost_points(measure_length(counted, config.count_fn), config)
