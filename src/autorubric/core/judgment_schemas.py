"""The published shapes of a judge's reply, for own response formats and for reading recorded replies.

Fields stand in the order in which a model should write them: what it thinks, why, and then the verdict.
"""

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

    reasoning: str | None = None
    explanation: str
    criterion_status: CriterionVerdict


class MultiChoiceJudgment(BaseModel):
    """A judge's reply on a multi-choice criterion; `selected_option` counts from 1, in the order shown.

    Example:
        >>> MultiChoiceJudgment(explanation="Only one is named.", selected_option=2).selected_option
        2
    """

    model_config = ConfigDict(frozen=True)

    reasoning: str | None = None
    explanation: str
    selected_option: int


class RubricCriterionJudgment(BaseModel):
    """One entry of a reply on a whole rubric; `criterion_id` is c0, c1 and so on.

    Example:
        >>> RubricCriterionJudgment(criterion_id="c0", criterion_status="MET", explanation="").criterion_id
        'c0'
    """

    model_config = ConfigDict(frozen=True)

    criterion_id: str
    explanation: str
    criterion_status: CriterionVerdict | None = None
    selected_option: int | None = None


class RubricJudgment(BaseModel):
    """A judge's reply on a whole rubric.

    Example:
        >>> RubricJudgment(judgments=[]).reasoning is None
        True
    """

    model_config = ConfigDict(frozen=True)

    reasoning: str | None = None
    judgments: list[RubricCriterionJudgment]
