"""Programs of AutoRubric 1.6 replace `LLMClient`, or its `generate`, in their tests; nothing is sent then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autorubric import Criterion, CriterionGrader, CriterionOption, CriterionVerdict, JudgeSpec, LLMConfig, Rubric
from autorubric.core.judgment import CriterionJudgment, MultiChoiceJudgment, RubricCriterionJudgment, RubricJudgment
from autorubric.core.usage import TokenUsage
from autorubric.graders import criterion_grader
from autorubric.llm.client import GenerateResult, LLMClient

MET = CriterionVerdict.MET
PLACE = LLMConfig("openai/gpt-5.1", api_base="http://127.0.0.1:9/v1")  # the port that nothing listens on
TIDES = Rubric(
    [
        Criterion(name="moon", weight=3, requirement="Names the moon"),
        Criterion(
            name="depth",
            weight=1,
            requirement="How deep does it go?",
            options=[CriterionOption(label="Not", value=0.0), CriterionOption(label="Deep", value=1.0)],
        ),
    ]
)


class Client:
    """What a program puts in the place of `LLMClient`."""

    asked: ClassVar[list[tuple[str, type[Any] | None]]] = []

    def __init__(self, config: LLMConfig) -> None:
        self.model = config.model

    async def generate(
        self, system_prompt: str, user_prompt: str, response_format: Any = None, return_result: bool = False
    ) -> Any:
        self.asked.append((user_prompt, response_format))
        parsed: Any = CriterionJudgment(explanation=f"{self.model} saw it", criterion_status=MET, reasoning="Hm.")
        if response_format is MultiChoiceJudgment:
            parsed = MultiChoiceJudgment(explanation="deep", selected_option=2)
        if response_format is RubricJudgment:
            parsed = RubricJudgment(
                judgments=[
                    RubricCriterionJudgment(criterion_id="c0", criterion_status=MET, explanation="named"),
                    RubricCriterionJudgment(criterion_id="c1", selected_option=1, explanation="shallow"),
                ]
            )
        assert return_result
        return GenerateResult("{}", usage=TokenUsage(7, 3, 10), cost=0.25, parsed=parsed)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(criterion_grader, "LLMClient", Client)
    Client.asked.clear()
    return Client


def test_a_replaced_client_is_asked_about_each_criterion(client: type[Client]) -> None:
    report = TIDES.grade_sync("The moon pulls.", CriterionGrader(judge_model_config=PLACE, shuffle_options=False))
    assert report.score == 1.0
    shapes: list[Any] = [CriterionJudgment, MultiChoiceJudgment]
    assert [shape for _, shape in client.asked] == shapes
    assert "Names the moon" in client.asked[0][0]
    assert report.report is not None
    assert report.report[0].final_reason == "openai/gpt-5.1 saw it"
    assert report.token_usage == TokenUsage(14, 6, 20)
    assert report.completion_cost == 0.5


def test_a_grader_keeps_the_client_that_it_was_made_with(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = [JudgeSpec(LLMConfig(f"openai/{name}"), name) for name in ("a", "b")]
    grader = CriterionGrader(judges=panel, llm_calls="per_item", shuffle_options=False)
    monkeypatch.undo()
    report = TIDES.grade_sync("The moon pulls.", grader)
    assert (report.score, report.judge_scores) == (0.75, {"a": 0.75, "b": 0.75})


def test_a_replaced_method_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def generate(self: LLMClient, **asked: Any) -> CriterionJudgment:
        return CriterionJudgment(explanation=self.config.model, criterion_status=MET)

    monkeypatch.setattr(LLMClient, "generate", generate)
    grader = CriterionGrader(judge_model_config=PLACE)
    report = Rubric(TIDES[:1]).grade_sync("The moon pulls.", grader)
    assert report.score == 1.0


def test_an_exception_of_a_client_is_a_failed_judgment(client: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [ValueError("no JSON"), TimeoutError("too slow"), RuntimeError("broken")]

    async def generate(self: Client, **asked: Any) -> Any:
        raise errors[len(told)]

    monkeypatch.setattr(client, "generate", generate)
    told: list[tuple[Any, ...]] = []
    for _ in range(3):
        report = Rubric(TIDES[:1]).grade_sync("The moon pulls.", CriterionGrader(judge_model_config=PLACE))
        assert report.report is not None
        told.append((report.score, report.report[0].final_verdict, report.report[0].error))
    assert told == [
        (None, None, "parse: unreadable: LLMClient.generate: ValueError: no JSON"),
        (None, None, "infrastructure: server: LLMClient.generate: TimeoutError: too slow"),
        (None, None, "infrastructure: server: LLMClient.generate: RuntimeError: broken"),
    ]


def test_replies_of_a_client_are_recorded_as_its_own(client: type[Client], tmp_path: Path) -> None:
    rubric = Rubric(TIDES[:1])

    async def twice() -> list[float | None]:
        grader = CriterionGrader(judge_model_config=PLACE, run_dir=tmp_path)
        scores = [(await rubric.grade("The moon pulls.", grader)).score for _ in range(2)]
        await grader.aclose()
        return scores

    assert asyncio.run(twice()) == [1.0, 1.0]
    assert len(client.asked) == 1


def test_a_model_is_exchanged_and_a_weight_checked_again() -> None:
    spec = JudgeSpec(PLACE, "strict")
    spec.judge_model_config = LLMConfig("openai/other")
    assert spec.llm_config.model == "openai/other"
    spec.weight = 0
    with pytest.raises(ValueError, match="judge 'strict' has weight=0; expected a finite number above 0"):
        CriterionGrader(judges=[spec, JudgeSpec(PLACE, "b")])
