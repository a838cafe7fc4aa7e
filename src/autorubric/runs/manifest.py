"""The manifest of a run directory: what was run, with which models and templates, and its progress."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zlib import crc32

from autorubric.errors import InputError, MissingFileError, warn
from autorubric.files import atomic_writer, dump_json
from autorubric.files.strict_json import parse_json
from autorubric.llm.records.lock import LEDGER_FILE

MANIFEST_FILE = "manifest.json"
CHANGED = "changed"
"""Recorded instead of a digest if the items file may contain lines that were changed after the run."""
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("made_of", "settings", "models", "templates", "counts", "grader_config", "eval_config"), dict),
    "total_duration_seconds": int | float,
    "calls": int | None,
}


def write_manifest(directory: Path, content: Mapping[str, Any]) -> None:
    """Replace the manifest of `directory`, keeping its creation time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    created = (read_manifest(directory) or {}).get("created_at", now)
    whole = {"created_at": created, "updated_at": now, **content}
    with atomic_writer(directory / MANIFEST_FILE) as file:
        file.write(f"{dump_json(whole, indent=2)}\n")


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """Return the manifest of a run directory; None if there is none or it cannot be read.

    Results do not depend on the manifest, so values of the wrong type are ignored.
    """
    path = directory / MANIFEST_FILE
    if not os.path.isfile(path):  # noqa: PTH113 (a name that is too long is not an error here)
        return None
    try:
        content = parse_json(path.read_bytes().decode(), str(path))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict):
        return None
    return {name: value for name, value in content.items() if isinstance(value, _KINDS.get(name, object))}


def describe_no_run(directory: Path, lacks: str = "no readable manifest.json") -> str:
    """Explain why a path is not a run directory: it does not exist, is a file, or lacks a required file.

    Example:
        >>> describe_no_run(Path("/"))
        '/ is not a run directory: it has no readable manifest.json'
        >>> describe_no_run(Path("no-such-run"))
        'no-such-run does not exist; expected a run directory'
    """
    if not os.path.lexists(directory):
        return f"{directory} does not exist; expected a run directory"
    lacking = f"has {lacks}" if os.path.isdir(directory) else "is a file"  # noqa: PTH112 (see above)
    lacking = "cannot be read: Permission denied" if _is_closed(directory) else lacking
    return f"{directory} is not a run directory: it {lacking}"


def require_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a run directory.

    Raises:
        MissingFileError: there is none, or it cannot be read.
    """
    found = read_manifest(directory)
    if found is None:
        raise MissingFileError(describe_no_run(directory))
    return found


Status: TypeAlias = Literal["running", "completed", "failed"]

DATASET_FILE = "dataset.json"
ITEMS_FILE = "items.jsonl"
LEDGER_FOLDER = "ledger"

_CHUNK = 1 << 20
_TIMES = ("created_at", "started_at", "completed_at")


@dataclass
class ExperimentManifest:
    """What an experiment is, and its progress.

    Attributes:
        experiment_name: the directory's name.
        created_at: when it was first run.
        dataset_name: the dataset's name.
        dataset_hash: the digest of everything in the dataset.
        total_items: items to grade.
        status: `running` (or killed), `completed` (all items have verdicts) or `failed` (some do not).
        completed_indices: items whose every criterion has a verdict.
        error: why the last run ended early; None if it did not.
        started_at: when the last run began.
        completed_at: when it ended.
        total_duration_seconds: the duration of all runs together.
        dataset_path: the copy of the dataset, in the directory.
        grader_config: the configuration of the grader, for the record.
        eval_config: settings of the last run.
        calls: calls in the ledger, all runs together; None if the directory has no ledger.
        negotiated: parameters that endpoints did not accept, and what was sent instead.
        items_digest: the digest of the items file when the last run ended; see `digest_lines`.

    Example:
        >>> from datetime import UTC
        >>> manifest = ExperimentManifest("e", datetime(2026, 1, 1, tzinfo=UTC), None, "44136fa3", 2, "running", {1})
        >>> ExperimentManifest.from_dict(manifest.to_dict()) == manifest
        True
    """

    experiment_name: str
    created_at: datetime
    dataset_name: str | None
    dataset_hash: str
    total_items: int
    status: Status
    completed_indices: set[int]
    error: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_duration_seconds: float | None = None
    dataset_path: str | None = None
    grader_config: dict[str, Any] | None = None
    eval_config: dict[str, Any] | None = None
    calls: int | None = None
    negotiated: list[str] = field(default_factory=list)
    items_digest: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        record = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        for name in _TIMES:
            record[name] = record[name].isoformat() if record[name] else None
        record["completed_indices"] = sorted(self.completed_indices)
        return record

    @classmethod
    def from_dict(cls, data: dict[str, Any], where: str = "") -> ExperimentManifest:
        """Return the manifest from JSON values; unknown keys are ignored.

        Args:
            data: the values.
            where: the head of every message.

        Raises:
            InputError: it is not a mapping, a key is missing, or a time is not valid.
        """
        problem = f"{where}not the manifest of an experiment"
        if not isinstance(data, dict):
            raise InputError(f"{problem}: expected a mapping, got {type(data).__name__}")
        known = {spec.name for spec in fields(cls)}
        values = {"dataset_name": None} | {key: value for key, value in data.items() if key in known}
        try:
            for name in _TIMES:
                values[name] = datetime.fromisoformat(values[name]) if values.get(name) else None
            values["completed_indices"] = set(values["completed_indices"])
            return cls(**values)
        except KeyError as error:
            raise InputError(f"{problem}: no key {error}") from None
        except (TypeError, ValueError) as error:
            raise InputError(f"{problem}: {error}") from None

    def save(self, directory: Path) -> None:
        """Replace the manifest of `directory`, atomically."""
        write_manifest(directory, {"kind": "evaluation", **self.to_dict()})

    def warn_of_change(self, path: Path) -> str:
        """Warn if `path`, the run's copy of the dataset, has changed since the run; the warning, or empty."""
        if not self.dataset_hash:
            return ""
        if not path.is_file():  # AutoRubric 1.6 stored none
            return warn_of_change(path) if self.dataset_path else ""
        digest, left = sha256(), path.stat().st_size - 1  # the digest excludes the final line break
        with path.open("rb") as file:
            while chunk := file.read(min(left, _CHUNK)):
                digest.update(chunk)
                left -= len(chunk)
        return "" if digest.hexdigest()[:16] == self.dataset_hash else warn_of_change(path)


def load_manifest(directory: Path) -> ExperimentManifest:
    """Return the manifest of an experiment directory.

    Raises:
        MissingFileError: there is none.
        InputError: it is another kind of run.

    Example:
        >>> load_manifest(Path("no-such-run"))
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: no-such-run does not exist; expected a run directory
    """
    found = require_manifest(directory)
    kind = found.get("kind", "evaluation")
    if kind != "evaluation":
        rubrics = f", with its rubrics in {directory / 'final.jsonl'}" if kind == "synthesis" else ""
        raise InputError(f"{directory} is a run of {kind}{rubrics}; expected a run of `autorubric grade`")
    return ExperimentManifest.from_dict(found, f"{directory / MANIFEST_FILE}: ")


def digest_lines(lines: Iterable[bytes]) -> str:
    """Return the CRC-32 of a file's lines, to detect damage. It is ten times as fast as parsing them.

    Example:
        >>> digest_lines([b"{}"])
        'a3a6bf43'
    """
    found = 0
    for line in lines:
        found = crc32(line, found)
    return f"{found:08x}"


def warn_of_change(path: Path, missing: int = 0) -> str:
    """Warn that a file is missing or has changed since the run wrote it.

    Args:
        path: the items file or the dataset.
        missing: how many items are missing from it.

    Returns:
        The warning, with the name of the file alone.
    """
    lost = f" ({missing:,} item{'s are' if missing > 1 else ' is'} missing)" if missing else ""
    what = "texts, weights and labels" if path.name == DATASET_FILE else "verdicts"
    state = f"is missing, so its {what} are unknown"
    if path.is_file():
        state = f"has changed since the run wrote it{lost}, so its {what} may be wrong"
    note = f" {state}; grade into the run directory again: saved replies are not paid for twice"
    warn(f"{path}{note}")
    return path.name + note


def find_ledger_folder(directory: Path) -> Path | None:
    """Return the folder of a run directory that holds its ledger; None if there is none.

    Example:
        >>> find_ledger_folder(Path("no-such-run")) is None
        True
    """
    # A grader with a `run_dir` keeps its ledger directly in that directory.
    own = directory / LEDGER_FOLDER
    # A folder of another user cannot be inspected; opening the ledger then says why it cannot be read.
    if os.path.lexists(own / LEDGER_FILE) or _is_closed(own):
        return own
    return directory if os.path.lexists(directory / LEDGER_FILE) else None


def _is_closed(folder: Path) -> bool:
    return os.path.isdir(folder) and not os.access(folder, os.X_OK)  # noqa: PTH112 (a name may be too long)
