"""Where requests wait for their batch: gathered into waves, sent, and answered from the ledger."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.errors import pluralize
from autorubric.llm.batches.batch_store import BatchRecord, BatchStore, check_collectable, open_batches
from autorubric.llm.batches.carrier import SLOWEST, Carrier, EarlySender
from autorubric.llm.batches.collecting import Collection, Refused, ResultsGone, Uncollected, WaitingRequest
from autorubric.llm.batches.link import LinkFault
from autorubric.llm.batches.setting import CANCELLED, DETACHED, Batching
from autorubric.llm.billing import Reservation, Tally
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.retry import Backoff, Fault
from autorubric.llm.records.call_rows import compute_key
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import CallError, Failure, Reply, Request

if TYPE_CHECKING:
    from autorubric.llm.batches.model import BatchModel
    from autorubric.llm.budget import Budget

_HANDFUL = 10
_ENOUGH_FIT = 4  # batches in a row, after which the next one is larger: others may have left the queue
_MOST_REFUSED = 12  # of a single request in a row
_QUIET_LEAST, _QUIET_MOST = 0.2, 2.0

_NEVER_CREATED = Fault("server", "the provider never created the batch", again=True)


class BatchQueue:
    """The requests of one executor that wait for a batch, and its open batches.

    A wave is sent when no request has come for a while and no batch is open, because then nothing else can
    progress; a full batch is sent at once. Repeated requests, if they are few, are sent alone.

    Args:
        ledger: takes the results.
        folder: of the ledger; the batches are kept in it.
        budget: holds the worst case of open batches of earlier sessions.
        how: size, intervals and whether to leave.
        tally: counts replies of batches that nobody waits for.

    Attributes:
        left: why no more requests are answered; None while they are.
    """

    def __init__(self, ledger: Ledger, folder: Path, budget: Budget | None, how: Batching, tally: Tally) -> None:
        self._carrier = Carrier(BatchStore(folder), ledger, how)
        self._how, self._tally = how, tally
        self._before = open_batches(folder)
        self._holds = {record.id: budget.hold(record.most) for record in self._before if budget}
        self._budget = budget
        self._quiet = min(_QUIET_MOST, max(_QUIET_LEAST, how.poll / 10))
        self._waiting: list[WaitingRequest] = []
        self._sent: dict[bytes, WaitingRequest] = {}
        self._open: dict[asyncio.Task[None], Sequence[WaitingRequest]] = {}
        self._resuming: asyncio.Task[Failure | None] | None = None
        self._clerk: asyncio.Task[None] | None = None
        self._last = 0.0
        self.left: Failure | None = None
        self._ahead: EarlySender | None = None
        self._met: dict[bytes, tuple[Terms, Fault]] = {}  # of requests in batches without a waiting caller
        self._requests_sent = self._sent_alone = 0
        self._gone: list[str] = []  # about batches that were given up
        self._most_of: dict[int, int] = {}  # requests in a batch of a model, where the provider refused more
        self._fits: Counter[int] = Counter()  # batches accepted since then; below 0: single requests refused
        if how.cancel and not self._before:
            self.leave(f"{CANCELLED}none is open")

    @property
    def is_ready(self) -> bool:
        """Whether all batches of earlier sessions are collected."""
        return not self._before

    async def resume(self) -> Failure | None:
        """Collect the open batches of earlier sessions; a failure if the run cannot go on without them."""
        if self.left is not None:
            return self.left
        if self._resuming is None:
            self._resuming = asyncio.create_task(self._collect_before())
        try:
            return await asyncio.shield(self._resuming)
        except asyncio.CancelledError:
            if not self._has_left():
                raise
            return self.left

    def open_early_sender(self) -> EarlySender:
        """Return a sender of requests whose replies will be looked up in the ledger."""
        self._ahead = EarlySender(self._carrier, self._budget, self._find_most, self._report, self._tally, self._met)
        return self._ahead

    async def send_ahead(self, ahead: EarlySender) -> None:
        """Record the results of requests in the ledger; leave if the provider still has them."""
        try:
            await ahead.send_and_collect()
        except Uncollected as problem:
            self.leave(str(problem))
        except LinkFault as problem:
            self.leave(f"{DETACHED}{problem}; the same command continues")
        except asyncio.CancelledError:
            if not self._has_left():
                raise
        self._requests_sent += ahead.sent
        if self._how.detach and ahead.sent:
            self._leave_open()

    def put(
        self, model: BatchModel, request: Request, reservation: Reservation, *, again: bool
    ) -> asyncio.Future[Reply | Refused | None]:
        """Return the outcome of a request: a reply, a fault, or None if it is to be sent alone."""
        loop = asyncio.get_running_loop()
        again = again or bool(request.reask or request.cut_off)
        call = WaitingRequest(compute_key(model, request), model, request, reservation, again, loop.create_future())
        met = self._met.pop(call.key, None)
        if met is not None:
            call.terms = met[0]
            call.resolve(met[1])
        elif self.left is not None:
            call.fail(CallError(self.left))
        else:
            self._last = loop.time()
            self._queue([call])
        return call.done

    def leave(self, reason: str) -> None:
        """Answer nothing more; open batches stay open, and the next run collects them."""
        if self.left is not None:
            return
        self.left = Failure("stopped", reason, sent=False)
        tasks, holds = ([], []) if self._ahead is None else (self._ahead.tasks, self._ahead.holds)
        for task in (*self._open, *tasks, self._clerk, self._resuming):
            if task is not None and not task.done() and task is not asyncio.current_task():
                task.cancel()
        # Nothing more is sent, so no call has to wait for what open batches leave of the budget.
        for hold in (*self._holds.values(), *holds):
            if hold.budget is not None:
                hold.budget.give_back(hold)
        for call in (*self._waiting, *self._sent.values(), *itertools.chain(*self._open.values())):
            call.fail(CallError(self.left))
        self._waiting.clear()
        self._sent.clear()

    def _has_left(self) -> bool:
        """Return whether an awaited task was cancelled because the queue has left, and not because the caller was."""
        here = asyncio.current_task()
        return self.left is not None and not (here is not None and here.cancelling())

    @asynccontextmanager
    async def send_alone(self) -> AsyncIterator[None]:
        """Send no wave while a request is sent alone in the block, as it may lead to further requests."""
        self._sent_alone += 1
        try:
            yield
        finally:
            self._sent_alone -= 1

    def _queue(self, ones: Sequence[WaitingRequest]) -> None:
        self._waiting += ones
        if ones and (self._clerk is None or self._clerk.done()):
            self._clerk = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(self._quiet / 4)
            idle = not self._open and not self._sent_alone and loop.time() - self._last >= self._quiet
            for model in dict.fromkeys(call.model for call in self._waiting):
                of_model = [call for call in self._waiting if call.model is model]
                most, few = self._find_most(model), self._are_few(of_model)
                # Where the provider's queue was full, one batch is sent each time that all have ended.
                is_limited, is_due = id(model) in self._most_of, idle
                while of_model and (is_due or (len(of_model) >= most and not is_limited)):
                    chunk, of_model = of_model[:most], of_model[most:]
                    self._dispatch(model, chunk, alone=few)
                    is_due = is_due and not is_limited

    def _find_most(self, model: BatchModel) -> int:
        limit = model.service.limits.requests
        return min(self._how.size or limit, limit, self._most_of.get(id(model), limit))

    def _are_few(self, ones: Sequence[WaitingRequest]) -> bool:
        few = len(ones) <= max(_HANDFUL, self._requests_sent // 100)
        return few and self._requests_sent > 0 and all(call.again for call in ones)

    def _dispatch(self, model: BatchModel, chunk: Sequence[WaitingRequest], *, alone: bool) -> None:
        """Send a chunk: as a batch, or one by one if few requests are repeated."""
        gone = set(map(id, chunk))
        self._waiting = [call for call in self._waiting if id(call) not in gone]
        if alone:
            for call in chunk:
                call.resolve(None)
            return
        task = asyncio.create_task(self._send_batch(model, chunk))
        self._open[task] = chunk
        task.add_done_callback(self._open.pop)

    async def _send_batch(self, model: BatchModel, chunk: Sequence[WaitingRequest]) -> None:
        covered: Sequence[WaitingRequest] = chunk
        record: BatchRecord | None = None
        try:
            covered = [call for call in chunk if await self._is_covered(call)]
            if not covered:
                return
            record = await self._carrier.plan(model, covered)
            self._queue(covered[record.count :])
            covered = covered[: record.count]
            self._report(model, record)
            record = await self._carrier.send(model, record)
            self._sent.update((call.key, call) for call in covered)
            self._requests_sent += len(covered)
            for call in covered:
                call.reservation.waits_to_be_sent = False
            if not self._how.detach:
                await self._fetch(model, record, covered)
        except LinkFault as problem:
            self._end_requests(problem, record, covered)
        except Exception as error:
            for call in covered:
                call.fail(error)
        self._detach()

    def _end_requests(self, problem: LinkFault, record: BatchRecord | None, calls: Sequence[WaitingRequest]) -> None:
        """End the requests of a batch that could not be sent or collected."""
        if isinstance(problem, Uncollected):
            self.leave(str(problem))
            return
        is_open = record is not None and self._carrier.store.find(record.id).is_open
        if is_open and record is not None and self._budget is not None:
            # The provider may still charge it, so its worst case counts as spent.
            self._budget.settle(self._budget.hold(record.most), record.most, calls=record.count)
        again = problem.fault.again and not is_open and bool(self._sent)
        if again and record is not None:  # the provider may take it once it has answered others
            self._most_of[id(calls[0].model)] = record.count
        # The next run takes up an open batch; this one must not send it twice.
        fault = replace(problem.fault, again=again, maybe_billed=False)
        self._resolve(calls, {call.key: fault for call in calls})

    async def _is_covered(self, call: WaitingRequest) -> bool:
        """Return whether the budget covers a request; a raised ceiling is reserved again, or the request fails."""
        try:
            await call.reservation.cover()
        except CallError as refused:
            call.fail(CallError(refused.failure))
            return False
        return True

    async def _fetch(self, model: BatchModel, record: BatchRecord, calls: Sequence[WaitingRequest]) -> None:
        """Wait for a batch, collect it, and give each request its outcome."""
        found = await self._carrier.fetch(model, record, self._sent)
        outcomes: dict[bytes, Reply | Fault] = {} if found is None else {**found.replies, **found.faults}
        if found is not None and found.is_refused:
            await self._wait_for_room(model, calls, found)
        else:
            self._fits[id(model)] = max(0, self._fits[id(model)]) + (found is not None)
            if id(model) in self._most_of and self._fits[id(model)] >= _ENOUGH_FIT:
                self._most_of[id(model)] *= 2
            self._resolve(calls, outcomes)

    async def _wait_for_room(self, model: BatchModel, calls: Sequence[WaitingRequest], found: Collection) -> None:
        """Send refused requests again after the batches that fill the provider's queue, or in a smaller batch.

        The model is given up once a single request was refused `_MOST_REFUSED` times in a row.
        """
        is_alone = sum(chunk[0].model is model for chunk in self._open.values()) == 1
        self._most_of[id(model)] = max(1, len(calls) // 2) if is_alone else self._find_most(model)
        refusals = (is_alone and len(calls) == 1) - min(0, self._fits[id(model)])
        self._fits[id(model)] = -refusals
        if refusals >= _MOST_REFUSED:
            [(key, fault)] = found.faults.items()
            words = f"; its queue stayed full for {refusals} batches in a row, so run the same command again later"
            self._resolve(calls, {key: replace(fault, kind="quota", message=fault.message + words, again=False)})
            return
        if is_alone:
            await asyncio.sleep(Backoff(self._how.poll, self._how.poll * SLOWEST).draw_wait(refusals, None))
        for call in calls:
            self._sent.pop(call.key, None)
            call.reservation.note_waiting()
        self._queue(calls)

    def _resolve(self, calls: Sequence[WaitingRequest], outcomes: Mapping[bytes, Reply | Fault]) -> None:
        for call in calls:
            self._sent.pop(call.key, None)
            call.resolve(outcomes.get(call.key, _NEVER_CREATED))

    def _report(self, model: BatchModel, record: BatchRecord) -> None:
        if not self._how.told:
            self._how.notice(self._how.outlook)
        self._how.told += 1
        self._how.notice(f"batch {self._how.told}: {pluralize(record.count, 'request')} to {model.name}")

    def _detach(self) -> None:
        """Leave, if so configured, once every batch of the wave is with the provider or was refused."""
        here = asyncio.current_task()
        others = self._waiting or any(task is not here and not task.done() for task in self._open)
        if self._how.detach and not others:
            self._leave_open()

    def _leave_open(self) -> None:
        """Leave, unless no batch is open because the provider refused them all."""
        records = [record for record in self._carrier.store.read_records() if record.is_open]
        if records:
            asked, many = sum(record.count for record in records), "" if len(records) == 1 else "es"
            self.leave(f"{DETACHED}{pluralize(asked, 'request')} in {len(records)} batch{many}")

    async def _collect_before(self) -> Failure | None:
        """Record the results of earlier sessions' batches in the ledger."""
        self._carrier.store.clear_drafts()
        check_collectable(self._before, self._how)
        models = {record.id: model for record in self._before if (model := self._how.find_model(record)) is not None}
        try:
            # A batch that cannot be collected must not stop the others.
            taken = (self._collect_earlier(models[record.id], record) for record in self._before)
            for problem in await asyncio.gather(*taken, return_exceptions=True):
                if problem is not None:
                    raise problem
        except Uncollected as problem:
            self.leave(str(problem))
            return self.left
        except LinkFault as problem:
            return next(iter(models.values())).build_stop(problem.fault)
        if any(record.is_open for record in self._carrier.store.read_records()):
            self._leave_open()
            return self.left
        if self._how.cancel:
            self._leave_cancelled()
            return self.left
        self._before = []
        return None

    def _leave_cancelled(self) -> None:
        asked = sum(record.count for record in self._before)
        replies = sum(self._carrier.store.find(record.id).replies for record in self._before)
        kept = f"{replies:,} of {asked:,} requests had been answered, and their replies are saved"
        outcomes = self._gone if len(self._gone) == len(self._before) else [kept, *self._gone]
        self.leave(CANCELLED + "; ".join(outcomes))

    async def _collect_earlier(self, model: BatchModel, record: BatchRecord) -> None:
        record = await self._carrier.recover(model, record)
        if self._how.cancel and record.state == "sent":
            with suppress(ResultsGone):  # one that is no longer known is given up when it is collected
                await self._carrier.cancel(model, record)
        found = await self._carrier.fetch(model, record, once=self._how.detach)
        if found is None and self._carrier.store.find(record.id).is_open:
            return
        if found is not None:
            for role, reply in found.paid:
                self._tally[role].count_collected(reply)
            self._keep_faults(model, record, found)
            if found.gone:
                lost = f"its {pluralize(record.count - len(found.replies), 'request')} without a saved reply"
                self._gone.append(f"{found.gone}, so {lost} count at their worst case and are sent again next time")
        hold = self._holds.pop(record.id, None)
        if hold is None or self._budget is None:
            return
        if found is None:
            self._budget.give_back(hold)
        else:
            self._budget.settle(hold, found.spent, calls=len(found.paid))

    def _keep_faults(self, model: BatchModel, record: BatchRecord, found: Collection) -> None:
        """Keep final faults for later lookups, and report why the other requests are sent again."""
        final = {key: fault for key, fault in found.faults.items() if not fault.again}
        # Their possible cost is already recorded.
        self._met |= {key: (model.terms, replace(fault, maybe_billed=False)) for key, fault in final.items()}
        passing = [fault.message for fault in found.faults.values() if fault.again]
        if passing and not self._how.cancel:
            count = f"{len(passing):,} of {pluralize(record.count, 'request')}"
            self._how.notice(f"{model.name}: batch {record.remote} has no reply to {count}: {passing[0]}")
