"""Read-only access to a ledger that another process may be writing."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from autorubric.errors import InputError, LedgerError, MissingFileError
from autorubric.files.text import check_file
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records import database
from autorubric.llm.records.accounts import Spending, UsageTotals, read_spending
from autorubric.llm.records.call_rows import READ_COLUMNS, CallRow, is_whole, read_call, unpack_reply, unseal
from autorubric.llm.records.crash_logs import record_logs
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.request import Reply, Usage

_LOG = logging.getLogger("autorubric.ledger")

OBSERVED_BEFORE = "observed_before"
"""The note that contains the number of the last observation of a run that was replaced."""

_PACE_SECONDS = 60.0
_PACE_CALLS = 20_000

_TOTALS = """
    SELECT at >= ? AS is_now,
        role, model, count(*), sum(status != 'ok'), total(prompt_tokens), total(completion_tokens),
        total(cached_tokens), total(reasoning_tokens), total(cost),
        sum(cost IS NULL AND (status = 'ok' OR (cost_bound IS NULL AND ifnull(token_bound, 0) > 0))),
        sum(status = 'ok' AND prompt_tokens IS NULL), CAST(total(token_bound) AS INTEGER), total(cost_bound)
    FROM calls GROUP BY role, model, is_now ORDER BY role, model, is_now"""
# Calls that were abandoned at the end of a run have all ended at once.
_RECENT = "SELECT at FROM calls WHERE status != 'stopped' ORDER BY id DESC LIMIT ?"
_TOUCHED = "SELECT count(*), count(DISTINCT item) FROM calls WHERE status = 'ok'"
_ANSWERED = "SELECT count(DISTINCT item) FROM calls WHERE status = 'ok' AND role = ?"
# A failed call counts until the same request has a reply: a later session may have sent it again.
_UNANSWERED = f"""
    WITH late AS MATERIALIZED (
        SELECT key FROM calls WHERE status = 'ok' AND id > (SELECT value FROM meta WHERE name = 'indexed'))
    SELECT calls.{READ_COLUMNS}
    FROM (SELECT key, max(id) AS id FROM calls WHERE status != 'ok' GROUP BY key) AS failed
        JOIN calls USING (id) LEFT JOIN payloads USING (id)
    WHERE NOT EXISTS (SELECT 1 FROM replies WHERE replies.key = failed.key)
        AND NOT EXISTS (SELECT 1 FROM late WHERE late.key = failed.key) ORDER BY calls.id"""

_WORST_CASES = "SELECT total(token_bound), total(cost_bound) FROM calls WHERE status != 'ok'"

_REPLY = """
    SELECT data, digest FROM payloads WHERE id = (
        SELECT coalesce(
            (SELECT call FROM replies WHERE key = ?),
            (SELECT min(id) FROM calls WHERE key = ? AND status = 'ok'
                AND id > (SELECT value FROM meta WHERE name = 'indexed'))))"""
_OBSERVED = "CAST(kind AS BLOB), CAST(data AS BLOB), CAST(digest AS BLOB) FROM observations WHERE"
_FIRST_OBSERVED = f"""
    SELECT {_OBSERVED} id IN (SELECT min(id) FROM observations WHERE id > ? GROUP BY CAST(kind AS BLOB))"""
_CALLS = f"SELECT {READ_COLUMNS} FROM calls LEFT JOIN payloads USING (id) WHERE {{}} = ? ORDER BY calls.id"


class CallPace(NamedTuple):
    """Calls per second over the last minute of work (None for fewer than two calls), and when the last call ended."""

    calls_per_second: float | None
    last: float | None


session_began: ContextVar[float | None] = ContextVar("session_began", default=None)
"""When the session began, in seconds since the epoch; None outside a `session`."""


@contextmanager
def session() -> Iterator[None]:
    """Count all ledgers that are opened in the block as of one session."""
    token = session_began.set(session_began.get() or time.time())
    try:
        yield
    finally:
        session_began.reset(token)


@dataclass(eq=False, repr=False)
class LedgerView:
    """A read-only view of a ledger that another process writes, or left behind when it crashed.

    Attributes:
        began: when the session began, in seconds since the epoch; None where there is none.
        folder: of the file; None in memory.
    """

    _connection: sqlite3.Connection
    _place: str
    folder: Path | None = None
    began: float | None = None
    # While statements of threads overlap, all of them read an old state.
    _reading: Any = field(default_factory=threading.RLock)
    _base: LedgerView | None = None  # the ledger of the run, where several processes have each their own

    def _query(self, query: str, *values: object) -> list[Any]:
        with database.translate_read_errors(self._place, self.folder), self._reading:
            return self._connection.execute(query, values).fetchall()

    def freeze(self) -> None:
        """Answer all later queries from one state of the ledger, without what is recorded afterwards."""
        self._query("BEGIN")

    def add_up(self) -> list[UsageTotals]:
        """Calls, tokens and cost of all sessions, by role and model."""
        found: dict[tuple[str, str], UsageTotals] = {}
        for is_now, role, model, calls, failed, *sums in self._query(_TOTALS, self.began):
            totals = UsageTotals(role, model, calls, failed, Usage(*map(int, sums[:4])), *sums[4:])
            before = found.get((role, model))
            if before is not None:
                totals = replace(before.plus(totals), now=totals)
            elif not is_now and self.began is not None:
                totals = replace(totals, now=UsageTotals(role, model, 0, 0, Usage(), 0.0, 0))
            found[role, model] = totals
        return list(found.values())

    def sum_spent(self, role: str | None = None) -> Spending:
        """What all sessions have spent, worst cases included; of one role without calls whose records are lost."""
        with database.translate_read_errors(self._place, self.folder):
            return read_spending(self._connection, role=role)[1]

    def sum_worst_cases(self) -> Spending:
        """The part of what was spent that calls without a reply may have cost, such as those in flight at a kill."""
        tokens, cost = self._query(_WORST_CASES)[0]
        return Spending(tokens=int(tokens), cost=cost)

    @contextmanager
    def open_unrecorded(self, directory: Path) -> Iterator[LedgerView]:
        """A view of the calls in the logs of killed processes, which the next session records; changes no file."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
            database.create_tables(memory, ":memory:")
            with database.translate_read_errors(self._place, self.folder):
                record_logs(self._connection, directory, None, memory)
            yield LedgerView(memory, ":memory:")

    def group_unanswered(self) -> FailureGroups:
        """Requests that failed and have no reply yet, by role and cause, with the endpoint's messages."""
        groups = FailureGroups()
        for call in map(read_call, self._query(_UNANSWERED)):
            assert call.failure is not None
            groups.add(call.failure.kind, call.failure.message, call.item, call.role)
        return groups

    def count_replies(self) -> tuple[int, int]:
        """Return the number of calls with a reply, and of their items."""
        [(calls, items)] = self._query(_TOUCHED)
        return calls, items

    def count_answered_items(self, role: str) -> int:
        """Return the number of items with a reply of a model in this role."""
        return int(self._query(_ANSWERED, role)[0][0])

    def find_reply(self, key: bytes) -> Reply | None:
        """Return the recorded reply under a key, or None; one that is damaged counts as missing."""
        found = self._query(_REPLY, key, key)
        try:
            return unpack_reply(unseal(key, *found[0]), fresh=False) if found else None
        except LedgerError:
            return None

    def find_note(self, name: str) -> Any:
        """Return the value stored under a name, or None."""
        with database.translate_read_errors(self._place, self.folder), self._reading:
            found = database.read_note(self._connection, name)
        return self._base.find_note(name) if found is None and self._base is not None else found

    def read_calls_about(self, item: str) -> list[CallRow]:
        """Return all calls about an item, in the order in which they ended."""
        return self._read_calls("item", item)

    def read_calls_with_key(self, key: bytes) -> list[CallRow]:
        """Return all calls of one request, failed ones included, in the order in which they ended."""
        return self._read_calls("key", key)

    def _read_calls(self, column: str, value: Any) -> list[CallRow]:
        return [read_call(row) for row in self._query(_CALLS.format(column), value)]

    def count_observations(self, kind: str) -> int:
        """Return the number of observations of a kind."""
        query = "SELECT count(*) FROM observations WHERE kind = ? AND id > ?"
        return int(self._query(query, kind, self._find_last_replaced())[0][0])

    def list_observations(self, kind: str) -> Iterator[tuple[float, Any]]:
        """Yield the observations of a kind since the run was last replaced, with their times, a page at a time.

        A damaged one is left out, with a warning. One whose kind is damaged is found by the digest, which covers it.
        """
        name, damaged, last = kind.encode(), 0, self._find_last_replaced()
        firsts = self._query(_FIRST_OBSERVED, last)
        kinds = [name, *(other for other, *sealed in firsts if not is_whole(other, *sealed))]
        marks = ", ".join("?" * len(kinds))
        query = f"SELECT id, at, {_OBSERVED} CAST(kind AS BLOB) IN ({marks}) AND id > ? ORDER BY id LIMIT 2000"
        while page := self._query(query, *kinds, last):
            for last, at, stored, data, digest in page:  # noqa: B007 (the next page starts there)
                if is_whole(name, data, digest):
                    yield at, unseal(name, data, digest)
                else:
                    damaged += stored == name
        if damaged:
            message = "%s: damaged and left out: recorded values of the kind %r (%d)"
            _LOG.warning(message, self._place, kind, damaged)

    def measure_pace(self) -> CallPace:
        """Return the pace of calls at the end of the ledger."""
        times = [at for (at,) in self._query(_RECENT, _PACE_CALLS)]
        if not times:
            return CallPace(None, None)
        last = times[0]
        # Calls from the future come from a clock that was set back; ignore them.
        lately = [at for at in times if 0 <= last - at <= _PACE_SECONDS]
        span = last - min(lately)
        return CallPace((len(lately) - 1) / span if span > 0 else None, last)

    def _find_last_replaced(self) -> int:
        return int(self.find_note(OBSERVED_BEFORE) or 0)


@contextmanager
def ledger_view(directory: Path) -> Iterator[LedgerView]:
    """The ledger in `directory`, opened read-only; an `InputError` if it is missing, damaged or another version's."""
    path = directory / LEDGER_FILE
    check_file(path, what="Ledger")
    try:
        with database.translate_read_errors(str(path)), closing(connect_read_only(path)) as connection:
            if not database.has_tables(connection, str(path)):
                raise MissingFileError(f"{path}: nothing is recorded in it yet")
            database.check_version(connection, str(path))
            yield LedgerView(connection, str(path))
    except LedgerError as error:
        raise InputError(str(error)) from error


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that creates and writes no file, not even those of a write-ahead log."""
    # Without a log nobody has the file open, and reading must not create one: it would fail on a read-only disk, or
    # leave files of another user in the way of the run's.
    how = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    uri = f"{path.resolve().as_uri()}?mode=ro{how}"
    return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)


def count_seconds_since(moment: float) -> float:
    """Seconds from a time of the system clock to now; 0 for one in the future."""
    return max(0.0, time.time() - moment)
