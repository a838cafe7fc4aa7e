"""Every paid reply, durable before anything is computed from it: to resume, run the same command again."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.errors import LedgerError
from autorubric.llm.records import database
from autorubric.llm.records.accounts import SpendingFile, price_calls
from autorubric.llm.records.call_rows import (
    READ_COLUMNS,
    CallRow,
    SealedRow,
    is_whole,
    read_call,
    unpack_reply,
    unseal,
)
from autorubric.llm.records.commits import GroupCommit
from autorubric.llm.records.crash_logs import InFlightLog, UncommittedLog, record_logs
from autorubric.llm.records.key_index import KeyIndex
from autorubric.llm.records.ledger_view import OBSERVED_BEFORE, LedgerView, ledger_view, session_began
from autorubric.llm.records.lock import LEDGER_FILE, Claims, WriteLock, create_private_file
from autorubric.llm.request import Model, Reply, Usage
from autorubric.llm.sharing import sharing

Write: TypeAlias = Callable[[sqlite3.Connection], None]

_LOG = logging.getLogger("autorubric.ledger")

_REPLIES = "SELECT key, data, digest FROM calls LEFT JOIN payloads USING (id) WHERE status = 'ok'"
_FAILED = f"""
    SELECT id, {READ_COLUMNS} FROM calls JOIN payloads USING (id)
    WHERE status NOT IN ('ok', 'damaged') AND id > ? ORDER BY id LIMIT 500"""

LINGER = 0.02
"""Seconds a commit waits for more calls when calls are frequent."""


class Ledger(LedgerView, AbstractContextManager["Ledger"]):
    """The record of a run's model calls: one SQLite file, one writer thread.

    `find` and the methods of a view read on the caller's thread. A reply is a hit once `record` returns, now and in
    every later session; a reply that a killed process had received is a hit in the next session. Damage is a
    `LedgerError`, never a wrong reply.

    Attributes:
        folder: of the file; None in memory.
        in_flight: what calls in flight may cost.
        claims: of requests under way; None if no other process uses the ledger.

    Example:
        >>> import asyncio
        >>> with Ledger.in_memory() as ledger:
        ...     row = CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, Reply("MET", cost=0.5))
        ...     asyncio.run(ledger.record(row))
        ...     ledger.find(b"k" * 16).text, ledger.find(b"?" * 16), ledger.count
        ('MET', None, 1)
    """

    def __init__(
        self, directory: Path | None, *, linger: float = LINGER, shared: bool = False, logs: Path | None = None
    ) -> None:
        turn: AbstractContextManager[object] = nullcontext()
        with ExitStack() as opened:
            if directory is None:
                place = "the ledger in memory"
                self._writing = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                reading = opened.enter_context(closing(self._writing))
            else:
                place = str(directory / LEDGER_FILE)
                turn = opened.enter_context(closing(WriteLock(directory)))
                with database.translate_read_errors(place, directory):
                    with turn:
                        self._writing = database.connect(directory / LEDGER_FILE)
                    opened.callback(_close_writing, self._writing, turn)
                    reading = opened.enter_context(closing(database.connect(directory / LEDGER_FILE)))
            super().__init__(reading, place, directory)
            with database.translate_read_errors(place, directory), turn:
                database.create_tables(self._writing, place)
                if directory is not None:
                    record_logs(self._writing, directory, logs)
                self._keys = KeyIndex(self._writing)
            base = sharing.get() if directory is not None else None
            if base is not None and base.base is not None:
                self._base = opened.enter_context(ledger_view(base.base))
            self._opened = opened.pop_all()
        logged = logs if shared else directory
        self._uncommitted = UncommittedLog(logged or Path(), is_open=logged is not None)
        self.in_flight = InFlightLog(logged or Path(), is_open=logged is not None)
        self.claims = Claims(directory) if shared and directory is not None else None
        self._path = directory and os.path.abspath(directory / LEDGER_FILE)  # noqa: PTH100 - kept as a string
        self._is_shared, self._read_at = shared, -1
        self._spent_file: SpendingFile | None = None
        self.began = session_began.get() or time.time()
        self._commits = GroupCommit(self._commit, turn, linger=linger)

    @classmethod
    def open(
        cls, directory: Path, *, linger: float = LINGER, shared: bool = False, logs: Path | None = None
    ) -> Ledger:
        """Open the ledger of a run directory; a new one is readable by its owner only.

        Args:
            directory: the run directory; on a local disk, because network filesystems lose locks and syncs.
            linger: the longest wait, in seconds, for more calls to share a commit when calls are frequent.
            shared: other processes may have the ledger open; what they record is found.
            logs: a folder of this process alone for its crash logs, where the ledger is shared.

        Raises:
            InputError: the directory cannot be created or written, or is on a network filesystem.
            LedgerError: the ledger is damaged, or another version wrote it.
        """
        path = create_private_file(directory, LEDGER_FILE)
        if (directory / database.MARK).exists():
            _recover(path)
        try:
            return cls(directory, linger=linger, shared=shared, logs=logs)
        except LedgerError:
            if not (directory / database.MARK).exists():
                raise
        _recover(path)
        return cls(directory, linger=linger, shared=shared, logs=logs)

    @classmethod
    def in_memory(cls) -> Ledger:
        """Return a ledger in memory, for callers without a run directory."""
        return cls(None, linger=0.0)

    def check_writable(self) -> None:
        """Raise a `LedgerError` if nothing more can be recorded, so that no call is made either."""
        if self._commits.unusable is not None:
            raise LedgerError(self._commits.unusable)

    def find(self, key: bytes) -> Reply | None:
        """Return the recorded reply under `key`, or None; it is `fresh` if this session paid for it."""
        self.check_writable()
        try:
            with self._reading:
                found = self._keys.find(self._connection, key)
                # Other processes may have recorded replies since.
                if found is None and self._read_at != (version := self.version):
                    self._keys.catch_up(self._connection)
                    self._read_at, found = version, self._keys.find(self._connection, key)
        except sqlite3.Error as error:
            database.refuse_reading(error, self._place, self.folder)
        if found is None:
            return None if self._base is None else self._base.find_reply(key)
        try:
            value = unseal(key, found.data, found.digest)
        except LedgerError:
            self._set_aside(key, found.call)
            return None
        return unpack_reply(value, fresh=self._keys.is_fresh(found.call))

    def was_asked(self, item: str, role: str, model: str) -> bool:
        """Return whether an earlier session called a model in a role about an item."""
        calls = [*self.read_calls_about(item), *(() if self._base is None else self._base.read_calls_about(item))]
        return any((call.role, call.model) == (role, model) and call.at < (self.began or 0.0) for call in calls)

    def begin_session(self) -> None:
        """Count all replies as those of an earlier session, so that unreadable ones are requested again."""
        self._keys.forget_fresh()

    async def record(self, row: CallRow) -> None:
        """Return when `row` is on the disk; a `LedgerError` if it cannot be written, and for all later rows."""
        await self.queue(row)

    def queue(self, row: CallRow) -> asyncio.Future[None]:
        """Queue `row`; the future ends as `record` does."""
        # Packed here: on the writer thread, each step would compete with this thread for the interpreter.
        sealed = SealedRow.pack(row)
        with self._uncommitted.in_order:
            self._uncommitted.put(sealed)
            return self._commits.submit(sealed)

    def record_imports(self, rows: Iterable[database.ImportRow]) -> None:
        """Record values from another pipeline's files, replacing earlier imports of the same slots."""
        self._commits.write(partial(database.insert_imports, rows))

    def find_import(self, record: str, slot: str, inputs: bytes = b"") -> tuple[bytes, Any] | None:
        """The inputs' digest and the value imported for a slot with these inputs, else for the slot of the record."""
        self.check_writable()
        query = "SELECT record, inputs, data, digest FROM imports WHERE slot = ? AND"
        found = self._query(f"{query} record = ?", slot, record)
        if not found or found[0][1] != inputs:  # one OR of both would sort all rows that have these inputs
            found = self._query(f"{query} inputs = ? LIMIT 1", slot, inputs) or found
        if not found:
            return None
        own_record, own_inputs, data, digest = found[0]
        try:
            return own_inputs, unseal(database.name_import(own_record, slot, own_inputs), data, digest)
        except LedgerError:
            _LOG.warning("%s: the imported %s of %r is damaged; it is requested again", self._place, slot, record)
            return None

    def set_costs(self, models: Iterable[Model]) -> None:
        """Set the cost of recorded calls whose model had no known price until now."""
        prices = {model.name: model.cost for model in models if model.cost(Usage(1, 1)) is not None}
        if prices and self.sum_spent().unpriced:
            self._commits.write(partial(price_calls, prices))
            if self._spent_file is not None:
                with suppress(OSError):
                    self._spent_file.update(self._connection, whole=True)

    def keep_note(self, name: str, value: Any, merge: Callable[[Any, Any], Any] | None = None) -> None:
        """Store a JSON value durably under a name: `value`, or `merge` of the previous value and this one."""
        self._commits.write(partial(database.insert_note, name, value, merge=merge))

    @property
    def version(self) -> int:
        """A number that changes with every commit of any process; -1 if no other process uses the ledger."""
        return int(self._query("PRAGMA data_version")[0][0]) if self._is_shared else -1

    def observe(self, kind: str, value: Any) -> None:
        """Queue a JSON value seen during the run, after those of its kind, without waiting."""
        write = partial(database.insert_observation, kind, value, time.time())
        self._commits.submit(write, awaited=False).add_done_callback(lambda done: done.exception())

    def flush(self) -> None:
        """Wait until what was queued so far is on the disk."""
        self._commits.write(lambda connection: None)

    def begin_observations(self) -> None:
        """Let readers skip what was observed so far; it stays in the file."""
        self.keep_note(OBSERVED_BEFORE, self._query("SELECT coalesce(max(id), 0) FROM observations")[0][0])

    @property
    def count(self) -> int:
        """Calls recorded by all sessions, failed ones included."""
        return int(self._query("SELECT coalesce(max(id), 0) FROM calls")[0][0])

    @property
    def is_intact(self) -> bool:
        """Whether every recorded reply matches its digest; reads all of them."""
        with database.translate_read_errors(self._place, self.folder):
            return all(is_whole(*row) for row in self._connection.execute(_REPLIES))

    def keep_spending(self, path: Path) -> None:
        """Also write what was spent to a file from now on."""
        with database.translate_read_errors(self._place, self.folder):
            self._spent_file = SpendingFile(path, self._connection)

    def read_failures(self) -> Iterator[CallRow]:
        """Yield the calls of all sessions without a reply, oldest first, with the endpoint's message."""
        last = 0
        # Whole pages: an open cursor would block checkpoints of the write-ahead log.
        while page := self._query(_FAILED, last):
            for last, *row in page:  # noqa: B007 (the next page starts there)
                yield read_call(row)

    def close(self) -> None:
        """Commit what is queued and close the file; closing twice is harmless."""
        self._commits.close()
        self.in_flight.close(remove=self._commits.broken is None)
        self._uncommitted.close(remove=self._commits.broken is None)
        if self.claims is not None:
            self.claims.close()
        if self._spent_file is not None:
            self._spent_file.close()
        self._opened.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_aside(self, key: bytes, call: int) -> None:
        """Remove a damaged reply and log it; its cost still counts."""
        whose = self._query("SELECT item, role, model FROM calls WHERE id = ?", call) or [("?", "?", "?")]
        self._commits.write(partial(database.mark_damaged, key, call))
        self._keys.forget(key)
        message = "%s: the reply of call %d (item %r, %s, %s) is damaged; it is set aside and requested again"
        _LOG.warning(message, self._place, call, *whose[0])

    def _commit(self, things: list[SealedRow | Write]) -> None:
        """Write a batch in one transaction, and let its replies be found from then on; on the writer thread."""
        rows = [thing for thing in things if isinstance(thing, SealedRow)]
        with database.transaction(self._writing, self.folder):
            calls = database.insert_rows(self._writing, rows)
            for thing in things:
                if not isinstance(thing, SealedRow):
                    thing(self._writing)
        if self._path is not None:
            try:
                os.stat(self._path)  # noqa: PTH116 - at each commit; SQLite also writes to a file that was deleted
            except FileNotFoundError:
                raise LedgerError(f"{self._place} was removed or moved; new replies cannot be saved") from None
        if rows:
            self._uncommitted.committed += len(rows)
            if self._spent_file is not None:
                with suppress(OSError):
                    self._spent_file.update(self._writing)
            self._keys.add(self._writing, rows, calls)


def _recover(path: Path) -> None:
    with closing(WriteLock(path.parent)) as turn, database.translate_read_errors(str(path)), turn:
        if path.with_name(database.MARK).exists():  # no other process has recovered it meanwhile
            database.recover_ledger(path)


def _close_writing(writing: sqlite3.Connection, turn: AbstractContextManager[object]) -> None:
    # The last connection to close checkpoints the write-ahead log.
    with turn:
        writing.close()
