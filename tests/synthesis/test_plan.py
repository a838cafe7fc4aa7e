"""Plans of synthesis stages."""

from __future__ import annotations

from typing import Any

import pytest

from autorubric.errors import ConfigError, InputError
from autorubric.llm.request import Answer, Failure, Reply, Request
from autorubric.synthesis.drafts import read_answer
from autorubric.synthesis.method import Shape, build_plan
from autorubric.synthesis.stages import Plan, Stage, StageOutcome, list_letters
from autorubric.synthesis.templates import load_synthesis_prompts
from tests.offenders import each


def stage(name: str, *reads: str, step: int = 0) -> Stage:
    return Stage(name, step, reads, lambda fields, models: StageOutcome(name, "test"))


def basic_plan(*, responses: int = 2, rubrics: int = 2) -> Plan:
    grounds = dict.fromkeys(list_letters(rubrics), "reference")
    names = tuple(f"response_{letter}" for letter in list_letters(responses))
    return build_plan(load_synthesis_prompts(None, full=False), Shape(names, grounds, {}))


def test_a_plan_that_reads_what_nothing_writes_is_refused() -> None:
    with pytest.raises(ConfigError, match="stage 'b' reads 'c', which nothing before it writes"):
        Plan((stage("a", "question"), stage("b", "a", "c")))


def test_a_stage_cannot_read_what_is_written_after_it() -> None:
    with pytest.raises(ConfigError, match="reads 'b'"):
        Plan((stage("a", "b"), stage("b", "question")))


def test_two_stages_cannot_write_one_field() -> None:
    with pytest.raises(ConfigError, match="two stages write 'a'"):
        Plan((stage("a"), stage("a")))


def test_a_plan_can_end_after_a_step() -> None:
    plan = Plan((stage("a", step=0), stage("b", step=1), stage("c", step=2)))
    assert [s.name for s in plan.cut_after("responses").stages] == ["a", "b"]
    with pytest.raises(InputError, match="unknown step 'respones'"):
        plan.cut_after("respones")


def test_slots_are_letters() -> None:
    assert list_letters(2) == ("a", "b")
    with pytest.raises(ConfigError):
        list_letters(27)


def test_the_basic_plan_has_the_seeds_stages_in_the_seeds_steps() -> None:
    plan = basic_plan()
    assert [(s.step, s.name, s.slots[0]) for s in plan.stages] == [
        (0, "reference", "reference"),
        (1, "response_a", "response_a"),
        (1, "response_b", "response_b"),
        (2, "rubrics_a", "rubric_a"),
        (2, "rubrics_b", "rubric_b"),
        (3, "merged_rubrics", "merge"),
        (4, "augmented_rubrics", "augment"),
    ]


def built(name: str, fields: dict[str, Any], **plan: int) -> Request | StageOutcome:
    (found,) = [s for s in basic_plan(**plan).stages if s.name == name]
    made = found.build({"question": "Why is the sky blue?", **fields}, {})
    if isinstance(made, StageOutcome):
        return made
    (call,) = made
    return call.request


ITEM = {"title": "Rayleigh scattering", "description": "Names Rayleigh scattering.", "weight": 9}


def test_stages_that_share_a_prompt_never_share_a_draw() -> None:
    requests = [built(name, {}) for name in ("reference", "response_a", "response_b")]
    assert [r.draw for r in requests if isinstance(r, Request)] == [0, 1, 2]
    rubrics = [built(name, {"reference": "It scatters."}) for name in ("rubrics_a", "rubrics_b")]
    assert [r.draw for r in rubrics if isinstance(r, Request)] == [0, 1]


def test_the_only_candidate_rubric_stands_for_the_merged_one() -> None:
    assert built("merged_rubrics", {"rubrics_a": [ITEM]}, rubrics=1) == StageOutcome([ITEM], "passthrough")
    assert built("merged_rubrics", {"rubrics_a": [ITEM], "rubrics_b": []}) == StageOutcome([ITEM], "passthrough")


def test_two_candidate_rubrics_are_merged_by_a_model() -> None:
    request = built("merged_rubrics", {"rubrics_a": [ITEM], "rubrics_b": [ITEM]})
    assert isinstance(request, Request)
    assert request.role == "merge"


def test_without_responses_evolution_is_skipped_and_says_so() -> None:
    made = built("augmented_rubrics", {"merged_rubrics": [ITEM], "response_a": "One.", "response_b": " "})
    assert made == StageOutcome([], "skipped(no responses)")


@each(
    ("name", "fields", "message"),
    [
        ("rubrics_a", {"reference": " "}, "missing reference"),
        ("merged_rubrics", {"rubrics_a": [], "rubrics_b": [ITEM]}, "missing rubrics_a"),
        ("augmented_rubrics", {"merged_rubrics": []}, "missing merged_rubrics"),
    ],
)
def test_a_stage_without_its_input_fails_by_the_name_of_what_is_missing(
    name: str, fields: dict[str, Any], message: str
) -> None:
    assert built(name, fields) == StageOutcome(failure=Failure("missing_input", message))


def test_a_cut_off_answer_is_kept_with_a_note_and_a_refusal_is_none() -> None:
    cut = read_answer(Reply("It scatt", finish_reason="length"))
    assert isinstance(cut, Answer)
    assert cut.notes == ("the text is cut off at the token limit",)
    refused = read_answer(Reply("", refusal="I cannot help with that."))
    assert not isinstance(refused, Answer)
    assert (refused.kind, refused.again) == ("refusal", False)
