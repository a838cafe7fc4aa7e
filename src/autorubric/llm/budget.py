"""A hard limit in dollars or tokens: the worst case is reserved before a call is sent."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple

from autorubric.errors import ConfigError
from autorubric.llm.model import Model
from autorubric.llm.records.accounts import Spent
from autorubric.llm.request import CallError, Failure, Request, Usage

# Sums of many small prices must not drift, so money is counted in whole picodollars.
_PICO = 10**12


class Amount(NamedTuple):
    """Tokens, and the dollars they cost."""

    tokens: int = 0
    cost: float = 0.0


def check_priced(models: Mapping[str, Model]) -> None:
    """Refuse a budget in dollars for models without a price.

    Args:
        models: by what they are called in the run.

    Raises:
        ConfigError: some have none; all of them are named.

    Example:
        >>> from autorubric.testing import ScriptedModel
        >>> check_priced({"judge": ScriptedModel({})})
        Traceback (most recent call last):
        autorubric.errors.ConfigError: no price is known for judge (scripted); a budget in dollars needs one: ...
    """
    unpriced = [f"{name} ({model.name})" for name, model in models.items() if model.cost(Usage(1, 1)) is None]
    if unpriced:
        raise ConfigError(
            f"no price is known for {', '.join(unpriced)}; a budget in dollars needs one: give prices "
            "(--prices FILE, LLMConfig.prices), or a budget in tokens instead (--budget-tokens)"
        )


class Reservation:
    """The worst case of one call, held back until the call is settled.

    Attributes:
        need: the worst case of one attempt; None where no budget asked for it.
        resends: attempts that may have been billed without a word, beside the last one.
    """

    __slots__ = ("_budget", "need", "resends", "settled")

    def __init__(self, budget: Budget | None = None, need: Amount | None = None) -> None:
        self._budget = budget
        self.need = need
        self.resends = 0
        self.settled = False

    async def extend(self) -> Failure | None:
        """Hold the worst case once more, for another attempt; a failure where the budget forbids it."""
        if self._budget is not None and self.need is not None:
            refused = await self._budget.reserve_again(self.need)
            if refused is not None:
                return refused
        self.resends += 1
        return None


class Budget:
    """A limit on what a run may spend, over all of its sessions.

    A call is admitted when everything spent, everything reserved and its own worst case fit under the limit
    together. One that does not fit waits while calls in flight may still turn out cheaper; when nothing is
    left to wait for, it fails. So the limit holds at every moment, as long as models tell their true ceiling.
    Only a process that is killed forgets: the calls then in flight, at their worst case, are not counted.

    Args:
        usd: the most dollars, or None for no limit.
        tokens: the most tokens, prompts and completions together, or None for no limit.
        spent: what earlier sessions have spent (`Ledger.spent`).

    Raises:
        ConfigError: a limit is not a number from 0 up, or earlier calls have no known price.

    Example:
        >>> import asyncio
        >>> budget = Budget(usd=0.05)
        >>> held = asyncio.run(budget.reserve(Amount(1000, 0.04)))
        >>> budget.settle(held, Amount(400, 0.016))
        >>> print(asyncio.run(budget.reserve(Amount(1000, 0.04))))
        budget: budget of $0.05 reached after 1 call: $0.016 spent, and the next call may cost $0.04; ...
    """

    def __init__(self, *, usd: float | None = None, tokens: int | None = None, spent: Spent | None = None) -> None:
        before = spent or Spent()
        _check_limits(usd, tokens, before)
        self.usd = usd
        self.tokens = tokens
        self._calls = before.calls
        self._spent = _Sum(before.tokens, _pico(before.cost))
        self._reserved = _Sum()
        self._limit = _Sum(tokens if tokens is not None else math.inf, _pico(usd) if usd is not None else math.inf)
        self._running = 0
        self._queue: deque[tuple[_Sum, asyncio.Future[bool]]] = deque()

    def worst_case(self, model: Model, request: Request) -> Amount:
        """The most that one attempt at `request` can cost.

        Raises:
            ConfigError: the model's price or the request's length is not bounded, so no limit could hold.
        """
        ceiling = model.ceiling(request)
        if ceiling is None:
            raise ConfigError(
                f"model '{model.name}' puts no bound on the length of its replies; "
                "a budget needs one, so set its max_tokens"
            )
        cost = model.cost(ceiling)
        if self.usd is not None and cost is None:
            raise ConfigError(
                f"model '{model.name}' has no known price; "
                "a budget in dollars needs one, so set its price, or give the budget in tokens"
            )
        return Amount(ceiling.total_tokens, cost or 0.0)

    async def reserve(self, need: Amount) -> Reservation | Failure:
        """A reservation of `need`, as soon as it fits; a failure when it cannot fit any more."""
        admitted = await self._admitted(_Sum.of(need))
        return Reservation(self, need) if admitted else self._refusal(need)

    async def reserve_again(self, need: Amount) -> Failure | None:
        """Hold `need` once more for a call that is running: None when it is held, else why it cannot be."""
        # While it waits, the call does not run: two calls that wait for each other must not wait for ever.
        self._running -= 1
        try:
            admitted = await self._admitted(_Sum.of(need))
        except asyncio.CancelledError:
            self._running += 1
            raise
        if admitted:
            return None
        self._running += 1
        return self._refusal(need)

    def settle(self, reservation: Reservation, actual: Amount) -> None:
        """Count what a call has cost in the place of what was reserved for it; only once."""
        if reservation.settled or reservation.need is None:
            return
        reservation.settled = True
        self._release(_Sum.of(reservation.need).times(1 + reservation.resends))
        self._spent = self._spent.plus(_Sum.of(actual))
        self._calls += 1
        self._admit_waiting()

    def spent(self) -> Amount:
        """What is spent so far, all sessions together, worst cases included."""
        return Amount(int(self._spent.tokens), self._spent.pico / _PICO)

    def reserved(self) -> Amount:
        """What calls in flight may still cost."""
        return Amount(int(self._reserved.tokens), self._reserved.pico / _PICO)

    async def _admitted(self, need: _Sum) -> bool:
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append((need, place))
        self._admit_waiting()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self._release(need)
            self._admit_waiting()
            raise

    def _admit_waiting(self) -> None:
        """Admit or refuse those who wait, in their order, until one has to go on waiting."""
        while self._queue:
            need, place = self._queue[0]
            fits = self._spent.plus(self._reserved).plus(need).within(self._limit)
            if not fits and self._running and not place.done():
                return
            self._queue.popleft()
            if place.done():
                continue
            if fits:
                self._reserved = self._reserved.plus(need)
                self._running += 1
            place.set_result(fits)

    def _release(self, held: _Sum) -> None:
        self._reserved = self._reserved.plus(held.times(-1))
        self._running -= 1

    def _refusal(self, need: Amount) -> Failure:
        calls = f"{self._calls:,} call" + ("" if self._calls == 1 else "s")
        spent = self.spent()
        in_tokens = self.usd is None or (self.tokens is not None and spent.tokens + need.tokens > self.tokens)
        if in_tokens:
            limit, used, more = f"{self.tokens:,} tokens", f"{spent.tokens:,}", f"{need.tokens:,}"
        else:
            limit, used, more = _dollars(self.usd or 0.0), _dollars(spent.cost), _dollars(need.cost)
        words = f"{used} spent, and the next call may cost {more}; a higher budget goes on from here"
        return Failure("budget", f"budget of {limit} reached after {calls}: {words}")


async def cover_resend() -> None:
    """Reserve the worst case of the current call once more; nothing happens outside of a call.

    A transport awaits this before it sends a request again whose last attempt may have been billed without
    a word (a timeout, a reset, a body cut off), and holds no slot or limit meanwhile.

    Raises:
        CallError: the budget does not cover another attempt.

    Example:
        >>> import asyncio
        >>> asyncio.run(cover_resend())
    """
    reservation = current_reservation.get()
    if reservation is not None:
        refused = await reservation.extend()
        if refused is not None:
            raise CallError(refused)


current_reservation: ContextVar[Reservation | None] = ContextVar("current_reservation", default=None)


class _Sum(NamedTuple):
    """Tokens and picodollars; the limit alone may be infinite."""

    tokens: float = 0
    pico: float = 0

    @classmethod
    def of(cls, amount: Amount) -> _Sum:
        return cls(amount.tokens, _pico(amount.cost))

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.tokens + other.tokens, self.pico + other.pico)

    def times(self, count: int) -> _Sum:
        return _Sum(self.tokens * count, self.pico * count)

    def within(self, limit: _Sum) -> bool:
        return self.tokens <= limit.tokens and self.pico <= limit.pico


def _pico(cost: float) -> int:
    return round(cost * _PICO)


def _dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost == round(cost, 2) else f"${cost:.4g}"


def _check_limits(usd: float | None, tokens: int | None, before: Spent) -> None:
    problems = [
        f"a budget of {limit} {unit} is not a limit; expected a finite number from 0 up"
        for limit, unit in ((usd, "dollars"), (tokens, "tokens"))
        if limit is not None and not 0 <= limit < math.inf
    ]
    if usd is not None and before.unpriced:
        problems.append(
            f"{before.unpriced:,} recorded calls have no known price, so a budget in dollars cannot count "
            "them; give the budget in tokens, or start in a new run directory"
        )
    if problems:
        raise ConfigError(problems)
