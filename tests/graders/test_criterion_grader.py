"""The published front: what it refuses, what it is made of, and where it works."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from autorubric import (
    ConfigError,
    Criterion,
    CriterionVerdict,
    EscalationConfig,
    LengthPenalty,
    LLMConfig,
    Rubric,
    RubricDataset,
    evaluate_sync,
)
from autorubric.graders import CriterionGrader, Grader, JudgeSpec
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.few_shot import FewShotConfig
from autorubric.testing import LoopbackEndpoint, PromptSections, ScriptedModel
from tests.offenders import each

MODEL = LLMConfig("builtin/offline")
MET = '{"explanation": "It is there.", "criterion_status": "MET"}'
KIND = Rubric([Criterion(name="Kind", weight=2, requirement="Is kind")])


class OwnFormat(BaseModel):
    explanation: str
    criterion_status: CriterionVerdict
    affected_criteria: list[int]


@each(
    ("settings", "message"),
    [
        ({}, "no judge; pass judge_model_config, judges or judge"),
        ({"judge": "openai/m"}, "judge is 'openai/m'; expected an object with judge_ids and judge; a model is a"),
        (
            {"judge": CriterionJudge},
            "judge is <class .*CriterionJudge'>; expected an object with judge_ids and judge",
        ),
        ({"judge_model_config": MODEL, "judges": [JudgeSpec(MODEL, "a")]}, "are given; pass only one of them"),
        ({"judge_model_config": MODEL, "llm_config": MODEL}, "are the same setting"),
        ({"judges": []}, "judges is an empty list"),
        ({"judges": [MODEL]}, r"judges\[0\] is of type LLMConfig; expected JudgeSpec"),
        ({"judges": [JudgeSpec(MODEL, "a"), JudgeSpec(MODEL, "a")]}, "two judges have the id 'a'"),
        ({"judge_model_config": MODEL, "aggregation": "majorty"}, "did you mean 'majority'"),
        ({"judge_model_config": MODEL, "ordinal_aggregation": "meen"}, "did you mean 'mean'"),
        ({"judge_model_config": MODEL, "nominal_aggregation": "mod"}, "did you mean 'mode'"),
        ({"judge_model_config": MODEL, "llm_calls": "per_items"}, "did you mean 'per_item'"),
        ({"judge_model_config": MODEL, "on_failure": "zero"}, "a failure is never a zero"),
        ({"judge_model_config": MODEL, "max_in_flight": 0}, "max_in_flight=0"),
        ({"judge_model_config": MODEL, "budget_usd": -1.0}, "a budget of -1.0 dollars"),
        ({"judge_model_config": MODEL, "binary_response_format": dict}, "is not a pydantic model class"),
        (
            {"judge_model_config": MODEL, "binary_response_format": OwnFormat, "llm_calls": "per_item"},
            "response formats are for one criterion",
        ),
        ({"judge_model_config": MODEL, "quorum": 2}, "quorum=2; expected a whole number from 1 to the one judge"),
        ({"judges": [JudgeSpec(MODEL, "a"), JudgeSpec(MODEL, "b")], "quorum": 3}, "from 1 to the 2 judges"),
        (
            {
                "judges": [
                    JudgeSpec(LLMConfig("m", cache_enabled=True, cache_dir=name), name) for name in ("one", "two")
                ]
            },
            r"judges have different cache folders \(one, two\)",
        ),
        ({"judge_model_config": MODEL, "seed": "a"}, "seed='a'; expected a whole number"),
        ({"judge_model_config": MODEL, "length_penalty": 0.5}, "length_penalty is of type float"),
        ({"judge_model_config": MODEL, "cannot_assess_config": "fail"}, "expected CannotAssessConfig"),
        ({"judge_model_config": MODEL, "training_data": RubricDataset("Explain.", KIND)}, "no ground truth"),
        (
            {"judge_model_config": MODEL, "escalation": EscalationConfig([JudgeSpec(MODEL, "default")], 0.5)},
            "two judges have the id 'default'",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_at_construction(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CriterionGrader(**settings)


@each(
    ("arguments", "message"),
    [
        ({}, "judge 'a' needs one of judge_model_config and llm_config"),
        ({"judge_model_config": MODEL, "llm_config": MODEL}, "judge 'a' needs one of"),
        ({"judge_model_config": 3}, "judge 'a' has a model of type int; expected LLMConfig or a string"),
        ({"judge_model_config": MODEL, "judge_id": " "}, "judge_id=' '; expected a non-empty string"),
        ({"judge_model_config": MODEL, "repeats": 0}, "judge 'a' has repeats=0; expected a whole number from 1"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        JudgeSpec(**{"judge_id": "a", **arguments})


@each("threshold", [-0.1, 1.1, float("nan"), "0.5", True])
def test_a_threshold_is_a_number_from_0_to_1_before_anything_is_asked(threshold: Any) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        EscalationConfig(MODEL, threshold)
    with pytest.raises(ValueError, match=r"per_criterion\['Causes'\]="):
        EscalationConfig(MODEL, 0.5, {"Causes": threshold})


@each("weight", [0, -1, float("nan"), float("inf"), True, "2"])
def test_a_judges_weight_is_a_positive_number(weight: Any) -> None:
    with pytest.raises(ValueError, match="expected a finite number above 0"):
        JudgeSpec(MODEL, "a", weight)


def test_the_old_name_of_the_model_still_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="judge_model_config"):
        assert CriterionGrader(llm_config=MODEL).judge_ids == ["default"]


def test_the_published_properties_say_what_it_is_made_of() -> None:
    one = CriterionGrader(judge_model_config=MODEL)
    assert (one.is_ensemble, one.judge_ids, one.has_few_shot) == (False, ["default"], False)
    assert CriterionGrader(judge_model_config=MODEL).seed == one.seed
    assert one.seed == 0  # another default would ask again for all that is recorded
    assert one.run_dir is None
    assert one.recipe.options.shuffle_options and one.recipe.options.auto_na_option
    data = RubricDataset("Explain.", KIND)
    data.add_item("Hello.", "kind", [CriterionVerdict.MET])
    two = CriterionGrader(
        judges=[JudgeSpec(MODEL, "a"), JudgeSpec(judge_model_config=MODEL, judge_id="b", weight=2)],
        training_data=data,
        few_shot_config=FewShotConfig(n_examples=1),
        seed=5,
    )
    assert (two.is_ensemble, two.judge_ids, two.has_few_shot, two.seed) == (True, ["a", "b"], True, 5)
    assert isinstance(two, Grader)


async def test_the_published_call_grades_with_every_judge_in_the_report() -> None:
    grader = CriterionGrader(judges=[JudgeSpec(MODEL, "a"), JudgeSpec(MODEL, "b")])
    rubric = Rubric([Criterion(weight=2, requirement="Contains at most 5 words.")])
    report = await rubric.grade(to_grade="Because of the moon.", grader=grader, query="Why tides?")
    assert (report.score, report.judge_scores, report.mean_agreement) == (1.0, {"a": 1.0, "b": 1.0}, 1.0)
    assert [vote.judge_id for vote in report.report[0].votes] == ["a", "b"]


async def test_whole_rubrics_can_be_judged_in_one_call() -> None:
    rubric = Rubric([Criterion(requirement="Contains at most 5 words."), Criterion(requirement="Contains 9 words.")])
    async with LoopbackEndpoint(replier=lambda body: _all_met(2)) as endpoint:
        config = LLMConfig("judge", api_base=endpoint.base_url)
        report = await rubric.grade("Hello.", CriterionGrader(judge_model_config=config, llm_calls="per_item"))
        assert endpoint.counts.requests == 1
    assert report.score == 1.0


SCALES = {
    "0 to 5": [(str(number), number / 5) for number in range(6)],
    "half points": [(f"{number / 2:g}", number / 4) for number in range(5)],
    "signed": [("-1 - against", 0.0), ("0 - neutral", 0.5), ("1 - for", 1.0)],
}
REPLIED: dict[str, Callable[[str], object]] = {
    "a number": float,
    "a number as JSON": json.loads,
    "a string": str,
    "a fraction with a comma": lambda number: number.replace(".", ","),
    "with a word": "Option {}".format,
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("form", REPLIED)
@pytest.mark.parametrize("calls", ["per_criterion", "per_item"])
async def test_every_label_of_a_scale_is_replied_as_its_number_in_one_call(scale: str, form: str, calls: str) -> None:
    options = [{"label": label, "value": value} for label, value in SCALES[scale]]
    rubric = Rubric([Criterion(requirement="How good is it?", options=options)])

    def reply(body: dict[str, Any]) -> str:
        number = re.findall(r"Text (\S+)\.\n", body["messages"][-1]["content"])[0]
        entry = {"explanation": "So.", "selected_option": REPLIED[form](number)}
        return json.dumps(entry if calls == "per_criterion" else {"judgments": [{"criterion_id": "c0", **entry}]})

    async with LoopbackEndpoint(replier=reply) as endpoint:
        config = LLMConfig("judge", api_base=endpoint.base_url)
        grader = CriterionGrader(judge_model_config=config, llm_calls=calls)
        for label, value in SCALES[scale]:
            report = await rubric.grade(f"Text {label.split()[0]}.", grader)
            chosen = [found.final_multi_choice_verdict for found in report.report]
            assert (report.score, [one and one.selected_label for one in chosen]) == (value, [label])
        assert endpoint.counts.requests == len(options)


def _all_met(count: int) -> str:
    entry = {"explanation": "It is there.", "criterion_status": "MET"}
    return json.dumps({"judgments": [{"criterion_id": f"c{number}", **entry} for number in range(count)]})


async def test_what_is_asked_at_the_same_time_or_again_is_one_call_where_replies_are_recorded(tmp_path: Path) -> None:
    async with LoopbackEndpoint() as endpoint:
        model = LLMConfig("judge", api_base=endpoint.base_url)
        grader = CriterionGrader(judge_model_config=model, run_dir=tmp_path)
        await asyncio.gather(*(KIND.grade("Hello.", grader) for _ in range(20)))
        await KIND.grade("Hello.", grader)
        grader.close()
        assert endpoint.counts.requests == 1


def test_a_grader_works_in_one_event_loop_after_another() -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=endpoint.base_url))
        for text in ("One.", "Two.", "Three."):
            assert asyncio.run(KIND.grade(text, grader)).score == 1.0
        assert KIND.grade_sync("Four.", grader).score == 1.0
        assert endpoint.counts.requests == 4


async def test_the_synchronous_twin_works_inside_a_running_loop() -> None:
    grader = CriterionGrader(judge_model_config=MODEL)
    rubric = Rubric([Criterion(requirement="Contains at most 5 words.")])
    assert rubric.grade_sync("Because of the moon.", grader).score == 1.0
    assert (await rubric.grade("Because of the moon.", grader)).score == 1.0


def test_a_cache_folder_is_a_ledger_that_the_next_process_finds(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        config = LLMConfig("judge", api_base=endpoint.base_url, cache_enabled=True, cache_dir=tmp_path / "cache")
        for _ in range(2):
            grader = CriterionGrader(judge_model_config=config)
            assert grader.run_dir == tmp_path / "cache"
            assert KIND.grade_sync("Hello.", grader).score == 1.0
            grader.close()
        assert endpoint.counts.requests == 1


async def test_the_thinking_of_a_submission_is_shown_apart_and_wrong_keys_are_errors() -> None:
    model = ScriptedModel({"judge": MET})
    grader = CriterionGrader(judge=CriterionJudge(model))
    await KIND.grade({"thinking": "Hm, yes.", "output": "Hello."}, grader)
    assert PromptSections(model.requests[0])["submission"] == "Hello."
    assert "Hm, yes." in model.requests[0].messages[-1].content
    with pytest.raises(ValueError, match="did you mean 'output'"):
        await KIND.grade({"ouput": "Hello."}, grader)


async def test_a_length_penalty_is_taken_off_the_score_and_not_off_the_raw_one() -> None:
    # 3 words over a budget of 0, capped at 2: the whole 0.5 is lost. MET · 2 / 2 − 0.5.
    penalty = LengthPenalty(free_budget=0, max_cap=2, penalty_at_cap=0.5)
    grader = CriterionGrader(judge=CriterionJudge(ScriptedModel({"judge": MET})), length_penalty=penalty)
    report = await KIND.grade("Hello, my friend.", grader)
    assert (report.score, report.raw_score) == (0.5, 2.0)


async def test_a_failed_judgment_gives_no_score_unless_it_is_to_be_skipped() -> None:
    rubric = Rubric(
        [Criterion(name="A", weight=1, requirement="Is kind"), Criterion(weight=3, requirement="Is brief")]
    )
    replies = {"Is kind": MET}

    def say(request: Any) -> str:
        return replies.get(PromptSections(request)["criterion"], "I would rather not say.")

    strict = CriterionGrader(judge=CriterionJudge(ScriptedModel(say)))
    lenient = CriterionGrader(judge=CriterionJudge(ScriptedModel(say)), on_failure="skip")
    report = await rubric.grade("Hello.", strict)
    assert (report.score, report.failed_count, report.coverage) == (None, 1, 0.5)
    assert report.report[1].final_verdict is None
    assert (await rubric.grade("Hello.", lenient)).score == 1.0


async def test_stronger_judges_are_asked_only_where_the_first_is_not_enough() -> None:
    rubric = Rubric([Criterion(requirement="Contains at most 5 words."), Criterion(requirement="It is so.")])
    async with LoopbackEndpoint() as endpoint:
        strong = LLMConfig("judge", api_base=endpoint.base_url)
        grader = CriterionGrader(judge_model_config=MODEL, escalation=EscalationConfig(strong))
        report = await rubric.grade("Because of the moon.", grader)
        assert endpoint.counts.requests == sum(found.escalated for found in report.report)
    assert report.report[0].escalated is False
    assert grader.judge_ids == ["default", "escalation"]


async def test_nothing_secret_is_in_what_a_grader_says_of_itself() -> None:
    config = LLMConfig("openai/gpt-5.1", api_key="sk-planted-key", extra_headers={"Authorization": "sk-planted-key"})
    said = repr(CriterionGrader(judge_model_config=config).describe())
    assert "sk-planted" not in said
    assert "gpt-5.1" in said


def test_a_budget_for_replies_of_any_length_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        dataset = RubricDataset("Hi?", KIND)
        dataset.add_item("Hello.", "")
        grader = CriterionGrader(judge_model_config=LLMConfig("m", api_base=endpoint.base_url), budget_tokens=9000)
        with pytest.raises(ConfigError, match=r"a budget needs one, so set its max_tokens: LLMConfig\(max_tokens="):
            evaluate_sync(dataset, grader, experiments_dir=tmp_path, show_progress=False)
        assert endpoint.counts.requests == 0


@pytest.mark.usefixtures("only_new_collected")
def test_no_warning_is_raised_when_a_loop_ends_with_open_connections() -> None:
    with LoopbackEndpoint().in_thread() as endpoint, warnings.catch_warnings():
        warnings.simplefilter("error")
        grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=endpoint.base_url))
        asyncio.run(KIND.grade("Hello.", grader))
        del grader
        import gc

        gc.collect()


class OwnGrader(CriterionGrader):
    """May grade in any way."""


def test_a_grader_says_whether_its_spending_has_a_limit_of_its_own() -> None:
    assert CriterionGrader(judge_model_config=MODEL, budget_usd=1.0).has_budget
    assert CriterionGrader(judge_model_config=MODEL, budget_usd=0.0).has_budget
    assert not CriterionGrader(judge_model_config=MODEL).has_budget


def test_the_calls_of_a_grader_are_in_its_own_records(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        config = LLMConfig("judge", api_base=endpoint.base_url)
        with_records, without = (
            CriterionGrader(judge_model_config=config, run_dir=path) for path in (tmp_path, None)
        )
        for grader in (with_records, without):
            assert KIND.grade_sync("Hello.", grader).score == 1.0
    assert [(total.role, total.calls, total.failed) for total in with_records.totals()] == [("judge", 1, 0)]
    assert without.totals() == []
    with_records.close()


@each(
    ("kind", "settings", "described"),
    [
        (CriterionGrader, {}, True),
        (CriterionGrader, {"length_penalty": LengthPenalty()}, True),
        (CriterionGrader, {"length_penalty": LengthPenalty(count_fn=len)}, False),
        (CriterionGrader, {"binary_response_format": OwnFormat}, False),
        (OwnGrader, {}, False),
    ],
)
def test_a_grader_with_code_of_the_users_own_is_not_described_in_full(
    kind: type[CriterionGrader], settings: dict[str, Any], described: bool
) -> None:
    assert kind(judge_model_config=MODEL, **settings).is_described is described
