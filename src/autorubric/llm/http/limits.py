"""Who may send when: one queue in front of each endpoint."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from autorubric.files.descriptors import connections_left
from autorubric.llm.http.allowance import Allowance, Bucket
from autorubric.llm.http.pace import Pace, Sent
from autorubric.llm.http.quota import Quota, Reading, Unit
from autorubric.llm.request import CallError, Failure

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
