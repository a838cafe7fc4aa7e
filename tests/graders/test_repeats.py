"""Each judge, each repeat and each call of `grade` is a request of its own, and copies are never votes."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, EscalationConfig, FewShotConfig, LLMConfig, Rubric, RubricDataset
from autorubric.core.judgment import JudgmentFailure
from autorubric.errors import ConfigError
from autorubric.graders import CriterionGrader, JudgeSpec
from autorubric.graders.cascade import Cascade
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import Judge, JudgeInput
from autorubric.graders.panel import Panel, Repeated
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.graders.without_model import ScriptedJudge, Word, no_model
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Request
from autorubric.runs.items_file import dump_report, parse_report
from autorubric.testing import LoopbackEndpoint, PromptSections, ScriptedModel

KIND = Rubric([Criterion(name="Kind", weight=2, requirement="Is kind")])
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
SCALE = Criterion(name="Right", requirement="Is it right?", options=OPTIONS)
BRIEF = Criterion(name="Brief", requirement="Is brief")


def said(verdict: str) -> str:
    return json.dumps({"explanation": f"I say {verdict}.", "criterion_status": verdict})


def in_turn(*verdicts: str) -> Callable[[Any], str]:
    """A replier that says the verdicts one after the other, over and over."""
    turns = itertools.cycle(verdicts)
    return lambda body: said(next(turns))


def one_model(endpoint: LoopbackEndpoint, **settings: Any) -> LLMConfig:
    return LLMConfig("judge", api_base=endpoint.base_url, temperature=0.9, **settings)


async def test_three_judges_of_one_model_are_asked_three_times_and_their_agreement_is_real() -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET", "MET")) as endpoint:
        model = one_model(endpoint)
        grader = CriterionGrader(judges=[JudgeSpec(model, name) for name in "abc"], prefix_first=False)
        report = await KIND.grade("Hello.", grader)
        assert endpoint.counts.requests == 3
    [entry] = report.report
    assert sorted(str(vote.verdict.value) for vote in entry.votes) == ["MET", "MET", "UNMET"]
    assert entry.agreement == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("judges", "asked"),
    [
        (["a", "b", "c"], 0),
        (["a", "b"], 0),
        (["c"], 0),
        (["c", "a", "b"], 0),
        (["a", "b", "c", "d"], 1),
        (["d", "a", "b", "c"], 1),
        (["x", "y", "z"], 0),
    ],
)
async def test_a_changed_panel_asks_only_for_its_further_judges(
    tmp_path: Path, judges: list[str], asked: int
) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET")) as endpoint:
        model = one_model(endpoint)
        for names in (["a", "b", "c"], judges):
            before = endpoint.counts.requests
            grader = CriterionGrader(judges=[JudgeSpec(model, name) for name in names], run_dir=tmp_path)
            await KIND.grade("Hello.", grader)
            grader.close()
        assert (before, endpoint.counts.requests - before) == (3, asked)


async def test_a_judge_of_a_model_that_only_one_judge_asks_keeps_its_reply_in_a_panel(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET")) as endpoint:
        model = one_model(endpoint)
        alone = CriterionGrader(judge_model_config=model, run_dir=tmp_path)
        await KIND.grade("Hello.", alone)
        alone.close()
        both = [JudgeSpec(model, "first"), JudgeSpec(LLMConfig("other", api_base=endpoint.base_url), "second")]
        panel = CriterionGrader(judges=both, run_dir=tmp_path)
        await KIND.grade("Hello.", panel)
        panel.close()
        assert endpoint.counts.requests == 2


async def test_each_judge_and_repeat_of_a_model_with_a_seed_has_a_seed_of_its_own() -> None:
    async with LoopbackEndpoint(replier=in_turn("MET")) as endpoint:
        model = one_model(endpoint, seed=7)
        grader = CriterionGrader(judges=[JudgeSpec(model, name, repeats=2) for name in "abc"], prefix_first=False)
        await KIND.grade("Hello.", grader)
        seeds = sorted(received.body["seed"] for received in endpoint.received)
    assert len(set(seeds)) == 6
    assert seeds[0] == 7
    assert 1007 in seeds  # the second repeat of the first judge: seed + 1000 * draw


async def asked_by(judge: Judge, criteria: Sequence[Criterion], model: ScriptedModel) -> list[Request]:
    with Ledger.in_memory() as ledger:
        case = JudgeInput("It is so.", tuple(criteria))
        judgments = await judge.judge(case, range(len(criteria)), Executor(ledger).ask_for)
        assert [judgment.failure for judgment in judgments] == [None] * len(criteria)
        first = len(model.requests)
        await judge.judge(case, range(len(criteria)), Executor(ledger).ask_for)
        assert len(model.requests) == first, "a second session asks nothing"
    return model.requests


def reply_to(request: Request) -> str:
    shown = PromptSections(request)
    if ids := [name for name, _, _ in shown.criteria]:
        return json.dumps({"judgments": [{"criterion_id": name, **json.loads(said("MET"))} for name in ids]})
    if "options" in shown:
        return json.dumps({"explanation": "So it is.", "selected_option": "Yes"})
    return said("MET")


@pytest.mark.parametrize(
    ("made", "calls"),
    [
        (lambda judge: Panel([judge("a"), judge("b"), judge("c")]), 3),
        (lambda judge: Panel([Panel([judge("a"), judge("b")]), judge("c")]), 3),
        (lambda judge: Panel([judge("a"), Panel([judge("b"), Repeated(judge("c"), 2)])]), 4),
        (lambda judge: Panel([Repeated(judge("a"), 3), Repeated(judge("b"), 2)]), 5),
        (lambda judge: Cascade(judge("a"), judge("b"), threshold=0.5), 2),
        (lambda judge: Cascade(Panel([judge("a"), judge("b")]), judge("c"), threshold=1.0), 2),
    ],
    ids=["panel", "panel in a panel", "repeats in a panel in a panel", "two repeated", "cascade", "agreed cascade"],
)
@pytest.mark.parametrize("kind", [CriterionJudge, RubricJudge])
async def test_each_judge_in_any_composition_has_a_request_of_its_own(
    made: Callable[[Callable[[str], Judge]], Judge], calls: int, kind: type[CriterionJudge] | type[RubricJudge]
) -> None:
    model = ScriptedModel(reply_to)
    requests = await asked_by(made(lambda name: kind(model, name)), [BRIEF], model)
    assert len(requests) == calls
    assert len({(request.draw, request.seat) for request in requests}) == calls
    assert (0, 0) in {(request.draw, request.seat) for request in requests}


async def test_judges_whose_prompts_differ_all_keep_the_key_of_a_judge_alone() -> None:
    # Options are shown to each judge in an order of its own: with 6 the orders of three judges differ.
    options = [{"label": f"Option {letter}", "value": 0.5} for letter in "pqrstu"]
    choice = Criterion(requirement="Which?", options=[*options[:-1], {"label": "Yes", "value": 1.0}])
    model = ScriptedModel(reply_to)
    requests = await asked_by(Panel([CriterionJudge(model, name) for name in "abc"]), [choice], model)
    assert len({request.messages for request in requests}) == 3
    assert [request.seat for request in requests] == [0, 0, 0]


async def test_a_criterion_that_a_rubric_has_twice_is_asked_about_once_by_each_judge() -> None:
    model = ScriptedModel(reply_to)
    requests = await asked_by(Panel([CriterionJudge(model, name) for name in "ab"]), [BRIEF, BRIEF], model)
    assert sorted(request.seat for request in requests) == [0, 1]


async def grade_by(words: Sequence[Word], criterion: Criterion) -> Any:
    turns = iter(words)
    judge = Repeated(ScriptedJudge("a", lambda case, index: next(turns), weight=2.0), len(words))
    [judgment] = await judge.judge(JudgeInput("Yes.", (criterion,)), [0], no_model)
    assert judgment.votes == ()
    return judgment


@pytest.mark.parametrize(
    ("words", "criterion", "verdict", "confidence"),
    [
        (["MET", "UNMET", "MET"], BRIEF, "MET", 2 / 3),
        (["MET", "UNMET"], BRIEF, "UNMET", 0.5),  # a tie goes to what scores least
        (["MET", "UNMET"], Criterion(weight=-1, requirement="Invents"), "MET", 0.5),
        (["CANNOT_ASSESS", "MET", "CANNOT_ASSESS"], BRIEF, "MET", 1 / 3),  # abstentions do not vote
        (["CANNOT_ASSESS"] * 2, BRIEF, "CANNOT_ASSESS", None),
        (["MET", "UNMET", "UNMET"], Criterion(requirement="Is brief", aggregation="any"), "UNMET", 2 / 3),
    ],
)
async def test_the_repeats_of_a_judge_are_one_vote_by_majority(
    words: list[Word], criterion: Criterion, verdict: str, confidence: float | None
) -> None:
    vote = await grade_by(words, criterion)
    assert (vote.judge_id, vote.weight, vote.verdict) == ("a", 2.0, CriterionVerdict(verdict))
    assert vote.confidence == (None if confidence is None else pytest.approx(confidence))
    assert [each.verdict.value for each in vote.repeats] == words


async def test_ordered_options_come_to_their_mean_and_others_to_the_most_frequent() -> None:
    # (0 + 1 + 1) / 3; of the options 0, 0.5 and 1 the middle one is nearest.
    vote = await grade_by([0, 2, 2], SCALE)
    assert (vote.option, vote.value) == (1, pytest.approx(2 / 3))
    vote = await grade_by([0, 2, 2], SCALE.model_copy(update={"scale_type": "nominal"}))
    assert (vote.option, vote.value) == (2, 1.0)


async def test_a_repeat_that_failed_fails_the_vote_and_is_named() -> None:
    vote = await grade_by(["MET", JudgmentFailure("infrastructure", "timeout: no reply"), "MET"], BRIEF)
    assert vote.verdict is None
    assert str(vote.failure) == (
        "infrastructure: 1 of 3 repeats failed where all are needed: a#2: infrastructure: timeout: no reply"
    )


def test_repeats_are_a_number_from_1_to_100_and_of_simple_judges() -> None:
    for wrong in (0, 101, 1.5, True, "3"):
        with pytest.raises(ConfigError, match=r"judge 'a' has repeats=.*; expected a whole number from 1 to 100"):
            JudgeSpec(LLMConfig("openai/gpt-5.1"), "a", repeats=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="judges a, b cannot be repeated together"):
        Repeated(Panel([ScriptedJudge("a", []), ScriptedJudge("b", [])]), 2)


async def test_reports_keep_every_repeat_and_count_one_vote_a_judge() -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "MET", "UNMET")) as endpoint:
        judges = [JudgeSpec(one_model(endpoint), "a", repeats=3), JudgeSpec(LLMConfig("builtin/offline"), "b")]
        report = await KIND.grade("Hello.", CriterionGrader(judges=judges))
        assert endpoint.counts.requests == 3
    [entry] = report.report
    assert [vote.judge_id for vote in entry.votes] == ["a", "b"]
    repeats = entry.votes[0].repeats
    assert [each.judge_id for each in repeats] == ["a#1", "a#2", "a#3"]
    assert sorted(each.verdict.value for each in repeats if each.verdict) == ["MET", "MET", "UNMET"]
    assert set(report.judge_scores) == {"a", "b"}
    assert parse_report(json.loads(dump_report(report))) == report


async def test_tokens_and_cost_of_all_repeats_are_in_the_report() -> None:
    model = ScriptedModel({"judge": said("MET")}, price=(1.0, 1.0))
    once = CriterionGrader(judge=CriterionJudge(model, "a"))
    thrice = CriterionGrader(judge=Repeated(CriterionJudge(model, "a"), 3))
    one, three = await KIND.grade("Hello.", once), await KIND.grade("Hello.", thrice)
    assert one.token_usage is not None and three.token_usage is not None
    assert three.token_usage.total_tokens == 3 * one.token_usage.total_tokens
    assert three.completion_cost == pytest.approx(3 * (one.completion_cost or 0.0))


@pytest.mark.parametrize(("first", "then", "asked"), [(3, 3, 0), (3, 5, 2), (5, 3, 0), (1, 3, 2)])
async def test_another_number_of_repeats_asks_only_for_those_that_are_missing(
    tmp_path: Path, first: int, then: int, asked: int
) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET")) as endpoint:
        for repeats in (first, then):
            before = endpoint.counts.requests
            spec = JudgeSpec(one_model(endpoint), "a", repeats=repeats)
            grader = CriterionGrader(judges=[spec], run_dir=tmp_path)
            await KIND.grade("Hello.", grader)
            grader.close()
        assert (before, endpoint.counts.requests - before) == (first, asked)


async def test_after_a_failed_repeat_only_that_one_is_asked_again(tmp_path: Path) -> None:
    broken = {1}

    def say(request: Request) -> str | Failure:
        return Failure("timeout", "no reply after 60 s") if request.draw in broken else said("MET")

    for expected in (None, 1.0):
        model = ScriptedModel(say)
        grader = CriterionGrader(judge=Repeated(CriterionJudge(model, "a"), 3), run_dir=tmp_path)
        assert (await KIND.grade("Hello.", grader)).score == expected
        grader.close()
        assert sorted(request.draw for request in model.requests) == ([0, 1, 2] if expected is None else [1])
        broken.clear()


async def test_examples_are_shown_in_every_repeat_and_each_repeat_is_asked() -> None:
    labelled = RubricDataset("Explain.", KIND)
    labelled.add_item("Good day to you.", "kind", [CriterionVerdict.MET])
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET", "UNMET")) as endpoint:
        grader = CriterionGrader(
            judges=[JudgeSpec(one_model(endpoint), "a", repeats=3)],
            training_data=labelled,
            few_shot_config=FewShotConfig(n_examples=1),
        )
        report = await KIND.grade("Hello.", grader, "Explain.")
        assert endpoint.counts.requests == 3
        assert all("Good day to you." in str(received.body) for received in endpoint.received)
    assert report.score == 0.0


@pytest.mark.parametrize(("threshold", "escalated"), [(None, True), (0.6, False), (0.9, True)])
async def test_a_judge_that_disagrees_with_itself_is_split_for_a_cascade(
    threshold: float | None, escalated: bool
) -> None:
    # Two of three say MET: split, and a confidence of 2/3.
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET", "MET", "UNMET")) as endpoint:
        model = one_model(endpoint)
        grader = CriterionGrader(
            judges=[JudgeSpec(model, "small", repeats=3)],
            escalation=EscalationConfig([JudgeSpec(model, "strong")], threshold),
            prefix_first=False,
        )
        report = await KIND.grade("Hello.", grader)
        assert endpoint.counts.requests == (4 if escalated else 3)
    [entry] = report.report
    assert (entry.escalated, entry.final_verdict) == (escalated, "UNMET" if escalated else "MET")


def test_repeats_at_temperature_0_are_warned_of() -> None:
    cold = LLMConfig("openai/gpt-5.1", temperature=0.0, api_key="sk-test")
    with pytest.warns(UserWarning, match="judge 'a' is asked 3 times at temperature 0"):
        CriterionGrader(judges=[JudgeSpec(cold, "a", repeats=3)])
    CriterionGrader(judges=[JudgeSpec(cold, "a")])  # warnings are errors here


@pytest.mark.parametrize(("recorded", "calls"), [(False, 6), (True, 1)])
async def test_the_same_text_graded_again_is_asked_again_unless_replies_are_recorded(
    tmp_path: Path, recorded: bool, calls: int
) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET")) as endpoint:
        model = one_model(endpoint, seed=3)
        grader = CriterionGrader(judge_model_config=model, run_dir=tmp_path if recorded else None)
        for _ in range(3):
            await KIND.grade("Hello.", grader)
        await asyncio.gather(*(KIND.grade("Hello.", grader) for _ in range(3)))
        assert endpoint.counts.requests == calls
        seeds = {received.body["seed"] for received in endpoint.received}
        grader.close()
    assert len(seeds) == calls
    assert 3 in seeds


async def test_a_cache_directory_in_the_configuration_records_too(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET")) as endpoint:
        model = one_model(endpoint, cache_enabled=True, cache_dir=tmp_path)
        grader = CriterionGrader(judge_model_config=model)
        scores = [(await KIND.grade("Hello.", grader)).score for _ in range(3)]
        grader.close()
        assert (scores, endpoint.counts.requests) == ([1.0] * 3, 1)


async def test_a_judge_beside_a_repeated_one_of_its_model_costs_one_call_wherever_it_stands(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=in_turn("MET", "UNMET")) as endpoint:
        model = one_model(endpoint)
        often, once = JudgeSpec(model, "a", repeats=3), JudgeSpec(model, "b")
        totals = []
        for judges in ([often], [often, once], [once, often], [once]):
            grader = CriterionGrader(judges=judges, run_dir=tmp_path)
            await KIND.grade("Hello.", grader)
            grader.close()
            totals.append(endpoint.counts.requests)
    assert totals == [3, 4, 4, 4]
