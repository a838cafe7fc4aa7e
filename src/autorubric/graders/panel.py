"""Several judges, or one judge asked several times, whose votes become one judgment."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autorubric.core.criterion import AggregationStrategy, Criterion, NominalAggregation, OrdinalAggregation
from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.core.usage import aggregate_completion_cost, aggregate_token_usage
from autorubric.errors import ConfigError
from autorubric.graders.aggregation import BINARY, NOMINAL, ORDINAL, OptionVote, Rules, VerdictVote, find_option
from autorubric.graders.judge import Ask, Judge, JudgeInput, Seats

ALL_ABSTAINED = "All judges could not assess"


@dataclass(frozen=True)
class Panel:
    """Several judges whose votes on a criterion are combined into one judgment. Panels are judges and can be nested.

    A judge that failed does not vote, and its vote is not replaced. If fewer than `quorum` judges succeed (an
    abstention is a success), the panel fails as well.

    Attributes:
        judges: at least one judge; ids must be distinct.
        binary: the rule for binary criteria.
        ordinal: the rule for options with an order.
        nominal: the rule for options without one.
        quorum: the minimum number of judges that must not fail; all by default.
        weight: the weight of this panel's vote in an outer panel.
        voters: the word for its judges in messages.

    Raises:
        ConfigError: there are no judges, a judge id is not unique, a rule is unknown, or the quorum is out of range.

    Example:
        >>> import asyncio
        >>> from autorubric.graders.without_model import ScriptedJudge, no_model
        >>> panel = Panel([ScriptedJudge("a", ["MET"]), ScriptedJudge("b", ["MET"]), ScriptedJudge("c", ["UNMET"])])
        >>> inputs = JudgeInput("Yes.", (Criterion(requirement="Is brief"),))
        >>> [judgment] = asyncio.run(panel.judge(inputs, [0], no_model))
        >>> judgment.verdict.value, len(judgment.votes)
        ('MET', 3)
    """

    judges: Sequence[Judge]
    binary: AggregationStrategy = "majority"
    ordinal: OrdinalAggregation = "mean"
    nominal: NominalAggregation = "mode"
    quorum: int | None = None
    weight: float = 1.0
    voters: str = "judges"

    def __post_init__(self) -> None:
        if not self.judges:
            raise ConfigError("a panel needs at least one judge")
        count, quorum = len(self.judges), self.quorum
        if quorum is not None and (isinstance(quorum, bool) or quorum not in range(1, count + 1)):
            raise ConfigError(f"quorum={quorum!r}; expected a whole number from 1 to the {count} judges")
        # Computed here, so that errors are raised before anything is paid for.
        _ = self.judge_ids, self.rules

    @cached_property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the simple judges inside, in order."""
        return collect_ids("a panel", self.judges)

    @cached_property
    def rules(self) -> Rules:
        """The rule for each kind of criterion."""
        return Rules(self.binary, self.ordinal, self.nominal)

    @cached_property
    def name(self) -> str:
        """The panel's id when its judgment is a vote."""
        return "+".join(self.judge_ids)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the panel's judgment on each wanted criterion, with every judge's judgment inside; see `Judge`."""
        seats = Seats(ask)
        heard = await asyncio.gather(
            *(judge.judge(inputs, wanted, seats.ask_from(n)) for n, judge in enumerate(self.judges))
        )
        return [
            replace(self.combine(inputs.criteria[index], votes), votes=votes)
            for index, votes in zip(wanted, zip(*heard, strict=True), strict=True)
        ]

    def combine(self, criterion: Criterion, votes: Sequence[Judgment]) -> Judgment:
        """Combine the judges' votes on one criterion into a judgment. Pure.

        The confidence is the share of all judges whose vote agrees with it, so abstentions and failures lower it.

        Example:
            >>> from autorubric.graders.without_model import ScriptedJudge
            >>> panel = Panel([ScriptedJudge("a", []), ScriptedJudge("b", [])], binary="any")
            >>> votes = [Judgment("a", verdict=CriterionVerdict.MET), Judgment("b", verdict=CriterionVerdict.UNMET)]
            >>> panel.combine(Criterion(requirement="Is brief"), votes).confidence
            0.5
        """
        cast = [vote for vote in votes if vote.failure is None]
        needed = self.quorum or len(self.judges)
        if len(cast) < needed:
            return self._build(failure=self._build_failure(votes, needed))
        scored = [vote for vote in cast if not is_abstention(criterion, vote)]
        reason = _join_reasons(cast)
        if not scored:
            return self._build_abstention(cast, reason)
        rule = self.rules.choose(criterion)
        if criterion.options is None:
            verdict = BINARY[rule]([VerdictVote(_require_verdict(v), v.weight) for v in scored], criterion.weight)
            same = sum(vote.verdict is verdict for vote in scored)
            return self._build(verdict=verdict, reason=reason, confidence=same / len(votes))
        of_options = ORDINAL if criterion.scale_type == "ordinal" else NOMINAL
        choice = of_options[rule]([_build_option_vote(criterion, vote) for vote in scored], criterion)
        same = sum(vote.option == choice.option for vote in scored)
        return self._build(option=choice.option, value=choice.value, reason=reason, confidence=same / len(votes))

    def _build_abstention(self, cast: Sequence[Judgment], reason: str | None) -> Judgment:
        reason = ALL_ABSTAINED if reason is None else f"{ALL_ABSTAINED}: {reason}"
        chosen = [vote.option for vote in cast if vote.option is not None]
        if chosen:
            return self._build(option=min(chosen), reason=reason)
        return self._build(verdict=CriterionVerdict.CANNOT_ASSESS, reason=reason)

    def _build_failure(self, votes: Sequence[Judgment], quorum: int) -> JudgmentFailure:
        found = [(vote.judge_id, vote.failure) for vote in votes if vote.failure is not None]
        first = found[0][1]
        if len(votes) == 1:
            return first
        needed = "all are needed" if quorum == len(votes) else f"{quorum} are needed"
        failed = f"{len(found)} of {len(votes)} {self.voters} failed where {needed}"
        reasons = "; ".join(f"{name}: {failure}" for name, failure in found)
        return JudgmentFailure(first.category, f"{failed}: {reasons}", first.evidence)

    def _build(self, **fields: Any) -> Judgment:
        return Judgment(self.name, weight=self.weight, **fields)


@dataclass(frozen=True)
class VoteDraw:
    """An independent sample of a judge: the same questions under another draw number.

    Attributes:
        inner: the judge that is sampled.
        number: the number of the sample, from 0.
        of: the number of samples, which keeps nested draws distinct.
    """

    inner: Judge
    number: int
    of: int

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids inside, each with the number of the draw, from 1."""
        return tuple(f"{name}#{self.number + 1}" for name in self.inner.judge_ids)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgments of this draw; see `Judge`."""

        async def ask_for_draw(model: Any, request: Any, *others: Any) -> Any:
            return await ask(model, replace(request, draw=request.draw * self.of + self.number), *others)

        return [self._rename(judgment) for judgment in await self.inner.judge(inputs, wanted, ask_for_draw)]

    def _rename(self, judgment: Judgment) -> Judgment:
        votes = tuple(self._rename(vote) for vote in judgment.votes)
        return replace(judgment, judge_id=f"{judgment.judge_id}#{self.number + 1}", votes=votes)


def make_draws(judge: Judge, count: int) -> tuple[VoteDraw, ...]:
    """`count` independent samples of a judge, for a panel (self-consistency).

    The first is the judge itself, so that its earlier answers are found in the ledger.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"{count!r} draws of a judge; expected a whole number, 1 or more")
    return tuple(VoteDraw(judge, number, count) for number in range(count))


def collect_ids(owner: str, judges: Sequence[Judge]) -> tuple[str, ...]:
    """Return the ids of all simple judges inside, in order; raise a `ConfigError` if an id is not unique."""
    ids = tuple(name for judge in judges for name in judge.judge_ids)
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ConfigError(f"{owner} has the judge id {name!r} twice; give each judge its own" for name in twice)
    return ids


def is_abstention(criterion: Criterion, vote: Judgment) -> bool:
    """Return whether a vote says that the criterion cannot be assessed or does not apply.

    Example:
        >>> is_abstention(Criterion(requirement="Is brief"), Judgment("a", verdict=CriterionVerdict.CANNOT_ASSESS))
        True
    """
    if vote.option is not None:
        return find_option(criterion, vote.option).na
    return vote.verdict is CriterionVerdict.CANNOT_ASSESS


def _require_verdict(vote: Judgment) -> CriterionVerdict:
    if vote.verdict is None:
        raise ValueError(f"judge {vote.judge_id!r} chose an option of a criterion that has none")
    return vote.verdict


def _build_option_vote(criterion: Criterion, vote: Judgment) -> OptionVote:
    if vote.option is None:
        raise ValueError(f"judge {vote.judge_id!r} gave a verdict where an option was expected")
    value = find_option(criterion, vote.option).value if vote.value is None else vote.value
    return OptionVote(vote.option, value, vote.weight)


def _join_reasons(votes: Sequence[Judgment]) -> str | None:
    if len(votes) == 1:
        return votes[0].reason
    reasons = [f"{vote.judge_id}: {vote.reason}" for vote in votes if vote.reason]
    return " | ".join(reasons) if reasons else None


@dataclass(frozen=True)
class Repeated:
    """A judge that is asked each question `count` times, in separate requests.

    The repeats become one vote of the judge: the majority of the verdicts, the mean of ordered options, the most
    frequent of other options; ties go to the lower score. A criterion's own `aggregation` is a rule for several
    judges and does not apply here. The vote's confidence is the share of all repeats that agree with it. A failed
    repeat fails the vote, and a later run sends only that repeat again.

    Attributes:
        inner: a simple judge.
        count: the number of times it is asked.

    Raises:
        ConfigError: `count` is not a whole number from 1, or the judge consists of several.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.graders.without_model import ScriptedJudge, no_model
        >>> judge = Repeated(ScriptedJudge("a", ["MET"]), 3)
        >>> inputs = JudgeInput("Yes.", (Criterion(requirement="Is brief"),))
        >>> [judgment] = asyncio.run(judge.judge(inputs, [0], no_model))
        >>> judgment.judge_id, judgment.confidence, len(judgment.repeats), judgment.votes
        ('a', 1.0, 3, ())
    """

    inner: Judge
    count: int

    def __post_init__(self) -> None:
        if len(self.inner.judge_ids) != 1:
            raise ConfigError(
                f"judges {', '.join(self.inner.judge_ids)} cannot be repeated together; repeat each one"
            )
        _ = self._panel

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The judge's own id."""
        return self.inner.judge_ids

    @cached_property
    def _panel(self) -> Panel:
        return Panel(make_draws(self.inner, self.count), voters="repeats")

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judge's vote on each wanted criterion, every repeat inside; see `Judge`."""
        heard = await asyncio.gather(*(draw.judge(inputs, wanted, ask) for draw in self._panel.judges))
        return [
            self._vote(inputs.criteria[index], repeats)
            for index, repeats in zip(wanted, zip(*heard, strict=True), strict=True)
        ]

    def _vote(self, criterion: Criterion, repeats: tuple[Judgment, ...]) -> Judgment:
        """Combine the repeats into one vote, with the quotes of the repeats that agree with it."""
        if criterion.aggregation is not None:
            criterion = criterion.model_copy(update={"aggregation": None})
        word = self._panel.combine(criterion, repeats)
        same = [each for each in repeats if (each.verdict, each.option) == (word.verdict, word.option)] or repeats
        return replace(
            word,
            judge_id=self.inner.judge_ids[0],
            weight=repeats[0].weight,
            quotes=tuple(dict.fromkeys(quote for each in same for quote in each.quotes)),
            flags=tuple(dict.fromkeys(flag for each in same for flag in each.flags)),
            shuffle_order=repeats[0].shuffle_order,
            usage=aggregate_token_usage(each.usage for each in repeats),
            cost=aggregate_completion_cost(each.cost for each in repeats),
            repeats=repeats,
        )
