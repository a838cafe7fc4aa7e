"""The input of functions that grade: a dataset, or submissions (rows, texts, a folder) with a rubric."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.core.entries import read_rubric_file
from autorubric.core.entry_kinds import OF_ANSWERS, has_criteria
from autorubric.core.misread_keys import describe_unread
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.id_columns import find_repeated_ids, note_id_columns, release_query_ids
from autorubric.dataset.item import (
    ROLES,
    build_item_reader,
    collect_query_notes,
    collect_rubric_notes,
    read_item_records,
    split_preferences,
)
from autorubric.dataset.label_columns import note_own_labels, read_label_columns
from autorubric.dataset.label_table import LabelTable
from autorubric.errors import InputError, format_first, problems_at, warn
from autorubric.files import find_nearest_key, read_text
from autorubric.files.atomic import check_inside
from autorubric.rows import Record, Table, inspect_file, is_dataset_folder, is_stream, list_document_rows, name_input
from autorubric.rows.columns import ROLES as NAMES
from autorubric.rows.columns import SYNONYMS, fold_column
from autorubric.rows.kind import PACKED
from autorubric.rows.record import to_plain
from autorubric.rows.stream import open_text

_LABELS = ("ground_truth", "ground_truth_reasons")
_KEYS = ("submission", "id", "description", "prompt", "query", "reference_submission", "metadata", *_LABELS)
_TEXTS = (".txt", ".md")
_ADDRESSED = re.compile(r"[0-9a-f]{30,}(\.\w+)?\Z")  # by content, as in the caches of Hugging Face, DVC and git-annex
IN_MEMORY = "submissions"
"""The name of submissions in memory, in messages and runs."""
Rows: TypeAlias = Table | Iterable[str | DataItem | Mapping[str, Any]]
"""Submissions in memory: strings, items, or rows like those of JSON Lines."""
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Submissions:
    """Submissions in a file or folder, or in rows in memory.

    Attributes:
        source: the file or folder, or rows: strings, and mappings like those of JSON Lines.
        columns: columns that the user chose, by role.
        rubric: the rubric of all rows; None if each row has its own.
        notes: a list that collects a sentence for each guessed column.
    """

    source: Path | Sequence[Any]
    columns: Mapping[str, str] = field(default_factory=dict)
    rubric: Rubric | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Their name in messages."""
        return name_input(self.source) if isinstance(self.source, Path) else IN_MEMORY

    def read_items(self) -> list[DataItem]:
        """Read the submissions; a warning lists other files in a directory.

        Raises:
            InputError: rows are invalid (one problem for each), or there are none.

        Example:
            >>> Submissions(Path("essays.csv")).read_items()
            Traceback (most recent call last):
            autorubric.errors.MissingFileError: Submissions not found: essays.csv
        """
        problems: list[str] = []
        placed = list(self._read_placed(problems))
        problems += find_repeated_ids(placed)
        if problems or not placed:
            raise InputError(problems or f"{self.where}: no submissions in it")
        if self.rubric is not None:
            read_label_columns(placed, self.rubric, self.notes)
        self.notes.extend([*note_own_labels(placed), *collect_rubric_notes(placed)])
        items = [item for _, item in placed]
        bare = sum(item.rubric is None for item in items)
        if bare and self.rubric is None:
            advice = "pass --rubric FILE for all of them, or choose the column with --column rubric=NAME"
            raise InputError(f"{self.where}: {bare} of {len(items)} rows have no rubric; {advice}")
        return items

    def _read_placed(self, problems: list[str]) -> Iterator[tuple[str, DataItem]]:
        path = self.source
        if not isinstance(path, Path):
            yield from self._read(_list_records(list(path), self.where), problems, is_table=False)
            return
        if _is_texts(path):
            yield from ((text.name, DataItem(read_text(text), text.name, id=text.name)) for text in _list_texts(path))
            return
        found = inspect_file(path, what="Submissions")
        records = _list_records(found.read_document(), found.name) if found.is_document else found.iter_rows(problems)
        yield from self._read(records, problems, is_table=found.is_table)

    def _read(self, rows: Iterator[Record], problems: list[str], is_table: bool) -> Iterator[tuple[str, DataItem]]:
        if self.columns.get("submission") is None:
            rows = split_preferences(rows, self.columns, self.where, self.notes)
        reader = build_item_reader(self.where, self.columns, self.notes)
        for record in release_query_ids(read_item_records(rows, reader, problems, is_table=is_table), reader):
            yield from ((record.where, item) for item in self._read_item(record, problems))

    def _read_item(self, record: Record, problems: list[str]) -> Iterator[DataItem]:
        """Yield the item of a row; if the row is invalid, add to `problems` and yield nothing."""
        found = [f"{record.where}: {problem}" for problem in _find_problems(record.fields, self.rubric is None)]
        if not found:
            try:
                yield _build_item(record, self.rubric)
            except InputError as error:
                found = [p if p.startswith(record.where) else f"{record.where}: {p}" for p in error.problems]
        problems += found


def parse_columns(given: Mapping[str, str] | Sequence[str] | None, known: Sequence[str] = ROLES) -> dict[str, str]:
    """Parse `--column ROLE=NAME` flags into columns by role.

    Raises:
        InputError: a flag is not of this form, or its role is unknown or given twice.

    Example:
        >>> parse_columns(["submission=final answer"])
        {'submission': 'final answer'}
    """
    named: dict[str, str] = {}
    if isinstance(given, Mapping):
        given = [f"{role}={column}" for role, column in given.items()]
    for text in given or ():
        role, separator, column = text.partition("=")
        role = SYNONYMS.get(role, role)
        if not separator or not column or role not in known or role in named:
            roles = ", ".join(known)
            raise InputError(f"--column {text!r}: expected ROLE=NAME with one of {roles}, each at most once")
        named[role] = column
    return named


def join_labels(dataset: RubricDataset, table: LabelTable) -> RubricDataset:
    """Return the dataset with the labels of a table; warn about guessed columns."""
    joined = table.join_labels(dataset)
    for note in table.notes:
        warn(note)
    return joined


def is_rows(path: Path, *, rubric_given: bool) -> bool:
    """Return whether a file contains rows rather than a dataset with a common rubric and prompt.

    Args:
        path: the file.
        rubric_given: whether a rubric for all rows or column names are given with the file. JSON Lines with a
            `submission` are then rows; otherwise they are items of a dataset.

    Raises:
        InputError: it cannot be read.
    """
    if rubric_given and _is_texts(path):
        return True
    found = inspect_file(path, what="Dataset file")
    if not found.is_document:
        problems: list[str] = []
        first = next(iter(found.iter_rows(problems)), None) if not found.is_table else None
        if first is None:
            return rubric_given or found.is_table or bool(problems)  # the reader of the rows reports their problems
        is_head = first.fields.keys() == {"dataset"}
        return not is_head and (rubric_given or "submission" not in first.fields)
    with open_text(path) as file:
        if file.read(1024).lstrip().startswith((b"[", b"- ")):
            return True
    value = found.read_document() if rubric_given else None
    return rubric_given and not (isinstance(value, dict) and value.keys() >= {"rubric", "items"})


def _list_records(value: Any, name: str) -> Iterator[Record]:
    for index, document_row in enumerate(list_document_rows(value, name)):
        fields = {"submission": document_row} if isinstance(document_row, str | None) else to_plain(document_row)
        if not isinstance(fields, dict):
            mixed = "; a list contains rows or DataItems, not both" if isinstance(fields, DataItem) else ""
            kind = f"got {type(fields).__name__}{mixed}"
            raise InputError(f"{name}: item {index}: expected a mapping with 'submission', {kind}")
        yield Record(f"{name}: item {index}", index, fields)


def _is_texts(path: Path) -> bool:
    """Return whether a path is a text file, or a folder that is not a dataset."""
    if os.path.isdir(path):  # noqa: PTH112 (a name that is too long is not an error)
        return not is_dataset_folder(path)
    return path.suffix.lower() in _TEXTS and not is_stream(path) and not _is_table(path)


def _is_table(path: Path) -> bool:
    """Return whether a text file is a table or JSON Lines with a column of submissions."""
    problems: list[str] = []
    with suppress(InputError):
        found = inspect_file(path)
        first = next(found.iter_rows(problems), None) if found.kind in ("csv", "jsonl") else None
        names = () if first is None or problems else first.fields
        return any(fold_column(name) in NAMES["submission"].names for name in names)
    return False


def _list_texts(folder: Path) -> list[Path]:
    """Return the text files in a folder, or the given file; warns about other files in the folder."""
    if not os.path.isdir(folder):  # noqa: PTH112
        return [folder]
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    texts = [path for path in found if path.is_file() and path.suffix.lower() in _TEXTS]
    check_inside(folder, [path.name for path in texts if not _ADDRESSED.search(os.path.realpath(path))])
    others = [path.name for path in found if path not in texts]
    if others:
        warn(f"{folder}: not graded, because they are not .txt or .md files: {format_first(others, _MOST_NAMED)}")
    return texts


def _find_problems(record: dict[str, Any], own_rubrics: bool) -> list[str]:
    unknown = {key: find_nearest_key(str(key), _KEYS) for key in record if key not in _KEYS}
    found = [f"unknown key {key!r}; did you mean {right!r}?" for key, right in unknown.items() if right]
    if "submission" not in record and "submission" not in unknown.values():
        keys = ", ".join(str(key) for key, value in record.items() if value != "")
        found.append(f"has no submission; its keys with a value are {keys or 'none'}")
    if record.get("rubric") is not None and not own_rubrics:
        found.append("'rubric' cannot be used with --rubric; leave --rubric out to judge each row by its own")
    if isinstance(record.get("id"), bool | list | dict):
        found.append(f"'id' is of type {type(record['id']).__name__}; expected a string or a number")
    if not isinstance(record.get("metadata") or {}, dict):
        found.append(f"'metadata' is of type {type(record['metadata']).__name__}; expected a mapping")
    return found


def _build_item(record: Record, common: Rubric | None) -> DataItem:
    fields = record.fields
    own = fields.get("rubric")
    item = DataItem(
        fields["submission"],
        fields.get("description") or "",
        fields.get("ground_truth"),
        common or (own if own is None or isinstance(own, Rubric) else rubric_from(own, record.where)),
        fields.get("reference_submission"),
        fields.get("prompt", fields.get("query")),
        fields.get("ground_truth_reasons"),
        None if fields.get("id") is None else str(fields["id"]),
        (fields.get("metadata") or {}) | {key: fields[key] for key in fields if key not in (*_KEYS, "rubric")},
    )
    item.rubric = None if common else item.rubric  # the labels were read with the common rubric
    return item


def read_dataset(
    data: RubricDataset | Path | str | Rows | None,
    rubric: Rubric | Path | str | None,
    submissions: Path | str | Rows | None,
    prompt: str | None,
    columns: Mapping[str, str] | None = None,
) -> RubricDataset:
    """Return the given dataset, or one made from submissions with a common rubric or their own.

    Warns about guessed columns.

    Raises:
        InputError: neither or both of dataset and submissions are given, or a file is wrong.

    Example:
        >>> read_dataset(None, Path("rubric.yaml"), None, None)
        Traceback (most recent call last):
        autorubric.errors.InputError: nothing to grade; pass DATASET (in Python: data), or both ...
    """
    source: Any = data
    rows: Any = submissions
    is_path, is_explicit = isinstance(data, str | Path), rubric is not None or bool(columns)
    is_dataset = isinstance(data, RubricDataset) or (is_path and not is_rows(Path(source), rubric_given=is_explicit))
    if rows is None and not is_dataset:
        source, rows = None, data
    if source is None:
        if rows is None:
            raise InputError("nothing to grade; pass DATASET (in Python: data), or both rubric and submissions")
        return _read_rows(rows, rubric, prompt, columns or {})
    where = str(source) if is_path else "the dataset"
    if not is_dataset:
        twice = f"submissions are given twice, {f'in {where}' if is_path else 'as data'} and by --submissions"
        raise InputError(f"{twice}; leave one of them out, and pass a rubric with --rubric")
    if rubric is not None or rows is not None:
        raise InputError(f"{where}: DATASET has its own rubric and submissions; leave --rubric and --submissions out")
    if columns:
        raise InputError(f"--column applies to rows, and {where} is a dataset; leave it out")
    made = RubricDataset.from_file(Path(source)) if is_path else source
    if not made.items:
        raise InputError(f"{where}: it has no items")
    made = made if prompt is None else _replace_prompt(made, prompt, where)
    return replace(made, name=made.name or Path(source).stem) if is_path else made


def _replace_prompt(dataset: RubricDataset, prompt: str, where: str) -> RubricDataset:
    """Return the dataset with a prompt for items that have none; refuse a prompt that would have no effect."""
    if dataset.prompt or all(item.prompt is not None for item in dataset.items):
        raise InputError(f"{where}: DATASET has its own prompt; leave --prompt out (in Python: prompt)")
    return replace(dataset, prompt=prompt)


def _read_rows(
    submissions: Any, rubric: Rubric | Path | str | None, prompt: str | None, columns: Mapping[str, str]
) -> RubricDataset:
    criteria = read_rubric(Path(rubric)) if isinstance(rubric, str | Path) else rubric
    path = Path(submissions) if isinstance(submissions, str | Path) else None
    if path is not None or columns or not all(isinstance(submission, str | DataItem) for submission in submissions):
        source = Submissions(path or submissions, columns, criteria)
        items, where, name = source.read_items(), source.where, _name_run(path) if path else IN_MEMORY
        for note in [*source.notes, *collect_query_notes(where, items, prompt), *note_id_columns(where, items)]:
            warn(note)
    else:
        items = [
            DataItem(submission, "") if isinstance(submission, str) else submission for submission in submissions
        ]
        where = name = IN_MEMORY
        if not items:
            raise InputError("submissions: the list is empty")
        if criteria is None and any(item.rubric is None for item in items):
            raise InputError("submissions: pass rubric= for submissions without their own rubric")
    needs_prompt = any(item.prompt is None for item in items)
    with problems_at(f"{where}: "):
        return RubricDataset(prompt or ("" if needs_prompt else None), criteria, items, name=name)


def read_rubric(path: Path) -> Rubric:
    r"""Read the rubric in an input of any kind; in a table or JSON Lines, each row is a criterion.

    Raises:
        InputError: it cannot be read, or a criterion is wrong.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rubric.csv"
        >>> _ = path.write_text("name,weight,requirement\nTone,5,Is kind.\n")
        >>> read_rubric(path)[0]
        Criterion(weight=5.0, requirement='Is kind.', name='Tone')
    """
    name = name_input(path)
    rubric = rubric_from(_unwrap_shared_rubric(read_rubric_file(path), name), name, nulls=True)
    for note in describe_unread(rubric.rubric):
        warn(f"{name}: {note}")
    return rubric


def _unwrap_shared_rubric(value: Any, name: str) -> Any:
    """Return the common rubric of a dataset's items, such as `evolved.json` of one query; else the value itself."""
    is_dataset = isinstance(value, Mapping) and value.get("rubric") is None and isinstance(value.get("items"), list)
    if not is_dataset or has_criteria(value):
        return value
    own = [item.get("rubric") for item in value["items"] if isinstance(item, Mapping)]
    if not any(own):
        raise InputError(f"{name}: it is a dataset without a rubric; {OF_ANSWERS}")
    if any(rubric != own[0] for rubric in own):
        raise InputError(f"{name}: it is a dataset whose items have their own rubrics; pass a file with one rubric")
    return own[0]


def check_weighed(rubrics: Iterable[tuple[str, Rubric]]) -> None:
    """Refuse rubrics whose weights are all 0, because no score can be computed.

    Args:
        rubrics: each with its place, for messages.

    Raises:
        InputError: there are such rubrics; one problem for each.

    Example:
        >>> check_weighed([("r.yaml", Rubric.from_dict([{"requirement": "Is brief", "weight": 0}]))])
        Traceback (most recent call last):
        autorubric.errors.InputError: r.yaml: every criterion has weight 0, so no score can be computed; ...
    """
    advice = "every criterion has weight 0, so no score can be computed; give at least one criterion a weight"
    if flat := [f"{where}: {advice}" for where, rubric in rubrics if not any(one.weight for one in rubric)]:
        raise InputError(flat)


def list_rubrics(dataset: RubricDataset, source: object) -> Iterator[tuple[str, Rubric]]:
    """Yield each distinct rubric of a dataset with its place: the file, or the first item that has it."""
    where = source if isinstance(source, str | Path) else "the rubric"
    seen: set[int] = set()
    for index in range(len(dataset)):
        rubric = dataset.get_item_rubric(index)
        if id(rubric) in seen:
            continue
        seen.add(id(rubric))
        yield (str(where) if dataset[index].rubric is None else f"{where}: item {index}"), rubric


def _name_run(path: Path) -> str:
    """Return the name of a run on a file: the file's name without its suffix and a compression suffix."""
    return "stdin" if is_stream(path) else path.with_suffix("").stem if path.suffix in PACKED else path.stem
