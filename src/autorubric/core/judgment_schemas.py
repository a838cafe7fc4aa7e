"""The published shapes of a judge's reply, for own response formats and for reading recorded replies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from autorubric.core.verdict import CriterionVerdict


class CriterionJudgment(BaseModel):
    """A judge's reply on a binary criterion: the explanation stands before the verdict in what is asked for.

    Example:
        >>> CriterionJudgment(explanation="Both are named.", criterion_status="MET").criterion_status.value
        'MET'
    """

    model_config = ConfigDict(frozen=True)

    criterion_status: CriterionVerdict
    explanation: str
    reasoning: str | None = None


class MultiChoiceJudgment(BaseModel):
    """A judge's reply on a multi-choice criterion; `selected_option` counts from 1, in the order shown.

    Example:
        >>> MultiChoiceJudgment(explanation="Only one is named.", selected_option=2).selected_option
        2
    """

    model_config = ConfigDict(frozen=True)

    selected_option: int
    explanation: str
    reasoning: str | None = None


class RubricCriterionJudgment(BaseModel):
    """One entry of a reply on a whole rubric; `criterion_id` is c0, c1 and so on.

    Example:
        >>> RubricCriterionJudgment(criterion_id="c0", criterion_status="MET", explanation="").criterion_id
        'c0'
    """

    model_config = ConfigDict(frozen=True)

    criterion_id: str
    criterion_status: CriterionVerdict | None = None
    selected_option: int | None = None
    explanation: str


class RubricJudgment(BaseModel):
    """A judge's reply on a whole rubric.

    Example:
        >>> RubricJudgment(judgments=[]).reasoning is None
        True
    """

    model_config = ConfigDict(frozen=True)

    judgments: list[RubricCriterionJudgment]
    reasoning: str | None = None
