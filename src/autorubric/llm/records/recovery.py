"""What can still be read of a damaged ledger, in a new file; the damaged one is kept."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from autorubric.llm.records.rows import CALL_COLUMNS, DAMAGED, digest_of
from autorubric.llm.records.tables import CORRUPT, START_OVER, UnreadableLedgerError, connect, prepare

MARK = "ledger.damaged"
"""A file that a process leaves when SQLite finds the ledger malformed: the next one that opens it recovers it."""

_LOG = logging.getLogger("autorubric.ledger")
_OTHERS = (("imports", 5, "1"), ("meta", 2, "name LIKE 'note:%'"))
_BEYOND = 10_000
"""Numbers without a readable row after which no more rows are expected, where the last number cannot be read."""


@contextlib.contextmanager
def corruption_marked(folder: Path | None) -> Iterator[None]:
    """Leave the mark in the ledger's folder when SQLite finds the file malformed; the error goes on."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if folder is not None and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in CORRUPT:
            with contextlib.suppress(OSError):
                (folder / MARK).touch(0o600)
        raise


def recover(path: Path) -> None:
    """Replace the ledger at `path` by one with every row that can be read; keep the damaged file next to it.

    A call whose reply is damaged keeps its tokens and cost, and is requested again.

    Raises:
        LedgerError: no reply can be read; the file stays as it is.
    """
    fresh = path.with_name(f"{path.name}.recovered")
    _remove(fresh)
    with contextlib.closing(connect(fresh)) as target:
        prepare(target, str(fresh))
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as source:
                kept, damaged = _copied(source, target)
        except sqlite3.Error as error:
            kept, damaged, problem = 0, 0, str(error)
        else:
            problem = "no row is whole"
    if kept == damaged:
        _remove(fresh)
        raise UnreadableLedgerError(
            f"{path} is damaged and no reply in it can be read ({problem}); restore it from a copy, or, in a run "
            f"directory, {START_OVER}"
        )
    aside = _moved_aside(path)
    fresh.rename(path)
    path.with_name(MARK).unlink(missing_ok=True)
    _LOG.warning(
        "%s was damaged: %d calls were recovered, %d of them without their reply, which is requested again; "
        "calls that could not be read are requested again too; the damaged file is kept as %s",
        path,
        kept,
        damaged,
        aside.name,
    )


def set_aside(path: Path) -> None:
    """Move a ledger that cannot be read out of the way."""
    aside = _moved_aside(path)
    path.with_name(MARK).unlink(missing_ok=True)
    _LOG.warning("%s cannot be read and is kept as %s; a new ledger is started", path, aside.name)


def _moved_aside(path: Path) -> Path:
    aside = next(p for n in count(1) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    path.rename(aside)
    _remove(path)
    return aside


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copied(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[int, int]:
    """How many calls were copied, and how many of them without their reply."""
    kept = damaged = 0
    target.execute("BEGIN IMMEDIATE")
    for number, columns in _rows(source, "calls", CALL_COLUMNS):
        data, digest = _one(source, "SELECT data, digest FROM payloads WHERE id = ?", number) or (None, None)
        whole = data is not None and digest_of(columns[0], data) == digest
        values = columns if whole else _without_reply(columns)
        marks = ", ".join("?" * (len(values) + 1))
        target.execute(f"INSERT INTO calls(id, {CALL_COLUMNS}) VALUES ({marks})", (number, *values))
        if whole:
            target.execute("INSERT INTO payloads VALUES (?, ?, ?)", (number, data, digest))
        kept, damaged = kept + 1, damaged + (not whole)
    for number, values in _rows(source, "observations", "kind, at, data, digest"):
        target.execute("INSERT INTO observations VALUES (?, ?, ?, ?, ?)", (number, *values))
    for table, width, rows in _OTHERS:
        with contextlib.suppress(sqlite3.DatabaseError):
            for row in source.execute(f"SELECT * FROM {table} WHERE {rows}"):
                target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * width)})", row)
    target.execute("COMMIT")
    return kept, damaged


def _without_reply(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    place = CALL_COLUMNS.split(", ").index("status")
    return (*columns[:place], DAMAGED, *columns[place + 1 :])


def _rows(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Each row that can be read by its number."""
    last = _one(source, f"SELECT max(id) FROM {table} WHERE 0 < ?", 1)
    end = None if last is None else last[0] or 0
    number, found = 0, 0
    while (number := number + 1) <= (found + _BEYOND if end is None else end):
        row = _one(source, f"SELECT {columns} FROM {table} WHERE id = ?", number)
        if row is not None:
            found = number
            yield number, row


def _one(source: sqlite3.Connection, query: str, number: int) -> tuple[Any, ...] | None:
    try:
        rows = source.execute(query, (number,)).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None
    return rows[0] if rows else None
