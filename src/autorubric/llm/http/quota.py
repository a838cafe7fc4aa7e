"""Limits from the headers of responses."""

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple, TypeAlias

LONGEST_RESET = 120.0
"""Maximum seconds to wait for a reset."""

TOLERANCE = 0.02
"""Share by which a reset may be off, for travel times and rounding; requests wait that much longer."""

SOON = 0.02
"""Seconds that do not matter: timers are late, and requests take to arrive, less than that."""

STEADY = 0.98
"""Share of the limit that is used until a response describes the current window."""

FASTEST = 2.0
"""Maximum multiple of the limit's own rate, so that a burst that a sliding window gives back is spread out."""

CHARGED = 0.02
"""Share of a token limit that must be used before the tokens that the endpoint charges for ours can be measured."""

Unit: TypeAlias = Literal["requests", "tokens"]


class Reading(NamedTuple):
    """One limit: units of the whole window (None if not stated), units left, and seconds until they are all back."""

    unit: Unit
    limit: float | None
    left: float
    reset: float


class _WindowState(NamedTuple):
    """What a response said: units left once `taken` were taken, until a moment."""

    taken: float
    left: float
    until: float


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


def read_limits(headers: Mapping[str, str], now: float | None = None) -> Iterator[Reading]:
    """Yield the limits in a response, with what is left and the time of the reset.

    `headers` must ignore case. `now` replaces a missing `Date` header; by default it is this machine's clock.
    """
    found: set[Unit] = set()
    for unit, remaining, until, most in _NAMES:
        if remaining not in headers or unit in found:
            continue
        left, reset = parse_number(headers[remaining]), parse_reset(headers.get(until), read_clock(headers, now))
        if left is None or reset is None or math.inf in (left, reset):
            continue
        found.add(unit)
        limit = parse_number(headers.get(most))
        yield Reading(unit, limit and max(limit, left), left, min(reset, LONGEST_RESET))


_SPAN = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_SIZES = (86_400.0, 3600.0, 60.0, 1.0, 0.001)


def parse_reset(text: str | None, now: float) -> float | None:
    """Seconds until a reset: `1m30s`, `20ms`, plain seconds, an RFC 3339 time, or seconds since the epoch."""
    text = (text or "").strip()
    if not text:
        return None
    seconds = parse_number(text)
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


_UNITS = re.compile(
    r"(?<=[0-9]) ?(?:(m)illi(s)econds?|(s)ec(?:ond)?s?|(m)in(?:ute)?s?|(h)(?:ou)?rs?|(d)ays?)\b(?: and )?"
)
_SPANS = r"((?:[0-9]+(?:\.[0-9]+)? ?(?:ms|[dhms])?(?![a-z]))+)(?![0-9]|[-:/][0-9])"  # no date
_IN_WORDS = re.compile(rf'(?:(?:retry|try again) (?:in|after) |please wait |"retrydelay": *"){_SPANS}')


def find_wait(words: str) -> float | None:
    """Return the wait in seconds that OpenAI and Gemini put into the message or its details rather than the header.

    Example:
        >>> find_wait("Rate limit reached. Please try again in 1m30s.")
        90.0
    """
    short = _UNITS.sub(lambda unit: "".join(filter(None, unit.groups())), words.lower())
    found = _IN_WORDS.search(short)
    return parse_reset(found[1].replace(" ", ""), 0.0) if found else None


def read_clock(headers: Mapping[str, str], now: float | None) -> float:
    """Return the endpoint's clock, which its resets refer to."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return time.time() if now is None else now


def parse_number(text: str | None) -> float | None:
    """Return the number from 0 up in a header, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if number >= 0 else None


class Quota:
    """How fast an endpoint's own headers allow requests to leave.

    What is left is spread evenly over the time until the reset. That uses up a fixed window, keeps a bucket half
    full (its reset is the time until it is full), and keeps a sliding window just below its limit. After a reset
    the rate is the limit divided by the longest reset, until a response about the new window arrives.
    """

    def __init__(self) -> None:
        self._taken = 0.0
        self._last = -math.inf  # when units were last taken, or should have been
        self._newest: _WindowState | None = None
        self._first: _WindowState | None = None  # about the same window as the newest
        self._charge = 1.0  # the endpoint's units for one of ours
        self._limit = 1.0
        self._limit_told = False
        self._longest = SOON

    def delay(self, units: float, now: float) -> float:
        """Seconds until `units` can be taken; where they exceed a whole window, until it is empty."""
        return max(0.0, self._find_due_time(units, now) - now)

    def take(self, units: float, now: float) -> float:
        """Take `units`, and return the total taken so far."""
        self._last = now if self._newest is None else max(now - SOON, min(now, self._find_due_time(units, now)))
        self._taken += units
        return self._taken

    def apply_reading(self, reading: Reading, taken: float, sent_at: float) -> None:
        """Apply the response to the request after which `taken` units were taken; an older one changes nothing."""
        if self._newest is not None and taken <= self._newest.taken:
            return
        if reading.limit:
            self._limit, self._limit_told = max(reading.limit, 1.0), True
        else:
            self._limit = max(reading.left, self._limit)
        self._longest = max(reading.reset, self._longest)
        until = sent_at + reading.reset * (1 + TOLERANCE) + SOON
        self._newest = newest = _WindowState(taken, reading.left, until)
        first = self._first
        if first is None or abs(until - first.until) > 2 * TOLERANCE * self._longest + SOON:
            self._first = newest
        elif reading.unit == "tokens" and first.left - reading.left > CHARGED * self._limit:
            self._charge = (first.left - reading.left) / (taken - first.taken)

    def _find_due_time(self, units: float, now: float) -> float:
        newest, cost = self._newest, min(units * self._charge, self._limit)
        if newest is None:
            return now
        steadily = self._longest / self._limit  # seconds for a unit
        if now >= newest.until and not self._limit_told:
            return now
        if now >= newest.until:
            return self._last + cost * steadily / STEADY
        left = newest.left - (self._taken - newest.taken) * self._charge
        if left < cost:
            return newest.until
        return self._last + cost * max((newest.until - now) / left, steadily / FASTEST)
