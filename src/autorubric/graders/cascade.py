"""A cheap judge, with a stronger judge for the criteria that the cheap one cannot decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import Judgment
from autorubric.errors import ConfigError
from autorubric.graders.judge import Ask, Judge, JudgeInput, Seats
from autorubric.graders.panel import collect_ids, is_abstention


@dataclass(frozen=True)
class Cascade:
    """A judge that asks `first`, and then `then` where the first judgment is not sufficient. Both may be any judge.

    `then` is asked about a criterion when the first judgment on it

    * failed,
    * abstained,
    * is split, if there is no threshold: simple judges inside the first disagree, or one that was asked repeatedly
      disagrees with itself. An abstention disagrees with a verdict; a failure that a quorum allows has no vote,
    * has no confidence or one below the threshold, if there is one. A panel's confidence is the share of all its
      judges that agree with its verdict, so a threshold of 0.6 accepts a majority of two in three. A language model
      that is asked once has no confidence; one that is asked repeatedly (`Repeated`) has one.

    If `then` was asked, its judgment counts, even if it failed; the first's votes stay in the report, marked as
    superseded.

    Attributes:
        first: the judge of every criterion.
        then: the judge of those that remain.
        threshold: the minimum confidence that suffices, in [0, 1]; None if confidence does not matter.
        per_criterion: other thresholds, by the criterion's name.

    Raises:
        ConfigError: a threshold is outside [0, 1], or both judges have the same judge id.

    Example:
        >>> import asyncio
        >>> from autorubric.graders.without_model import ScriptedJudge, no_model
        >>> cascade = Cascade(ScriptedJudge("small", ["CANNOT_ASSESS", "MET"]), ScriptedJudge("big", ["UNMET"]))
        >>> inputs = JudgeInput("Yes.", (Criterion(requirement="Is right"), Criterion(requirement="Is brief")))
        >>> judgments = asyncio.run(cascade.judge(inputs, [0, 1], no_model))
        >>> [(judgment.judge_id, judgment.verdict.value) for judgment in judgments]
        [('big', 'UNMET'), ('small', 'MET')]
    """

    first: Judge
    then: Judge
    threshold: float | None = None
    per_criterion: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        refuse_thresholds(self.threshold, self.per_criterion)
        # Computed here, so that a duplicate id is found before anything is paid for.
        _ = self.judge_ids

    @cached_property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the simple judges inside, those of `first` before those of `then`."""
        return collect_ids("a cascade", (self.first, self.then))

    def find_threshold(self, criterion: Criterion) -> float | None:
        """Return the threshold for a criterion, or None."""
        return (self.per_criterion or {}).get(criterion.name or "", self.threshold)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgments of `first`, replaced by those of `then` if they do not suffice; see `Judge`."""
        seats = Seats(ask)
        heard = await self.first.judge(inputs, wanted, seats.ask_from(0))
        open_places = [
            place
            for place, (index, judgment) in enumerate(zip(wanted, heard, strict=True))
            if not is_sufficient(inputs.criteria[index], judgment, self.find_threshold(inputs.criteria[index]))
        ]
        if not open_places:
            return heard
        better = await self.then.judge(inputs, [wanted[place] for place in open_places], seats.ask_from(1))
        judgments = list(heard)
        for place, judgment in zip(open_places, better, strict=True):
            judgments[place] = replace(judgment, votes=(mark_superseded(heard[place]), judgment))
        return judgments


def refuse_thresholds(threshold: float | None, per_criterion: Mapping[str, float] | None) -> None:
    """Raise an error for thresholds outside [0, 1]."""
    given = {} if threshold is None else {"threshold": threshold}
    given |= {f"per_criterion[{name!r}]": value for name, value in (per_criterion or {}).items()}
    problems = [
        f"{place}={value!r}; expected a number from 0 to 1"
        for place, value in given.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0
    ]
    if problems:
        raise ConfigError(problems)


def is_sufficient(criterion: Criterion, judgment: Judgment, threshold: float | None) -> bool:
    """Return whether a criterion with this judgment needs no stronger judge; see `Cascade`."""
    if judgment.failure is not None or is_abstention(criterion, judgment):
        return False
    if threshold is None:
        votes = [each for leaf in judgment.leaves() for each in (leaf.repeats or (leaf,)) if not leaf.superseded]
        return len({(each.verdict, each.option) for each in votes if each.failure is None}) <= 1
    return judgment.confidence is not None and judgment.confidence >= threshold


def mark_superseded(judgment: Judgment) -> Judgment:
    """Return the judgment with itself and all judgments inside marked as superseded."""
    return replace(judgment, superseded=True, votes=tuple(mark_superseded(vote) for vote in judgment.votes))
