"""Who may send when: one queue in front of each endpoint."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from autorubric.llm.http.allowance import Allowance, Bucket
from autorubric.llm.http.pace import Pace

CUT = 0.8
"""What a rate limit leaves of the calls in flight."""

CUT_COOLDOWN = 15.0
"""Seconds in which a second rate limit does not cut again."""

GROWTH = 1.05
"""Growth of the calls in flight after as many successes as there are calls in flight."""

SATURATION = 0.8
"""Share of the allowed calls that must be in flight for more to be allowed."""

_INSTANT = 1e-6  # seconds; rounding errors are no reason to wait


class Limiter:
    """The one queue in front of an endpoint, shared by all models that use it.

    First come, first served. Cancelled waiters leave no trace. Times come from `clock`, which only goes
    forward. May be used by one event loop after another, not by two at once.

    Attributes:
        pace: the rate the endpoint has shown to accept.
        in_flight: calls that hold a place now.
        answered: whether anything ever answered there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.pace = Pace()
        self.in_flight = 0
        self.answered = False
        self._clock = clock
        self._limit = math.inf
        self._ceiling = 1
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._allowance: Allowance | None = None
        self._allowances: WeakKeyDictionary[object, Allowance] = WeakKeyDictionary()
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._timer_due = math.inf
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cut_at = -math.inf
        self._successes = 0

    @property
    def limit(self) -> int:
        """Most calls in flight at present."""
        return int(min(self._limit, self._ceiling))

    @property
    def counts_tokens(self) -> bool:
        """Whether the number of tokens given to `acquire` matters."""
        return self._tokens is not None

    def join(self, owner: object, allowance: Allowance) -> None:
        """Count `owner`'s limits from now on, until it leaves or is forgotten."""
        self._allowances[owner] = allowance
        self._recompute()

    def leave(self, owner: object) -> None:
        """Count `owner`'s limits no longer."""
        self._allowances.pop(owner, None)
        self._recompute()

    async def acquire(self, tokens: int = 0) -> float:
        """Wait for a place, and return the time at which it was given.

        Every `acquire` that returns is followed by one `release`.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        if not self._waiting and self.in_flight < self.limit:
            now = self._clock()
            if self._delay(tokens, now) <= _INSTANT:
                self._admit(tokens, now)
                return now
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append((place, tokens))
        self._pump()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()  # the place came in the moment of the cancellation
            else:
                self._pump()
            raise
        return self._clock()

    def release(self, tokens_off: int = 0) -> None:
        """Give the place back; `tokens_off` is how many tokens more were taken than used."""
        self.in_flight -= 1
        if self._tokens is not None and tokens_off:
            self._tokens.take(-tokens_off, self._clock())
        if self._waiting:
            self._pump()

    def accepted(self) -> None:
        """A call was answered; where the endpoint is kept busy, more calls may be allowed."""
        if self._limit >= self._ceiling:
            return
        self._successes += 1
        if self._successes >= self._limit and self.in_flight >= SATURATION * self.limit:
            self._limit = max(self._limit * GROWTH, self._limit + 1)
            self._successes = 0

    def refused(self, sent_at: float, retry_after: float | None) -> None:
        """A call was turned away for a rate limit; nothing else cuts."""
        now = self._clock()
        self.pace.refused(sent_at, now, retry_after)
        if now - self._cut_at >= CUT_COOLDOWN and sent_at > self._cut_at:
            self._limit = max(1.0, min(self._limit, self._ceiling) * CUT)
            self._cut_at = now
            self._successes = 0

    def _recompute(self) -> None:
        found: Allowance | None = None
        for allowance in self._allowances.values():
            found = allowance if found is None else found.strictest(allowance)
        if found is None or found == self._allowance:
            return
        now = self._clock()
        before, self._allowance = self._allowance, found
        self._ceiling = found.in_flight
        if before is None or before.requests_per_minute != found.requests_per_minute:
            self._requests = _bucket(found.requests_per_minute, now)
        if before is None or before.tokens_per_minute != found.tokens_per_minute:
            self._tokens = _bucket(found.tokens_per_minute, now)
        if self._waiting:
            self._pump()

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the calls and waiters of an event loop that is gone."""
        self._loop = loop
        self._timer = None
        self._waiting.clear()
        self.in_flight = 0

    def _delay(self, tokens: int, now: float) -> float:
        delay = self.pace.delay(now)
        if self._requests is not None:
            delay = max(delay, self._requests.delay(1, now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.delay(tokens, now))
        return delay

    def _admit(self, tokens: int, now: float) -> None:
        self.in_flight += 1
        self.pace.sent(now)
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)

    def _pump(self) -> None:
        """Let the first waiters in as far as there is room, and come back when time alone holds them."""
        waiting = self._waiting
        while waiting:
            place, tokens = waiting[0]
            if place.done():  # cancelled
                waiting.popleft()
                continue
            if self.in_flight >= self.limit:
                return
            now = self._clock()
            delay = self._delay(tokens, now)
            if delay > _INSTANT:
                self._come_back(delay)
                return
            waiting.popleft()
            self._admit(tokens, now)
            place.set_result(None)

    def _come_back(self, delay: float) -> None:
        assert self._loop is not None
        due = self._clock() + delay
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_due = self._loop.call_later(delay, self._on_timer), due

    def _on_timer(self) -> None:
        self._timer = None
        self._pump()


def _bucket(per_minute: float | None, now: float) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute, now)
