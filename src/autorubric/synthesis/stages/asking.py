"""How a stage turns a template and a row into a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autorubric.llm.request import Failure, Message, ReplySchema, Request
from autorubric.prompts import Prompt


def request_from(
    template: Prompt,
    inputs: Mapping[str, Any],
    *,
    role: str,
    draw: int = 0,
    schema: ReplySchema | None = None,
) -> Request:
    """The request that a filled-in template asks."""
    messages = tuple(Message(role, text) for role, text in template.render(**inputs))
    return Request(messages, role, schema=schema, draw=draw, inputs=inputs)


def missing(field: str) -> Failure:
    """The failure of a stage whose input an earlier stage could not deliver."""
    return Failure("missing_input", f"missing {field}")


def has_text(value: Any) -> bool:
    """True for a string that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def has_items(value: Any) -> bool:
    """True for a list with at least one entry."""
    return isinstance(value, list) and bool(value)
