"""Judges that call no model: checks, empty submissions, and scripted judgments."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict, Judgment, JudgmentFailure
from autorubric.errors import InputError
from autorubric.graders.judge import Ask, Judge, JudgeInput

if TYPE_CHECKING:
    from autorubric.checks import CheckContext


CHECK = "check"
"""The judge id of a verdict by a check."""


@dataclass(frozen=True, slots=True)
class ChecksFirst:
    """Decides criteria that have a check by running it, at no cost; the judge inside decides the others.

    If a check cannot decide or raises an error, the judgment is a failure with the reason, never UNMET.

    Attributes:
        inside: the judge for criteria without a check, or None if all have one.
        context: what checks need in addition to the submission, such as a tokenizer.

    Example:
        >>> import asyncio
        >>> check = {"name": "word_count", "parameters": {"at_most": 2}}
        >>> short = Criterion(requirement="At most two words", check=check)
        >>> judge = ChecksFirst()
        >>> judge.check_rubric([short])
        >>> [judgment] = asyncio.run(judge.judge(JudgeInput("Far too long", (short,)), [0], ask=None))
        >>> judgment.verdict, judgment.reason
        (<CriterionVerdict.UNMET: 'UNMET'>, '3 words; expected at most 2')
    """

    inside: Judge | None = None
    context: CheckContext | None = None

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """`check`, then the ids of the judges inside."""
        return (CHECK, *(self.inside.judge_ids if self.inside else ()))

    def check_rubric(self, criteria: Sequence[Criterion]) -> None:
        """Raise an error for criteria that this judge cannot decide, before anything runs.

        Raises:
            InputError: checks or their parameters are invalid, or criteria have neither check nor judge; all are
                listed.

        Example:
            >>> ChecksFirst().check_rubric([Criterion(name="Tone", requirement="Is polite")])
            Traceback (most recent call last):
            autorubric.errors.InputError: criterion 'Tone': no check, and no judge is set; ...
        """
        from autorubric.checks import validate_check

        problems: list[str] = []
        for index, criterion in enumerate(criteria):
            name = f"criterion {(criterion.name or index)!r}"
            if criterion.check is None:
                if self.inside is None:
                    problems.append(f"{name}: no check, and no judge is set; pass --judge MODEL (Python: judge=)")
            elif criterion.options is not None:
                problems.append(f"{name} has options and a check; a check decides binary criteria only")
            else:
                try:
                    validate_check(criterion.check["name"], criterion.check.get("parameters"))
                except InputError as error:
                    problems += [f"{name}: {problem}" for problem in error.problems]
        if problems:
            raise InputError(problems)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment on each wanted criterion.

        Raises:
            InputError: `check_rubric` refuses the rubric; the judge inside is not asked.
        """
        checked = {}
        for index in (index for index in wanted if inputs.criteria[index].check is not None):
            checked[index] = self._run_check(inputs, index)
            await asyncio.sleep(0)  # a check may take seconds; deadlines and other requests get their turn
        rest = [index for index in wanted if index not in checked]
        if rest and self.inside is None:
            self.check_rubric(inputs.criteria)
        if rest and self.inside is not None:
            made = await self.inside.judge(inputs, rest, ask)
            if not isinstance(made, Sequence) or len(made) != len(rest) or set(map(type, made)) != {Judgment}:
                name = type(self.inside).__name__
                raise TypeError(
                    f"{name}.judge returned {made!r:.100}; expected a Judgment for each requested criterion"
                )
            checked |= dict(zip(rest, made, strict=True))
        return [checked[index] for index in wanted]

    def _run_check(self, inputs: JudgeInput, index: int) -> Judgment:
        from autorubric.checks import CheckFailure, run_check

        if inputs.dropped and not inputs.submission.strip():
            return replace(_UNMET, judge_id=CHECK, reason="The submission is reasoning without an answer.")
        check = inputs.criteria[index].check or {}
        try:
            found = run_check(check["name"], check.get("parameters"), inputs.submission, context=self.context)
        except InputError:
            raise
        except Exception as error:  # another package's check; the item's other criteria keep their verdicts
            found = CheckFailure(check["name"], f"{type(error).__name__}: {error}")
        if isinstance(found, CheckFailure):
            return Judgment(CHECK, failure=JudgmentFailure("check", str(found)))
        verdict = CriterionVerdict.MET if found.passed else CriterionVerdict.UNMET
        return Judgment(CHECK, verdict=verdict, reason=found.reason)


EMPTY = "empty"
"""The judge id of a verdict on an empty submission."""

_UNMET = Judgment(
    EMPTY, verdict=CriterionVerdict.UNMET, reason="The submission has no content to judge.", flags=("empty",)
)
_LONGEST_OPENER = 120
_WORD = re.compile(r"[^\W_]+")

# Whole submissions of this kind sway many judges ("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794).
_OPENER = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|yes|great question|好的|当然|没问题) )*(?:"
    r"(?:(?:here|below) (?:is|are|s) )?(?:the |my |your |a )?(?:final |correct )?"
    r"(?:thought process|thinking|reasoning|solutions?|answers?|response|explanation|analysis)"
    r"(?: is| are| below| follows| as follows| process)?(?: (?:to|for) (?:the|this|your) (?:question|problem|task))?"
    r"|(?:let (?:s|us|me)|i ll|i will|i can|we can|we will|we need to) "
    r"(?:solve|think|work|break|begin|start|explain|tackle|analyze|help|answer)"
    r"(?: (?:this|the|that|it|you|your|problem|question|task|step|by|together|carefully|through|down|out|about|in|"
    r"into|parts|detail|with|to|find|answer|solution|and|on|for))*"
    r"|step (?:1|one|by step)|respuesta|かいせつ"
    r"|(?:(?:以下|下面)是?)?(?:我的|您的)?(?:思考过程|解答|解|答案|解决方案|回答|分析|答)(?:如下)?"
    r"|(?:让我们|让我|我们|我)来?(?:一步一步|逐步|仔细)?(?:地|来)?(?:解决|解答|思考|分析|回答|看看)(?:这个|一下|该)?(?:问题|题目)?"
    r")"
)


def is_empty(submission: str) -> bool:
    """Return whether a submission has no content: it is blank, only punctuation, or only an opening phrase.

    Example:
        >>> [is_empty(text) for text in (" ", ":", "Thought process:", "Sure! Let's solve this step by step.")]
        [True, True, True, True]
        >>> [is_empty(text) for text in ("42", "Yes.", "🙂", "The answer is 4.", "x = 3", "Let's go to Rome.")]
        [False, False, False, False, False, False]
    """
    head = submission[: 4 * _LONGEST_OPENER].strip()
    if len(head) > _LONGEST_OPENER and _WORD.search(head):
        return False
    kinds = {unicodedata.category(char)[0] for char in submission}
    if not kinds & {"L", "N"}:
        return "S" not in kinds  # emoji, arithmetic and currency are content
    return _OPENER.fullmatch(" ".join(_WORD.findall(submission.lower()))) is not None


@dataclass(frozen=True, slots=True)
class EmptyFirst:
    """Decides empty submissions without a call: every binary criterion is UNMET, pitfalls included.

    Criteria with options are still judged, since the right option for an empty submission depends on the rubric.

    Attributes:
        inside: the judge of everything else.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.graders.without_model import ChecksFirst
        >>> inputs = JudgeInput("Solution:", (Criterion(requirement="Names two causes"),))
        >>> [judgment] = asyncio.run(EmptyFirst(ChecksFirst()).judge(inputs, [0], ask=None))
        >>> judgment.verdict, judgment.judge_id
        (<CriterionVerdict.UNMET: 'UNMET'>, 'empty')
    """

    inside: Judge

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """`empty`, then the ids of the judges inside."""
        return (EMPTY, *self.inside.judge_ids)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """Return the judgment on each wanted criterion."""
        if not is_empty(inputs.submission):
            return await self.inside.judge(inputs, wanted, ask)
        # Checks can decide empty submissions too.
        rest = [i for i in wanted if inputs.criteria[i].options is not None or inputs.criteria[i].check is not None]
        judged = dict(zip(rest, await self.inside.judge(inputs, rest, ask), strict=True)) if rest else {}
        return [judged.get(index, _UNMET) for index in wanted]


Word: TypeAlias = str | int | JudgmentFailure | Judgment
"""A scripted answer: a verdict, the index of an option, a failure, or a whole judgment."""


@dataclass
class ScriptedJudge:
    """A judge with scripted answers, without a model.

    Attributes:
        judge_id: its id.
        words: its answer on each criterion by index, or a function of the inputs and the index.
        weight: its weight in a panel.
        asked: the criteria it was asked about, one entry per submission.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> judge = ScriptedJudge("a", ["MET", JudgmentFailure("parse", "the reply is empty")])
        >>> inputs = JudgeInput("Yes.", (Criterion(requirement="Is brief"), Criterion(requirement="Is polite")))
        >>> [str(judgment.failure) for judgment in asyncio.run(judge.judge(inputs, [1], no_model))]
        ['parse: the reply is empty']
    """

    judge_id: str
    words: Sequence[Word] | Callable[[JudgeInput, int], Word]
    weight: float = 1.0
    asked: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Its own id."""
        return (self.judge_id,)

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Any) -> list[Judgment]:
        """Return the scripted judgment on each wanted criterion; `ask` is not used."""
        self.asked.append(tuple(wanted))
        return [self._build_judgment(self._find_word(inputs, index)) for index in wanted]

    def _find_word(self, inputs: JudgeInput, index: int) -> Word:
        if callable(self.words):
            return self.words(inputs, index)
        if index >= len(self.words):
            raise InputError(f"the script of judge {self.judge_id!r} has no verdict for criterion {index}")
        return self.words[index]

    def _build_judgment(self, word: Word) -> Judgment:
        if isinstance(word, Judgment):
            return word
        if isinstance(word, JudgmentFailure):
            return Judgment(self.judge_id, failure=word, weight=self.weight)
        if isinstance(word, int):
            return Judgment(self.judge_id, option=word, weight=self.weight)
        return Judgment(self.judge_id, verdict=CriterionVerdict(word), weight=self.weight)


async def no_model(*asked: Any) -> Any:
    """Raise an error; this is the `ask` of judges without a model.

    Example:
        >>> import asyncio
        >>> asyncio.run(no_model())
        Traceback (most recent call last):
        autorubric.errors.InputError: a judge requested a model, but no model is set
    """
    raise InputError("a judge requested a model, but no model is set")
