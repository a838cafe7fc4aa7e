"""A run directory as the ledger and the lock need it: private, writable, on a local disk."""

from __future__ import annotations

import os
from pathlib import Path

from autorubric.errors import InputError
from autorubric.files.descriptors import is_out_of_files
from autorubric.system.files import MOUNTS, opened

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "fuse.sshfs"})


def private_file(directory: Path, name: str) -> Path:
    """The path of a file in `directory` that only its owner can read; both are made where they are missing.

    A directory that exists already keeps its mode.

    Raises:
        InputError: the directory cannot be made or written, or it lies on a network filesystem.
        OSError: the process is out of file descriptors.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = private_file(Path(folder) / "run", "ledger.sqlite")
        ...     oct(path.stat().st_mode), oct(path.parent.stat().st_mode)
        ('0o100600', '0o40700')
    """
    path = directory / name
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(opened(path, os.O_RDWR | os.O_CREAT))
    except OSError as error:
        if is_out_of_files(error):
            raise
        raise InputError(f"cannot write {path}: {error.strerror}; choose another run directory") from error
    kind = filesystem_of(directory)
    if kind in _NETWORK:
        raise InputError(
            f"{directory} is on a network filesystem ({kind}), where locks and syncs cannot be trusted; "
            "choose a run directory on a local disk"
        )
    return path


def filesystem_of(directory: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the filesystem that holds `directory`, or None where the system does not say.

    Args:
        directory: any existing path.
        mounts: the system's table of mounts, one `device point type ...` a line.

    Example:
        >>> filesystem_of(Path("/")) in {"nfs", "nfs4"}
        False
    """
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
