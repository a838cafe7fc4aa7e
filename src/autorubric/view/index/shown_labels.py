"""The labels that pages show, by item: those that `autorubric agree` uses for the same choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.errors import AutorubricError, InputError
from autorubric.files.printable import to_utf8
from autorubric.jobs.label_source import (
    LabelChoice,
    find_history,
    has_completed_files,
    read_labels,
    resolve_annotator,
)
from autorubric.labels.event import find_pair
from autorubric.labels.label_store import FOLDER, STORE, History, read_history
from autorubric.llm.records.lock import find_lock_holder
from autorubric.view.index.dataset_lines import DatasetLines, LazyItems

DATASET = ""
"""The origin of labels that are in the graded dataset."""

Words = Sequence[str | None]
"""The label of each criterion of an item."""


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """Labels other than those of the graded dataset.

    Attributes:
        origin: the source of the labels, for pages.
        by_item: the labels of each labelled item.
        are_single: whether they are labels of single pairs, which `agree` measures like those of a label store.
    """

    origin: str
    by_item: Mapping[int, Words]
    are_single: bool


def compute_label_mark(run: Path, choice: LabelChoice, before: str) -> str:
    """Return a fingerprint of the labels that count. It stays the same while the run is being labelled.

    Args:
        run: the run directory.
        choice: which labels count.
        before: the mark of the labels that an index has; empty if there is none.
    """
    own = run / STORE
    if before and own.exists() and find_lock_holder(run / FOLDER) is not None:
        return before
    files = choice.files or [own, own.with_name(f"{own.name}-wal")]
    marks = []
    for file in files:
        for path in sorted(file.iterdir()) if file.is_dir() else [file]:
            found = path.stat() if path.exists() else None
            if found is not None and found.st_size and not path.name.endswith(("-shm", ".lock", ".json")):
                marks.append(f"{path.name}-{found.st_size}-{found.st_mtime_ns}")
    return "; ".join([*marks, choice.annotator or ""]) if marks or not choice.is_default else ""


def read_shown_labels(run: Path, lines: DatasetLines, choice: LabelChoice) -> ShownLabels | None:
    """Return the labels to show; None for those of the graded dataset.

    Raises:
        InputError: the labels that were chosen are wrong.
    """
    if choice.is_default:
        history = read_history(run) if (run / STORE).exists() else History()
        names = {item for item, _ in history.labelled()}
        places = _find_places(lines, names) if names else None
        return None if places is None else ShownLabels("the label store", _read_words(history, lines, places), True)
    from autorubric.runs.items_file import read_run

    if has_completed_files(choice):
        raise InputError(
            f"{choice.files[0]}: it was drawn with --label-next, so its labels are weighted; add it to the label "
            "store with `autorubric labels RUN --import FILE --annotator NAME`, or pass it to `autorubric agree`"
        )
    stored = read_run(run)
    found = find_history(choice, stored)
    origin = ", ".join(path.name for path in choice.files) or "another dataset"
    if found is None:
        items = enumerate(read_labels(stored, choice).items)
        whole = {at: [_as_word(label) for label in item.ground_truth] for at, item in items if item.ground_truth}
        return ShownLabels(origin, whole, False)
    who, names = resolve_annotator(found, choice.annotator), {item for item, _ in found.labelled()}
    return ShownLabels(origin, _read_words(found, lines, _find_places(lines, names, is_alone=False) or {}, who), True)


def _find_places(lines: DatasetLines, names: set[str], *, is_alone: bool = True) -> dict[str, int] | None:
    """Find the places of the items with these names; None if one has ground truth and the labels are for others."""
    found = {}
    with lines.path.open("rb") as file:
        for index in range(len(lines)):
            record = _read_record(lines, file, index)
            if is_alone and record.get("ground_truth") is not None:
                return None
            own = record.get("id")
            name = f"#{index}" if own is None else to_utf8(str(own))
            if name in names:
                found[name] = index
    return found


def _read_record(lines: DatasetLines, file: Any, index: int) -> Mapping[str, Any]:
    try:
        return lines.read_item_from(file, index)
    except InputError:
        return {}  # pages say that it is damaged


def _read_words(
    history: History, lines: DatasetLines, places: Mapping[str, int], annotator: str | None = None
) -> dict[int, Words]:
    items, found = LazyItems(lines), dict[int, Words]()
    for index in sorted(places.values()):
        try:
            rubric = items.get_item_rubric(index)
            keys = [find_pair(items, index, place).key for place in range(len(rubric))]
        except (AutorubricError, ValueError):
            continue  # damaged
        words = [history.verdict(key, annotator, one) for key, one in zip(keys, rubric, strict=True)]
        if any(words):
            found[index] = words
    return found


def _as_word(verdict: Any) -> str:
    return str(getattr(verdict, "value", verdict))
