"""The tables of an index, and connections to it."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

VERSION = 7
FILE_NAME = "index.sqlite"

FAILED, FLAGGED, DISPUTED, DIFFERS, ABSTAINS, SKIPPED = 1, 2, 4, 8, 16, 32
"""Bits of `items.marks`: a judgment failed, the submission is suspicious, judges disagree, the verdict is not the
label, the judge abstained, a judgment was not requested."""

FINAL, HUMAN = "\x00final", "\x00human"
"""Raters other than the judges, whose ids cannot contain a null character: the verdict that counts, and the label."""

TABLES = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items(
    item INTEGER PRIMARY KEY, line INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
    id TEXT NOT NULL, description TEXT NOT NULL, score REAL, low REAL NOT NULL, high REAL NOT NULL,
    doubt REAL NOT NULL, length INTEGER NOT NULL, marks INTEGER NOT NULL, labelled INTEGER NOT NULL,
    agreed INTEGER NOT NULL, query INTEGER NOT NULL);
CREATE TABLE criteria(
    criterion INTEGER PRIMARY KEY, name TEXT NOT NULL, requirement TEXT NOT NULL, scale TEXT NOT NULL,
    weight REAL NOT NULL, judged INTEGER NOT NULL, total REAL NOT NULL, squares REAL NOT NULL,
    abstained INTEGER NOT NULL, failed INTEGER NOT NULL, disputed INTEGER NOT NULL, unasked INTEGER NOT NULL);
CREATE TABLE words(word INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE cells(
    criterion INTEGER, word INTEGER, part INTEGER, n INTEGER NOT NULL, items TEXT NOT NULL,
    PRIMARY KEY(criterion, word, part)) WITHOUT ROWID;
CREATE TABLE pairs(
    criterion INTEGER, one TEXT, other TEXT, a INTEGER, b INTEGER, n INTEGER NOT NULL,
    PRIMARY KEY(criterion, one, other, a, b)) WITHOUT ROWID;
CREATE TABLE confidence(tenth INTEGER PRIMARY KEY, n INTEGER NOT NULL, agreed INTEGER NOT NULL, total REAL NOT NULL);
CREATE TABLE labels(item INTEGER PRIMARY KEY, words TEXT NOT NULL);
CREATE TABLE damaged(line INTEGER PRIMARY KEY, start INTEGER NOT NULL, size INTEGER NOT NULL, item INTEGER);
"""

# Created once the file is read: until then they would cost more than all else, and lists are short enough to sort.
SORTED = """
CREATE INDEX IF NOT EXISTS by_low ON items(low, item);
CREATE INDEX IF NOT EXISTS by_high ON items(high, item);
CREATE INDEX IF NOT EXISTS by_doubt ON items(doubt, item);
CREATE INDEX IF NOT EXISTS by_length ON items(length, item);
"""


def open_index(path: Path) -> sqlite3.Connection:
    """Open the index at `path`; it is rebuilt if it is damaged or of another version."""
    for attempt in (0, 1):
        connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        try:
            # The index may be lost in a power failure, but must not slow the run.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                return connection
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.executescript(TABLES)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                return connection
        except sqlite3.DatabaseError:
            if attempt:
                connection.close()
                raise
        connection.close()
        delete_index(path)
    raise AssertionError("a new index is of this version")


def delete_index(path: Path) -> None:
    """Delete an index."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a connection that reads the index at `path`; None if there is none yet."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5)
    except (sqlite3.OperationalError, OSError):
        yield None
        return
    with closing(connection):
        connection.row_factory = sqlite3.Row
        try:
            ready = connection.execute("PRAGMA user_version").fetchone()[0] == VERSION
        except sqlite3.DatabaseError:
            ready = False
        yield connection if ready else None


def note(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Store values by name."""
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


def read_notes(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the values that `note` stored."""
    return dict(connection.execute("SELECT name, value FROM meta").fetchall())
