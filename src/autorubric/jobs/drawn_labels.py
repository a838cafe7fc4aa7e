"""Completed files of `agree --label-next` for a label store: draws with their probabilities, and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.jobs.label_next import COLUMNS, labels_in
from autorubric.labels.event import Draw, Event, checked_annotator, checked_verdict, pair_of
from autorubric.rows import read_rows

_NUMBERS = re.compile(r"\d+ of (\d+), seed (\d+)")


def is_drawn(path: Path) -> bool:
    """Whether `agree --label-next --csv` wrote a file."""
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return first is not None and first.fields.keys() >= set(COLUMNS)


def drawn_events(paths: Sequence[Path], dataset: RubricDataset, annotator: str | None) -> list[Event]:
    """The draws and labels of completed files; rows without a verdict are drawn pairs that stay open.

    Args:
        paths: the files.
        dataset: what was graded.
        annotator: whose labels these are.

    Raises:
        InputError: a cell is wrong, no row has a verdict, or there is no annotator.
    """
    if not paths:
        return []
    if annotator is None:
        raise InputError("the file does not say whose label this is; pass --annotator NAME (Python: annotator=)")
    name, labels = checked_annotator(annotator), labels_in(paths, dataset).labels
    return [*_draws(paths, dataset), *(_label(one.item, one.criterion, one.verdict, dataset, name) for one in labels)]


def _draws(paths: Sequence[Path], dataset: RubricDataset) -> Iterator[Event]:
    problems: list[str] = []
    for path in paths:
        for record in read_rows(path, problems, what="Label file"):
            row = record.fields
            try:
                pair = pair_of(dataset, int(row["item"]), int(row["criterion"]))
                numbers = _NUMBERS.fullmatch(str(row["draw"]).strip())
                if numbers is None:
                    raise ValueError
                opened, seed = map(int, numbers.groups())
                draw = Draw(int(row["batch"]), "label_next", None, seed, float(row["probability"]), opened, 0)
            except (ValueError, TypeError):
                problems.append(f"{record.where}: item, criterion, probability, batch and draw must stay as written")
                continue
            yield Event(0, 0.0, "draw", pair.item, pair.criterion, pair.digest, draw=draw)
    if problems:
        raise InputError(problems)


def _label(index: int, place: int, verdict: object, dataset: RubricDataset, annotator: str) -> Event:
    pair = pair_of(dataset, index, place)
    word = checked_verdict(dataset.get_item_rubric(index)[place], str(getattr(verdict, "value", verdict)))
    return Event(0, 0.0, "label", pair.item, pair.criterion, pair.digest, annotator, word)
