"""Values from another pipeline's files, for slots of a record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from autorubric.llm.records.call_rows import seal, unseal


class ImportRow(NamedTuple):
    """A value from another pipeline's files for a slot of a record; `inputs` digests what it was made from."""

    record: str
    slot: str
    inputs: bytes
    value: Any


def insert_imports(rows: Iterable[ImportRow], connection: sqlite3.Connection) -> None:
    """Record values, replacing earlier imports of the same slots."""
    for record, slot, inputs, value in rows:
        sealed = seal(_name(record, slot, inputs), value)
        connection.execute("INSERT OR REPLACE INTO imports VALUES (?, ?, ?, ?, ?)", (record, slot, inputs, *sealed))


def read_import(connection: sqlite3.Connection, record: str, slot: str) -> tuple[bytes, Any] | None:
    """The inputs' digest and the value imported for a record's slot, or None.

    Raises:
        LedgerError: the value is damaged.
    """
    query = "SELECT inputs, data, digest FROM imports WHERE record = ? AND slot = ?"
    found = connection.execute(query, (record, slot)).fetchall()
    if not found:
        return None
    inputs, data, digest = found[0]
    return inputs, unseal(_name(record, slot, inputs), data, digest)


def _name(record: str, slot: str, inputs: bytes) -> bytes:
    return f"{record}\0{slot}\0".encode("utf-8", "surrogatepass") + inputs
