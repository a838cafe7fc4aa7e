"""Finds recorded replies by key: new keys are kept in memory, and moved to a table thousands at a time."""

import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from autorubric.llm.records.call_rows import SealedRow
from autorubric.llm.records.database import transaction

_UNINDEXED = "SELECT key, id FROM calls WHERE id > ? AND status = 'ok' ORDER BY id"
_INDEX = """INSERT OR IGNORE INTO replies
    SELECT key, id FROM calls WHERE id > ? AND status = 'ok' ORDER BY key, id"""
_INDEXED = "SELECT value FROM meta WHERE name = 'indexed'"
_FIND = "SELECT call, data, digest FROM replies LEFT JOIN payloads ON id = call WHERE key = ?"
_FIND_CALL = "SELECT data, digest FROM payloads WHERE id = ?"
_LEAST_INDEXED, _MOST_INDEXED = 4096, 65_536
"""Minimum and maximum keys that are indexed at a time."""


class StoredReply(NamedTuple):
    """A stored reply; `data` is None if it is damaged."""

    call: int
    data: bytes | None
    digest: bytes | None


class KeyFilter:
    """A Bloom filter with two bits for each key: rules out most keys that were not added.

    A new run looks up each key before its call, and finds nearly none; this is ten times as fast as the table. At a
    million keys, one lookup in a hundred is a false positive.
    """

    def __init__(self) -> None:
        self._bits = bytearray(1 << 21)

    def add(self, key: bytes) -> None:
        """Add a key, which is evenly distributed over all bytes."""
        for place in (key[:3], key[3:6]):
            number = int.from_bytes(place, "little")
            self._bits[number >> 3] |= 1 << (number & 7)

    def may_hold(self, key: bytes) -> bool:
        """Return whether the key may have been added."""
        bits, one, two = self._bits, int.from_bytes(key[:3], "little"), int.from_bytes(key[3:6], "little")
        return bool(bits[one >> 3] >> (one & 7) & 1 and bits[two >> 3] >> (two & 7) & 1)


class KeyIndex:
    """Finds replies by key, including those that other processes recorded.

    Keys are hashes, so each one changes a different page of the index. Therefore keys wait in memory and are indexed
    thousands at a time: the larger the index, the more, as a batch writes nearly all of its pages.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._lock = threading.Lock()
        self._indexed: int = connection.execute(_INDEXED).fetchall()[0][0]
        self._read_to = self._indexed
        self._filter: KeyFilter | None = None
        self._waiting: dict[bytes, int] = {}
        self._fresh: list[list[int]] = []
        self.catch_up(connection)

    def find(self, connection: sqlite3.Connection, key: bytes) -> StoredReply | None:
        """Return the reply under `key`, or None; on any thread."""
        call = self._waiting.get(key)
        if call is None:
            # Most runs are so small that all their keys wait in memory.
            if self._indexed == 0 or (self._filter is not None and not self._filter.may_hold(key)):
                return None
            indexed = connection.execute(_FIND, (key,)).fetchall()
            return StoredReply(*indexed[0]) if indexed else None
        found = connection.execute(_FIND_CALL, (call,)).fetchall()
        return StoredReply(call, *(found[0] if found else (None, None)))

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the replies recorded since the last call."""
        with self._lock:
            rows = connection.execute(_UNINDEXED, (self._read_to,)).fetchall()
            for key, call in rows:
                self._waiting.setdefault(key, call)
            if rows:
                self._read_to = rows[-1][1]

    def forget(self, key: bytes) -> None:
        """Stop finding `key`, once its row is deleted."""
        with self._lock:
            self._waiting.pop(key, None)

    def is_fresh(self, call: int) -> bool:
        """Return whether this process recorded the call since it opened the ledger."""
        with self._lock:
            place = bisect_right(self._fresh, call, key=lambda calls: calls[0]) - 1
            return place >= 0 and call <= self._fresh[place][1]

    def forget_fresh(self) -> None:
        """Count what was recorded so far as recorded by an earlier session."""
        with self._lock:
            self._fresh.clear()

    def add(self, connection: sqlite3.Connection, rows: Sequence[SealedRow], calls: Sequence[int]) -> None:
        """Add committed rows, at least one, by their numbers; on the writer thread, while it holds the write lock."""
        first, last = calls[0], calls[-1]
        with self._lock:
            for row, call in zip(rows, calls, strict=True):
                if row.is_reply:
                    self._waiting.setdefault(row.key, call)
            if self._read_to == first - 1:
                self._read_to = last
            if self._fresh and self._fresh[-1][1] == first - 1:
                self._fresh[-1][1] = last
            else:
                self._fresh.append([first, last])
            most = max(_LEAST_INDEXED, min(self._indexed // 16, _MOST_INDEXED))
            full = len(self._waiting) >= most
        if full:
            self.move_to_table(connection)

    def move_to_table(self, connection: sqlite3.Connection) -> None:
        """Index every recorded reply; on the thread that writes."""
        with transaction(connection):
            last: int = connection.execute("SELECT ifnull(max(id), 0) FROM calls").fetchall()[0][0]
            indexed = connection.execute(_INDEXED).fetchall()[0]
            if self._indexed == 0:  # otherwise the filter would lack the keys of earlier sessions
                self._filter = KeyFilter()
            if self._filter is not None:
                with self._lock:  # a key must be in the filter before it stops waiting
                    waiting, read_to = list(self._waiting), self._read_to
                for key in waiting:
                    self._filter.add(key)
                # Another process may have recorded, and indexed, what this one has not read yet.
                for key, _ in connection.execute(_UNINDEXED, (read_to,)):
                    self._filter.add(key)
            connection.execute(_INDEX, indexed)
            connection.execute("UPDATE meta SET value = ? WHERE name = 'indexed'", (last,))
        with self._lock:
            # In this order, for readers without the lock: what no longer waits is looked up in the table.
            self._read_to, self._indexed = max(self._read_to, last), last
            self._waiting = {key: call for key, call in self._waiting.items() if call > last}
