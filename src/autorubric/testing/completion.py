"""Completions of simulated models, scripted or default, before they are encoded."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from zlib import crc32


@dataclass(frozen=True, slots=True)
class Completion:
    """The variable part of a chat completion: content, finish reason, refusal and reasoning.

    Example:
        >>> Completion("Yes.").content
        'Yes.'
    """

    content: str | None
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the reply, its reasoning included."""
        text = self.content or self.refusal or ""
        return estimate_tokens(len(self.reasoning or "")) + estimate_tokens(len(text))


CHARS_A_TOKEN = 4


def estimate_tokens(characters: int) -> int:
    """Tokens of a text of that many characters, at four characters a token, rounded up.

    Example:
        >>> estimate_tokens(9)
        3
    """
    return -(-characters // CHARS_A_TOKEN)


def join_prompt(body: dict[str, Any]) -> str:
    r"""Return the text of a request body, from which a server would compute prefixes.

    Example:
        >>> join_prompt({"messages": [{"role": "user", "content": "Hi"}]})
        'user\nHi\n'
    """
    parts: list[str] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        parts.append(f"{message.get('role')}\n{content if isinstance(content, str) else json.dumps(content)}\n")
    return "".join(parts)


def count_prompt_tokens(body: dict[str, Any]) -> int:
    """Return the tokens of the text of a request body."""
    return estimate_tokens(len(join_prompt(body)))


def build_completion_body(completion: Completion, model: str, asked: int, cached_tokens: int | None = None) -> bytes:
    """Return the body of a `chat.completion` response.

    Args:
        completion: the reply.
        model: the model's name in the response.
        asked: tokens of the request.
        cached_tokens: how many of them came from the prefix cache; None omits the field.

    Example:
        >>> json.loads(build_completion_body(Completion("Yes."), "m", 7))["usage"]
        {'prompt_tokens': 7, 'completion_tokens': 1, 'total_tokens': 8}
    """
    thought, spoken = estimate_tokens(len(completion.reasoning or "")), completion.tokens
    usage: dict[str, Any] = {
        "prompt_tokens": asked,
        "completion_tokens": spoken,
        "total_tokens": asked + spoken,
    }
    if cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
    if thought:
        usage["completion_tokens_details"] = {"reasoning_tokens": thought}
    message = {"role": "assistant", "content": completion.content, "refusal": completion.refusal}
    if thought:
        message["reasoning_content"] = completion.reasoning
    choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason, "logprobs": None}
    whole = {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(whole).encode()


Replier: TypeAlias = Callable[[dict[str, Any]], str | Completion]

_FILLER = "The answer names the cause, gives one worked example, and says where it stops to hold. "
_CRITERION_CHARACTERS = 150


def sized_replies(characters: int = 1200) -> Replier:
    """Return a replier whose replies have about that many characters and depend only on the request.

    A request with a JSON schema gets a document that follows it, one that asks for a `criterion_status` a verdict,
    one that asks for JSON with weights a rubric in a fence, and any other prose.

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
            return json.dumps(_write_document(schema, mark, characters))
        # The system message may state the format of the reply.
        whole = join_prompt(body)
        if "criterion_status" in whole:
            return json.dumps({"explanation": f"Seen in {mark}.", "criterion_status": "MET"})
        if "weight" in whole and "JSON" in whole:
            return f"```json\n{json.dumps(_write_criteria(mark, characters), indent=1)}\n```"
        text = f"Answer {mark}. " + _FILLER * (characters // len(_FILLER) + 1)
        return text[:characters]

    return reply


def _write_criteria(mark: str, characters: int) -> list[dict[str, Any]]:
    return [
        {
            "title": f"Point {number} of {mark}",
            "description": f"States fact {number} of {mark} and gives the figure that supports it.",
            "weight": 1 + number % 10,
        }
        for number in range(1, max(3, characters // _CRITERION_CHARACTERS) + 1)
    ]


def _write_document(schema: dict[str, Any], mark: str, characters: int) -> Any:
    """Return a document that follows `schema`; `$ref` and patterns are not supported."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _write_document(schema[key][0], mark, characters)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _write_document(part, mark, characters) for name, part in properties.items()}
    if kind == "array":
        count = max(schema.get("minItems", 1), characters // _CRITERION_CHARACTERS)
        count = min(count, schema.get("maxItems", count))
        return [_write_document(schema.get("items", {}), f"{mark}-{n}", characters) for n in range(1, count + 1)]
    number = min(5, schema.get("maximum", 1))
    plain = {"integer": number, "number": number, "boolean": True, "null": None}
    return plain.get(str(kind), f"States point {mark} and what supports it.")
