"""Telling a reply's answer from the thinking some endpoints leave in front of it."""

from __future__ import annotations

import re

_OPEN = re.compile(r"\s*(?:<(?:seed:)?think(?:ing)?>|\[THINK\]|◁think▷)", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:seed:)?think(?:ing)?>|\[/THINK\]|◁/think▷", re.IGNORECASE)
# Without its opening tag, a closing one counts only where an answer begins after it: prose may name the tag.
_CLOSE_ALONE = re.compile(
    r"\A(?:(?!<(?:seed:)?think(?:ing)?>|\[THINK\]|◁think▷).)*?"
    r"(?:</(?:seed:)?think(?:ing)?>|\[/THINK\]|◁/think▷)(?=[ \t]*(?:\n|\Z|[\[{`]))",
    re.IGNORECASE | re.DOTALL,
)
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
    if _FINAL_CHANNEL in text:
        return _END_OF_CHANNEL.split(text.rpartition(_FINAL_CHANNEL)[2], maxsplit=1)[0].strip()
    if alone := _CLOSE_ALONE.match(text):
        text = text[alone.end() :]
    while opened := _OPEN.match(text):
        closed = _CLOSE.search(text, opened.end())
        text = text[closed.end() :] if closed else ""
    return text.strip()
