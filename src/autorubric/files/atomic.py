"""Atomic writes."""

import filecmp
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

from autorubric.errors import InputError
from autorubric.files.descriptors import is_exhausted, open_descriptor, sync_folder
from autorubric.files.remote import make_path

_DRAFT = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


def write_atomically(path: str | Path, chunks: Iterable[str | bytes], *, permissions: int | None = None) -> None:
    r"""Write a file atomically: a reader finds the old content or the new one, never a part.

    Args:
        path: the file to create or replace; text is written as UTF-8.
        chunks: the content in order, consumed one at a time.
        permissions: the mode of the new file; by default the old file's, or what the umask leaves.

    Raises:
        InputError: the folder is missing or cannot be written to.
        OSError: the disk is full or broken, or the process is out of file descriptors.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> write_atomically(path, ["{}", "\n"])
        >>> path.read_text()
        '{}\n'
    """
    with atomic_writer(path, "wb", permissions=permissions) as file:
        for chunk in chunks:
            file.write(chunk.encode() if isinstance(chunk, str) else chunk)


@overload
def atomic_writer(
    path: str | Path, mode: Literal["w"] = "w", *, permissions: int | None = None, keep_same: bool = False
) -> AbstractContextManager[IO[str]]: ...
@overload
def atomic_writer(
    path: str | Path, mode: Literal["wb"], *, permissions: int | None = None, keep_same: bool = False
) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def atomic_writer(
    path: str | Path, mode: Literal["w", "wb"] = "w", *, permissions: int | None = None, keep_same: bool = False
) -> Iterator[IO[Any]]:
    r"""Yield a file whose content replaces `path` durably and atomically when the `with` block succeeds.

    If the block raises an error, `path` is unchanged and nothing is left behind. For a symbolic link, the target is
    replaced. A device or pipe (`/dev/stdout`) is written to directly.

    Args:
        path: the file to create or replace.
        mode: "w" for UTF-8 text with `\n` line ends, "wb" for bytes.
        permissions: the mode of the new file; by default the old file's, or what the umask leaves.
        keep_same: keep an existing file that has the same content.

    Raises:
        InputError: the folder is missing or cannot be written to.
        OSError: the disk is full or broken, or the process is out of file descriptors.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "summary.txt"
        >>> with atomic_writer(path) as file:
        ...     _ = file.write("done\n")
        >>> path.read_text()
        'done\n'
    """
    target = Path(os.path.realpath(make_path(path)))
    replaced: int | None = None
    with suppress(OSError):
        replaced = target.stat().st_mode
    if replaced is not None and stat.S_ISDIR(replaced):
        raise InputError(f"{target}: cannot be written: it is a folder")
    if replaced is not None and not stat.S_ISREG(replaced):
        with _open_target(path, target, os.O_WRONLY, mode) as file:
            yield file
        return
    draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    file = _open_target(path, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with file:
            wanted = permissions if permissions is not None else replaced and stat.S_IMODE(replaced)
            if wanted is not None:
                draft.chmod(wanted)
            yield file
            file.flush()
            is_same = keep_same and replaced is not None and filecmp.cmp(draft, target, shallow=False)
            if not is_same:
                os.fsync(file.fileno())
        if is_same:
            draft.unlink()
            return
        draft.replace(target)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError) and error.filename is None and is_exhausted(error):
            error.filename = str(path)  # a failed write does not name its file
        raise
    sync_folder(target.parent)


def check_inside(folder: Path, names: Iterable[str | Path]) -> None:
    """Raise an error for files that a symbolic link leads out of the folder, as in an untrusted folder.

    Raises:
        InputError: one of them is outside.

    Example:
        >>> check_inside(Path("run"), ["../items.jsonl"])
        Traceback (most recent call last):
        autorubric.errors.InputError: run/../items.jsonl is outside run, by a symbolic link; put a copy ...
    """
    for path in (folder / name for name in names):
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            advice = "put a copy in its place (cp -RL copies what links point to), or let the whole folder be a link"
            raise InputError(f"{path} is outside {folder}, by a symbolic link; {advice}")


def remove_drafts(folder: Path) -> None:
    r"""Remove drafts that killed processes left in `folder`; call it while no other process writes there.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / ".rows.jsonl.0123456789ab.tmp").write_text("{")
        >>> remove_drafts(folder)
        >>> list(folder.iterdir())
        []
    """
    for path in folder.glob(".*.tmp"):
        if _DRAFT.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def _open_target(path: str | Path, actual: Path, flags: int, mode: str) -> IO[Any]:
    """Open the file; error messages name `path`."""
    try:
        descriptor = open_descriptor(actual, flags, 0o666)
    except OSError as error:
        if is_exhausted(error):  # the path is right: status 2 would say that nothing was spent
            raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    if mode == "wb":
        return os.fdopen(descriptor, "wb")
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")
