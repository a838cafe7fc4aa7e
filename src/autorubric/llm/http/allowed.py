"""How many completion tokens an endpoint allows, read from its refusal of a request that asked for more."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"[`'\"(\[ ]*(\d[\d,_]*)"
_ABOUT_LIMIT = re.compile(
    r"max_?(?:completion_|output_|new_)?tokens|maxOutputTokens|(?:completion|output) tokens|context|token count|"
    r"maximum (?:allowed|number)|tokens? limit",
    re.IGNORECASE,
)
# Each names the highest value of the parameter itself.
_HIGHEST = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"supports? (?:at most|up to|a maximum of)" + _NUMBER,
        r"\d[\d,_]* > " + _NUMBER + r", which is the maximum",
        r"valid range of .{0,40}? is [\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
        r"range of .{0,40}? should be [\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
        r"less than or equal to" + _NUMBER,
        r"(?:<=|≤)" + _NUMBER + r"(?! *-)",
        r"(?:should|must)(?: not)? (?:be at most|exceed|be more than|be greater than)" + _NUMBER,
    )
)
_EXCLUSIVE = re.compile(r"(?:\[\d+, *|\bto )(\d+)(?:\)| \(exclusive\))", re.IGNORECASE)
_CONTEXT = re.compile(
    r"(?:maximum |max |available )?(?:context|model)(?:'s)?(?: maximum)?(?: context)? ?(?:length|size|window)?"
    r" (?:is|of)(?: only)?" + _NUMBER,
    re.IGNORECASE,
)
_SUM = re.compile(r"max_new_tokens`? must be <=" + _NUMBER, re.IGNORECASE)
_PROMPT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\d[\d,_]*) (?:tokens )?(?:in|from|of) (?:the |your )?(?:messages|prompt|text input|input)\b",
        r"(\d[\d,_]*) (?:`inputs`|input|prompt) tokens",
        r"(?:prompt|input|request)(?: \w+)? (?:contains|has|is)(?: at least)? (\d[\d,_]*)(?: input| prompt)? tokens",
    )
)


class Allowed(NamedTuple):
    """What an endpoint allows.

    Attributes:
        tokens: completion tokens.
        always: whether that holds for every request; otherwise the prompt at hand leaves no more of the context.
    """

    tokens: int
    always: bool


def allowed_tokens(words: str, asked: int) -> Allowed | None:
    """The completion tokens that a refusal allows instead of `asked`; None where it is about something else.

    Args:
        words: the endpoint's own.
        asked: the limit that was sent.

    Example:
        >>> allowed_tokens("max_tokens is too large: 99999. This model supports at most 16384 completion tokens,"
        ...     " whereas you provided 99999.", 99999)
        Allowed(tokens=16384, always=True)
        >>> allowed_tokens("This model's maximum context length is 8192 tokens. However, you requested 9192 tokens"
        ...     " (1192 in the messages, 8000 in the completion).", 8000)
        Allowed(tokens=7000, always=False)
    """
    if not _ABOUT_LIMIT.search(words):
        return None
    left = _left_of_context(words)
    if left is not None:
        return Allowed(left, always=False) if 0 < left < asked else None
    highest = 0
    if exclusive := _EXCLUSIVE.search(words):
        highest = _whole(exclusive[1]) - 1
    elif found := next((match for pattern in _HIGHEST if (match := pattern.search(words))), None):
        highest = _whole(found[1])
    return Allowed(highest, always=True) if 0 < highest < asked else None


def _left_of_context(words: str) -> int | None:
    """What the prompt leaves of the context; None where the words do not name both."""
    context = _SUM.search(words) or _CONTEXT.search(words)
    prompt = next((match for pattern in _PROMPT if (match := pattern.search(words))), None)
    if context is None or prompt is None:
        return None
    return _whole(context[1]) - _whole(prompt[1])


def _whole(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))
