"""How a stage turns a template and a row into a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.request import Failure, Message, Reply, ReplySchema, Request, Unreadable
from autorubric.prompts import Prompt


def request_from(
    template: Prompt,
    inputs: Mapping[str, Any],
    *,
    role: str,
    draw: int = 0,
    schema: ReplySchema | None = None,
    room: int = 0,
) -> Request:
    """The request that a filled-in template asks; `room` is the length of its reply, as far as it is known."""
    messages = tuple(Message(role, text) for role, text in template.render(**inputs))
    constrained = not template.wants_list
    return Request(messages, role, schema=schema, draw=draw, room=room, constrained=constrained)


def query_in(fields: Mapping[str, Any]) -> Any:
    """The query of a row: its text without outer space, or the turns of a conversation.

    Example:
        >>> query_in({"question": " Why? "})
        'Why?'
    """
    question = fields["question"]
    return question.strip() if isinstance(question, str) else question


def missing(field: str) -> Failure:
    """The failure of a stage whose input an earlier stage could not deliver."""
    return Failure("missing_input", f"missing {field}")


def has_text(value: Any) -> bool:
    """True for a string that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def has_items(value: Any) -> bool:
    """True for a list with at least one entry."""
    return isinstance(value, list) and bool(value)


_MOST_QUOTED = 8000  # characters of an unreadable reply that are shown to its model again


def follow_up_with(reask: Prompt) -> FollowUp:
    """How a model is asked again: its unusable reply, and a sentence that says what was wrong with it.

    A reply that was cut off or empty has nothing to learn from; there the same question is asked once more.
    """

    def follow_up(request: Request, reply: Reply, problem: Unreadable) -> Request:
        if problem.kind != "unreadable":
            return request
        turns = (Message("user", text) for _, text in reask.render(problem=problem.message))
        said = Message("assistant", reply.text[:_MOST_QUOTED])
        return replace(request, messages=(*request.messages, said, *turns))

    return follow_up
