"""How fast an endpoint may be asked once it has said that it was asked too fast."""

from __future__ import annotations

import math

from autorubric.llm.http.traffic import WINDOW, Traffic

EVIDENCE = 1.0
"""Seconds of sending at one rate before what was accepted counts as a measurement."""

MARGIN = 0.98
"""Share of the measured rate that is used."""

DEEPEST_CUT = 0.5
"""Least share of the rate that one rate limit leaves, once there is a rate."""

HOLD = 15.0
"""Seconds without a rate limit before a rate near the known limit is raised; doubled each time that fails."""

LONGEST_HOLD = 240.0
SHORTEST_HOLD = 5.0

PAUSE = 0.1
"""Seconds that all requests wait when too many were turned away at a known rate; doubled while that goes on."""

LONG_STOP = 2.0
"""Seconds of a `Retry-After` from which on it holds for all requests. A shorter one is mostly a fraction of a
second that was rounded up: the request itself waits that long, and the others go on at the lower rate."""

STILL = 0.5
"""Share of the refusals that a cut must leave to show that they have nothing to do with the rate."""

UNEXPLAINED = 0.03
"""Share of refusals, beyond twice what the known limit explains, that shows the same."""

FORGETS = 0.99
"""What one raise of the rate leaves of the refusals that are taken for granted."""

FIRST_RATE = 2.0
"""Least requests per second after the first rate limit, which may come before anything was accepted."""

NEAR = 0.97
"""Share of a rate known to be too high from which on it is approached only after a hold."""

_CONFIRMS = 0.05  # two refused rates this close together mean the same limit
_LEAST_RATE = 1 / 60
_LATE_TIMER = 0.02  # seconds of lateness that are made up for


class Pace:
    """A cap on requests per second, learned from what an endpoint accepts and what it turns away.

    There is no cap before the first rate limit. That one stops all requests for a moment; what had
    passed until the end of the stop gives the first rate. From then on the rate is raised in quiet
    times, quickly while it is far from a rate known to be too high and carefully near it. A refusal now
    and then is no limit, and cuts that leave as many refusals as before are taken back: an endpoint may
    turn requests away for reasons of its own. All times are seconds on one clock that only goes forward;
    nothing here waits.

    Example:
        >>> pace = Pace()
        >>> pace.delay(0.0)
        0.0
        >>> for _ in range(100):
        ...     pace.sent(0.0)
        >>> for _ in range(40):  # 60 of 100 pass
        ...     pace.refused(0.0, 0.1)
        >>> pace.delay(0.1)  # a stop of one second
        1.0
        >>> pace.delay(1.1), round(pace.rate)
        (0.0, 53)
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self._traffic = Traffic()
        self._next = -math.inf
        self._stopped_until = -math.inf
        self._since = -math.inf  # the first request that was sent at the present rate
        self._changed_at = -math.inf
        self._limited_at = -math.inf
        self._asked_to_stop = False
        self._cut_share = self._cut_accepted = 0.0  # turned away and accepted when the rate was cut last
        self._uncut = math.inf  # the rate before cuts that changed nothing
        self._cuts_in_vain = 0
        self._background = 0.0  # turned away whatever the rate
        self._pause = PAUSE
        self._known_bad = math.inf
        self._hold = HOLD
        self._raised = False  # since the last cut

    def delay(self, now: float) -> float:
        """Seconds until the next request may be sent; 0 when it may be sent now."""
        if now < self._stopped_until:
            return self._stopped_until - now
        if self.rate == math.inf:
            if not self._asked_to_stop:
                return 0.0
            self._start(now)
        self._raise(now)
        return max(0.0, self._next - now)

    def sent(self, now: float) -> None:
        """One request leaves."""
        self._traffic.sent(now)
        self._since = min(self._since, now)
        if self.rate != math.inf:
            late = max(_LATE_TIMER, 0.5 / self.rate)
            self._next = max(self._next, now - late) + 1.0 / self.rate

    def refused(self, sent_at: float, now: float, retry_after: float | None = None) -> None:
        """The request that left at `sent_at` was turned away for coming too fast.

        A `retry_after` of more than `LONG_STOP` seconds stops all requests for that long.
        """
        self._traffic.refused(sent_at, now)
        self._asked_to_stop = True
        first, long_stop = self.rate == math.inf, (retry_after or 0.0) > LONG_STOP
        if first or long_stop:
            self._stopped_until = max(self._stopped_until, now + max(retry_after or 0.0, EVIDENCE))
        if first or sent_at < self._since:
            return
        if long_stop:  # it leaves too little to measure
            self._cut(now, 0.95 * self.rate)
        elif self._traffic.shows_a_limit(now, self._since, self._background):
            self._rest(sent_at, now, retry_after)
            if sent_at >= self._since + EVIDENCE:
                self._learn(now)

    def _learn(self, now: float) -> None:
        """Cut the rate to what was accepted, unless the last cuts have shown that this changes nothing."""
        share, accepted = self._traffic.share(now, self._since), self._traffic.accepted_rate(now, self._since)
        explained = max(0.0, 1 - self._cut_accepted / self.rate)  # by a limit where the last cut found one
        in_vain = share >= max(2 * explained + UNEXPLAINED, STILL * self._cut_share)
        if not in_vain:
            self._uncut, self._cuts_in_vain = self.rate, 0
        self._cuts_in_vain += 1
        if self._cuts_in_vain > (1 if self._background else 2):
            self.rate, self._background, self._cuts_in_vain = self._uncut, share, 0
            self._since = math.inf
            return
        self._cut_share, self._cut_accepted = share, accepted
        self._cut(now, accepted)

    def _rest(self, sent_at: float, now: float, retry_after: float | None) -> None:
        """Hold everything for a moment, which is longer each time until nothing is turned away any more."""
        if sent_at >= self._stopped_until:
            again = now <= self._limited_at + WINDOW
            self._pause = min(2 * self._pause, retry_after or EVIDENCE) if again else PAUSE
            self._stopped_until = now + self._pause
        self._limited_at = now

    def _start(self, now: float) -> None:
        self.rate = max(self._traffic.accepted_rate(now) * MARGIN, FIRST_RATE)
        self._next = self._changed_at = now
        self._since = math.inf

    def _cut(self, now: float, measured: float) -> None:
        known_bad, self._known_bad = self._known_bad, self.rate
        self.rate = max(min(self.rate, measured) * MARGIN, DEEPEST_CUT * self.rate, _LEAST_RATE)
        if not math.isfinite(known_bad) or abs(self._known_bad / known_bad - 1) >= _CONFIRMS:
            self._hold = HOLD
        elif self._raised:
            self._hold = min(2 * self._hold, LONGEST_HOLD)
        self._raised = False
        self._changed_at = now
        self._since = math.inf

    def _raise(self, now: float) -> None:
        if self._known_bad == math.inf:
            quiet, step = 1.0, 1.5
        elif self.rate < NEAR * self._known_bad:
            quiet, step = 1.0, 1.05 if self.rate < 0.9 * self._known_bad else 1.01
        else:
            quiet, step = self._hold, 1.01
        if now - max(self._changed_at, self._limited_at) >= quiet:
            self.rate *= step
            self._background *= FORGETS
            self._raised = True
            self._changed_at = now
            if self.rate > self._known_bad:  # the limit is not there any more
                self._hold = max(self._hold / 2, SHORTEST_HOLD)
