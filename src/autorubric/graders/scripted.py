"""A judge that says what you wrote for it, to try out panels, cascades and reports without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from autorubric.core.judgment import CriterionVerdict, Judgment, Mistake, Opinion
from autorubric.errors import InputError
from autorubric.graders.case import Case

Word: TypeAlias = str | int | Mistake | Judgment
"""A verdict, the index of an option, a failure, or a whole judgment."""


@dataclass
class ScriptedJudge:
    """A judge without a model.

    Attributes:
        judge_id: the id it goes by.
        words: what it says on each criterion by index, or a function of the case and the index.
        weight: how much it counts in a panel.
        asked: the criteria it was asked about, one entry a case.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> judge = ScriptedJudge("a", ["MET", Mistake("parse", "the reply is empty")])
        >>> case = Case("Yes.", (Criterion(requirement="Is brief"), Criterion(requirement="Is polite")))
        >>> [str(opinion.judgment.mistake) for opinion in asyncio.run(judge.judge(case, [1], no_model))]
        ['parse: the reply is empty']
    """

    judge_id: str
    words: Sequence[Word] | Callable[[Case, int], Word]
    weight: float = 1.0
    asked: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Its one id."""
        return (self.judge_id,)

    async def judge(self, case: Case, wanted: Sequence[int], ask: Any) -> list[Opinion]:
        """What was written for each wanted criterion; `ask` is not used."""
        self.asked.append(tuple(wanted))
        return [Opinion(self._judgment(self._word(case, index))) for index in wanted]

    def _word(self, case: Case, index: int) -> Word:
        if callable(self.words):
            return self.words(case, index)
        if index >= len(self.words):
            raise InputError(f"the script of judge {self.judge_id!r} has no word for criterion {index}")
        return self.words[index]

    def _judgment(self, word: Word) -> Judgment:
        if isinstance(word, Judgment):
            return word
        if isinstance(word, Mistake):
            return Judgment(self.judge_id, mistake=word, weight=self.weight)
        if isinstance(word, int):
            return Judgment(self.judge_id, option=word, weight=self.weight)
        return Judgment(self.judge_id, verdict=CriterionVerdict(word), weight=self.weight)


async def no_model(*asked: Any) -> Any:
    """An `ask` for judges that have no model; asking it is an error.

    Example:
        >>> import asyncio
        >>> asyncio.run(no_model())
        Traceback (most recent call last):
        autorubric.errors.InputError: a judge asked for a model where there is none
    """
    raise InputError("a judge asked for a model where there is none")
