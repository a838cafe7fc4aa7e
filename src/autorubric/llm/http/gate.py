"""The first call of a kind goes ahead alone."""

from __future__ import annotations

import asyncio
from collections import deque

from autorubric.llm.request import CallError, Failure

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
