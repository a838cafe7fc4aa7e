"""A dataset in a file: JSON, YAML or JSON Lines, by extension.

JSON Lines: first `{"dataset": {…}}` with what holds for all items, then one item a line.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.dataset.reading import Parts, read_parts, read_record
from autorubric.dataset.record import dataset_record, head_and_items
from autorubric.errors import InputError
from autorubric.files.atomic import write_atomically
from autorubric.files.json_stream import head_and_members
from autorubric.files.jsonl import iter_jsonl
from autorubric.files.strict_json import dump_json, parse_json
from autorubric.files.text import read_text

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset

_WHAT = "Dataset file"


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which looks through millions of new values again and again in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # All that was made is young still: the first collection would go through the whole of it at once.
            # Freezing and unfreezing makes it old, unless a caller keeps something frozen.
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@_no_collection()
def load(path: str | Path) -> Parts:
    """The parts of the dataset in a file.

    Raises:
        MissingFileError: there is no such file.
        InputError: with one problem for each offending place, file and row included.

    Example:
        >>> load("dataset.csv")
        Traceback (most recent call last):
        autorubric.errors.InputError: dataset.csv: Unsupported file format '.csv'. Supported formats: ...
    """
    if _extension(path) == ".jsonl":
        return _load_rows(path)
    text = read_text(path, what=_WHAT)
    try:
        return _parts(text, _extension(path))
    except InputError as error:
        raise InputError(f"{path}: {problem}" for problem in error.problems) from None


@_no_collection()
def load_text(json_text: str) -> Parts:
    """The parts of the dataset in a JSON text.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> load_text('{"prompt": "Explain photosynthesis", "rubric": null}').prompt
        'Explain photosynthesis'
    """
    return _parts(json_text, ".json")


@_no_collection()
def save(dataset: RubricDataset, path: str | Path) -> None:
    """Write a dataset to a file, wholly or not at all.

    Raises:
        InputError: another extension, a value that cannot be written, or a folder that cannot.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> save(RubricDataset("Explain"), "dataset.csv")
        Traceback (most recent call last):
        autorubric.errors.InputError: dataset.csv: Unsupported file format '.csv'. Supported formats: ...
    """
    extension = _extension(path)
    if extension == ".jsonl":
        write_atomically(path, _rows(dataset))
    elif extension == ".json":
        try:
            write_atomically(path, _document(dataset))
        except InputError:
            # Of the whole dataset, each value that cannot be written is named with its place.
            write_atomically(path, [dataset.to_json(), "\n"])
    else:
        from autorubric.files.strict_yaml import dump_yaml

        write_atomically(path, [dump_yaml(dataset_record(dataset))])


def _extension(path: str | Path) -> str:
    extension = Path(path).suffix.lower()
    if extension not in (".json", ".yaml", ".yml", ".jsonl"):
        formats = "Supported formats: .json, .yaml, .yml, .jsonl"
        raise InputError(f"{path}: Unsupported file format {extension!r}. {formats}")
    return extension


def _parts(text: str, extension: str) -> Parts:
    if extension != ".json":
        from autorubric.files.strict_yaml import parse_yaml

        return read_record(parse_yaml(text, "Failed to parse YAML"))
    return _in_one_go(text) or read_record(parse_json(text, "Failed to parse JSON"))


def _in_one_go(text: str) -> Parts | None:
    """The parts of a JSON text with its items last and nothing wrong in it, each item made as soon as it is read."""
    try:
        head, records = head_and_members(text, "items")
        if head.keys() >= {"prompt", "rubric"}:
            return read_parts(head, enumerate(records), [], lambda index: "")
    except (ValueError, RecursionError):
        pass
    return None


def _document(dataset: RubricDataset) -> Iterator[str]:
    """What `RubricDataset.to_json` gives, and a line end, item by item."""
    head, items = head_and_items(dataset)
    yield dump_json(head, 2).removesuffix("\n}") + ',\n  "items": ['
    separator = ""
    for item in items:
        yield separator + "\n    " + dump_json(item, 2).replace("\n", "\n    ")
        separator = ","
    yield "\n  ]\n}\n" if separator else "]\n}\n"


def _rows(dataset: RubricDataset) -> Iterator[str]:
    head, items = head_and_items(dataset)
    yield dump_json({"dataset": head}) + "\n"
    for item in items:
        yield dump_json(item) + "\n"


def _load_rows(path: str | Path) -> Parts:
    problems: list[str] = []
    rows = iter_jsonl(path, problems=problems, what=_WHAT)
    first = next(rows, None)
    head: dict[str, Any] = {}
    if first is not None:
        header = first[1].get("dataset")
        if first[1].keys() == {"dataset"} and isinstance(header, dict):
            head = header
        else:
            rows = itertools.chain([first], rows)
    place: Callable[[int], str] = lambda row: f"{path}:{row}: "  # noqa: E731
    if first is None and not problems:
        problems.append(f"{path}: the file is empty")
    return read_parts(head, rows, problems, place)
