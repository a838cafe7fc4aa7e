"""The limit of concurrent requests that all models of the process share at one address with one key."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from weakref import WeakKeyDictionary, WeakValueDictionary


class AccountLimit:
    """Places for concurrent requests, as many as the strictest `max_parallel_requests` of the open models allows.

    Unlike a limiter, which belongs to one event loop at a time, it spans graders and threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._most: float = math.inf
        self._taken: dict[asyncio.AbstractEventLoop, int] = {}
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    def join(self, owner: object, most: int | None) -> None:
        """Apply `owner`'s limit until it leaves or is garbage-collected; None states no limit."""
        if most is not None:
            with self._lock:
                self._limits[owner] = most
                self._most = min(self._limits.values())

    def leave(self, owner: object) -> None:
        """Stop applying `owner`'s limit."""
        with self._lock:
            self._limits.pop(owner, None)
            self._most = min(self._limits.values(), default=math.inf)
            self._admit()

    def take_free(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Take a place for a call of the running loop, if one is free now; `give_back` follows."""
        with self._lock:
            self._most = min(self._limits.values()) if self._limits else math.inf
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
        if self._most == math.inf or sum(self._taken.values()) < self._most:
            return True
        # Calls of a closed event loop never end.
        self._taken = {loop: count for loop, count in self._taken.items() if count and not loop.is_closed()}
        return sum(self._taken.values()) < self._most

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
_limits: WeakValueDictionary[tuple[str, str], AccountLimit] = WeakValueDictionary()


def account_limit(account: tuple[str, str]) -> AccountLimit:
    """The limit of this address and key, the same for all who ask while a model there is open."""
    with _lock:
        found = _limits.get(account)
        if found is None:
            found = _limits[account] = AccountLimit()
        return found
