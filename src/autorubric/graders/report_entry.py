"""From the opinion on one criterion to its entry in a report: the final word, and a vote for every judge inside.

The models are made without being checked again: every value comes from a `Judgment`, and a run makes tens of
thousands of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import (
    AggregatedMultiChoiceVerdict,
    CriterionVerdict,
    JudgeVote,
    Judgment,
    MultiChoiceJudgeVote,
    Opinion,
)
from autorubric.core.report import EnsembleCriterionReport
from autorubric.graders.aggregation import judged_option

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


def criterion_report(criterion: Criterion, opinion: Opinion) -> EnsembleCriterionReport:
    """The entry of one criterion.

    Where a judge chose the "not applicable" option that judges add by themselves, the criterion is shown with it.

    Example:
        >>> opinion = Opinion(Judgment("a", verdict=MET, reason="Two lines."))
        >>> report = criterion_report(Criterion(requirement="Is brief"), opinion)
        >>> report.final_verdict.value, report.agreement, len(report.votes)
        ('MET', 1.0, 1)
    """
    word, leaves = opinion.judgment, opinion.leaves()
    if criterion.options is not None:
        count = len(criterion.options)
        if any(said.option == count for leaf in leaves for said in (word, leaf, *leaf.repeats)):
            criterion = criterion.with_guaranteed_na_option()
    counting = [leaf for leaf in leaves if not leaf.superseded]
    binary = criterion.options is None
    return EnsembleCriterionReport.model_construct(
        criterion=criterion,
        final_verdict=word.verdict if binary else None,
        final_reason=word.reason,
        votes=[_vote(leaf) for leaf in leaves] if binary else [],
        agreement=_agreement(word, counting),
        final_multi_choice_verdict=None if binary or word.mistake is not None else _final_choice(criterion, word),
        multi_choice_votes=[] if binary else [_option_vote(criterion, leaf) for leaf in leaves],
        error=None if word.mistake is None else str(word.mistake),
        escalated=len(counting) < len(leaves),
        confidence=word.confidence,
        quotes=[quote for leaf in counting for quote in leaf.quotes],
        flags=list(dict.fromkeys(flag for leaf in counting for flag in leaf.flags)),
    )


def vote_value(criterion: Criterion, vote: Judgment) -> float | None:
    """What a judgment is worth in [0, 1]; None for an abstention or a failure.

    Example:
        >>> vote_value(Criterion(requirement="Is brief"), Judgment("a", verdict=UNMET))
        0.0
    """
    if vote.option is None:
        return 1.0 if vote.verdict is MET else 0.0 if vote.verdict is UNMET else None
    option = judged_option(criterion, vote.option)
    if option.na:
        return None
    return option.value if vote.value is None else vote.value


def _agreement(word: Judgment, votes: Sequence[Judgment]) -> float:
    if word.mistake is not None:
        return 0.0
    same = [(vote.verdict, vote.option) == (word.verdict, word.option) for vote in votes if vote.mistake is None]
    return sum(same) / len(same) if same else 0.0


def _vote(leaf: Judgment) -> JudgeVote:
    return JudgeVote.model_construct(
        judge_id=leaf.judge_id,
        verdict=leaf.verdict,
        reason=leaf.reason,
        weight=leaf.weight,
        error=None if leaf.mistake is None else str(leaf.mistake),
        reasoning=leaf.reasoning,
        probabilities=leaf.probabilities,
        confidence=leaf.confidence,
        superseded=leaf.superseded,
        quotes=list(leaf.quotes),
        repeats=[_vote(each) for each in leaf.repeats],
    )


def _option_vote(criterion: Criterion, leaf: Judgment) -> MultiChoiceJudgeVote:
    option = None if leaf.option is None else judged_option(criterion, leaf.option)
    failed = leaf.mistake is not None
    return MultiChoiceJudgeVote.model_construct(
        judge_id=leaf.judge_id,
        selected_index=leaf.option,
        selected_label=None if option is None else option.label,
        value=None if failed else 0.0 if option is None else option.value,
        reason=leaf.reason,
        weight=leaf.weight,
        na=not failed and (option is None or option.na),
        shuffle_order=None if leaf.shuffle_order is None else list(leaf.shuffle_order),
        error=None if leaf.mistake is None else str(leaf.mistake),
        reasoning=leaf.reasoning,
        probabilities=leaf.probabilities,
        confidence=leaf.confidence,
        superseded=leaf.superseded,
        repeats=[_option_vote(criterion, each) for each in leaf.repeats],
    )


def _final_choice(criterion: Criterion, word: Judgment) -> AggregatedMultiChoiceVerdict:
    if word.option is None:
        return AggregatedMultiChoiceVerdict(value=0.0, na=True, aggregated_value=0.0)
    option = judged_option(criterion, word.option)
    return AggregatedMultiChoiceVerdict.model_construct(
        selected_index=word.option,
        selected_label=option.label,
        value=option.value,
        na=option.na,
        aggregated_value=option.value if word.value is None else word.value,
    )
