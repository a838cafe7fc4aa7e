"""What the models of a run share: connections, limits, and what was learned about each endpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType

from autorubric.files.descriptors import connections_left
from autorubric.llm.http.account_limit import AccountLimit, account_limit
from autorubric.llm.http.limiter import Gate, Limiter, Slots
from autorubric.llm.http.negotiation import Dialect
from autorubric.llm.http.prices import Price, price_table
from autorubric.llm.http.providers import Endpoint
from autorubric.llm.http.transport import new_transport

MAX_IN_FLIGHT = 64


class Endpoints:
    """One set of connections, and one limiter for each address and key; can be created outside an event loop.

    `max_in_flight` bounds the concurrent requests to an endpoint whose model sets no limit, `total` those to all
    endpoints (fewer if the process may not open as many files), within one event loop. `close`, and closing the
    last model that uses the connections, closes them; what was learned about endpoints stays.
    """

    def __init__(
        self,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        total: int | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.max_in_flight = max_in_flight
        most = connections_left()
        if total is not None and most is not None:
            total = min(total, most)
        self._slots = Slots(total)
        self.prices = price_table() if prices is None else prices
        self.transport = new_transport()
        self._limiters: dict[tuple[str, str], Limiter] = {}
        self._gates: dict[tuple[str, str], Gate] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self._models = 0

    def account_limit(self, endpoint: Endpoint) -> AccountLimit:
        """What all models of the process share at this address with this key."""
        return account_limit(_account(endpoint))

    def limiter(self, endpoint: Endpoint) -> Limiter:
        """The queue for this address and key."""
        account = _account(endpoint)
        if account not in self._limiters:
            self._limiters[account] = Limiter(slots=self._slots, account=" ".join(account))
        return self._limiters[account]

    def gate(self, endpoint: Endpoint) -> Gate:
        """Where the first call to this address with this key goes first."""
        return self._gates.setdefault(_account(endpoint), Gate())

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
            await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.close()

    async def __aenter__(self) -> Endpoints:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _account(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.base_url, endpoint.key.fingerprint if endpoint.key else ""


_thread = threading.local()


def shared_endpoints() -> Endpoints:
    """The endpoints of models that are given none: one set for each thread."""
    found: Endpoints | None = getattr(_thread, "endpoints", None)
    if found is None:
        found = _thread.endpoints = Endpoints()
    return found
