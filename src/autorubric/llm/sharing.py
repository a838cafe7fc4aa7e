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
    from autorubric.llm.http.lease import Lease


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
