"""A stream of server-sent events, from a server that streams although it was not asked to, as one completion."""

from __future__ import annotations

from typing import Any

from autorubric.files.quick_json import json_value

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def completion_of_events(raw: bytes) -> dict[str, Any] | None:
    r"""The chat completion that the chunks of a stream add up to; None for anything else and for a broken stream.

    Example:
        >>> stream = b'data: {"choices": [{"delta": {"content": "M"}}]}\n\n'
        >>> stream += b'data: {"choices": [{"delta": {"content": "ET"}, "finish_reason": "stop"}]}\n'
        >>> completion_of_events(stream)["choices"]
        [{'message': {'content': 'MET'}, 'finish_reason': 'stop'}]
        >>> completion_of_events(stream[:60]) is None
        True
    """
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
    try:
        chunks = [json_value(line) for line in lines if line not in (b"", b"[DONE]")]
    except (ValueError, RecursionError):
        return None
    whole: dict[str, Any] = {}
    message: dict[str, str] = {}
    finish = None
    for chunk in chunks:
        if not isinstance(chunk, dict):
            return None
        whole.update((name, value) for name, value in chunk.items() if value is not None and name != "choices")
        for choice in _first_choices(chunk):
            finish = choice.get("finish_reason") or finish
            _add(message, choice.get("delta"))
    if finish is None and b"[DONE]" not in lines:
        return whole if whole.get("error") else None
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


def _first_choices(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    choices = chunk.get("choices")
    found = choices if isinstance(choices, list) else []
    return [choice for choice in found if isinstance(choice, dict) and not choice.get("index")]


def _add(message: dict[str, str], delta: object) -> None:
    for name in _TEXTS if isinstance(delta, dict) else ():
        part = delta.get(name) if isinstance(delta, dict) else None
        if isinstance(part, str):
            message[name] = message.get(name, "") + part
