"""The one place that awaits models: hits, single-flight, budget, durable replies, re-asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from autorubric.errors import LedgerError
from autorubric.llm.billing import bill, priced
from autorubric.llm.budget import Budget
from autorubric.llm.model import Model
from autorubric.llm.records.keys import request_key
from autorubric.llm.records.rows import CallRow
from autorubric.llm.request import Answer, CallError, Failure, Reply, Request, Unreadable
from autorubric.llm.reservations import Reservation, current_reservation
from autorubric.llm.tally import Activity, Tally

T = TypeVar("T")
FollowUp: TypeAlias = Callable[[Request, Reply, Unreadable], Request]

# Failures that every later call of the same model would meet again.
_ENDS_MODEL = frozenset({"auth", "quota", "no_model", "unreachable"})


class Records(Protocol):
    """Where replies are kept and found: a `Ledger`, or `NoRecords` for callers without a run directory."""

    def find(self, key: bytes) -> Reply | None:
        """The reply under `key`, or None."""
        ...

    async def record(self, row: CallRow) -> None:
        """Return when `row` is kept."""
        ...

    def record_late(self, row: CallRow) -> None:
        """Keep `row` without waiting, for a caller that is being cancelled."""
        ...


class Executor:
    """Answers requests: from the ledger where it can, from the model where it must.

    A reply is handed on only after it is durable, so whatever was computed can be computed again for nothing.
    Requests that are alike and asked at the same time make one call.

    Args:
        ledger: where replies are recorded and found.
        budget: the limit on what may be spent, or None.
        max_reasks: how often `ask_for` asks again in one session when a reply cannot be read.
        gate: entered around each call to a model, for a limit on calls in flight.

    Example:
        >>> from autorubric.llm.records.ledger import Ledger
        >>> from autorubric.llm.request import Message
        >>> class Echo:
        ...     name = "local/echo"
        ...     def identity(self):
        ...         return ("echo",)
        ...     async def complete(self, request):
        ...         return Reply(request.messages[-1].content.upper())
        ...     def ceiling(self, request):
        ...         return None
        ...     def cost(self, usage):
        ...         return None
        >>> async def main():
        ...     with Ledger.in_memory() as ledger:
        ...         executor = Executor(ledger)
        ...         request = Request(messages=(Message("user", "met"),), role="judge")
        ...         first, second = [await executor.ask(Echo(), request) for _ in range(2)]
        ...         return first.text, second.text, executor.snapshot()["judge"].paid
        >>> asyncio.run(main())
        ('MET', 'MET', 1)
    """

    def __init__(
        self,
        ledger: Records,
        budget: Budget | None = None,
        *,
        max_reasks: int = 2,
        gate: contextlib.AbstractAsyncContextManager[Any] | None = None,
    ) -> None:
        self.ledger = ledger
        self.budget = budget
        self.max_reasks = max_reasks
        self._gate = gate if gate is not None else contextlib.nullcontext()
        self._flights: dict[bytes, asyncio.Task[Reply | Failure]] = {}
        self._stopped: Failure | None = None
        # By object, not by identity: two models may differ in nothing but their key, and one key be wrong.
        self._ended: dict[int, tuple[Model, Failure]] = {}
        self._tally = Tally()

    async def ask(self, model: Model, request: Request) -> Reply | Failure:
        """The reply to `request`, paid for at most once in the life of the ledger, or why there is none.

        A caller that is cancelled leaves the call running: what is paid for is recorded.

        Raises:
            ConfigError: there is a budget, but no bound on what this request costs.
            LedgerError: the ledger is damaged or cannot be written.
        """
        key = request_key(model, request)
        recorded = self.ledger.find(key)
        if recorded is not None:
            self._tally.hit(request.role)
            return recorded
        flight = self._flights.get(key)
        if flight is not None:
            outcome = await self._landed(flight)
            if isinstance(outcome, Reply):
                self._tally.hit(request.role)
            return outcome
        refusal = self._refusal(model)
        if refusal is not None:
            self._tally.refused(request.role)
            return refusal
        flight = asyncio.create_task(self._call(key, model, request))
        self._flights[key] = flight
        flight.add_done_callback(lambda done: self._land(key, done))
        return await self._landed(flight)

    @overload
    async def ask_for(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], Answer[T] | Unreadable],
        follow_up: FollowUp = ...,
    ) -> Answer[T] | Failure: ...

    @overload
    async def ask_for(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], T | Unreadable],
        follow_up: FollowUp = ...,
    ) -> Answer[T] | Failure: ...

    async def ask_for(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], Any],
        follow_up: FollowUp = lambda request, reply, problem: request,
    ) -> Answer[Any] | Failure:
        """What `read` finds in the reply, asking again a bounded number of times where it finds nothing.

        Unreadable replies of earlier sessions do not count: to run again is to try again, under the next
        re-ask. A failed call is returned as it is; the last unreadable reply becomes a failure and is kept.

        Args:
            model: who is asked.
            request: what is asked first.
            read: the value in a reply.
            follow_up: the request, given the first one, the reply that could not be read, and why; by default
                the first one again.
        """
        asked_now = 0
        asking = request
        while True:
            outcome = await self.ask(model, asking)
            if isinstance(outcome, Failure):
                return outcome
            found = read(outcome)
            if isinstance(found, Answer):
                return found
            if not isinstance(found, Unreadable):
                return Answer(found, outcome)
            asked_now += outcome.fresh
            if outcome.fresh and (not found.again or asked_now > self.max_reasks):
                return Failure(found.kind, found.message, attempts=outcome.attempts, reply=outcome)
            asking = replace(follow_up(request, outcome, found), reask=asking.reask + 1)

    def find(self, model: Model, request: Request) -> Reply | None:
        """The recorded reply to `request`, or None where asking would make a call: for dry runs."""
        return self.ledger.find(request_key(model, request))

    def stop(self, reason: str) -> None:
        """From now on make no new call: asks that are not hits fail with `reason`; calls in flight go on."""
        self._stopped = Failure("stopped", reason)

    def readmit(self) -> None:
        """Ask models again that failed for good (a key, an address): whoever runs for days outlives such failures."""
        self._ended.clear()

    def abandon(self, reason: str) -> None:
        """Stop, and give up the calls in flight: those who wait for them get a failure with `reason`."""
        self.stop(reason)
        for flight in self._flights.values():
            flight.cancel()

    async def drain(self) -> None:
        """Return when no call is in flight any more."""
        while self._flights:
            await asyncio.wait(list(self._flights.values()))

    def snapshot(self) -> dict[str, Activity]:
        """What this session has done so far, by role."""
        return self._tally.snapshot()

    async def _landed(self, flight: asyncio.Task[Reply | Failure]) -> Reply | Failure:
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if self._stopped is None or not flight.cancelled() or (here is not None and here.cancelling()):
                raise
            return self._stopped

    def _refusal(self, model: Model) -> Failure | None:
        if self._stopped is not None:
            return self._stopped
        ended = self._ended.get(id(model))
        return None if ended is None else ended[1]

    def _land(self, key: bytes, flight: asyncio.Task[Reply | Failure]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            # All who waited may be gone; asking for the exception keeps the loop from complaining then.
            flight.exception()

    async def _call(self, key: bytes, model: Model, request: Request) -> Reply | Failure:
        async with self._gate:
            # The gate may have been waited for; the budget comes inside it, so that whoever holds a
            # reservation is on its way and never waits for one who waits for the budget.
            reservation = self._refusal(model) or await self._reserve(model, request)
            if isinstance(reservation, Failure):
                self._tally.refused(request.role)
                return reservation
            self._tally.started(request.role)
            try:
                outcome = await self._complete(model, request, reservation)
            except BaseException as error:
                ended_by = Failure("stopped", f"ended in flight by {type(error).__name__}")
                row = self._account(key, model, request, ended_by, reservation)
                with contextlib.suppress(LedgerError):
                    self.ledger.record_late(row)
                raise
            row = self._account(key, model, request, outcome, reservation)
        await self.ledger.record(row)
        return outcome

    async def _reserve(self, model: Model, request: Request) -> Reservation | Failure:
        if self.budget is None:
            return Reservation()
        return await self.budget.reserve_for(model, request)

    async def _complete(self, model: Model, request: Request, reservation: Reservation) -> Reply | Failure:
        current_reservation.set(reservation)
        try:
            return priced(model, await model.complete(request))
        except CallError as error:
            if error.failure.kind in _ENDS_MODEL:
                self._ended[id(model)] = (model, error.failure)
            return priced(model, error.failure)

    def _account(
        self, key: bytes, model: Model, request: Request, outcome: Reply | Failure, reservation: Reservation
    ) -> CallRow:
        """Count a call out and settle it; its row for the ledger."""
        charged = bill(model, request, outcome, reservation)
        self._tally.ended(request.role, outcome, charged)
        if self.budget is not None:
            self.budget.settle(reservation, charged.most, charged.usage)
        row = CallRow.of(key, model.name, request, outcome)
        if charged.token_bound is None:
            return row
        return replace(row, cost_bound=charged.cost_bound, token_bound=charged.token_bound)
