"""What processes that use one directory share: locks on it, on its ledger and on requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.errors import InputError, RunLockedError, warn
from autorubric.files import descriptors

if TYPE_CHECKING:
    from filelock import BaseFileLock

RUN_LOCK = "run.lock"
WRITE_LOCK = "write.lock"
LEDGER_FILE = "ledger.sqlite"
HOLDER_NAME = "run.holder"
"""Names the holder; a separate file, because Windows does not let other processes read a locked one."""

PROCESSES_FOLDER = "processes"
"""In the directory of a ledger that several processes write: a folder with the lock and the logs of each of them."""

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "fuse.sshfs"})
"""Types of filesystems where locks and syncs cannot be trusted."""

_WRITE_POLL = 0.002  # seconds; a commit takes about one millisecond
_RUN_POLL = 0.05  # seconds
_PATIENCE = 20  # polls before a note names the holder
_CLAIMS_FILE = "claims.lock"
_CLAIMS = 2**31 - 1  # Windows locks no byte beyond
_CLAIM_POLL = 0.02  # seconds
_LONGEST_CLAIM_WAIT = 600.0  # seconds


def create_private_file(directory: Path, name: str) -> Path:
    """Create a file that only its owner can read, and its directory; an existing directory keeps its mode."""
    path = directory / name
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(descriptors.open_descriptor(path, os.O_RDWR | os.O_CREAT))
    except OSError as error:
        if descriptors.is_exhausted(error):
            raise
        raise InputError(f"cannot write {path}: {error.strerror}; choose another run directory") from error
    kind = find_filesystem(directory)
    if kind in NETWORK:
        raise InputError(
            f"{directory} is on a network filesystem ({kind}), where locks and syncs cannot be trusted; "
            "choose a run directory on a local disk"
        )
    return path


def find_filesystem(directory: Path, mounts: Path = descriptors.MOUNTS) -> str | None:
    """Return the filesystem type of an existing path by the system's mount table, or None if the system has none."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    here = str(directory.resolve())
    best, kind = "", None
    for line in table.splitlines():
        point, found = line.split(" ")[1:3]
        point = point.replace("\\040", " ").rstrip("/")
        if len(point) >= len(best) and (here == point or here.startswith(point + "/")):
            best, kind = point, found
    return kind


@contextlib.contextmanager
def run_lock(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the run directory, which is created if missing, for the length of a `with` block.

    The operating system releases the lock when the process ends, however it ends. The lock file stays: removing it
    would let two processes hold a lock of the same name.

    Raises:
        RunLockedError: another process holds the directory, and `wait` is False.
        InputError: the directory cannot be created or written, or is on a network filesystem.
    """
    named = create_private_file(directory, HOLDER_NAME)
    lock = try_lock(directory / RUN_LOCK, wait=wait)
    had_processes = lock is not None and (directory / PROCESSES_FOLDER).is_dir()
    left = _find_left_process(directory, wait=wait) if had_processes else None
    if lock is None or left is not None:
        if lock is not None:
            lock.release()
        own, holder = f"process {os.getpid()},", _read_holder(left or named) or "another process"
        raise RunLockedError(
            f"{directory} is in use by {holder.replace(own, f'another run of this {own}')}; stop it, or wait for it "
            "(--wait; in Python: wait=True), or use another directory (--out; in Python: out or experiment_name)"
        )
    try:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        named.write_text(f"process {os.getpid()}, which took it at {now}", encoding="utf-8")
        yield
    finally:
        # Cleared before the lock is released, so that nobody reads the name of a holder that has gone.
        with contextlib.suppress(OSError):
            named.write_text("", encoding="utf-8")
        lock.release()


async def hold_run(directory: Path, *, wait: bool) -> contextlib.ExitStack:
    """Hold the run directory as `run_lock` does, until the stack is closed; other tasks run during a wait.

    After a second of waiting, a note names the holder.

    Raises:
        RunLockedError: another process holds the directory, and `wait` is False.
        InputError: see `run_lock`.
    """
    waited = 0
    while True:
        try:
            locks = contextlib.ExitStack()
            locks.enter_context(run_lock(directory))
            return locks
        except RunLockedError as error:
            if not wait:
                raise
            if (waited := waited + 1) == _PATIENCE:
                warn(f"waiting: {str(error).partition(';')[0]}")
        await asyncio.sleep(_RUN_POLL)


def list_process_folders(directory: Path) -> list[Path]:
    """Return the folders of the processes that write the ledger of a directory, or did when they were killed."""
    return sorted(path for path in directory.glob(f"{PROCESSES_FOLDER}/*") if path.is_dir())


def _read_holder(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


def _find_left_process(directory: Path, *, wait: bool) -> Path | None:
    """The file that names a process that has outlived its killed parent and still uses the directory, or None."""
    for folder in list_process_folders(directory):
        lock = try_lock(folder / RUN_LOCK, wait=wait)
        if lock is None:
            return folder / HOLDER_NAME
        lock.release()
    return None


def find_lock_holder(directory: Path) -> str | None:
    """Return which process holds the run directory, such as `process 17, which took it at ...`, or None.

    Creates nothing and blocks no other process.
    """
    try:
        holder = _read_holder(directory / HOLDER_NAME)
        if not holder or not (directory / RUN_LOCK).exists():  # released properly; do not touch the lock
            return None
        lock = try_lock(directory / RUN_LOCK)
    except (OSError, InputError):
        return None
    if lock is None:
        return holder
    lock.release()
    return None


@dataclass(eq=False)
class WriteLock:
    """Held while a ledger is written, so that processes that share it write one after the other.

    SQLite's own locks are not enough: before 3.51.3, two connections that write and reset the write-ahead log at the
    same moment can corrupt the file.
    """

    directory: Path
    _file: int | None = None
    _lock: BaseFileLock | None = None

    def __enter__(self) -> None:
        # The system waits, not the library, which would poll every few milliseconds: that costs more than a commit.
        path, created = self.directory / WRITE_LOCK, False
        if self._file is None and self._lock is None:
            try:
                self._file, created = descriptors.open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
            except FileExistsError:
                self._file = descriptors.open_descriptor(path, os.O_RDWR | os.O_CREAT)
        if self._file is not None and not descriptors.lock_file(self._file):  # no file locks here
            from filelock import FileLock

            os.close(self._file)
            self._file = None
            if created:  # without locks, the existence of the file is the lock
                path.unlink(missing_ok=True)
            self._lock = FileLock(path, mode=0o600, thread_local=False)
        if self._lock is not None:
            self._lock.acquire(poll_interval=_WRITE_POLL)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            descriptors.unlock_file(self._file)
        if self._lock is not None:
            self._lock.release()

    def close(self) -> None:
        """Release the lock, whichever thread holds it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._lock is not None:
            self._lock.release(force=True)


def try_lock(path: Path, *, wait: bool = False) -> BaseFileLock | None:
    """The lock of that name, held until its release or the end of the process; None if another holder has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=-1 if wait else 0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except (Timeout, RuntimeError):  # this thread holds it, so waiting would never end
        return None
    except OSError as error:
        if descriptors.is_exhausted(error):
            raise
        raise InputError(f"cannot lock {path}: {error.strerror or error}; choose another run directory") from error
    return lock


def release_and_remove(lock: BaseFileLock) -> None:
    """Release a lock and remove its file, for a lock that no process waits for."""
    with contextlib.suppress(OSError):  # Windows removes it on release, and not before
        Path(lock.lock_file).unlink()
    lock.release()


class Claims:
    """Keys of the requests under way on a shared ledger, so that the same request is not paid for twice.

    A claim is a locked byte of one file, at an offset derived from the key. The operating system releases it when the
    process ends, however it ends. Without file locks, and once closed, claims hold in this process only.
    """

    def __init__(self, directory: Path) -> None:
        self._path: Path | None = directory / _CLAIMS_FILE
        self._file: int | None = None
        self._lock = threading.Lock()
        self._places: set[int] = set()

    @contextlib.asynccontextmanager
    async def hold_key(self, key: bytes, given_up: Callable[[], bool]) -> AsyncIterator[None]:
        """Wait for the claim to a key; after ten minutes, or once `given_up`, the block runs without it."""
        place = int.from_bytes(key[:8], "little") % _CLAIMS
        until = time.monotonic() + _LONGEST_CLAIM_WAIT
        while not (lock := self._take(place)) and time.monotonic() < until and not given_up():
            await asyncio.sleep(_CLAIM_POLL)
        try:
            yield
        finally:
            if lock:
                self._give_back(place)

    def close(self) -> None:
        """Close the file, which releases all claims; closing twice is harmless."""
        with self._lock:
            self._path = None
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _take(self, place: int) -> bool:
        with self._lock:
            if place in self._places:
                return False
            if self._path is not None:
                if self._file is None:
                    self._file = descriptors.open_descriptor(self._path, os.O_RDWR | os.O_CREAT)
                if not descriptors.lock_byte(self._file, place):
                    return False
            self._places.add(place)
            return True

    def _give_back(self, place: int) -> None:
        with self._lock:
            self._places.discard(place)
            if self._file is not None:
                descriptors.unlock_byte(self._file, place)
