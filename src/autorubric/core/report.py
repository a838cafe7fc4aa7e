"""Reports: one per submission, with one per criterion in it.

A criterion of a report is judged, abstained or failed. Judged has a value; abstained (CANNOT_ASSESS, or an
option that is not applicable) and failed (`error` says why) have none: `score_value` is None, never a zero.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from autorubric.core.criterion import Criterion
from autorubric.core.display import BriefModel, Displayed, Verbatim, iter_set_fields, shorten_args
from autorubric.core.judgment import (
    AggregatedMultiChoiceVerdict,
    CannotAssessConfig,
    CriterionVerdict,
    JudgeVote,
    MultiChoiceJudgeVote,
    MultiChoiceVerdict,
    Quote,
)
from autorubric.core.scoring import Cell, score
from autorubric.core.usage import TokenUsage
from autorubric.errors import clip


class _Judged:
    """The verdict on a criterion, in both kinds of report."""

    if TYPE_CHECKING:
        error: str | None

        @property
        def criterion(self) -> Criterion: ...

        def final(self) -> tuple[CriterionVerdict | None, MultiChoiceVerdict | None]: ...

    @property
    def score_value(self) -> float | None:
        """The value that is scored, in [0, 1]; None for an abstention or a failure."""
        verdict, choice = self.final()
        if self.error is not None or (choice is not None and choice.na):
            return None
        if choice is not None:
            return choice.aggregated_value if isinstance(choice, AggregatedMultiChoiceVerdict) else choice.value
        return None if verdict in (None, CriterionVerdict.CANNOT_ASSESS) else float(verdict is CriterionVerdict.MET)

    @property
    def cell(self) -> Cell:
        """Its cell for computing the score."""
        return Cell(self.criterion.weight, self.score_value, find_worst(self.criterion))

    @property
    def is_na(self) -> bool:
        """Whether the verdict is an abstention."""
        verdict, choice = self.final()
        return not self.is_error and (verdict is CriterionVerdict.CANNOT_ASSESS if choice is None else choice.na)

    @property
    def is_error(self) -> bool:
        """Whether the verdict is missing because a judgment failed."""
        return self.error is not None

    @property
    def word(self) -> str | None:
        """The verdict or the label of the option; None for a failure."""
        verdict, choice = self.final()
        if choice is not None and not self.is_error:
            return choice.selected_label or "CANNOT_ASSESS"
        return None if verdict is None or self.is_error else verdict.value


class CriterionReport(_Judged, Criterion):
    """A criterion with the verdict of one judge.

    Attributes:
        verdict: on a binary criterion.
        multi_choice_verdict: on a multi-choice criterion.
        reason: the judge's explanation.
        shuffle_order: the original index of the option shown at each position.
        error: why the verdict is missing: its category, a colon, one sentence.
        reasoning: the model's thinking.
        probabilities: of the verdicts or option labels, where the judge states them.
        confidence: in [0, 1], where the judge states one.
        quotes: the passages cited.
        flags: what a reader should know about this judgment.

    Example:
        >>> CriterionReport(requirement="Is brief", verdict="MET", reason="Two lines.").score_value
        1.0
    """

    verdict: CriterionVerdict | None = None
    # The aggregated kind first: it has one field more, which the plain kind would drop.
    multi_choice_verdict: AggregatedMultiChoiceVerdict | MultiChoiceVerdict | None = None
    reason: str | None
    shuffle_order: list[int] | None = None
    error: str | None = None
    reasoning: str | None = None
    probabilities: dict[str, float] | None = None
    confidence: float | None = None
    quotes: list[Quote] = Field(default_factory=list)
    flags: list[str] = Field(default_factory=list)

    __hash__ = Criterion.__hash__

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return shorten_args(iter_set_fields(self))

    @property
    def criterion(self) -> Criterion:
        """The report itself, which is a criterion; in reports of several judges, this is a field."""
        return self

    @property
    def final_verdict(self) -> CriterionVerdict | None:
        """The verdict, under the name used in reports of several judges."""
        return self.verdict

    @property
    def final_reason(self) -> str | None:
        """The explanation, under the name used in reports of several judges."""
        return self.reason

    def final(self) -> tuple[CriterionVerdict | None, MultiChoiceVerdict | None]:
        """Return the verdict and the option that count, of which at most one is set."""
        return self.verdict, self.multi_choice_verdict

    def as_row(self, number: int) -> dict[str, Any]:
        """Return the criterion as a row of a table; `number` names it where it has no name."""
        found = {"verdict": self.word, "value": self.score_value, "reason": self.reason, "error": self.error}
        return build_judged_row(self, number, **found)


class _Report(Displayed, BriefModel):
    """What both kinds of report share: their display."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from shorten_args((name, value) for name, value in iter_set_fields(self) if name != "report")
        found = getattr(self, "report", None)
        if found is not None:
            yield "report", Verbatim(format_criteria([entry.word for entry in found]))

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        return (entry.as_row(number) for number, entry in enumerate(getattr(self, "report", None) or (), start=1))


class EvaluationReport(_Report):
    """The score of a submission and its criteria.

    Attributes:
        score: in [0, 1], or the bare sum if `normalize` was off; None if a judgment failed (see
            `error`) or nothing is left to score.
        raw_score: the sum of value · weight, before any length penalty.
        llm_raw_score: the same; published name.
        report: one entry per criterion, in the rubric's order.
        cannot_assess_count: the number of criteria on which the judge abstained.
        error: why the score is missing.
        token_usage: the tokens of the replies used.
        completion_cost: dollars of those replies; None if no price is known.
        coverage: the share of criteria whose judgment did not fail, in [0, 1].
        failed_count: the number of failed judgments.
        flags: signs that the submission is suspicious, such as text that addresses the judge.

    Example:
        >>> EvaluationReport(score=None, error="1 of 2 criteria failed").failed_count
        0
    """

    score: float | None
    raw_score: float | None = None
    llm_raw_score: float | None = None
    report: list[CriterionReport] | None = None
    cannot_assess_count: int = 0
    error: str | None = None
    token_usage: TokenUsage | None = None
    completion_cost: float | None = None
    coverage: float | None = None
    failed_count: int = 0
    flags: list[str] = Field(default_factory=list)


class EnsembleCriterionReport(_Judged, BriefModel):
    """The final verdict on a criterion, and the votes of all judges, including superseded ones.

    Attributes:
        criterion: the criterion.
        final_verdict: on a binary criterion.
        final_reason: the explanations, each after its judge's id if there are several.
        votes: on a binary criterion, one per judge.
        agreement: the share of votes equal to the final verdict, without failed and superseded votes.
            If left at 0.0, it is computed.
        final_multi_choice_verdict: on a multi-choice criterion.
        multi_choice_votes: on a multi-choice criterion, one per judge.
        error: why there is no final verdict.
        escalated: whether a stronger judge was asked.
        confidence: of the final verdict: a judge's own, or the share of a panel's judges with it; None if unknown.
        quotes: the passages cited by the votes that count.
        flags: what a reader should know about this judgment.

    Example:
        >>> votes = [JudgeVote(judge_id=n, verdict=v, reason=None) for n, v in zip("abc", ("MET", "MET", "UNMET"))]
        >>> report = EnsembleCriterionReport(
        ...     criterion=Criterion(requirement="Is brief"), final_verdict="MET", final_reason=None, votes=votes
        ... )
        >>> round(report.agreement, 2), report.score_value
        (0.67, 1.0)
    """

    model_config = ConfigDict(frozen=True)

    criterion: Criterion
    final_verdict: CriterionVerdict | None
    final_reason: str | None
    votes: list[JudgeVote] = Field(default_factory=list)
    agreement: float = 0.0
    final_multi_choice_verdict: AggregatedMultiChoiceVerdict | None = None
    multi_choice_votes: list[MultiChoiceJudgeVote] = Field(default_factory=list)
    error: str | None = None
    escalated: bool = False
    confidence: float | None = None
    quotes: list[Quote] = Field(default_factory=list)
    flags: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fill_agreement(self) -> Self:
        if self.agreement != 0.0 or self.error is not None:
            return self
        if self.final_multi_choice_verdict is not None:
            chosen = self.final_multi_choice_verdict.selected_index
            same = [v.selected_index == chosen for v in self.multi_choice_votes if not (v.superseded or v.is_error)]
        else:
            same = [v.verdict is self.final_verdict for v in self.votes if not (v.superseded or v.is_error)]
        # The model is frozen, so the field is set directly.
        self.__dict__["agreement"] = sum(same) / len(same) if same else 0.0
        return self

    def final(self) -> tuple[CriterionVerdict | None, MultiChoiceVerdict | None]:
        """Return the verdict and the option that count, of which at most one is set."""
        return self.final_verdict, self.final_multi_choice_verdict

    def as_row(self, number: int) -> dict[str, Any]:
        """Return the criterion as a row of a table; `number` names it where it has no name."""
        return build_judged_row(
            self.criterion,
            number,
            verdict=self.word,
            value=self.score_value,
            agreement=None if self.is_error else self.agreement,
            votes=format_votes([*self.votes, *self.multi_choice_votes]),
            reason=self.final_reason,
            error=self.error,
        )


class EnsembleEvaluationReport(_Report):
    """The score of a submission by one or several judges, as a `CriterionGrader` returns it.

    It has the attributes of `EvaluationReport`, and the following.

    Attributes:
        judge_scores: the score by each judge's own votes, over the criteria that it was asked about.
        mean_agreement: the mean of the criteria's agreement; None if every judgment failed.

    Example:
        >>> EnsembleEvaluationReport(score=0.75, judge_scores={"a": 0.5, "b": 1.0}).mean_agreement is None
        True
    """

    score: float | None
    raw_score: float | None = None
    llm_raw_score: float | None = None
    report: list[EnsembleCriterionReport] | None = None
    judge_scores: dict[str, float | None] = Field(default_factory=dict)
    mean_agreement: float | None = None
    cannot_assess_count: int = 0
    token_usage: TokenUsage | None = None
    completion_cost: float | None = None
    error: str | None = None
    coverage: float | None = None
    failed_count: int = 0
    flags: list[str] = Field(default_factory=list)


_MOST_NAMED = 6


def format_criteria(words: Sequence[str | None]) -> str:
    """Return the number of criteria, and the number of each verdict; None is a failed judgment.

    Example:
        >>> format_criteria(["MET", None, "MET"])
        '<3 criteria: 2 MET, 1 failed>'
    """
    counts = Counter(clip(word or "failed", 30) for word in words).most_common()
    shown = [f"{count} {word}" for word, count in counts[:_MOST_NAMED]]
    if len(counts) > _MOST_NAMED:
        shown.append(f"{sum(count for _, count in counts[_MOST_NAMED:])} others")
    noun = "criterion" if len(words) == 1 else "criteria"
    return f"<{len(words)} {noun}: {', '.join(shown)}>"


def format_votes(votes: Iterable[JudgeVote | MultiChoiceJudgeVote]) -> str | None:
    """Return each judge with its verdict; None if no judge was asked.

    Example:
        >>> format_votes([JudgeVote(judge_id="a", verdict="MET", reason=None)])
        'a: MET'
    """
    said = []
    for vote in votes:
        word = vote.selected_label if isinstance(vote, MultiChoiceJudgeVote) else vote.verdict and vote.verdict.value
        said.append(f"{vote.judge_id}: {'failed' if vote.is_error else word or 'CANNOT_ASSESS'}")
    return "; ".join(said) or None


def build_judged_row(criterion: Criterion, number: int, **found: Any) -> dict[str, Any]:
    """Return the row of a criterion: its definition, then its verdict."""
    return {
        "criterion": criterion.name or f"C{number}",
        "requirement": criterion.requirement,
        "weight": criterion.weight,
        **found,
    }


def find_worst(criterion: Criterion) -> float:
    """Return the value that costs most, for abstentions under the FAIL strategy.

    Example:
        >>> find_worst(Criterion(weight=-4, requirement="Invents a source"))
        1.0
    """
    if criterion.options is not None:
        return criterion.worst_scored_option()[1].value
    return 1.0 if criterion.weight < 0 else 0.0


AnyCriterionReport: TypeAlias = CriterionReport | EnsembleCriterionReport
Report: TypeAlias = EvaluationReport | EnsembleEvaluationReport


def score_reports(
    reports: Iterable[AnyCriterionReport],
    config: CannotAssessConfig,
    normalize: bool = True,
) -> float | None:
    """Return the score of judged criteria, or None if one failed or nothing is left to score.

    To score the judged reports only, leave failures out: `[r for r in reports if not r.is_error]`.

    Example:
        >>> met = CriterionReport(requirement="Is brief", verdict="MET", reason=None)
        >>> failed = CriterionReport(requirement="Is polite", reason=None, error="parse: the reply is empty")
        >>> score_reports([met], CannotAssessConfig()), score_reports([met, failed], CannotAssessConfig())
        (1.0, None)
    """
    cells = []
    for report in reports:
        if report.is_error:
            return None
        cells.append(report.cell)
    return score(cells, config, normalize=normalize)
