"""Every paid reply, durable before anything is computed from it: to resume is to start again."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from autorubric.errors import LedgerError
from autorubric.llm.records.accounts import FailedCall, Spent, Totals, failed_calls, spent, totals
from autorubric.llm.records.arrivals import Arrival, Arrivals, take_over
from autorubric.llm.records.claims import Claims
from autorubric.llm.records.commits import GroupCommit, together, unwritten_named
from autorubric.llm.records.departures import Departures, take_over_departures
from autorubric.llm.records.directory import private_file
from autorubric.llm.records.inserts import insert_note, insert_observation, insert_rows, mark_damaged
from autorubric.llm.records.key_index import Inserted, KeyIndex
from autorubric.llm.records.lock import WriteTurn
from autorubric.llm.records.recovery import MARK, corruption_marked, recover
from autorubric.llm.records.rows import CallRow, SealedRow, seal, unpacked_reply, unseal
from autorubric.llm.records.spent_file import SpentFile
from autorubric.llm.records.tables import connect, damage_named, prepare
from autorubric.llm.request import Reply

Write: TypeAlias = Callable[[sqlite3.Connection], None]

FILE_NAME = "ledger.sqlite"
_LOG = logging.getLogger("autorubric.ledger")

_SINCE = "SELECT key, at FROM calls WHERE at >= ?"
LINGER = 0.005
"""Seconds that a commit waits for more calls when calls are frequent."""


class ImportRow(NamedTuple):
    """A value that another pipeline's files hold for a record; `inputs` digests what it was made from."""

    record: str
    slot: str
    inputs: bytes
    value: Any


class Ledger:
    """The record of a run's model calls: one SQLite file, one writing thread.

    `find` and the sums read on the caller's thread. A reply is a hit from the moment `record` returns, in
    this session and in every later one; one that a killed process had not come to acknowledge is a hit in the next
    session. Damage is a `LedgerError`, never a wrong reply.

    Example:
        >>> import asyncio
        >>> with Ledger.in_memory() as ledger:
        ...     row = CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, Reply("MET"))
        ...     asyncio.run(ledger.record(row))
        ...     ledger.find(b"k" * 16).text, ledger.find(b"?" * 16)
        ('MET', None)
    """

    def __init__(
        self,
        connections: _Connections,
        directory: Path | None = None,
        *,
        linger: float = LINGER,
        shared: bool = False,
    ) -> None:
        self._place, self._writing, self._reading, self._turn = connections
        self._shared, self._folder = shared, directory
        self._opened = ExitStack()
        self._arrivals = None if shared or directory is None else Arrivals(directory)
        self.departures = Departures(None if shared else directory)
        self.claims = Claims(directory if shared else None)
        self._spent_file: SpentFile | None = None
        with self._damage_named(), self._turn:
            prepare(self._writing, self._place)
            if directory is not None:
                take_over(directory, self._take_in)
                take_over_departures(directory, lambda left: self._take_in(left, sent=True))
            self._keys = KeyIndex(self._writing)
        self._commits = GroupCommit(self._writing, self._write, self._make_findable, self._turn, linger=linger)

    @classmethod
    def open(cls, directory: Path, *, linger: float = LINGER, shared: bool = False) -> Ledger:
        """The ledger of a run directory; both are made where there is none, for the owner's eyes only.

        Args:
            directory: the run directory; on a local disk, because network filesystems lose locks and syncs.
            linger: the longest wait, in seconds, for more calls to share a commit when calls are frequent.
            shared: other processes may have the ledger open; what they record is found.

        Raises:
            InputError: the directory cannot be made or written, or lies on a network filesystem.
            LedgerError: the ledger is damaged, or was written by another version.
        """
        path = private_file(directory, FILE_NAME)
        if (directory / MARK).exists():
            _recover(path)
        try:
            return cls._opened_in(directory, linger=linger, shared=shared)
        except LedgerError:
            if not (directory / MARK).exists():
                raise
        _recover(path)
        return cls._opened_in(directory, linger=linger, shared=shared)

    @classmethod
    def _opened_in(cls, directory: Path, *, linger: float, shared: bool) -> Ledger:
        with ExitStack() as opened:
            connections = _connected(directory, opened)
            ledger = cls(connections, directory, linger=linger, shared=shared)
            ledger._opened = opened.pop_all()
        return ledger

    @classmethod
    def in_memory(cls) -> Ledger:
        """A ledger that is gone when it is closed, for callers who have no run directory."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        ledger = cls(_Connections("the ledger in memory", connection, connection, nullcontext()), linger=0.0)
        ledger._opened.callback(connection.close)
        return ledger

    def find(self, key: bytes) -> Reply | None:
        """The recorded reply under `key`, or None; it is `fresh` where this session paid for it."""
        self._commits.check()
        with self._damage_named():
            found = self._keys.find(self._reading, key)
            if found is None and self._shared and self._keys.catch_up(self._reading):
                found = self._keys.find(self._reading, key)
        if found is None:
            return None
        try:
            value = unseal(key, found.data, found.digest)
        except LedgerError:
            self._set_aside(key, found.call)
            return None
        return unpacked_reply(value, fresh=self._keys.is_fresh(found.call))

    async def record(self, row: CallRow) -> None:
        """Return when `row` is on the disk.

        Raises:
            LedgerError: it could not be written; the ledger takes no more rows then.
        """
        await self._submit(row)

    def record_late(self, row: CallRow) -> None:
        """Queue `row` without waiting for it, for a caller that is being cancelled."""
        # A failure to write shows at the next call; nobody is left here to hear of it.
        self._submit(row).add_done_callback(lambda done: done.exception())

    def record_imports(self, rows: Iterable[ImportRow]) -> None:
        """Record values from another pipeline's files, in place of what was imported under the same names.

        Example:
            >>> with Ledger.in_memory() as ledger:
            ...     ledger.record_imports([ImportRow("q1", "reference", b"hash", {"text": "42"})])
            ...     ledger.find_import("q1", "reference")
            (b'hash', {'text': '42'})
        """
        self._commits.write(partial(_insert_imports, rows))

    def find_import(self, record: str, slot: str) -> tuple[bytes, Any] | None:
        """The digest of the inputs and the value that were imported for a record's slot, or None."""
        self._commits.check()
        query = "SELECT inputs, data, digest FROM imports WHERE record = ? AND slot = ?"
        with self._damage_named():
            found = self._reading.execute(query, (record, slot)).fetchall()
        if not found:
            return None
        inputs, data, digest = found[0]
        try:
            return inputs, unseal(_import_name(record, slot, inputs), data, digest)
        except LedgerError:
            _LOG.warning("%s: the imported %s of %r is damaged; it is requested again", self._place, slot, record)
            return None

    def keep_note(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name, durably, in place of the one before.

        Example:
            >>> with Ledger.in_memory() as ledger:
            ...     ledger.keep_note("generations", {"merge": 1})
            ...     ledger.find_note("generations"), ledger.find_note("nothing")
            ({'merge': 1}, None)
        """
        self._commits.write(partial(insert_note, name, json.dumps(value)))

    def find_note(self, name: str) -> Any:
        """The value kept under a name, or None."""
        with self._damage_named():
            found = self._reading.execute("SELECT value FROM meta WHERE name = ?", (f"note:{name}",)).fetchall()
        return json.loads(found[0][0]) if found else None

    def observe(self, kind: str, value: Any) -> None:
        """Queue a JSON value that was seen during the run, behind those of its kind; nobody waits for it.

        Example:
            >>> import asyncio
            >>> from autorubric.llm.records.view import LedgerView
            >>> async def observed(ledger):
            ...     ledger.observe("reward", {"reward": 0.5})
            >>> with Ledger.in_memory() as ledger:
            ...     asyncio.run(observed(ledger))
            ...     ledger.keep_note("later", True)  # committed behind it
            ...     [value for _, value in LedgerView(ledger._reading, "memory").observations("reward")]
            [{'reward': 0.5}]
        """
        self._commits.submit(partial(insert_observation, kind, value, time.time())).add_done_callback(
            lambda done: done.exception()
        )

    @property
    def count(self) -> int:
        """Calls recorded by all sessions, the failed ones included."""
        with self._damage_named():
            number: int = self._reading.execute("SELECT coalesce(max(id), 0) FROM calls").fetchall()[0][0]
        return number

    def totals(self) -> list[Totals]:
        """Calls, tokens and cost of all sessions, by role and model.

        Example:
            >>> import asyncio
            >>> with Ledger.in_memory() as ledger:
            ...     row = CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, Reply("MET", cost=0.5))
            ...     asyncio.run(ledger.record(row))
            ...     [(total.role, total.calls, total.cost) for total in ledger.totals()]
            [('judge', 1, 0.5)]
        """
        with self._damage_named():
            return totals(self._reading)

    def spent(self) -> Spent:
        """What all sessions have spent, worst cases included: where a budget starts from.

        Example:
            >>> with Ledger.in_memory() as ledger:
            ...     ledger.spent()
            Spent(calls=0, tokens=0, cost=0.0, unpriced=0, lost=0)
        """
        with self._damage_named():
            return spent(self._reading)

    def keep_spent(self, file: SpentFile) -> None:
        """Keep the sums of `spent` in a file as well, from now on."""
        with self._damage_named():
            file.begin(self._reading)
        self._spent_file = file

    def failures(self) -> Iterator[FailedCall]:
        """The calls of all sessions that brought no reply, oldest first, with what the endpoint said.

        Example:
            >>> import asyncio
            >>> from autorubric.llm.request import Failure
            >>> with Ledger.in_memory() as ledger:
            ...     failure = Failure("server", "HTTP 503: overloaded")
            ...     row = CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, failure)
            ...     asyncio.run(ledger.record(row))
            ...     [f"{call.item}: {call.failure}" for call in ledger.failures()]
            ['q1: server: HTTP 503: overloaded']
        """
        with self._damage_named():
            yield from failed_calls(self._reading)

    def close(self) -> None:
        """Commit what is queued and close the file; closing twice is harmless."""
        self._commits.close()
        if self._arrivals is not None:
            self._arrivals.close(remove=not self._commits.is_broken)
        self.departures.close(remove=not self._commits.is_broken)
        self.claims.close()
        if self._spent_file is not None:
            self._spent_file.close()
        self._opened.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, row: CallRow) -> asyncio.Future[Any]:
        # Sealed here: on the writing thread, every step of it would take turns with this one.
        sealed = SealedRow.of(row)
        if self._arrivals is None:
            return self._commits.submit(sealed)
        with self._arrivals.in_order:
            self._arrivals.put(sealed)
            return self._commits.submit(sealed)

    def _set_aside(self, key: bytes, call: int) -> None:
        """Take a reply that is damaged out, and say so; what it cost still counts."""
        with self._damage_named():
            query = "SELECT item, role, model FROM calls WHERE id = ?"
            whose = self._reading.execute(query, (call,)).fetchall() or [("?", "?", "?")]
        self._commits.write(partial(mark_damaged, key, call))
        self._keys.forget(key)
        words = "%s: the reply of call %d (item %r, %s, %s) is damaged; it is set aside and requested again"
        _LOG.warning(words, self._place, call, *whose[0])

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        with damage_named(self._place), corruption_marked(self._folder):
            yield

    def _take_in(self, left: list[Arrival], *, sent: bool = False) -> None:
        """Record what a killed process had not committed, or, where only `sent`, what has no end on record."""
        connection = self._writing
        known = set(connection.execute(_SINCE, (min(one.at for one in left),)))
        ended = dict(sorted(known, key=lambda call: call[1])) if sent else {}
        missing = [one.row() for one in left if (one.key, one.at) not in known and ended.get(one.key, 0) < one.at]
        if missing:
            with unwritten_named(connection):
                together(connection, lambda: insert_rows(connection, missing))

    def _write(self, things: list[SealedRow | Write]) -> list[Inserted | None]:
        """Put a batch into the tables; on the writing thread."""
        with corruption_marked(self._folder):
            return self._written(things)

    def _written(self, things: list[SealedRow | Write]) -> list[Inserted | None]:
        rows = [thing for thing in things if isinstance(thing, SealedRow)]
        calls = iter(insert_rows(self._writing, rows))
        results: list[Inserted | None] = []
        for thing in things:
            if isinstance(thing, SealedRow):
                results.append(Inserted(thing.key, next(calls), thing.is_reply))
            else:
                thing(self._writing)
                results.append(None)
        return results

    def _make_findable(self, results: list[Inserted | None]) -> None:
        """Take the keys of a committed batch in; on the writing thread."""
        calls = [result for result in results if result is not None]
        if self._arrivals is not None:
            self._arrivals.committed(len(calls))
        if self._spent_file is not None and calls:
            self._spent_file.add_committed(self._writing)
        self._keys.add(self._writing, calls)


class _Connections(NamedTuple):
    """An open file: its name, a connection that writes, one that reads, and what is held while it is written."""

    place: str
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    turn: AbstractContextManager[object]


def _connected(directory: Path, opened: ExitStack) -> _Connections:
    path = directory / FILE_NAME
    turn = WriteTurn(directory)
    opened.callback(turn.close)
    with damage_named(str(path)), corruption_marked(directory):
        with turn:
            writing = connect(path)
        opened.callback(_folded, writing, turn)
        reading = connect(path)
        opened.callback(reading.close)
    return _Connections(str(path), writing, reading, turn)


def _recover(path: Path) -> None:
    turn = WriteTurn(path.parent)
    try:
        with damage_named(str(path)), turn:
            if path.with_name(MARK).exists():  # nobody else has done it meanwhile
                recover(path)
    finally:
        turn.close()


def _folded(writing: sqlite3.Connection, turn: WriteTurn) -> None:
    # The last connection to close folds the write-ahead log into the file.
    with turn:
        writing.close()


def _insert_imports(rows: Iterable[ImportRow], connection: sqlite3.Connection) -> None:
    for record, slot, inputs, value in rows:
        sealed = seal(_import_name(record, slot, inputs), value)
        connection.execute("INSERT OR REPLACE INTO imports VALUES (?, ?, ?, ?, ?)", (record, slot, inputs, *sealed))


def _import_name(record: str, slot: str, inputs: bytes) -> bytes:
    return f"{record}\0{slot}\0".encode("utf-8", "surrogatepass") + inputs
