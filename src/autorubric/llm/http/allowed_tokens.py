"""The tokens that an endpoint allows for a reply: by its refusals, and by what prompts take of the context."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from autorubric.llm.http.retry import Fault
from autorubric.llm.request import Request, Usage

_NUMBER = r"[`'\"(\[ ]*(\d[\d,_]*)"
_ABOUT_LIMIT = re.compile(
    r"max[_ ]?(?:completion_|output_|new_)?tokens|maxOutputTokens|(?:completion|output) tokens|context|token count|"
    r"maximum (?:allowed|number|tokens)|tokens? limit",
    re.IGNORECASE,
)
# Each captures the maximum of the parameter itself.
_HIGHEST = (
    r"supports? (?:at most|up to|a maximum of)" + _NUMBER,
    r"\d[\d,_]* > " + _NUMBER + r", which is the maximum",
    r"valid range of .{0,40}? is [\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
    r"(?:range of .{0,40}? should be|取值范围\D{0,9}?) ?[\[(]\s*\d+\s*,\s*(\d[\d,_]*)",
    r"less than or equal to" + _NUMBER,
    r"(?:<=|≤)" + _NUMBER + r"(?! *-)",
    r"greater than max_model_len=(?:\w+=)?" + _NUMBER,
    r"exceeds? the model limit of" + _NUMBER,
    r"(?:should|must|can)(?: ?not)? (?:be at most|exceed|be more than|be greater than)" + _NUMBER,
)
_EXCLUSIVE = r"(?:\[\d+, *|\bto )(\d+)(?:\)| \(exclusive\))"
_CONTEXT = (
    r"(?:maximum |max |available )?(?:context|model)(?:'s)?(?: maximum)?(?: context)? ?(?:length|size|window)?"
    r" (?:is|of)(?: only)?" + _NUMBER
)
_SUM = rf"(?:max_new_tokens`? must be <=|context limit: \d+ \+ \d+ >){_NUMBER}"
_PROMPT = (
    r"(\d[\d,_]*) (?:tokens )?(?:in|from|of) (?:the |your )?(?:messages|prompt|text input|input)\b",
    r"(\d[\d,_]*) (?:`inputs`|input|prompt) tokens",
    r"exceed context limit: (\d+) \+",
    r"(?:prompt|input|request)(?: \w+)? (?:contains|has|is)(?: at least)? (\d[\d,_]*)(?: input| prompt)? tokens",
)


class AllowedTokens(NamedTuple):
    """The completion tokens that an endpoint allows, `always` or because the prompt leaves no more of the context."""

    tokens: int
    always: bool


def find_allowed_tokens(words: str, asked: int) -> AllowedTokens | None:
    """Return the completion tokens that a refusal allows instead of `asked`; None if it is about something else."""
    if not _ABOUT_LIMIT.search(words):
        return None
    context, prompt = _find_count(words, _SUM, _CONTEXT), _find_count(words, *_PROMPT)
    if context is not None and prompt is not None:
        left = context - prompt
        left -= left == asked  # of a prompt with too many characters, vLLM states only what it allows
        return AllowedTokens(left, always=False) if 0 < left < asked else None
    exclusive = _find_count(words, _EXCLUSIVE)
    highest = (_find_count(words, *_HIGHEST) or 0) if exclusive is None else exclusive - 1
    return AllowedTokens(highest, always=True) if 0 < highest < asked else None


def _find_count(words: str, *patterns: str) -> int | None:
    """Return the number in the first of the patterns that matches, or None."""
    found = next((match for pattern in patterns if (match := re.search(pattern, words, re.IGNORECASE))), None)
    return None if found is None else int(found[1].replace(",", "").replace("_", ""))


def find_sent_limit(body: Mapping[str, Any]) -> int:
    """Return the completion limit in a request's body; 0 if there is none."""
    found = body.get("max_completion_tokens", body.get("max_tokens"))
    return found if isinstance(found, int) else 0


_TEMPLATE = 1024
"""Bytes that a chat template may add to a prompt."""


def measure_prompt(request: Request) -> int:
    """Return the bytes of a prompt, its template included."""
    return _TEMPLATE + sum(len(content.encode("utf-8", "surrogatepass")) for _, content in request.messages)


_SHORTEST = 64
"""Tokens below which no smaller limit is tried."""


class Context:
    """The context of a model, as its refusals state it, and what prompts and replies took so far.

    Prompts have at most `_rate` tokens per byte, replies at most `_longest`.
    """

    def __init__(self) -> None:
        self._length = self._longest = 0
        self._rate = 0.0

    def note_usage(self, request: Request, usage: Usage | None) -> None:
        """Note the tokens of a prompt and its reply."""
        if usage is not None:
            self._rate = max(self._rate, usage.prompt_tokens / measure_prompt(request))
            self._longest = max(self._longest, usage.completion_tokens)

    def fit(self, request: Request, limit: int | None) -> Request:
        """Return the request with the limit that its prompt probably leaves of the context, to avoid a refusal.

        If that may be too low for the reply, or a reply was truncated, the endpoint decides.

        Args:
            request: as it was asked.
            limit: of its reply, its own or the model's.
        """
        if limit is None or request.cut_at or not (self._length and self._longest):
            return request
        left = self._length - math.ceil(self._rate * measure_prompt(request))
        is_fitting = max(2 * self._longest, request.room) <= left < limit
        return replace(request, max_tokens=left) if is_fitting else request

    def shorten(self, request: Request, body: Mapping[str, Any], fault: Fault, *, again: bool) -> Request | None:
        """The request with the completion limit that its prompt leaves of the context, if the refusal states it.

        vLLM counts a prompt only until it is one token too long, so the limit is halved where that is all that a
        refusal says, or where a first one was not low enough (`again`).
        """
        sent = find_sent_limit(body)
        allowed = find_allowed_tokens(fault.text, sent)
        if allowed is None or allowed.always:
            return None
        self._length = _find_count(fault.text, _SUM, _CONTEXT) or self._length
        is_stated = not again and allowed.tokens != sent - 1
        tokens = allowed.tokens if is_stated else min(allowed.tokens, sent // 2)
        least = 0 if is_stated else max(request.cut_at + 1, _SHORTEST)
        return replace(request, max_tokens=tokens) if tokens >= least else None
