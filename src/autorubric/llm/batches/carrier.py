"""The way of one batch: plan, upload, create, wait, collect, each step on the disk before the next."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from autorubric.llm.batches.collecting import Collection, collect
from autorubric.llm.batches.dialect import Parcel, RemoteBatch
from autorubric.llm.batches.link import LinkFault
from autorubric.llm.batches.model import BatchModel
from autorubric.llm.batches.setting import Batching
from autorubric.llm.batches.store import BatchRecord, BatchStore, Entry, PlanWriter
from autorubric.llm.http.negotiation import Terms, sent_limit
from autorubric.llm.http.wire import encode_body
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Request

_SLOWER = 1.5
_SLOWEST = 20  # times the first interval: 30 s becomes 10 minutes
_CLOCKS_APART = 600.0  # seconds between this machine's clock and the provider's
_MOST_OLDER = 200  # batches in a list, newest first as a rule, before the search ends
_SLICE = 250  # requests planned before other tasks get their turn
_RANDOM = random.Random()


class Planned(Protocol):
    """A request on its way into a batch."""

    key: bytes
    request: Request
    terms: Terms | None


@dataclass(slots=True)
class Carrier:
    """Takes batches to the provider and brings their results into the ledger.

    Attributes:
        store: the batches on disk.
        ledger: takes the results.
        how: size, intervals and whether to leave.
    """

    store: BatchStore
    ledger: Ledger
    how: Batching

    def begin(self, model: BatchModel) -> BatchRecord:
        """A new batch of a model."""
        return self.store.begin(model.name, model.endpoint.model, model.endpoint.base_url)

    async def close(self, record: BatchRecord, writer: PlanWriter) -> BatchRecord:
        """Put a planned batch on the disk."""
        record = await asyncio.to_thread(writer.close, record)
        await asyncio.to_thread(self.store.keep, record)
        return record

    async def plan(self, model: BatchModel, waiting: Sequence[Planned]) -> tuple[BatchRecord, int]:
        """Write the files of a batch of the first requests, as many as fit; how many those are."""
        dialect, most = model.service.dialect, model.service.dialect.limits.bytes
        record = self.begin(model)
        writer = self.store.writer(record)
        for one in waiting:
            one.terms, body = model.body(one.request)
            line = encode_body(dialect.line(one.key.hex(), body))
            if writer.count and writer.size + len(line) + 1 > most:
                break
            entry = entry_of(model, one.key, one.request, sent_limit(body))
            price = None if entry.ceiling is None else model.cost(entry.ceiling)
            writer.add(line, entry, price or 0.0)
            if not writer.count % _SLICE:
                await asyncio.sleep(0)
        record = await self.close(record, writer)
        return record, record.count

    async def send(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """Upload and create a planned batch; a `LinkFault` where that fails. What is refused is dropped."""
        if not record.file:
            try:
                file = await model.service.dialect.upload(model.link, self._parcel(record))
            except LinkFault:
                self._keep(replace(record, state="dropped"))  # a file alone costs nothing
                raise
            record = self._keep(replace(record, file=file))
        return await self._created(model, record)

    async def recover(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """A batch of an earlier session, found again at the provider; dropped if it was never created."""
        if record.state == "sent":
            return record
        found = await self._find_twice(model, record)
        if found is not None:
            return self._sent(record, found)
        return self._keep(replace(record, state="dropped"))

    async def follow(self, model: BatchModel, record: BatchRecord, *, once: bool = False) -> RemoteBatch:
        """The batch once it has ended; as it is now if `once`."""
        wait = self.how.poll
        while True:
            remote = await model.service.dialect.find(model.link, record.remote)
            if remote.ended or once:
                return remote
            await asyncio.sleep(wait * _RANDOM.uniform(0.9, 1.1))
            wait = min(wait * _SLOWER, self.how.poll * _SLOWEST)

    async def cancel(self, model: BatchModel, record: BatchRecord) -> None:
        """Ask the provider to cancel a batch, unless it has ended by itself, or may belong to somebody else."""
        if record.guessed:
            self.how.notice(f"batch {record.remote} was found by its size alone, so it is collected, not cancelled")
            return
        dialect = model.service.dialect
        if (await dialect.find(model.link, record.remote)).ended:
            return
        try:
            await dialect.cancel(model.link, record.remote)
        except LinkFault:
            # A batch may end in between, and one that has ended cannot be cancelled.
            if not (await dialect.find(model.link, record.remote)).ended:
                raise

    async def collect(
        self, model: BatchModel, record: BatchRecord, remote: RemoteBatch, awaited: Container[bytes]
    ) -> Collection | None:
        """Put every reply of a batch into the ledger; None if its results belong to another batch.

        The batch counts as collected only once all its replies are on the disk. So is what a missing result may have
        cost, unless the request is `awaited`, whose caller accounts for it.
        """
        entries = await asyncio.to_thread(self.store.entries, record)
        found = await collect(model, self.ledger, record, remote, entries)
        if found is None:
            strangers = (*record.strangers, remote.id)
            self._keep(replace(record, state="planned", remote="", guessed=False, strangers=strangers))
            return None
        await found.charge_missing(model, self.ledger, (e for e in entries.values() if e.key not in awaited))
        ended = replace(record, state="collected", ended_at=time.time(), word=remote.word, replies=len(found.replies))
        await asyncio.to_thread(self.store.keep, ended)
        await model.service.dialect.delete(model.link, remote)
        return found

    async def _created(self, model: BatchModel, record: BatchRecord) -> BatchRecord:
        """The created batch; where it is unclear whether the provider created it, it is looked for first."""
        dialect, parcel = model.service.dialect, self._parcel(record)
        attempt = 0
        while True:
            try:
                return self._sent(record, await dialect.create(model.link, parcel), guessed=False)
            except LinkFault as fault:
                problem = fault
            found = await self._find_twice(model, record) if problem.is_unclear else None
            if found is not None:
                return self._sent(record, found)
            if attempt == model.link.retries or not (problem.is_unclear or problem.fault.again):
                self._keep(replace(record, state="dropped"))
                raise problem
            await asyncio.sleep(model.link.wait(attempt, problem.fault.retry_after))
            attempt += 1

    async def _find_twice(self, model: BatchModel, record: BatchRecord) -> RemoteBatch | None:
        """The batch in the provider's list; looked for again after a while, because lists lag behind."""
        found = await self._find_listed(model, record)
        if found is None and time.time() - record.planned_at < _CLOCKS_APART:
            await asyncio.sleep(self.how.poll)
            found = await self._find_listed(model, record)
        return found

    async def _find_listed(self, model: BatchModel, record: BatchRecord) -> RemoteBatch | None:
        taken = {one.remote for one in self.store.records() if one.id != record.id} | {*record.strangers}
        older = 0
        async for batch in model.service.dialect.list(model.link):
            if batch.created is not None and batch.created < record.planned_at - _CLOCKS_APART:
                older += 1
                if older > _MOST_OLDER:
                    return None
            elif batch.id not in taken and self._is_ours(model, record, batch):
                return batch
        return None

    def _is_ours(self, model: BatchModel, record: BatchRecord, batch: RemoteBatch) -> bool:
        if model.service.dialect.keeps_metadata:
            return batch.batch == record.id
        if record.file or batch.file:
            return bool(batch.file) and batch.file == record.file
        return batch.count in (None, record.count)

    def _sent(self, record: BatchRecord, remote: RemoteBatch, *, guessed: bool = True) -> BatchRecord:
        guessed = guessed and not remote.batch and not remote.file
        changed = replace(record, state="sent", remote=remote.id, guessed=guessed, sent_at=time.time())
        return self._keep(replace(changed, word=remote.word))

    def _keep(self, record: BatchRecord) -> BatchRecord:
        self.store.keep(record)
        return record

    def _parcel(self, record: BatchRecord) -> Parcel:
        path = self.store.requests(record)
        return Parcel(record.id, record.run, record.sha, path, record.served, record.count, record.file)


def entry_of(model: BatchModel, key: bytes, request: Request, limit: int) -> Entry:
    """What the ledger needs of a request that is sent with a completion limit."""
    most = model.ceiling(request)
    return Entry(
        key,
        request.item,
        request.role,
        request.draw,
        request.reask + request.cut_off,
        limit,
        -1 if most is None else most.prompt_tokens,
        0 if most is None else most.completion_tokens,
        sum(len(content) for _, content in request.messages),
    )
