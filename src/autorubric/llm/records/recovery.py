"""Copy what is readable of a damaged ledger to a new file; the damaged file is kept."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from autorubric.llm.records.call_rows import CALL_COLUMNS, DAMAGED, compute_digest
from autorubric.llm.records.database import CORRUPT, START_OVER, UnreadableLedgerError, connect, prepare

MARK = "ledger.damaged"
"""Created when SQLite finds the ledger malformed: the next process that opens the ledger recovers it."""

_LOG = logging.getLogger("autorubric.ledger")
_OTHERS = (("imports", 5, "1"), ("meta", 2, "name LIKE 'note:%'"))
_BEYOND = 10_000
"""Gap in the numbers after which no more rows are expected, where the last number is unreadable."""


@contextlib.contextmanager
def mark_corruption(folder: Path | None) -> Iterator[None]:
    """Mark the ledger's directory when SQLite finds the file malformed; the error propagates."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if folder is not None and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in CORRUPT:
            with contextlib.suppress(OSError):
                (folder / MARK).touch(0o600)
        raise


def recover(path: Path) -> None:
    """Replace the ledger by a new one with every readable row, and keep the damaged file next to it.

    A call whose reply is damaged keeps its tokens and cost, and is requested again. Where no reply can be read, the
    file stays and a `LedgerError` is raised.
    """
    fresh = path.with_name(f"{path.name}.recovered")
    _remove(fresh)
    with contextlib.closing(connect(fresh)) as target:
        prepare(target, str(fresh))
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as source:
                kept, damaged = _copy_rows(source, target)
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
    aside = _move_aside(path)
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
    """Rename a ledger that cannot be read, so that a new one can be started."""
    aside = _move_aside(path)
    path.with_name(MARK).unlink(missing_ok=True)
    _LOG.warning("%s cannot be read and is kept as %s; a new ledger is started", path, aside.name)


def _move_aside(path: Path) -> Path:
    aside = next(p for n in count(1) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    path.rename(aside)
    _remove(path)
    return aside


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[int, int]:
    """How many calls were copied, and how many of them without their reply."""
    kept = damaged = 0
    target.execute("BEGIN IMMEDIATE")
    for number, columns in _read_rows(source, "calls", CALL_COLUMNS):
        data, digest = _read_row(source, "SELECT data, digest FROM payloads WHERE id = ?", number) or (None, None)
        whole = data is not None and compute_digest(columns[0], data) == digest
        values = columns if whole else _without_reply(columns)
        marks = ", ".join("?" * (len(values) + 1))
        target.execute(f"INSERT INTO calls(id, {CALL_COLUMNS}) VALUES ({marks})", (number, *values))
        if whole:
            target.execute("INSERT INTO payloads VALUES (?, ?, ?)", (number, data, digest))
        kept, damaged = kept + 1, damaged + (not whole)
    for number, values in _read_rows(source, "observations", "kind, at, data, digest"):
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


def _read_rows(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Each readable row with its number."""
    last = _read_row(source, f"SELECT max(id) FROM {table} WHERE 0 < ?", 1)
    end = None if last is None else last[0] or 0
    number, found = 0, 0
    while (number := number + 1) <= (found + _BEYOND if end is None else end):
        row = _read_row(source, f"SELECT {columns} FROM {table} WHERE id = ?", number)
        if row is not None:
            found = number
            yield number, row


def _read_row(source: sqlite3.Connection, query: str, number: int) -> tuple[Any, ...] | None:
    try:
        rows = source.execute(query, (number,)).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None
    return rows[0] if rows else None
