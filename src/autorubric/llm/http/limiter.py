"""Decides when requests are sent: one queue in front of each endpoint."""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple
from weakref import WeakKeyDictionary

from autorubric.files.descriptors import count_free_connections
from autorubric.llm.http.address import Address
from autorubric.llm.http.negotiation import Gate
from autorubric.llm.http.pace import Pace, SentRequest
from autorubric.llm.http.quota import Quota, Reading, Unit
from autorubric.llm.request import CallError, Failure
from autorubric.llm.sharing import sharing, turn, turns


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits in one model's configuration; the strictest of all models at an endpoint applies."""

    in_flight: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


def _find_strictest(limits: Iterable[float | None]) -> float | None:
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


PATIENCE = 300.0
"""Seconds without an accepted request after which waiting calls fail."""

_INSTANT = 1e-6  # seconds; smaller waits are rounding errors


class QueuePlace(NamedTuple):
    """An admitted request.

    `tokens` are those taken so far, its own included; `number` counts the requests of all processes, `replies` those
    that had arrived when it left.
    """

    sent: SentRequest
    tokens: float
    number: int = 0
    replies: int = 0


class Slots:
    """Concurrent requests that several queues share, also those of other threads; the strictest limit applies.

    A queue that finds no free slot is called once when one is free, in the order of the `turn` of their first calls.

    Args:
        total: a limit that always applies; None for none.
    """

    def __init__(self, total: int | None = None) -> None:
        self._total = self._most = math.inf if total is None else total
        self._limits: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._taken: dict[asyncio.AbstractEventLoop, int] = {}
        self._count = 0  # of all loops
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, Callable[[], None]], int] = {}  # their first call's turn
        self._lock = threading.Lock()

    def join(self, owner: object, most: int | None) -> None:
        """Apply `owner`'s limit until it leaves or is garbage-collected; None states no limit."""
        if most is not None:
            with self._lock:
                self._limits[owner] = most
                self._most = min(self._most, most)

    def leave(self, owner: object) -> None:
        """Stop applying `owner`'s limit."""
        with self._lock:
            self._limits.pop(owner, None)
        self._wake()

    def take(self, loop: asyncio.AbstractEventLoop, queue: Callable[[], None], first: int) -> bool:
        """Take a slot for a request of the running loop; where none is free, `queue` is called when one is.

        `first` is the turn of the first call in the queue.
        """
        with self._lock:
            if self._count < self._most or self._is_free():
                self._count += 1
                self._taken[loop] = self._taken.get(loop, 0) + 1
                return True
            self._waiting[loop, queue] = first
            return False

    def give(self, loop: asyncio.AbstractEventLoop | None, count: int = 1) -> None:
        """Return slots of a loop."""
        with self._lock:
            if loop is not None and loop in self._taken:
                self._taken[loop] -= count
                self._count -= count
        if self._waiting:
            self._wake()

    def _is_free(self) -> bool:
        """Return whether a slot is free once owners that are gone, and requests of closed loops, are forgotten."""
        self._most = min((self._total, *self._limits.values()))
        self._taken = {loop: count for loop, count in self._taken.items() if count and not loop.is_closed()}
        self._count = sum(self._taken.values())
        return self._count < self._most

    def _wake(self) -> None:
        """Call queues that wait, in the order of their first calls, as long as a slot is free."""
        here = asyncio.get_running_loop()
        while True:
            with self._lock:
                if not self._waiting or not self._is_free():
                    return
                loop, queue = min(self._waiting, key=self._waiting.__getitem__)
                del self._waiting[loop, queue]
            if loop is here:
                queue()
                continue
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(queue)


class Limiter:
    """The one queue in front of an endpoint, shared by all models that use it, in the order of `turn`.

    May be used by one event loop after another, not by two at once. The first call passes `gate` first, and `address`
    tells what was learned about the address.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, slots: Sequence[Slots] = (), account: str = ""
    ) -> None:
        shared = sharing.get()
        self._lease = None if shared is None else shared.open_lease(account, clock, self._pump)
        self._processes = 1 if shared is None else shared.processes
        self.pace = Pace(self._processes)
        self.in_flight, self._most, self._room = 0, 1, math.inf
        self._replies, self._cut_at = 0, -math.inf
        self.address = Address(account.partition(" ")[0])  # an account is a base URL and a key
        self.gate = Gate()
        self._clock = clock
        self._slots = slots
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._allowance: Allowance | None = None
        self._allowances: WeakKeyDictionary[object, Allowance] = WeakKeyDictionary()
        self._quotas: dict[Unit, Quota] = {"requests": Quota(), "tokens": Quota()}
        self._heard: set[Unit] = set()  # the units whose limits responses have stated
        self._waiting: list[tuple[int, int, asyncio.Future[QueuePlace], int]] = []  # a heap
        self._timer: asyncio.Handle | None = None
        self._timer_due = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def limit(self) -> int:
        """Concurrent requests: as many as are allowed, and as many as the endpoint can answer in time."""
        return int(min(self._most, self._room))

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

    async def acquire(self, tokens: int = 0) -> QueuePlace:
        """Wait for a place, to be followed by one `release`; a `CallError` if the endpoint refuses everything."""
        if (loop := asyncio.get_running_loop()) is not self._loop:
            self._move_to(loop)
        if not self._waiting and self.in_flight < self.limit:
            now = self._clock()
            if self._compute_delay(tokens, now) <= _INSTANT and self._take_slots(loop):
                return self._admit(tokens, now)
        place: asyncio.Future[QueuePlace] = loop.create_future()
        heappush(self._waiting, (turn.get(), next(turns), place, tokens))
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
        for slots in self._slots:
            slots.give(self._loop)
        if self._waiting:
            self._pump()

    def apply_readings(self, place: QueuePlace, readings: Iterable[Reading]) -> None:
        """Apply the limits that the response to a request states."""
        for reading in readings:
            taken = place.sent.number if reading.unit == "requests" else place.tokens
            self._quotas[reading.unit].apply_reading(reading, taken, place.sent.at)
            self._heard.add(reading.unit)

    def note_accepted(self, place: QueuePlace) -> None:
        """Note that a call was not refused."""
        if self._lease is not None:
            self._lease.note_accepted(place.number)
        self.pace.record_accepted(place.sent, self._clock())

    def note_reply(self) -> None:
        """Note a reply; a limit that timeouts have cut rises by 1 while all places are used once."""
        self.address.note_reply()
        self._replies += 1
        self._room += 1 / self._room

    def note_timeout(self, place: QueuePlace) -> None:
        """Cut the limit, because the endpoint answers too late; all requests sent before a cut count as one.

        As many requests as it answered during a timeout wait for a whole timeout; half of them wait for half of it.
        A request that was alone at its end did not wait for others.
        """
        if place.sent.at > self._cut_at and self.in_flight > 1:
            answered = self._replies - place.replies
            self._room, self._cut_at = max(1.0, (answered or self.in_flight) / 2), self._clock()

    def note_refused(self, place: QueuePlace, retry_after: float | None, failure: Failure) -> None:
        """Note that a call hit a rate limit; once nothing passes for too long, all waiting calls get `failure`."""
        now = self._clock()
        self.pace.record_refused(place.sent, now, retry_after)
        if self._lease is not None:
            self._lease.note_refused(place.number, retry_after)
        if self.pace.count_closed_seconds(now) >= PATIENCE:
            waiting, self._waiting = self._waiting, []
            for _, _, future, _ in waiting:
                if not future.done():
                    future.set_exception(CallError(failure))

    def withdraw(self, place: QueuePlace) -> None:
        """Note that a call was not sent or was lost, so that its outcome will never be known."""
        if self._lease is not None:
            self._lease.note_withdrawn(place.number)
        self.pace.record_withdrawn(place.sent)

    def _recompute(self) -> None:
        allowances = list(self._allowances.values())
        if not allowances:
            return
        found = Allowance(
            min(allowance.in_flight for allowance in allowances),
            _find_strictest(allowance.requests_per_minute for allowance in allowances),
            _find_strictest(allowance.tokens_per_minute for allowance in allowances),
        )
        if found == self._allowance:
            return
        now = self._clock()
        before, self._allowance = self._allowance, found
        left = count_free_connections()
        self._most = found.in_flight if left is None else min(found.in_flight, left)
        if before is None or before.requests_per_minute != found.requests_per_minute:
            self._requests = self._make_bucket(found.requests_per_minute, now)
        if before is None or before.tokens_per_minute != found.tokens_per_minute:
            self._tokens = self._make_bucket(found.tokens_per_minute, now)
        if self._waiting:
            self._pump()

    def _make_bucket(self, per_minute: float | None, now: float) -> Bucket | None:
        return None if per_minute is None else Bucket(per_minute / self._processes, now)

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the calls of a closed event loop, waiting ones included."""
        self._timer = None
        self._waiting.clear()
        for slots in self._slots:
            slots.give(self._loop, self.in_flight)
        self._loop, self.in_flight = loop, 0

    def _take_slots(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Take all slots of a request, or none; then `_pump` runs again when the missing one is free."""
        for place, slots in enumerate(self._slots):
            if not slots.take(loop, self._pump, self._waiting[0][0] if self._waiting else 0):
                for taken in self._slots[:place]:
                    taken.give(loop)
                return False
        return True

    def _compute_delay(self, tokens: int, now: float) -> float:
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

    def _admit(self, tokens: int, now: float) -> QueuePlace:
        self.in_flight += 1
        number = 0 if self._lease is None else self._lease.note_sent(now)
        self._quotas["requests"].take(1, now)
        place = QueuePlace(
            self.pace.record_sent(now), self._quotas["tokens"].take(tokens, now), number, self._replies
        )
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        return place

    def _pump(self) -> None:
        """Admit waiting calls while there is room; set a timer if only time holds the next one back."""
        waiting = self._waiting
        while waiting:
            _, _, place, tokens = waiting[0]
            if place.done():  # cancelled
                heappop(waiting)
                continue
            if self.in_flight >= self.limit:
                return
            now = self._clock()
            delay = self._compute_delay(tokens, now)
            if delay > _INSTANT:
                self._set_timer(delay)
                return
            if not self._take_slots(place.get_loop()):
                return
            heappop(waiting)
            place.set_result(self._admit(tokens, now))

    def _set_timer(self, delay: float) -> None:
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
