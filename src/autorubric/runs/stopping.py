"""Stopping a run without losing a reply that was paid for."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autorubric.background import on_interrupt
from autorubric.llm.batches.setting import DETACHED, is_left_open
from autorubric.llm.failure_groups import HIGHER, find_advice
from autorubric.llm.sharing import Amount, sharing
from autorubric.runs.progress import Progress, RunState, format_outages, reported

if TYPE_CHECKING:
    from autorubric.llm.billing import Activity
    from autorubric.llm.executor import Executor
    from autorubric.llm.request import Failure

_WRONG_INPUT = frozenset({"auth", "no_model", "unreachable"})
GRACE_SECONDS = 10.0
"""Seconds that requests in flight may take to end after a stop."""

_GRACE = f"requests in flight have {GRACE_SECONDS:.0f} s to finish, and their replies are saved"
STOPPING = f"\nstopping: {_GRACE}; press Ctrl-C again to exit now"
_CANCELLED = f"the run was cancelled: {_GRACE}; cancel it again to end it now"

_LOG = logging.getLogger("autorubric.runs")


def build_resume_command(stopped: str, again: str) -> tuple[str, str]:
    """Return the change that a run needs to resume, such as a higher budget, and the command with that change.

    Args:
        stopped: why the run ended.
        again: the command of the run; empty if it was started from Python.

    Example:
        >>> stopped = "budget of 900 tokens reached after 1 call: ...; resume with a budget of 1,800 tokens"
        >>> build_resume_command(stopped, "autorubric grade a.json --budget-tokens 900 -o run")
        (' a budget of 1,800 tokens', 'autorubric grade a.json -o run --budget-tokens 1800')
        >>> build_resume_command("HTTP 404: leave out --batch", "autorubric grade a.json --batch 9 -o run")
        ('out --batch', 'autorubric grade a.json -o run')
    """
    if "leave out --batch" in stopped:
        return "out --batch", re.sub(r" --batch(?:[ =]\d+)?(?= |$)", "", again)
    higher = stopped.partition(HIGHER)[2]
    if not higher:
        return "", again
    amount, unit = higher.split()[0].replace(",", ""), "usd" if higher.startswith("$") else "tokens"
    without = re.sub(rf" --budget-{unit}[ =]\S+", "", again)
    # Without a command, it was started from Python.
    return f" a budget of {higher}", again and f"{without} --budget-{unit} {amount.removeprefix('$')}"


def strip_advice(stopped: str) -> str:
    """Return the reason why a run ended, without the advice to raise the budget.

    Example:
        >>> strip_advice("budget of $1.00 reached, and the next call may cost $2; resume with a budget of $3.00")
        'budget of $1.00 reached, and the next call may cost $2'
    """
    return stopped.partition(HIGHER)[0]


@dataclass(kw_only=True)
class StoppableRun(ABC):
    """A run of many requests that can be stopped by the user, a budget or a refused key.

    Attributes:
        executor: makes the requests; None if the run makes none.
        stopped: why the run stopped; None if it did not.
        interrupted: whether the run was interrupted.
        refused: whether a wrong key, model name or address stopped it.
        advice: what to do about the failure that stopped the run.
        needed: the worst-case cost of a call in another process of the run that the budget did not cover.
    """

    executor: Executor | None = None
    stopped: str | None = None
    interrupted: bool = False
    refused: bool = False
    advice: str = ""
    needed: Amount = Amount()  # noqa: RUF009 - immutable

    @property
    def activity(self) -> list[Activity]:
        """What each role has done in this session."""
        return [] if self.executor is None else list(self.executor.snapshot().values())

    @property
    def has_paid(self) -> bool:
        """Whether a call of this session was paid for."""
        return any(role.paid for role in self.activity)

    def interrupt(self) -> None:
        """Stop at the user's request."""
        self.interrupted = True
        self.stop("interrupted")

    def interrupt_gracefully(self) -> None:
        """Stop at the user's request, and give requests in flight `GRACE_SECONDS` to finish."""
        self.interrupt()
        if self.executor is not None:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self.executor.abandon, "interrupted")

    def stop(self, reason: str) -> None:
        """Start no further record and send no further call; calls in flight finish."""
        self.stopped = self.stopped or reason
        if self.executor is not None:
            self.executor.stop(reason)

    def end_with(self, failure: Failure) -> None:
        """Stop if no further call can succeed after this failure."""
        failure = failure.end or failure
        if failure.ends_run and (failure.kind != "stopped" or is_left_open(failure)):
            self.refused |= failure.kind in _WRONG_INPUT
            self.advice = self.advice or find_advice(failure.kind, failure.message)
            self.stop(failure.message)

    async def run_to_end(self, progress: Progress | None, stop: Stop | None, state: Callable[[], RunState]) -> None:
        """Execute the run. If an error ends it early, no call is left running in the background.

        Args:
            progress: called with the state of the run until it ends.
            stop: stops it, as Ctrl-C does.
            state: returns its state.
        """
        from autorubric.llm.executor import abandon_on_error

        if self.executor is not None and self.executor.trials.stop is not None:
            self.executor.trials.stop = self.end_with  # also where nobody reads the failure
        if self.executor is not None and self.executor.budget is not None:
            self.executor.budget.is_estimated = True
        with (stop or Stop()).bound(self):
            async with reported(progress, lambda: self._add_outages(state())), abandon_on_error(self.executor):
                await self._execute_or_stop()
                if self.interrupted and self.executor is not None:
                    await self.executor.drain()  # totals include the calls that were abandoned
                self.note_budget(state())

    async def _execute_or_stop(self) -> None:
        """Execute the run. If this task is cancelled, stop as at Ctrl-C; if it is cancelled again, end at once."""
        work = asyncio.create_task(self._execute_to_exit())
        try:
            exiting = await asyncio.shield(work)
        except asyncio.CancelledError:
            if self.interrupted or work.done():
                work.cancel()
            else:
                if any(role.in_flight for role in self.activity):
                    _LOG.warning(_CANCELLED)
                self.interrupt_gracefully()
            await asyncio.gather(work, return_exceptions=True)  # passes on a second cancellation
            raise
        if exiting is not None:
            raise exiting

    async def _execute_to_exit(self) -> BaseException | None:
        """Execute the run; return an exception that ends the process, since a task that raises it ends the loop."""
        try:
            await self.execute()
        except (SystemExit, KeyboardInterrupt) as error:
            return error
        return None

    def _add_outages(self, state: RunState) -> RunState:
        outages = self.executor and self.executor.trials.outages
        return replace(state, outage=format_outages(outages)) if outages else state

    def note_budget(self, state: RunState) -> None:
        """If the budget does not cover the next call, say which one should be enough for what is left to do."""
        if self.executor is None or self.executor.budget is None:
            return
        if sharing.get() is not None:  # one of several processes does not know what is left
            return
        budget = self.executor.budget
        need, why = max(self.needed, budget.needed), self.stopped or ""
        is_reached = why.startswith("budget of ")
        done = min((stage.done for stage in state.stages), default=state.finished)
        left = state.rows - done
        if not left or why.startswith(DETACHED) or (not is_reached and budget.can_cover(need)):
            return
        if done:
            worst = self.executor.ledger.sum_worst_cases()
            measured = budget.spent.minus(Amount.from_dollars(worst.tokens, worst.cost)).clip()
            rest, basis = measured.times(left).split(done), f" (estimated: {done:,} of {state.rows:,} are done)"
        else:
            # With room for only one more call, each session would make one or two and stop again.
            rest = Amount(*map(max, Amount.from_dollars(budget.tokens or 0, budget.usd or 0.0), need))
            basis = f" (a guess: none of {state.rows:,} is done)"
        reached = budget.explain_refusal(need, rest, basis)
        self.stopped = why + reached[len(strip_advice(reached)) :] if why and not is_reached else reached

    @abstractmethod
    async def execute(self) -> None:
        """Execute the run."""


class Stop:
    """Stops a run cleanly: pass it as `stop=` and call it, from any thread.

    Requests in flight have ten seconds to finish; all replies are recorded, and the same call resumes the run.

    Example:
        >>> stop = Stop()
        >>> stop()
        >>> stop.requested
        True
    """

    requested = False
    _told: tuple[asyncio.AbstractEventLoop, Callable[[], object]] | None = None
    _hearing: Callable[[Callable[[], object]], AbstractContextManager[None]] = staticmethod(on_interrupt)

    def __call__(self) -> None:
        """Stop the run; a run that has not started yet ends immediately."""
        self.requested = True
        if self._told is not None:
            loop, heard = self._told
            loop.call_soon_threadsafe(heard)

    @contextmanager
    def bound(self, run: StoppableRun) -> Iterator[None]:
        """Within the `with` block, a call of this object or Ctrl-C stops `run`."""
        with self.heard_by(run.interrupt_gracefully), self._hearing(self._announce_and_stop):
            yield

    @contextmanager
    def heard_by(self, heard: Callable[[], object]) -> Iterator[None]:
        """Within the `with` block, a call of this object calls `heard` in the running event loop."""
        self._told = (asyncio.get_running_loop(), heard)
        if self.requested:
            self()
        try:
            yield
        finally:
            self._told = None

    def _announce_and_stop(self) -> None:
        """Stop after a Ctrl-C that a synchronous call in a notebook passed on."""
        print(STOPPING, file=sys.stderr)
        self()
