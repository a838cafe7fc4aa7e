"""One process at a time works in a run directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.errors import InputError, RunLockedError
from autorubric.files.descriptors import is_out_of_files
from autorubric.llm.records.directory import private_file

if TYPE_CHECKING:
    from filelock import BaseFileLock

FILE_NAME = "run.lock"
WRITE_LOCK = "write.lock"
_TURN_POLL = 0.002  # seconds; a commit takes about one millisecond
HOLDER_NAME = "run.holder"
"""Names the holder. A file of its own, because Windows lets nobody read a locked file."""


@contextlib.contextmanager
def run_lock(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the run directory for the length of a `with` block.

    The operating system releases the lock when the process ends, however it ends. The lock file stays: removing it
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
    named = private_file(directory, HOLDER_NAME)
    lock = claimed(directory / FILE_NAME, wait=wait)
    if lock is None:
        holder = named.read_text(encoding="utf-8").strip() or "another process"
        advice = (
            "stop it, or wait for it (--wait on the command line), or use another directory "
            "(--out; in Python another experiment_name or experiments_dir)"
        )
        raise RunLockedError(f"{directory} is in use by {holder}; {advice}")
    try:
        named.write_text(f"process {os.getpid()}, which took it at {_now()}", encoding="utf-8")
        yield
    finally:
        # The name goes before the lock does, so that nobody reads of a holder who has gone.
        with contextlib.suppress(OSError):
            named.write_text("", encoding="utf-8")
        lock.release()


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
        words = (directory / HOLDER_NAME).read_text(encoding="utf-8").strip()
        if not words or not (directory / FILE_NAME).exists():  # it was left in good order; do not touch the lock
            return None
        lock = claimed(directory / FILE_NAME)
    except (OSError, InputError):
        return None
    if lock is None:
        return words
    lock.release()
    return None


class WriteTurn:
    """Held while a ledger is written, so that the processes that share it write one after the other.

    SQLite's own locks are not enough: versions before 3.51.3 can corrupt a file when two connections write and
    reset its write-ahead log at the same moment.

    Args:
        directory: the folder of the ledger, which exists.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     turn = WriteTurn(Path(folder))
        ...     with turn:
        ...         pass
        ...     turn.close()
    """

    def __init__(self, directory: Path) -> None:
        from filelock import FileLock

        # The file is not made in advance: where the system has no locks on files, that it exists is the lock.
        self._lock = FileLock(directory / WRITE_LOCK, mode=0o600, thread_local=False)

    def __enter__(self) -> None:
        self._lock.acquire(poll_interval=_TURN_POLL)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Let go of the lock, whoever holds it here."""
        self._lock.release(force=True)


def claimed(path: Path, *, wait: bool = False) -> BaseFileLock | None:
    """The lock of that name, held until it is released or the process ends; None where another holder has it.

    Raises:
        InputError: the lock file cannot be made or opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lock = claimed(Path(folder) / "x.lock")
        ...     second = claimed(Path(folder) / "x.lock")
        ...     lock.release()
        >>> second is None
        True
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=-1 if wait else 0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        if is_out_of_files(error):
            raise
        raise InputError(f"cannot lock {path}: {error.strerror or error}; choose another run directory") from error
    return lock


def given_up(lock: BaseFileLock) -> None:
    """Release a lock and remove its file, for a lock that nobody waits for.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     given_up(claimed(Path(folder) / "x.lock"))
        ...     list(Path(folder).iterdir())
        []
    """
    with contextlib.suppress(OSError):  # Windows removes it on release, and not before
        Path(lock.lock_file).unlink()
    lock.release()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
