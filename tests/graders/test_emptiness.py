from __future__ import annotations

import asyncio
import json

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import JudgeInput
from autorubric.graders.without_model import EmptyFirst, is_empty
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.testing import ScriptedModel
from tests.offenders import each


@each(
    "text",
    [
        "",
        " \n\t",
        "\u200b\ufeff",
        ".",
        ":",
        "...",
        "—",
        "**",
        "#",
        "？！",
        "Solution",
        "Solution:",
        "Thought process:",
        "Answer:",
        "**Final answer:**",
        "The answer is:",
        "Here is my response:",
        "Sure!  Here is the answer:",
        "Certainly! Let's solve this problem step by step.",
        "Let's think step by step",
        "Let us break it down.",
        "I will help you with this.",
        "Step by step:",
        "解",
        "答案：",
        "思考过程：",
        "让我们一步一步地解决这个问题。",
        "好的，答案如下：",
        "Here's the solution:",
        "Sure, here's the answer to your question:",
        "Of course! Below is my response:",
        "Respuesta",
        "かいせつ",
        "好的，下面是我的回答：",
        " ." * 5000,
    ],
)
def test_nothing_and_openers_without_a_sequel_are_empty(text: str) -> None:
    assert is_empty(text)


@each(
    "text",
    [
        "4",
        "x",
        "Yes",
        "No.",
        "Certainly!",
        "Sure",
        "🙂",
        "+",
        "€",
        "B",
        "是",
        "可以",
        "The answer is 4.",
        "Answer: B",
        "Solution: x = 3",
        "Let's go to Rome.",
        "Let me explain: the tide turns.",
        "I can't help with that.",
        "Here is the answer: it depends.",
        "解：四",
        "让我们去罗马。",
        "word " * 5000,
        "好的，答案是四。",
        "以下是三点。",
        "Here's why: gravity.",
        "Below the answer",
    ],
)
def test_short_answers_are_not_empty(text: str) -> None:
    assert not is_empty(text)


def test_an_empty_submission_meets_nothing_and_costs_nothing() -> None:
    options = [CriterionOption(label="Flat", value=0), CriterionOption(label="Deep", value=1)]
    case = JudgeInput(
        "Solution:",
        (
            Criterion(requirement="Names a cause"),
            Criterion(weight=-2, requirement="Invents a source"),
            Criterion(requirement="How deep?", options=options),
        ),
    )
    model = ScriptedModel({"judge": json.dumps({"explanation": "Nothing.", "selected_option": 1})})
    judge = EmptyFirst(CriterionJudge(model))
    assert judge.judge_ids == ("empty", "default")
    with Ledger.in_memory() as ledger:
        judgments = asyncio.run(judge.judge(case, (2, 0, 1), Executor(ledger).ask_for))
    assert [judgment.verdict for judgment in judgments[1:]] == [CriterionVerdict.UNMET] * 2
    assert judgments[1].flags == ("empty",)
    # The choice is the judge's: one call.
    assert judgments[0].option is not None
    assert len(model.requests) == 1
