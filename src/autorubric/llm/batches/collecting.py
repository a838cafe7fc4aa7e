"""The results of a batch that has ended: replies into the ledger, and the outcome of every other request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.errors import LedgerError, pluralize
from autorubric.llm.batches.batch_store import BatchRecord, BatchStore, Entry
from autorubric.llm.batches.dialect import RemoteBatch, ResultLine
from autorubric.llm.batches.link import LinkFault
from autorubric.llm.batches.setting import BROKEN_OFF, DAMAGED, GONE, UNKNOWN
from autorubric.llm.billing import Claim, Reservation, bill
from autorubric.llm.http.negotiation import Terms
from autorubric.llm.http.prices import is_plausible
from autorubric.llm.http.retry import Fault, classify_response
from autorubric.llm.http.transport import HttpReply
from autorubric.llm.http.wire import read_answer, with_limit
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Reply, Request
from autorubric.llm.sharing import Amount

if TYPE_CHECKING:
    from autorubric.llm.batches.model import BatchModel

_LOG = logging.getLogger("autorubric.batches")
_TOGETHER = 256  # replies that share a commit
_DOWNLOADS = 3  # of results with missing or broken lines
_GONE = frozenset({403, 404, 410})  # Google answers 403 where a file does not exist


Refused: TypeAlias = tuple[Terms, dict[str, Any], Fault]
"""A fault, and the form of the request that met it."""


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """One request in the queue.

    `again` is set for requests that were sent before; `done` gets the reply, the fault, or None if the request is to
    be sent alone.
    """

    key: bytes
    model: BatchModel
    request: Request
    reservation: Reservation
    again: bool
    done: asyncio.Future[Reply | Refused | None]
    terms: Terms | None = None

    def resolve(self, outcome: Reply | Fault | None) -> None:
        """Give the waiting caller the outcome of the request, once."""
        if self.done.done():
            return
        if isinstance(outcome, Fault):
            self.done.set_result((*self.model.build_body(self.request, self.terms), outcome))
            return
        self.reservation.recorded = outcome is not None
        self.done.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Raise an error where the request is awaited."""
        if not self.done.done():
            self.done.set_exception(error)


class Uncollected(LinkFault):
    """Results, or some of them, cannot be collected; `words` give the batch and the reason.

    Nothing is charged for it: the batch stays open, and counts in full until it is collected or given up.
    """

    def __init__(self, words: str, ways: str, fault: Fault) -> None:
        self.words = words
        super().__init__(Fault(fault.kind, f"{words}; {ways}", fault.status))


class ResultsGone(Uncollected):
    """The provider no longer has a batch, or the results of one that has ended."""

    def __init__(self, fault: Fault, record: BatchRecord, what: str = GONE) -> None:
        other = "if it was sent with the key of another account, use that key; otherwise " if what == UNKNOWN else ""
        ways = (
            f"{other}--batch-cancel (in Python: batch_cancel=True) gives the batch up and counts it at its "
            f"worst case, and the same command without it then sends its {pluralize(record.count, 'request')} again"
        )
        # The address is right, though a 404 says otherwise as a rule.
        super().__init__(f"{what}batch {record.remote} ({fault.message})", ways, replace(fault, kind="server"))


class BrokenOff(Uncollected):
    """The results of a batch broke off in every download; what arrived is in the ledger."""

    def __init__(self, fault: Fault, record: BatchRecord, replies: int) -> None:
        kept = f"replies to {replies:,} of {pluralize(record.count, 'request')} arrived and are saved"
        ways = (
            f"{kept}; the batch stays open, and the same command continues collecting it. If that breaks off too, "
            "--batch-cancel (in Python: batch_cancel=True) gives up the rest and counts it at its worst case"
        )
        super().__init__(f"{BROKEN_OFF}batch {record.remote} ({fault.message})", ways, fault)


@dataclass(slots=True)
class Collection:
    """The results of a batch.

    Attributes:
        model: whose batch it is.
        ledger: takes the replies.
        entries: the requests, by custom id.
        replies: by key, all of them recorded.
        faults: by key, of requests without a reply.
        spent: what the replies recorded here cost at most.
        paid: the replies recorded here, with the role of each.
        strange: lines that belong to no request of the batch.
        damage: what of the results could not be read; empty if nothing.
        failed: whether the batch failed as a whole.
        gone: why the batch was given up, in the provider's words; empty if it was not.
    """

    model: BatchModel
    ledger: Ledger
    entries: Mapping[str, Entry]
    replies: dict[bytes, Reply] = field(default_factory=dict)
    faults: dict[bytes, Fault] = field(default_factory=dict)
    spent: Amount = Amount()  # noqa: RUF009 - immutable
    paid: list[tuple[str, Reply]] = field(default_factory=list)
    strange: int = 0
    damage: str = ""
    failed: bool = False
    gone: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether the provider refused all requests for now, such as those beyond its queue, and charges for none."""
        is_free = all(fault.again and not fault.maybe_billed for fault in self.faults.values())
        return self.failed and not self.replies and is_free

    async def charge_missing(self, awaited: Container[bytes]) -> None:
        """Record what the requests without a result, except `awaited` ones, may have cost."""
        for entry in self.entries.values():
            fault = None if entry.key in awaited else self.faults.get(entry.key)
            if fault is not None and fault.maybe_billed:
                words = f"{self.model.name}: {fault.message}"
                await self.ledger.record(self._build_row(entry, Failure(fault.kind, words, fault.status)))

    async def download(self, record: BatchRecord, remote: RemoteBatch) -> Uncollected | None:
        """Read the results and record replies as they arrive; returns why the end was not reached, or None."""
        seconds = max(0.0, time.time() - record.sent_at)
        chunk: dict[bytes, tuple[Entry, Reply]] = {}
        self.strange = unreadable = 0
        try:
            async for line in self.model.service.read_results(self.model.link, remote):
                if not line.custom_id:
                    unreadable += 1
                    continue
                entry = self.entries.get(line.custom_id)
                if entry is None or entry.key in self.replies or entry.key in chunk:
                    self.strange += entry is None
                    continue
                outcome = _read_outcome(self.model, entry, line, seconds)
                if isinstance(outcome, Fault):
                    self.faults[entry.key] = outcome
                    continue
                chunk[entry.key] = entry, outcome
                if len(chunk) >= _TOGETHER:
                    await self._record(chunk)
                    chunk.clear()
        except LinkFault as problem:
            await self._record(chunk)
            gone = problem.fault.status in _GONE
            return ResultsGone(problem.fault, record) if gone else BrokenOff(problem.fault, record, len(self.replies))
        await self._record(chunk)
        self.damage = f"{pluralize(unreadable, 'line')} of its results cannot be read" if unreadable else ""
        return None

    async def _record(self, chunk: Mapping[bytes, tuple[Entry, Reply]]) -> None:
        """Record replies, unless a killed session did."""
        rows, new = [], {}
        for key, (entry, reply) in chunk.items():
            recorded = self.ledger.find(key)
            new[key] = recorded or reply
            if recorded is None:
                rows.append(self._build_row(entry, reply))
                self.paid.append((entry.role, reply))
        await asyncio.gather(*(self.ledger.record(row) for row in rows))
        self.replies |= new
        for key in new:
            self.faults.pop(key, None)

    def _build_row(self, entry: Entry, outcome: Reply | Failure) -> CallRow:
        """Return the row of a request, whose worst case is added to what was spent."""
        claim = None if entry.ceiling is None else Claim(self.model, entry.ceiling, self.model.cost)
        charged = bill(self.model, Request((), entry.role), outcome, Reservation(claim=claim))
        self.spent = self.spent.plus(charged.most)

        names = (entry.key, entry.item, entry.role, self.model.name, entry.draw, entry.asked_before)
        return CallRow(*names, outcome, charged.cost_bound, charged.token_bound)


def load_entries(store: BatchStore, record: BatchRecord) -> dict[str, Entry]:
    """Return the requests of a batch, by custom id; `Uncollected` if they cannot be read."""
    try:
        return store.read_entries(record)
    except LedgerError as error:
        ways = (
            "restore it from a copy, and the same command collects the batch; otherwise --batch-cancel (in Python: "
            "batch_cancel=True) gives it up and counts it at its worst case, and the same command without it then "
            f"sends its {pluralize(record.count, 'request')} again"
        )
        raise Uncollected(f"{DAMAGED}batch {record.remote} ({error})", ways, Fault("server", str(error))) from error


async def collect(
    model: BatchModel, ledger: Ledger, record: BatchRecord, remote: RemoteBatch, entries: Mapping[str, Entry]
) -> Collection | None:
    """Read the results, recording replies as they arrive; None if the results are not those of this batch.

    Results that break off, or lack lines, are downloaded again.

    Raises:
        ResultsGone: the provider no longer has them.
        BrokenOff: no download came to its end.
    """
    found = Collection(model, ledger, entries, failed=bool(remote.problem))
    for attempt in range(_DOWNLOADS if remote.outputs else 0):
        problem = await found.download(record, remote)
        if record.guessed and found.strange and not found.replies and not found.faults:
            return None
        if len(found.replies) + len(found.faults) >= len(entries):
            break
        if problem is not None and attempt == _DOWNLOADS - 1:
            raise problem
    known = found.replies.keys() | found.faults.keys()
    missing = [entry.key for entry in entries.values() if entry.key not in known]
    for key in missing:
        found.faults[key] = _build_missing_fault(remote, found.damage)
    if missing and found.faults[missing[0]].maybe_billed:
        why, lost = found.damage or "its results are incomplete", pluralize(len(missing), "request")
        _LOG.warning(
            "batch %s of %s: %s. %s without a reply will be sent again. The provider may charge for both attempts, "
            "so the first one counts at its worst case",
            remote.id,
            model.name,
            why,
            lost,
        )
    return found


def give_up(model: BatchModel, ledger: Ledger, entries: Mapping[str, Entry], words: str) -> Collection:
    """Return the results of a batch that is given up: what is in the ledger. The rest may have been billed."""
    found = Collection(model, ledger, entries, gone=words)
    lost = Fault("network", words, again=True, maybe_billed=True)
    for entry in entries.values():
        reply = ledger.find(entry.key)
        if reply is None:
            found.faults[entry.key] = lost
        else:
            found.replies[entry.key] = reply
    return found


def _read_outcome(model: BatchModel, entry: Entry, line: ResultLine, seconds: float) -> Reply | Fault:
    """Return the outcome of one line of results, by the rules for single requests."""
    if line.status == 0:
        failure = classify_response(HttpReply(500, line.body), *model.secrets)
        words = failure.text[:300] if failure is not None and failure.text else "no reason stated"
        return Fault("server", f"the batch did not run this request: {words}", again=True)
    reply = read_answer(HttpReply(line.status, line.body), seconds, model.secrets)
    if isinstance(reply, Fault):
        return reply
    reply = with_limit(reply, {"max_tokens": entry.limit})
    # The text is no longer at hand; a run of one letter in its place would count as a few tokens.
    asked = Request((Message("user", "ab" * (entry.characters // 2)),), entry.role)
    if not is_plausible(reply, asked):
        reply = model.drop_usage(reply, line.body)
    cost = None if reply.usage is None else model.cost(reply.usage)
    return replace(reply, cost=cost)


def _build_missing_fault(remote: RemoteBatch, damage: str) -> Fault:
    """Return the fault of a request without a line."""
    if remote.problem:
        return _build_failed_fault(remote)
    if damage or remote.whole:
        # The provider has answered it, as far as anyone can tell, so it may charge for it.
        words = f"the results of batch {remote.id} have no line for this request"
        return Fault("network", words, again=True, maybe_billed=True)
    return Fault("server", f"batch {remote.id} ended as {remote.word} before this request", again=True)


_WAITS = ("limit", "enqueued", "quota", "capacity", "overload", "try again", "temporar")


def _build_failed_fault(remote: RemoteBatch) -> Fault:
    """Return the fault of every request of a batch that failed as a whole."""
    words = remote.problem.lower()
    again = any(word in words for word in _WAITS)
    return Fault("server" if again else "rejected", f"batch {remote.id} failed: {remote.problem}", again=again)
