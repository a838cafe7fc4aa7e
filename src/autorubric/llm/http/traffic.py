"""What left for an endpoint in the last seconds, and what of it was turned away."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

WINDOW = 2.0
"""Seconds over which the rate that an endpoint accepts is measured, at most."""

LEAST_SPAN = 1.0
"""Seconds that a rate is measured over, at least."""

MEMORY = 5.0
"""Seconds over which refusals are counted."""

TOLERANCE = 0.005
"""Share of requests that may be turned away without a meaning: others use the endpoint too."""


class Traffic:
    """The times at which requests left and at which those left that were turned away.

    Example:
        >>> traffic = Traffic()
        >>> for tenth in range(20):
        ...     traffic.sent(tenth / 10)
        >>> for tenth in range(5):
        ...     traffic.refused(tenth / 10, now=2.0)
        >>> traffic.accepted_rate(now=2.0), traffic.share(now=2.0), traffic.shows_a_limit(now=2.0)
        (7.5, 0.25, True)
    """

    def __init__(self) -> None:
        self._sends: deque[float] = deque()
        self._refusals: deque[float] = deque()  # when they were sent

    def sent(self, now: float) -> None:
        """One request leaves."""
        self._sends.append(now)
        while self._sends[0] < now - MEMORY:
            self._sends.popleft()

    def refused(self, sent_at: float, now: float) -> None:
        """The request that left at `sent_at` was turned away."""
        self._refusals.append(sent_at)
        while self._refusals and self._refusals[0] < now - MEMORY:
            self._refusals.popleft()

    def accepted_rate(self, now: float, since: float = -math.inf) -> float:
        """Requests a second that left since a moment and were not turned away, over `WINDOW` at most."""
        if not self._sends:
            return 0.0
        since = max(since, now - WINDOW, self._sends[0])
        sends, refusals = self._counts(since)
        return max(sends - refusals, 0) / max(now - since, LEAST_SPAN)

    def share(self, now: float, since: float = -math.inf) -> float:
        """The share of requests that left since a moment and were turned away, over `MEMORY` at most."""
        sends, refusals = self._counts(max(since, now - MEMORY))
        return refusals / max(sends, 1)

    def shows_a_limit(self, now: float, since: float = -math.inf, background: float = 0.0) -> bool:
        """Whether more was turned away than chance brings where refusals have nothing to do with the rate.

        Args:
            now: the moment.
            since: what left earlier does not count.
            background: the share that is turned away at any rate.
        """
        sends, refusals = self._counts(max(since, now - MEMORY))
        expected = max(TOLERANCE, 1.5 * background) * sends
        return refusals > expected + 2 * math.sqrt(expected) + 1

    def _counts(self, since: float) -> tuple[int, int]:
        sends = len(self._sends) - bisect_left(self._sends, since)
        return sends, sum(1 for sent_at in self._refusals if sent_at >= since)
