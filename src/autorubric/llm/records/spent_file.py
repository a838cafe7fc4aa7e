"""What a run has spent, kept in a file outside the ledger's folder: a budget outlives the ledger."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path

from autorubric.errors import InputError
from autorubric.llm.records.accounts import Spent, spent, spent_since
from autorubric.system.files import opened, written_at

_LENGTH = 256  # bytes; one overwrite of the whole file, longer than any five numbers


class SpentFile:
    """The sums of a ledger's calls, overwritten after each commit.

    The operating system holds what was written, so a kill loses none of it. It is synced at the start and at the
    end of a session; the ledger itself makes good what a power cut costs between.

    Args:
        path: the file, outside of the ledger's folder.

    Example:
        >>> import tempfile
        >>> from autorubric.llm.records.ledger import Ledger
        >>> with tempfile.TemporaryDirectory() as folder, Ledger.in_memory() as ledger:
        ...     file = SpentFile(Path(folder) / "spent.json")
        ...     print(file.read())
        ...     ledger.keep_spent(file)
        ...     print(file.read())
        None
        Spent(calls=0, tokens=0, cost=0.0, unpriced=0, lost=0)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._last = 0
        self._spent = Spent()

    def read(self) -> Spent | None:
        """The sums in the file; None where there is none or it cannot be read."""
        try:
            content = json.loads(self.path.read_bytes())
            calls, tokens, cost, unpriced, lost = (content[name] for name in Spent._fields)
            return Spent(int(calls), int(tokens), float(cost), int(unpriced), int(lost))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def begin(self, connection: sqlite3.Connection) -> None:
        """Write what the ledger knows, and add to it from now on.

        Raises:
            InputError: the file cannot be written.
        """
        self._spent = spent(connection)
        self._last, _ = spent_since(connection, 0)
        try:
            self._file = opened(self.path, os.O_RDWR | os.O_CREAT)
            self._write()
            os.fsync(self._file)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}; choose another run directory") from error

    def add_committed(self, connection: sqlite3.Connection) -> None:
        """Count the calls that were committed since; on the thread that uses the connection."""
        last, more = spent_since(connection, self._last)
        if last > self._last:
            self._last, self._spent = last, self._spent.plus(more)
            # The ledger has the calls; the next session writes the sums that could not be written here.
            with contextlib.suppress(OSError):
                self._write()

    def close(self) -> None:
        """Sync and close the file; closing twice is harmless."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def _write(self) -> None:
        if self._file is not None:
            line = json.dumps(self._spent._asdict()).encode()
            written_at(self._file, line.ljust(_LENGTH - 1) + b"\n", 0)
