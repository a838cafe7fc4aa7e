"""The steps of a batch: plan, upload, create, wait, collect, each on the disk before the next."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from autorubric.llm.batches import collecting
from autorubric.llm.batches.batch_store import BatchRecord, BatchStore, Entry, PlanWriter
from autorubric.llm.batches.dialect import RemoteBatch
from autorubric.llm.batches.link import LinkFault
from autorubric.llm.batches.model import BatchModel
from autorubric.llm.batches.setting import UNKNOWN, Batching
from autorubric.llm.billing import Reservation, Tally
from autorubric.llm.http.allowed_tokens import find_sent_limit
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.retry import Fault
from autorubric.llm.http.wire import encode_body
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Request
from autorubric.llm.sharing import Amount

if TYPE_CHECKING:
    from autorubric.llm.budget import Budget

_SLOWER = 1.5
SLOWEST = 20  # times the first interval: 30 s becomes 10 minutes
_CLOCKS_APART = 600.0  # seconds between this machine's clock and the provider's
_MOST_OLDER = 200  # batches in a list, newest first as a rule, before the search ends
_LOOKS = 10  # that fail in a row, each with its own retries, before a run waits no longer
_SLICE = 250  # requests planned before other tasks get their turn
_RANDOM = random.Random()


@dataclass(slots=True)
class Carrier:
    """Sends batches to the provider and records their results in the ledger.

    Attributes:
        store: the batches on disk.
        ledger: takes the results.
        how: size, intervals and whether to detach.
    """

    store: BatchStore
    ledger: Ledger
    how: Batching

    def begin(self, model: BatchModel) -> PlanWriter:
        """Return a writer for the requests of a new batch of a model."""
        return self.store.open_writer(self.store.begin(model.name, model.endpoint.model, model.endpoint.base_url))

    async def close(self, writer: PlanWriter) -> BatchRecord:
        """Put a planned batch on the disk."""
        record = await asyncio.to_thread(writer.close)
        return await asyncio.to_thread(self.store.keep_plan, record)

    async def plan(self, model: BatchModel, waiting: Sequence[collecting.WaitingRequest]) -> BatchRecord:
        """Write the files of a batch of the first requests, as many as fit."""
        writer = self.begin(model)
        for call in waiting:
            made = make_line(model, call.key, call.request)
            call.terms = made.terms
            if writer.count and writer.size + len(made.line) > model.service.limits.bytes:
                break
            writer.add(made.line, made.entry, made.most)
            if not writer.count % _SLICE:
                await asyncio.sleep(0)
        return await self.close(writer)

    async def send(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """Upload and create a planned batch; a `LinkFault` where that fails. What is refused is dropped."""
        if not record.file:
            try:
                file = await model.service.upload(model.link, record, self.store.locate_requests(record))
            except LinkFault:
                self.store.keep(replace(record, state="dropped"))  # a file alone costs nothing
                raise
            record = self.store.keep(replace(record, file=file))
        return await self._create(model, record)

    async def recover(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """Return a batch of an earlier session, found again at the provider; dropped if it was never created."""
        if record.state == "sent":
            return record
        found = await self._find_twice(model, record)
        if found is not None:
            return self._keep_sent(record, found)
        return self.store.keep(replace(record, state="dropped"))

    async def follow(self, model: BatchModel, record: BatchRecord, *, once: bool = False) -> RemoteBatch:
        """The batch once it has ended; as it is now if `once`; `ResultsGone` if the provider does not know it."""
        wait, failed = self.how.poll, 0
        while True:
            try:
                remote = await self._find(model, record)
            except LinkFault as problem:
                failed += 1
                if once or not problem.fault.again or failed >= _LOOKS:
                    raise
                self.how.notice(f"batch {record.remote}: {problem}; it will be checked again later")
            else:
                failed = 0
                if record.trouble and not remote.ended:
                    record = self.store.keep(replace(record, trouble=""))
                if remote.ended or once:
                    return remote
            await asyncio.sleep(wait * _RANDOM.uniform(0.9, 1.1))
            wait = min(wait * _SLOWER, self.how.poll * SLOWEST)

    async def cancel(self, model: BatchModel, record: BatchRecord) -> None:
        """Ask the provider to cancel a batch, unless it has ended by itself, or may belong to another run."""
        if record.guessed:
            self.how.notice(f"batch {record.remote} was found by its size alone, so it is collected, not cancelled")
            return
        if (await self._find(model, record)).ended:
            return
        for attempt in range(model.link.retries + 1):
            try:
                await model.service.cancel(model.link, record.remote)
                return
            except LinkFault as problem:
                # A batch may end in between, and one that has ended cannot be cancelled.
                if (await self._find(model, record)).ended:
                    return
                if not problem.fault.again or attempt == model.link.retries:
                    raise LinkFault(replace(problem.fault, message=_explain_open(problem.fault, record))) from None
                await asyncio.sleep(model.link.backoff.draw_wait(attempt, problem.fault.retry_after))

    async def fetch(
        self, model: BatchModel, record: BatchRecord, awaited: Container[bytes] = (), *, once: bool = False
    ) -> collecting.Collection | None:
        """The results of a batch, once it has ended; None if it was never created or, with `once`, has not ended.

        It counts as collected only once all its replies are on the disk, and what missing results may have cost;
        callers account for `awaited` requests. Where batches are cancelled, one that cannot be collected is given up.
        """
        found = None
        while found is None and record.state == "sent":
            remote = RemoteBatch(record.remote, record.word, files=(record.file,) if record.file else ())
            entries: dict[str, Entry] = {}
            try:
                entries = await asyncio.to_thread(collecting.load_entries, self.store, record)
                remote = await self.follow(model, record, once=once)
                if not remote.ended:
                    return None
                found = await collecting.collect(model, self.ledger, record, remote, entries)
            except collecting.Uncollected as problem:
                # A download that breaks off for the first time may be complete the next time.
                if not self.how.cancel or (isinstance(problem, collecting.BrokenOff) and not record.trouble):
                    self.store.keep(replace(record, word=remote.word, trouble=problem.words))
                    raise
                found = collecting.give_up(model, self.ledger, entries or record.lost_entry, problem.words)
            if found is None:
                strangers = (*record.strangers, remote.id)
                record = replace(record, state="planned", remote="", guessed=False, strangers=strangers)
                record = await self.recover(model, self.store.keep(record))
        if found is not None:
            await found.charge_missing(awaited)
            ended = replace(record, state="collected", word=remote.word, trouble="")
            await asyncio.to_thread(self.store.keep, replace(ended, replies=len(found.replies)))
            await model.service.delete(model.link, remote)
        return found

    async def _find(self, model: BatchModel, record: BatchRecord) -> RemoteBatch:
        """Return the batch as it is now; `ResultsGone` if the provider does not know it, or not yet."""
        seen_again = time.time() - record.sent_at >= _CLOCKS_APART
        while True:
            try:
                return await model.service.find(model.link, record.remote)
            except LinkFault as problem:
                if problem.fault.status not in (404, 410):
                    raise
                if seen_again:
                    raise collecting.ResultsGone(problem.fault, record, UNKNOWN) from None
            seen_again = True
            await asyncio.sleep(self.how.poll)

    async def _create(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """Return the created batch; where it is unclear whether the provider created it, it is looked for first."""
        dialect = model.service
        attempt = 0
        while True:
            try:
                remote = await dialect.create(model.link, record, self.store.locate_requests(record))
                if not remote.id:
                    raise LinkFault(Fault("network", "the answer to the creation names no batch", 200, again=True))
                return self._keep_sent(record, remote, guessed=False)
            except LinkFault as fault:
                problem = fault
            found = await self._find_twice(model, record) if problem.is_unclear else None
            if found is not None:
                return self._keep_sent(record, found)
            if attempt == model.link.retries or not (problem.is_unclear or problem.fault.again):
                self.store.keep(replace(record, state="dropped"))
                raise problem
            await asyncio.sleep(model.link.backoff.draw_wait(attempt, problem.fault.retry_after))
            attempt += 1

    async def _find_twice(self, model: BatchModel, record: BatchRecord) -> RemoteBatch | None:
        """Return the batch in the provider's list; looked for again after a while, because lists lag behind."""
        found = await self._find_listed(model, record)
        if found is None and time.time() - record.planned_at < _CLOCKS_APART:
            await asyncio.sleep(self.how.poll)
            found = await self._find_listed(model, record)
        return found

    async def _find_listed(self, model: BatchModel, record: BatchRecord) -> RemoteBatch | None:
        taken = {one.remote for one in self.store.read_records() if one.id != record.id} | {*record.strangers}
        older = 0
        async for batch in model.service.list(model.link):
            if batch.created is not None and batch.created < record.planned_at - _CLOCKS_APART:
                older += 1
                if older > _MOST_OLDER:
                    return None
            elif batch.id not in taken and self._is_ours(model, record, batch):
                return batch
        return None

    def _is_ours(self, model: BatchModel, record: BatchRecord, batch: RemoteBatch) -> bool:
        if model.service.keeps_metadata or record.file or batch.file:
            # Some services take metadata, and do not return it.
            return batch.batch == record.id or (bool(record.file) and batch.file == record.file)
        return batch.count in (None, record.count)

    def _keep_sent(self, record: BatchRecord, remote: RemoteBatch, *, guessed: bool = True) -> BatchRecord:
        guessed = guessed and not remote.batch and not remote.file
        changed = replace(record, state="sent", remote=remote.id, guessed=guessed, sent_at=time.time())
        return self.store.keep(replace(changed, word=remote.word))


class BatchLine(NamedTuple):
    """A request as it enters a batch: its form, line, row, and the most that it can cost."""

    terms: Terms
    line: bytes
    entry: Entry
    most: Amount


def make_line(model: BatchModel, key: bytes, request: Request) -> BatchLine:
    """Return a request in the form that its endpoint is known to accept."""
    terms, body = model.build_body(request)
    most = model.ceiling(request)
    entry = Entry(
        key,
        request.item,
        request.role,
        request.draw,
        request.reask + request.cut_off,
        find_sent_limit(body),
        -1 if most is None else most.prompt_tokens,
        0 if most is None else most.completion_tokens,
        sum(len(content) for _, content in request.messages),
    )
    line = encode_body(model.service.build_line(key.hex(), body)) + b"\n"
    bound = Amount() if most is None else Amount.from_dollars(most.total_tokens, model.cost(most) or 0.0)
    return BatchLine(terms, line, entry, bound)


def _explain_open(fault: Fault, record: BatchRecord) -> str:
    return (
        f"{fault.message}: batch {record.remote} was not cancelled and will be charged; try --batch-cancel "
        "(in Python: batch_cancel) again, or collect it by the same command without"
    )


@dataclass(slots=True)
class EarlySender:
    """Requests sent before a caller waits for them, planned one at a time in nearly constant memory.

    Attributes:
        carrier: takes the batches.
        budget: covers each batch in full before it is sent; what it does not cover is left to the run itself.
        most: the most requests in a batch of a model.
        tell: called with each batch that is about to be sent.
        tally: counts the replies that batches bring.
        faults: by key, what requests without a reply met, and the form that they were sent in.
        refusals: of whole batches.
        is_full: whether the budget covers no more.
        sent: requests in batches.
        holds: what batches may cost, until they are collected.
        tasks: wait for the batches; these stay with the provider if they are cancelled.
    """

    carrier: Carrier
    budget: Budget | None
    most: Callable[[BatchModel], int]
    tell: Callable[[BatchModel, BatchRecord], None]
    tally: Tally
    faults: dict[bytes, tuple[Terms, Fault]]
    refusals: list[tuple[BatchModel, Failure]] = field(default_factory=list)
    is_full: bool = False
    sent: int = 0
    holds: list[Reservation] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _open: dict[int, tuple[BatchModel, PlanWriter]] = field(default_factory=dict)
    _keys: set[bytes] = field(default_factory=set)
    _terms: dict[int, Terms] = field(default_factory=dict)

    async def add(self, key: bytes, model: BatchModel, request: Request) -> None:
        """Plan a request, unless it is planned already or the budget no longer covers it."""
        if self.is_full or key in self._keys or key in self.faults:
            return
        made = make_line(model, key, request)
        self._terms[id(model)] = made.terms
        if self.budget is not None:
            planned = made.most
            for _, writer in self._open.values():
                planned = planned.plus(writer.most)
            if not self.budget.can_cover(planned):
                self.is_full = True
                return
        self._find_writer(model, len(made.line)).add(made.line, made.entry, made.most)
        self._keys.add(key)
        if not len(self._keys) % _SLICE:
            await asyncio.sleep(0)

    async def send_and_collect(self) -> None:
        """Send the planned requests, and return once their results are in the ledger, or immediately if detached."""
        for number in list(self._open):
            self._send(number)
        await asyncio.gather(*self.tasks)

    def _find_writer(self, model: BatchModel, size: int) -> PlanWriter:
        """Return the writer for the next request of a model: of a new batch if the last one is full."""
        found = self._open.get(id(model))
        writer = None if found is None else found[1]
        limit = model.service.limits.bytes
        if writer is not None and (writer.count >= self.most(model) or writer.size + size > limit):
            self._send(id(model))
            writer = None
        if writer is None:
            writer = self.carrier.begin(model)
            self._open[id(model)] = model, writer
        return writer

    def _send(self, number: int) -> None:
        model, writer = self._open.pop(number)
        self.sent += writer.count
        self.tasks.append(asyncio.create_task(self._send_batch(model, writer)))

    async def _send_batch(self, model: BatchModel, writer: PlanWriter) -> None:
        hold = Reservation() if self.budget is None else self.budget.hold(writer.most)
        self.holds.append(hold)
        record = await self.carrier.close(writer)
        self.tell(model, record)
        found = None
        try:
            record = await self.carrier.send(model, record)
            if not self.carrier.how.detach:
                found = await self.carrier.fetch(model, record)
        except LinkFault as problem:
            if self.carrier.store.find(record.id).is_open:
                raise
            # It was refused: the run sends its requests again, unless no request to this model can succeed.
            self.refusals.append((model, model.build_failure(problem.fault, 1)))
        if found is not None:
            for role, reply in found.paid:
                self.tally[role].count_collected(reply)
            terms = self._terms[id(model)]
            # Their possible cost is already recorded. What the provider had no room for counts as not sent.
            met = {} if found.is_refused else found.faults
            self.faults |= {key: (terms, replace(fault, maybe_billed=False)) for key, fault in met.items()}
        if hold.budget is not None and not self.carrier.store.find(record.id).is_open:
            spent, calls = (Amount(), 0) if found is None else (found.spent, len(found.paid))
            hold.budget.settle(hold, spent, calls=calls)
