"""What the models of a run or of a process share: connections, limits, and what was learned about each endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from weakref import WeakKeyDictionary, WeakValueDictionary

from autorubric.files.descriptors import connections_left
from autorubric.llm.http.limiter import Limiter, Slots
from autorubric.llm.http.negotiation import Dialect
from autorubric.llm.http.prices import price_table
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.transport import Transport

MAX_IN_FLIGHT = 64


class Endpoints:
    """One set of connections, and one limiter for each address and key; can be created outside an event loop.

    `max_in_flight` bounds the concurrent requests to an endpoint whose model sets no limit, `total` those to all
    endpoints (fewer if the process may not open as many files), within one event loop. `aclose`, and closing the
    last model that uses the connections, closes them; what was learned about endpoints stays.
    """

    def __init__(
        self,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        total: int | None = None,
    ) -> None:
        self.max_in_flight = max_in_flight
        most = connections_left()
        if total is not None and most is not None:
            total = min(total, most)
        self._slots = Slots(total)
        self.prices = price_table()
        self.transport = Transport()
        self._limiters: dict[tuple[str, str], Limiter] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self._models = 0

    def account_limit(self, endpoint: Endpoint) -> AccountLimit:
        """What all models of the process share at this address with this key, while one of them is open."""
        with _lock:
            return _account_limits.setdefault(_account(endpoint), AccountLimit())

    def limiter(self, endpoint: Endpoint) -> Limiter:
        """The queue for this address and key."""
        account = _account(endpoint)
        if account not in self._limiters:
            self._limiters[account] = Limiter(slots=self._slots, account=" ".join(account))
        return self._limiters[account]

    def dialect(self, endpoint: Endpoint) -> Dialect:
        """What this model at this address accepts, whatever the key."""
        where = (endpoint.base_url, endpoint.model)
        return self._dialects.setdefault(where, Dialect(*where))

    def model_opened(self) -> None:
        """Count one more model that uses the connections."""
        self._models += 1

    async def model_closed(self) -> None:
        """Count one model less; the last one closes the connections."""
        self._models -= 1
        if self._models <= 0:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.transport.close()


def _account(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.base_url, endpoint.key.fingerprint if endpoint.key else ""


_thread = threading.local()


def shared_endpoints() -> Endpoints:
    """The endpoints of models that are given none: one set for each thread."""
    found: Endpoints | None = getattr(_thread, "endpoints", None)
    if found is None:
        found = _thread.endpoints = Endpoints()
    return found


class AccountLimit:
    """Places for concurrent requests, as many as the strictest `max_parallel_requests` of the open models allows.

    The models are those of the process with one address and key. Unlike a limiter, which belongs to one event loop at
    a time, it spans graders and threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._taken: dict[asyncio.AbstractEventLoop, int] = {}
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    def join(self, owner: object, most: int | None) -> None:
        """Apply `owner`'s limit until it leaves or is garbage-collected; None states no limit."""
        if most is not None:
            with self._lock:
                self._limits[owner] = most

    def leave(self, owner: object) -> None:
        """Stop applying `owner`'s limit."""
        with self._lock:
            self._limits.pop(owner, None)
            self._admit()

    def take_free(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Take a place for a call of the running loop, if one is free now; `give_back` follows."""
        with self._lock:
            if self._waiting or not self._is_free():
                return False
            self._taken[loop] = self._taken.get(loop, 0) + 1
            return True

    async def take(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for a place; `give_back` follows."""
        with self._lock:
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, place))
            self._admit()
        try:
            await place
        except asyncio.CancelledError:
            with self._lock:
                if (loop, place) in self._waiting:
                    self._waiting.remove((loop, place))
                    raise
            self.give_back(loop)  # admitted at the moment of the cancellation
            raise

    def give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give a place back."""
        with self._lock:
            if loop in self._taken:
                self._taken[loop] -= 1
            if self._waiting:
                self._admit()

    def _is_free(self) -> bool:
        if not self._limits or sum(self._taken.values()) < (most := min(self._limits.values(), default=math.inf)):
            return True
        # Calls of a closed event loop never end.
        self._taken = {loop: count for loop, count in self._taken.items() if count and not loop.is_closed()}
        return sum(self._taken.values()) < most

    def _admit(self) -> None:
        while self._waiting and self._is_free():
            loop, place = self._waiting.popleft()
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(_grant, place)
                self._taken[loop] = self._taken.get(loop, 0) + 1


def _grant(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


_lock = threading.Lock()
_account_limits: WeakValueDictionary[tuple[str, str], AccountLimit] = WeakValueDictionary()
