"""The only place that awaits models: hits, single-flight, budget, durable replies, re-asks."""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar

from autorubric.errors import LedgerError, find_first_cause
from autorubric.llm.batches.setting import batching, open_batch_queue
from autorubric.llm.billing import Activity, Reservation, Tally, bill, current_reservation
from autorubric.llm.budget import Budget
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.llm.flights import Flights
from autorubric.llm.limits import ReplyLimits, find_limit
from autorubric.llm.records.call_rows import CallRow, compute_key
from autorubric.llm.records.stores import Records
from autorubric.llm.request import Answer, CallError, Failure, Model, Reply, Request, Unreadable
from autorubric.llm.trials import ModelTrial, Standing, Trials, build_unread_failure

T = TypeVar("T")
FollowUp: TypeAlias = Callable[[Request, Reply, Unreadable], Request]

_CUT_OFF = Unreadable("truncated", "the reply was cut off")
_KILLED = [Failure("network", "the process was killed while the call was in flight", sent=s) for s in (False, True)]


class Executor:
    """Answers requests: from the ledger if it can, otherwise from the model.

    A reply is returned only once it is durable, so whatever is computed from it can be recomputed without new calls.
    Equal requests at the same time make one call.

    Args:
        ledger: records and finds replies.
        budget: the limit on spending, or None.
        max_reasks: how often `ask_for` re-asks in one session after an unreadable reply.
        detached: let a call go on when its caller is cancelled. Otherwise each call runs in its caller's task, which
            is cheaper and suits runs, whose tasks are all cancelled together.

    Attributes:
        trials: the models that are no longer called; one of them stops an executor that is not detached.

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
        >>> import asyncio
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
        self, ledger: Records, budget: Budget | None = None, *, max_reasks: int = 2, detached: bool = True
    ) -> None:
        self.ledger = ledger
        self.budget = budget
        self.max_reasks = max_reasks
        self._stopped: Failure | None = None
        self._replayed: dict[bytes, Failure] = {}
        self._never_sent: Failure | None = None
        self._flights = Flights(lambda: self._stopped, detached=detached)
        self._tally = Tally(Activity)
        self._limits = ReplyLimits(ledger)
        how = batching.get()
        end = None if detached else lambda failure: self.stop(failure.message)
        self.trials = Trials(end, in_batches=how is not None)
        self._batch_queue = None if how is None else open_batch_queue(how, ledger, budget, self._tally)
        if budget is not None:
            budget.keep_in(ledger)

    async def ask(self, model: Model, request: Request) -> Reply | Failure:
        """Return the reply to `request`, paid for at most once in the life of the ledger, or why there is none.

        If the caller of a detached call is cancelled, the call goes on: what is paid for is recorded.

        Raises:
            ConfigError: there is a budget, but no bound on what this request costs.
            LedgerError: the ledger is damaged or cannot be written.
        """
        key = compute_key(model, request)
        recorded = self.ledger.find(key)
        if recorded is None and self._batch_queue is not None and not self._batch_queue.is_ready:
            left_open = await self._batch_queue.resume()
            recorded = self.ledger.find(key)
            if recorded is None and left_open is not None:
                return left_open
        if recorded is not None:
            self._tally[request.role].hits += 1
            return recorded
        shared = await self._flights.join(key) if key in self._flights.open else None
        if shared is not None:
            if isinstance(shared, Reply):
                self._tally[request.role].hits += 1
            return shared
        if (refusal := self._find_stop(model)) is not None:
            self._tally[request.role].refused += 1
            return self._replayed.get(key, refusal)
        if request.max_tokens is not None:
            self._limits.note_sent(model, request)
        call = self._call if self.ledger.claims is None else self._call_with_claim
        return await self._flights.run(key, call(key, model, request))

    async def ask_for(
        self,
        model: Model,
        request: Request,
        read: Callable[[Reply], Answer[T] | Unreadable],
        follow_up: FollowUp = lambda request, reply, problem: request,
    ) -> Answer[T] | Failure:
        """Return the value that `read` finds in the reply, after up to `max_reasks` re-asks.

        A request whose reply was truncated is repeated with a larger limit, up to the model's ceiling, and never
        twice with the same one. Other unreadable replies of earlier sessions do not count: running again tries
        again, as the next re-ask. A failed call is returned as it is; the last unreadable reply becomes a failure
        that keeps it.

        Args:
            model: answers the request.
            request: the first request.
            read: finds the answer in a reply, or says why there is none.
            follow_up: builds the re-ask from the first request, the unreadable reply and the reason.
        """
        asking = self._limits.apply_limit(model, request)
        standings, whose = self.trials.standings, (id(model), request.role)
        standing = standings.get(whose) or standings.setdefault(whose, Standing(model))
        trial = ModelTrial(self.trials, standing, request)
        try:
            return await self._ask_until_read(trial, asking, read, follow_up)
        finally:
            if trial.has_turn:
                standing.turns.release()

    async def _ask_until_read(
        self, trial: ModelTrial, asking: Request, read: Callable[[Reply], Answer[T] | Unreadable], follow_up: FollowUp
    ) -> Answer[T] | Failure:
        model, standing = trial.standing.model, trial.standing
        while True:
            if standing.doubted:
                await trial.wait_for_turn()
            outcome = await self.ask(model, asking)
            if isinstance(outcome, Failure):
                is_no_call = outcome is self._never_sent or outcome.kind in ("unusable", "no_reply")
                return (trial.unread if is_no_call else None) or trial.note_lost(outcome, self.ledger)
            found = read(outcome)
            if not isinstance(found, Unreadable):
                if not standing.usable:
                    trial.note_usable(outcome)
                if asking.max_tokens is not None:
                    self._limits.note_worked(model, asking)
                return found
            trial.note_unusable(outcome, build_unread_failure(found, outcome))
            again = replace(follow_up(trial.request, outcome, found), reask=asking.reask + 1)
            following = self._find_following(trial, asking, outcome, found, again)
            if isinstance(following, Failure):
                return trial.note_lost(following, self.ledger)
            asking = following

    def _find_following(
        self, trial: ModelTrial, asked: Request, reply: Reply, problem: Unreadable, again: Request
    ) -> Request | Failure:
        """Return the next request after an unreadable reply, or why there is none."""
        model = trial.standing.model
        if problem.kind != "truncated":
            if reply.fresh and (not problem.again or trial.asked > self.max_reasks):
                return trial.unread or build_unread_failure(problem, reply)
            return self._limits.apply_limit(model, again)
        if reply.limit is None and self.ledger.find(compute_key(model, again)) is not None:
            return again  # an earlier version repeated the request with the same limit
        if not problem.again:
            return build_unread_failure(problem, reply)
        return self._limits.raise_limit(model, asked, reply, problem)

    def find(self, model: Model, request: Request) -> Reply | None:
        """Return the recorded reply to `request`, or None if `ask` would make a call: for dry runs.

        Of several with different limits, the last; it may be truncated.
        """
        placed = self._limits.apply_limit(model, request)
        found = self.ledger.find(compute_key(model, placed))
        while found is not None and found.finish_reason == "length":
            longer = self._limits.raise_limit(model, placed, found, _CUT_OFF)
            reply = None if isinstance(longer, Failure) else self.ledger.find(compute_key(model, longer))
            if reply is None or isinstance(longer, Failure):
                return found
            placed, found = longer, reply
        return found

    async def send_ahead(self, requests: AsyncIterator[tuple[Model, Request]]) -> None:
        """Send requests in batches, if this executor does, so that `ask` finds their replies in the ledger.

        Requests that are recorded, not covered by the budget, or to models without batches are left to `ask`.
        """
        if (queue := self._batch_queue) is None or (not queue.is_ready and await queue.resume() is not None):
            return
        from autorubric.llm.batches.model import BatchModel

        ahead = queue.open_early_sender()
        async for model, request in requests:
            placed = self._limits.apply_limit(model, request)
            key = compute_key(model, placed)
            if ahead.is_full or self._find_stop(model) is not None:
                break
            if isinstance(model, BatchModel) and self.ledger.find(key) is None:
                if placed.max_tokens is not None:
                    self._limits.note_sent(model, placed)
                await ahead.add(key, model, placed)
        await queue.send_ahead(ahead)
        for model, failure in ahead.refusals:
            self.trials.note_failure(model, failure, ahead=True)

    def stop(self, reason: str) -> None:
        """Make no new calls: requests without a recorded reply fail with `reason`; calls in flight go on."""
        self._stopped = Failure("stopped", reason)
        if self._batch_queue is not None:
            self._batch_queue.leave(reason)
        else:
            self._flights.abandon(unsent=True)

    def replay(self, reason: str, failures: Iterable[CallRow]) -> None:
        """Make no new calls: each request ends as it did when it was last sent, or with `reason` if it never was."""
        self.stop(reason)
        self._never_sent = self._stopped
        self._replayed = {call.key: call.failure for call in failures if call.failure and not call.failure.ends_run}

    def readmit(self) -> None:
        """Send again, as a new session does, what failed for good (wrong key, address) or was unreadable."""
        self.trials.readmit()
        self.ledger.begin_session()

    def abandon(self, reason: str) -> None:
        """Stop, and cancel the calls in flight: their callers get a failure with `reason`."""
        self.stop(reason)
        self._flights.abandon()

    async def drain(self) -> None:
        """Return once no call is in flight and the last ones are recorded, if the ledger can be written."""
        await self._flights.drain()
        with suppress(LedgerError):
            self.ledger.flush()

    def find_refusal(self, models: Iterable[Model]) -> str | None:
        """Return why one of these models, or the budget, refused the last call; None if it was made."""
        refused = [self.trials.refusing[id(model)][1] for model in models if id(model) in self.trials.refusing]
        if self.budget is not None and self.budget.refused is not None:
            refused.append(self.budget.refused)
        return refused[0].message if refused else None

    def snapshot(self) -> dict[str, Activity]:
        """Return the activity of this session so far, by role."""
        return {role: replace(activity) for role, activity in self._tally.items()}

    def _find_stop(self, model: Model) -> Failure | None:
        left = self._batch_queue and self._batch_queue.left
        return self._stopped or left or self.trials.ended.get(id(model))

    async def _call_with_claim(self, key: bytes, model: Model, request: Request) -> Reply | Failure:
        """Return the reply that another executor has recorded in the meantime, or the outcome of the call."""
        assert self.ledger.claims is not None
        async with self.ledger.claims.hold_key(key, lambda: self._find_stop(model) is not None):
            recorded = self.ledger.find(key)
            if recorded is not None:
                self._tally[request.role].hits += 1
                return recorded
            return await self._call(key, model, request)

    async def _call(self, key: bytes, model: Model, request: Request) -> Reply | Failure:
        """Return the outcome of a call, once it is settled and on the disk; a failure if the call is not made."""
        # Check again, as the call may have waited for its claim or its task. Reserve budget only now: a call with a
        # reservation is running, and never waits for one that waits for the budget.
        reservation = self._find_stop(model) or (
            await self.budget.reserve_for(model, request) if self.budget is not None else Reservation()
        )
        if isinstance(reservation, Failure):
            self._tally[request.role].refused += 1
            return reservation
        reservation.watch = lambda sent: self._note_departure(key, model, request, reservation, sent)
        self._flights.open[key].reservation = reservation
        reservation.activity, reservation.batch_queue = self._tally[request.role], self._batch_queue
        reservation.outages = self.trials.outages
        reservation.activity.open += 1
        before = current_reservation.set(reservation)
        outcome: Reply | Failure
        try:
            outcome = await model.complete(request)
            if self.trials.refusing:
                self.trials.note_reply(model)
        except CallError as error:
            outcome = error.failure
        except BaseException as error:
            self._note_ended(key, model, request, reservation, error)
            raise
        finally:
            reservation.watch = None  # it refers to the reservation: the cycle would keep the request in memory
            current_reservation.reset(before)
        if isinstance(outcome, Failure):
            self.trials.note_failure(model, outcome)
        if isinstance(outcome, Failure) and outcome.ends_run and _is_unsent(outcome, reservation):
            self._withdraw(request, reservation)
            return outcome
        row = self._account(key, model, request, outcome, reservation)
        if not reservation.recorded:
            await self.ledger.queue(row)
            self.ledger.in_flight.remove(key)
        return row.outcome

    def _note_ended(
        self, key: bytes, model: Model, request: Request, reservation: Reservation, error: BaseException
    ) -> None:
        """Account for a cancelled call: only an attempt in flight may still be billed."""
        if reservation.waits_to_be_sent:
            self._withdraw(request, reservation)
            return
        why = "interrupted" if isinstance(error, CancelledError) else f"ended by {type(error).__name__}"
        ended_by = Failure("stopped", why, sent=reservation.in_flight)
        row = self._account(key, model, request, ended_by, reservation)
        self._tally[request.role].abandoned += ended_by.sent and not reservation.waits_to_retry
        with suppress(LedgerError):
            # A failure to write surfaces at the next call.
            self.ledger.queue(row).add_done_callback(lambda done: done.exception())
            self.ledger.in_flight.remove(key)

    def _withdraw(self, request: Request, reservation: Reservation) -> None:
        """Undo a call that was refused before anything was sent."""
        self._tally[request.role].count_withdrawn()
        if self.budget is not None:
            self.budget.give_back(reservation)

    def _account(
        self, key: bytes, model: Model, request: Request, outcome: Reply | Failure, reservation: Reservation
    ) -> CallRow:
        """Count a call as ended and settle it; returns its row for the ledger, in which a reply has its price."""
        if isinstance(outcome, Reply) and outcome.finish_reason == "length" and outcome.limit is None:
            counted = outcome.usage.completion_tokens if outcome.usage else 0
            outcome = replace(outcome, limit=request.max_tokens or find_limit(model).own or counted)
        charged = bill(model, request, outcome, reservation)
        reply = outcome.reply if isinstance(outcome, Failure) else outcome
        if reply is not None and reply.cost != charged.cost:
            reply = replace(reply, cost=charged.cost)
            outcome = replace(outcome, reply=reply) if isinstance(outcome, Failure) else reply
        self._tally[request.role].count_ended(outcome, charged)
        if self.budget is not None:
            self.budget.settle(reservation, charged.most, charged.usage)
        return CallRow.build(key, model, request, outcome, charged)

    def _note_departure(
        self, key: bytes, model: Model, request: Request, reservation: Reservation, sent: bool
    ) -> None:
        """Log what a call in flight may have cost, for the budget of the next session after a kill.

        Raises:
            LedgerError: the reply could not be recorded.
        """
        if sent:
            self.ledger.check_writable()
        if not self.ledger.in_flight.is_open:
            return
        killed = _KILLED[sent]
        charged = bill(model, request, killed, reservation)
        if charged.token_bound is None:
            self.ledger.in_flight.remove(key)
        else:
            self.ledger.in_flight.put(CallRow.build(key, model, request, killed, charged))


def _is_unsent(outcome: Failure, reservation: Reservation) -> bool:
    """Return whether a call ended before anything was sent, because its model or the run refuses all calls."""
    if outcome.kind in NOT_MADE:
        return not outcome.sent
    return reservation.waits_to_be_sent and not (outcome.attempts or reservation.resends)


@asynccontextmanager
async def abandon_on_error(executor: Executor | None) -> AsyncIterator[None]:
    """Await the calls in flight if the block raises, and cancel them if it is cancelled.

    The error itself is raised, not the exception group of the tasks.
    """
    try:
        yield
    except BaseException as error:
        if executor is not None:
            (executor.stop if isinstance(error, Exception) else executor.abandon)("the run was broken off")
            await executor.drain()
        raise find_first_cause(error) from None
