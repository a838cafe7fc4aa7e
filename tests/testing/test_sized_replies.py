from __future__ import annotations

import json
from typing import Any

from autorubric.testing import sized_replies


def answered(text: str, characters: int = 1500, **more: Any) -> str:
    reply = sized_replies(characters)({"messages": [{"role": "user", "content": text}], **more})
    assert isinstance(reply, str)
    return reply


def test_prose_has_the_size_asked_for_and_differs_between_questions_only() -> None:
    assert len(answered("Why?", 900)) == 900
    assert answered("Why?") == answered("Why?")
    assert answered("Why?") != answered("How?")


def test_a_prompt_for_a_rubric_gets_a_fenced_array_of_criteria() -> None:
    reply = answered("Reply with a JSON array of objects with title, description and weight.")
    items = json.loads(reply.removeprefix("```json\n").removesuffix("\n```"))
    # 1,500 characters at 150 a criterion.
    assert len(items) == 10
    assert all(set(item) == {"title", "description", "weight"} for item in items)
    assert len({item["description"] for item in items}) == 10


def test_a_schema_gets_a_document_that_follows_it() -> None:
    item = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "weight": {"type": "integer", "maximum": 3}},
    }
    schema = {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["MET", "UNMET"]},
            "sure": {"type": "boolean"},
            "selected_option": {"type": "integer"},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "criteria": {"type": "array", "items": item, "maxItems": 2},
        },
    }
    reply = json.loads(answered("x", response_format={"type": "json_schema", "json_schema": {"schema": schema}}))
    assert (reply["verdict"], reply["sure"], reply["note"]) == ("MET", True, None)
    assert reply["selected_option"] == 1  # every question has a first option
    assert [criterion["weight"] for criterion in reply["criteria"]] == [3, 3]


def test_a_judge_gets_a_verdict() -> None:
    assert json.loads(answered("Give explanation and criterion_status."))["criterion_status"] == "MET"


def test_the_form_of_the_answer_may_stand_in_the_system_message() -> None:
    form = {"role": "system", "content": "Answer with a JSON list; each criterion has a weight."}
    reply = sized_replies(400)({"messages": [form, {"role": "user", "content": "Why is the sky blue?"}]})
    assert str(reply).startswith("```json")
