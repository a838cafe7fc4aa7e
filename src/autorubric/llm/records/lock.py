"""One process at a time works in a run directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from autorubric.errors import RunLockedError
from autorubric.llm.records.directory import private_file

FILE_NAME = "run.lock"
WRITE_LOCK = "write.lock"


@contextlib.contextmanager
def run_lock(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the run directory for the length of a `with` block.

    The system lets go of the lock when the process ends, however it ends. The lock's file stays: removing it
    would let two processes hold a lock of the same name.

    Args:
        directory: the run directory; made where there is none.
        wait: wait for the process that holds it, instead of failing.

    Raises:
        RunLockedError: another process holds the directory, and `wait` is False.
        InputError: the directory cannot be made or written, or lies on a network filesystem.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, run_lock(Path(folder)):
        ...     with run_lock(Path(folder)):
        ...         pass
        Traceback (most recent call last):
        autorubric.errors.RunLockedError: ... is in use by process ...
    """
    path = private_file(directory, FILE_NAME)
    with path.open("r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "another process"
            advice = (
                "stop it, or wait for it (--wait on the command line), or use another directory "
                "(--out; in Python another experiment_name or experiments_dir)"
            )
            raise RunLockedError(f"{directory} is in use by {holder}; {advice}") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, which took it at {_now()}")
        file.flush()
        try:
            yield
        finally:
            # The name goes before the lock does, so that nobody reads of a holder who has gone.
            file.seek(0)
            file.truncate(0)


def lock_holder(directory: Path) -> str | None:
    """Who holds the run directory, in the lock's own words; None where nobody does.

    Nobody is held up by the question, and nothing is made.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with run_lock(Path(folder)):
        ...         held = lock_holder(Path(folder))
        ...     held.startswith("process "), lock_holder(Path(folder))
        (True, None)
    """
    try:
        with (directory / FILE_NAME).open(encoding="utf-8") as file:
            words = file.read().strip()
            if not words:  # it was left in good order; do not touch the lock
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return words
    except OSError:
        return None
    return None


class WriteTurn:
    """Held while a ledger is written, so that the processes that share it write one after the other.

    SQLite's own locks are not enough: versions before 3.51.3 can corrupt a file when two connections write and
    reset its write-ahead log at the same moment.

    Args:
        directory: the folder of the ledger.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     turn = WriteTurn(Path(folder))
        ...     with turn:
        ...         pass
        ...     turn.close()
    """

    def __init__(self, directory: Path) -> None:
        self._file = private_file(directory, WRITE_LOCK).open("r+")

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock's file."""
        self._file.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
