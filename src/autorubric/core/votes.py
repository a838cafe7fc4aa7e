"""What each judge of a report said on one criterion, and the option that counts."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from autorubric.core.display import BriefModel
from autorubric.core.judgment import Quote
from autorubric.core.verdict import CriterionVerdict


class MultiChoiceVerdict(BriefModel):
    """The chosen option of a multi-choice criterion.

    Attributes:
        selected_index: its index in the criterion's options; None for an abstention where no option means
            "not applicable".
        selected_label: its label; None likewise.
        value: its value.
        na: whether it means that the criterion does not apply or cannot be assessed, so that it has no score.

    Example:
        >>> MultiChoiceVerdict(selected_index=1, selected_label="Partly", value=0.5).na
        False
    """

    model_config = ConfigDict(frozen=True)

    selected_index: int | None = None
    selected_label: str | None = None
    value: float
    na: bool = False


class AggregatedMultiChoiceVerdict(MultiChoiceVerdict):
    """The chosen option of several judges, with the value that is scored.

    Attributes:
        aggregated_value: what the judges' options come to (a mean, say). This is scored; the selected option
            is the nearest one.

    Example:
        >>> AggregatedMultiChoiceVerdict(selected_index=0, value=0.0, aggregated_value=1 / 3).value
        0.0
    """

    aggregated_value: float


class JudgeVote(BriefModel):
    """One judge's word on a binary criterion.

    Attributes:
        judge_id: who judged.
        verdict: its verdict; None where it failed, and then `error` says why.
        reason: its explanation.
        weight: how much it counts in a panel.
        error: why there is no verdict: its category, a colon, one sentence.
        reasoning: the model's thinking.
        probabilities: of the verdicts, where the judge states them.
        confidence: in [0, 1], where the judge states one.
        superseded: a stronger judge was asked after this one, and its word counts.
        quotes: the passages it cites.
        repeats: what it said each time, where it was asked repeatedly; `verdict` is then their majority.

    Example:
        >>> JudgeVote(judge_id="a", verdict="MET", reason="Both are named.").is_error
        False
    """

    model_config = ConfigDict(frozen=True)

    judge_id: str
    verdict: CriterionVerdict | None
    reason: str | None
    weight: float = 1.0
    error: str | None = None
    reasoning: str | None = None
    probabilities: dict[str, float] | None = None
    confidence: float | None = None
    superseded: bool = False
    quotes: list[Quote] = Field(default_factory=list)
    repeats: list[JudgeVote] = Field(default_factory=list)

    @property
    def is_error(self) -> bool:
        """Whether the judge failed."""
        return self.error is not None


class MultiChoiceJudgeVote(BriefModel):
    """One judge's word on a multi-choice criterion.

    Attributes:
        judge_id: who judged.
        selected_index: the chosen option; None where the judge failed or abstained without an option for it.
        selected_label: its label.
        value: its value; None where the judge failed.
        reason: its explanation.
        weight: how much it counts in a panel.
        na: whether the option means "not applicable".
        shuffle_order: the original index at each place where an option was shown.
        error: why there is no option: its category, a colon, one sentence.
        reasoning: the model's thinking.
        probabilities: of the option labels, where the judge states them.
        confidence: in [0, 1], where the judge states one.
        superseded: a stronger judge was asked after this one, and its word counts.
        repeats: what it said each time, where it was asked repeatedly; the vote is then what they come to.

    Example:
        >>> vote = MultiChoiceJudgeVote(
        ...     judge_id="a", selected_index=1, selected_label="Yes", value=1.0, reason=None, shuffle_order=[1, 0]
        ... )
        >>> vote.shuffle_order[0]
        1
    """

    model_config = ConfigDict(frozen=True)

    judge_id: str
    selected_index: int | None
    selected_label: str | None
    value: float | None
    reason: str | None
    weight: float = 1.0
    na: bool = False
    shuffle_order: list[int] | None = None
    error: str | None = None
    reasoning: str | None = None
    probabilities: dict[str, float] | None = None
    confidence: float | None = None
    superseded: bool = False
    repeats: list[MultiChoiceJudgeVote] = Field(default_factory=list)

    @property
    def is_error(self) -> bool:
        """Whether the judge failed."""
        return self.error is not None
