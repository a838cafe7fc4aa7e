"""Finished calls on their way to a commit, kept where a kill of the process does not reach them."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from autorubric.errors import InputError, LedgerError
from autorubric.llm.records.lock import claimed, given_up
from autorubric.llm.records.rows import SealedRow
from autorubric.system.files import opened, written_at

if TYPE_CHECKING:
    from filelock import BaseFileLock

FILE_NAMES = ("arrivals.0", "arrivals.1")
LOCK_NAME = "arrivals.lock"

VERSION = 1
_MARK = b"autorubric arrivals %d\n" % VERSION
_HEAD = struct.Struct("<III")  # lengths of key and content; checksum of what follows: time, key and content
_AT = struct.Struct("<d")
_FULL = 16 << 20
"""Bytes after which the other file is written: more than a write-ahead log of 4 MB holds of compressed replies."""


class Arrivals:
    """Hands rows to the operating system in the moment in which they arrive, without waiting for the disk.

    A commit waits for company and for a sync; a process that is killed meanwhile would lose what it paid for. What is
    put here outlives the process, though not a power cut. It also stays longer than the write-ahead log does, and so
    makes good what damage of that log costs. Two files take turns; one is emptied only when all its rows are
    committed.

    A row that cannot be kept here is passed over: its commit comes, and tells what is wrong with the disk.

    Args:
        directory: the folder of the ledger.

    Example:
        >>> import tempfile
        >>> from autorubric.llm.records.rows import CallRow
        >>> from autorubric.llm.request import Reply
        >>> row = SealedRow.of(CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, Reply("MET")))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     arrivals = Arrivals(Path(folder))
        ...     with arrivals.in_order:
        ...         arrivals.put(row)
        ...     arrivals.close(remove=False)  # all that a kill leaves
        ...     take_over(Path(folder), lambda left: print([one.row() == row for one in left]))
        [True]
    """

    def __init__(self, directory: Path) -> None:
        self._paths = [directory / name for name in FILE_NAMES]
        self._lock_path = directory / LOCK_NAME
        self._lock: BaseFileLock | None = None
        self._files: list[int] = []
        self._size = 0
        self._put = 0
        self._committed = 0
        self._filled_at = 0
        self._closed = False
        self.in_order = threading.Lock()
        """Held by whoever puts a row and queues it: rows are committed in the order in which they are put."""

    def put(self, row: SealedRow) -> None:
        """Keep a row from now on; hold `in_order`."""
        self._put += 1
        if self._closed:
            return
        try:
            if not self._files:
                self._open()
            if self._size >= _FULL and self._committed >= self._filled_at:
                self._turn(self._files)
            kept = framed(row) if self._size else _MARK + framed(row)
            # What was written in part is overwritten by the next row.
            if written_at(self._files[0], kept, self._size) == len(kept):
                self._size += len(kept)
        except (OSError, InputError):
            self._closed = not self._files  # where there is no room now, it is not looked for at every call

    def committed(self, count: int) -> None:
        """So many rows more are on the disk, in the order in which they were put."""
        self._committed += count

    def close(self, *, remove: bool) -> None:
        """Close the files; where all that was put is committed, they can go."""
        self._closed = True
        opened_here = bool(self._files)
        for file in self._files:
            os.close(file)
        self._files = []
        for path in self._paths if remove and opened_here else ():
            path.unlink(missing_ok=True)
        if self._lock is not None:
            given_up(self._lock)
            self._lock = None

    def _open(self) -> None:
        """Empty files that are known as ours for as long as this process lives."""
        self._lock = claimed(self._lock_path)
        if self._lock is None:
            raise BlockingIOError(errno.EAGAIN, "another process keeps its arrivals here", str(self._lock_path))
        for path in self._paths:
            self._files.append(opened(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def _turn(self, files: list[int]) -> None:
        files.reverse()
        os.ftruncate(files[0], 0)
        self._size, self._filled_at = 0, self._put - 1


class Arrival(NamedTuple):
    """A row that was left, and what tells it from all others without reading it."""

    key: bytes
    at: float
    content: memoryview

    def row(self) -> SealedRow:
        """The row, read."""
        return SealedRow.from_bytes(self.key, bytes(self.content))


def take_over(directory: Path, keep: Callable[[list[Arrival]], None]) -> None:
    """Give what a killed process left to `keep`, file by file, and then remove the files.

    The files of a process that lives are left alone.

    Raises:
        LedgerError: another version of this package made a file, or its first bytes are damaged; it stays.
    """
    left = [path for path in (directory / name for name in FILE_NAMES) if path.exists()]
    lock = claimed(directory / LOCK_NAME) if left else None
    if lock is None:
        return
    try:
        for path in left:
            if found := list(arrivals_in(_unmarked(path.read_bytes(), path))):
                keep(found)
            path.unlink(missing_ok=True)
    finally:
        given_up(lock)


def framed(row: SealedRow) -> bytes:
    """A row as bytes that show by themselves whether they are whole."""
    at, content = _AT.pack(row.at), row.to_bytes()
    checksum = crc32(content, crc32(row.key, crc32(at)))
    return b"".join((_HEAD.pack(len(row.key), len(content), checksum), at, row.key, content))


def _unmarked(content: bytes, path: Path) -> memoryview:
    """What stands behind the mark of the version; nothing where a kill or a power cut left no whole mark."""
    mark = content[: len(_MARK)]
    if mark != _MARK and not _MARK.startswith(mark.rstrip(b"\0")):
        raise LedgerError(
            f"{path} does not begin as arrivals of version {VERSION} do, which this autorubric reads; use the "
            "autorubric that wrote it, or remove the file: what the ledger lacks of it is then asked again"
        )
    return memoryview(content)[len(_MARK) if mark == _MARK else len(content) :]


def arrivals_in(left: memoryview) -> Iterator[Arrival]:
    """What was left, up to the first row that is not whole."""
    end = 0
    while end + _HEAD.size <= len(left):
        key, content, checksum = _HEAD.unpack_from(left, end)
        start = end + _HEAD.size
        end = start + _AT.size + key + content
        if key == 0 or end > len(left) or crc32(left[start:end]) != checksum:
            return
        [at] = _AT.unpack_from(left, start)
        start += _AT.size
        yield Arrival(bytes(left[start : start + key]), at, left[start + key : end])
