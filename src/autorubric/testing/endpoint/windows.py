"""Limits on requests and tokens in a window of time, as providers set them."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from autorubric.errors import ConfigError

Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RateWindow:
    """How many requests and tokens an endpoint takes in each window of time; more gets a 429.

    Attributes:
        requests: most in a window; None for no limit.
        tokens: most in a window, prompts and `max_tokens` together; None for no limit.
        seconds: the length of the window.
        kind: `fixed` windows follow each other, a `sliding` one always ends now.
        retry_after: whether a 429 says after how many whole seconds to come back.
        ratelimit_headers: whether every answer has OpenAI's `x-ratelimit-*` headers.

    Raises:
        ConfigError: a window or a limit that is not positive, or an unknown kind.

    Example:
        >>> window = RateWindow(requests=1, seconds=10.0, ratelimit_headers=True).opened()
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

    def opened(self) -> OpenWindow:
        """A window in which nothing was taken yet."""
        return OpenWindow(self)


@dataclass(slots=True)
class OpenWindow:
    """What was taken of a window."""

    limits: RateWindow
    _taken: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many tokens
    _tokens: int = 0
    _start: float | None = None

    def admit(self, now: float, tokens: int) -> tuple[float, Headers]:
        """Seconds until there is room for a request of so many tokens, and headers; 0 takes the room."""
        self._forget(now)
        limits = self.limits
        full = limits.requests is not None and len(self._taken) >= limits.requests
        full |= limits.tokens is not None and self._tokens + tokens > limits.tokens
        reset = self._reset(now) if self._taken else limits.seconds
        wait = max(reset, 1e-3) if full else 0.0
        if not full:
            self._taken.append((now, tokens))
            self._tokens += tokens
        return wait, self._headers(reset, wait)

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

    def _reset(self, now: float) -> float:
        """Seconds until something comes back."""
        start = self._taken[0][0] if self.limits.kind == "sliding" else self._start
        assert start is not None
        return start + self.limits.seconds - now

    def _headers(self, reset: float, wait: float) -> Headers:
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
                    headers.append((f"x-ratelimit-reset-{unit}", _span(reset)))
        return tuple(headers)


def _span(seconds: float) -> str:
    """A time as OpenAI writes it: `20ms`, `1.5s`, `1m30s`."""
    if seconds < 1:
        return f"{math.ceil(1000 * seconds)}ms"
    minutes, rest = divmod(seconds, 60)
    return (f"{minutes:.0f}m" if minutes else "") + f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
