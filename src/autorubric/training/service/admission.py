"""How many submissions the service takes at a time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_WINDOW = 256  # recent submissions that the throughput is measured on
_LONGEST_WAIT = 60


class TooBusy(Exception):
    """There is no room; `retry_after` is how many seconds a caller should wait."""

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"the service is busy; try again in {retry_after} s")


class Seats(Protocol):
    """The submissions in the service."""

    @property
    def open(self) -> int:
        """How many there are."""
        ...

    def take(self, count: int, room: int) -> int:
        """Count in as many; returns 0, or by how many they exceed the room, and then none is counted in."""
        ...

    def give(self, count: int) -> None:
        """Count out as many."""
        ...


class OwnSeats:
    """The submissions of a service of one process."""

    open = 0

    def take(self, count: int, room: int) -> int:
        """See `Seats`."""
        if self.open + count > room:
            return self.open + count - room
        self.open += count
        return 0

    def give(self, count: int) -> None:
        """See `Seats`."""
        self.open -= count


class Admission:
    """Counts submissions in and out."""

    def __init__(self, room: int, seats: Seats | None = None) -> None:
        self.room = room
        self._seats = seats or OwnSeats()
        self._ended: deque[float] = deque(maxlen=_WINDOW)

    @property
    def open(self) -> int:
        """Submissions in the service."""
        return self._seats.open

    @contextmanager
    def entered(self, count: int) -> Iterator[None]:
        """Reserve room for `count` submissions until the end of the block."""
        if over := self._seats.take(count, self.room):
            raise TooBusy(self._wait(over))
        try:
            yield
        finally:
            self._seats.give(count)
            self._ended.extend([time.monotonic()] * count)

    def _wait(self, over: int) -> int:
        """Estimated whole seconds until that many submissions have ended."""
        if len(self._ended) < 2:
            return 1
        span = self._ended[-1] - self._ended[0]
        pace = (len(self._ended) - 1) / span if span > 0 else math.inf
        return max(1, min(_LONGEST_WAIT, math.ceil(over / pace)))
