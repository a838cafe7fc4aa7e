from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autorubric.checks import CheckContext, CheckOutcome, check
from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict
from autorubric.errors import InputError
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import JudgeInput
from autorubric.graders.without_model import ChecksFirst
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.testing import ScriptedModel

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET
SHORT = Criterion(
    name="Short", requirement="At most 3 words", check={"name": "word_count", "parameters": {"at_most": 3}}
)
ENGLISH = Criterion(
    name="English", requirement="Is English", check={"name": "language", "parameters": {"code": "en"}}
)
POLITE = Criterion(name="Polite", requirement="Is polite")


async def never(*_: Any) -> Any:
    raise AssertionError("a check needs no model")


def test_checks_decide_at_no_cost_and_the_judge_gets_the_rest() -> None:
    model = ScriptedModel({"judge": '{"explanation": "It greets.", "criterion_status": "MET"}'})
    judge = ChecksFirst(CriterionJudge(model))
    assert judge.judge_ids == ("check", "default")
    with Ledger.in_memory() as ledger:
        case = JudgeInput("Good day to you.", (SHORT, POLITE))
        first, second = asyncio.run(judge.judge(case, (0, 1), Executor(ledger).ask_for))
    assert (first.judge_id, first.verdict) == ("check", UNMET)
    assert first.reason == "4 words; expected at most 3"
    assert first.cost is None
    assert first.usage is None
    assert (second.judge_id, second.verdict) == ("default", MET)
    assert len(model.requests) == 1


def test_a_check_that_cannot_decide_is_a_mistake_and_not_unmet() -> None:
    (judgment,) = asyncio.run(ChecksFirst().judge(JudgeInput("123", (ENGLISH,)), (0,), never))
    assert judgment.verdict is None and judgment.failure is not None
    assert judgment.failure.category == "check"
    assert "has too little text to detect its language" in judgment.failure.message


def test_an_error_in_a_check_fails_its_criterion_alone() -> None:
    @check("fails")
    def fails(text: str) -> CheckOutcome:
        raise KeyError(text)

    @check("says_true")
    def says_true(text: str) -> Any:
        return bool(text)

    wrong = [Criterion(requirement="?", check={"name": name}) for name in ("fails", "says_true")]
    first, second, third = asyncio.run(ChecksFirst().judge(JudgeInput("So.", (*wrong, SHORT)), (0, 1, 2), never))
    assert [one.failure and (one.failure.category, one.failure.message) for one in (first, second)] == [
        ("check", "check 'fails' cannot decide: KeyError: 'So.'"),
        ("check", "check 'says_true' cannot decide: TypeError: it returned True; expected a CheckOutcome"),
    ]
    assert third.verdict is MET


def test_a_judge_that_returns_something_else_than_judgments_is_named() -> None:
    class Odd:
        judge_ids = ("odd",)

        def __init__(self, made: Any) -> None:
            self.made = made

        async def judge(self, *_: Any) -> Any:
            """Whatever it was given."""
            return self.made

    for made, shown in ((None, "None"), ([True], r"\[True\]"), ([], r"\[\]")):
        with pytest.raises(TypeError, match=f"^Odd.judge returned {shown}; expected a Judgment for each requested"):
            asyncio.run(ChecksFirst(Odd(made)).judge(JudgeInput("So.", (POLITE,)), (0,), never))


def test_a_rubric_of_checks_needs_no_judge() -> None:
    judge = ChecksFirst()
    judge.check_rubric([SHORT, ENGLISH])
    judgments = asyncio.run(judge.judge(JudgeInput("This is English", (SHORT, ENGLISH)), (1, 0), never))
    assert [judgment.verdict for judgment in judgments] == [MET, MET]


def test_what_cannot_be_decided_is_refused_before_anything_runs() -> None:
    unknown = Criterion(name="Odd", requirement="?", check={"name": "word_cuont"})
    options = [CriterionOption(label="No", value=0), CriterionOption(label="Yes", value=1)]
    chosen = Criterion(name="Choice", requirement="?", options=options, check={"name": "word_count"})
    with pytest.raises(InputError) as caught:
        ChecksFirst().check_rubric([SHORT, POLITE, unknown, chosen])
    problems = caught.value.problems
    assert problems[0] == "criterion 'Polite': no check, and no judge is set; pass --judge MODEL (Python: judge=)"
    assert problems[1].startswith("criterion 'Odd': unknown check 'word_cuont'")
    assert problems[2] == "criterion 'Choice' has options and a check; a check decides binary criteria only"
    with pytest.raises(InputError, match="'Polite': no check"):
        asyncio.run(ChecksFirst().judge(JudgeInput("Hello.", (SHORT, POLITE)), (0, 1), never))


def test_many_criteria_without_judge_are_one_line() -> None:
    with pytest.raises(InputError) as caught:
        ChecksFirst().check_rubric([Criterion(name=name, requirement="Is good") for name in "abcde"])
    assert str(caught.value).splitlines()[1:] == [
        "  criterion 'a', criterion 'b', criterion 'c' and 2 more: no check, and no judge is set; "
        "pass --judge MODEL (Python: judge=)"
    ]
    same = [f"{name} needs a judge; pass --judge (Python: judge=)" for name in "abcde"]
    assert str(InputError(same)).splitlines()[1:] == [f"  {problem}" for problem in same]


def test_checks_get_their_context() -> None:
    tokens = Criterion(requirement="Few", check={"name": "token_count", "parameters": {"at_most": 2}})
    judge = ChecksFirst(context=CheckContext(tokenizer=str.split))
    (judgment,) = asyncio.run(judge.judge(JudgeInput("one two", (tokens,)), (0,), never))
    assert judgment.verdict is MET


def test_between_checks_other_tasks_get_their_turn() -> None:
    """A pattern may take a second; without a turn, a service with twenty of them answers nobody for twenty."""
    turns: list[int] = []

    async def count() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def judge() -> None:
        other = asyncio.create_task(count())
        await ChecksFirst().judge(JudgeInput("Good day.", (SHORT,) * 20), range(20), never)
        other.cancel()

    asyncio.run(judge())
    assert len(turns) == 20
