"""Submissions that hold nothing: settled without a call, because judges have been seen to reward them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from autorubric.core.judgment import CriterionVerdict, Judgment, Opinion
from autorubric.graders.case import Case
from autorubric.graders.judge import Ask, Judge

EMPTY = "empty"
"""The judge id of a verdict on a submission that holds nothing."""

_LONGEST_OPENER = 120
_WORD = re.compile(r"[^\W_]+")

# Whole submissions of this kind sway many judges ("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794).
_OPENER = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|yes|great question|好的|当然|没问题) )*(?:"
    r"(?:here (?:is|are) )?(?:the |my |your |a )?(?:final |correct )?"
    r"(?:thought process|thinking|reasoning|solutions?|answers?|response|explanation|analysis)"
    r"(?: is| are| below| follows| as follows| process)?"
    r"|(?:let (?:s|us|me)|i ll|i will|i can|we can|we will|we need to) "
    r"(?:solve|think|work|break|begin|start|explain|tackle|analyze|help|answer)"
    r"(?: (?:this|the|that|it|you|your|problem|question|task|step|by|together|carefully|through|down|out|about|in|"
    r"into|parts|detail|with|to|find|answer|solution|and|on|for))*"
    r"|step (?:1|one|by step)"
    r"|(?:思考过程|解答|解|答案|解决方案|回答|分析|答)(?:如下)?"
    r"|(?:让我们|让我|我们|我)来?(?:一步一步|逐步|仔细)?(?:地|来)?(?:解决|解答|思考|分析|回答|看看)(?:这个|一下|该)?(?:问题|题目)?"
    r")"
)


def is_empty(submission: str) -> bool:
    """Whether a submission holds nothing to judge: blank, marks only, or an opener without a sequel.

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
        return "S" not in kinds  # emoji, arithmetic and currency say something
    return _OPENER.fullmatch(" ".join(_WORD.findall(submission.lower()))) is not None


@dataclass(frozen=True, slots=True)
class EmptyFirst:
    """Settles submissions that hold nothing without a call: no binary criterion is met, pitfalls included.

    Criteria with options are still judged: which option fits nothing is the rubric's to say.

    Attributes:
        inside: the judge of everything else.

    Example:
        >>> import asyncio
        >>> from autorubric.core.criterion import Criterion
        >>> from autorubric.graders.check_judge import ChecksFirst
        >>> case = Case("Solution:", (Criterion(requirement="Names two causes"),))
        >>> [opinion] = asyncio.run(EmptyFirst(ChecksFirst()).judge(case, [0], ask=None))
        >>> opinion.judgment.verdict, opinion.judgment.judge_id
        (<CriterionVerdict.UNMET: 'UNMET'>, 'empty')
    """

    inside: Judge

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """`empty`, then the ids of the judges inside."""
        return (EMPTY, *self.inside.judge_ids)

    async def judge(self, case: Case, wanted: Sequence[int], ask: Ask) -> list[Opinion]:
        """The opinion on each wanted criterion."""
        if not is_empty(case.submission):
            return await self.inside.judge(case, wanted, ask)
        rest = [index for index in wanted if not _is_binary(case, index)]
        judged = dict(zip(rest, await self.inside.judge(case, rest, ask), strict=True)) if rest else {}
        unmet = Opinion(
            Judgment(
                EMPTY,
                verdict=CriterionVerdict.UNMET,
                reason="The submission holds nothing to judge.",
                flags=("empty",),
            )
        )
        return [judged.get(index, unmet) for index in wanted]


def _is_binary(case: Case, index: int) -> bool:
    """Whether a criterion is a judge's to meet or not: checks decide about nothing as well as about anything."""
    criterion = case.criteria[index]
    return criterion.options is None and criterion.check is None
