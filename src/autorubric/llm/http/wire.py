"""The chat-completions protocol: a request to bytes, a response body to a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from autorubric.files.numbers import is_finite
from autorubric.files.quick_json import json_bytes, json_value
from autorubric.llm.config import LLMConfig, ThinkingLevel
from autorubric.llm.http.events import completion_of_events
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.reasoning import is_reasoning, reasoning_in
from autorubric.llm.http.retry import Fault, error_fault
from autorubric.llm.http.secrets import cleared, redacted
from autorubric.llm.http.surrogates import clean
from autorubric.llm.http.usage import read_usage
from autorubric.llm.request import FinishReason, Message, Reply, ReplySchema, Request

SEED_PER_DRAW = 1000

WEB_PAGE = "the answer is a web page, not a chat completion"
"""What is said of an address that serves people; a gateway in trouble may do so as well."""


def sampling(config: LLMConfig, provider: str | None) -> dict[str, Any]:
    """The parameters of `config` as this protocol spells them; unset ones are not there, zeros are.

    Example:
        >>> sampling(LLMConfig("m", temperature=0.0, max_tokens=0, seed=7), None)
        {'temperature': 0.0, 'max_tokens': 0, 'seed': 7}
    """
    named = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "top_p": config.top_p,
        "seed": config.seed,
    }
    found = {name: value for name, value in named.items() if value is not None}
    return {**found, **_thinking(config, provider), **config.extra_params}


def _thinking(config: LLMConfig, provider: str | None) -> dict[str, Any]:
    """Each provider has its own field for the same wish."""
    thinking = config.get_thinking_config()
    if thinking is None:
        return {}
    budget, effort = thinking.get_effective_budget(), thinking.get_reasoning_effort()
    if provider == "anthropic":
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
    if provider == "openrouter":
        if effort == ThinkingLevel.NONE:
            return {"reasoning": {"enabled": False}}
        return {"reasoning": {"max_tokens": budget} if thinking.budget_tokens else {"effort": effort}}
    return {"reasoning_effort": effort}


def request_body(model: str, parameters: Mapping[str, Any], request: Request, terms: Terms) -> dict[str, Any]:
    """The body of one chat completion, under the terms that the endpoint is known to take.

    Example:
        >>> request_body("m", {"max_tokens": 9}, Request((Message("user", "Hi"),), "judge"),
        ...     Terms("max_completion_tokens"))
        {'model': 'm', 'messages': [{'role': 'user', 'content': 'Hi'}], 'max_completion_tokens': 9}
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": role, "content": content} for role, content in request.messages],
    }
    for name, value in parameters.items():
        if name not in terms.left_out:
            body[terms.token_field if name == "max_tokens" else name] = value
    limit = terms.limit_of(request.max_tokens or asked_limit(parameters))
    if limit is not None:
        body["max_completion_tokens" if "max_completion_tokens" in body else terms.token_field] = limit
    if "seed" in body and isinstance(body["seed"], int):
        body["seed"] += _seed_step(request)
    if request.schema is not None and request.constrained and "response_format" not in body:
        form = _response_format(request.schema, terms)
        if form:
            body["response_format"] = form
    return body


def asked_limit(parameters: Mapping[str, Any]) -> int | None:
    """The limit on completion tokens that a model's parameters name, under either of its names.

    Example:
        >>> asked_limit({"temperature": 0.0, "max_completion_tokens": 500})
        500
    """
    most = parameters.get("max_tokens", parameters.get("max_completion_tokens"))
    return most if isinstance(most, int) else None


def _seed_step(request: Request) -> int:
    """What a request adds to the seed, so that samples of one question are not copies of one reply."""
    step = SEED_PER_DRAW * request.draw + request.reask
    if request.seat or request.copy:
        digest = blake2b(b"%d.%d" % (request.seat, request.copy), digest_size=3).digest()
        step += int.from_bytes(digest, "little")
    return step


def _response_format(schema: ReplySchema, terms: Terms) -> dict[str, Any] | None:
    if terms.schema_form == "none":
        return None
    if terms.schema_form == "json_object":
        return {"type": "json_object"}
    name = re.sub(r"[^A-Za-z0-9_-]", "_", schema.name)[:64] or "reply"
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": dict(schema.body), "strict": False},
    }


def encoded(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON in UTF-8; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    data = json_bytes(body)
    try:
        data.decode()
    except UnicodeDecodeError:
        return clean(data.decode("utf-8", "surrogatepass")).encode()
    return data


_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


def read_reply(raw: bytes, latency: float, secrets: tuple[str | None, ...] = ()) -> Reply | Fault:
    """The reply in a 200 response, or the fault where there is none.

    Example:
        >>> read_reply(b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}', 0.1)
        Reply(text='', finish_reason='length', refusal=None, reasoning=None, model=None, usage=None,
            cost=None, latency=0.1, attempts=1, fresh=True, limit=None)
        >>> read_reply(b'Hello', 0.1).message
        'the answer is not JSON: Hello'
    """
    try:
        data = json_value(raw)
    except (ValueError, RecursionError):
        data = completion_of_events(raw)
        if data is None:
            return Fault("network", _not_json(raw, secrets), 200, again=True, maybe_billed=True)
    if not isinstance(data, dict):
        return _malformed("the answer is not a JSON object")
    if data.get("error"):
        return error_fault(data["error"], *secrets)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        stated = any(isinstance(data.get(key), str) and data[key] for key in ("message", "detail"))
        return error_fault(data, *secrets) if stated else _malformed("the answer has no choices")
    choice = choices[0]
    if choice.get("error"):
        return error_fault(choice["error"], *secrets)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    return Reply(
        text=cleared(_content(message.get("content")), *secrets),
        finish_reason=_FINISHES.get(str(choice.get("finish_reason")).lower(), "other"),
        refusal=_text_or_none(message.get("refusal"), *secrets),
        reasoning=_text_or_none(reasoning_in(message), *secrets),
        model=_text_or_none(data.get("model"), *secrets),
        usage=read_usage(data),
        cost=_stated_cost(data.get("usage")),
        latency=latency,
    )


def _not_json(raw: bytes, secrets: tuple[str | None, ...]) -> str:
    if raw[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return WEB_PAGE
    if not raw.strip():
        return "the answer is empty"
    start = " ".join(raw[:80].decode("utf-8", "replace").split())
    return f"the answer is not JSON: {redacted(start, *secrets)}"


def _malformed(message: str) -> Fault:
    return Fault("server", message, 200, again=True, maybe_billed=True)


def _content(content: object) -> str:
    if isinstance(content, str):
        return clean(content)
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content if not is_reasoning(part))
    return clean("".join(text for text in texts if isinstance(text, str)))


def _text_or_none(value: object, *secrets: str | None) -> str | None:
    return cleared(clean(value), *secrets) if isinstance(value, str) and value else None


def _stated_cost(usage: object) -> float | None:
    """Dollars where the endpoint says what it charges (OpenRouter does)."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    return float(cost) if is_finite(cost) and cost >= 0 else None


_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_REQUEST = 512


def prompt_ceiling(messages: tuple[Message, ...], schema: ReplySchema | None) -> int:
    """A number of tokens that the prompt cannot exceed.

    No tokenizer makes more tokens than bytes; the constants stand for the marks of a chat template and
    the system text that some templates add.

    Example:
        >>> prompt_ceiling((Message("user", "Hi"),), None)
        530
    """
    size = _TOKENS_PER_REQUEST
    for _, content in messages:
        size += _TOKENS_PER_MESSAGE + len(content.encode("utf-8", "surrogatepass"))
    if schema is not None:
        size += len(encoded(schema.body))
    return size
