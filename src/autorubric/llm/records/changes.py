"""Whether other processes have written to a ledger, without a query."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

from autorubric.files.descriptors import opened

_FILE_NAME = "changes"
_COUNT = struct.Struct("<Q")
_ROWS, _NOTES = 0, 8


class Changes:
    """Counts of commits in memory that the processes of a ledger share; each is raised under the write lock.

    Without a folder there may always be something new.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     one, other = Changes(Path(folder)), Changes(Path(folder))
        ...     one.add()
        ...     other.has_new_rows(), other.has_new_rows(), other.has_new_notes()
        (True, False, False)
    """

    def __init__(self, folder: Path | None) -> None:
        self._memory: mmap.mmap | None = None
        if folder is not None:
            file = opened(folder / _FILE_NAME, os.O_RDWR | os.O_CREAT)
            try:
                os.ftruncate(file, 2 * _COUNT.size)
                self._memory = mmap.mmap(file, 2 * _COUNT.size)
            finally:
                os.close(file)
        self._seen = {place: self._read(place) for place in (_ROWS, _NOTES)}

    def add(self, *, notes: bool = False) -> None:
        """Count a commit of rows, or of notes."""
        if self._memory is not None:
            place = _NOTES if notes else _ROWS
            _COUNT.pack_into(self._memory, place, self._read(place) + 1)

    def has_new_rows(self) -> bool:
        """Whether rows may have been committed since the last call."""
        return self._has_new(_ROWS)

    def has_new_notes(self) -> bool:
        """Whether notes may have been committed since the last call."""
        return self._has_new(_NOTES)

    def _has_new(self, place: int) -> bool:
        count = self._read(place)
        is_new = self._memory is None or count != self._seen[place]
        self._seen[place] = count
        return is_new

    def _read(self, place: int) -> int:
        return 0 if self._memory is None else int(_COUNT.unpack_from(self._memory, place)[0])
