"""Learns how fast an endpoint may be called from the requests that it refuses as too fast.

A limit closes the endpoint; what it accepts between two openings, divided by the time between them, is the rate.
docs/design/rate_limits.md explains why this suits fixed windows, sliding windows and buckets, and what it costs.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from autorubric.llm.http.chance import Chance

EVIDENCE = 1.0
"""Minimum seconds over which a rate is measured."""

LEAST = 10
"""Minimum requests over which a rate is measured; a raise of a lower rate needs those of one step."""

START = 10
"""Requests that are sent at once before anything is known of the endpoint, all processes together (RFC 6928)."""

DOUBLING = 0.1
"""Seconds in which that number doubles. Each reply adds two more, as in the slow start of TCP (RFC 5681)."""

MARGIN = 0.97
"""Share of the measured rate that is used."""

SPENDS = 0.015
"""Share of one process's requests that may be refused to find out whether the limit is higher than measured."""

PURSE = 5.0
"""Maximum refusals that can be saved up, or owed."""

OWED = 4.0
"""Refusals that are owed when an endpoint has closed and opened again."""

FIRST_STEP = 0.02
"""First raise of the rate; each further one is twice as large, up to `LARGEST_STEP`."""

LARGEST_STEP = 0.3
"""Largest raise. Refusals come late in a window, after several raises: larger ones overshoot."""

ROUGH_STEP = 0.08
"""The same after the first measurement, which may come from requests that waited for their retries.

It is also the largest raise near a known limit where requests are refused by chance, which hides what a raise costs.
"""

NEAR = 0.8
"""Share of the rate at the last cut above which a rate counts as near the limit."""

FORGETTING = 0.9
"""Minimum share of that rate that a cut keeps: chance can make a rate seem too high."""

STEPS = 6
"""Raises in the time of one window."""

IN_A_ROW = 3
"""Refusals in a row that show that an endpoint is closed; more where many are refused by chance."""

FIRST_RUN = 8, 12
"""The number of refused requests, and of requests sent with them, before any limit has shown.

A burst may arrive in another order than it was sent in, and one refusal in ten at random must not look like a limit.
"""

CHANCE = 1e-4
"""The probability of a streak this long if refusals come by chance."""

FIRST_GAP = 0.05
"""Seconds between the first requests that try whether an endpoint is open again, for windows of a few seconds."""

WIDENING = 1.15
"""Factor from one such gap to the next."""

ROUNDED_UP = 1.0
"""Seconds by which a `Retry-After` may be longer than needed. The refused request itself waits all of it."""

LONGEST_WINDOW = 60.0
"""Seconds that are remembered while no window has been measured."""

FLOOR = 0.5
"""Minimum share of the rate that a measurement of a closed endpoint keeps: a wrong one must not stop a run."""

_MARKS = 32  # points in a window from which the rate can be measured
_LATE_TIMER = 0.02  # seconds of lateness that are made up for
_ROUNDING = 1e-5  # seconds by which a request may leave earlier than it should
_PATIENCE = 3.0  # times the slowest refusal, after which a request counts as accepted


class SentRequest(NamedTuple):
    """A request that left: its number and when."""

    number: int
    at: float


@dataclass(slots=True)
class _Mark:
    """The number of requests sent by a moment, and how many of them were refused until now."""

    at: float
    sent: int
    refused: int
    idle: float  # seconds in which fewer requests came than the pace allowed


class Pace:
    """A cap on requests per second, learned from what an endpoint accepts and what it refuses.

    All times are seconds on one clock that only goes forward; nothing here waits.

    Args:
        processes: how many share the first burst.
        spends: replaces `SPENDS` near a rate that was too high.

    Attributes:
        rate: requests per second; infinite until a limit shows.
        is_closed: whether the endpoint refuses everything.

    Example:
        >>> pace = Pace()
        >>> sent = [pace.record_sent(0.0) for _ in range(100)]
        >>> for one in sent[60:]:
        ...     pace.record_refused(one, now=0.1)
        >>> round(pace.delay(0.1), 3), pace.rate  # closed; one request goes when the first gap is over
        (0.05, inf)
    """

    def __init__(self, processes: int = 1, spends: float = SPENDS) -> None:
        self.rate = math.inf
        self._spends = spends
        self._too_fast = math.inf  # the last rate that had to be lowered
        self._next = -math.inf
        self._start = START / processes
        self._began = -math.inf
        self._replies = 0
        self._so_far = _Mark(-math.inf, 0, 0, 0.0)
        self._marks: deque[_Mark] = deque(maxlen=3 * _MARKS)
        self._opened = self._changed = self._make_mark(-math.inf)
        self._window = 0.0  # seconds; 0 while no limit has closed the endpoint
        self._refusals: deque[int] = deque(maxlen=256)
        self._passed = 0  # the last request that is known not to have been refused
        self._slowest = 0.0  # seconds that refusals take
        # Closed or open, and the request that finds out.
        self.is_closed = self._confirmed = False
        self._gap = FIRST_GAP
        self._closed_at = self._try_at = self._stop = -math.inf
        self._tried: SentRequest | None = None
        self._before = self.rate, self._window, self._opened
        # Raising and cutting.
        self._purse = 0.0
        self._step = FIRST_STEP
        self._raised_from = 0.0  # the rate before the last change, where that was a raise
        self._held = False  # whether the rate has held a request back since it changed
        self._chance = Chance()
        self._ceiling = math.inf  # the limit, as far as cuts have shown it
        self._uncut = math.inf  # the rate before the last cuts in a row
        self._is_cut = False  # whether the rate is what was accepted at the one before

    def delay(self, now: float) -> float:
        """Seconds until the next request may be sent; 0 when it may be sent now."""
        if self.is_closed:
            wait = self._compute_closed_delay(now)
            if self.is_closed:
                return wait
        self._raise_rate(now)
        self._held |= self._next > now
        return max(0.0, self._next - now, self._find_next_start() - now if self.rate == math.inf else 0.0)

    def _find_next_start(self) -> float:
        """When the next request may be sent, while no limit has shown: a burst of all calls could hit one."""
        ahead = self._so_far.sent + 1 - 2 * self._replies
        return self._began + DOUBLING * math.log2(ahead / self._start) if ahead > self._start else -math.inf

    def record_sent(self, now: float) -> SentRequest:
        """Note that a request leaves."""
        if not self._marks or now - self._marks[-1].at >= (self._window or LONGEST_WINDOW) / _MARKS:
            self._marks.append(self._make_mark(now))
        if self._so_far.sent <= 1:  # the first request goes ahead alone
            self._opened = self._changed = self._make_mark(now)
            self._began = now
        self._so_far.sent += 1
        sent = SentRequest(self._so_far.sent, now)
        self._purse = min(self._purse + self._find_refusal_share(), PURSE)
        if self.is_closed:
            if now >= self._try_at - _ROUNDING:  # an earlier one, of another process, tries nothing
                self._tried = sent
        elif self.rate != math.inf:
            late = max(_LATE_TIMER, 0.5 / self.rate)
            self._so_far.idle += max(0.0, now - late - self._next)
            self._next = max(self._next, now - late) + 1.0 / self.rate
        return sent

    def record_refused(self, sent: SentRequest, now: float, retry_after: float | None = None) -> None:
        """Note that the request was refused as too fast.

        At a closed endpoint, a `retry_after` stops all requests until `ROUNDED_UP` seconds before it ends.
        """
        self._slowest = max(now - sent.at, 0.9 * self._slowest)
        if not self._refusals or sent.number > self._refusals[-1]:
            self._refusals.append(sent.number)
        else:
            self._refusals.appendleft(sent.number)
        self._note_not_accepted(sent)
        if self._tried is not None and sent.number == self._tried.number:
            self._note_still_closed(now)
        elif not self.is_closed and sent.number > self._opened.sent:
            if self._is_one_of_many(sent.number):
                self._close(now)
            elif sent.number > self._changed.sent:
                self._weigh(now)
        if self.is_closed:
            self._stop = max(self._stop, sent.at + max(0.0, (retry_after or 0.0) - ROUNDED_UP))

    def record_accepted(self, sent: SentRequest, now: float) -> None:
        """Note that the request was not refused; if it left after the last refusal, the endpoint is open."""
        self._passed = max(self._passed, sent.number)
        self._replies += 1
        if self.is_closed and sent.at > self._closed_at:
            self._open(now)

    def record_withdrawn(self, sent: SentRequest) -> None:
        """Note that the request was never sent, or lost, which shows nothing; another one may try the endpoint."""
        self._note_not_accepted(sent)
        if self._tried is not None and sent.number == self._tried.number:
            self._tried = None

    def count_closed_seconds(self, now: float) -> float:
        """Seconds since the endpoint closed; 0 while it is open."""
        return now - self._closed_at if self.is_closed else 0.0

    def _note_not_accepted(self, sent: SentRequest) -> None:
        for mark in {id(m): m for m in (self._so_far, self._opened, self._changed, *self._marks)}.values():
            mark.refused += sent.number <= mark.sent

    def _make_mark(self, now: float) -> _Mark:
        return _Mark(now, self._so_far.sent, self._so_far.refused, self._so_far.idle)

    def _compute_accepted_rate(self, since: _Mark, until: float) -> float:
        accepted = (self._so_far.sent - since.sent) - (self._so_far.refused - since.refused)
        seconds = until - since.at - (self._so_far.idle - since.idle)
        return max(accepted, 1) / max(seconds, EVIDENCE)

    # Closed

    def _is_one_of_many(self, number: int) -> bool:
        """Return whether requests before and after it were refused too, more of them than by chance."""
        if self._passed > number:  # it is open
            return False
        needed, of = FIRST_RUN if self.rate == math.inf else (IN_A_ROW, IN_A_ROW)
        if self._chance.share:
            needed = max(needed, math.ceil(math.log(CHANCE) / math.log(self._chance.share)))
            of = max(needed, of)
        near = [n for n in self._refusals if abs(n - number) < of]
        return any(sum(first <= n < first + of for n in near) >= needed for first in near)

    def _close(self, now: float) -> None:
        self.is_closed, self._confirmed, self._tried, self._is_cut = True, False, None, False
        self._closed_at, self._stop = now, -math.inf
        self._gap = max(FIRST_GAP, (self._window or min(now - self._opened.at, LONGEST_WINDOW)) / 50, 1 / self.rate)
        self._try_at = now + self._gap

    def _note_still_closed(self, now: float) -> None:
        if not self.is_closed:  # this refusal was slower than others
            self.rate, self._window, self._opened = self._before
            self.is_closed = True
        self._confirmed, self._tried = True, None
        self._gap *= WIDENING
        self._try_at = now + self._gap

    def _compute_closed_delay(self, now: float) -> float:
        if self._tried is None:
            return max(0.0, self._try_at - now, self._stop - now)
        # A refusal that is slow because a machine is busy must not look like an acceptance.
        least = EVIDENCE if self.rate == math.inf else max(FIRST_GAP, self._window / 10)
        patience = self._tried.at + max(least, _PATIENCE * self._slowest)
        if now < patience:
            return patience - now
        self._open(now)
        return 0.0

    def _open(self, now: float) -> None:
        self.is_closed, self._next = False, now
        self._before = self.rate, self._window, self._opened
        # It opened between the last refusal and now. The earlier moment gives the higher rate, and only a
        # rate that is too high is corrected by the next measurement.
        opened, since = self._stop, self._opened
        # Less than half a window is a gap in a closed endpoint, such as one that takes small requests at its limit.
        unsure = opened - since.at < max(EVIDENCE, self._window / 2) or (
            not self._confirmed and opened < self._closed_at
        )
        if unsure and self.rate != math.inf:
            return
        within_one = self._closed_at - since.at < 1.15 * self._window or opened - self._closed_at > self._window
        if within_one or not self._window:
            self._window = max(opened - since.at, EVIDENCE)
        else:  # it was open for longer than a window
            since = next((mark for mark in reversed(self._marks) if mark.at <= self._closed_at - self._window), since)
        self._purse, self._ceiling = (0.0, math.inf) if self.rate == math.inf else (-OWED, self.rate)
        measured = MARGIN * self._compute_accepted_rate(since, opened) / (1 - self._chance.share)
        self._set_rate(measured if self.rate == math.inf else max(measured, FLOOR * self.rate), now)
        self._opened = self._make_mark(opened)

    # Open

    def _raise_rate(self, now: float) -> None:
        if self.rate == math.inf or not self._held:
            return
        sent, seconds = self._count_sent(), max(EVIDENCE, self._window / STEPS)
        if sent < min(LEAST, math.ceil(self.rate * seconds)) or now - self._changed.at < seconds:
            return
        refused, share = self._count_refused(), self._chance.share
        by_chance, enough = self._chance.can_explain(refused, sent), self._find_refusal_share() * sent >= 1
        if self._is_cut and share and enough and by_chance:
            self._chance.learn(refused, sent)
            self._set_rate(self.rate / (1 - self._chance.share), now)
        elif (
            self._purse >= 0 or (enough and not refused) or (share and by_chance and self.rate < NEAR * self._ceiling)
        ):
            step, before = self._step, self.rate
            if self._is_cut:
                self._chance.learn(refused, sent)
            self._set_rate(before * (1 + step), now)
            largest = ROUGH_STEP if share and self.rate > NEAR * self._ceiling else LARGEST_STEP
            self._raised_from, self._step = before, min(2 * step, largest)

    def _weigh(self, now: float) -> None:
        """Take one refusal into account, and lower the rate if there are more than chance explains."""
        sent, refused = self._count_sent(), self._count_refused()
        if self._chance.can_explain(refused, sent):
            return
        self._purse = max(self._purse - 1, -PURSE)
        if self._purse >= 0:
            return
        if self._raised_from and not self._chance.share:
            self._too_fast = self.rate
            self._set_rate(self._raised_from, now)
        elif now - self._changed.at >= EVIDENCE and (refused if self.rate == math.inf else sent) >= LEAST:
            self._lower_rate(refused, sent, now)

    def _lower_rate(self, refused: int, sent: int, now: float) -> None:
        """Cut the rate to what was accepted, unless chance has refused as many after the cut before.

        What was accepted is below the limit, whatever share of the rest was refused by chance.
        """
        if self._is_cut and self._chance.recall(refused, sent):
            self._purse, self._ceiling = 0.0, math.inf
            if self._uncut < math.inf:
                self._set_rate(self._uncut, now)
            return
        if self.rate == math.inf:
            self._purse = 0.0
        self._too_fast = self.rate
        accepted = self._compute_accepted_rate(self._changed, now)
        reached = accepted / (1 - self._chance.share)
        self._ceiling = reached if self._ceiling == math.inf else max(FORGETTING * self._ceiling, reached)
        if self._is_cut:
            self._chance.suspect(refused, sent)
        else:
            self._uncut = self.rate
        self._set_rate(MARGIN * accepted, now)
        self._is_cut = True

    def _find_refusal_share(self) -> float:
        return SPENDS if self.rate < NEAR * self._too_fast else self._spends

    def _count_refused(self) -> int:
        return self._so_far.refused - self._changed.refused

    def _count_sent(self) -> int:
        return self._so_far.sent - self._changed.sent

    def _set_rate(self, rate: float, now: float) -> None:
        self._is_cut = False
        self._step = ROUGH_STEP if self.rate == math.inf else FIRST_STEP
        self.rate, self._raised_from, self._held = rate, 0.0, False
        self._next = max(self._next, now)
        self._changed = self._make_mark(now)
