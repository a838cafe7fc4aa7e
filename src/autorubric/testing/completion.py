"""What a simulated model says, before it is put on the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Completion:
    """The part of a chat completion that varies: content, why it ended, a refusal, and reasoning before it.

    Example:
        >>> Completion("Yes.").content
        'Yes.'
    """

    content: str | None
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning: str | None = None


CHARS_A_TOKEN = 4


def estimated_tokens(characters: int) -> int:
    """Tokens of a text of that many characters, at four characters a token, rounded up.

    Example:
        >>> estimated_tokens(9)
        3
    """
    return -(-characters // CHARS_A_TOKEN)


def prompt_text(body: dict[str, Any]) -> str:
    r"""All that a request body says, as one text: what a server would compute a prefix over.

    Example:
        >>> prompt_text({"messages": [{"role": "user", "content": "Hi"}]})
        'user\nHi\n'
    """
    parts: list[str] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        parts.append(f"{message.get('role')}\n{content if isinstance(content, str) else json.dumps(content)}\n")
    return "".join(parts)


def envelope(completion: Completion, model: str, prompt_tokens: int, cached_tokens: int | None = None) -> bytes:
    """The body of a `chat.completion` answer.

    Args:
        completion: what the model said.
        model: the name to answer under.
        prompt_tokens: tokens of the request.
        cached_tokens: how many of them came from the prefix cache; None leaves the figure out.

    Example:
        >>> json.loads(envelope(Completion("Yes."), "m", 7))["usage"]
        {'prompt_tokens': 7, 'completion_tokens': 1, 'total_tokens': 8}
    """
    thought = estimated_tokens(len(completion.reasoning or ""))
    spoken = thought + estimated_tokens(len(completion.content or completion.refusal or ""))
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": spoken,
        "total_tokens": prompt_tokens + spoken,
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
