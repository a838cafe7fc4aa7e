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
from autorubric.llm.sharing import sharing


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits in one model's configuration; the strictest of all models at an endpoint applies."""

    in_flight: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


def _strictest(limits: Iterable[float | None]) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


class Bucket:
    """Units that refill at a steady rate, never more than `per_minute` taken in any minute.

    One second's worth may be taken at once. A request larger than the bucket passes when the bucket is full and
    leaves a debt, so that it is late instead of stuck.
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
        """Take `units`; negative ones are returned."""
        self._refill(now)
        self._level = min(self._size, self._level - units)

    def _refill(self, now: float) -> None:
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now


SCOUT_PATIENCE = 2.0
"""Seconds after which the first call no longer holds the others: a wrong key or parameter is refused sooner."""


class Gate:
    """Lets one call go first, and the others once it has shown that such calls are accepted.

    A wrong key, model name or parameter then costs one request. Open, it stays so until it refuses, for `refusal`.
    """

    def __init__(self) -> None:
        self.is_open = self._scouting = False
        self.refusal: Failure | None = None
        self._waiting: deque[asyncio.Future[Failure | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self) -> bool:
        """Wait until the gate is open; True for the call that goes first, which must `open` or `leave`."""
        if self.is_open:
            return False
        if (loop := asyncio.get_running_loop()) is not self._loop:
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
        """Let all calls through, now and later."""
        self.is_open = True
        self._stop_scouting()
        for place in self._drained():
            place.set_result(None)

    def refuse(self, failure: Failure) -> None:
        """Fail the waiting calls with `failure`; the next call goes first again."""
        self._stop_scouting()
        self.is_open, self.refusal = False, failure
        for place in self._drained():
            place.set_result(failure)

    def leave(self) -> None:
        """The first call ends without a result that matters to others; the next one goes first."""
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
"""Seconds without an accepted request after which waiting calls fail."""

_INSTANT = 1e-6  # seconds; smaller waits are rounding errors


class Place(NamedTuple):
    """An admitted request, the tokens taken so far, its own included, and its number among those of all processes."""

    sent: Sent
    tokens: float
    number: int = 0


class Slots:
    """Concurrent requests shared by several queues, which lower `free` themselves; `total` is None for no limit.

    A queue that finds no free slot leaves a callback, which runs once when one is free; queues take turns.
    """

    def __init__(self, total: int | None = None) -> None:
        self.free: float = math.inf if total is None else total
        self._waiting: dict[Callable[[], None], None] = {}

    def give(self, count: int = 1) -> None:
        """Return slots."""
        self.free += count
        for queue in list(self._waiting):
            if self.free <= 0:
                return
            del self._waiting[queue]
            queue()

    def call_when_free(self, queue: Callable[[], None]) -> None:
        """Call `queue` once, when a slot is free."""
        self._waiting[queue] = None


class Limiter:
    """The one queue in front of an endpoint, shared by all models that use it: first come, first served.

    May be used by one event loop after another, not by two at once. `limit` is the maximum of concurrent requests;
    `answered` says whether anything has ever answered there; the first call passes `gate` first.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, slots: Slots | None = None, account: str = ""
    ) -> None:
        shared = sharing.get()
        self._lease = None if shared is None else shared.lease(account, clock, self._pump)
        self._processes = 1 if shared is None else shared.processes
        self.pace = Pace(self._processes)
        self.in_flight = 0
        self.answered = False
        self.gate = Gate()
        self._clock = clock
        self._slots = slots or Slots()
        self.limit = 1
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._allowance: Allowance | None = None
        self._allowances: WeakKeyDictionary[object, Allowance] = WeakKeyDictionary()
        self._quotas: dict[Unit, Quota] = {"requests": Quota(), "tokens": Quota()}
        self._heard: set[Unit] = set()  # the units whose limits responses have stated
        self._waiting: deque[tuple[asyncio.Future[Place], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._timer_due = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def counts_tokens(self) -> bool:
        """Whether the number of tokens passed to `acquire` matters."""
        return self._tokens is not None or "tokens" in self._heard

    def join(self, owner: object, allowance: Allowance) -> None:
        """Apply `owner`'s limits until it leaves or is garbage-collected."""
        self._allowances[owner] = allowance
        self._recompute()

    def leave(self, owner: object) -> None:
        """Stop applying `owner`'s limits."""
        self._allowances.pop(owner, None)
        self._recompute()

    async def acquire(self, tokens: int = 0) -> Place:
        """Wait for a place, to be followed by one `release`; a `CallError` if the endpoint refuses everything."""
        if (loop := asyncio.get_running_loop()) is not self._loop:
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
                self.withdraw(place.result())  # admitted at the moment of the cancellation
                self.release()
            else:
                self._pump()
            raise

    def release(self, tokens_off: int = 0) -> None:
        """Return the place; `tokens_off` is how many more tokens were taken than used."""
        self.in_flight -= 1
        if self._tokens is not None and tokens_off:
            self._tokens.take(-tokens_off, self._clock())
        self._slots.give()
        if self._waiting:
            self._pump()

    def heard(self, place: Place, said: Iterable[Reading]) -> None:
        """Apply the limits that the response to a request states."""
        for reading in said:
            taken = place.sent.number if reading.unit == "requests" else place.tokens
            self._quotas[reading.unit].hear(reading, taken, place.sent.at)
            self._heard.add(reading.unit)

    def passed(self, place: Place) -> None:
        """A call was not refused."""
        if self._lease is not None:
            self._lease.passed(place.number)
        self.pace.passed(place.sent, self._clock())

    def refused(self, place: Place, retry_after: float | None, failure: Failure) -> None:
        """A call hit a rate limit; once nothing passes for too long, all waiting calls get `failure`."""
        now = self._clock()
        self.pace.refused(place.sent, now, retry_after)
        if self._lease is not None:
            self._lease.refused(place.number, retry_after)
        if self.pace.closed_for(now) >= PATIENCE:
            waiting, self._waiting = self._waiting, deque()
            for one, _ in waiting:
                if not one.done():
                    one.set_exception(CallError(failure))

    def withdraw(self, place: Place) -> None:
        """A call was not sent or was lost, so the endpoint's answer will never be known."""
        if self._lease is not None:
            self._lease.withdrawn(place.number)
        self.pace.withdrawn(place.sent)

    def _recompute(self) -> None:
        allowances = list(self._allowances.values())
        if not allowances:
            return
        found = Allowance(
            min(one.in_flight for one in allowances),
            _strictest(one.requests_per_minute for one in allowances),
            _strictest(one.tokens_per_minute for one in allowances),
        )
        if found == self._allowance:
            return
        now = self._clock()
        before, self._allowance = self._allowance, found
        left = connections_left()
        self.limit = found.in_flight if left is None else min(found.in_flight, left)
        if before is None or before.requests_per_minute != found.requests_per_minute:
            self._requests = self._bucket(found.requests_per_minute, now)
        if before is None or before.tokens_per_minute != found.tokens_per_minute:
            self._tokens = self._bucket(found.tokens_per_minute, now)
        if self._waiting:
            self._pump()

    def _bucket(self, per_minute: float | None, now: float) -> Bucket | None:
        return None if per_minute is None else Bucket(per_minute / self._processes, now)

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the calls and waiters of a closed event loop."""
        self._loop = loop
        self._timer = None
        self._waiting.clear()
        self._slots.give(self.in_flight)
        self.in_flight = 0

    def _delay(self, tokens: int, now: float) -> float:
        lease = self._lease if self._lease is not None and self._lease.needs_permits else None
        delay = self.pace.delay(now) if lease is None else 0.0
        if self._requests is not None:
            delay = max(delay, self._requests.delay(1, now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.delay(tokens, now))
        if self._heard:
            delay = max(delay, self._quotas["requests"].delay(1, now), self._quotas["tokens"].delay(tokens, now))
        if lease is not None and delay <= _INSTANT:
            return lease.delay(max(1, min(len(self._waiting), self.limit - self.in_flight)))
        return delay

    def _admit(self, tokens: int, now: float) -> Place:
        self.in_flight += 1
        self._slots.free -= 1
        number = 0 if self._lease is None else self._lease.took(now)
        self._quotas["requests"].take(1, now)
        place = Place(self.pace.sent(now), self._quotas["tokens"].take(tokens, now), number)
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        return place

    def _pump(self) -> None:
        """Admit the first waiters as far as there is room; set a timer where only time holds them."""
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


async def enter_gates(gates: tuple[Gate, Gate], ahead: list[Gate]) -> None:
    """Pass the gate of the model, then that of the endpoint; gates where this call goes first join `ahead`."""
    for gate in gates:
        if gate.is_open or gate in ahead:
            continue
        try:
            if await gate.enter():
                ahead.append(gate)
        except CallError as error:  # a wrong key, found by another model: ours need not try it again
            for passed in ahead:
                passed.refuse(error.failure)
            raise


def open_gates(ahead: list[Gate]) -> None:
    """Open the gates where this call goes first, for the calls that wait behind it."""
    for gate in ahead:
        gate.open()
    ahead.clear()
