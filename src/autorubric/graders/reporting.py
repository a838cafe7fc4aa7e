"""Reports built from the judgments on a submission. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import (
    AggregatedMultiChoiceVerdict,
    CannotAssessConfig,
    CriterionVerdict,
    JudgeVote,
    Judgment,
    MultiChoiceJudgeVote,
)
from autorubric.core.report import EnsembleCriterionReport, EnsembleEvaluationReport, Report, find_worst
from autorubric.core.scoring import Cell, LengthPenalty, compute_length_penalty, score
from autorubric.core.submission import ToGradeInput
from autorubric.core.usage import aggregate_completion_cost, aggregate_token_usage
from autorubric.errors import ConfigError
from autorubric.graders.aggregation import find_option
from autorubric.graders.judge import JudgeInput
from autorubric.llm.thinking import split_submission

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET
OnFailure: TypeAlias = Literal["none", "skip"]
ReportT = TypeVar("ReportT", bound=Report)
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Scoring:
    """How judged criteria become a score.

    Attributes:
        cannot_assess: how abstentions count.
        normalize: True for a score in [0, 1], False for the bare sum of value · weight.
        on_failure: `none` gives no score if a judgment failed; `skip` scores the other criteria.

    Raises:
        ConfigError: `on_failure` is neither, or `cannot_assess` is not a `CannotAssessConfig`.

    Example:
        >>> Scoring(on_failure="zero")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: on_failure='zero' is not one of none, skip; a failure is never a zero
    """

    cannot_assess: CannotAssessConfig = field(default_factory=CannotAssessConfig)
    normalize: bool = True
    on_failure: OnFailure = "none"

    def __post_init__(self) -> None:
        if self.on_failure not in ("none", "skip"):
            raise ConfigError(f"on_failure={self.on_failure!r} is not one of none, skip; a failure is never a zero")
        if not isinstance(self.cannot_assess, CannotAssessConfig):
            kind = type(self.cannot_assess).__name__
            raise ConfigError(f"cannot_assess_config is of type {kind}; expected CannotAssessConfig")


DEFAULT = Scoring()


def report_on(
    inputs: JudgeInput, judgments: Sequence[Judgment], scoring: Scoring = DEFAULT, flags: Iterable[str] = ()
) -> EnsembleEvaluationReport:
    """Build the report on a submission.

    Tokens and cost are those of all replies behind the judgments, superseded ones included, each counted once.
    Replies found in the ledger count too, so that a resumed run reports the same as an uninterrupted one.

    Args:
        inputs: the graded submission.
        judgments: one for each of its criteria, in order.
        scoring: how judgments become a score.
        flags: signs that the submission is suspicious.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.core.judgment import CriterionVerdict
        >>> inputs = JudgeInput("Yes.", (Criterion(weight=3, requirement="Is brief"),))
        >>> report_on(inputs, [Judgment("a", verdict=CriterionVerdict.MET)]).score
        1.0
    """
    criteria = [
        build_entry(criterion, judgment) for criterion, judgment in zip(inputs.criteria, judgments, strict=True)
    ]
    worst = [find_worst(report.criterion) for report in criteria]
    cells = [
        Cell(entry.criterion.weight, find_value(entry.criterion, word), least, word.failure is not None)
        for entry, word, least in zip(criteria, judgments, worst, strict=True)
    ]
    errors = [report.error for report in criteria if report.error is not None]
    agreements = [report.agreement for report in criteria if report.error is None]
    leaves = [judgment.leaves() for judgment in judgments]
    raw = _compute_score(cells, scoring, normalize=False)
    is_skipped = scoring.on_failure == "skip" and raw is not None
    return _build_model(
        EnsembleEvaluationReport,
        score=_compute_score(cells, scoring, normalize=True) if scoring.normalize else raw,
        raw_score=raw,
        llm_raw_score=raw,
        report=criteria,
        judge_scores=_compute_judge_scores(inputs, leaves, worst, scoring),
        mean_agreement=sum(agreements) / len(agreements) if agreements else None,
        cannot_assess_count=sum(cell.value is None and not cell.failed for cell in cells),
        token_usage=aggregate_token_usage(leaf.usage for found in leaves for leaf in found),
        completion_cost=aggregate_completion_cost(leaf.cost for found in leaves for leaf in found),
        error=_describe_error(inputs, errors) if errors and not is_skipped else None,
        coverage=1.0 - len(errors) / len(criteria) if criteria else None,
        failed_count=len(errors),
        flags=list(flags),
    )


def with_length_penalty(
    report: ReportT, to_grade: ToGradeInput, penalty: LengthPenalty | None, *, normalize: bool = True
) -> ReportT:
    """Return the report with the length penalty subtracted from the score; at least 0 if scores are normalized.

    `raw_score` stays as it is, and a score that is None stays None.

    Example:
        >>> from autorubric.core.report import EvaluationReport
        >>> report = EvaluationReport(score=0.25, raw_score=5.0)
        >>> costly = LengthPenalty(free_budget=0, max_cap=1, penalty_at_cap=0.5)
        >>> with_length_penalty(report, "far too long", costly).score
        0.0
    """
    if penalty is None or report.score is None:
        return report
    left = report.score - compute_length_penalty(split_submission(to_grade), penalty)
    return cast("ReportT", report.model_copy(update={"score": max(0.0, left) if normalize else left}))


def _build_model(kind: type[ModelT], /, **values: Any) -> ModelT:
    """Build a pydantic model from valid values for all fields, three times as fast as `model_construct`."""
    made = kind.__new__(kind)
    keep = object.__setattr__  # the models are frozen
    keep(made, "__dict__", values)
    keep(made, "__pydantic_fields_set__", set(values))
    keep(made, "__pydantic_extra__", None)
    keep(made, "__pydantic_private__", None)
    return made


def _compute_score(cells: Sequence[Cell], scoring: Scoring, *, normalize: bool) -> float | None:
    """Return the score of the cells; None if one failed and failures are not skipped."""
    if scoring.on_failure == "none" and any(cell.failed for cell in cells):
        return None
    return score(cells, scoring.cannot_assess, normalize=normalize)


def _compute_judge_scores(
    inputs: JudgeInput, leaves: Sequence[Sequence[Judgment]], worst: Sequence[float], scoring: Scoring
) -> dict[str, float | None]:
    cells: dict[str, list[Cell]] = {}
    for criterion, found, least in zip(inputs.criteria, leaves, worst, strict=True):
        for leaf in found:
            cell = Cell(criterion.weight, find_value(criterion, leaf), least, leaf.failure is not None)
            cells.setdefault(leaf.judge_id, []).append(cell)
    return {judge: _compute_score(own, scoring, normalize=scoring.normalize) for judge, own in cells.items()}


def _describe_error(inputs: JudgeInput, errors: Sequence[str]) -> str:
    count, total = len(errors), len(inputs.criteria)
    others = "" if count == 1 else f" (and {count - 1} other error{'s' if count > 2 else ''})"
    if count == total:
        return f"Every criterion's judgment failed: {errors[0]}{others}"
    return f"{count} of {total} criteria failed: {errors[0]}{others}"


def build_entry(criterion: Criterion, word: Judgment) -> EnsembleCriterionReport:
    """Build the report's entry for one criterion, with the added "not applicable" option if a judge chose it."""
    leaves = word.leaves()
    if criterion.options is not None:
        count = len(criterion.options)
        if any(entry.option == count for leaf in leaves for entry in (word, leaf, *leaf.repeats)):
            criterion = criterion.with_guaranteed_na_option()
    counting = [leaf for leaf in leaves if not leaf.superseded]
    binary = criterion.options is None
    return _build_model(
        EnsembleCriterionReport,
        criterion=criterion,
        final_verdict=word.verdict if binary else None,
        final_reason=word.reason,
        votes=[_build_vote(leaf) for leaf in leaves] if binary else [],
        agreement=_compute_agreement(word, counting) if word.votes or not counting else float(word.failure is None),
        final_multi_choice_verdict=None if binary or word.failure is not None else _build_choice(criterion, word),
        multi_choice_votes=[] if binary else [_build_option_vote(criterion, leaf) for leaf in leaves],
        error=None if word.failure is None else str(word.failure),
        escalated=len(counting) < len(leaves),
        confidence=word.confidence,
        quotes=[quote for leaf in counting for quote in leaf.quotes],
        flags=list(dict.fromkeys(flag for leaf in counting for flag in leaf.flags)),
    )


def find_value(criterion: Criterion, vote: Judgment) -> float | None:
    """Return the value of a judgment in [0, 1]; None for an abstention or a failure."""
    if vote.option is None:
        if criterion.options is not None:
            return None
        return 1.0 if vote.verdict is MET else 0.0 if vote.verdict is UNMET else None
    option = find_option(criterion, vote.option)
    if option.na:
        return None
    return option.value if vote.value is None else vote.value


def _compute_agreement(word: Judgment, votes: Sequence[Judgment]) -> float:
    if word.failure is not None:
        return 0.0
    same = [(vote.verdict, vote.option) == (word.verdict, word.option) for vote in votes if vote.failure is None]
    return sum(same) / len(same) if same else 0.0


def _build_vote(leaf: Judgment) -> JudgeVote:
    return _build_model(
        JudgeVote,
        judge_id=leaf.judge_id,
        verdict=leaf.verdict,
        reason=leaf.reason,
        weight=leaf.weight,
        error=None if leaf.failure is None else str(leaf.failure),
        reasoning=leaf.reasoning,
        probabilities=leaf.probabilities,
        confidence=leaf.confidence,
        superseded=leaf.superseded,
        quotes=list(leaf.quotes),
        repeats=[_build_vote(each) for each in leaf.repeats],
    )


def _build_option_vote(criterion: Criterion, leaf: Judgment) -> MultiChoiceJudgeVote:
    option = None if leaf.option is None else find_option(criterion, leaf.option)
    failed = leaf.failure is not None
    return _build_model(
        MultiChoiceJudgeVote,
        judge_id=leaf.judge_id,
        selected_index=leaf.option,
        selected_label=None if option is None else option.label,
        value=None if failed else 0.0 if option is None else option.value,
        reason=leaf.reason,
        weight=leaf.weight,
        na=not failed and (option is None or option.na),
        shuffle_order=None if leaf.shuffle_order is None else list(leaf.shuffle_order),
        error=None if leaf.failure is None else str(leaf.failure),
        reasoning=leaf.reasoning,
        probabilities=leaf.probabilities,
        confidence=leaf.confidence,
        superseded=leaf.superseded,
        repeats=[_build_option_vote(criterion, each) for each in leaf.repeats],
    )


def _build_choice(criterion: Criterion, word: Judgment) -> AggregatedMultiChoiceVerdict:
    if word.option is None:
        return AggregatedMultiChoiceVerdict(value=0.0, na=True, aggregated_value=0.0)
    option = find_option(criterion, word.option)
    return _build_model(
        AggregatedMultiChoiceVerdict,
        selected_index=word.option,
        selected_label=option.label,
        value=option.value,
        na=option.na,
        aggregated_value=option.value if word.value is None else word.value,
    )
