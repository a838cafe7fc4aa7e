"""Where the reply of a request is in the ledger's tables."""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_UNINDEXED = "SELECT key, id FROM calls WHERE id > ? AND status = 'ok' ORDER BY id"
_INDEX = """INSERT OR IGNORE INTO replies
    SELECT key, id FROM calls WHERE id > ? AND status = 'ok' ORDER BY key, id"""
_INDEXED = "SELECT value FROM meta WHERE name = 'indexed'"
_FIND = "SELECT call, data, digest FROM replies LEFT JOIN payloads ON id = call WHERE key = ?"
_FIND_CALL = "SELECT data, digest FROM payloads WHERE id = ?"
_MOST_UNINDEXED = 4096


class Inserted(NamedTuple):
    """A call that was written: its key, its number, and whether it brought a reply."""

    key: bytes
    call: int
    is_reply: bool


class Found(NamedTuple):
    """A reply as it is kept; `data` is None where damage has taken it."""

    call: int
    data: bytes | None
    digest: bytes | None


class KeyIndex:
    """Finds replies by key, those that other processes recorded included.

    An index by hash costs a page for each key. So keys wait in memory, and go into the index thousands at a time.

    Args:
        connection: to an open ledger.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[bytes, int] = {}
        self._read_to: int = connection.execute(_INDEXED).fetchall()[0][0]
        self._fresh: list[list[int]] = []
        self.catch_up(connection)

    def find(self, connection: sqlite3.Connection, key: bytes) -> Found | None:
        """The reply under `key`, or None; on any thread."""
        call = self._waiting.get(key)
        if call is None:
            indexed = connection.execute(_FIND, (key,)).fetchall()
            return Found(*indexed[0]) if indexed else None
        found = connection.execute(_FIND_CALL, (call,)).fetchall()
        return Found(call, *(found[0] if found else (None, None)))

    def catch_up(self, connection: sqlite3.Connection) -> bool:
        """Take in the replies that were recorded since the last look; whether there were any."""
        with self._lock:
            rows = connection.execute(_UNINDEXED, (self._read_to,)).fetchall()
            for key, call in rows:
                self._waiting.setdefault(key, call)
            if rows:
                self._read_to = rows[-1][1]
        return bool(rows)

    def forget(self, key: bytes) -> None:
        """Find nothing under `key` from now on, once its row is out of the table."""
        with self._lock:
            self._waiting.pop(key, None)

    def is_fresh(self, call: int) -> bool:
        """Whether this process recorded the call since it opened the ledger."""
        with self._lock:
            place = bisect_right(self._fresh, call, key=lambda calls: calls[0]) - 1
            return place >= 0 and call <= self._fresh[place][1]

    def add(self, connection: sqlite3.Connection, calls: Sequence[Inserted]) -> None:
        """Take in calls that this process has committed; on the thread that writes, in its turn."""
        if not calls:
            return
        first, last = calls[0].call, calls[-1].call
        with self._lock:
            for key, call, is_reply in calls:
                if is_reply:
                    self._waiting.setdefault(key, call)
            if self._read_to == first - 1:
                self._read_to = last
            if self._fresh and self._fresh[-1][1] == first - 1:
                self._fresh[-1][1] = last
            else:
                self._fresh.append([first, last])
            full = len(self._waiting) >= _MOST_UNINDEXED
        if full:
            self._move_to_table(connection)

    def _move_to_table(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        last: int = connection.execute("SELECT max(id) FROM calls").fetchall()[0][0]
        connection.execute(_INDEX, connection.execute(_INDEXED).fetchall()[0])
        connection.execute("UPDATE meta SET value = ? WHERE name = 'indexed'", (last,))
        connection.execute("COMMIT")
        with self._lock:
            self._waiting = {key: call for key, call in self._waiting.items() if call > last}
            self._read_to = max(self._read_to, last)
