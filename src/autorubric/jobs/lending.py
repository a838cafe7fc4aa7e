"""What several processes share: one budget to borrow from, and one pace per endpoint and key."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.llm.http.pace import SPENDS, Pace, SentRequest
from autorubric.llm.sharing import Amount

_PIECES = 4
"""A loan is what is left of a budget / (this · number of processes), or what is missing if that is more."""


@dataclass(slots=True)
class SharedBudget:
    """A budget shared by several processes: together, they never exceed it.

    Example:
        >>> purse = SharedBudget(Amount(100, math.inf), processes=2)
        >>> purse.lend("a", Amount(30, 0)), purse.lend("b", Amount(80, 0))
        (Amount(tokens=30, pico=0), None)
        >>> purse.give_back("a", Amount(20, 0))
        >>> purse.lend("b", Amount(80, 0))
        Amount(tokens=80, pico=0)
    """

    limit: Amount
    processes: int = 1
    lent: dict[Any, Amount] = field(default_factory=dict)

    def lend(self, to: Any, missing: Amount) -> Amount | None:
        """More budget for a process that lacks `missing`; None if too little is left."""
        left, pieces = self.compute_left(), _PIECES * self.processes
        if not missing.is_within(left):
            return None
        more = Amount(*(max(lack, here // pieces) for lack, here in zip(missing, left.clip(), strict=True)))
        self.lent[to] = self.lent.get(to, Amount()).plus(more)
        return more

    def compute_left(self) -> Amount:
        """The budget that is not lent."""
        left = self.limit
        for one in self.lent.values():
            left = left.minus(one)
        return left

    def give_back(self, by: Any, spare: Amount) -> None:
        """Take back budget that a process does not need."""
        self.lent[by] = self.lent.get(by, Amount()).minus(spare)


_SPENDS = SPENDS / 2
"""Share of requests that may be refused to find a higher limit; halved, as several processes react later."""

_TOGETHER = 0.01
"""Minimum seconds between two grants of permits."""

_AGAIN = 0.1
"""Seconds between two checks of what other processes can spare."""

_INSTANT = 1e-6  # seconds; smaller waits are rounding errors


class Borrower(Protocol):
    """A process that borrows."""

    @property
    def name(self) -> Hashable:
        """Its name, unique among all that have ever borrowed."""
        ...

    def tell(self, **word: Any) -> None:
        """Send it a message."""
        ...


@dataclass(slots=True)
class SharedPace:
    """Learns a rate limit from the reports of all processes, and grants permits once there is one.

    The algorithm is that of a single process. An outcome counts for the rate at which its permit was granted.

    Attributes:
        account: identifies the endpoint and the key.
        borrowers: the running processes.
        clock: returns seconds.
        pace: the pace of all processes together.
        is_limited: whether a limit was detected.
    """

    account: str
    borrowers: Callable[[], Iterable[Borrower]]
    clock: Callable[[], float]
    pace: Pace = field(default_factory=lambda: Pace(spends=_SPENDS))
    is_limited: bool = False
    _sent: dict[tuple[Hashable, int], SentRequest] = field(default_factory=dict)
    _wanted: dict[Borrower, int] = field(default_factory=dict)  # permits; the next process to serve comes first
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _timer: asyncio.TimerHandle | None = None

    def read_report(self, one: Borrower, told: Mapping[str, Any]) -> None:
        """Read the report of a process, and grant the permits that are due."""
        now = self.clock()
        for number, ago in told.get("sent", ()):
            self._sent[one.name, number] = self.pace.record_sent(now - ago)
        for sent in self._pop_sent(one, told.get("passed", ())):
            self.pace.record_accepted(sent, now)
        for number, retry_after in told.get("refused", ()):
            for sent in self._pop_sent(one, (number,)):
                self.pace.record_refused(sent, now, retry_after)
        for sent in self._pop_sent(one, told.get("withdrawn", ())):
            self.pace.record_withdrawn(sent)
        if wanted := told.get("wanted", 0):
            self._wanted[one] = self._wanted.get(one, 0) + wanted
        self._announce_limit([one] if "sent" in told else [])
        self._grant()

    def drop(self, one: Borrower) -> None:
        """Stop waiting for reports of a process that has ended."""
        self._wanted.pop(one, None)
        for sent in self._pop_sent(one, [number for name, number in self._sent if name == one.name]):
            self.pace.record_withdrawn(sent)

    def _pop_sent(self, one: Borrower, numbers: Iterable[int]) -> Iterator[SentRequest]:
        """Remove and return requests of a process; unknown ones are skipped."""
        for number in numbers:
            if (sent := self._sent.pop((one.name, number), None)) is not None:
                yield sent

    def _announce_limit(self, free: Iterable[Borrower]) -> None:
        """When a limit is detected, inform all processes; later, those that send without a permit."""
        if not self.is_limited and (self.pace.is_closed or self.pace.rate < math.inf):
            self.is_limited, free = True, self.borrowers()
        for one in free if self.is_limited else ():
            one.tell(permits={self.account: []})

    def _grant(self) -> None:
        """Grant the permits that are due, one to each process in turn."""
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
            self._sent[one.name, number] = self.pace.record_sent(now)
            granted.setdefault(one, []).append(number)
        for one, numbers in granted.items():
            one.tell(permits={self.account: numbers})


@dataclass(slots=True)
class Lender:
    """Lends from the shared budget and, when that is empty, what other processes can spare; shares rate limits.

    Attributes:
        purse: the shared budget.
        borrowers: the running processes.
        clock: returns seconds.
    """

    purse: SharedBudget
    borrowers: Callable[[], Iterable[Borrower]]
    clock: Callable[[], float] = time.monotonic
    _asked: set[Hashable] = field(default_factory=set)  # processes that have not answered yet what they can spare
    _answered: asyncio.Event = field(default_factory=asyncio.Event)
    _missing: dict[Hashable, Amount] = field(default_factory=dict)  # budget that waiting processes lack
    _more: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _lending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _accounts: dict[str, SharedPace] = field(default_factory=dict)

    def read_message(self, one: Borrower, word: dict[str, Any]) -> None:
        """Handle a message of a process about shared limits."""
        for account, told in word.get("traffic", {}).items():
            if account not in self._accounts:
                self._accounts[account] = SharedPace(account, self.borrowers, self.clock)
            self._accounts[account].read_report(one, told)
        for other in self.borrowers() if "usable" in word else ():
            other.tell(usable=word["usable"])
        if "borrow" in word:
            held, missing = (Amount(*part) for part in word["borrow"])
            self.purse.lent[one.name] = held.clip()  # set now: later it may have given back a part
            self._missing[one.name] = missing
            task = asyncio.create_task(self._lend(one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "gave" in word:
            gave = Amount(*word["gave"])
            self.purse.give_back(one.name, gave)
            if one.name in self._missing:  # it asked before it gave this back, so it lacks this, too
                self._missing[one.name] = self._missing[one.name].plus(gave)
            self._more |= word["more"]
            self._note_answer(one.name)
        if "spare" in word:  # the process ends
            self.purse.give_back(one.name, Amount(*word["spare"]))
            self._missing.pop(one.name, None)

    def drop(self, one: Borrower) -> None:
        """Stop waiting for messages of a process that has ended."""
        self._note_answer(one.name)
        self._missing.pop(one.name, None)
        for account in self._accounts.values():
            account.drop(one)

    async def _lend(self, one: Borrower) -> None:
        async with self._lending:
            # A process that has ended is not in `_missing`.
            while (missing := self._missing.get(one.name)) and (lent := self.purse.lend(one.name, missing)) is None:
                await self._collect(one)
                if missing.is_within(self.purse.compute_left()):
                    continue
                if not self._more:
                    break
                await asyncio.sleep(_AGAIN)
            if self._missing.pop(one.name, None):
                one.tell(lent=lent, left=self.purse.compute_left())

    async def _collect(self, one: Borrower) -> None:
        """Take back what other processes can spare, and learn whether their calls in flight may free more."""
        others = [other for other in self.borrowers() if other is not one]
        self._asked, self._more = {other.name for other in others}, False
        for other in others:
            other.tell(give=True)
        self._answered.clear()
        if others:
            await self._answered.wait()

    def _note_answer(self, name: Hashable) -> None:
        self._asked.discard(name)
        if not self._asked:
            self._answered.set()
