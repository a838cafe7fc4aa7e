"""Judgments of a criterion: verdicts, judgments, the votes in a report, and the schemas of replies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from autorubric.core.display import BriefModel
from autorubric.core.known_keys import PlainModel
from autorubric.core.usage import TokenUsage
from autorubric.core.values import value_class
from autorubric.core.wording import fold_text
from autorubric.errors import ConfigError


class CriterionVerdict(str, Enum):  # noqa: UP042 (published base classes)
    """The verdict on a binary criterion.

    Example:
        >>> CriterionVerdict("MET") is CriterionVerdict.MET
        True
    """

    MET = "MET"
    UNMET = "UNMET"
    CANNOT_ASSESS = "CANNOT_ASSESS"


_WORDS = {
    CriterionVerdict.MET: "met, true, satisfied, fulfilled, 满足, 已满足, 完全满足, 符合, 滿足, 已滿足, 満たす, "
    "満たしている, 満たしています, 満たされている, 충족, 충족함, 충족됨, 충족합니다, 충족한다, erfüllt, cumple, "
    "se cumple, cumplido, rempli, satisfait, atendido, atende, cumprido, soddisfatto, выполнено, выполнен, "
    "соответствует, đáp ứng, đã đáp ứng, karşılandı, karşılanıyor, karşılıyor, مستوفى",
    CriterionVerdict.UNMET: "unmet, not met, false, not satisfied, not fulfilled, 不满足, 未满足, 没有满足, "
    "未能满足, 不符合, 不滿足, 未滿足, 満たさない, 満たしていない, 満たしていません, 満たされていない, 미충족, "
    "불충족, 충족하지 않음, 충족되지 않음, 충족하지 못함, 충족하지 않습니다, nicht erfüllt, no cumple, no se cumple, "
    "no cumplido, non rempli, non satisfait, não atendido, não atende, não cumprido, non soddisfatto, не выполнено, "
    "не выполнен, не соответствует, không đáp ứng, chưa đáp ứng, karşılanmadı, karşılanmıyor, karşılamıyor, "
    "غير مستوفى",
    CriterionVerdict.CANNOT_ASSESS: "cannot assess, 无法评估, 无法判断, 无法确定, 無法評估, 無法判斷, 評価不能, "
    "判断不能, 판단 불가, 평가 불가, nicht beurteilbar, no se puede evaluar, impossible à évaluer",
}
VERDICT_WORDS = {fold_text(word): verdict for verdict, words in _WORDS.items() for word in words.split(", ")}
"""Verdicts by the words for them, as `fold_text` folds them, with spaces between words."""
_TRUTHS = {
    CriterionVerdict.MET: "yes y 1 accept 是 はい 예 네 oui sí si ja sim evet да نعم",
    CriterionVerdict.UNMET: "no n 0 reject 否 いいえ 아니오 아니요 non nein não hayır нет không لا",
}
TRUTH_WORDS = {fold_text(word): verdict for verdict, words in _TRUTHS.items() for word in words.split()}
"""Words that answer whether a criterion is met, but do not say what its status is."""


class CannotAssessStrategy(str, Enum):  # noqa: UP042 (published base classes)
    """How an abstention (CANNOT_ASSESS, or an option that is not applicable) affects the score.

    SKIP leaves the criterion out; ZERO gives it nothing; PARTIAL gives positive criteria a part of their
    weight; FAIL takes the worst case, which for a negative weight is the whole penalty.

    Example:
        >>> CannotAssessStrategy("zero") is CannotAssessStrategy.ZERO
        True
    """

    SKIP = "skip"
    ZERO = "zero"
    PARTIAL = "partial"
    FAIL = "fail"


class CannotAssessConfig(PlainModel):
    """How to score abstentions.

    Attributes:
        strategy: what an abstention does.
        partial_credit: the part of the weight that PARTIAL gives, in [0, 1].

    Example:
        >>> CannotAssessConfig(strategy="partial").partial_credit
        0.5
    """

    model_config = ConfigDict(frozen=True)

    strategy: CannotAssessStrategy = CannotAssessStrategy.SKIP
    partial_credit: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)

    @classmethod
    def of(cls, given: object) -> CannotAssessConfig:
        """Return the config that was given as one, or by the name of its strategy.

        Raises:
            ConfigError: it is neither.

        Example:
            >>> CannotAssessConfig.of("zero").strategy.value
            'zero'
        """
        if isinstance(given, CannotAssessConfig):
            return given
        try:
            return cls(strategy=CannotAssessStrategy(given))
        except ValueError:
            names = ", ".join(strategy.value for strategy in CannotAssessStrategy)
            raise ConfigError(f"cannot_assess={given!r} is not one of {names}, or a CannotAssessConfig") from None


FailureCategory: TypeAlias = Literal["infrastructure", "parse", "check", "unknown"]


@dataclass(frozen=True, slots=True)
class JudgmentFailure:
    """The reason for a missing verdict. It is never a verdict, and never a zero.

    Attributes:
        category: `infrastructure` (the call failed), `parse` (the reply held no verdict), `check` (the check
            cannot be applied to this submission), `unknown`.
        message: one sentence for the reader.
        evidence: the model's reply, if there is one.
    """

    category: FailureCategory
    message: str
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.category}: {self.message}"


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that a judge cites: its words, and their character offsets in the submission.

    `start` and `end` are None if the submission does not contain the passage.
    """

    text: str
    start: int | None = None
    end: int | None = None


@value_class(frozen=True, slots=True)
class Judgment:
    """One judge on one criterion. Exactly one of `verdict`, `option` and `failure` is set.

    Attributes:
        judge_id: the judge's id.
        verdict: MET, UNMET or CANNOT_ASSESS, on a binary criterion.
        option: the index of the chosen option in the criterion as it was judged, on a multi-choice one.
        value: the combined value of several judges' options, such as their mean; `option` is the nearest one.
        failure: why there is neither.
        reason: the judge's explanation, given before the verdict.
        reasoning: the model's thinking, where the endpoint sends it.
        weight: the weight of this judge in a panel.
        confidence: in [0, 1], where the judge states one.
        probabilities: of the verdicts or option labels, where the judge states them.
        quotes: the passages cited, in evidence mode.
        shuffle_order: for shown options, the original index at each shown place.
        superseded: whether a stronger judge was asked afterwards; then only its judgment counts.
        flags: remarks on this judgment, such as `unsupported`.
        usage: tokens of the reply; if it judged several criteria, only the first judgment has them.
        cost: dollars of that reply, or None if it has no known price.
        repeats: its judgments, if the judge was asked repeatedly; usage and cost are their sums.
        votes: the judgments of the judges inside, in order, if this one combines several.
    """

    judge_id: str
    verdict: CriterionVerdict | None = None
    option: int | None = None
    value: float | None = None
    failure: JudgmentFailure | None = None
    reason: str | None = None
    reasoning: str | None = None
    weight: float = 1.0
    confidence: float | None = None
    probabilities: dict[str, float] | None = None
    quotes: tuple[Quote, ...] = ()
    shuffle_order: tuple[int, ...] | None = None
    superseded: bool = False
    flags: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    cost: float | None = None
    repeats: tuple[Judgment, ...] = ()
    votes: tuple[Judgment, ...] = ()

    def __post_init__(self) -> None:
        given = (self.verdict is not None) + (self.option is not None) + (self.failure is not None)
        if given != 1:
            raise ValueError("a judgment holds exactly one of verdict, option and failure")

    def leaves(self) -> tuple[Judgment, ...]:
        """Return the judgments of all single judges inside, in order; the judgment itself if there are none."""
        return tuple(leaf for vote in self.votes for leaf in vote.leaves()) if self.votes else (self,)


class MultiChoiceVerdict(BriefModel):
    """The chosen option of a multi-choice criterion.

    Attributes:
        selected_index: its index in the criterion's options; None for an abstention where no option means
            "not applicable".
        selected_label: its label; None if the index is.
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
        aggregated_value: the combined value of the judges' options, such as their mean. It is scored; the selected
            option is the nearest one.

    Example:
        >>> AggregatedMultiChoiceVerdict(selected_index=0, value=0.0, aggregated_value=1 / 3).value
        0.0
    """

    aggregated_value: float


class JudgeVote(BriefModel):
    """One judge's vote on a binary criterion.

    Attributes:
        judge_id: the judge's id.
        verdict: its verdict; None if it failed, and then `error` says why.
        reason: its explanation.
        weight: its weight in a panel.
        error: why the verdict is missing: its category, a colon, one sentence.
        reasoning: the model's thinking.
        probabilities: of the verdicts, where the judge states them.
        confidence: in [0, 1], where the judge states one.
        superseded: whether a stronger judge was asked afterwards; then only its judgment counts.
        quotes: the passages it cites.
        repeats: its votes, if it was asked repeatedly; `verdict` is their majority.

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
    """One judge's vote on a multi-choice criterion.

    Attributes:
        judge_id: the judge's id.
        selected_index: the chosen option; None if the judge failed or abstained without an option for it.
        selected_label: its label.
        value: its value; None if the judge failed.
        reason: its explanation.
        weight: its weight in a panel.
        na: whether the option means "not applicable".
        shuffle_order: the original index of the option shown at each position.
        error: why there is no option: its category, a colon, one sentence.
        reasoning: the model's thinking.
        probabilities: of the option labels, where the judge states them.
        confidence: in [0, 1], where the judge states one.
        superseded: whether a stronger judge was asked afterwards; then only its judgment counts.
        repeats: its votes, if it was asked repeatedly; this vote combines them.

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


class CriterionJudgment(BaseModel):
    """A judge's reply on a binary criterion; the schema requests the explanation before the verdict.

    Example:
        >>> CriterionJudgment(explanation="Both are named.", criterion_status="MET").criterion_status.value
        'MET'
    """

    model_config = ConfigDict(frozen=True)

    reasoning: str | None = None
    explanation: str
    criterion_status: CriterionVerdict


class MultiChoiceJudgment(BaseModel):
    """A judge's reply on a multi-choice criterion; `selected_option` is the number shown with the option.

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
