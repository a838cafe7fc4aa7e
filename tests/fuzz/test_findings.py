"""What fuzzing found once, input by input: each is read or refused now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autorubric.checks import rule_of_tags
from autorubric.core.rubric_from import rubric_from
from autorubric.errors import InputError
from autorubric.formats import find_format
from autorubric.linting.records import read_raw_criterion
from autorubric.llm.http.wire import read_reply
from autorubric.llm.request import Reply
from autorubric.training.rewards import RewardRule
from autorubric.training.service.calls import read_call
from tests.offenders import each

HUGE = 10**400  # a whole number in JSON, and beyond every float
DEEP = "[" * 100_000 + "]" * 100_000


@each("cost", [HUGE, float("inf"), float("nan"), -1, True])
def test_a_cost_that_is_no_amount_is_no_cost(cost: Any) -> None:
    body = {"choices": [{"message": {"content": "MET"}}], "usage": {"prompt_tokens": 9, "cost": cost}}
    reply = read_reply(json.dumps(body).encode(), 0.1)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.cost) == ("MET", None)


def test_a_count_of_tokens_that_no_ledger_can_hold_counts_as_no_usage() -> None:
    body = {"choices": [{"message": {"content": "MET"}}], "usage": {"prompt_tokens": 2**63, "completion_tokens": 2}}
    reply = read_reply(json.dumps(body).encode(), 0.1)
    assert isinstance(reply, Reply)
    assert reply.usage is None  # so the call is charged at the worst case


def test_the_linter_refuses_a_weight_beyond_every_float() -> None:
    with pytest.raises(InputError, match=r"weight is 1000.*; expected a finite number"):
        read_raw_criterion({"requirement": "Is brief.", "weight": HUGE})


def test_the_linter_refuses_an_option_beyond_every_float() -> None:
    with pytest.raises(InputError, match="option 1 is"):
        read_raw_criterion({"requirement": "How many?", "options": [{"label": "One", "value": HUGE}]})


def test_a_format_refuses_points_beyond_every_float() -> None:
    row = {"question": "Why?", "rubrics": [{"criterion": "Says why.", "points": HUGE}]}
    with pytest.raises(InputError, match=r"rubrics\[0\].points is 1000.*; expected a finite number"):
        find_format("rubrichub").read(row)


def test_a_deadline_beyond_every_float_is_refused() -> None:
    call = {"submission": "Coal.", "rubric": [{"requirement": "Names coal."}], "deadline_seconds": HUGE}
    with pytest.raises(InputError, match="deadline_seconds is 1000"):
        read_call(json.dumps(call).encode())


def test_a_call_of_openrlhf_with_an_empty_prompt_is_refused() -> None:
    call = {"query": ["Because."], "prompts": [""], "labels": ["{}"]}
    with pytest.raises(InputError, match=r"prompts\[0\] is empty"):
        read_call(json.dumps(call).encode())


def test_a_neutral_value_beyond_every_float_is_refused() -> None:
    with pytest.raises(InputError, match="expected a finite number"):
        RewardRule(on_failure="neutral", neutral=HUGE)


@each("tags", [5, "rule", {"verifier": "rule", "function": "X", "parameters": "no"}])
def test_tags_of_another_kind_are_refused_with_their_place(tags: Any) -> None:
    with pytest.raises(InputError, match=r"row 1: rubric\[0\]: tags"):
        rubric_from([{"criterion": "Is brief.", "points": 1, "tags": tags}], "row 1")


@each("written", [DEEP, "{[]: 1}", "{{}: 1}"])
def test_parameters_in_a_text_that_cannot_be_read_are_refused(written: str) -> None:
    with pytest.raises(InputError, match="tags: parameters are"):
        rule_of_tags({"verifier": "rule", "function": "X", "parameters": written})


def released(**changes: Any) -> dict[str, Any]:
    rubrics = [{"criterion": "Says why.", "points": 5, "tags": None}]
    row = {"prompt": "Why?", "data_source": "Medical", "ability": "Medical", "reward_model": {"rubrics": rubrics}}
    return {**row, "Rubrics": None, **changes}


def test_a_released_row_holds_its_rubric_as_text_too() -> None:
    read = find_format("rurl").read
    text = {"rubrics": json.dumps(released()["reward_model"]["rubrics"])}
    assert read(released(reward_model=text)).criteria == read(released()).criteria


@each("extra", ["text", {"reward_model": "text"}, [1]])
def test_a_released_row_with_odd_mirrors_is_refused(extra: Any) -> None:
    with pytest.raises(InputError, match="expected an object"):
        find_format("rurl").read(released(extra_info=extra))


@each("key", ["autorubric", "rubric"])
def test_a_text_nested_without_end_is_refused(key: str) -> None:
    row = {"question": "Why?", "reference_answer": "", "question_source": "", "rubric_count": 1}
    row["rubric"] = [{"title": "Cause", "description": "Says why.", "weight": 5}]
    with pytest.raises(InputError, match=f"{key} is not valid JSON"):
        find_format("rar").read({**row, key: DEEP})
