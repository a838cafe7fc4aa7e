"""What several processes share: one budget that they borrow from, and one pace for each endpoint and key."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from autorubric.jobs.shared_pace import Borrower, SharedPace
from autorubric.llm.sharing import Sum

_PIECES = 4
"""Each process borrows at most this part, divided by the number of processes, of what is left of a budget."""


@dataclass(slots=True)
class Purse:
    """A budget that is lent to several processes: what they hold together never exceeds it.

    Example:
        >>> purse = Purse(Sum(100, math.inf), processes=2)
        >>> purse.lend("a", Sum(), Sum(30, 0)), purse.lend("b", Sum(), Sum(80, 0))
        (Sum(tokens=30, pico=0), None)
        >>> purse.give_back("a", Sum(20, 0))
        >>> purse.lend("b", Sum(), Sum(80, 0))
        Sum(tokens=80, pico=0)
    """

    limit: Sum
    processes: int = 1
    lent: dict[Any, Sum] = field(default_factory=dict)

    def lend(self, to: Any, held: Sum, missing: Sum) -> Sum | None:
        """More for a process that holds `held` and lacks `missing`; None if that is not left."""
        self.lent[to] = _finite(held)
        left = self.left()
        if not missing.within(left):
            return None
        pieces = _PIECES * self.processes
        more = Sum(
            *(max(lack, here // pieces) if here < math.inf else 0 for lack, here in zip(missing, left, strict=True))
        )
        self.lent[to] = self.lent[to].plus(more)
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


def _finite(one: Sum) -> Sum:
    return Sum(*(part if part < math.inf else 0 for part in one))


@dataclass(slots=True)
class Lender:
    """Lends from a purse and, once that is empty, what the other processes can spare; divides the rates of endpoints.

    Attributes:
        purse: what is lent.
        borrowers: the processes that run at the moment.
        clock: in seconds.
    """

    purse: Purse
    borrowers: Callable[[], Iterable[Borrower]]
    clock: Callable[[], float] = time.monotonic
    _returns: dict[int, tuple[asyncio.Future[None], set[Hashable]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _lending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _accounts: dict[str, SharedPace] = field(default_factory=dict)

    def hear(self, one: Borrower, word: dict[str, Any]) -> None:
        """Act on a word of a process, where it is about what they share."""
        for account, told in word.get("traffic", {}).items():
            if account not in self._accounts:
                self._accounts[account] = SharedPace(account, self.borrowers, self.clock)
            self._accounts[account].hear(one, told)
        if "borrow" in word:
            task = asyncio.create_task(self._lend(one, *(Sum(*part) for part in word["borrow"])))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "gave" in word:
            self.purse.give_back(one.name, Sum(*word["gave"]))
            self._returned(word["to"], one.name)
        if "spare" in word:
            self.purse.give_back(one.name, Sum(*word["spare"]))

    def gone(self, one: Borrower) -> None:
        """Wait for no word of a process that has ended."""
        for number in list(self._returns):
            self._returned(number, one.name)
        for account in self._accounts.values():
            account.gone(one)

    async def _lend(self, one: Borrower, held: Sum, missing: Sum) -> None:
        async with self._lending:
            lent = self.purse.lend(one.name, held, missing)
            if lent is None:
                await self._collect(one)
                lent = self.purse.lend(one.name, held, missing)
        one.tell(lent=lent, left=self.purse.left())

    async def _collect(self, one: Borrower) -> None:
        """Take back what the other processes can spare."""
        others = self._others(one)
        number, done = secrets.randbits(30), asyncio.get_running_loop().create_future()
        self._returns[number] = done, {other.name for other in others}
        for other in others:
            other.tell(give=number)
        if others:
            await done
        del self._returns[number]

    def _others(self, one: Borrower) -> list[Borrower]:
        return [other for other in self.borrowers() if other is not one]

    def _returned(self, number: int, name: Hashable) -> None:
        done, others = self._returns.get(number, (None, set()))
        others.discard(name)
        if done is not None and not others and not done.done():
            done.set_result(None)
