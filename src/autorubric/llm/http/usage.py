"""Token counts of a response, in the forms that endpoints use, and whether they can be right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autorubric.files.quick_json import json_value
from autorubric.llm.request import Reply, Request, Usage

_LARGEST_COUNT = 10**8  # no context window comes near; sums of it still fit into the ledger
_WHOLE = re.compile(r"[0-9]{1,9}(?:\.0+)?")
_MOST_CHARACTERS_PER_TOKEN = 16
_RUN = re.compile(r"(.)\1+", re.DOTALL)
_LONGEST_QUOTE = 200


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """The token counts that a response states, or None where it states none that can be right.

    Reads the forms of OpenAI chat completions, the OpenAI Responses API, Anthropic and Gemini. A count may be
    a float without a fraction or a string of digits. Reasoning tokens that an endpoint keeps out of its
    completion count are added to it, because they are billed as completion.

    Example:
        >>> anthropic = {"input_tokens": 20, "cache_read_input_tokens": 80.0, "output_tokens": "7"}
        >>> usage = read_usage({"usage": anthropic})
        >>> usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        (100, 7, 80)
        >>> read_usage({"usage": {"prompt_tokens": 0, "completion_tokens": 7}}) is None
        True
    """
    return next((usage for usage in _forms(body) if usage is not None), None)


def is_believable(reply: Reply, request: Request) -> bool:
    """Whether the reply has token counts, and not fewer than its text and the prompt must have.

    No tokenizer averages 16 characters a token over a text, runs of one character aside. A reply that states
    less than one token for 16 characters is miscounted.

    Example:
        >>> is_believable(Reply("The sky is blue. " * 300, usage=Usage(10, 1)), Request((), "judge"))
        False
        >>> is_believable(Reply("The sky is blue. " * 300, usage=Usage(10, 1500)), Request((), "judge"))
        True
    """
    if reply.usage is None:
        return False
    said = (reply.text, reply.reasoning or "", reply.refusal or "")
    asked = [content for _, content in request.messages]
    return _can_hold(reply.usage.completion_tokens, *said) and _can_hold(reply.usage.prompt_tokens, *asked)


def quoted_usage(body: bytes) -> str:
    """What a response says of its usage, in its own words, for a message.

    Example:
        >>> quoted_usage(b'{"usage": {"prompt_tokens": -1}}'), quoted_usage(b'{}')
        ('{"prompt_tokens": -1}', 'none')
    """
    found = json_value(body)
    stated = found.get("usage") or found.get("usageMetadata")
    return json.dumps(stated)[:_LONGEST_QUOTE] if stated else "none"


def _can_hold(tokens: int, *texts: str) -> bool:
    most = tokens * _MOST_CHARACTERS_PER_TOKEN
    # Runs are only looked for where a text is too long: a tokenizer makes one token of 128 spaces.
    return sum(map(len, texts)) <= most or sum(len(_RUN.sub(r"\1", text)) for text in texts) <= most


def _forms(body: Mapping[str, Any]) -> Iterator[Usage | None]:
    stated = body.get("usage")
    if isinstance(stated, dict):
        yield _chat_form(stated)
        yield _input_form(stated)
    for metadata in (body.get("usageMetadata"), stated):
        if isinstance(metadata, dict):
            yield _gemini_form(metadata)


def _chat_form(raw: Mapping[str, Any]) -> Usage | None:
    """OpenAI's chat completions; the prompt holds its cached part."""
    details = raw.get("prompt_tokens_details")
    return _usage(
        _count(raw, "prompt_tokens"),
        _count(raw, "completion_tokens"),
        total=_count(raw, "total_tokens"),
        cached=_count(details, "cached_tokens") or _count(raw, "prompt_cache_hit_tokens"),
        reasoning=_count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        written=_count(details, "cache_write_tokens") or _count(raw, "cache_creation_input_tokens"),
    )


def _input_form(raw: Mapping[str, Any]) -> Usage | None:
    """Anthropic's, whose input holds no cached part, and that of the Responses API, whose input does."""
    written, read = _part(raw, "cache_creation_input_tokens"), _part(raw, "cache_read_input_tokens")
    return _usage(
        _sum(_count(raw, "input_tokens"), written, read),
        _count(raw, "output_tokens"),
        total=_count(raw, "total_tokens"),
        cached=read or _count(raw.get("input_tokens_details"), "cached_tokens"),
        reasoning=_count(raw.get("output_tokens_details"), "reasoning_tokens"),
        written=written,
    )


def _gemini_form(raw: Mapping[str, Any]) -> Usage | None:
    """Gemini's own; candidates are missing where the model only thought."""
    thoughts = _part(raw, "thoughtsTokenCount")
    answered = _part(raw, "candidatesTokenCount") if thoughts else _count(raw, "candidatesTokenCount")
    return _usage(
        _sum(_count(raw, "promptTokenCount"), _part(raw, "toolUsePromptTokenCount")),
        _sum(answered, thoughts),
        total=_count(raw, "totalTokenCount"),
        cached=_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


def _usage(
    prompt: int | None,
    completion: int | None,
    *,
    total: int | None,
    cached: int | None,
    reasoning: int | None,
    written: int | None = None,
) -> Usage | None:
    if not prompt:
        return None
    beyond = (total or 0) - prompt
    if completion is None and beyond <= 0:
        return None
    completion, reasoning = max(completion or 0, beyond), reasoning or 0
    if reasoning > completion:
        completion += reasoning
    cached, written = cached or 0, written or 0
    if cached + written > prompt:
        cached = written = 0
    return Usage(prompt, completion, cached, reasoning, written)


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _part(raw: Mapping[str, Any], name: str) -> int | None:
    """A count that may be left out: 0 where it is, None where it is there and is no count."""
    return 0 if raw.get(name) is None else _count(raw, name)


def _count(raw: object, name: str) -> int | None:
    """A whole number from 0 up, however it is written; None for anything else."""
    value = raw.get(name) if isinstance(raw, dict) else None
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_COUNT:
        return None
    return value
