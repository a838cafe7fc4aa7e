"""File descriptors: limits, and calls that differ between operating systems."""

import errno
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from autorubric.errors import InputError

TOO_MANY_FILES = "too many files are open; raise the limit, such as with 'ulimit -n 4096', and run the command again"


_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM})


def is_exhausted(error: OSError) -> bool:
    """Return whether the error is a lack of space, memory or descriptors, and not a wrong path.

    Example:
        >>> is_exhausted(OSError(errno.ENOSPC, "No space left on device")), is_exhausted(PermissionError(13, "no"))
        (True, False)
    """
    return error.errno in _EXHAUSTED


def is_out_of_files(error: OSError) -> bool:
    """Return whether a file could not be opened because too many are open, in the process or on the machine.

    Example:
        >>> is_out_of_files(OSError(errno.EMFILE, "Too many open files")), is_out_of_files(PermissionError(13, "no"))
        (True, False)
    """
    return error.errno in (errno.EMFILE, errno.ENFILE)


SPARE = 64
"""Descriptors reserved for everything but connections: the ledger, inputs, outputs, modules."""


def count_free_connections() -> int | None:
    """Return the number of connections that this process may open now; None if there is no limit.

    `SPARE` descriptors, or half of those left if fewer, are reserved for other uses.

    Example:
        >>> left = count_free_connections()
        >>> left is None or left > 0
        True
    """
    limits = open_file_limits()
    if limits is None or limits[0] < 0:
        return None
    taken = 32  # a guess, where the system does not list them
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            taken = sum(1 for _ in Path(folder).iterdir())
            break
    left = limits[0] - taken
    return max(1, left - min(SPARE, left // 2))


def can_open_more(files: int) -> bool:
    """Return whether that many more files can be opened now, for libraries whose errors do not show it.

    Example:
        >>> can_open_more(1)
        True
    """
    opened: list[int] = []
    try:
        for _ in range(files):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return not is_out_of_files(error)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def build_read_error(path: str | Path, error: OSError) -> Exception:
    """Return the exception for a file that cannot be read: an `InputError`, unless too many files are open.

    Example:
        >>> build_read_error("rows.jsonl", PermissionError(13, "Permission denied"))
        InputError('rows.jsonl: cannot be read: Permission denied')
        >>> str(build_read_error("rows.jsonl", OSError(errno.EMFILE, "Too many open files")))
        "[Errno 24] Too many open files: 'rows.jsonl'"
    """
    if is_out_of_files(error):
        return OSError(error.errno, os.strerror(error.errno or 0), str(path))
    return InputError(f"{path}: cannot be read: {error.strerror or error}")


MOUNTS = Path("/proc/self/mounts")
"""The mount table, one `device point type ...` a line; only on Linux."""

_BINARY = getattr(os, "O_BINARY", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)
_MOST_OPEN = 65_536  # some systems report no limit and refuse larger values


def open_descriptor(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file descriptor in binary mode that child processes do not inherit.

    Example:
        >>> os.close(open_descriptor(Path(os.devnull), os.O_RDWR))
    """
    return os.open(path, flags | _BINARY | _CLOSE_ON_EXEC, mode)


def open_nonblocking(path: Path, flags: int) -> int:
    """Open a path that may be a pipe; without a reader, the call fails instead of waiting.

    Example:
        >>> os.close(open_nonblocking(Path(os.devnull), os.O_WRONLY))
    """
    descriptor = open_descriptor(path, flags | WITHOUT_WAITING)
    make_blocking(descriptor)
    return descriptor


def make_blocking(descriptor: int) -> None:
    """Make reads and writes of a descriptor that was opened `WITHOUT_WAITING` block again."""
    if WITHOUT_WAITING:
        os.set_blocking(descriptor, True)


def _write_at(descriptor: int, data: bytes, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


write_at: Callable[[int, bytes, int], int] = getattr(os, "pwrite", _write_at)
"""Write bytes at an offset; returns how many were written. Without `pwrite`, only one thread may call it."""


def lock_file(descriptor: int) -> bool:
    """Wait for the lock on an open file; False if the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except ImportError:
        return False
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.ENOTSUP}:
            return False
        raise
    return True


def unlock_file(descriptor: int) -> None:
    """Release a lock of `lock_file`."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)


def lock_byte(descriptor: int, place: int, *, wait: bool = False) -> bool:
    """Lock one byte of a file; True if this process now holds it, or if the system has no such locks.

    If another process holds it, return False, or wait for it if `wait` (not on Windows). Closing any other descriptor
    of the file releases the byte.
    """
    try:
        if os.name == "posix":
            import fcntl

            fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
        else:
            _lock_on_windows(descriptor, place, "LK_NBLCK")
    except ImportError:
        return True
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
            return False
        raise
    return True


def unlock_byte(descriptor: int, place: int) -> None:
    """Release a byte that `lock_byte` has locked."""
    with suppress(ImportError, OSError):
        if os.name == "posix":
            import fcntl

            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)
        else:
            _lock_on_windows(descriptor, place, "LK_UNLCK")


def _lock_on_windows(descriptor: int, place: int, how: str) -> None:
    msvcrt = import_module("msvcrt")
    os.lseek(descriptor, place, os.SEEK_SET)
    msvcrt.locking(descriptor, getattr(msvcrt, how), 1)


def sync_folder(folder: Path) -> None:
    """Make the renames in a folder durable; does nothing where folders cannot be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_file_limits() -> tuple[int, int] | None:
    """Return the soft and the hard limit of open files (negative: none); None if the system has no such limits."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_open_file_limit() -> None:
    """Let this process open as many files as the system allows.

    Example:
        >>> raise_open_file_limit()
    """
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit on sockets
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system may allow less than it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def reuse_address(listening: socket.socket) -> None:
    """Let a server reuse its port at once, except on Windows, where the option would let two servers share a port."""
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def reset_on_close(connection: socket.socket) -> None:
    """Send a reset when the connection is closed, without lingering."""
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii" if os.name == "posix" else "hh", 1, 0)
    )
