"""From settings to the plan of the full method."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autorubric.synthesis.method import build_plan
from autorubric.synthesis.slots import build_configs, find_shape, find_slots
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.synthesis.templates import load_synthesis_prompts

FILES = {"input": "q.jsonl", "out": "out", "profile": "full"}
PAIR = ["a/m", "a/m"]
ONE: dict[str, Any] = {
    "reference": "a/m",
    "merge": "a/m",
    "augment": "a/m",
    "responses": PAIR,
    "rubrics": PAIR,
    "judges": PAIR,
}


def reads_of(name: str, full: dict[str, Any] | None = None, given: int = 0, **roles: Any) -> tuple[str, ...]:
    values = {**FILES, "roles": {**ONE, **roles}, "full": full or {}}
    settings = SynthesisSettings.from_values({**values, "responses_column": "answers"} if given else values)
    plan = build_plan(load_synthesis_prompts(None, full=True), find_shape(settings, given), settings.full_profile)
    return next(stage.reads for stage in plan.stages if stage.name == name)


def test_two_draws_of_one_model_are_grounded_in_two_of_its_responses() -> None:
    assert reads_of("rubrics_a") == ("question", "response_a")
    assert reads_of("rubrics_b") == reads_of("pitfalls_b") == ("question", "response_b")


def test_another_model_answers_itself_and_its_address_tells_it_apart() -> None:
    here = {"model": "a/m", "base_url": "http://localhost:1/v1"}
    assert reads_of("rubrics_b", rubrics=["a/m", here]) == ("question", "own_b")
    assert reads_of("rubrics_a", given=3) == ("question", "own_a")


def test_one_reference_grounds_all() -> None:
    assert reads_of("rubrics_b", {"grounding": "reference"}) == ("question", "reference")


def test_the_pool_is_filled_in_turn_and_draws_come_first() -> None:
    roles = {**ONE, "responses": ["a/1", "a/2"]}
    slots = {
        s.name: s.role.model
        for s in find_slots(SynthesisSettings.from_values({**FILES, "roles": roles, "full": {"pool": 5}}))
    }
    assert [slots[f"response_{x}"] for x in "abcde"] == ["a/1", "a/2", "a/1", "a/2", "a/1"]
    roles = {**ONE, "responses": [{"model": "a/1", "draws": 3}, "a/2"]}
    slots = {s.name: s.role.model for s in find_slots(SynthesisSettings.from_values({**FILES, "roles": roles}))}
    assert [slots[f"response_{x}"] for x in "abcd"] == ["a/1", "a/1", "a/1", "a/2"]
    assert "response_e" not in slots


def test_relevance_is_drawn_from_all_judges_in_turn_each_draw_at_another_temperature() -> None:
    def draws(**more: Any) -> list[tuple[str, float | None, str]]:
        settings = SynthesisSettings.from_values({**FILES, "roles": {**ONE, "judges": ["a/j", "a/k", "a/j"]}, **more})
        return [(s.role.model, s.role.temperature, s.source) for s in find_slots(settings) if "licence" in s.name]

    assert draws() == [
        ("a/j", None, "judge_a"),
        ("a/k", None, "judge_b"),
        ("a/j", 0.6, "judge_a"),
        ("a/k", 0.6, "judge_b"),
        ("a/j", 1.0, "judge_a"),
    ]
    assert draws(protocol=1) == [("a/j", None, "judge_a")]
    one = {**ONE, "judges": ["a/j"], "licence": {"model": "a/l", "temperature": 0.3}}
    assert draws(roles=one) == [("a/l", 0.3, "licence")] * 5
    two = {**ONE, "judges": ["a/j"], "licence": ["a/l", "a/m"]}
    assert draws(roles=two)[:2] == [("a/l", None, "licence_a"), ("a/m", None, "licence_b")]


def test_who_rewrites_nothing_else_is_played_by_augment() -> None:
    roles = {**ONE, "judges": ["a/j"], "augment": "a/e"}
    slots = {slot.name: slot for slot in find_slots(SynthesisSettings.from_values({**FILES, "roles": roles}))}
    assert (slots["rewrite"].role.model, slots["rewrite"].source) == ("a/e", "augment")


def test_a_rubric_models_own_answer_may_be_as_long_as_a_reference() -> None:
    roles = {**ONE, "rubrics": [{"model": "a/x", "max_tokens": 900}, "a/m"]}
    settings = SynthesisSettings.from_values({**FILES, "roles": roles, "ref_max_tokens": 5000})
    made = build_configs(settings, {"RUBRIC_A_API_KEY": "key-of-a", "OPENAI_API_KEY": "key"})
    assert (made["own_a"].max_tokens, made["rubric_a"].max_tokens) == (5000, 900)
    assert made["own_a"].api_key == made["rubric_a"].api_key
    assert "own_b" not in made


def test_checked_settings_are_taken_as_they_are() -> None:
    settings = SynthesisSettings.from_values({**FILES, "roles": ONE})
    assert SynthesisSettings.model_validate(settings) is settings
    with pytest.raises(ValidationError, match="Input should be a valid dictionary"):
        SynthesisSettings.model_validate(3)
