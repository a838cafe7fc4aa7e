"""The ledger of a run directory, opened only where it holds what the run is known to have recorded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from autorubric.errors import LedgerError
from autorubric.files.atomic import remove_drafts
from autorubric.llm.records.ledger import FILE_NAME, LINGER, Ledger
from autorubric.llm.records.lock import WRITE_LOCK
from autorubric.llm.records.recovery import MARK, set_aside
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest

LEDGER_FOLDER = "ledger"
_LOG = logging.getLogger("autorubric.ledger")


def open_ledger(directory: Path, *, start_over: bool = False, linger: float = LINGER) -> Ledger:
    """The ledger of a run directory, made where the run is new.

    Args:
        directory: the run directory.
        start_over: go on where the recorded replies are lost. A ledger that cannot be read is kept under another
            name.
        linger: see `Ledger.open`.

    Raises:
        LedgerError: the ledger is missing or empty while the manifest knows of calls, or no reply in it can be read.

    Example:
        >>> import tempfile
        >>> from autorubric.runs.manifest import write_manifest
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_manifest(Path(folder), {"calls": 120})
        ...     open_ledger(Path(folder))
        Traceback (most recent call last):
        autorubric.errors.LedgerError: .../ledger/ledger.sqlite is missing, but manifest.json knows of 120 calls; ...
    """
    remove_drafts(directory)
    folder = directory / LEDGER_FOLDER
    manifest = read_manifest(directory) or {}
    calls = _known_calls(manifest)
    if start_over:
        ledger = _opened_anyhow(folder, linger)
        if calls and not ledger.count:
            _LOG.warning("%s: what the %d lost calls cost is not known; a budget does not count them", folder, calls)
        return ledger
    had_one = manifest and (calls or manifest.get("completed_indices") or (folder / WRITE_LOCK).exists())
    if had_one and _is_gone(folder / FILE_NAME):
        raise _lost(folder, "empty" if (folder / FILE_NAME).exists() else "missing", calls)
    ledger = Ledger.open(folder, linger=linger)
    if calls and not ledger.count:
        ledger.close()
        raise _lost(folder, "empty", calls)
    return ledger


def _opened_anyhow(folder: Path, linger: float) -> Ledger:
    try:
        return Ledger.open(folder, linger=linger)
    except LedgerError:
        if not (folder / MARK).exists():
            raise
    set_aside(folder / FILE_NAME)
    return Ledger.open(folder, linger=linger)


def _is_gone(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return not path.exists() or (path.stat().st_size == 0 and not log.exists())


def _known_calls(manifest: dict[str, Any]) -> int:
    calls = manifest.get("calls")
    if isinstance(calls, int):
        return calls
    # Manifests of synthesis did not always have the sum.
    usage = manifest.get("usage")
    counts = [total.get("calls") for total in usage if isinstance(total, dict)] if isinstance(usage, list) else []
    return sum(count for count in counts if isinstance(count, int))


def _lost(folder: Path, how: str, calls: int) -> LedgerError:
    known = f"{calls} calls" if calls else "a run that recorded in it"
    return LedgerError(
        f"{folder / FILE_NAME} is {how}, but {MANIFEST_FILE} knows of {known}; restore it from a copy, or request "
        "everything again with --start-over (in Python: resume=False)"
    )
