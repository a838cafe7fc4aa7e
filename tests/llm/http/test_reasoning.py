"""Reasoning in the forms that servers send it."""

from __future__ import annotations

import json
from typing import Any

from autorubric.llm.http.wire import read_reply
from autorubric.llm.request import Reply
from tests.offenders import each

MESSAGES: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("deepseek", {"reasoning_content": "Hm.", "content": "4"}, "Hm.", "4"),
    ("openrouter text", {"reasoning": "Hm.", "content": "4"}, "Hm.", "4"),
    (
        "openrouter details",
        {"reasoning": None, "reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}], "content": "4"},
        "Hm.",
        "4",
    ),
    (
        "encrypted details",
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2VjcmV0"}], "content": "4"},
        None,
        "4",
    ),
    (
        "an object with a text",
        {"content": {"text": "a", "criterion_status": "MET"}},
        None,
        '{"text":"a","criterion_status":"MET"}',
    ),
    ("reasoning as an object", {"reasoning": {"content": "Hm."}, "content": "4"}, "Hm.", "4"),
    ("reasoning as a list", {"reasoning": ["H", {"text": "m."}], "content": "4"}, "Hm.", "4"),
    ("ollama", {"thinking": "Hm.", "content": "4"}, "Hm.", "4"),
    (
        "mistral",
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "4"},
            ]
        },
        "Hm.",
        "4",
    ),
    ("a text part of reasoning", {"content": [{"type": "reasoning", "text": "Hm."}, "4"]}, "Hm.", "4"),
    ("only reasoning", {"reasoning_content": "Hm.", "content": None}, "Hm.", ""),
    ("none", {"content": "4", "reasoning_content": ""}, None, "4"),
    ("nonsense", {"content": "4", "reasoning": 7, "reasoning_details": [[[[[[["deep"]]]]]]]}, None, "4"),
]


@each(("message", "reasoning", "text"), [case[1:] for case in MESSAGES])
def test_reasoning_is_told_from_the_answer(message: dict[str, Any], reasoning: str | None, text: str) -> None:
    reply = read_reply(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode(), 0.1)
    assert isinstance(reply, Reply)
    assert (reply.reasoning, reply.text) == (reasoning, text)
