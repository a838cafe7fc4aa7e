"""The union of the ledgers of a run's shards in the run directory."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from autorubric.llm.records.ledger import FILE_NAME
from autorubric.llm.records.lock import run_lock
from autorubric.llm.records.union import add_ledger, rename_items
from autorubric.runs.manifest import DATASET_FILE, read_manifest
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import WORKERS_FOLDER, Part, Parts

if TYPE_CHECKING:
    from autorubric.dataset import RubricDataset

_RENAMED_ROLE = "judge"


@contextmanager
def locked(parts: Parts, *, wait: bool) -> Iterator[None]:
    """Keep other processes out of the shards.

    Raises:
        RunLockedError: another process works in one of them, and `wait` is False.
    """
    with ExitStack() as stack:
        for folder in parts.folders.values():
            stack.enter_context(run_lock(folder / LEDGER_FOLDER, wait=wait))
        yield


async def take_in(directory: Path, parts: Parts | None, dataset: RubricDataset | None = None) -> None:
    """Copy the calls of the shards, and of workers that were killed, into the ledger of a run directory, each once.

    Workers run their shards first.

    Args:
        directory: the run directory; this process holds its lock, and no ledger in it is open.
        parts: the shards; None for a run that is not divided.
        dataset: of all shards, where calls are about its items: they get the names that items have there.

    Raises:
        InputError: shards were started over a different number of times.
        LedgerError: a ledger is damaged, lost or cannot be written.
    """
    left = directory / LEDGER_FOLDER / WORKERS_FOLDER
    # The folders that the workers of this run have left are taken in below.
    if left.is_dir() and (parts is None or parts.workers is None or not parts.folders):
        _take_in_left(directory, left, dataset)
    if parts is None:
        return
    if parts.workers is not None:
        parts.started = time.monotonic()
        parts.folders = await parts.workers.run(directory)
    places = dict(parts.places(dataset)) if dataset is not None and parts.folders else {}
    for shard, folder in parts.folders.items():
        name = str(shard) if parts.workers is None else folder.name
        _unite(directory, folder, name)
        if dataset is not None and (parts.workers is None or (folder / DATASET_FILE).exists()):
            _rename(directory, folder, name, dataset, places[shard])


def _take_in_left(directory: Path, left: Path, dataset: RubricDataset | None) -> None:
    """Take in the shards of workers whose parent was killed, and remove them."""
    for folder in sorted(left.glob("*")):
        with run_lock(folder / LEDGER_FOLDER, wait=True):  # a worker that is still there notices soon and ends
            _unite(directory, folder, folder.name)
            part = Part.of_manifest(read_manifest(folder) or {})
            if part is not None and dataset is not None and (folder / DATASET_FILE).exists():
                places = part.shard.places(dataset, by_prompt=part.command == "select")
                _rename(directory, folder, folder.name, dataset, places)
        shutil.rmtree(folder)


def _unite(directory: Path, folder: Path, name: str) -> None:
    if not (folder / LEDGER_FOLDER / FILE_NAME).exists():  # its calls have been added one block after the other
        return
    for place in (directory, folder):
        with open_ledger(place):  # takes in what a killed process left
            pass
    add_ledger(directory / LEDGER_FOLDER, folder / LEDGER_FOLDER, name)


def _rename(directory: Path, folder: Path, name: str, dataset: RubricDataset, places: Sequence[int]) -> None:
    """Give the calls of a shard the names that its items have in the dataset of all shards."""
    from autorubric.dataset import RubricDataset

    pairs = enumerate(zip(RubricDataset.from_stored(folder / DATASET_FILE), places, strict=False))
    named = {item.id or str(number): dataset[place].id or str(place) for number, (item, place) in pairs}
    rename_items(directory / LEDGER_FOLDER, name, _RENAMED_ROLE, named)
