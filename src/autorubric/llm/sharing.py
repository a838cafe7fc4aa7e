"""What the processes of one run share: a budget, rate limits, and the replies that the run has recorded before."""

from __future__ import annotations

import math
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol


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


class Held(Protocol):
    """Who is held back, or gives something back, when another process says so."""

    def hold(self, seconds: float) -> None:
        """Send nothing for some seconds."""
        ...


class Spare(Protocol):
    """A budget that lives on what was lent to it."""

    def give_spare(self) -> Sum:
        """What is neither spent nor reserved, which is no longer available from now on."""
        ...


@dataclass
class Sharing:
    """One process of several that work on one run.

    Attributes:
        processes: their number; each has this share of a rate limit.
        base: the directory of the ledger whose replies are found too; it does not change meanwhile.
        borrow: asks for more budget, given what is held already and what is missing; None where it is refused.
        tell_refusal: passes on that an endpoint (its account) has closed for some seconds.
        used: is told what is spent and reserved whenever that grows, for the case that the process is killed.
        budget: lives on what was lent.
    """

    processes: int
    base: Path | None
    borrow: Callable[[Sum, Sum], Awaitable[Sum | None]]
    tell_refusal: Callable[[float], None]
    _: KW_ONLY
    used: Callable[[Sum], None] = lambda _: None
    budget: Spare | None = None
    limiters: weakref.WeakSet[Held] = field(default_factory=weakref.WeakSet)

    def hold(self, seconds: float) -> None:
        """Send nothing for some seconds, because an endpoint refused a request of another process."""
        for limiter in self.limiters:
            limiter.hold(seconds)


sharing: ContextVar[Sharing | None] = ContextVar("sharing", default=None)
