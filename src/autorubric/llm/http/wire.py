"""The chat completions protocol: a request to bytes, a response body to a reply."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from autorubric.errors import ConfigError
from autorubric.files.json_values import is_finite
from autorubric.files.strict_json import SLOW_MARK, decode_json, encode_json
from autorubric.llm.config import LLMConfig, ThinkingLevel
from autorubric.llm.http.address import WEB_PAGE
from autorubric.llm.http.allowed_tokens import find_sent_limit
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.prices import read_usage
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.retry import Fault, classify_error_object, classify_response, clean
from autorubric.llm.http.secrets import drop_secret_headers, hide_secrets, redact
from autorubric.llm.http.transport import HttpReply
from autorubric.llm.request import FinishReason, Message, Reply, ReplySchema, Request

_DELTA_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def join_events(raw: bytes) -> dict[str, Any] | None:
    """Return the chat completion that a stream's chunks add up to; None for anything else and a broken stream."""
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
    try:
        chunks = [decode_json(line) for line in lines if line not in (b"", b"[DONE]")]
    except (ValueError, RecursionError):
        return None
    whole: dict[str, Any] = {}
    parts: dict[str, list[Any]] = {}
    finish = None
    for chunk in chunks:
        if not isinstance(chunk, dict):
            return None
        whole.update((name, value) for name, value in chunk.items() if value is not None and name != "choices")
        for choice in _find_first_choices(chunk):
            finish = choice.get("finish_reason") or finish
            _add_delta(parts, choice.get("delta", choice.get("message")))
    if finish is None and b"[DONE]" not in lines:
        return whole if whole.get("error") else None
    message = {
        name: "".join(found) if all(isinstance(part, str) for part in found) else found
        for name, found in parts.items()
    }
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


def _find_first_choices(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    choices = chunk.get("choices")
    found = choices if isinstance(choices, list) else []
    return [choice for choice in found if isinstance(choice, dict) and not choice.get("index")]


def _add_delta(parts: dict[str, list[Any]], delta: Any) -> None:
    """Add the texts in a delta, and the parts of its content, to those before it."""
    for name in _DELTA_TEXTS if isinstance(delta, dict) else ():
        found = delta.get(name)
        if found and isinstance(found, str | list):
            parts.setdefault(name, []).extend([found] if isinstance(found, str) else found)


_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_TEXT_FIELDS = ("text", "summary", "thinking", "content", "reasoning")
_MOST_NESTED = 5


def find_reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning in a message apart from its answer, or None.

    Reads `reasoning_content` (DeepSeek, vLLM, llama.cpp), `reasoning` and `reasoning_details` (OpenRouter),
    `thinking` (Ollama), and content parts marked as reasoning (Mistral, Anthropic).
    """
    for name in _FIELDS:
        if (value := message.get(name)) and (text := "".join(_collect_texts(value))):
            return text
    content = message.get("content")
    if not isinstance(content, list):
        return None
    return "".join(_collect_texts([part for part in content if is_reasoning(part)])) or None


def is_reasoning(part: object) -> bool:
    """Return whether a part of a message's content is reasoning rather than answer."""
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind.partition(".")[0] in {"reasoning", "thinking", "redacted_thinking"}


def _collect_texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts in a text, a list of parts or a part; not ids, signatures or encrypted reasoning."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < _MOST_NESTED:
        for part in value:
            yield from _collect_texts(part, depth + 1)
    elif isinstance(value, dict) and depth < _MOST_NESTED:
        found = next((value[name] for name in _TEXT_FIELDS if value.get(name)), None)
        yield from _collect_texts(found, depth + 1)


SEED_PER_DRAW = 1000


def build_identity(config: LLMConfig, endpoint: Endpoint) -> tuple[Any, ...]:
    """Address, served name and all that is sent with each request, except keys and other secrets."""
    thinking = config.get_thinking_config()
    level = None if thinking is None else [str(thinking.level), thinking.budget_tokens]
    identity = (
        endpoint.base_url,
        endpoint.keyed or endpoint.model,
        config.temperature,
        config.max_tokens,
        config.top_p,
        config.seed,
        level,
        dict(config.extra_params),
        drop_secret_headers(config.extra_headers),
    )
    try:
        json.dumps(identity, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model {endpoint.name!r} has extra_params that are not JSON: {error}") from None
    return identity


def build_sampling(config: LLMConfig, provider: str | None) -> dict[str, Any]:
    """Return the parameters of `config` as this protocol spells them; unset ones are missing, zeros are not."""
    found = {name: getattr(config, name) for name in ("temperature", "max_tokens", "top_p", "seed")}
    found = {name: value for name, value in found.items() if value is not None}
    return {**found, **_build_thinking(config, provider), **config.extra_params}


def _build_thinking(config: LLMConfig, provider: str | None) -> dict[str, Any]:
    """Return the thinking level in the field that the provider has for it."""
    thinking = config.get_thinking_config()
    if thinking is None:
        return {}
    budget, effort = thinking.get_effective_budget(), thinking.get_reasoning_effort()
    if provider == "anthropic":
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
    if provider == "volcengine" and effort == ThinkingLevel.NONE:
        return {"thinking": {"type": "disabled"}}
    if provider == "openrouter":
        if effort == ThinkingLevel.NONE:
            return {"reasoning": {"enabled": False}}
        return {"reasoning": {"max_tokens": budget} if thinking.budget_tokens else {"effort": effort}}
    return {"reasoning_effort": effort}


_STREAMED = (("stream", True), ("stream_options", {"include_usage": True}))


def build_body(model: str, parameters: Mapping[str, Any], request: Request, terms: Terms) -> dict[str, Any]:
    """Return the body of one chat completion, in the form that the endpoint is known to accept."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _build_messages(request.messages, terms),
    }
    for name, value in (*parameters.items(), *(_STREAMED if terms.streams else ())):
        if name not in terms.left_out:
            body[terms.token_field if name == "max_tokens" else name] = value
    limit = terms.cap_limit(request.max_tokens or find_sent_limit(parameters) or None)
    if limit is not None:
        body["max_completion_tokens" if "max_completion_tokens" in body else terms.token_field] = limit
    if "seed" in body and isinstance(body["seed"], int):
        body["seed"] += _compute_seed_step(request)
    if request.schema is not None and request.constrained and "response_format" not in body:
        form = _build_response_format(request.schema, terms)
        if form:
            body["response_format"] = form
    return body


def _build_messages(messages: tuple[Message, ...], terms: Terms) -> list[dict[str, str]]:
    """Return the messages; where the endpoint takes no system messages, their text is the start of the next one."""
    found, before = [], ""
    for role, content in messages:
        if role == "system" and not terms.system_role:
            before += f"{content}\n\n"
        else:
            found.append({"role": role, "content": before + content})
            before = ""
    return found or [{"role": "user", "content": before}]


def _compute_seed_step(request: Request) -> int:
    """Return what a request adds to the seed, so that samples of one question differ."""
    step = SEED_PER_DRAW * request.draw + request.reask
    if request.seat or request.copy:
        digest = blake2b(b"%d.%d" % (request.seat, request.copy), digest_size=3).digest()
        step += int.from_bytes(digest, "little")
    return step


def _build_response_format(schema: ReplySchema, terms: Terms) -> dict[str, Any] | None:
    if terms.schema_form == "none":
        return None
    if terms.schema_form == "json_object":
        return {"type": "json_object"}
    name = _clean_name(schema.name)
    return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema.body), "strict": False}}


@lru_cache(maxsize=64)
def _clean_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "reply"


def encode_body(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON in UTF-8; lone surrogates, which UTF-8 cannot represent, become U+FFFD."""
    data = encode_json(body)
    return clean(data.decode("utf-8", "surrogatepass")).encode() if data.startswith(SLOW_MARK) else data


_FINISHES: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "max_length", "model_length"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("content_filter", "safety", "prohibited_content", "recitation", "blocklist"), "content_filter"),
    **dict.fromkeys(("spii", "sensitive", "refusal", "content_filtered", "guardrail_intervened"), "content_filter"),
    **dict.fromkeys(("tool_calls", "function_call"), "tool_calls"),
}
_BROKEN_OFF = frozenset({"error", "abort", "cancelled", "timeout", "network_error", "insufficient_system_resource"})
"""Finish reasons of a reply that its endpoint gave up (OpenRouter, vLLM, SGLang, Zhipu, DeepSeek)."""


_OUT_OF_TOKENS = re.compile("could not finish the message because max_tokens", re.IGNORECASE)
"""A reply that was cut off, as Azure reports it under status 400."""


def read_answer(answer: HttpReply, latency: float, secrets: tuple[str | None, ...] = ()) -> Reply | Fault:
    """Return the reply in a response, or the fault if it has none."""
    fault = classify_response(answer, *secrets)
    if fault is not None and answer.status == 400 and _OUT_OF_TOKENS.match(fault.text):
        return Reply("", "length", latency=latency)
    return fault or read_reply(answer.body, latency, secrets)


def read_reply(raw: bytes, latency: float, secrets: tuple[str | None, ...] = ()) -> Reply | Fault:
    """Return the reply in a 200 response, or the fault if it has none."""
    try:
        data = decode_json(raw, share_texts=False)
    except (ValueError, RecursionError):
        data = join_events(raw)
        if data is None:
            return Fault("network", _describe_not_json(raw, secrets), 200, again=True, maybe_billed=True)
    choice = _find_choice(data, raw, secrets)
    if isinstance(choice, Fault):
        return choice
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    return Reply(
        text=hide_secrets(_join_content(message.get("content")) or _read_call_arguments(message), *secrets),
        finish_reason=_FINISHES.get(_read_finish(choice), "other"),
        refusal=_clean_text(message.get("refusal"), *secrets),
        reasoning=_clean_text(find_reasoning(message), *secrets),
        model=_clean_text(data.get("model"), *secrets),
        usage=read_usage(data),
        cost=_read_cost(data.get("usage")),
        latency=latency,
    )


def with_limit(reply: Reply, body: Mapping[str, Any], allowed: int | None = None) -> Reply:
    """Return the reply; a truncated one gets its limit, unless that was below what the endpoint allows.

    Some servers report `stop` for truncated replies.
    """
    limit = find_sent_limit(body)
    used_up = reply.finish_reason in ("stop", "other") and reply.usage and reply.usage.completion_tokens == limit
    if not limit or not (used_up or reply.finish_reason == "length"):
        return reply
    return replace(reply, finish_reason="length", limit=None if limit < (allowed or 0) else limit)


def _find_choice(data: object, raw: bytes, secrets: tuple[str | None, ...]) -> dict[str, Any] | Fault:
    """Return the first choice of an answer, or the fault if it has none that is complete."""
    if not isinstance(data, dict):
        return _build_fault(f"the answer is not a JSON object: {_quote_beginning(raw, secrets)}")
    if data.get("error"):
        return classify_error_object(data["error"], *secrets)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _build_no_choices_fault(data, raw, secrets)
    choice: dict[str, Any] = choices[0]
    if choice.get("error"):
        return classify_error_object(choice["error"], *secrets)
    if (finish := _read_finish(choice)) in _BROKEN_OFF:
        return _build_fault(f"the endpoint broke the reply off (finish_reason {finish!r})")
    return choice


def _build_no_choices_fault(data: dict[str, Any], raw: bytes, secrets: tuple[str | None, ...]) -> Fault:
    status = data.get("base_resp")  # MiniMax
    status = status if isinstance(status, dict) else data
    if any(isinstance(status.get(key), str) and status[key] for key in ("message", "detail", "status_msg")):
        return classify_error_object(status, *secrets)
    return _build_fault(f"the answer has no choices: {_quote_beginning(raw, secrets)}")


def _read_finish(choice: Mapping[str, Any]) -> str:
    """Return why a reply ended, in lower case and without Gemini's details (`content_filter: OTHER`)."""
    return str(choice.get("finish_reason")).lower().partition(":")[0]


def _describe_not_json(raw: bytes, secrets: tuple[str | None, ...]) -> str:
    if raw[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return WEB_PAGE
    if not raw.strip():
        return "the answer is empty"
    if raw.lstrip().startswith((b"data:", b"event:", b":")):
        return "the stream ended before the reply was complete"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"the answer is not UTF-8 at byte {error.start:,}: {_quote_beginning(raw[error.start :], secrets)}"
    return f"the answer is not JSON: {_quote_beginning(raw, secrets)}"


def _quote_beginning(raw: bytes, secrets: tuple[str | None, ...]) -> str:
    return redact(" ".join(raw[:80].decode("utf-8", "replace").split()), *secrets)


def _build_fault(message: str) -> Fault:
    return Fault("server", message, 200, again=True, maybe_billed=True)


def _join_content(content: object) -> str:
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, dict):  # one part, or the JSON that was requested
        is_part = isinstance(content.get("text"), str) and content.keys() <= {"type", "text", "annotations"}
        return clean(content["text"] if is_part else encode_json(content).decode("utf-8", "surrogatepass"))
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content if not is_reasoning(part))
    return clean("".join(text for text in texts if isinstance(text, str)))


def _read_call_arguments(message: Mapping[str, Any]) -> str:
    """The arguments of the only call: no tools are offered, but gateways may turn a schema into one (LiteLLM)."""
    calls = message.get("tool_calls") or [{"function": message.get("function_call")}]
    if not isinstance(calls, list) or len(calls) != 1 or not isinstance(calls[0], dict):
        return ""
    function = calls[0].get("function")
    return _join_content(function.get("arguments")) if isinstance(function, dict) else ""


def _clean_text(value: object, *secrets: str | None) -> str | None:
    return hide_secrets(clean(value), *secrets) if isinstance(value, str) and value else None


def _read_cost(usage: object) -> float | None:
    """Dollars if the endpoint states what it charges (OpenRouter does)."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    return float(cost) if is_finite(cost) and cost >= 0 else None


_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_REQUEST = 512


def bound_prompt(messages: tuple[Message, ...], schema: ReplySchema | None) -> int:
    """Return a number of tokens that the prompt cannot exceed.

    No tokenizer makes more tokens than bytes; the constants cover the special tokens of a chat template and the
    system text that some templates add.
    """
    size = _TOKENS_PER_REQUEST
    for _, content in messages:
        # Text in ASCII has as many bytes as characters.
        size += _TOKENS_PER_MESSAGE + len(content if content.isascii() else content.encode("utf-8", "surrogatepass"))
    return size if schema is None else size + _count_schema(schema.encoded)


@lru_cache(maxsize=64)
def _count_schema(encoded: bytes) -> int:
    """Return the bytes of a schema, given `ReplySchema.encoded`."""
    _, body = decode_json(encoded)
    return len(encode_body(body))
