"""One run per directory: another run is refused or moved away; the run's own shards are merged into it."""

import json
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, warn
from autorubric.files.descriptors import sync_folder
from autorubric.llm.models import collect_notes
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE, hold_run, run_lock
from autorubric.llm.records.union import add_all_rows, add_ledger, rename_items
from autorubric.runs.changes import describe_change
from autorubric.runs.manifest import DATASET_FILE, MANIFEST_FILE, read_manifest
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import MACHINES_FILE, WORKERS_FOLDER, ShardPart, ShardParts

_SELECTION = (
    *("decisions.jsonl", "selection.json", "selected.jsonl", "selected.parquet", "chat.jsonl"),
    *("trl_sft.jsonl", "trl_dpo.jsonl", "llamafactory"),
)
_STEPS = (
    *("step0_reference.jsonl", "step1_responses.jsonl", "step2_rubrics.jsonl", "step3_merged.jsonl"),
    *("step4_augmented.jsonl", "step5_gated.jsonl"),
)
RUN_FILES: Mapping[str, tuple[str, ...]] = {
    "evaluation": (
        *("dataset.json", "items.jsonl", "results.json", "results.jsonl", "results.csv", "results.parquet"),
        *_SELECTION,
    ),
    "selection": _SELECTION,
    "synthesis": (
        *_STEPS,
        *(f".{name}" for name in _STEPS),
        *("final.jsonl", "final.parquet", "unfinished.jsonl"),
        *("final_full.jsonl", "final_full.parquet"),
    ),
    "full synthesis": ("README.md", "plots", "rubrichub"),
    "improvement": (
        *("split.json", "finalists.json", "improvement.json", "log.jsonl", "report.html", "original.json"),
        "rubric.json",
    ),
    "review": ("review.json", "proposals.json", "report.html"),
    "evolution": ("rubric_versions.jsonl", "evolved.json"),
    "service": ("rubric_versions.jsonl", "evolved.json"),
}
"""By kind of run, the files and folders that it writes next to the manifest and the ledger."""

REWARDS = "rewards"
"""The kind of a run that only computes rewards."""

_MOVING = ".replacing"

FindChanges: TypeAlias = Callable[[Mapping[str, Any]], Sequence[str]]
"""Returns the differences between the new run and the run recorded in a manifest."""


def refuse_another_run(directory: Path, kind: str, find_changes: FindChanges, *, replace: bool) -> bool:
    """Return whether this run replaces another one in the directory. The caller must hold the directory's lock.

    Args:
        directory: the run directory.
        kind: of the run that is about to start, as manifests name it.
        find_changes: lists the differences from the run recorded in a manifest.
        replace: whether another run may be replaced.

    Raises:
        InputError: the directory contains another run, and `replace` is not set; nothing was changed.
    """
    if (directory / _MOVING).is_dir():
        _move_back(directory)
    changes = _find_another_run(directory, kind, find_changes)
    if changes and not replace:
        raise InputError(
            (f"{directory}: {change}" for change in changes),
            f"{directory} contains another run. Pass another --out, or --replace (in Python: replace=True): its "
            f"files then move to {_find_free_folder(directory)}, and its saved replies stay usable.",
        )
    return bool(changes)


class Opening(NamedTuple):
    """How a run opens its directory.

    Attributes:
        wait: wait while another process uses the directory, instead of failing.
        start_over: see `open_ledger`.
        replace: move another run in the directory away.
        parts: the shards whose ledgers are merged into this run's.
    """

    wait: bool = False
    start_over: bool = False
    replace: bool = False
    parts: ShardParts | None = None


@asynccontextmanager
async def locked_ledger(
    directory: Path, kind: str, find_changes: FindChanges, opening: Opening
) -> AsyncIterator[Ledger]:
    """Lock a run directory and yield its ledger; another run in the directory is refused or moved away.

    Args:
        directory: the run directory.
        kind: of the run, a key of `RUN_FILES`.
        find_changes: lists the differences from the run recorded in a manifest.
        opening: how the directory is opened.

    Raises:
        InputError: the directory contains another run that is not to be replaced.
        RunLockedError: another process works in the directory.
        LedgerError: see `open_ledger`.
    """
    with await hold_run(directory / LEDGER_FOLDER, wait=opening.wait):
        replaces = refuse_another_run(directory, kind, find_changes, replace=opening.replace)
        await merge_shards(directory, opening.parts)
        with open_ledger(directory, start_over=opening.start_over) as ledger:
            if replaces:
                move_run_away(directory)
            yield ledger


def note_another_run(directory: Path, kind: str, find_changes: FindChanges) -> None:
    """Warn, before a dry run, that `refuse_another_run` would refuse the directory. Nothing is locked or changed."""
    for change in _find_another_run(directory, kind, find_changes):
        warn(
            f"{directory} contains another run ({change}), so this one needs another --out, or --replace (in Python: "
            "replace=True)"
        )


def _find_another_run(directory: Path, kind: str, find_changes: FindChanges) -> Sequence[str]:
    manifest = read_manifest(directory) or {}
    recorded = str(manifest.get("kind") or kind)
    if recorded == REWARDS:  # its manifest only reports progress; any run may use its replies
        return find_changes({})
    if recorded == kind:
        return find_changes(manifest)
    return [describe_change("kind of run", recorded, kind)]


def move_run_away(directory: Path) -> Path:
    """Move the run's files to the subdirectory `replaced-N`; the ledger and the recorded costs stay.

    The files are moved to a hidden folder first. So after a kill, either all of them are in the new folder, or
    `refuse_another_run` moves all of them back.
    """
    manifest = read_manifest(directory) or {}
    names = [MANIFEST_FILE, *RUN_FILES.get(str(manifest.get("kind") or "evaluation"), ())]
    if (manifest.get("settings") or {}).get("profile") == "full":
        names += RUN_FILES["full synthesis"]
    moving, target = directory / _MOVING, _find_free_folder(directory)
    moving.mkdir()
    # The manifest goes first: without it, no reader takes the rest for a run.
    for name in names:
        if (directory / name).exists():
            (directory / name).rename(moving / name)
    for folder in (moving, directory):
        sync_folder(folder)
    moving.rename(target)
    sync_folder(directory)
    warn(f"the files of the earlier run in {directory} are now in {target}")
    return target


def _move_back(directory: Path) -> None:
    """Undo a move that was interrupted by a kill."""
    moving = directory / _MOVING
    for path in sorted(moving.iterdir(), key=lambda path: path.name == MANIFEST_FILE):
        path.rename(directory / path.name)
    shutil.rmtree(moving)
    sync_folder(directory)


def _find_free_folder(directory: Path) -> Path:
    number = 1
    while (directory / f"replaced-{number}").exists():
        number += 1
    return directory / f"replaced-{number}"


_RENAMED_ROLE = "judge"


@asynccontextmanager
async def locked(runs: Iterable[Path], *, wait: bool) -> AsyncIterator[None]:
    """Hold the locks of all run directories that exist.

    Raises:
        RunLockedError: another process works in one of them, and `wait` is False.
    """
    with ExitStack() as stack:
        for ledger in {(run / LEDGER_FOLDER).resolve(): run / LEDGER_FOLDER for run in runs}.values():
            if ledger.is_dir():
                stack.enter_context(await hold_run(ledger, wait=wait))
        yield


async def merge_shards(directory: Path, parts: ShardParts | None, dataset: RubricDataset | None = None) -> None:
    """Merge the calls of the shards and of killed workers into the ledger of a run directory, each exactly once.

    If the run starts its own workers, they run their shards first.

    Args:
        directory: the run directory; this process holds its lock, and no ledger in it is open.
        parts: the shards; None for a run that is not divided.
        dataset: of all shards; the calls get the item names that it has. None if calls are not about its items.

    Raises:
        InputError: the shards were not started over equally often.
        LedgerError: a ledger is damaged, lost or cannot be written.
    """
    left = directory / LEDGER_FOLDER / WORKERS_FOLDER
    # The folders of this run's own workers are merged below.
    if left.is_dir() and (parts is None or parts.workers is None or not parts.folders):
        await _merge_leftovers(directory, left, dataset)
    if parts is None:
        return
    if parts.workers is not None:
        parts.started = time.monotonic()
        parts.folders = await parts.workers.run(directory)
    else:
        open_ledger(directory).close()  # recovers what a killed process left
    places = dict(parts.find_places(dataset)) if dataset is not None and parts.folders else {}
    for shard, folder in parts.folders.items():
        name = str(shard) if parts.workers is None else folder.name
        parts.negotiated = collect_notes((), parts.negotiated, (read_manifest(folder) or {}).get("negotiated"))
        # The calls of a Ray worker may have been added one block after the other.
        if parts.workers is None or (folder / LEDGER_FOLDER / LEDGER_FILE).exists():
            _merge_ledger(directory, folder, name)
        if dataset is not None and (parts.workers is None or (folder / DATASET_FILE).exists()):
            _rename(directory, folder, name, dataset, places[shard])


async def _merge_leftovers(directory: Path, left: Path, dataset: RubricDataset | None) -> None:
    """Merge the shards of workers whose parent was killed, and remove them."""
    open_ledger(directory).close()  # recovers what a killed process left
    for folder in sorted(left.glob("*")):
        if (folder / MACHINES_FILE).exists():
            _merge_ray_leftovers(directory, (folder / MACHINES_FILE).read_text(encoding="utf-8").splitlines())
            shutil.rmtree(folder)
            continue
        with await hold_run(folder / LEDGER_FOLDER, wait=True):  # a worker that still runs will notice and end
            if (folder / LEDGER_FOLDER / LEDGER_FILE).exists():
                _merge_ledger(directory, folder, folder.name)
            part = ShardPart.from_manifest(read_manifest(folder) or {})
            if part is not None and dataset is not None and (folder / DATASET_FILE).exists():
                places = part.shard.find_places(dataset, by_prompt=part.command == "select")
                _rename(directory, folder, folder.name, dataset, places)
        shutil.rmtree(folder)


def _merge_ray_leftovers(directory: Path, lines: Iterable[str]) -> None:
    """Merge the ledgers that Ray workers left on this machine; warn about other machines that may have more."""
    here, places = socket.gethostname(), {tuple(json.loads(line)) for line in lines}
    for place in sorted(Path(place) for machine, place in places if machine == here):
        for folder in sorted(place.glob("*")):
            add_all_rows(directory / LEDGER_FOLDER, folder / LEDGER_FOLDER, recover_ledger(folder))
            shutil.rmtree(folder)
        with suppress(OSError):  # it was never created, or is already removed
            place.rmdir()
    others = sorted({machine for machine, _ in places if machine != here})
    if others:
        warn(
            f"Ray workers on {', '.join(others)} may have replies that {directory} lacks; only --engine ray "
            "collects them. Without it, these requests are sent again"
        )


NAME_FILE = "name"
"""A file next to the ledger of a Ray worker, with the ledger's unique name."""


def recover_ledger(folder: Path) -> str:
    """Commit the calls that a killed Ray worker had not committed; return the unique name of its ledger."""
    if (folder / LEDGER_FOLDER / LEDGER_FILE).exists():
        with run_lock(folder / LEDGER_FOLDER, wait=True), open_ledger(folder):
            pass
    name = folder / NAME_FILE
    return name.read_text(encoding="utf-8") if name.exists() else folder.name


def _merge_ledger(directory: Path, folder: Path, name: str) -> None:
    open_ledger(folder).close()  # recovers what a killed process left
    add_ledger(directory / LEDGER_FOLDER, folder / LEDGER_FOLDER, name)


def _rename(directory: Path, folder: Path, name: str, dataset: RubricDataset, places: Sequence[int]) -> None:
    """Rename the items in a shard's calls from their names in the shard to those in the whole dataset."""
    pairs = enumerate(zip(RubricDataset.from_stored(folder / DATASET_FILE), places, strict=False))
    named = {item.id or str(number): dataset[place].id or str(place) for number, (item, place) in pairs}
    changed = {before: now for before, now in named.items() if before != now}
    rename_items(directory / LEDGER_FOLDER, name, _RENAMED_ROLE, changed)
