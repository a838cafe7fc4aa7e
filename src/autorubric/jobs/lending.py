"""What several processes share: one budget that they borrow from, and one pace for each endpoint and key."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.llm.http.pace import SPENDS, Pace, Sent
from autorubric.llm.sharing import Sum

_PIECES = 4
"""Each process borrows at most this part, divided by the number of processes, of what is left of a budget."""


@dataclass(slots=True)
class Purse:
    """A budget shared by several processes: together, they never exceed it.

    Example:
        >>> purse = Purse(Sum(100, math.inf), processes=2)
        >>> purse.lend("a", Sum(30, 0)), purse.lend("b", Sum(80, 0))
        (Sum(tokens=30, pico=0), None)
        >>> purse.give_back("a", Sum(20, 0))
        >>> purse.lend("b", Sum(80, 0))
        Sum(tokens=80, pico=0)
    """

    limit: Sum
    processes: int = 1
    lent: dict[Any, Sum] = field(default_factory=dict)

    def lend(self, to: Any, missing: Sum) -> Sum | None:
        """More budget for a process that lacks `missing`; None if too little is left."""
        left, pieces = self.left(), _PIECES * self.processes
        if not missing.within(left):
            return None
        more = Sum(*(max(lack, here // pieces) for lack, here in zip(missing, left.bounded(), strict=True)))
        self.lent[to] = self.lent.get(to, Sum()).plus(more)
        return more

    def left(self) -> Sum:
        """What is not lent."""
        left = self.limit
        for one in self.lent.values():
            left = left.minus(one)
        return left

    def give_back(self, by: Any, spare: Sum) -> None:
        """Take back what a process does not need."""
        self.lent[by] = self.lent.get(by, Sum()).minus(spare)


_SPENDS = SPENDS / 2
"""Share of requests that may be refused to find a higher limit: several processes hear later that it was too fast."""

_TOGETHER = 0.01
"""Seconds between two grants of permits, at least."""

_AGAIN = 0.1
"""Seconds between two looks at what calls of other processes have left."""

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
    """Learns a rate limit from the reports of all processes, and gives out permits once there is one.

    The algorithm is that of a single process. An outcome counts for the rate at which its permit was given.

    Attributes:
        account: identifies the endpoint and the key.
        borrowers: the running processes.
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
        """Process the report of a process, and give out the permits that are due."""
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
        """Stop waiting for reports of a process that has ended."""
        self._wanted.pop(one, None)
        for sent in self._taken(one, [number for name, number in self._sent if name == one.name]):
            self.pace.withdrawn(sent)

    def _taken(self, one: Borrower, numbers: Iterable[int]) -> Iterator[Sent]:
        """The requests of a process, which are forgotten then; those of which nothing is known are left out."""
        for number in numbers:
            if (sent := self._sent.pop((one.name, number), None)) is not None:
                yield sent

    def _limit(self, free: Iterable[Borrower]) -> None:
        """Once a limit has shown, inform all processes, and later those that send without a permit."""
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


@dataclass(slots=True)
class Lender:
    """Lends from the shared budget and, once that is empty, what other processes can spare; divides rates.

    Attributes:
        purse: the shared budget.
        borrowers: the running processes.
        clock: in seconds.
    """

    purse: Purse
    borrowers: Callable[[], Iterable[Borrower]]
    clock: Callable[[], float] = time.monotonic
    _asked: set[Hashable] = field(default_factory=set)  # who has to tell yet what it can spare
    _answered: asyncio.Event = field(default_factory=asyncio.Event)
    _missing: dict[Hashable, Sum] = field(default_factory=dict)  # of those who wait for their turn
    _more: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _lending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _accounts: dict[str, SharedPace] = field(default_factory=dict)

    def hear(self, one: Borrower, word: dict[str, Any]) -> None:
        """Handle a message of a process about shared limits."""
        for account, told in word.get("traffic", {}).items():
            if account not in self._accounts:
                self._accounts[account] = SharedPace(account, self.borrowers, self.clock)
            self._accounts[account].hear(one, told)
        for other in self.borrowers() if "usable" in word else ():
            other.tell(usable=word["usable"])
        if "borrow" in word:
            held, missing = (Sum(*part) for part in word["borrow"])
            self.purse.lent[one.name] = held.bounded()  # now: later it may have given back a part
            self._missing[one.name] = missing
            task = asyncio.create_task(self._lend(one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "gave" in word:
            gave = Sum(*word["gave"])
            self.purse.give_back(one.name, gave)
            if one.name in self._missing:  # it asked before it gave this, so now it lacks this too
                self._missing[one.name] = self._missing[one.name].plus(gave)
            self._more |= word["more"]
            self._answer(one.name)
        if "spare" in word:  # it ends
            self.purse.give_back(one.name, Sum(*word["spare"]))
            self._missing.pop(one.name, None)

    def gone(self, one: Borrower) -> None:
        """Stop waiting for messages of a process that has ended."""
        self._answer(one.name)
        self._missing.pop(one.name, None)
        for account in self._accounts.values():
            account.gone(one)

    async def _lend(self, one: Borrower) -> None:
        async with self._lending:
            # A process that has ended lacks nothing any more.
            while (missing := self._missing.get(one.name)) and (lent := self.purse.lend(one.name, missing)) is None:
                await self._collect(one)
                if missing.within(self.purse.left()):
                    continue
                if not self._more:
                    break
                await asyncio.sleep(_AGAIN)
            if self._missing.pop(one.name, None):
                one.tell(lent=lent, left=self.purse.left())

    async def _collect(self, one: Borrower) -> None:
        """Take back what the other processes can spare, and ask whether calls of theirs may leave more."""
        others = [other for other in self.borrowers() if other is not one]
        self._asked, self._more = {other.name for other in others}, False
        for other in others:
            other.tell(give=True)
        self._answered.clear()
        if others:
            await self._answered.wait()

    def _answer(self, name: Hashable) -> None:
        self._asked.discard(name)
        if not self._asked:
            self._answered.set()
