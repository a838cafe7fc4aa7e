"""Limits on tokens as servers keep them: replies are cut off, and limits that are too high are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from autorubric.testing.completion import CHARS_A_TOKEN, Completion, estimated_tokens


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """How an endpoint keeps to limits on completion tokens, at four characters a token.

    Attributes:
        most_tokens: requests for more are refused with a 400; None takes any.
        context: prompt and completion together; requests for more are refused with a 400.
        default: completion tokens where a request names no limit.

    Example:
        >>> TokenLimits().cut(Completion("x" * 100), {"max_tokens": 5})
        Completion(content='xxxxxxxxxxxxxxxxxxxx', finish_reason='length', refusal=None, reasoning=None)
    """

    most_tokens: int | None = None
    context: int | None = None
    default: int = 4096

    def refusal(self, body: Mapping[str, Any], prompt_tokens: int) -> str | None:
        """Why a request is refused, in the words of OpenAI and vLLM; None where it is taken."""
        asked = _limit(body)
        if asked is None:
            return None
        if self.most_tokens is not None and asked > self.most_tokens:
            supported = f"This model supports at most {self.most_tokens} completion tokens"
            return f"max_tokens is too large: {asked}. {supported}, whereas you provided {asked}."
        if self.context is not None and prompt_tokens + asked > self.context:
            has = f"maximum context length is {self.context} tokens and your request has {prompt_tokens} input tokens"
            return f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's {has}."
        return None

    def cut(self, completion: Completion, body: Mapping[str, Any]) -> Completion:
        """The completion up to the limit of its request, reasoning first."""
        most = _limit(body) or self.default
        reasoning, content = completion.reasoning or "", completion.content or ""
        left = most - estimated_tokens(len(reasoning))
        if estimated_tokens(len(content)) <= left:
            return completion
        return replace(
            completion,
            content=content[: max(left, 0) * CHARS_A_TOKEN],
            reasoning=reasoning[: most * CHARS_A_TOKEN] or None,
            finish_reason="length",
        )


def _limit(body: Mapping[str, Any]) -> int | None:
    found = body.get("max_completion_tokens", body.get("max_tokens"))
    return found if isinstance(found, int) else None
