"""The ledger's SQLite file: schema, version, connections, reads and writes, and recovery from damage."""

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from autorubric.errors import LedgerError
from autorubric.files.descriptors import TOO_MANY_FILES, can_open_more
from autorubric.llm.records.call_rows import CALL_COLUMNS, DAMAGED, SealedRow, is_whole, seal

VERSION = 1
CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""SQLite error codes for a file with damaged content."""

START_OVER = (
    "request everything again with --start-over (in Python: start_over=True), which keeps the file under another name"
)

_LONGEST_PATH = 500
"""Bytes of a path up to which SQLite opens a file and those next to it; its limit is 512."""

_FILES = 8
"""Maximum files of two connections: database, write-ahead log, its index and a journal each."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS calls(
        id INTEGER PRIMARY KEY, key BLOB NOT NULL, item TEXT, role TEXT, model TEXT, draw INTEGER,
        reask INTEGER, status TEXT NOT NULL, http_status INTEGER, attempts INTEGER, prompt_tokens INTEGER,
        completion_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER, cost REAL,
        cost_bound REAL, token_bound INTEGER, latency REAL, at REAL)""",
    "CREATE TABLE IF NOT EXISTS payloads(id INTEGER PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS replies(key BLOB PRIMARY KEY, call INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS imports(
        record TEXT, slot TEXT, inputs BLOB, data BLOB NOT NULL, digest BLOB NOT NULL,
        PRIMARY KEY(record, slot)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS imported ON imports(inputs)",
    """CREATE TABLE IF NOT EXISTS observations(
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, at REAL, data BLOB NOT NULL, digest BLOB NOT NULL)""",
    f"INSERT OR IGNORE INTO meta VALUES ('version', {VERSION}), ('indexed', 0)",
)


_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite error codes for a disk without room: reading needs an index of the write-ahead log."""

_UNREADABLE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY})
"""SQLite error codes for a writable file with damaged header bytes."""


class UnreadableLedgerError(LedgerError):
    """The file contains no ledger that this version reads; a new one can be started without its replies."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode whose commits survive a power cut, for one thread at a time."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    try:
        # On macOS only F_FULLFSYNC reaches the disk; elsewhere the pragma does nothing.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def create_tables(connection: sqlite3.Connection, place: str) -> None:
    """Create the tables, unless another version or another program owns the file (`LedgerError`)."""
    if has_tables(connection, place):
        check_version(connection, place)
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute("COMMIT")


def has_tables(connection: sqlite3.Connection, place: str) -> bool:
    """Return whether a file has the tables of a ledger; False for a new file, `LedgerError` for another program's."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
    if names and "meta" not in names:
        raise UnreadableLedgerError(
            f"{place} is another program's database; move it away, or use another run directory"
        )
    return bool(names)


def check_version(connection: sqlite3.Connection, place: str) -> None:
    """Raise a `LedgerError` for a file of another version."""
    [version] = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone() or (None,)
    if version != VERSION:
        raise UnreadableLedgerError(
            f"{place} has version {version}, and this autorubric reads version {VERSION}; "
            "use the autorubric that wrote it, or start in a new run directory"
        )


MARK = "ledger.damaged"
"""Created when SQLite finds the ledger malformed: the next process that opens the ledger recovers it."""


def mark_corruption(folder: Path | None, error: BaseException | None) -> None:
    """Mark the ledger's directory if `error` means that the file is malformed."""
    if folder is not None and _find_code(error) in CORRUPT:
        with contextlib.suppress(OSError):
            (folder / MARK).touch(0o600)


def _find_code(error: BaseException | None) -> int:
    """SQLite's primary error code; 0 for any other error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextlib.contextmanager
def translate_read_errors(place: str, folder: Path | None = None) -> Iterator[None]:
    """Turn SQLite's errors about a broken file into a `LedgerError` with advice, and mark `folder` for recovery."""
    try:
        yield
    except sqlite3.Error as error:
        refuse_reading(error, place, folder)


def refuse_reading(error: sqlite3.Error, place: str, folder: Path | None) -> NoReturn:
    """Raise the `LedgerError` for a file that cannot be read, and mark `folder` for recovery if it is malformed."""
    mark_corruption(folder, error)
    code = _find_code(error)
    if getattr(error, "sqlite_errorcode", 0) in _FULL:
        raise build_write_error(sqlite3.OperationalError("the disk is full")) from error
    if code == sqlite3.SQLITE_CANTOPEN and not can_open_more(_FILES):
        raise LedgerError(f"{place} cannot be opened: {TOO_MANY_FILES}") from error
    if code == sqlite3.SQLITE_CANTOPEN and len(os.fsencode(Path(place).absolute())) > _LONGEST_PATH:
        raise LedgerError(f"{place} cannot be opened: too long a path for SQLite; pass a shorter --out") from error
    recovers = "run the same command again: it recovers what can be read and requests the rest"
    advice = recovers if code in CORRUPT else "check the disk and run the same command again"
    if code in _UNREADABLE and os.access(place, os.W_OK):
        message = f"{place} cannot be read: {error}; restore it from a copy, or {START_OVER}"
        raise UnreadableLedgerError(message) from error
    raise LedgerError(f"{place} cannot be read: {error}; {advice}") from error


def build_write_error(error: Exception) -> LedgerError:
    """Return the error for a ledger that cannot be written."""
    advice = "its contents are safe; fix this and run the same command again"
    return LedgerError(f"the ledger cannot be written: {error}; {advice}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, folder: Path | None = None) -> Iterator[None]:
    """Commit what is written in a block, or roll it back; SQLite's errors become a `LedgerError`.

    If the file turns out to be malformed, `folder` is marked for recovery.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        if isinstance(error, sqlite3.Error):
            mark_corruption(folder, error)
            raise build_write_error(error) from error
        raise


_AT_ONCE = (50, 10, 1)
"""Rows per statement: each statement switches threads, which costs more than the statement itself. SQLite before 3.32
allows 999 values."""


def insert_rows(connection: sqlite3.Connection, rows: Sequence[SealedRow]) -> list[int]:
    """Insert rows, and return their numbers."""
    numbers: list[int] = []
    for size in _AT_ONCE:
        calls, payloads = _STATEMENTS[size]
        while len(rows) - len(numbers) >= size:
            batch = rows[len(numbers) : len(numbers) + size]
            last = connection.execute(calls, list(chain.from_iterable(row.columns for row in batch))).lastrowid
            assert last is not None
            values = [(last - size + n, row.data, row.digest) for n, row in enumerate(batch, 1)]
            connection.execute(payloads, list(chain.from_iterable(values)))
            numbers += range(last - size + 1, last + 1)
    return numbers


def read_note(connection: sqlite3.Connection, name: str, place: str = "main") -> Any:
    """The value that a ledger keeps under a name, or None; `place` is `main`, or the name of an attached file."""
    query = f"SELECT CAST(value AS BLOB) FROM {place}.meta WHERE name = ?"
    found = connection.execute(query, (f"note:{name}",)).fetchall()
    try:
        return json.loads(found[0][0]) if found else None
    except (ValueError, TypeError) as error:
        damaged = sqlite3.DatabaseError(f"the note {name!r} is damaged")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def insert_note(
    name: str, value: Any, connection: sqlite3.Connection, merge: Callable[[Any, Any], Any] | None = None
) -> None:
    """Store a JSON value under a name: `value`, or `merge` of the previous value (or None) and this one."""
    value = value if merge is None else merge(read_note(connection, name), value)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"note:{name}", json.dumps(value)))


def mark_damaged(key: bytes, call: int, connection: sqlite3.Connection) -> None:
    """Remove the reply of a call; its cost stays."""
    connection.execute("DELETE FROM replies WHERE key = ? AND call = ?", (key, call))
    # If the index is what is damaged, the call belongs to another key and is intact.
    connection.execute("UPDATE calls SET status = ? WHERE id = ? AND key = ?", (DAMAGED, call, key))


def _build_statements(rows: int) -> tuple[str, str]:
    width = len(CALL_COLUMNS.split(", "))
    calls, payloads = (", ".join([f"({', '.join('?' * columns)})"] * rows) for columns in (width, 3))
    return f"INSERT INTO calls({CALL_COLUMNS}) VALUES {calls}", f"INSERT INTO payloads VALUES {payloads}"


_STATEMENTS = {rows: _build_statements(rows) for rows in _AT_ONCE}


class ImportRow(NamedTuple):
    """A value from another pipeline's files for a slot of a record; `inputs` digests what it was made from."""

    record: str
    slot: str
    inputs: bytes
    value: Any


def insert_imports(rows: Iterable[ImportRow], connection: sqlite3.Connection) -> None:
    """Record values, replacing earlier imports of the same slots."""
    for record, slot, inputs, value in rows:
        sealed = seal(name_import(record, slot, inputs), value)
        connection.execute("INSERT OR REPLACE INTO imports VALUES (?, ?, ?, ?, ?)", (record, slot, inputs, *sealed))


def name_import(record: str, slot: str, inputs: bytes) -> bytes:
    """Return the name that the digest of an imported value covers."""
    return f"{record}\0{slot}\0".encode("utf-8", "surrogatepass") + inputs


def insert_observation(kind: str, value: Any, at: float, connection: sqlite3.Connection) -> None:
    """Append a JSON value to those of its kind."""
    query = "INSERT INTO observations(kind, at, data, digest) VALUES (?, ?, ?, ?)"
    connection.execute(query, (kind, at, *seal(kind.encode(), value)))


_LOG = logging.getLogger("autorubric.ledger")
_OTHERS = (("imports", 5, "1"), ("meta", 2, "name LIKE 'note:%' AND json_valid(value)"))
_BEYOND = 10_000  # gap in the numbers after which no more rows are expected, where the last one is unreadable


def recover_ledger(path: Path) -> None:
    """Replace the ledger by a new one with every readable row, and keep the damaged file next to it.

    A call whose reply is damaged keeps its tokens and cost, and is requested again. Where no reply can be read, the
    file stays and a `LedgerError` is raised.
    """
    fresh = path.with_name(f"{path.name}.recovered")
    _remove_files(fresh)
    kept, damaged, problem = 0, 0, "no row is whole"
    with contextlib.closing(connect(fresh)) as target:
        create_tables(target, str(fresh))
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as source:
                source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # without it no row can be found
                kept, damaged = _copy_rows(source, target)
        except sqlite3.Error as error:
            problem = str(error)
    if kept == damaged:
        _remove_files(fresh)
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
        *(path, kept, damaged, aside.name),
    )


def set_aside(path: Path) -> None:
    """Rename a ledger that cannot be read, so that a new one can be started."""
    aside = _move_aside(path)
    path.with_name(MARK).unlink(missing_ok=True)
    _LOG.warning("%s cannot be read and is kept as %s; a new ledger is started", path, aside.name)


def _move_aside(path: Path) -> Path:
    aside = next(p for n in count(1) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    path.rename(aside)
    _remove_files(path)
    return aside


def _remove_files(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[int, int]:
    """Copy the readable rows; returns the number of calls, and of those without their reply."""
    kept = damaged = 0
    target.execute("BEGIN IMMEDIATE")
    for number, columns in _read_rows(source, "calls", CALL_COLUMNS):
        data, digest = _read_row(source, "SELECT data, digest FROM payloads WHERE id = ?", number) or (None, None)
        whole = is_whole(columns[0], data, digest)
        values = columns if whole else _set_damaged(columns)
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


def _set_damaged(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    place = CALL_COLUMNS.split(", ").index("status")
    return (*columns[:place], DAMAGED, *columns[place + 1 :])


def _read_rows(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield each readable row with its number."""
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
