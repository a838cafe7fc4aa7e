"""A run's directory and its ledger, checked before anything is written."""

import logging
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from autorubric.errors import AutorubricError, InputError, LedgerError, pluralize
from autorubric.files.atomic import check_inside, remove_drafts
from autorubric.files.descriptors import is_exhausted, is_out_of_files
from autorubric.files.text import check_file
from autorubric.llm.batches.batch_store import FOLDER as BATCHES
from autorubric.llm.batches.batch_store import check_collectable, open_batches
from autorubric.llm.batches.setting import batching
from autorubric.llm.records.accounts import LOST, Spending, read_spending_file
from autorubric.llm.records.database import MARK, START_OVER, UnreadableLedgerError, has_tables, set_aside
from autorubric.llm.records.ledger import LINGER, Ledger
from autorubric.llm.records.ledger_view import connect_read_only
from autorubric.llm.records.lock import HOLDER_NAME, LEDGER_FILE, RUN_LOCK, WRITE_LOCK
from autorubric.runs.manifest import LEDGER_FOLDER as LEDGER_FOLDER  # noqa: PLC0414 - also a name of this module
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest
from autorubric.runs.shard import WORKERS_FOLDER, ShardParts

_SQLITE = b"SQLite format 3\0"
_LEDGER_FILES = (LEDGER_FILE, RUN_LOCK, HOLDER_NAME, WRITE_LOCK)


@contextmanager
def run_folder(
    out: Path,
    files: Iterable[str],
    sources: Iterable[Path] = (),
    *,
    start_over: bool = False,
    parts: ShardParts | None = None,
) -> Iterator[None]:
    """Create a run directory if there is none; remove it again if the run is refused before it has paid for a call.

    Args:
        out: the directory.
        files: names of the files that the run will write into it.
        sources: files and folders that the run reads.
        start_over: move an unreadable ledger aside.
        parts: the shards that the run merges; unless it started them itself, it pays for nothing.

    Raises:
        InputError: the directory cannot be created or written, one of the file names belongs to something that is not
            a regular file, or the run would overwrite a source.
        AutorubricError: the run failed with an InputError after it had paid for replies, which are kept, or because
            its directory was removed.

    Example:
        >>> import tempfile
        >>> out = Path(tempfile.mkdtemp()) / "run"
        >>> with run_folder(out, ["items.jsonl"]):
        ...     raise InputError("the key was refused")
        Traceback (most recent call last):
        autorubric.errors.InputError: the key was refused
        >>> out.exists()
        False
    """
    _check_paths(out, tuple(files), sources)
    ledger = out / LEDGER_FOLDER / LEDGER_FILE
    if not start_over and os.path.lexists(ledger):
        _refuse_non_ledger(ledger)
    new: list[Path] = []
    before, is_made = _read_spent_tokens(out), False
    try:
        _make_folders(out, new)
        is_made = True
        yield
    except InputError as error:
        pays = is_made and (parts is None or parts.workers is not None)
        if pays and (paid := _describe_paid(out, before, new)):
            raise AutorubricError(f"{error}; {paid}") from error
        if out in new:
            shutil.rmtree(out, ignore_errors=True)
        for folder in new:
            with suppress(OSError):  # other runs may be in it
                folder.rmdir()
        raise
    except OSError as error:
        if is_exhausted(error) and not is_out_of_files(error) and error.filename is None:
            error.filename = str(out)  # a write to an open file does not name it
        raise


def _make_folders(out: Path, new: list[Path]) -> None:
    """Create a folder and its missing parents; append the created ones to `new`, the innermost first."""
    try:
        for folder in reversed(list(takewhile(lambda folder: not folder.exists(), (out, *out.parents)))):
            with suppress(FileExistsError):  # another run has made it meanwhile
                folder.mkdir()
                new.insert(0, folder)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"{out}: cannot be made or written: {error.strerror}; pass another --out") from error


def _read_spent_tokens(out: Path) -> int:
    spent = read_spending_file(out / SPENT_FILE)
    return 0 if spent is None else spent.tokens


def _describe_paid(out: Path, before: int, new: Iterable[Path]) -> str:
    """Describe what happened to the replies that a failed run has paid for; empty if it paid for none."""
    if not out.exists():
        return f"{out} was removed or moved during the run, with its saved replies"
    if _read_spent_tokens(out) > before or (new and _have_workers_paid(out)):
        return "progress is saved; fix this and run the same command again"
    return ""


def _have_workers_paid(out: Path) -> bool:
    workers = out / LEDGER_FOLDER / WORKERS_FOLDER
    return os.path.isdir(workers) and any(map(_read_spent_tokens, workers.iterdir()))  # noqa: PTH112 (see above)


def _check_paths(out: Path, files: tuple[str, ...], sources: Iterable[Path]) -> None:
    for place in (out, *out.parents):
        if os.path.lexists(place) and not os.path.isdir(place):  # noqa: PTH112 (a name that is too long is not an error here)
            raise InputError(f"{place} is not a directory; pass another --out")
    names = (*files, SPENT_FILE, *(f"{LEDGER_FOLDER}/{name}" for name in _LEDGER_FILES))
    check_inside(out, (LEDGER_FOLDER, *names))
    problems = []
    for name in [name for name in names if os.path.lexists(out / name)]:
        try:
            check_file(out / name)
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
        place = "is" if here == there else "is inside"
        raise InputError(f"{out} {place} {source}, which the run reads; pass another --out")
    taken = [name for name in files if os.path.realpath(out / name) == there]
    if taken:
        raise InputError(f"{source}: the run would overwrite its own input with {taken[0]}; pass another --out")


def _refuse_non_ledger(path: Path) -> None:
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


SPENT_FILE = "spent.json"
_LOG = logging.getLogger("autorubric.ledger")


def open_ledger(directory: Path, *, start_over: bool = False, linger: float = LINGER) -> Ledger:
    """Return the ledger of a run directory, created for a new run.

    Args:
        directory: the run directory.
        start_over: continue although recorded replies are lost. A ledger that cannot be read is kept under another
            name. What the lost calls cost stays in `Ledger.sum_spent`.
        linger: see `Ledger.open`.

    Raises:
        LedgerError: the ledger is missing or empty although the manifest records calls, or it cannot be read.

    Example:
        >>> import tempfile
        >>> from autorubric.runs.manifest import write_manifest
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_manifest(Path(folder), {"calls": 120})
        ...     open_ledger(Path(folder))
        Traceback (most recent call last):
        autorubric.errors.LedgerError: .../ledger/ledger.sqlite is missing, but manifest.json records 120 calls; ...
    """
    remove_drafts(directory)
    folder, spent = directory / LEDGER_FOLDER, read_spending_file(directory / SPENT_FILE)
    manifest = read_manifest(directory) or {}
    calls, source = manifest.get("calls") or 0, MANIFEST_FILE
    if not calls and spent is not None and spent.calls:
        calls, source = spent.calls, SPENT_FILE
    known = f"{source} records {pluralize(calls, 'call') if calls else 'a run that wrote to it'}"
    if start_over:
        ledger = _open_or_replace(folder, linger)
    else:
        had_one = calls or (manifest and (manifest.get("completed_indices") or (folder / WRITE_LOCK).exists()))
        path = folder / LEDGER_FILE
        if had_one and not path.exists():
            raise _build_lost_error(path, "missing", known)
        if had_one and path.stat().st_size == 0 and not path.with_name(f"{path.name}-wal").exists():
            raise _build_lost_error(path, "empty", known)
        ledger = Ledger.open(folder, linger=linger)
        if calls and not ledger.count:
            ledger.close()
            raise _build_lost_error(path, "empty", known)
    if calls or spent is not None:
        _count_lost(ledger, calls, spent, folder)
    ledger.keep_spending(directory / SPENT_FILE)
    if (folder / BATCHES).is_dir():
        _refuse_open_batches(ledger, folder)
    return ledger


def _refuse_open_batches(ledger: Ledger, folder: Path) -> None:
    """Refuse single requests while open batches may contain them, because both would be paid for."""
    opened, how = open_batches(folder), batching.get()
    try:
        if how is not None and how.models:
            check_collectable(opened, how)
        elif how is None and opened:
            noun, asked = "batch" if len(opened) == 1 else "batches", Counter[str]()
            for record in opened:
                asked[record.model] += record.count
            counts = ", ".join(f"{pluralize(count, 'request')} to {model}" for model, count in asked.items())
            raise InputError(
                f"{folder.parent} has {len(opened)} open {noun} that will be charged: {counts}; collect them by the "
                "same command with --batch (in Python: batch=True)"
            )
    except InputError as error:
        ledger.close()
        raise InputError(f"{folder.parent}: {problem}" if how else problem for problem in error.problems) from None


def _count_lost(ledger: Ledger, calls: int, spent: Spending | None, folder: Path) -> None:
    """Record in the ledger the cost of calls that it has lost, so that a budget counts them.

    Args:
        ledger: the run's ledger.
        calls: the number of lost calls.
        spent: their cost; None if no file records it.
        folder: the ledger's folder.
    """
    recorded = ledger.sum_spent()
    missing = max(calls - recorded.calls, 0)
    lost = Spending(calls=missing, lost=missing) if spent is None else spent.compute_excess(recorded)
    if not lost.calls and not lost.tokens:
        return
    before = ledger.find_note(LOST)
    ledger.keep_note(LOST, lost.plus(Spending(*before)) if before else lost)
    what = f"calls lost from the ledger: {lost.calls:,}"
    if lost.lost:
        _LOG.warning("%s: %s; their cost is unknown, so a budget can no longer be enforced here", folder, what)
    else:
        cost = f"{lost.tokens:,} tokens, ${lost.cost:.4g}"
        _LOG.warning("%s: %s; what they cost (%s) still counts in a budget", folder, what, cost)


def _open_or_replace(folder: Path, linger: float) -> Ledger:
    try:
        return Ledger.open(folder, linger=linger)
    except LedgerError as error:
        if not isinstance(error, UnreadableLedgerError) and not (folder / MARK).exists():
            raise
    set_aside(folder / LEDGER_FILE)
    return Ledger.open(folder, linger=linger)


def _build_lost_error(path: Path, how: str, known: str) -> LedgerError:
    return LedgerError(
        f"{path} is {how}, but {known}; restore it from a copy, or request everything again with --start-over (in "
        "Python: start_over=True)"
    )
