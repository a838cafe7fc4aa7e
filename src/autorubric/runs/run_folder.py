"""The directory of a run: looked at before anything is written, and gone again where the run was refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autorubric.errors import InputError, LedgerError
from autorubric.files.text import size_of_plain
from autorubric.llm.records.database import START_OVER, has_tables
from autorubric.llm.records.ledger import FILE_NAME
from autorubric.llm.records.lock import FILE_NAME as LOCK_NAME
from autorubric.llm.records.view import connect_read_only
from autorubric.runs.run_ledger import LEDGER_FOLDER, SPENT_FILE

_SQLITE = b"SQLite format 3\0"


@dataclass
class RunFolder:
    """A run directory while its run goes on.

    Attributes:
        path: the directory.
        refused: whether the run ended before anything was paid, so that a new directory need not stay.
    """

    path: Path
    refused: bool = False


@contextmanager
def run_folder(
    out: Path, files: Iterable[str], sources: Iterable[Path] = (), *, start_over: bool = False
) -> Iterator[RunFolder]:
    """Make a run directory where there is none; where the run is refused, what was made is taken away again.

    Args:
        out: the directory.
        files: names of the files that the run will write into it.
        sources: files and folders that the run reads.
        start_over: a ledger that cannot be read is no problem, because the run moves it aside.

    Raises:
        InputError: it cannot be made or written, something else stands where a file will, or a source would be
            overwritten.

    Example:
        >>> import tempfile
        >>> out = Path(tempfile.mkdtemp()) / "run"
        >>> with run_folder(out, ["items.jsonl"]) as folder:
        ...     folder.refused = True
        >>> out.exists()
        False
    """
    _check(out, tuple(files), sources)
    if not start_over:
        _refuse_no_ledger(out / LEDGER_FOLDER / FILE_NAME)
    made = _made(out)
    folder = RunFolder(out)
    try:
        yield folder
    except InputError:
        folder.refused = True
        raise
    finally:
        if folder.refused and made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _check(out: Path, files: tuple[str, ...], sources: Iterable[Path]) -> None:
    for place in (out, *out.parents):
        if os.path.lexists(place) and not os.path.isdir(place):  # noqa: PTH112 (a name that is too long is no error here)
            raise InputError(f"{place} is no directory; pass another --out")
    problems = []
    for name in (*files, SPENT_FILE, f"{LEDGER_FOLDER}/{FILE_NAME}", f"{LEDGER_FOLDER}/{LOCK_NAME}"):
        try:
            size_of_plain(out / name)
        except FileNotFoundError:
            continue
        except InputError as error:
            problems += [f"{problem}; move it away, or pass another --out" for problem in error.problems]
    if problems:
        raise InputError(problems)
    for source in sources:
        _refuse_overwriting(out, files, source)


def _refuse_overwriting(out: Path, files: tuple[str, ...], source: Path) -> None:
    there, here = os.path.realpath(source), os.path.realpath(out)
    if Path(there).is_dir() and (here == there or here.startswith(f"{there}{os.sep}")):
        raise InputError(f"{out}: lies in {source}, which is read; pass another --out")
    taken = [name for name in files if os.path.realpath(out / name) == there]
    if taken:
        raise InputError(f"{source}: the run would write {taken[0]} over its own input; pass another --out")


def _refuse_no_ledger(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError:
        return
    if head and head != _SQLITE:
        raise InputError(
            f"{path}: is not a ledger, or its first bytes are damaged; pass another --out, restore it from a copy, "
            f"or {START_OVER}"
        )
    try:
        with closing(connect_read_only(path)) as connection:
            has_tables(connection, str(path))
    except LedgerError as error:
        raise InputError(str(error)) from error
    except sqlite3.Error:
        return  # damage is repaired or reported where the ledger is opened for writing


def _made(out: Path) -> Path | None:
    """Make a directory and those above it; the topmost that was not there before, None where all were."""
    topmost = None
    try:
        for folder in (out, *out.parents):
            if folder.exists():
                break
            topmost = folder
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        if topmost is not None:
            shutil.rmtree(topmost, ignore_errors=True)
        raise InputError(f"{out}: cannot be made or written: {error.strerror}; pass another --out") from error
    return topmost
