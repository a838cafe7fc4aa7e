"""The results of a batch that has ended: replies into the ledger, and what became of every other request."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autorubric.llm.batches.dialect import Line, RemoteBatch
from autorubric.llm.batches.link import LinkFault
from autorubric.llm.batches.store import BatchRecord, Entry
from autorubric.llm.billing import Activity, Amount, Reservation, bill
from autorubric.llm.http.negotiation import with_limit
from autorubric.llm.http.prices import is_believable
from autorubric.llm.http.retry import Fault, http_fault
from autorubric.llm.http.transport import HttpReply
from autorubric.llm.http.wire import read_reply
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Reply, Request, Usage

if TYPE_CHECKING:
    from autorubric.llm.batches.model import BatchModel

_TOGETHER = 256  # replies that share a commit
_DOWNLOADS = 3  # of results with missing or broken lines


@dataclass(slots=True)
class Collection:
    """What a batch brought.

    Attributes:
        replies: by key, all of them recorded.
        faults: by key, of requests without a reply.
        spent: what the replies recorded here cost at most.
        activity: the replies recorded here, by role.
        strange: lines that belong to no request of the batch.
        repeated: lines about a request that has a reply already.
    """

    replies: dict[bytes, Reply] = field(default_factory=dict)
    faults: dict[bytes, Fault] = field(default_factory=dict)
    spent: Amount = Amount()  # noqa: RUF009 - immutable
    activity: defaultdict[str, Activity] = field(default_factory=lambda: defaultdict(Activity))
    strange: int = 0
    repeated: int = 0

    def count(self, role: str, reply: Reply) -> None:
        """Count a reply that was recorded here."""
        now, usage = self.activity[role], reply.usage or Usage()
        now.paid += 1
        now.prompt_tokens += usage.prompt_tokens
        now.completion_tokens += usage.completion_tokens
        now.cost += reply.cost or 0.0
        now.unpriced += reply.cost is None

    async def charge_missing(self, model: BatchModel, ledger: Ledger, entries: Iterable[Entry]) -> None:
        """Put on record what the requests without a result may have cost."""
        for entry in entries:
            fault = self.faults.get(entry.key)
            if fault is not None and fault.maybe_billed:
                row, most = row_of(model, entry, Failure(fault.kind, f"{model.name}: {fault.message}", fault.status))
                self.spent = Amount(self.spent.tokens + most.tokens, self.spent.cost + most.cost)
                await ledger.record(row)

    def outcomes(self) -> Iterator[tuple[bytes, Reply | Fault]]:
        """What each request got."""
        yield from self.replies.items()
        yield from self.faults.items()


async def collect(
    model: BatchModel, ledger: Ledger, record: BatchRecord, remote: RemoteBatch, entries: Mapping[str, Entry]
) -> Collection | None:
    """Read the results, recording replies as they arrive; None if the results are not those of this batch.

    Results that break off, or lack lines, are downloaded again.
    """
    found = Collection()
    for attempt in range(_DOWNLOADS if remote.outputs else 0):
        try:
            await _download(model, ledger, record, remote, entries, found)
        except LinkFault:
            if attempt == _DOWNLOADS - 1 and not found.replies:
                raise
        if record.guessed and found.strange and not found.replies and not found.faults:
            return None
        if len(found.replies) + len(found.faults) >= len(entries):
            break
    for entry in entries.values():
        if entry.key not in found.replies and entry.key not in found.faults:
            found.faults[entry.key] = _missing(remote)
    return found


async def _download(
    model: BatchModel,
    ledger: Ledger,
    record: BatchRecord,
    remote: RemoteBatch,
    entries: Mapping[str, Entry],
    found: Collection,
) -> None:
    seconds = max(0.0, time.time() - record.sent_at)
    chunk: dict[bytes, tuple[Entry, Reply]] = {}
    found.strange = found.repeated = 0
    try:
        async for line in model.service.dialect.results(model.link, remote):
            entry = entries.get(line.custom_id)
            if entry is None or entry.key in found.replies or entry.key in chunk:
                found.strange += entry is None
                found.repeated += entry is not None
                continue
            outcome = _outcome(model, entry, line, seconds)
            if isinstance(outcome, Fault):
                found.faults[entry.key] = outcome
                continue
            chunk[entry.key] = entry, outcome
            if len(chunk) >= _TOGETHER:
                await _record(model, ledger, chunk, found)
    except LinkFault:
        await _record(model, ledger, chunk, found)
        raise
    await _record(model, ledger, chunk, found)


async def _record(
    model: BatchModel, ledger: Ledger, chunk: dict[bytes, tuple[Entry, Reply]], found: Collection
) -> None:
    """Put replies on the disk, unless a killed session did."""
    rows, new = [], {}
    for key, (entry, reply) in chunk.items():
        recorded = ledger.find(key)
        new[key] = recorded or reply
        if recorded is None:
            row, most = row_of(model, entry, reply)
            found.spent = Amount(found.spent.tokens + most.tokens, found.spent.cost + most.cost)
            rows.append(row)
            found.count(entry.role, reply)
    chunk.clear()
    await asyncio.gather(*(ledger.record(row) for row in rows))
    found.replies |= new
    for key in new:
        found.faults.pop(key, None)


def row_of(model: BatchModel, entry: Entry, outcome: Reply | Failure) -> tuple[CallRow, Amount]:
    """The row of a request that was in a batch, and the most that it can have cost."""
    charged = bill(_Priced(model, entry), _NO_REQUEST, outcome, Reservation())
    names = (entry.key, entry.item, entry.role, model.name, entry.draw, entry.asked_before)
    return CallRow(*names, outcome, charged.cost_bound, charged.token_bound), charged.most


_NO_REQUEST = Request((), "")


class _Priced:
    """A model as its bills need it: the ceiling is the one that was planned."""

    def __init__(self, model: BatchModel, entry: Entry) -> None:
        self.name = model.name
        self.identity = model.identity
        self.cost = model.cost
        self.complete, self.close = model.complete, model.close
        self._entry = entry

    def ceiling(self, request: Request) -> Usage | None:
        return self._entry.ceiling


def _outcome(model: BatchModel, entry: Entry, line: Line, seconds: float) -> Reply | Fault:
    """What one line says, by the rules for single requests."""
    if line.status == 0:
        told = http_fault(HttpReply(500, line.body), *model.secrets)
        words = told.text[:300] if told is not None and told.text else "no reason stated"
        return Fault("server", f"the batch did not run this request: {words}", again=True)
    fault = http_fault(HttpReply(line.status, line.body), *model.secrets)
    if fault is not None:
        return fault
    reply = read_reply(line.body, seconds, model.secrets)
    if isinstance(reply, Fault):
        return reply
    reply = with_limit(reply, {"max_tokens": entry.limit})
    # Runs of one letter count as a few tokens; the text itself is no longer at hand.
    asked = Request((Message("user", "ab" * (entry.characters // 2)),), entry.role)
    if not is_believable(reply, asked):
        reply = model.without_usage(reply, line.body)
    cost = None if reply.usage is None else model.cost(reply.usage)
    return replace(reply, cost=cost)


def _missing(remote: RemoteBatch) -> Fault:
    """The fault of a request without a line."""
    if remote.problem:
        return _failed(remote)
    if remote.whole:
        # The provider says that it has answered everything, so it may charge for this one.
        words = f"the results of batch {remote.id} have no line for this request"
        return Fault("network", words, again=True, maybe_billed=True)
    return Fault("server", f"batch {remote.id} ended as {remote.word} before this request", again=True)


_WAITS = ("limit", "enqueued", "quota", "capacity", "overload", "try again", "temporar")


def _failed(remote: RemoteBatch) -> Fault:
    """The fault of every request of a batch that failed as a whole."""
    words = remote.problem.lower()
    again = any(word in words for word in _WAITS)
    return Fault("server" if again else "rejected", f"batch {remote.id} failed: {remote.problem}", again=again)
