"""The ledger's file: its tables, its version, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from autorubric.errors import LedgerError
from autorubric.files.descriptors import TOO_MANY_FILES, can_open_more

VERSION = 1
CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""What SQLite says of a file whose content is damaged."""

START_OVER = (
    "request everything again with --start-over (in Python: resume=False), which keeps the file under another name"
)

_FILES = 8
"""Most files that two connections open: each the database, its log and the log's index, and a journal."""

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
    # Newer than version 1, and unknown to nobody who does not look for it: earlier packages pass over it.
    """CREATE TABLE IF NOT EXISTS observations(
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, at REAL, data BLOB NOT NULL, digest BLOB NOT NULL)""",
    f"INSERT OR IGNORE INTO meta VALUES ('version', {VERSION}), ('indexed', 0)",
)


_UNREADABLE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY})
"""What SQLite says, of a file that may be written, where single bytes of its header are damaged."""


class UnreadableLedgerError(LedgerError):
    """The file holds no ledger that this version reads; whoever gives up its replies can go on with a new one."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose commits survive a power cut, in autocommit mode, for any one thread at a time."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    try:
        # On macOS only F_FULLFSYNC reaches the disk; elsewhere the pragma does nothing.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, place: str) -> None:
    """Make the tables, unless another version of this package made them.

    Raises:
        LedgerError: the file belongs to another version, or to another program.
    """
    if has_tables(connection, place):
        check_version(connection, place)
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute("COMMIT")


def has_tables(connection: sqlite3.Connection, place: str) -> bool:
    """Whether a file has the tables of a ledger; False where it was made and nothing is in it yet.

    Raises:
        LedgerError: it has other tables only.
    """
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
    if names and "meta" not in names:
        raise UnreadableLedgerError(
            f"{place} is another program's database; move it away, or use another run directory"
        )
    return bool(names)


def check_version(connection: sqlite3.Connection, place: str) -> None:
    """Refuse a file that another version of this package made.

    Raises:
        LedgerError: the file belongs to another version.
    """
    found = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchall()
    version = found[0][0] if found else None
    if version != VERSION:
        raise UnreadableLedgerError(
            f"{place} has version {version}, and this autorubric reads version {VERSION}; "
            "use the autorubric that wrote it, or start in a new run directory"
        )


class damage_named:
    """Turns what SQLite says about a broken file into a `LedgerError` that says what to do."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, sqlite3.Error):
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more of the same kind
        if code == sqlite3.SQLITE_CANTOPEN and not can_open_more(_FILES):
            raise LedgerError(f"{self._place} cannot be opened: {TOO_MANY_FILES}") from error
        advice = "check the disk and run the same command again"
        if code in CORRUPT:
            advice = "run the same command again: it recovers what can be read and requests the rest"
        if code in _UNREADABLE and os.access(self._place, os.W_OK):
            advice = f"restore it from a copy, or {START_OVER}"
            raise UnreadableLedgerError(f"{self._place} cannot be read: {error}; {advice}") from error
        raise LedgerError(f"{self._place} cannot be read: {error}; {advice}") from error
