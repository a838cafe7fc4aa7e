"""Telling a reply's answer from the thinking some endpoints leave in front of it."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)(?:seed:)?think(?:ing)?>|\[(/?)THINK\]|◁(/?)think▷", re.IGNORECASE)
_ANSWER_FOLLOWS = re.compile(r"[ \t]*(?:\n|\Z|[\[{`])")
_FINAL_CHANNEL = "<|channel|>final<|message|>"
_END_OF_CHANNEL = re.compile(r"<\|(?:end|return)\|>")


def without_thinking(text: str) -> str:
    """`text` without a thinking block at its front; empty where nothing follows the thinking.

    Thinking that never ends has no answer after it: a draft inside it is not the answer.

    Example:
        >>> without_thinking("<think>maybe [1]?</think>[2]")
        '[2]'
        >>> without_thinking("A closing </think> tag ends the block.")
        'A closing </think> tag ends the block.'
    """
    if not ("<" in text or "[" in text or "◁" in text):
        return text.strip()
    if _FINAL_CHANNEL in text:
        return _END_OF_CHANNEL.split(text.rpartition(_FINAL_CHANNEL)[2], maxsplit=1)[0].strip()
    first = _TAG.search(text)
    # Some endpoints eat the opening tag; prose that names the closing one goes on in the same line.
    if first and _closes(first) and _ANSWER_FOLLOWS.match(text, first.end()):
        text = text[first.end() :]
    while (opened := _TAG.match(text.lstrip())) and not _closes(opened):
        text = _after_block(text.lstrip(), opened.end())
    return text.strip()


def _after_block(text: str, start: int) -> str:
    closed = next((tag for tag in _TAG.finditer(text, start) if _closes(tag)), None)
    return text[closed.end() :] if closed else ""


def _closes(tag: re.Match[str]) -> bool:
    return any(tag.groups())
