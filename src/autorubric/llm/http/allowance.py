"""Limits that a user sets: calls in flight, requests and tokens per minute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one model's configuration allows at its endpoint; the strictest of all models counts.

    Example:
        >>> Allowance(64).strictest(Allowance(8, requests_per_minute=60))
        Allowance(in_flight=8, requests_per_minute=60, tokens_per_minute=None)
    """

    in_flight: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def strictest(self, other: Allowance) -> Allowance:
        """The lower of each limit; None is no limit."""
        return Allowance(
            min(self.in_flight, other.in_flight),
            _lower(self.requests_per_minute, other.requests_per_minute),
            _lower(self.tokens_per_minute, other.tokens_per_minute),
        )


def _lower(one: float | None, other: float | None) -> float | None:
    return min((x for x in (one, other) if x is not None), default=None)


class Bucket:
    """Units that come back at a steady rate, never more than `per_minute` taken in any minute.

    One second's worth may be taken at once. What is larger than the bucket is let through when the
    bucket is full and leaves a debt, so that a request larger than the limit is late instead of stuck.

    Example:
        >>> bucket = Bucket(60, now=0.0)
        >>> bucket.take(1, now=0.0); bucket.delay(1, now=0.0), bucket.delay(1, now=1.0)
        (1.0, 0.0)
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self._size = max(1.0, per_minute / 60)
        # A full bucket and a minute's refill together must not exceed the limit.
        self._rate = (per_minute - (self._size - 1.0)) / 60
        self._level = self._size
        self._at = now

    def delay(self, units: float, now: float) -> float:
        """Seconds until `units` can be taken."""
        self._refill(now)
        missing = min(units, self._size) - self._level
        return max(0.0, missing / self._rate)

    def take(self, units: float, now: float) -> None:
        """Take `units`; negative ones give back."""
        self._refill(now)
        self._level = min(self._size, self._level - units)

    def _refill(self, now: float) -> None:
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now
