"""Limits of providers: tokens per call, requests and tokens per window; and a prefix cache."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from autorubric.errors import ConfigError
from autorubric.testing.completion import CHARS_A_TOKEN, Completion, estimate_tokens

Headers: TypeAlias = tuple[tuple[str, str], ...]
_BLOCK_TOKENS = 16
_BLOCK_CHARACTERS = _BLOCK_TOKENS * CHARS_A_TOKEN


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Limits on completion tokens, at four characters per token.

    Attributes:
        most_tokens: requests for more get a 400; None for no limit.
        context: prompt and completion together; requests for more get a 400.
        default: the limit of a request that has none.

    Example:
        >>> TokenLimits().cut(Completion("x" * 100), {"max_tokens": 5})
        Completion(content='xxxxxxxxxxxxxxxxxxxx', finish_reason='length', refusal=None, reasoning=None)
    """

    most_tokens: int | None = None
    context: int | None = None
    default: int = 4096

    def find_refusal(self, body: Mapping[str, Any], prompt_tokens: int) -> str | None:
        """Return why a request is refused, in the words of OpenAI and vLLM; None if it is accepted."""
        asked = read_token_limit(body)
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
        """Return the completion, truncated at the limit of its request; reasoning counts first."""
        most = read_token_limit(body) or self.default
        reasoning, content = completion.reasoning or "", completion.content or ""
        left = most - estimate_tokens(len(reasoning))
        if estimate_tokens(len(content)) <= left:
            return completion
        return replace(
            completion,
            content=content[: max(left, 0) * CHARS_A_TOKEN],
            reasoning=reasoning[: most * CHARS_A_TOKEN] or None,
            finish_reason="length",
        )


def read_token_limit(body: Mapping[str, Any]) -> int | None:
    """Return the maximum completion tokens of a request; None if it has no limit."""
    found = body.get("max_completion_tokens", body.get("max_tokens"))
    return found if isinstance(found, int) else None


@dataclass(frozen=True, slots=True)
class RateWindow:
    """How many requests and tokens an endpoint accepts in each time window; more get a 429.

    Attributes:
        requests: maximum per window; None for no limit.
        tokens: maximum per window, prompts and `max_tokens` together; None for no limit.
        seconds: the length of the window.
        kind: `fixed` windows follow each other, a `sliding` one always ends now.
        retry_after: whether a 429 has a Retry-After header, in whole seconds.
        ratelimit_headers: whether every answer has OpenAI's `x-ratelimit-*` headers.

    Raises:
        ConfigError: the window or a limit is not positive, or the kind is unknown.

    Example:
        >>> window = RateWindow(requests=1, seconds=10.0, ratelimit_headers=True).open()
        >>> window.admit(0.0, tokens=5)[1][1:]
        (('x-ratelimit-remaining-requests', '0'), ('x-ratelimit-reset-requests', '10s'))
        >>> window.admit(4.0, tokens=5)[0]
        6.0
    """

    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0
    kind: Literal["fixed", "sliding"] = "fixed"
    retry_after: bool = False
    ratelimit_headers: bool = False

    def __post_init__(self) -> None:
        numbers = [n for n in (self.requests, self.tokens, self.seconds) if n is not None]
        if min(numbers) <= 0 or not all(map(math.isfinite, numbers)) or self.kind not in ("fixed", "sliding"):
            raise ConfigError(f"{self} has a limit or a length that is not positive, or is not fixed or sliding")

    def open(self) -> OpenWindow:
        """Return a new, empty window."""
        return OpenWindow(self)


@dataclass(slots=True)
class OpenWindow:
    """What a window has admitted."""

    limits: RateWindow
    _taken: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many tokens
    _tokens: int = 0
    _start: float | None = None

    def admit(self, now: float, tokens: int) -> tuple[float, Headers]:
        """Seconds until there is room for a request of this many tokens, and headers; 0 admits it."""
        self._forget(now)
        limits = self.limits
        full = limits.requests is not None and len(self._taken) >= limits.requests
        full |= limits.tokens is not None and self._tokens + tokens > limits.tokens
        reset = self._compute_reset(now) if self._taken else limits.seconds
        wait = max(reset, 1e-3) if full else 0.0
        if not full:
            self._taken.append((now, tokens))
            self._tokens += tokens
        return wait, self._build_headers(reset, wait)

    def _forget(self, now: float) -> None:
        if self.limits.kind == "sliding":
            start = now - self.limits.seconds
        else:
            if self._start is None:
                self._start = now
            self._start += (now - self._start) // self.limits.seconds * self.limits.seconds
            start = math.nextafter(self._start, -math.inf)
        while self._taken and self._taken[0][0] <= start:
            self._tokens -= self._taken.popleft()[1]

    def _compute_reset(self, now: float) -> float:
        """Seconds until the limit recovers."""
        start = self._taken[0][0] if self.limits.kind == "sliding" else self._start
        assert start is not None
        return start + self.limits.seconds - now

    def _build_headers(self, reset: float, wait: float) -> Headers:
        headers: list[tuple[str, str]] = []
        if wait and self.limits.retry_after:
            headers.append(("Retry-After", str(math.ceil(wait))))
        if self.limits.ratelimit_headers:
            left = (
                (self.limits.requests, len(self._taken), "requests"),
                (self.limits.tokens, self._tokens, "tokens"),
            )
            for limit, taken, unit in left:
                if limit is not None:
                    headers.append((f"x-ratelimit-limit-{unit}", str(limit)))
                    headers.append((f"x-ratelimit-remaining-{unit}", str(limit - taken)))
                    headers.append((f"x-ratelimit-reset-{unit}", _format_span(reset)))
        return tuple(headers)


def _format_span(seconds: float) -> str:
    """Return a time as OpenAI writes it: `20ms`, `1.5s`, `1m30s`."""
    if seconds < 1:
        return f"{math.ceil(1000 * seconds)}ms"
    minutes, rest = divmod(seconds, 60)
    return (f"{minutes:.0f}m" if minutes else "") + f"{rest:.3f}".rstrip("0").rstrip(".") + "s"


class TokenBucket:
    """A limit on requests per second, with a burst of a tenth of that, at least one.

    Example:
        >>> bucket = TokenBucket(10.0)
        >>> bucket.wait(now=0.0), bucket.wait(now=0.0), bucket.wait(now=0.1)
        (0.0, 0.1, 0.0)
    """

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._burst = max(1.0, per_second / 10)
        self._tokens = self._burst
        self._last: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until there is room for this request; 0 admits it."""
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        self._tokens = min(self._burst, self._tokens + elapsed * self._rate)
        if self._tokens >= 1 - 1e-9:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class PrefixCache:
    """How many tokens of a prompt a server with prefix caching would not compute again.

    Only whole blocks are shared, and only after the call that computed them: concurrent calls do not help each other.
    Nothing is evicted.

    Example:
        >>> cache = PrefixCache()
        >>> cache.count_cached_tokens("x" * 200)
        0
        >>> cache.store("x" * 200)
        >>> cache.count_cached_tokens("x" * 200 + "y")  # 200 characters hold three whole blocks of 64
        48
    """

    def __init__(self) -> None:
        self._blocks: set[int] = set()

    def count_cached_tokens(self, prompt: str) -> int:
        """Tokens at the start of `prompt` whose blocks are stored."""
        found = 0
        for key in _hash_blocks(prompt):
            if key not in self._blocks:
                break
            found += 1
        return min(found * _BLOCK_TOKENS, estimate_tokens(len(prompt)))

    def store(self, prompt: str) -> None:
        """Store every whole block of `prompt`."""
        self._blocks.update(_hash_blocks(prompt))


def _hash_blocks(prompt: str) -> list[int]:
    keys: list[int] = []
    key = 0
    for start in range(0, len(prompt) - _BLOCK_CHARACTERS + 1, _BLOCK_CHARACTERS):
        key = hash((key, prompt[start : start + _BLOCK_CHARACTERS]))
        keys.append(key)
    return keys
