"""Limits shared by several processes: one budget that they borrow from, and one pace per endpoint and key."""

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
"""A loan is the remaining budget / (this · number of processes), or the missing amount if that is more."""


@dataclass(slots=True)
class SharedBudget:
    """A budget that several processes together never exceed.

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
        """Lend budget to a process that lacks `missing`; return the loan, or None if too little is left."""
        left, pieces = self.compute_left(), _PIECES * self.processes
        if not missing.is_within(left):
            return None
        more = Amount(*(max(lack, here // pieces) for lack, here in zip(missing, left.clip(), strict=True)))
        self.lent[to] = self.lent.get(to, Amount()).plus(more)
        return more

    def compute_left(self) -> Amount:
        """Return the budget that is not lent."""
        left = self.limit
        for amount in self.lent.values():
            left = left.minus(amount)
        return left

    def give_back(self, by: Any, spare: Amount) -> None:
        """Take back budget that a process does not need."""
        self.lent[by] = self.lent.get(by, Amount()).minus(spare)


_SPENDS = SPENDS / 2
"""Share of requests that may be refused while probing for a higher limit; halved, as processes react late."""

_TOGETHER = 0.01
"""Minimum seconds between two grants of permits."""

_AGAIN = 0.1
"""Seconds between two checks for spare budget in other processes."""

_INSTANT = 1e-6  # seconds; smaller waits are rounding errors


class Borrower(Protocol):
    """A process that borrows from the shared limits."""

    @property
    def name(self) -> Hashable:
        """Its name, unique among all processes that ever borrowed."""
        ...

    def tell(self, **message: Any) -> None:
        """Send it a message."""
        ...


@dataclass(slots=True)
class SharedPace:
    """Learns a rate limit from the reports of all processes, and grants permits once there is one.

    The algorithm is the same as in a single process. An outcome counts for the rate at which its permit was granted.

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

    def read_report(self, borrower: Borrower, report: Mapping[str, Any]) -> None:
        """Read the report of a process, and grant the permits that are due."""
        now = self.clock()
        for number, ago in report.get("sent", ()):
            self._sent[borrower.name, number] = self.pace.record_sent(now - ago)
        for sent in self._pop_sent(borrower, report.get("passed", ())):
            self.pace.record_accepted(sent, now)
        for number, retry_after in report.get("refused", ()):
            for sent in self._pop_sent(borrower, (number,)):
                self.pace.record_refused(sent, now, retry_after)
        for sent in self._pop_sent(borrower, report.get("withdrawn", ())):
            self.pace.record_withdrawn(sent)
        if wanted := report.get("wanted", 0):
            self._wanted[borrower] = self._wanted.get(borrower, 0) + wanted
        self._announce_limit([borrower] if "sent" in report else [])
        self._grant()

    def drop(self, borrower: Borrower) -> None:
        """Stop waiting for reports of a process that has ended."""
        self._wanted.pop(borrower, None)
        for sent in self._pop_sent(borrower, [number for name, number in self._sent if name == borrower.name]):
            self.pace.record_withdrawn(sent)

    def _pop_sent(self, borrower: Borrower, numbers: Iterable[int]) -> Iterator[SentRequest]:
        """Remove and return requests of a process; unknown ones are skipped."""
        for number in numbers:
            if (sent := self._sent.pop((borrower.name, number), None)) is not None:
                yield sent

    def _announce_limit(self, free: Iterable[Borrower]) -> None:
        """Inform all processes when a limit is detected, and later each process that still sends without a permit."""
        if not self.is_limited and (self.pace.is_closed or self.pace.rate < math.inf):
            self.is_limited, free = True, self.borrowers()
        for borrower in free if self.is_limited else ():
            borrower.tell(permits={self.account: []})

    def _grant(self) -> None:
        """Grant the permits that are due, to the processes in turn."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, granted = self.clock(), dict[Borrower, list[int]]()
        while self._wanted:
            if (delay := self.pace.delay(now)) > _INSTANT:
                self._timer = asyncio.get_running_loop().call_later(max(delay, _TOGETHER), self._grant)
                break
            borrower = next(iter(self._wanted))
            if (more := self._wanted.pop(borrower) - 1) > 0:
                self._wanted[borrower] = more
            number = next(self._numbers)
            self._sent[borrower.name, number] = self.pace.record_sent(now)
            granted.setdefault(borrower, []).append(number)
        for borrower, numbers in granted.items():
            borrower.tell(permits={self.account: numbers})


@dataclass(slots=True)
class Lender:
    """Lends from the shared budget or, once that is used up, what other processes can spare; shares rate limits.

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

    def read_message(self, borrower: Borrower, message: dict[str, Any]) -> None:
        """Handle a message of a process about shared limits."""
        for account, report in message.get("traffic", {}).items():
            if account not in self._accounts:
                self._accounts[account] = SharedPace(account, self.borrowers, self.clock)
            self._accounts[account].read_report(borrower, report)
        for other in self.borrowers() if "usable" in message else ():
            other.tell(usable=message["usable"])
        if "borrow" in message:
            loan, missing = (Amount(*part) for part in message["borrow"])
            self.purse.lent[borrower.name] = loan.clip()  # set now: later it may have given back a part
            self._missing[borrower.name] = missing
            task = asyncio.create_task(self._lend(borrower))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "gave" in message:
            gave = Amount(*message["gave"])
            self.purse.give_back(borrower.name, gave)
            if borrower.name in self._missing:  # it asked before it gave this back, so it lacks this, too
                self._missing[borrower.name] = self._missing[borrower.name].plus(gave)
            self._more |= message["more"]
            self._note_answer(borrower.name)
        if "spare" in message:  # the process ends
            self.purse.give_back(borrower.name, Amount(*message["spare"]))
            self._missing.pop(borrower.name, None)

    def drop(self, borrower: Borrower) -> None:
        """Stop waiting for messages of a process that has ended."""
        self._note_answer(borrower.name)
        self._missing.pop(borrower.name, None)
        for account in self._accounts.values():
            account.drop(borrower)

    async def _lend(self, borrower: Borrower) -> None:
        async with self._lending:
            # `_missing` contains only running processes.
            while (missing := self._missing.get(borrower.name)) and (
                lent := self.purse.lend(borrower.name, missing)
            ) is None:
                await self._collect(borrower)
                if missing.is_within(self.purse.compute_left()):
                    continue
                if not self._more:
                    break
                await asyncio.sleep(_AGAIN)
            for other in self.borrowers():  # each opens only as many records as its share of this covers
                other.tell(left=self.purse.compute_left())
            if self._missing.pop(borrower.name, None):
                borrower.tell(lent=lent)

    async def _collect(self, borrower: Borrower) -> None:
        """Ask other processes for spare budget, and whether their calls in flight may free more."""
        others = [other for other in self.borrowers() if other is not borrower]
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
