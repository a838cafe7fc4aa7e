"""Reads and writes datasets: JSON, YAML, JSON Lines; also reads rows of any kind.

JSON Lines begin with `{"dataset": {…}}`, the fields shared by all items; then one item per line. A rubric of several
items is written once, under `rubrics`, and referenced by its items: `{"$ref": "#/rubrics/r0"}`.
"""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.background import no_collections
from autorubric.core.rubric import Rubric
from autorubric.dataset.dataset_reading import REF, DatasetParts, read_parts, read_record
from autorubric.dataset.item import DataItem, build_item_reader, read_item_records
from autorubric.errors import InputError
from autorubric.files.atomic import write_atomically
from autorubric.files.strict_json import DEEPEST, decode_quickly, dump_json, is_too_deep, parse_json
from autorubric.rows import Record, RowFile, RowReader, inspect_file, iter_objects, unwrap_rows
from autorubric.rows.columns import COLUMN_OPTION

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset

_WHAT = "Dataset file"


@no_collections()
def load(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
    option: str = COLUMN_OPTION,
) -> DatasetParts:
    """Return the parts of the dataset in a file: a document, JSON Lines, or rows of any kind.

    Args:
        path: the file.
        columns: the columns of rows by role, such as `{"submission": "final answer"}`.
        notes: collects a sentence for each column that was guessed.
        option: the option that chooses among several columns, for messages; `{role}` is filled in.

    Raises:
        MissingFileError: the file does not exist.
        InputError: with one problem for each offending place, file and row included.

    Example:
        >>> load("no-such-dataset.csv")
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: Dataset file not found: no-such-dataset.csv
    """
    found = inspect_file(path, what=_WHAT)
    if not found.is_document:
        return _load_rows(found, build_item_reader(found.name, columns, notes, option))
    whole = parse_dataset(found.read_text(), found.kind, f"{found.name}: ")
    if isinstance(whole, DatasetParts):
        return whole
    problems = [] if whole else [f"{found.name}: it has no rows"]
    reader = build_item_reader(found.name, columns, notes, option)
    rows = iter_objects(whole, found.name, problems)
    rows = read_item_records(rows, reader, problems, is_table=False)
    return _read_rows(rows, {}, problems, reader, is_document=True)


@no_collections()
def parse_dataset(text: str, kind: str, where: str = "") -> DatasetParts | list[Any]:
    """Return the parts of the dataset in a document, or the rows that it lists.

    Args:
        text: the document.
        kind: `json`, `yaml` or `toml`.
        where: the head of every message.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> parse_dataset("[1, 2]", "json")
        [1, 2]
    """
    if kind == "json":
        # If the JSON is valid and the items come last, each item is built as soon as it is read.
        try:
            members = parse_head_and_members(text, "items")
            if (head := next(members)).keys() >= {"prompt", "rubric"}:
                return read_parts(head, enumerate(members), [], lambda index: "")
        except (ValueError, RecursionError):
            pass
    if kind == "toml":
        raise InputError(
            f"{where}a dataset cannot be stored as TOML; expected JSON, YAML, JSON Lines or rows of a table"
        )
    try:
        if kind == "json":
            whole = parse_json(text, "Failed to parse JSON")
        else:
            from autorubric.files.strict_yaml import parse_yaml

            whole = parse_yaml(text, "Failed to parse YAML")
        whole = unwrap_rows(whole)
        return whole if isinstance(whole, list) else read_record(whole)
    except InputError as error:
        raise InputError(f"{where}{problem}" for problem in error.problems) from None


def load_text(json_text: str) -> DatasetParts:
    """Return the parts of the dataset in a JSON text.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> load_text('{"prompt": "Explain photosynthesis", "rubric": null}').prompt
        'Explain photosynthesis'
    """
    found = parse_dataset(json_text, "json")
    return found if isinstance(found, DatasetParts) else read_record(found)


@no_collections()
def save(dataset: RubricDataset, path: str | Path) -> None:
    """Write a dataset to a file atomically: YAML or JSON Lines by the extension, else JSON.

    Raises:
        InputError: a value that cannot be written, or a folder that cannot.

    Example:
        >>> import tempfile
        >>> from autorubric.dataset import RubricDataset
        >>> path = Path(tempfile.mkdtemp()) / "dataset.data"
        >>> save(RubricDataset("Explain"), path)
        >>> load(path).prompt
        'Explain'
    """
    extension = Path(path).suffix.lower()
    if extension == ".jsonl":
        write_atomically(path, _format_rows(dataset))
    elif extension in (".yaml", ".yml"):
        from autorubric.files.strict_yaml import dump_yaml

        write_atomically(path, [dump_yaml(build_dataset_record(dataset))])
    else:
        try:
            write_atomically(path, _format_document(dataset))
        except InputError:
            # `to_json` names every value that cannot be written, with its place.
            write_atomically(path, [dataset.to_json(), "\n"])


def encode_dataset(dataset: RubricDataset) -> bytes:
    """Return the text of `RubricDataset.to_json` in UTF-8, encoded item by item to save memory.

    Raises:
        InputError: a value that cannot be written.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> dataset = RubricDataset(prompt="Explain photosynthesis")
        >>> encode_dataset(dataset) == dataset.to_json().encode()
        True
    """
    content = io.BytesIO()
    try:
        for piece in _format_document(dataset):
            content.write(piece.encode())
    except InputError:
        return dataset.to_json().encode()  # names every value that cannot be written, with its place
    content.truncate(content.tell() - 1)
    return content.getvalue()


def build_dataset_record(dataset: RubricDataset) -> dict[str, Any]:
    """Return the whole dataset as one mapping.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> build_dataset_record(RubricDataset(prompt="Explain photosynthesis"))
        {'prompt': 'Explain photosynthesis', 'rubric': None, 'items': []}
    """
    head, items = build_head_and_items(dataset)
    head["items"] = list(items)
    return head


def build_head_and_items(dataset: RubricDataset) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the fields shared by all items as one mapping, and one mapping for each item.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> head, items = build_head_and_items(RubricDataset(prompt="Explain photosynthesis", name="biology"))
        >>> head, list(items)
        ({'name': 'biology', 'prompt': 'Explain photosynthesis', 'rubric': None}, [])
    """
    shared, names = _name_shared_rubrics(dataset.items)
    head: dict[str, Any] = {} if dataset.name is None else {"name": dataset.name}
    head["prompt"] = dataset.prompt
    head["rubric"] = None if dataset.rubric is None else dataset.rubric.to_dict()
    if shared:
        head["rubrics"] = shared
    if dataset.reference_submission is not None:
        head["reference_submission"] = dataset.reference_submission
    if dataset.metadata:
        head["metadata"] = dataset.metadata
    return head, (_build_item_record(item, names) for item in dataset.items)


def _name_shared_rubrics(items: list[DataItem]) -> tuple[dict[str, Any], dict[int, str]]:
    """Return the rubrics that several items share, by name, and the name of each such object by its `id()`."""
    uses = Counter(id(item.rubric) for item in items if item.rubric is not None)
    equal: dict[Rubric, list[int]] = {}
    for key, rubric in {id(item.rubric): item.rubric for item in items if item.rubric is not None}.items():
        equal.setdefault(rubric, []).append(key)
    shared, names = dict[str, Any](), dict[int, str]()
    for rubric, keys in equal.items():
        if sum(uses[key] for key in keys) >= 2:
            name = f"r{len(shared)}"
            shared[name] = rubric.to_dict()
            names |= dict.fromkeys(keys, name)
    return shared, names


def _build_item_record(item: DataItem, names: Mapping[int, str]) -> dict[str, Any]:
    record: dict[str, Any] = {} if item.id is None else {"id": item.id}
    record["submission"] = item.submission
    record["description"] = item.description
    # A verdict is a subclass of str; JSON and YAML get plain strings.
    truth = item.ground_truth
    record["ground_truth"] = None if truth is None else [str.__str__(verdict) for verdict in truth]
    if item.ground_truth_reasons is not None:
        record["ground_truth_reasons"] = item.ground_truth_reasons
    if item.rubric is not None:
        name = names.get(id(item.rubric))
        record["rubric"] = item.rubric.to_dict() if name is None else {"$ref": REF + name}
    if item.reference_submission is not None:
        record["reference_submission"] = item.reference_submission
    if item.prompt is not None:
        record["prompt"] = item.prompt
    if item.metadata:
        record["metadata"] = item.metadata
    return record


def _format_document(dataset: RubricDataset) -> Iterator[str]:
    """Yield the text of `RubricDataset.to_json` and a line end, item by item."""
    head, items = build_head_and_items(dataset)
    yield dump_json(head, 2).removesuffix("\n}") + ',\n  "items": ['
    separator = ""
    for item in items:
        yield separator + "\n    " + dump_json(item, 2).replace("\n", "\n    ")
        separator = ","
    yield "\n  ]\n}\n" if separator else "]\n}\n"


def _format_rows(dataset: RubricDataset) -> Iterator[str]:
    head, items = build_head_and_items(dataset)
    yield dump_json({"dataset": head}) + "\n"
    for item in items:
        yield dump_json(item) + "\n"


def _load_rows(found: RowFile, reader: RowReader) -> DatasetParts:
    problems: list[str] = []
    rows = found.iter_rows(problems)
    first = next(rows, None)
    head: dict[str, Any] = {}
    if first is not None:
        header = first.fields.get("dataset")
        if first.fields.keys() == {"dataset"} and isinstance(header, dict):
            head = header
        else:
            rows = itertools.chain([first], rows)
            rows = read_item_records(rows, reader, problems, is_table=found.is_table)
    if first is None and not problems:
        problems.append(f"{found.name}: it has no rows")
    return _read_rows(rows, head, problems, reader)


def _read_rows(
    rows: Iterator[Record], head: dict[str, Any], problems: list[str], reader: RowReader, *, is_document: bool = False
) -> DatasetParts:
    # A row's place is formatted from its number, because storing the text for every row would take much memory.
    mark = ": row " if is_document else ":"
    numbered = ((record.number, record.fields) for record in rows)
    return read_parts(head, numbered, problems, lambda row: f"{reader.where}{mark}{row}: ")


_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_END = re.compile(r"[ \t\n\r]*\][ \t\n\r]*\}[ \t\n\r]*")


def parse_head_and_members(text: str, key: str) -> Iterator[Any]:
    """Yield the members of a JSON object before its last one, a list, as a mapping; then the list's members.

    Members of the list are parsed one at a time. Only text that is certainly strict JSON is read; `parse_json` reads
    the rest and reports what is wrong.

    Args:
        text: the JSON text.
        key: the key of the list, which is not empty.

    Raises:
        ValueError: the text has another form, or may not be strict JSON.
        RecursionError: it nests too deeply.

    Example:
        >>> list(parse_head_and_members('{"name": "day", "items": [{"id": "a"}, {"id": "b"}]}', "items"))
        [{'name': 'day'}, {'id': 'a'}, {'id': 'b'}]
    """
    found = re.search(rf'"{re.escape(key)}"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*', text)
    if found is None:
        raise ValueError(f"there is no list {key!r}")
    head = parse_json(text[: found.end()] + "]}")
    if not isinstance(head, dict) or head.pop(key, None) != []:
        raise ValueError(f"the list {key!r} is nested deeper")
    yield head
    start = found.end()
    while True:
        value, end = decode_quickly(text, start)
        brackets = text.count("[", start, end) + text.count("{", start, end)
        if brackets > DEEPEST - 2 and is_too_deep([[value]]):
            raise ValueError("nested too deeply")
        yield value
        comma = _COMMA.match(text, end)
        if comma is None:
            break
        start = comma.end()
    if _END.fullmatch(text, end) is None:
        raise ValueError("the list is not the last member")
