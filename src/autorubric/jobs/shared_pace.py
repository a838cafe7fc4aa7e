"""One pace for all processes that call an endpoint with one key."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.llm.http.pace import SPENDS, Pace, Sent

_SPENDS = SPENDS / 2
"""Share of requests that may be refused to find a higher limit: several processes hear later that it was too fast."""

_TOGETHER = 0.01
"""Seconds between two grants of permits, at least."""

_INSTANT = 1e-6  # seconds; smaller waits are rounding errors


class Borrower(Protocol):
    """A process that borrows."""

    @property
    def name(self) -> Hashable:
        """Tells it from all others that have ever borrowed."""
        ...

    def tell(self, **word: Any) -> None:
        """Send it a word."""
        ...


@dataclass(slots=True)
class SharedPace:
    """Learns a limit from what all processes report, and gives out permits once one has shown.

    The law is that of a single process. An outcome counts for the rate at which its permit was given.

    Attributes:
        account: names the endpoint and the key.
        borrowers: the processes that run at the moment.
        clock: in seconds.
        pace: of all processes together.
        is_limited: whether a limit has shown.
    """

    account: str
    borrowers: Callable[[], Iterable[Borrower]]
    clock: Callable[[], float]
    pace: Pace = field(default_factory=lambda: Pace(spends=_SPENDS))
    is_limited: bool = False
    _sent: dict[tuple[Hashable, int], Sent] = field(default_factory=dict)
    _wanted: dict[Borrower, int] = field(default_factory=dict)  # permits; the process whose turn it is comes first
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _timer: asyncio.TimerHandle | None = None

    def hear(self, one: Borrower, told: Mapping[str, Any]) -> None:
        """Take in what a process reports, and give out the permits that are due."""
        now = self.clock()
        for number, ago in told.get("sent", ()):
            self._sent[one.name, number] = self.pace.sent(now - ago)
        for sent in self._taken(one, told.get("passed", ())):
            self.pace.passed(sent, now)
        for number, retry_after in told.get("refused", ()):
            for sent in self._taken(one, (number,)):
                self.pace.refused(sent, now, retry_after)
        for sent in self._taken(one, told.get("withdrawn", ())):
            self.pace.withdrawn(sent)
        if wanted := told.get("wanted", 0):
            self._wanted[one] = self._wanted.get(one, 0) + wanted
        self._limit([one] if "sent" in told else [])
        self._grant()

    def gone(self, one: Borrower) -> None:
        """Wait for no report of a process that has ended."""
        self._wanted.pop(one, None)
        for sent in self._taken(one, [number for name, number in self._sent if name == one.name]):
            self.pace.withdrawn(sent)

    def _taken(self, one: Borrower, numbers: Iterable[int]) -> Iterator[Sent]:
        """The requests of a process, which are forgotten then; those of which nothing is known are left out."""
        for number in numbers:
            if (sent := self._sent.pop((one.name, number), None)) is not None:
                yield sent

    def _limit(self, free: Iterable[Borrower]) -> None:
        """Once a limit has shown, tell all processes, and later those that send without a permit."""
        if not self.is_limited and (self.pace.is_closed or self.pace.rate < math.inf):
            self.is_limited, free = True, self.borrowers()
        for one in free if self.is_limited else ():
            one.tell(permits={self.account: []})

    def _grant(self) -> None:
        """Give out the permits that are due, one to each process in turn."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, granted = self.clock(), dict[Borrower, list[int]]()
        while self._wanted:
            if (delay := self.pace.delay(now)) > _INSTANT:
                self._timer = asyncio.get_running_loop().call_later(max(delay, _TOGETHER), self._grant)
                break
            one = next(iter(self._wanted))
            if (more := self._wanted.pop(one) - 1) > 0:
                self._wanted[one] = more
            number = next(self._numbers)
            self._sent[one.name, number] = self.pace.sent(now)
            granted.setdefault(one, []).append(number)
        for one, numbers in granted.items():
            one.tell(permits={self.account: numbers})
