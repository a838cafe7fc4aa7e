"""What an endpoint says of its limits in the headers of each response."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple, TypeAlias

LONGEST_RESET = 120.0
"""Seconds; a reset that is further away is not waited for longer."""

TOLERANCE = 0.02
"""Share of a window by which a reset may be off, for travel times and rounding; requests wait that much longer."""

Unit: TypeAlias = Literal["requests", "tokens"]


class Reading(NamedTuple):
    """One limit: units of the whole window, units left, and seconds until they are all back."""

    unit: Unit
    limit: float
    left: float
    reset: float


_PATTERNS: tuple[tuple[Unit, str], ...] = (
    ("requests", "x-ratelimit-{}-requests"),
    ("tokens", "x-ratelimit-{}-tokens"),
    ("requests", "anthropic-ratelimit-requests-{}"),
    ("tokens", "anthropic-ratelimit-tokens-{}"),
    ("requests", "x-ratelimit-{}"),
    ("requests", "ratelimit-{}"),
)
_NAMES: list[tuple[Unit, str, str, str]] = [
    (unit, name.format("remaining"), name.format("reset"), name.format("limit")) for unit, name in _PATTERNS
]


def readings(headers: Mapping[str, str], now: float | None = None) -> Iterator[Reading]:
    """The limits that a response names with what is left and when it comes back; others are left out.

    Args:
        headers: of a response; names are looked up as they are written here and need a mapping that ignores case.
        now: seconds since the epoch where there is no `Date` header; by default this machine's clock.

    Example:
        >>> openai = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
        ...           "x-ratelimit-reset-requests": "1m30s"}
        >>> list(readings(openai))
        [Reading(unit='requests', limit=60.0, left=59.0, reset=90.0)]
    """
    found: set[Unit] = set()
    for unit, remaining, until, most in _NAMES:
        if remaining not in headers or unit in found:
            continue
        left, reset = _number(headers[remaining]), reset_seconds(headers.get(until), _clock(headers, now))
        if left is None or reset is None:
            continue
        found.add(unit)
        limit = _number(headers.get(most))
        yield Reading(unit, left if limit is None else max(limit, left), left, min(reset, LONGEST_RESET))


_SPAN = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_SIZES = (86_400.0, 3600.0, 60.0, 1.0, 0.001)


def reset_seconds(text: str | None, now: float) -> float | None:
    """Seconds until a reset: `1m30s`, `20ms`, plain seconds, an RFC 3339 time, or seconds since the epoch.

    Example:
        >>> [reset_seconds(text, 1_700_000_000.0) for text in ("1m30s", "20ms", "59.5", "2023-11-14T22:13:30Z")]
        [90.0, 0.02, 59.5, 10.0]
        >>> reset_seconds("1700000060", 1_700_000_000.0), reset_seconds("soon", 0.0)
        (60.0, None)
    """
    text = (text or "").strip()
    if not text:
        return None
    seconds = _number(text)
    if seconds is not None:
        if seconds > 1e12:  # milliseconds since the epoch
            seconds /= 1000
        return max(0.0, seconds - now) if seconds > 1e9 else seconds
    span = _SPAN.fullmatch(text)
    if span is not None:
        return sum(float(part) * size for part, size in zip(span.groups(), _SIZES, strict=True) if part)
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _clock(headers: Mapping[str, str], now: float | None) -> float:
    """The endpoint's clock, which its resets refer to."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return time.time() if now is None else now


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


class Quota:
    """Units left in an endpoint's window: what it said last, less what was taken since.

    From the reset on, units come back at a steady rate, the limit divided by the longest reset that was heard, until
    a response says how many there are: all of a window that begins anew, or the few of one that slides.

    Example:
        >>> quota = Quota()
        >>> taken = quota.take(1)
        >>> quota.hear(Reading("requests", 60, 1, 30.0), taken, sent_at=0.0)
        >>> quota.delay(1, now=0.0), quota.take(1), quota.delay(1, now=10.0)
        (0.0, 2.0, 20.6)
    """

    def __init__(self) -> None:
        self._taken = 0.0
        self._left = math.inf  # of what was ever taken: the sum up to which requests may go
        self._until = math.inf
        self._ended = False
        self._limit = self._longest_reset = 0.0

    def delay(self, units: float, now: float) -> float:
        """Seconds until `units` can be taken; where they exceed a whole window, until it is empty."""
        if now >= self._until and not self._ended:
            self._ended, self._left = True, self._taken
        if self._ended:
            back_at = self._until + (self._taken - self._left) * self._longest_reset / self._limit
            return max(0.0, back_at - now)
        return 0.0 if self._taken + units <= self._left else self._until - now

    def take(self, units: float) -> float:
        """Take `units`, and return all that were ever taken."""
        self._taken += units
        return self._taken

    def hear(self, said: Reading, taken: float, sent_at: float) -> None:
        """Believe the response to the request after which `taken` units were taken.

        Requests overtake each other. A reset only ever moves forward, so an earlier one is old news. Of responses
        with the same reset, the one that leaves least has counted most requests.
        """
        self._limit, self._longest_reset = max(said.limit, 1.0), max(said.reset, self._longest_reset)
        same = TOLERANCE * self._longest_reset
        left, until = taken + said.left, sent_at + said.reset + same
        if self._left == math.inf or until > self._until + same or sent_at >= self._until:
            self._left, self._until, self._ended = left, until, False
        elif until > self._until - same:
            self._left, self._until, self._ended = min(left, self._left), max(until, self._until), False
