"""Shared state of the models of a run or process: connections, limits, and what was learned about endpoints."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet, WeakValueDictionary

from autorubric.files.descriptors import count_free_connections
from autorubric.llm.http.limiter import Limiter, Slots
from autorubric.llm.http.negotiation import Dialect
from autorubric.llm.http.prices import load_prices
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.transport import Transport

MAX_IN_FLIGHT = 64


class Endpoints:
    """One set of connections, and one limiter for each address and key; can be created outside an event loop.

    `max_in_flight` bounds the concurrent requests to an endpoint whose model sets no limit, `total` those to all
    endpoints (fewer if the process may not open as many files), within one event loop. `aclose`, and closing the
    last of the open `models`, closes the connections; what was learned about endpoints stays.
    """

    def __init__(
        self,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        total: int | None = None,
    ) -> None:
        self.max_in_flight = max_in_flight
        self._slots = _slots_of_run.get() or _make_slots(total)
        self.prices = load_prices()
        self.transport = Transport()
        self._limiters: dict[tuple[str, str], Limiter] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self.models = WeakSet[object]()

    def find_account_slots(self, endpoint: Endpoint) -> Slots:
        """Return the slots that all open models of the process share at this address with this key."""
        with _lock:
            return _account_slots.setdefault(_name_account(endpoint), Slots())

    def find_limiter(self, endpoint: Endpoint) -> Limiter:
        """Return the queue for this address and key."""
        account = _name_account(endpoint)
        if account not in self._limiters:
            slots = self._slots, self.find_account_slots(endpoint)
            self._limiters[account] = Limiter(slots=slots, account=" ".join(account))
        return self._limiters[account]

    def find_dialect(self, endpoint: Endpoint) -> Dialect:
        """Return what this model at this address accepts, whatever the key."""
        where = (endpoint.base_url, endpoint.model)
        return self._dialects.setdefault(where, Dialect(*where))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.transport.close()


def _make_slots(total: int | None) -> Slots:
    most = count_free_connections()
    return Slots(total if total is None or most is None else min(total, most))


_slots_of_run: ContextVar[Slots | None] = ContextVar("slots_of_run", default=None)


@contextmanager
def share_slots(total: int) -> Iterator[None]:
    """Let all endpoints that are made in the block, for writers and judges, share `total` concurrent requests."""
    before = _slots_of_run.set(_make_slots(total))
    try:
        yield
    finally:
        _slots_of_run.reset(before)


def _name_account(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.base_url, endpoint.key.fingerprint if endpoint.key else ""


_thread = threading.local()


def find_shared_endpoints() -> Endpoints:
    """Return the default endpoints of models: one set for each thread."""
    found: Endpoints | None = getattr(_thread, "endpoints", None)
    if found is None:
        found = _thread.endpoints = Endpoints()
    return found


_lock = threading.Lock()
_account_slots: WeakValueDictionary[tuple[str, str], Slots] = WeakValueDictionary()
