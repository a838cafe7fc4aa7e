"""A ledger looked at from outside: while another process writes it, or after one died over it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from autorubric.errors import InputError, LedgerError, MissingFileError
from autorubric.files.text import size_of_plain
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records.accounts import Spent, Totals, spent, totals
from autorubric.llm.records.ledger import FILE_NAME
from autorubric.llm.records.rows import unseal
from autorubric.llm.records.tables import check_version, damage_named, has_tables

_PACE_SECONDS = 60.0
_PACE_CALLS = 20_000

_RECENT = "SELECT at FROM calls ORDER BY id DESC LIMIT ?"
_TOUCHED = "SELECT count(*), count(DISTINCT item) FROM calls WHERE status = 'ok'"
_ANSWERED = "SELECT count(DISTINCT item) FROM calls WHERE status = 'ok' AND role = ?"
# A failed call counts until the same request was answered: a later session may have asked it again.
_UNANSWERED = """
    WITH late AS MATERIALIZED (
        SELECT key FROM calls WHERE status = 'ok' AND id > (SELECT value FROM meta WHERE name = 'indexed'))
    SELECT status, count(*) FROM (SELECT key, status, max(id) FROM calls WHERE status != 'ok' GROUP BY key) AS failed
    WHERE NOT EXISTS (SELECT 1 FROM replies WHERE replies.key = failed.key)
        AND NOT EXISTS (SELECT 1 FROM late WHERE late.key = failed.key)
    GROUP BY status ORDER BY count(*) DESC, status"""

_UNANSWERED_CALLS = """
    WITH late AS MATERIALIZED (
        SELECT key FROM calls WHERE status = 'ok' AND id > (SELECT value FROM meta WHERE name = 'indexed'))
    SELECT calls.key, item, role, status, data, digest
    FROM (SELECT key, max(id) AS id FROM calls WHERE status != 'ok' GROUP BY key) AS failed
        JOIN calls USING (id) LEFT JOIN payloads USING (id)
    WHERE NOT EXISTS (SELECT 1 FROM replies WHERE replies.key = failed.key)
        AND NOT EXISTS (SELECT 1 FROM late WHERE late.key = failed.key)
    ORDER BY calls.id"""

_OBSERVED = "SELECT id, at, data, digest FROM observations WHERE kind = ? AND id > ? ORDER BY id LIMIT 2000"


class Pace(NamedTuple):
    """How fast calls ended lately.

    Attributes:
        calls_per_second: over the last minute of work, or all of it where there was less; None for less than two.
        last: seconds since the epoch when the last call ended; None where there is none.
    """

    calls_per_second: float | None
    last: float | None


class LedgerView:
    """What a ledger says to somebody who does not own it. Nothing is written, created or locked.

    Example:
        >>> import tempfile
        >>> from autorubric.llm.records.ledger import Ledger
        >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder)):
        ...     with ledger_view(Path(folder)) as view:
        ...         view.spent().calls, view.unanswered(), view.pace()
        (0, {}, Pace(calls_per_second=None, last=None))
    """

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place

    def totals(self) -> list[Totals]:
        """Calls, tokens and cost by role and model."""
        with damage_named(self._place):
            return totals(self._connection)

    def spent(self) -> Spent:
        """Calls, tokens and dollars together, worst cases included."""
        with damage_named(self._place):
            return spent(self._connection)

    def unanswered(self) -> dict[str, int]:
        """Requests that failed and were never answered since, by the kind of their last failure."""
        with damage_named(self._place):
            return dict(self._connection.execute(_UNANSWERED).fetchall())

    def unanswered_groups(self) -> FailureGroups:
        """The same requests by role and cause, with the words of the endpoint."""
        groups = FailureGroups()
        with damage_named(self._place):
            for key, item, role, kind, data, digest in self._connection.execute(_UNANSWERED_CALLS).fetchall():
                try:
                    message = str(unseal(key, data, digest)["message"])
                except (LedgerError, KeyError, TypeError):
                    message = "what the endpoint said is damaged in the ledger"
                groups.add(kind, message, item, role)
        return groups

    def touched(self) -> tuple[int, int]:
        """Answered calls, and the items that they were made for."""
        with damage_named(self._place):
            calls, items = self._connection.execute(_TOUCHED).fetchall()[0]
        return calls, items

    def answered(self, role: str) -> int:
        """Items for which a model that plays `role` has answered."""
        with damage_named(self._place):
            count: int = self._connection.execute(_ANSWERED, (role,)).fetchall()[0][0]
        return count

    def count_observations(self, kind: str) -> int:
        """How many values of a kind were observed."""
        if not self._has_observations():
            return 0
        with damage_named(self._place):
            query = "SELECT count(*) FROM observations WHERE kind = ?"
            count: int = self._connection.execute(query, (kind,)).fetchall()[0][0]
        return count

    def observations(self, kind: str) -> Iterator[tuple[float, Any]]:
        """The values of a kind with their times, in the order in which they were observed, a page at a time."""
        last = 0
        while self._has_observations():
            with damage_named(self._place):
                page = self._connection.execute(_OBSERVED, (kind, last)).fetchall()
            if not page:
                return
            for last, at, data, digest in page:  # noqa: B007 (the next page starts behind it)
                yield at, self._unsealed(kind, data, digest)

    def _unsealed(self, kind: str, data: bytes, digest: bytes) -> Any:
        try:
            return unseal(kind.encode(), data, digest)
        except LedgerError as error:
            raise LedgerError(f"{self._place}: {error}") from error

    def pace(self) -> Pace:
        """How fast calls ended at the end of what is recorded."""
        with damage_named(self._place):
            times = [at for (at,) in self._connection.execute(_RECENT, (_PACE_CALLS,)).fetchall()]
        if not times:
            return Pace(None, None)
        last = times[0]
        # A clock that was set back gives calls from the future; they say nothing about the pace.
        lately = [at for at in times if 0 <= last - at <= _PACE_SECONDS]
        span = last - min(lately)
        return Pace((len(lately) - 1) / span if span > 0 else None, last)

    def _has_observations(self) -> bool:
        with damage_named(self._place):
            query = "SELECT 1 FROM sqlite_master WHERE name = 'observations'"
            return bool(self._connection.execute(query).fetchall())


@contextmanager
def ledger_view(directory: Path) -> Iterator[LedgerView]:
    """The ledger in `directory`, opened for reading only, write-ahead log included.

    Raises:
        MissingFileError: there is none, or nothing was written to it yet.
        InputError: it is damaged, or another version wrote it, or something else stands there. Whoever only looks
            at a ledger has it for input.
    """
    path = directory / FILE_NAME
    size_of_plain(path, what="Ledger")
    try:
        with damage_named(str(path)), closing(opened_to_look(path)) as connection:
            if not has_tables(connection, str(path)):
                raise MissingFileError(f"{path}: nothing is recorded in it yet")
            check_version(connection, str(path))
            yield LedgerView(connection, str(path))
    except LedgerError as error:
        raise InputError(str(error)) from error


def opened_to_look(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, not even the files that go with a write-ahead log."""
    # Where there is no log nobody has the file open. Then a look must not make one: on a disk that is read-only it
    # could not, and the files that it leaves would be its own user's, in the way of the run's.
    how = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    uri = f"{path.resolve().as_uri()}?mode=ro{how}"
    return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)


def seconds_since(moment: float) -> float:
    """Seconds from a moment of the system's clock to now; 0 for one in the future.

    Example:
        >>> seconds_since(time.time() + 60)
        0.0
    """
    return max(0.0, time.time() - moment)
