"""Points off for submissions that are too long."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autorubric.core.submission import ToGradeInput, normalize_to_grade_input, word_count
from autorubric.errors import InputError

CountFn: TypeAlias = Callable[[str], int]
PenaltyType: TypeAlias = Literal["ALL", "OUTPUT_ONLY", "THINKING_ONLY"]


class LengthPenalty(BaseModel):
    """How many points a long submission loses.

    Attributes:
        free_budget: up to this length nothing is lost.
        max_cap: from this length on `penalty_at_cap` is lost; at least `free_budget`.
        penalty_at_cap: points lost at most, in the unit of the score.
        exponent: how the loss grows in between; above 1 it is mild at first.
        count_fn: the length of a text; words unless given.
        penalty_type: which parts of the submission count.

    Example:
        >>> LengthPenalty(free_budget=8000, max_cap=6000)
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for LengthPenalty
          Value error, max_cap=6000 is below free_budget=8000 ...
    """

    model_config = ConfigDict(frozen=True)

    free_budget: int = Field(default=6000, ge=0)
    max_cap: int = Field(default=8000, ge=0)
    penalty_at_cap: float = Field(default=0.5, ge=0.0, allow_inf_nan=False)
    exponent: float = Field(default=1.6, gt=0.0, allow_inf_nan=False)
    count_fn: CountFn | None = None
    penalty_type: PenaltyType = "ALL"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_cap < self.free_budget:
            raise ValueError(f"max_cap={self.max_cap} is below free_budget={self.free_budget}")
        return self


def compute_length_penalty(text: ToGradeInput, config: LengthPenalty) -> float:
    """The points a submission loses for its length, from 0 to `penalty_at_cap`.

    Between budget and cap: penalty_at_cap · ((length − free_budget) / (max_cap − free_budget)) ** exponent. The
    parts that count are measured one by one, so nothing is added where they meet.

    Raises:
        InputError: the submission is of the wrong shape, or `count_fn` returns something that is no length.

    Example:
        >>> penalty = LengthPenalty(free_budget=2, max_cap=6, exponent=1.0, count_fn=len)
        >>> [compute_length_penalty("x" * length, penalty) for length in (2, 4, 9)]
        [0.0, 0.25, 0.5]
    """
    parts = normalize_to_grade_input(text)
    counted = {
        "ALL": (parts["thinking"], parts["output"]),
        "OUTPUT_ONLY": (parts["output"],),
        "THINKING_ONLY": (parts["thinking"],),
    }[config.penalty_type]
    length = sum(_length(part, config.count_fn) for part in counted if part)
    if length <= config.free_budget:
        return 0.0
    if length >= config.max_cap:
        return config.penalty_at_cap
    excess = (length - config.free_budget) / (config.max_cap - config.free_budget)
    return float(config.penalty_at_cap * excess**config.exponent)


def _length(text: str, count: CountFn | None) -> float:
    length = (count or word_count)(text)
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 <= length < math.inf:
        raise InputError(f"count_fn returned {length!r} for a text; expected a number from 0")
    return length
