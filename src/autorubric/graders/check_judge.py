"""A judge that decides by checks whatever a check can decide, and asks another judge about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment, Mistake, Opinion
from autorubric.errors import InputError
from autorubric.graders.case import Case
from autorubric.graders.judge import Ask, Judge

if TYPE_CHECKING:
    from autorubric.checks import CheckContext

CHECK = "check"
"""The judge id of a verdict that no model gave."""


@dataclass(frozen=True, slots=True)
class ChecksFirst:
    """Decides criteria that carry a check by running it, at no cost; the judge inside gets the others.

    A check that cannot decide is a mistake with its reason, never UNMET.

    Attributes:
        inside: the judge for criteria without a check, or None where all have one.
        context: what checks need beside the submission, such as your tokenizer.

    Example:
        >>> import asyncio
        >>> check = {"name": "word_count", "parameters": {"at_most": 2}}
        >>> short = Criterion(requirement="At most two words", check=check)
        >>> judge = ChecksFirst()
        >>> judge.check_rubric([short])
        >>> [opinion] = asyncio.run(judge.judge(Case("Far too long", (short,)), [0], ask=None))
        >>> opinion.judgment.verdict, opinion.judgment.reason
        (<CriterionVerdict.UNMET: 'UNMET'>, '3 words; expected at most 2')
    """

    inside: Judge | None = None
    context: CheckContext | None = None

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """`check`, then the ids of the judges inside."""
        return (CHECK, *(self.inside.judge_ids if self.inside else ()))

    def check_rubric(self, criteria: Sequence[Criterion]) -> None:
        """Refuse criteria that this judge cannot decide, before anything runs.

        Raises:
            InputError: checks are unknown or their parameters unusable, or a criterion has neither check nor
                judge; all of them are listed.

        Example:
            >>> ChecksFirst().check_rubric([Criterion(name="Tone", requirement="Is polite")])
            Traceback (most recent call last):
            autorubric.errors.InputError: criterion 'Tone' has no check and there is no judge; name a judge model
        """
        from autorubric.checks import validate_check

        problems: list[str] = []
        for index, criterion in enumerate(criteria):
            name = f"criterion {(criterion.name or index)!r}"
            if criterion.check is None:
                if self.inside is None:
                    problems.append(f"{name} has no check and there is no judge; name a judge model")
            elif criterion.options is not None:
                problems.append(f"{name} has options and a check; a check decides binary criteria only")
            else:
                try:
                    validate_check(criterion.check["name"], criterion.check.get("parameters"))
                except InputError as error:
                    problems += [f"{name}: {problem}" for problem in error.problems]
        if problems:
            raise InputError(problems)

    async def judge(self, case: Case, wanted: Sequence[int], ask: Ask) -> list[Opinion]:
        """The opinion on each wanted criterion.

        Raises:
            InputError: what `check_rubric` refuses, before the judge inside is asked.
        """
        checked = {index: self._checked(case, index) for index in wanted if case.criteria[index].check is not None}
        rest = [index for index in wanted if index not in checked]
        if rest and self.inside is None:
            self.check_rubric(case.criteria)
        if rest and self.inside is not None:
            checked |= dict(zip(rest, await self.inside.judge(case, rest, ask), strict=True))
        return [checked[index] for index in wanted]

    def _checked(self, case: Case, index: int) -> Opinion:
        from autorubric.checks import CheckFailure, run_check

        check = case.criteria[index].check or {}
        found = run_check(check["name"], check.get("parameters"), case.submission, context=self.context)
        if isinstance(found, CheckFailure):
            return Opinion(Judgment(CHECK, mistake=Mistake("check", str(found))))
        verdict = CriterionVerdict.MET if found.passed else CriterionVerdict.UNMET
        return Opinion(Judgment(CHECK, verdict=verdict, reason=found.reason))
