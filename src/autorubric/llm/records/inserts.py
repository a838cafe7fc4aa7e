"""What goes into the ledger's tables: sealed rows, many to a statement, notes and observations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

from autorubric.llm.records.rows import CALL_COLUMNS, DAMAGED, SealedRow, seal

_AT_ONCE = (50, 10, 1)
"""Rows that one statement takes. At each statement the threads take turns, which costs more than the statement; and
SQLite before 3.32 takes no more than 999 values."""


def insert_rows(connection: sqlite3.Connection, rows: Sequence[SealedRow]) -> list[int]:
    """Insert rows, and return the number of each."""
    numbers: list[int] = []
    for size in _AT_ONCE:
        while len(rows) - len(numbers) >= size:
            numbers += _inserted(connection, rows[len(numbers) : len(numbers) + size])
    return numbers


def insert_observation(kind: str, value: Any, at: float, connection: sqlite3.Connection) -> None:
    """Insert a JSON value behind those of its kind."""
    query = "INSERT INTO observations(kind, at, data, digest) VALUES (?, ?, ?, ?)"
    connection.execute(query, (kind, at, *seal(kind.encode(), value)))


def insert_note(name: str, value: str, connection: sqlite3.Connection) -> None:
    """Insert JSON text under a name, in place of the one before."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"note:{name}", value))


def mark_damaged(key: bytes, call: int, connection: sqlite3.Connection) -> None:
    """Take the reply of a call out; what the call cost stays."""
    connection.execute("DELETE FROM replies WHERE key = ? AND call = ?", (key, call))
    # Where the index is what is damaged, the call belongs to another key, and is sound.
    connection.execute("UPDATE calls SET status = ? WHERE id = ? AND key = ?", (DAMAGED, call, key))


def _inserted(connection: sqlite3.Connection, rows: Sequence[SealedRow]) -> range:
    calls, payloads = _STATEMENTS[len(rows)]
    last = connection.execute(calls, list(chain.from_iterable(row.columns for row in rows))).lastrowid
    assert last is not None
    numbers = range(last - len(rows) + 1, last + 1)
    values = [(number, row.data, row.digest) for number, row in zip(numbers, rows, strict=True)]
    connection.execute(payloads, list(chain.from_iterable(values)))
    return numbers


def _statements(rows: int) -> tuple[str, str]:
    width = len(CALL_COLUMNS.split(", "))
    calls, payloads = (", ".join([f"({', '.join('?' * columns)})"] * rows) for columns in (width, 3))
    return f"INSERT INTO calls({CALL_COLUMNS}) VALUES {calls}", f"INSERT INTO payloads VALUES {payloads}"


_STATEMENTS = {rows: _statements(rows) for rows in _AT_ONCE}
