"""What the processes of one run share: a budget, rate limits, and the replies that the run has recorded before."""

from __future__ import annotations

import math
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from autorubric.llm.budget import Budget


class Sum(NamedTuple):
    """Tokens and picodollars, which add up exactly; a limit may be infinite."""

    tokens: float = 0
    pico: float = 0

    def plus(self, other: Sum) -> Sum:
        """The sum of both."""
        return Sum(self.tokens + other.tokens, self.pico + other.pico)

    def minus(self, other: Sum) -> Sum:
        """The difference."""
        return Sum(self.tokens - other.tokens, self.pico - other.pico)

    def times(self, count: int) -> Sum:
        """As often as that."""
        return Sum(self.tokens * count, self.pico * count)

    def within(self, limit: Sum) -> bool:
        """Whether neither exceeds its limit."""
        return self.tokens <= limit.tokens and self.pico <= limit.pico

    def bounded(self) -> Sum:
        """The same without what is below zero or infinite."""
        return Sum(*(one if 0 < one < math.inf else 0 for one in self))


class Traffic(NamedTuple):
    """Requests to an endpoint that passed, and that were refused as too fast."""

    passed: int = 0
    refused: int = 0


_LATE_TIMER = 0.05
"""Seconds of lateness that are made up for."""

_SECOND = 1.0


class Lease:
    """What this process may send to one endpoint with one key, next to other processes.

    Args:
        shared: what this process has in common with the others.
        clock: in seconds.
        account: names the endpoint and the key.
    """

    def __init__(self, shared: Sharing, clock: Callable[[], float], account: str) -> None:
        self.account = account
        self._clock = clock
        self._shared = shared
        self._rate = math.inf
        self._last = self._opens = -math.inf
        self._traffic = Traffic()
        shared.leases.add(self)

    @property
    def is_rated(self) -> bool:
        """Whether all processes together have found a limit of the endpoint."""
        return self._rate < math.inf

    def delay(self, now: float) -> float:
        """Seconds until the next request may be sent; not positive if it may be sent now.

        Never more than a second, after which the rate may have grown.
        """
        due = self._last + 1 / self._rate if self._rate < math.inf else -math.inf
        return max(self._opens - now, min(due - now, _SECOND))

    def took(self, now: float) -> None:
        """A request leaves."""
        if self._rate < math.inf:
            self._last = max(self._last + 1 / self._rate, now - _LATE_TIMER)

    def passed(self) -> None:
        """A request was not refused."""
        self._traffic = Traffic(self._traffic.passed + 1, self._traffic.refused)

    def refused(self, closed_for: float | None = None) -> None:
        """A request was refused as too fast; the other processes hear of it at once.

        Args:
            closed_for: seconds for which the endpoint has closed, if it has.
        """
        if closed_for is None and not self.is_rated:
            return  # few refusals may come by chance
        self._traffic = Traffic(self._traffic.passed, self._traffic.refused + 1)
        self._shared.tell_traffic()
        if closed_for is not None:
            self._shared.tell_refusal(closed_for)

    def hold(self, seconds: float) -> None:
        """Send nothing for some seconds: an endpoint has closed for another process."""
        self._opens = max(self._opens, self._clock() + seconds)

    def take_traffic(self) -> Traffic:
        """What was sent since the last call."""
        traffic, self._traffic = self._traffic, Traffic()
        return traffic

    def renew(self, rate: float) -> None:
        """Send at most `rate` requests a second from now on."""
        self._rate = rate


@dataclass
class Sharing:
    """One process of several that work on one run.

    Attributes:
        processes: their number; each has this share of a rate limit.
        base: the directory of the ledger whose replies are found too; it does not change meanwhile.
        borrow: asks for more budget, given what is held already and what is missing; None where it is refused.
        tell_refusal: passes on that an endpoint (its account) has closed for some seconds.
        tell_traffic: passes on at once what was sent, because an endpoint has refused a request as too fast.
        used: is told what is spent and reserved whenever that grows, for the case that the process is killed.
        budget: lives on what was lent.
        left: of the whole budget when more of it was last refused; None before.
        leases: of the endpoints that this process calls.
    """

    processes: int
    base: Path | None
    borrow: Callable[[Sum, Sum], Awaitable[Sum | None]]
    tell_refusal: Callable[[float], None]
    _: KW_ONLY
    tell_traffic: Callable[[], None] = lambda: None
    used: Callable[[Sum], None] = lambda _: None
    budget: Budget | None = None
    left: Sum | None = None
    leases: weakref.WeakSet[Lease] = field(default_factory=weakref.WeakSet)

    def hold(self, seconds: float) -> None:
        """Send nothing for some seconds, because an endpoint refused a request of another process."""
        for lease in self.leases:
            lease.hold(seconds)

    def take_traffic(self) -> dict[str, Traffic]:
        """What was sent since the last call, to each endpoint that was called or that has a rate."""
        found: dict[str, Traffic] = {}
        for lease in self.leases:
            passed, refused = lease.take_traffic()
            if passed or refused or lease.is_rated:
                before = found.get(lease.account, Traffic())
                found[lease.account] = Traffic(before.passed + passed, before.refused + refused)
        return found

    def renew(self, rates: Mapping[str, float]) -> None:
        """Call endpoints at these rates from now on."""
        for lease in self.leases:
            if lease.account in rates:
                lease.renew(rates[lease.account])


sharing: ContextVar[Sharing | None] = ContextVar("sharing", default=None)


_BACK = 0.9
"""Share of the rate at which a request was refused to which a halved rate returns after a second."""

_FIRST_STEP, _LARGEST_STEP = 0.01, 0.3
_USED = 0.5
"""Share of the rate that has to be used for it to grow."""

_LEAST = 1.0
_DOUBLING = 1.0
"""The step while the rate of the limit is not known: a rate grows until it was refused."""

_SETTLED = 0.5
"""Seconds after which all replies are to requests that were sent at the halved rate."""

_CLOSED = 2.0
"""Seconds after which an endpoint that refuses everything is more than slow."""

_MANY = 30
"""Requests over which a share of refusals is measured, at least."""

_RARE, _MOST_CHANCE = 0.02, 0.2
"""Between these shares, requests may be refused by chance."""

_TOO_FAST = 0.3
"""Share of refusals above which even a halved rate is above the limit."""


@dataclass(slots=True)
class _Account:
    """What is known of one endpoint and key; rates in requests a second.

    Attributes:
        since: since when `passed` and `refused` requests were answered.
        cycle: since when `cycle_passed` requests have passed: the last return to a rate.
        rate: of all processes together; infinite until a limit shows.
        before: the rate before it was halved.
        step: by which the rate grows next; None while it is halved.
        next_step: the first step after it was halved.
        chance: share of requests that are refused at any rate.
        settled: requests that passed and that were refused while the rate was halved.
    """

    since: float
    cycle: float
    rate: float = math.inf
    before: float = math.inf
    step: float | None = _FIRST_STEP
    next_step: float = _DOUBLING
    chance: float = 0.0
    passed: int = 0
    refused: int = 0
    cycle_passed: int = 0
    settled: Traffic = field(default_factory=Traffic)

    def heard(self, passed: int, refused: int, now: float) -> None:
        """Take in what was answered since the last report."""
        self.passed += passed
        self.refused += refused
        self.cycle_passed += passed
        if self.step is None:
            self._wait(Traffic(passed, refused), now)
        elif refused and self._is_limit():
            self._halve(now)
        elif self.rate < math.inf and now - self.since >= _SECOND:
            self._grow(now)

    def _is_limit(self) -> bool:
        expected = self.chance * (self.passed + self.refused)
        return self.passed > 0 and self.refused > expected + 3 * math.sqrt(expected)

    def _halve(self, now: float) -> None:
        self.before = self._average(now) if self.rate == math.inf else self.rate
        self.rate, self.step = max(self.before / 2, _LEAST), None
        self._begin(now)

    def _grow(self, now: float) -> None:
        if self.step is not None and self.passed >= _USED * self.rate * (now - self.since):
            self.rate *= 1 + self.step
            self.step = max(self.step, min(2 * self.step, _LARGEST_STEP))
        self._begin(now)

    def _wait(self, answered: Traffic, now: float) -> None:
        """Return to a little less than the rate that was refused, once something passes."""
        halved_for = now - self.since
        if halved_for < _SETTLED:
            self.passed = 0
        else:
            self.settled = Traffic(*map(sum, zip(self.settled, answered, strict=True)))
        if halved_for < _SECOND or not self.passed:
            return
        average = self._average(now)
        if halved_for < _CLOSED:
            # Where a doubled rate was refused, its half may be too fast, too: then what passed tells the limit.
            refused = average if self._refused_by_half() > _TOO_FAST else max(self.before, average)
            self.rate, self.step = _BACK * max(refused, _LEAST), self.next_step
        else:  # it takes a number of requests in each window of time
            self.rate, self.step = max(average, _LEAST), _FIRST_STEP
        self.next_step = _FIRST_STEP
        self._weigh()
        self.cycle, self.cycle_passed = now, 0
        self._begin(now)

    def _weigh(self) -> None:
        """What is refused at half of a refused rate is refused by chance."""
        if sum(self.settled) >= _MANY:
            share, self.settled = self._refused_by_half(), Traffic()
            if _RARE < share <= _MOST_CHANCE and share > self.chance:
                self.step = _DOUBLING
            self.chance = share if _RARE < share <= _MOST_CHANCE else 0.0

    def _refused_by_half(self) -> float:
        """The share of requests that was refused at the halved rate; 0 where they are too few to tell."""
        asked = sum(self.settled)
        return self.settled.refused / asked if asked >= _MANY else 0.0

    def _average(self, now: float) -> float:
        return self.cycle_passed / max(now - self.cycle, _SECOND)

    def _begin(self, now: float) -> None:
        self.passed, self.refused, self.since = 0, 0, now


class Leases:
    """Divides the rate of each endpoint and key among processes: a refusal at one halves that of all.

    Example:
        >>> leases = Leases()
        >>> leases.heard({"a": Traffic(60, 0)}, now=0.0)
        {'a': inf}
        >>> leases.heard({"a": Traffic(60, 1)}, now=2.0)  # 120 passed in two seconds
        {'a': 30.0}
        >>> leases.heard({"a": Traffic(0, 5)}, now=2.2)  # sent before that was known
        {'a': 30.0}
        >>> leases.heard({"a": Traffic(30, 0)}, now=3.0)
        {'a': 54.0}
        >>> leases.heard({"a": Traffic(54, 0)}, now=4.0)  # it doubles until it is refused
        {'a': 108.0}
        >>> [leases.heard({"a": Traffic(10, n == 0)}, now=4.2 + n)["a"] for n in range(3)]
        [54.0, 97.2, 97.2]
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def heard(self, traffic: dict[str, Traffic], now: float) -> dict[str, float]:
        """The rate of all processes together, for each endpoint that one of them has called.

        Args:
            traffic: of one process since its last report.
            now: seconds on a clock that only goes forward.
        """
        for name, (passed, refused) in traffic.items():
            self._accounts.setdefault(name, _Account(now, now)).heard(passed, refused, now)
        return {name: self._accounts[name].rate for name in traffic}
