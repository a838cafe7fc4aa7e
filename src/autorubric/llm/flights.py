"""The calls under way, by key: each runs in its own task or its caller's, and equal requests share it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.llm.request import Failure, Reply

if TYPE_CHECKING:
    from autorubric.llm.billing import Reservation

Outcome: TypeAlias = Reply | Failure


@dataclass(slots=True, eq=False)
class Flight:
    """A call that is under way.

    Attributes:
        task: makes the call.
        shared: resolves to its outcome, or to None if the call was cancelled; created for the first waiter.
        abandoned: whether `Flights.abandon` has cancelled the task.
        reservation: of the call; None before there is one.
    """

    task: asyncio.Task[Any]
    shared: asyncio.Future[Outcome | None] | None = None
    abandoned: bool = False
    reservation: Reservation | None = None

    def share(self) -> asyncio.Future[Outcome | None]:
        """`shared`, for one more waiter, who has to shield it."""
        if self.shared is None:
            self.shared = self.task.get_loop().create_future()
        return self.shared

    def settle(self, outcome: Outcome | BaseException | None) -> None:
        """Tell those who wait how the call ended."""
        if self.shared is None or self.shared.done():
            return
        if isinstance(outcome, BaseException):
            self.shared.set_exception(outcome)
            # All who waited may be gone; retrieving the exception keeps the loop from logging it.
            self.shared.exception()
        else:
            self.shared.set_result(outcome)


class Flights:
    """Calls under way, at most one for each key.

    Args:
        stopped: returns why calls are abandoned; None while they are not.
        detached: a call goes on when its caller is cancelled; otherwise it runs in the caller's task.

    Attributes:
        open: the calls by key.
        run: makes a call, the only one for its key until it ends, and returns its outcome.
    """

    def __init__(self, stopped: Callable[[], Failure | None], *, detached: bool) -> None:
        self._stopped = stopped
        self.open: dict[bytes, Flight] = {}
        # An alias: a coroutine that only awaits another one is resumed at each of its steps.
        self.run = self._run_apart if detached else self._run_here

    async def join(self, key: bytes) -> Outcome | None:
        """Return the outcome of the call under way for `key`; None if there is none, or it was cancelled."""
        while (flight := self.open.get(key)) is not None:
            outcome = await asyncio.shield(flight.share())
            if outcome is not None:
                return outcome
        return None

    async def _run_apart(self, key: bytes, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        task = asyncio.create_task(call)
        flight = self.open[key] = Flight(task)
        task.add_done_callback(lambda done: self._end(key, done))
        outcome = await asyncio.shield(flight.share())
        if outcome is None:
            raise asyncio.CancelledError
        return outcome

    def abandon(self, *, unsent: bool = False) -> None:
        """Cancel all calls, or only those that wait to be sent; those who wait for them get the failure `stopped`."""
        for flight in self.open.values():
            call = flight.reservation  # without a watch once its outcome is being recorded
            waits = call is None or (call.watch is not None and (call.waits_to_retry or not call.in_flight))
            if not flight.abandoned and (waits or not unsent):
                flight.abandoned = True
                flight.task.cancel()

    async def drain(self) -> None:
        """Return once no call is under way."""
        while self.open:
            await asyncio.wait([flight.share() for flight in self.open.values()])

    async def _run_here(self, key: bytes, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        here = asyncio.current_task()
        assert here is not None
        flight = self.open[key] = Flight(here)
        ended: Outcome | BaseException | None = None
        try:
            ended = await call
            return ended
        except asyncio.CancelledError:
            stopped = self._stopped() if flight.abandoned else None
            if stopped is None or here.uncancel():  # the caller itself is cancelled
                raise
            ended = stopped
            return stopped
        except BaseException as error:
            ended = error
            raise
        finally:
            del self.open[key]
            if flight.shared is not None:
                flight.settle(ended)

    def _end(self, key: bytes, task: asyncio.Task[Outcome]) -> None:
        flight = self.open.pop(key)
        flight.settle(self._stopped() if task.cancelled() else task.exception() or task.result())
