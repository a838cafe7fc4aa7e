"""The reasoning in a message, in the forms in which endpoints send it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_TEXTS = ("text", "summary", "thinking", "content", "reasoning")
_MOST_NESTED = 5


def reasoning_in(message: Mapping[str, Any]) -> str | None:
    """The reasoning that a message carries apart from its answer; None where it carries none.

    Read are `reasoning_content` (DeepSeek, vLLM, llama.cpp), `reasoning` and `reasoning_details` (OpenRouter),
    `thinking` (Ollama), and parts of the content that are marked as reasoning (Mistral, Anthropic).

    Example:
        >>> reasoning_in({"reasoning_details": [{"type": "reasoning.text", "text": "Two causes."}]})
        'Two causes.'
        >>> reasoning_in({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "4"}]})
        'Hm.'
    """
    for name in _FIELDS:
        if text := "".join(_texts(message.get(name))):
            return text
    content = message.get("content")
    parts = [part for part in content if is_reasoning(part)] if isinstance(content, list) else []
    return "".join(_texts(parts)) or None


def is_reasoning(part: object) -> bool:
    """Whether a part of a message's content is reasoning and no part of the answer.

    Example:
        >>> is_reasoning({"type": "thinking", "thinking": "Hm."}), is_reasoning({"type": "text", "text": "4"})
        (True, False)
    """
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind.partition(".")[0] in {"reasoning", "thinking", "redacted_thinking"}


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """The texts in a text, a list of parts or a part; ids, signatures and encrypted reasoning are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < _MOST_NESTED:
        for part in value:
            yield from _texts(part, depth + 1)
    elif isinstance(value, dict) and depth < _MOST_NESTED:
        found = next((value[name] for name in _TEXTS if value.get(name)), None)
        yield from _texts(found, depth + 1)
