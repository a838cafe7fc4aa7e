"""What the endpoint says when nobody scripted it: texts of a set size, different for each request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias
from zlib import crc32

from autorubric.testing.completion import Completion, prompt_text

Replier: TypeAlias = Callable[[dict[str, Any]], str | Completion]

_FILLER = "The answer names the cause, gives one worked example, and says where it stops to hold. "
_CRITERION_CHARACTERS = 150


def sized_replies(characters: int = 1200) -> Replier:
    """A replier whose answers have about that many characters and depend only on the request.

    A request with a JSON schema gets a document that follows it, a prompt that asks for JSON with weights a
    rubric in a fence, one that asks for a `criterion_status` a verdict, and all others get prose.

    Example:
        >>> ask = {"messages": [{"role": "user", "content": "Why is the sky blue?"}]}
        >>> len(sized_replies(500)(ask))
        500
    """

    def reply(body: dict[str, Any]) -> str:
        asked = str(body["messages"][-1].get("content"))
        mark = f"{crc32(asked.encode('utf-8', 'surrogatepass')):08x}"
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        if schema is not None:
            return json.dumps(_document(schema, mark, characters))
        # What is to be answered with may stand in the system message, apart from what is asked.
        whole = prompt_text(body)
        if "criterion_status" in whole:
            return json.dumps({"explanation": f"Seen in {mark}.", "criterion_status": "MET"})
        if "weight" in whole and "JSON" in whole:
            return f"```json\n{json.dumps(_criteria(mark, characters), indent=1)}\n```"
        text = f"Answer {mark}. " + _FILLER * (characters // len(_FILLER) + 1)
        return text[:characters]

    return reply


def _criteria(mark: str, characters: int) -> list[dict[str, Any]]:
    return [
        {
            "title": f"Point {number} of {mark}",
            "description": f"States fact {number} of {mark} and gives the figure that supports it.",
            "weight": 1 + number % 10,
        }
        for number in range(1, max(3, characters // _CRITERION_CHARACTERS) + 1)
    ]


def _document(schema: dict[str, Any], mark: str, characters: int) -> Any:
    """A document that follows `schema`, as far as test schemas go (no $ref, no patterns)."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _document(schema[key][0], mark, characters)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _document(part, mark, characters) for name, part in properties.items()}
    if kind == "array":
        count = max(schema.get("minItems", 1), characters // _CRITERION_CHARACTERS)
        count = min(count, schema.get("maxItems", count))
        return [_document(schema.get("items", {}), f"{mark}-{n}", characters) for n in range(1, count + 1)]
    number = min(5, schema.get("maximum", 5))
    plain = {"integer": number, "number": number, "boolean": True, "null": None}
    return plain.get(str(kind), f"States point {mark} and what supports it.")
