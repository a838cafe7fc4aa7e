"""How fast an endpoint may be asked once it has said that it was asked too fast."""

from __future__ import annotations

import math
from collections import deque

WINDOW = 5.0
"""Seconds over which the rate that an endpoint accepts is measured."""

EVIDENCE = 1.0
"""Seconds of sending at one rate before what was accepted counts as a measurement."""

MARGIN = 0.98
"""Share of the measured rate that is used."""

HOLD = 15.0
"""Seconds without a rate limit before a higher rate is tried; doubled each time that fails."""

LONGEST_HOLD = 240.0


class Pace:
    """A cap on requests per second, learned from what an endpoint accepts and what it turns away.

    There is no cap before the first rate limit. From then on the cap is a little below the rate of
    requests that were not turned away, and is raised in small steps after quiet times. Times are
    seconds on any clock that only goes forward; nothing here waits.

    Example:
        >>> pace = Pace()
        >>> pace.delay(0.0)
        0.0
        >>> for i in range(100):
        ...     pace.sent(0.0)
        >>> for i in range(40):  # 60 of 100 pass
        ...     pace.refused(0.0, 0.1)
        >>> pace.quiet_until(0.1) > 0.1, pace.rate_at(2.0) < 60
        (True, True)
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self._sends: deque[float] = deque()
        self._refusals: deque[float] = deque()  # by the time they were sent
        self._next = -math.inf
        self._cut_at = -math.inf
        self._measure_at = math.inf
        self._known_bad = math.inf
        self._hold = HOLD
        self._raised_at = -math.inf
