"""One judge asked several times (self-consistency): one vote, and how far the judge agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import Judgment, Opinion
from autorubric.core.usage import aggregate_completion_cost, aggregate_token_usage
from autorubric.errors import ConfigError
from autorubric.graders.case import Case
from autorubric.graders.judge import Ask, Judge
from autorubric.graders.panel import Panel, draws_of, together


@dataclass(frozen=True)
class Repeated:
    """A judge that is asked each question `count` times, each time by a request of its own.

    The repeats come to one vote of the judge: the majority of the verdicts, the mean of ordered options, the most
    frequent of other options; ties go to what scores least. A criterion's own `aggregation` is a rule for several
    judges and does not count here. The vote's confidence is the share of repeats that say the same, abstentions
    aside. A repeat that failed fails the vote, and a later run asks only that repeat again.

    Attributes:
        inner: a simple judge.
        count: how often it is asked.

    Raises:
        ConfigError: `count` is not a whole number from 1, or the judge is made of several.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.graders.scripted import ScriptedJudge, no_model
        >>> judge = Repeated(ScriptedJudge("a", ["MET"]), 3)
        >>> [opinion] = asyncio.run(judge.judge(Case("Yes.", (Criterion(requirement="Is brief"),)), [0], no_model))
        >>> opinion.judgment.judge_id, opinion.judgment.confidence, len(opinion.judgment.repeats), opinion.votes
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
        return Panel(draws_of(self.inner, self.count), voters="repeats")

    async def judge(self, case: Case, wanted: Sequence[int], ask: Ask) -> list[Opinion]:
        """The judge's vote on each wanted criterion, every repeat inside; see `Judge`."""
        heard = await together([draw.judge(case, wanted, ask) for draw in self._panel.judges])
        return [
            Opinion(self._vote(case.criteria[index], tuple(opinion.judgment for opinion in repeats)))
            for index, repeats in zip(wanted, zip(*heard, strict=True), strict=True)
        ]

    def _vote(self, criterion: Criterion, repeats: tuple[Judgment, ...]) -> Judgment:
        """The repeats as one vote, which carries what the repeats that say the same cite."""
        if criterion.aggregation is not None:
            criterion = criterion.model_copy(update={"aggregation": None})
        word = self._panel.word(criterion, repeats)
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
