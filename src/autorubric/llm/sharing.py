"""What the processes of one run share: a budget, rate limits, and the replies that the run has recorded before."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from autorubric.llm.budget import Budget


_PICO = 10**12


class Amount(NamedTuple):
    """Tokens and picodollars: integers, so that sums of many small prices are exact. A limit may be infinite.

    Example:
        >>> one, other = Amount.from_dollars(1000, 0.04), Amount.from_dollars(20, 0.001)
        >>> tuple(one.plus(other)), Amount.from_dollars(0, 0.3).cost
        ((1020, 41000000000), 0.3)
    """

    tokens: float = 0
    pico: float = 0

    @classmethod
    def from_dollars(cls, tokens: float, cost: float = 0.0) -> Amount:
        """Tokens and dollars; a limit in dollars may be infinite."""
        return cls(tokens, cost if cost == math.inf else round(cost * _PICO))

    @property
    def cost(self) -> float:
        """The picodollars as dollars."""
        return self.pico / _PICO

    def plus(self, other: Amount) -> Amount:
        """Return the sum of both."""
        return Amount(self.tokens + other.tokens, self.pico + other.pico)

    def minus(self, other: Amount) -> Amount:
        """Return the difference."""
        return Amount(self.tokens - other.tokens, self.pico - other.pico)

    def times(self, count: int) -> Amount:
        """Return the product with a number."""
        return Amount(self.tokens * count, self.pico * count)

    def split(self, parts: int) -> Amount:
        """Return one of equal parts."""
        return Amount(self.tokens / parts, self.pico / parts)

    def is_within(self, limit: Amount) -> bool:
        """Return whether neither exceeds its limit."""
        return self.tokens <= limit.tokens and self.pico <= limit.pico

    def clip(self) -> Amount:
        """Return the same with 0 for what is negative or infinite."""
        return Amount(*(amount if 0 < amount < math.inf else 0 for amount in self))

    def format(self, *, in_tokens: bool) -> str:
        """Return the tokens or the dollars.

        Example:
            >>> Amount.from_dollars(1500, 0.5).format(in_tokens=True)
            '1,500'
        """
        if in_tokens:
            return f"{int(self.tokens):,}"
        return f"${self.cost:.2f}" if self.cost == round(self.cost, 2) else f"${self.cost:.4g}"

    def round_up(self) -> Amount:
        """Return the same, rounded up to two significant digits.

        Example:
            >>> tuple(Amount(1201.5, 7).round_up())
            (1300, 7)
        """
        whole = [math.ceil(amount) for amount in self]
        units = [10 ** max(0, len(str(amount)) - 2) for amount in whole]
        return Amount(*(-(-amount // unit) * unit for amount, unit in zip(whole, units, strict=True)))


_STALE = 0.5
"""Seconds after which an unused permit is returned."""

_SOON = 0.01
"""Minimum seconds between two reports."""

_MOST_ASKED = 32
"""Maximum permits that a process requests in advance."""


class Lease:
    """The share of this process in the requests to one endpoint with one key.

    Until a limit shows, requests are only reported. From then on each one takes a permit.

    Args:
        shared: what the processes share.
        clock: in seconds.

    Attributes:
        needs_permits: whether a limit of the endpoint has shown, in any process.
        wakes: called when permits arrive.
    """

    def __init__(self, shared: Sharing, clock: Callable[[], float]) -> None:
        self.needs_permits = False
        self.wakes: list[Callable[[], None]] = []
        self._shared = shared
        self._clock = clock
        self._free = 0
        self._permits: deque[tuple[int, float]] = deque()
        self._asked = 0
        self._told = TrafficReport()

    def delay(self, wanted: int) -> float:
        """Seconds until the next request may be sent, 0 if there is a permit; requests the missing permits."""
        missing = min(wanted, _MOST_ASKED) - self._asked - len(self._permits)
        if missing > 0:
            self._asked += missing
            self._told.wanted += missing
            self._shared.report_soon()
        return 0.0 if self._permits else 1.0

    def note_sent(self, now: float) -> int:
        """Note that a request leaves, and return its number."""
        if self.needs_permits:
            return self._permits.popleft()[0]
        self._free -= 1
        self._told.sent.append((self._free, now))
        return self._free

    def note_accepted(self, number: int) -> None:
        """Note that a request was not refused."""
        self._told.passed.append(number)
        if self.needs_permits:
            self._shared.report_soon()

    def note_refused(self, number: int, retry_after: float | None) -> None:
        """Note that a request was refused as too fast."""
        self._told.refused.append((number, retry_after))
        if self.needs_permits:
            self._shared.report_soon()
        else:
            self._shared.report()

    def note_withdrawn(self, number: int) -> None:
        """Note that the outcome of a request will never be known."""
        self._told.withdrawn.append(number)

    def add_permits(self, numbers: Iterable[int]) -> None:
        """Add permits; each request needs one from now on."""
        if not self.needs_permits:
            self.needs_permits = True
            self._shared.report_soon()
        now = self._clock()
        for number in numbers:
            self._asked -= 1
            self._permits.append((number, now))
        for wake in self.wakes:
            wake()

    def build_report(self) -> dict[str, Any]:
        """Return the outcomes since the last report."""
        now = self._clock()
        while self._permits and now - self._permits[0][1] > _STALE:
            self._told.withdrawn.append(self._permits.popleft()[0])
        report, self._told = self._told, TrafficReport()
        report.sent = [(number, now - at) for number, at in report.sent]
        return {name: value for name in report.__slots__ if (value := getattr(report, name))}


@dataclass(slots=True)
class TrafficReport:
    """The report of a process on its numbered requests to one endpoint with one key.

    Attributes:
        sent: without a permit, and when (in the report: seconds ago).
        passed: those that were not refused.
        refused: those that were refused as too fast, and their `Retry-After`.
        withdrawn: those whose outcome will never be known.
        wanted: how many more permits the process requests.
    """

    sent: list[tuple[int, float]] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    refused: list[tuple[int, float | None]] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    wanted: int = 0


@dataclass
class Sharing:
    """One process of several that work on one run.

    Attributes:
        processes: their number; each has this share of a rate limit.
        base: the directory of a ledger whose replies are found too, and which does not change meanwhile.
        borrow: requests more budget, given what is held and what is missing; returns None if that is refused.
        tell_traffic: passes on what was sent, by account.
        tell_usable: passes on the role and the name of a model that gave a usable reply here.
        used: called with what is spent and reserved whenever that grows, in case the process is killed.
        budget: spends what was lent.
        left: the part of the whole budget that was lent to no process when this was last reported; None if unknown.
        leases: of the endpoints that this process calls.
        usable: role and name of the models that gave other processes a usable reply.
    """

    processes: int
    base: Path | None
    borrow: Callable[[Amount, Amount], Awaitable[Amount | None]]
    tell_traffic: Callable[[dict[str, Any]], None]
    _: KW_ONLY
    tell_usable: Callable[[list[str]], None] = lambda _: None
    used: Callable[[Amount], None] = lambda _: None
    budget: Budget | None = None
    left: Amount | None = None
    leases: WeakValueDictionary[str, Lease] = field(default_factory=WeakValueDictionary)
    usable: set[tuple[str, ...]] = field(default_factory=set)
    _due: asyncio.TimerHandle | None = None
    _reported: float = -math.inf

    def open_lease(self, account: str, clock: Callable[[], float], wake: Callable[[], None]) -> Lease:
        """Return the lease for an account (an endpoint with a key); `wake` is called when permits arrive."""
        lease = self.leases.setdefault(account, Lease(self, clock))
        lease.wakes.append(wake)
        return lease

    def report(self) -> None:
        """Pass on the outcomes since the last report."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        reports = {account: report for account, lease in self.leases.items() if (report := lease.build_report())}
        if reports:
            self._reported = asyncio.get_running_loop().time()
            self.tell_traffic(reports)

    def report_soon(self) -> None:
        """Report once `_SOON` has passed since the last report."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._reported + _SOON), self.report)

    def pass_permits(self, permits: Mapping[str, Iterable[int]]) -> None:
        """Add permits, by account."""
        for account, numbers in permits.items():
            if (lease := self.leases.get(account)) is not None:
                lease.add_permits(numbers)


sharing: ContextVar[Sharing | None] = ContextVar("sharing", default=None)

turns = itertools.count(1)
"""Numbers the records and submissions of this process in the order in which they are begun."""

turn: ContextVar[int] = ContextVar("turn", default=0)
"""The number of the record or submission that a call is for, 0 if it is for none. Waiting calls go out in this order,
so that what was begun first is finished first."""
