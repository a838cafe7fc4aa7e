"""What holds for every composition of judges, and the whole way from a model's replies to a report."""

import asyncio
import json
import os
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric import CannotAssessConfig, CannotAssessStrategy, Criterion
from autorubric.core.judgment import JudgmentFailure
from autorubric.core.report import EnsembleEvaluationReport, score_reports
from autorubric.graders.cascade import Cascade
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import Judge, JudgeInput
from autorubric.graders.panel import Panel, make_draws
from autorubric.graders.reporting import Scoring, report_on
from autorubric.graders.without_model import ScriptedJudge, Word, no_model
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Request
from autorubric.testing import ScriptedModel

LOST = JudgmentFailure("parse", "the reply holds no verdict")
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
BINARY_WORDS: list[Word] = ["MET", "UNMET", "CANNOT_ASSESS", LOST]
OPTION_WORDS: list[Word] = [0, 1, 2, 3, LOST]
SCALES: list[Any] = [None, "ordinal", "nominal"]


def criterion(scale: Any, weight: float) -> Criterion:
    fields: dict[str, Any] = {"requirement": "r", "weight": weight}
    return Criterion.model_validate(fields if scale is None else fields | {"options": OPTIONS, "scale_type": scale})


@st.composite
def gradings(draw: st.DrawFn) -> tuple[JudgeInput, Judge, Scoring]:
    shapes = draw(st.lists(st.sampled_from(SCALES), min_size=1, max_size=4))
    weights = st.sampled_from([10.0, 3.0, 0.0, -4.0])
    criteria = tuple(criterion(shape, draw(weights)) for shape in shapes)
    count = iter(range(100))

    def simple() -> Judge:
        words = [draw(st.sampled_from(BINARY_WORDS if shape is None else OPTION_WORDS)) for shape in shapes]
        return ScriptedJudge(f"j{next(count)}", words)

    def judge(depth: int) -> Judge:
        kind = draw(st.sampled_from(["simple", "panel", "cascade"])) if depth else "simple"
        if kind == "simple":
            return simple()
        if kind == "cascade":
            return Cascade(judge(depth - 1), judge(depth - 1), draw(st.sampled_from([None, 0.6])))
        inner = [judge(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        return Panel(
            inner, quorum=draw(st.integers(1, len(inner))), nominal=draw(st.sampled_from(["mode", "unanimous"]))
        )

    config = CannotAssessConfig(strategy=draw(st.sampled_from(list(CannotAssessStrategy))))
    return JudgeInput("Yes.", criteria), judge(2), Scoring(config, on_failure=draw(st.sampled_from(["none", "skip"])))


def ran(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing but its like."""
    return asyncio.run(coroutine)


@settings(max_examples=int(os.environ.get("AUTORUBRIC_EXAMPLES", "60")), deadline=None)
@given(gradings())
def test_every_report_keeps_its_promises(grading: tuple[JudgeInput, Judge, Scoring]) -> None:
    case, judge, scoring = grading
    report = report_on(case, ran(judge.judge(case, range(len(case.criteria)), no_model)), scoring)
    entries = report.report or []
    failed = [entry for entry in entries if entry.is_error]
    judged = [entry for entry in entries if not entry.is_error]
    assert report.failed_count == len(failed)
    assert report.score is None or 0.0 <= report.score <= 1.0
    if failed and scoring.on_failure == "none":
        assert report.score is None
        assert report.error is not None
    elif any(entry.criterion.weight > 0 for entry in failed) and not any(
        entry.cell.weight > 0 and (entry.score_value is not None or scoring.cannot_assess.strategy.value != "skip")
        for entry in judged
    ):
        assert (report.score, report.error is None) == (None, False)
    else:
        assert report.score == score_reports(judged, scoring.cannot_assess)
        assert (report.error is not None) == (bool(failed) and report.score is None)
    for entry in entries:
        assert sum((entry.is_error, entry.is_na, entry.score_value is not None)) == 1
        assert 0.0 <= entry.agreement <= 1.0
        old = [vote.superseded for vote in entry.votes] + [vote.superseded for vote in entry.multi_choice_votes]
        assert not all(old)
        assert entry.escalated == any(old)
    assert set(report.judge_scores) <= set(judge.judge_ids)
    again = EnsembleEvaluationReport.model_validate(json.loads(report.model_dump_json()))
    assert again == report


def verdict(status: str) -> str:
    return json.dumps({"explanation": "So it is.", "criterion_status": status})


CRITERIA = (
    Criterion(name="causes", weight=6, requirement="Names two causes"),
    Criterion(name="lie", weight=-3, requirement="Invents a source"),
    Criterion.model_validate({"name": "depth", "weight": 4, "requirement": "How deep is it?", "options": OPTIONS}),
)


def small(request: Request) -> str | Failure:
    """Sure of the causes; of two minds about the lie; shallow on the depth."""
    prompt = request.messages[-1].content
    if "Names two causes" in prompt:
        return verdict("MET")
    if "Invents a source" in prompt:
        return verdict("MET" if request.draw == 1 else "UNMET")
    return option(prompt, "Partly")


def big(request: Request) -> str | Failure:
    return verdict("UNMET")


def option(prompt: str, label: str) -> str:
    """The reply that chooses a label, by the number it is shown under."""
    shown = re.search(rf"(\d+)\W+{label}", prompt)
    assert shown is not None, prompt
    return json.dumps({"explanation": "So it is.", "selected_option": int(shown[1])})


async def graded(judge: Judge, ledger: Ledger) -> EnsembleEvaluationReport:
    case = JudgeInput("Coal and canals.", CRITERIA, query="Why did it begin?")
    return report_on(case, await judge.judge(case, range(len(CRITERIA)), Executor(ledger).ask_for))


def cascade(first: ScriptedModel, then: ScriptedModel) -> Cascade:
    draws = Panel(make_draws(CriterionJudge(first, "small"), 3))
    return Cascade(draws, CriterionJudge(then, "big"))


async def test_three_draws_in_front_of_a_strong_judge_ask_it_only_where_they_differ() -> None:
    first, then = ScriptedModel(small, "small", price=(1.0, 2.0)), ScriptedModel(big, "big", price=(10.0, 20.0))
    with Ledger.in_memory() as ledger:
        report = await graded(cascade(first, then), ledger)
        paid = len(first.requests), len(then.requests)
        again = await graded(cascade(first, then), ledger)
    # Met 6 of 6, no lie, half of 4: (6 + 2) / 10.
    assert report.score == 0.8
    assert paid == (9, 1)
    assert (len(first.requests), len(then.requests)) == paid  # the second time everything is in the ledger
    assert again == report
    assert report.report is not None
    assert [entry.escalated for entry in report.report] == [False, True, False]
    assert [vote.judge_id for vote in report.report[1].votes] == ["small#1", "small#2", "small#3", "big"]
    spent = sum(model.cost(row) or 0 for model, row in await usages(first, then))
    assert abs((report.completion_cost or 0) - spent) < 1e-12


async def usages(*models: ScriptedModel) -> list[tuple[ScriptedModel, Any]]:
    """What each recorded request costs, asked of the scripts again."""
    return [(model, (await model.complete(asked)).usage) for model in models for asked in list(model.requests)]


async def test_a_strong_judge_that_is_down_leaves_a_failure_and_no_score() -> None:
    down = ScriptedModel(lambda request: Failure("server", "the endpoint answered 503", 503), "big")
    with Ledger.in_memory() as ledger:
        report = await graded(cascade(ScriptedModel(small, "small"), down), ledger)
        assert report.score is None
        assert report.failed_count == 1
        assert report.error is not None
        assert report.error.startswith("1 of 3 criteria failed: infrastructure: ")
        healthy = await graded(cascade(ScriptedModel(small, "small"), ScriptedModel(big, "big")), ledger)
    assert healthy.score == 0.8
