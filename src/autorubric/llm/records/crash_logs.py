"""What outlives a kill of the process: replies that are not yet committed, and calls that are in flight."""

from __future__ import annotations

import errno
import mmap
import os
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from zlib import crc32

from autorubric.errors import InputError, LedgerError
from autorubric.files.descriptors import open_descriptor, write_at
from autorubric.files.strict_json import decode_json, encode_json
from autorubric.llm.records.call_rows import CallRow, SealedRow, compute_digest, pack_columns, pack_outcome, seal
from autorubric.llm.records.database import build_write_error, insert_rows, transaction
from autorubric.llm.records.lock import list_process_folders, release_and_remove, try_lock
from autorubric.llm.request import Failure, Reply

if TYPE_CHECKING:
    from filelock import BaseFileLock

# The names and the mark are those of the first version, so that its logs are still read.
UNCOMMITTED_FILES = ("arrivals.0", "arrivals.1")
_UNCOMMITTED_LOCK = "arrivals.lock"
_IN_FLIGHT_FILE = "departures"
_IN_FLIGHT_LOCK = "departures.lock"

VERSION = 1
_MARK = b"autorubric arrivals %d\n" % VERSION
_HEAD = struct.Struct("<III")  # lengths of key and content; checksum of what follows: time, key and content
_AT = struct.Struct("<d")
_FULL = 16 << 20
"""Bytes after which the log switches files: more than a write-ahead log of 4 MB holds of compressed replies."""
_SLOT = 4096  # bytes; a row without a reply takes a few hundred
_SLOTS_AT_ONCE = 64
_LONGEST_NAME = 200  # characters
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_FRAME = bytes(_HEAD.size)
"""Ends a slot, so that the rest of an earlier, longer row is not read."""


class LoggedRow(NamedTuple):
    """A row found in a log; `key` and `at` identify it without parsing `content`."""

    key: bytes
    at: float
    content: memoryview

    def unpack(self) -> SealedRow:
        """Return the row itself."""
        line, _, data = bytes(self.content).partition(b"\n")
        return SealedRow(self.key, (self.key, *decode_json(line)), data, compute_digest(self.key, data))


def _read_frames(content: memoryview) -> Iterator[LoggedRow]:
    """Yield the rows up to the first one that is incomplete."""
    end = 0
    while end + _HEAD.size <= len(content):
        key, size, checksum = _HEAD.unpack_from(content, end)
        start = end + _HEAD.size
        end = start + _AT.size + key + size
        if key == 0 or end > len(content) or crc32(content[start:end]) != checksum:
            return
        [at] = _AT.unpack_from(content, start)
        start += _AT.size
        yield LoggedRow(bytes(content[start : start + key]), at, content[start + key : end])


def _read_uncommitted(path: Path) -> Iterator[LoggedRow]:
    content = path.read_bytes()
    mark = content[: len(_MARK)]
    if mark == _MARK:
        yield from _read_frames(memoryview(content)[len(_MARK) :])
    elif not _MARK.startswith(mark.rstrip(b"\0")):  # not even a part of it, as after a kill or a power cut
        raise LedgerError(
            f"{path} is not a version {VERSION} log of uncommitted replies, which this autorubric reads; use the "
            "autorubric version that wrote it, or remove the file: replies that it alone holds are requested again"
        )


def _read_slots(path: Path) -> Iterator[LoggedRow]:
    content = memoryview(path.read_bytes())
    for start in range(0, len(content), _SLOT):
        yield from _read_frames(content[start : start + _SLOT])


class LogFiles(NamedTuple):
    """The files of a log, the lock of the process that writes them, and the function that reads one."""

    names: tuple[str, ...]
    lock: str
    read: Callable[[Path], Iterator[LoggedRow]]


UNCOMMITTED = LogFiles(UNCOMMITTED_FILES, _UNCOMMITTED_LOCK, _read_uncommitted)
IN_FLIGHT = LogFiles((_IN_FLIGHT_FILE,), _IN_FLIGHT_LOCK, _read_slots)


@dataclass(eq=False)
class _Log:
    """The files of a log that this process writes; they are created, under a lock, for the first row.

    Attributes:
        directory: of the files.
        is_open: whether rows are logged.
    """

    directory: Path
    is_open: bool = True
    _files: list[int] = field(default_factory=list)
    _lock: BaseFileLock | None = None
    _kind: ClassVar[LogFiles]

    def _open(self) -> None:
        """Lock the log and empty its files; if another process writes them, nothing is logged here."""
        self._lock = try_lock(self.directory / self._kind.lock)
        self.is_open = self._lock is not None
        for name in self._kind.names if self.is_open else ():
            self._files.append(open_descriptor(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def close(self, *, remove: bool) -> None:
        """Close the files; `remove` deletes them, once every row is on record."""
        self.is_open = False
        for file in self._files:
            os.close(file)
        for name in self._kind.names if remove and self._files else ():
            (self.directory / name).unlink(missing_ok=True)
        self._files = []
        if self._lock is not None:
            release_and_remove(self._lock)
            self._lock = None


@dataclass(eq=False)
class UncommittedLog(_Log):
    """Hands each reply to the operating system as soon as it arrives, without waiting for the disk.

    A commit waits for other rows and for a sync; a process that is killed meanwhile would lose replies it paid for.
    Rows in this log survive the process, but not a power cut. They also outlast SQLite's write-ahead log, and so
    restore what damage to that log loses. Two files alternate; one is emptied only when all its rows are committed.

    A row that cannot be written here is skipped: its commit follows and reports what is wrong with the disk. If that
    fails too, the row is written when the log is closed, provided that there is room then.

    Attributes:
        committed: how many rows are committed, in the order in which they were put.
        in_order: held while a row is put and queued, so that rows are committed in that order.
    """

    committed: int = 0
    in_order: threading.Lock = field(default_factory=threading.Lock)
    _size: int = 0
    _put: int = 0
    _filled_at: int = 0
    _skipped: list[tuple[int, bytes]] = field(default_factory=list)
    _kind = UNCOMMITTED

    def put(self, row: SealedRow) -> None:
        """Log a row; hold `in_order`."""
        self._put += 1
        if not self.is_open:
            return
        try:
            if not self._files:
                self._open()
            if self._size >= _FULL and self.committed >= self._filled_at:
                self._switch_files()
        except (OSError, InputError):
            self.is_open = bool(self._files)  # a disk without room now is not tried again at every call
        if not self.is_open:
            return
        frame = _frame(*row[:3])
        content = frame if self._size else _MARK + frame
        with suppress(OSError):
            if write_at(self._files[0], content, self._size) == len(content):
                self._size += len(content)
                return
        # The next row overwrites a partial write.
        self._skipped = [skipped for skipped in self._skipped if skipped[0] > self.committed] + [(self._put, frame)]

    def close(self, *, remove: bool) -> None:
        """Close the files; `remove` deletes them, once every row is on record."""
        left = sorted((frame for number, frame in self._skipped if number > self.committed), key=len)
        if left:
            with suppress(OSError):  # of a partial write, the whole rows are read
                write_at(self._files[0], (b"" if self._size else _MARK) + b"".join(left), self._size)
        self._skipped = []
        super().close(remove=remove)

    def _switch_files(self) -> None:
        self._files.reverse()
        os.ftruncate(self._files[0], 0)
        self._size, self._filled_at = 0, self._put - 1


@dataclass(eq=False)
class InFlightLog(_Log):
    """Logs the worst case of each call in flight, so that a budget counts it even if the process is killed.

    Each call has a slot in one file, which is overwritten when the call has ended. A kill loses no slot; a power cut
    may. The file is mapped into memory: a write then needs no system call and does not release the interpreter's
    lock. On file systems without maps, it is written in the usual way. A slot that cannot be written is skipped,
    unless the disk is full: then nothing about the call could be recorded.
    """

    _memory: mmap.mmap | None = None
    _is_mapped: bool = True
    _slots: dict[bytes, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _kind = IN_FLIGHT

    def put(self, row: CallRow) -> None:
        """Log the worst case of a call that is in flight from now on, in place of an earlier one.

        Raises:
            LedgerError: the disk has no room for it.
        """
        if not self.is_open:
            return
        if len(row.item) > _LONGEST_NAME or len(row.model) > _LONGEST_NAME:
            row = replace(row, item=row.item[:_LONGEST_NAME], model=row.model[:_LONGEST_NAME])
        slot = self._slots.get(row.key)
        if slot is None:
            slot = self._slots[row.key] = self._free.pop() if self._free else len(self._slots)
        self._write(slot, _frame(row.key, pack_columns(row), _pack_outcome(row.outcome)) + _NO_FRAME)

    def remove(self, key: bytes) -> None:
        """Clear the slot of a call that has ended and is recorded."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._free.append(slot)
            self._write(slot, _NO_FRAME)

    def close(self, *, remove: bool) -> None:
        """Close the file, which keeps only slots in use; `remove` deletes it, unless a call is still in flight."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
            with suppress(OSError):  # a full disk gets room for replies
                os.ftruncate(self._files[0], (max(self._slots.values(), default=-1) + 1) * _SLOT)
        super().close(remove=remove and not self._slots)

    def _write(self, slot: int, content: bytes) -> None:
        if not self.is_open:
            return
        start = slot * _SLOT
        memory = self._memory
        if self._is_mapped and (memory is None or start >= len(memory)):
            memory = self._grow(slot)
        if memory is not None:
            memory[start : start + len(content)] = content
        elif not self._is_mapped:
            with suppress(OSError):
                write_at(self._files[0], content, start)

    def _grow(self, slot: int) -> mmap.mmap | None:
        """Return the map with room for a slot, or None if it cannot be written or its file system has no maps."""
        size = (slot // _SLOTS_AT_ONCE + 1) * _SLOTS_AT_ONCE * _SLOT
        try:
            if not self._files:
                self._open()
            if not self.is_open:
                return None
            written = 0 if self._memory is None else len(self._memory)
            # Zeros allocate the blocks now: writing to an unallocated page on a full disk would kill the process.
            while written < size:
                written += write_at(self._files[0], bytes(size - written), written)
        except InputError:
            return None
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise build_write_error(error) from error
            return None
        try:
            self._memory = mmap.mmap(self._files[0], size)
        except OSError:  # of some network file systems
            self._memory, self._is_mapped = None, False
        return self._memory


@lru_cache(maxsize=16)
def _pack_outcome(outcome: Reply | Failure) -> bytes:
    """Return the data of a row; calls in flight all have the same outcome."""
    return seal(b"", pack_outcome(outcome))[0]


def _frame(key: bytes, columns: tuple[Any, ...], data: bytes) -> bytes:
    """A row (a line of JSON, then the data) with lengths and a checksum, so that a partial write is recognized."""
    content = b"".join((_AT.pack(columns[-1]), key, encode_json(columns[1:]), b"\n", data))
    return _HEAD.pack(len(key), len(content) - _AT.size - len(key), crc32(content)) + content


def recover_rows(
    log: LogFiles, directory: Path, keep: Callable[[list[LoggedRow]], None], *, remove: bool = True
) -> list[LoggedRow]:
    """Return the rows that a killed process left in a log, passed to `keep` file by file; then the files are removed.

    Raises:
        LedgerError: another version of this package wrote a file, or its first bytes are damaged; it stays.
    """
    left = [path for path in (directory / name for name in log.names) if path.exists()]
    lock = try_lock(directory / log.lock) if left and remove else None
    if lock is None and remove:  # nothing is left, or the process that writes it is alive
        return []
    rows: list[LoggedRow] = []
    try:
        for path in left:
            if found := list(log.read(path)):
                keep(found)
            rows += found
            if remove:
                path.unlink(missing_ok=True)
    finally:
        if lock is not None:
            release_and_remove(lock)
    return rows


_SINCE = "SELECT key, at FROM calls WHERE at >= ? ORDER BY at"


def record_logs(
    connection: sqlite3.Connection, directory: Path, logs: Path | None, target: sqlite3.Connection | None = None
) -> None:
    """Record what killed processes did not commit, and the calls that they had in flight.

    Args:
        connection: to the ledger.
        directory: the directory of the ledger.
        logs: the folder of one of several processes, whose logs alone are recorded; None for all.
        target: takes the rows instead of the ledger, and the logs stay.
    """
    folders = [directory, *list_process_folders(directory)] if logs is None else [logs]
    record, remove = partial(_record_lost, connection, target or connection), target is None
    for folder in folders:
        arrived = recover_rows(UNCOMMITTED, folder, partial(record, {}), remove=remove)
        # Another process may have made the same call after the kill, so the ledger does not tell whether this one
        # has ended. The process's own log does: it still has what was committed last.
        ended = None if folder == directory else {row.key: row.at for row in arrived}
        recover_rows(IN_FLIGHT, folder, partial(record, ended), remove=remove)


def _record_lost(
    source: sqlite3.Connection, target: sqlite3.Connection, ended: Mapping[bytes, float] | None, left: list[LoggedRow]
) -> None:
    """Record the rows that neither has, unless the call has `ended` since (None: by the ledgers)."""
    since = (min(row.at for row in left),)
    known = [row for ledger in (source, target) for row in ledger.execute(_SINCE, since).fetchall()]
    if ended is None:
        ended = dict(known)
    on_record = set(known)
    missing = [row.unpack() for row in left if (row.key, row.at) not in on_record and ended.get(row.key, 0) < row.at]
    if missing:
        with transaction(target):
            insert_rows(target, missing)
