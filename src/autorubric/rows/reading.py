"""Reads the rows of all file types, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.files.parquet import read_arrow, read_parquet
from autorubric.files.remote import find_address, make_path
from autorubric.files.strict_json import parse_json
from autorubric.files.text import LARGEST_FILE, check_file, decode, parse_toml, read_jsonl
from autorubric.rows.bullets import parse_list
from autorubric.rows.columns import ROLES
from autorubric.rows.delimited import read_cells, read_delimited
from autorubric.rows.kind import BINARY, HEAD, Kind, detect_kind, find_files, is_dataset_folder
from autorubric.rows.record import HOLDERS, Record
from autorubric.rows.stream import ZIP, is_stream, is_workbook, name_input, open_input, open_text

TABLES: tuple[Kind, ...] = ("csv", "xlsx", "parquet", "arrow", "arrow stream")
"""Kinds whose rows have columns: every row has all of them, and missing values are blank or null."""

DOCUMENTS: tuple[Kind, ...] = ("json", "yaml", "toml", "list")
"""Kinds that contain one value, which is read whole."""

_WRAPPERS = ("data", "rows", "records", "instances", "samples", "examples", "results", "tests")
"""Keys under which other tools export the list of rows; under any other key, the rows must have a query."""
_OF_ROWS = {
    *(*HOLDERS, "sections", "guidelines", "requirement", "criterion", "reference_submission"),
    *(*ROLES["query"].names, *ROLES["submission"].names),
}
"""Keys of a row, rubric or dataset: an object with one of them does not wrap a list of rows."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """An input that contains rows.

    Attributes:
        path: a file, a dataset folder, a pipe, or `-` for standard input.
        name: its name in messages.
        kind: the kind of file; for a folder, that of its first file.
        files: the shards of a folder, else only the path.
    """

    path: Path
    name: str
    kind: Kind
    files: tuple[Path, ...]

    @property
    def is_document(self) -> bool:
        """Whether it is one JSON, YAML or TOML value, which is read whole."""
        return self.kind in DOCUMENTS

    @property
    def is_table(self) -> bool:
        """Whether its rows have columns."""
        return self.kind in TABLES

    def iter_rows(self, problems: list[str]) -> Iterator[Record]:
        """Yield the rows, one at a time; a document is a list of rows, an object that contains the list, or one row.

        Args:
            problems: collects a sentence for each row that cannot be read and is skipped.

        Raises:
            InputError: the file as a whole cannot be read.
        """
        if self.files != (self.path,):
            rows = (record for shard in map(inspect_file, self.files) for record in shard.iter_rows(problems))
            yield from (record._replace(number=number) for number, record in enumerate(rows, 1))
            return
        if self.kind in DOCUMENTS:
            yield from iter_objects(self.read_document(), self.name, problems)
            return
        with (open_text if self.kind in ("csv", "jsonl") else open_input)(self.path) as file:
            if self.kind in ("csv", "jsonl"):
                found = (read_delimited if self.kind == "csv" else read_jsonl)(file, self.name, problems)
            elif self.kind == "xlsx":
                from autorubric.files.workbook import read_workbook

                found = read_cells(read_workbook(file, self.name, problems), self.name, problems)
            elif self.kind == "parquet":
                found = read_parquet(file, self.name)
            else:
                found = read_arrow(file, self.name, stream=self.kind == "arrow stream")
            for line, fields in found:
                yield Record(f"{self.name}:{line}", line, fields)

    def read_document(self) -> Any:
        """Return the value of a document; if it wraps a list of rows, the list.

        Raises:
            InputError: it cannot be read.
        """
        text = self.read_text()
        if self.kind == "json":
            return unwrap_rows(parse_json(text, self.name))
        if self.kind in ("toml", "list"):
            return (parse_toml if self.kind == "toml" else parse_list)(text, self.name)
        from autorubric.files.strict_yaml import parse_yaml

        return unwrap_rows(parse_yaml(text, self.name))

    def read_text(self) -> str:
        """Return the text of a document.

        Raises:
            InputError: it is not UTF-8, or is too large to be read at once.
        """
        size = 0 if is_stream(self.path) or find_address(self.path) else check_file(self.path)
        with open_text(self.path) as file:
            data = b"" if size > LARGEST_FILE else file.read(LARGEST_FILE + 1)
        if max(size, len(data)) > LARGEST_FILE:
            most = f"the maximum is {LARGEST_FILE // 2**20} MiB"
            held = f"{size / 2**20:,.0f} MiB" if size > LARGEST_FILE else "more, unpacked"
            raise InputError(f"{self.name}: has {held}; {most}, split it or write it as JSON Lines")
        text = decode(data, self.name)
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def inspect_file(path: str | Path, *, what: str = "File") -> RowFile:
    r"""Return the description of an input, detected by its first bytes, or by its extension if these are ambiguous.

    Args:
        path: a file (CSV, TSV, Excel, JSON, JSON Lines, YAML, TOML, Parquet, Arrow; text also in gzip, zstd or a zip
            archive of one file), a pipe, `-` for standard input, or a Hugging Face dataset folder, followed by the
            split if it has several. Files and folders may be addresses: `s3://`, `gs://` or `hf://`.
        what: the noun for the message about a missing file.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is of an unknown or unsupported kind.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows"
        >>> _ = path.write_text("id,question\nq1,Why?\n")
        >>> [record.fields for record in inspect_file(path).iter_rows([])]
        [{'id': 'q1', 'question': 'Why?'}]
    """
    path = make_path(path)
    name = name_input(path)
    if is_dataset_folder(path):
        files = find_files(path)
        return RowFile(path, name, inspect_file(files[0], what=what).kind, files)
    with open_input(path, what=what) as file:
        head = file.read(8)
        if head.startswith(ZIP) and is_workbook(file):
            return RowFile(path, name, "xlsx", (path,))
    if head.startswith(tuple(BINARY)):
        return RowFile(path, name, detect_kind(head, path, name), (path,))
    with open_text(path, what=what) as text:
        kind = detect_kind(text.read(HEAD), path, name)
    if kind in TABLES[1:]:
        raise InputError(f"{name}: is a {kind.capitalize()} file inside gzip, zstd or zip; decompress it first")
    return RowFile(path, name, kind, (path,))


def read_rows(path: str | Path, problems: list[str], *, what: str = "File") -> Iterator[Record]:
    """Return the rows of an input of any kind; see `RowFile.iter_rows`.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it cannot be read as a whole.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.json"
        >>> _ = path.write_text('[{"id": 1}, {"id": 2}]')
        >>> [(Path(record.where).name, record.fields) for record in read_rows(path, [])]
        [('rows.json: row 1', {'id': 1}), ('rows.json: row 2', {'id': 2})]
    """
    return inspect_file(path, what=what).iter_rows(problems)


def iter_objects(value: Any, name: str, problems: list[str]) -> Iterator[Record]:
    """Yield the rows in the value of a document: a list, or one row.

    Raises:
        InputError: it is neither a list nor an object, or an object of objects.
    """
    for number, fields in enumerate(list_document_rows(value, name), 1):
        if isinstance(fields, dict):
            yield Record(f"{name}: row {number}", number, fields)
        else:
            problems.append(f"{name}: row {number}: expected an object, got {type(fields).__name__}")


def list_document_rows(value: Any, name: str) -> list[Any]:
    """Return the rows in the value of a document: the members of a list, or an object as the only row.

    Raises:
        InputError: it is neither a list nor an object, or an object of objects or of columns.

    Example:
        >>> list_document_rows({"question": "Why?"}, "row.json")
        [{'question': 'Why?'}]
        >>> list_document_rows({"q1": {"question": "Why?"}}, "rows.json")
        Traceback (most recent call last):
        autorubric.errors.InputError: rows.json: an object of objects, the first under 'q1'; expected a list of ...
    """
    if isinstance(value, dict):
        jq = "; jq: '[.[]]'" if all(isinstance(inner, dict) for inner in value.values()) else ""
        if value and (jq or _are_columns([*value.values()])):
            problem = f"an object of {'objects' if jq else 'lists'}, the first under {next(iter(value))!r}"
            raise InputError(f"{name}: {problem}; expected a list of rows (pandas: to_json(orient='records'){jq})")
        value = [value] if value else []
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list of rows, got {type(value).__name__}")
    return value


def _are_columns(values: list[Any]) -> bool:
    """Return whether values are columns of a table: lists of equal length of texts or numbers."""
    are_flat = all(isinstance(col, list) and col and not isinstance(col[0], dict | list) for col in values)
    return len(values) > 1 and are_flat and len({*map(len, values)}) == 1


def unwrap_rows(document: Any) -> Any:
    """Return the list of rows in an object that wraps it; any other value unchanged.

    Example:
        >>> unwrap_rows({"version": 1, "data": [{"id": "q1"}]}), unwrap_rows({"data": [{"id": "q1"}], "rubric": []})
        ([{'id': 'q1'}], {'data': [{'id': 'q1'}], 'rubric': []})
    """
    if not isinstance(document, dict) or not _OF_ROWS.isdisjoint(document):
        return document
    found = []
    for key, inner in document.items():
        rows = unwrap_rows(inner) if key in _WRAPPERS else inner
        is_list = isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
        if is_list and (key in _WRAPPERS or not rows[0].keys().isdisjoint(ROLES["query"].names)):
            found.append(rows)
    return found[0] if len(found) == 1 else document
