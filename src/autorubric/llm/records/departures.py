"""Calls that were sent and have not ended, kept where a kill of the process does not reach them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.errors import InputError
from autorubric.llm.records.arrivals import Arrival, arrivals_in, framed
from autorubric.llm.records.lock import claimed, given_up
from autorubric.llm.records.rows import CallRow, SealedRow
from autorubric.system.files import opened, written_at

if TYPE_CHECKING:
    from filelock import BaseFileLock

FILE_NAME = "departures"
LOCK_NAME = "departures.lock"

_SLOT = 4096  # bytes; a row without a reply takes a few hundred
_LONGEST_NAME = 200  # characters


class Departures:
    """Keeps what each call in flight may cost, so that a budget counts it although the process is killed.

    Each call has a slot of one file, which is overwritten when the call has ended. The operating system holds what
    was written, so a kill loses none of it; a power cut may. A slot that cannot be written is passed over.

    Args:
        directory: the folder of the ledger; None keeps nothing.

    Example:
        >>> import tempfile
        >>> from autorubric.llm.request import Failure
        >>> row = CallRow(b"k" * 16, "q1", "judge", "a/b", 0, 0, Failure("stopped", "killed"), token_bound=900)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     departures = Departures(Path(folder))
        ...     departures.put(row)
        ...     departures.close(remove=False)  # all that a kill leaves
        ...     take_over_departures(Path(folder), lambda left: print([one.key for one in left]))
        [b'kkkkkkkkkkkkkkkk']
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lock: BaseFileLock | None = None
        self._file: int | None = None
        self._slots: dict[bytes, int] = {}
        self._free: list[int] = []

    def put(self, row: CallRow) -> None:
        """Keep the worst case of a call that is in flight from now on, in place of an earlier one."""
        if self._directory is None:
            return
        named = replace(row, item=row.item[:_LONGEST_NAME], model=row.model[:_LONGEST_NAME])
        slot = self._slots.get(row.key)
        if slot is None:
            slot = self._slots[row.key] = self._free.pop() if self._free else len(self._slots)
        self._write(slot, framed(SealedRow.of(named)))

    def remove(self, key: bytes) -> None:
        """Forget a call that has ended and is recorded."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._free.append(slot)
            self._write(slot, b"")

    def close(self, *, remove: bool) -> None:
        """Close the file; where no call was left in flight, it can go."""
        if self._file is not None and self._directory is not None:
            os.close(self._file)
            self._file = None
            if remove and not self._slots:
                (self._directory / FILE_NAME).unlink(missing_ok=True)
        self._directory = None
        if self._lock is not None:
            given_up(self._lock)
            self._lock = None

    def _write(self, slot: int, content: bytes) -> None:
        if self._directory is None:
            return
        try:
            if self._file is None:
                self._lock = claimed(self._directory / LOCK_NAME)
                if self._lock is None:
                    self._directory = None
                    return
                self._file = opened(self._directory / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            written_at(self._file, content.ljust(_SLOT, b"\0"), slot * _SLOT)
        except (OSError, InputError):
            return


def take_over_departures(directory: Path, keep: Callable[[list[Arrival]], None]) -> None:
    """Give the calls that a killed process had in flight to `keep`, and then remove the file.

    The file of a process that lives is left alone.
    """
    path = directory / FILE_NAME
    lock = claimed(directory / LOCK_NAME) if path.exists() else None
    if lock is None:
        return
    try:
        content = memoryview(path.read_bytes())
        slots = (content[start : start + _SLOT] for start in range(0, len(content), _SLOT))
        if found := [one for slot in slots for one in arrivals_in(slot)]:
            keep(found)
        path.unlink(missing_ok=True)
    finally:
        given_up(lock)
