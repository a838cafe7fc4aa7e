"""Who may send when: one queue in front of each endpoint."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from autorubric.files.descriptors import connections_left
from autorubric.llm.http.pace import Pace, Sent
from autorubric.llm.http.quota import Quota, Reading, Unit
from autorubric.llm.request import CallError, Failure


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


SCOUT_PATIENCE = 2.0
"""Seconds after which a first call that is still unanswered holds the others no longer.

A wrong key or parameter is refused within that time; a long answer is not worth waiting for.
"""


class Gate:
    """Lets one call go ahead alone, and the others when it has shown that calls like it are welcome.

    A wrong key, a wrong model name or a parameter that an endpoint does not take so costs one request.
    Once open, it stays open.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._scouting = False
        self._waiting: deque[asyncio.Future[Failure | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self) -> bool:
        """Wait until the gate is open; True for the call that goes ahead, which must `open` or `leave`.

        Raises:
            CallError: the call ahead showed that none of this kind can succeed.
        """
        if self.is_open:
            return False
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._scouting, self._timer = loop, False, None
            self._waiting.clear()
        while not self.is_open:
            if not self._scouting:
                self._scouting = True
                self._timer = loop.call_later(SCOUT_PATIENCE, self.open)
                return True
            place: asyncio.Future[Failure | None] = loop.create_future()
            self._waiting.append(place)
            try:
                failure = await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake_one()
                raise
            if failure is not None:
                raise CallError(failure)
        return False

    def open(self) -> None:
        """Let everybody through, now and later."""
        self.is_open = True
        self._stop_scouting()
        for place in self._drained():
            place.set_result(None)

    def refuse(self, failure: Failure) -> None:
        """Send those who wait away with `failure`; the next call after them goes ahead alone again."""
        self._stop_scouting()
        self.is_open = False
        for place in self._drained():
            place.set_result(failure)

    def leave(self) -> None:
        """The call that went ahead ends without having shown anything; the next one goes ahead."""
        if not self.is_open:
            self._stop_scouting()
            self._wake_one()

    def _stop_scouting(self) -> None:
        self._scouting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_one(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return

    def _drained(self) -> list[asyncio.Future[Failure | None]]:
        places = [place for place in self._waiting if not place.done()]
        self._waiting.clear()
        return places


PATIENCE = 300.0
"""Seconds without an accepted request after which those who wait are sent away."""

_INSTANT = 1e-6  # seconds; rounding errors are no reason to wait


class Place(NamedTuple):
    """A place in flight: the request that takes it, and the tokens that were ever taken, its own included."""

    sent: Sent
    tokens: float


class Slots:
    """Places in flight that several queues share; `total` is None where there is no such limit.

    A queue that finds none free leaves a callback, which runs when one is; the queues take turns.

    Example:
        >>> slots, woken = Slots(1), []
        >>> slots.take(), slots.call_when_free(lambda: woken.append("queue")), slots.give()
        (None, None, None)
        >>> woken, slots.free
        (['queue'], 1)
    """

    def __init__(self, total: int | None = None) -> None:
        self.free: float = math.inf if total is None else total
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self) -> None:
        """Take one that is free."""
        self.free -= 1

    def give(self, count: int = 1) -> None:
        """Give back what was taken."""
        self.free += count
        for queue in list(self._waiting):
            if self.free <= 0:
                return
            del self._waiting[queue]
            queue()

    def call_when_free(self, queue: Callable[[], None]) -> None:
        """Call `queue` once when a place is free."""
        self._waiting[queue] = None


class Limiter:
    """The one queue in front of an endpoint, shared by all models that use it.

    First come, first served. Cancelled waiters leave no trace. Times come from `clock`, which only goes
    forward. May be used by one event loop after another, not by two at once.

    Attributes:
        pace: the rate the endpoint has shown to accept.
        limit: most calls in flight.
        in_flight: calls that hold a place now.
        answered: whether anything ever answered there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, slots: Slots | None = None) -> None:
        self.pace = Pace()
        self.in_flight = 0
        self.answered = False
        self._clock = clock
        self._slots = slots or Slots()
        self.limit = 1
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._allowance: Allowance | None = None
        self._allowances: WeakKeyDictionary[object, Allowance] = WeakKeyDictionary()
        self._quotas: dict[Unit, Quota] = {"requests": Quota(), "tokens": Quota()}
        self._heard_tokens = False
        self._waiting: deque[tuple[asyncio.Future[Place], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._timer_due = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def counts_tokens(self) -> bool:
        """Whether the number of tokens given to `acquire` matters."""
        return self._tokens is not None or self._heard_tokens

    def join(self, owner: object, allowance: Allowance) -> None:
        """Count `owner`'s limits from now on, until it leaves or is forgotten."""
        self._allowances[owner] = allowance
        self._recompute()

    def leave(self, owner: object) -> None:
        """Count `owner`'s limits no longer."""
        self._allowances.pop(owner, None)
        self._recompute()

    async def acquire(self, tokens: int = 0) -> Place:
        """Wait for a place.

        Every `acquire` that returns is followed by one `release`.

        Raises:
            CallError: the endpoint has refused everything for `PATIENCE` seconds.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        if not self._waiting and self.in_flight < self.limit and self._slots.free > 0:
            now = self._clock()
            if self._delay(tokens, now) <= _INSTANT:
                return self._admit(tokens, now)
        place: asyncio.Future[Place] = loop.create_future()
        self._waiting.append((place, tokens))
        self._pump()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.withdraw(place.result())  # the place came in the moment of the cancellation
                self.release()
            else:
                self._pump()
            raise

    def release(self, tokens_off: int = 0) -> None:
        """Give the place back; `tokens_off` is how many tokens more were taken than used."""
        self.in_flight -= 1
        if self._tokens is not None and tokens_off:
            self._tokens.take(-tokens_off, self._clock())
        self._slots.give()
        if self._waiting:
            self._pump()

    def heard(self, place: Place, said: Iterable[Reading]) -> None:
        """Believe what the response to a request says of the endpoint's limits."""
        for reading in said:
            taken = place.sent.number if reading.unit == "requests" else place.tokens
            self._quotas[reading.unit].hear(reading, taken, place.sent.at)
            self._heard_tokens |= reading.unit == "tokens"

    def passed(self, place: Place) -> None:
        """A call was not refused."""
        self.pace.passed(place.sent, self._clock())

    def refused(self, place: Place, retry_after: float | None, failure: Failure) -> None:
        """A call was refused for a rate limit; where nothing passes any more, all who wait get `failure`."""
        now = self._clock()
        self.pace.refused(place.sent, now, retry_after)
        if self.pace.closed_for(now) >= PATIENCE:
            waiting, self._waiting = self._waiting, deque()
            for one, _ in waiting:
                if not one.done():
                    one.set_exception(CallError(failure))

    def withdraw(self, place: Place) -> None:
        """Nobody will learn whether the endpoint would take the call: it was not sent, or lost on its way."""
        self.pace.withdrawn(place.sent)

    def _recompute(self) -> None:
        found: Allowance | None = None
        for allowance in self._allowances.values():
            found = allowance if found is None else found.strictest(allowance)
        if found is None or found == self._allowance:
            return
        now = self._clock()
        before, self._allowance = self._allowance, found
        left = connections_left()
        self.limit = found.in_flight if left is None else min(found.in_flight, left)
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
        self._slots.give(self.in_flight)
        self.in_flight = 0

    def _delay(self, tokens: int, now: float) -> float:
        delay = self.pace.delay(now)
        if self._requests is not None:
            delay = max(delay, self._requests.delay(1, now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.delay(tokens, now))
        return max(delay, self._quotas["requests"].delay(1, now), self._quotas["tokens"].delay(tokens, now))

    def _admit(self, tokens: int, now: float) -> Place:
        self.in_flight += 1
        self._slots.take()
        self._quotas["requests"].take(1, now)
        place = Place(self.pace.sent(now), self._quotas["tokens"].take(tokens, now))
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        return place

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
            if self._slots.free <= 0:
                self._slots.call_when_free(self._pump)
                return
            now = self._clock()
            delay = self._delay(tokens, now)
            if delay > _INSTANT:
                self._come_back(delay)
                return
            waiting.popleft()
            place.set_result(self._admit(tokens, now))

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
