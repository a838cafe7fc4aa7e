"""Reads the rows of all file types, each with its place. CSV and TSV are parsed here."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

from autorubric.errors import InputError, pluralize
from autorubric.files.parquet import read_arrow, read_parquet
from autorubric.files.remote import find_address, make_path
from autorubric.files.strict_json import parse_json
from autorubric.files.text import LARGEST_FILE, LONGEST_ROW, check_file, decode, iter_lines, parse_toml, read_jsonl
from autorubric.rows.bullets import parse_list
from autorubric.rows.columns import NESTED, ROLES, fold_column
from autorubric.rows.kind import BINARY, HEAD, Kind, detect_delimiter, detect_kind, find_files, is_dataset_folder
from autorubric.rows.record import HOLDERS, Record
from autorubric.rows.stream import is_stream, name_input, open_input, open_text

TABLES: tuple[Kind, ...] = ("csv", "parquet", "arrow", "arrow stream")
"""Kinds whose rows have columns: every row has all of them, and missing values are blank or null."""

DOCUMENTS: tuple[Kind, ...] = ("json", "yaml", "toml", "list")
"""Kinds that contain one value, which is read whole."""

_WRAPPERS = ("data", "rows", "records", "instances", "samples", "examples", "results", "tests")
"""Keys under which other tools export the list of rows; under other keys, the rows must have a query."""
_OF_ROWS = {*HOLDERS, "sections", "reference_submission", *ROLES["query"].names, *ROLES["submission"].names}
"""Keys of a row, rubric or dataset: an object with one of them does not wrap a list of rows."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """An input that contains rows.

    Attributes:
        path: a file, a dataset folder, a pipe, or `-` for standard input.
        name: its name in messages.
        kind: its kind; of a folder, that of its first file.
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
        """The rows, one at a time; a document is a list of rows, an object that contains the list, or one row.

        Args:
            problems: takes a sentence for each row that cannot be read and is skipped.

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
            elif self.kind == "parquet":
                found = read_parquet(file, self.name)
            else:
                found = read_arrow(file, self.name, stream=self.kind == "arrow stream")
            for line, fields in found:
                yield Record(f"{self.name}:{line}", line, fields)

    def read_document(self) -> Any:
        """The value of a document; if it wraps a list of rows, the list.

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
        """The text of a document.

        Raises:
            InputError: it is not UTF-8, or larger than what is read at once.
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
    r"""The description of an input, detected by its first bytes, or by its extension if these are ambiguous.

    Args:
        path: a file (CSV, TSV, JSON, JSON Lines, YAML, TOML, Parquet, Arrow; text also in gzip or zstd), a pipe, `-`
            for standard input, or a Hugging Face dataset folder, followed by the split if it has several. Files and
            folders may be addresses: `s3://`, `gs://` or `hf://`.
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
    if head.startswith(tuple(BINARY)):
        return RowFile(path, name, detect_kind(head, path, name), (path,))
    with open_text(path, what=what) as text:
        kind = detect_kind(text.read(HEAD), path, name)
    if kind in TABLES[1:]:
        raise InputError(f"{name}: is a {kind.capitalize()} file inside gzip or zstd; decompress it first")
    return RowFile(path, name, kind, (path,))


def read_rows(path: str | Path, problems: list[str], *, what: str = "File") -> Iterator[Record]:
    """The rows of an input of any kind; see `RowFile.iter_rows`.

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
    """The rows in the value of a document: a list, or one row.

    Raises:
        InputError: it is neither a list nor an object, or an object of objects.
    """
    for number, fields in enumerate(list_document_rows(value, name), 1):
        if isinstance(fields, dict):
            yield Record(f"{name}: row {number}", number, fields)
        else:
            problems.append(f"{name}: row {number}: expected an object, got {type(fields).__name__}")


def list_document_rows(value: Any, name: str) -> list[Any]:
    """The rows in the value of a document: the members of a list, or an object as the only row.

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
    """Whether values are columns of a table: lists of equal length of texts or numbers."""
    are_flat = all(isinstance(col, list) and col and not isinstance(col[0], dict | list) for col in values)
    return len(values) > 1 and are_flat and len({*map(len, values)}) == 1


def unwrap_rows(document: Any) -> Any:
    """The list of rows in an object that wraps it; any other value unchanged.

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


_MOST_COLUMNS = 10_000
_MESSAGES = re.compile(r"""\[\{\s*(['"])(?:role|content|from|value)\1\s*:""")


def read_delimited(file: BinaryIO, name: str, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""The rows of a table with a header, with the numbers of their first lines.

    The delimiter is the most frequent of comma, semicolon, tab and bar in the header. Cells are texts; JSON is read
    in columns such as `messages` or `rubrics`, and as conversations in a column of queries.

    Args:
        file: the open file, in UTF-8.
        name: its name in messages.
        problems: takes a sentence for each row that cannot be read.

    Raises:
        InputError: the header is wrong, or quotes make the ends of rows ambiguous.

    Example:
        >>> import io
        >>> list(read_delimited(io.BytesIO(b'id;text\r\n1;"two\nlines"\r\n\r\n2;Hi\r\n'), "t.csv", []))
        [(2, {'id': '1', 'text': 'two\nlines'}), (5, {'id': '2', 'text': 'Hi'})]
    """
    header: list[str] | None = None
    for line, cells in _split(file, name):
        if header is None:
            header, first, named = _read_header(cells, f"{name}:{line}"), line, sum(map(bool, map(str.strip, cells)))
        elif named == 1 and header[0] != "Unnamed: 0" and sum(map(bool, map(str.strip, cells))) > 1:
            advice = "delete lines above the header, or name the columns"
            raise InputError(f"{name}:{first}: the header names 1 of {len(header)} columns; {advice}")
        elif len(cells) != len(header):
            counts = f"the row has {pluralize(len(cells), 'cell')}, the header has {len(header)}"
            problems.append(f"{name}:{line}: {counts}; check for quotes and delimiters in the text")
        else:
            try:
                yield line, {key: _read_cell(key, cell) for key, cell in zip(header, cells, strict=True)}
            except InputError as error:
                problems += (f"{name}:{line}: {problem}" for problem in error.problems)
    if header is None:
        raise InputError(f"{name}: the file is empty; expected a header and a line for each row")


def _split(file: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    lines = _Lines(file, name)
    csv.field_size_limit(LONGEST_ROW)  # global to the module; a cell may be as long as a row of JSON Lines
    texts = (line.replace("\\|", "\0") for line in lines) if lines.has_bars else lines
    quoting: Any = csv.QUOTE_NONE if lines.has_bars else csv.QUOTE_MINIMAL
    rows = csv.reader(texts, delimiter=lines.delimiter, quoting=quoting, strict=True)
    while True:
        start = lines.number + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise InputError(f"{name}:{start}: {_describe_csv_error(error, lines.number - start)}") from None
        if cells is None:
            return
        if lines.delimiter == "|" and not lines.has_bars and re.fullmatch(r"[ |:-]*---[ |:-]*", "|".join(cells)):
            raise InputError(f"{name}:{start}: a Markdown table; begin and end each of its lines with |")
        if lines.has_bars:
            inner = cells if "".join(cells[:1] + cells[-1:]).strip() else cells[1:-1]
            cells = [cell.strip().replace("\0", "|") for cell in inner]
        if any(cell.strip(" :-" if lines.has_bars else None) for cell in cells):  # not dashes below a header
            yield start, cells


class _Lines:
    """The lines of a table as text, its delimiter, and the number of the last one."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._lines, self._name = iter_lines(file, name), name
        self.number = 0
        self._first: str | None = None
        first = next(filter(str.strip, self), None)
        # Excel writes and reads a first line that names the delimiter.
        named = re.fullmatch(r'sep=([^"\0]?)', (first or "").strip(), re.IGNORECASE)
        if named:
            first = next(filter(str.strip, self), None)
        self.delimiter = (named and named[1]) or detect_delimiter(first or "")
        self.has_bars = self.delimiter == "|" and bool(re.fullmatch(r"\s*\|.+\|\s*", first or ""))
        self.number -= first is not None
        self._first = first

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        first, self._first = self._first, None
        if first is not None:
            self.number += 1
            return first
        data = next(self._lines)
        self.number += 1
        where = f"{self._name}:{self.number}"
        if len(data) > LONGEST_ROW:
            raise InputError(f"{where}: the row is longer than {LONGEST_ROW // 2**20} MiB; shorten it")
        if b"\0" in data:
            raise InputError(f"{where}: the line contains a NUL character; the file is not text, or is damaged")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{data[error.start]:02x} at column {error.start + 1}"
            raise InputError(f"{where}: {byte} is not UTF-8; save the file as UTF-8 (in Excel: CSV UTF-8)") from None


def _describe_csv_error(error: csv.Error, span: int) -> str:
    words = str(error)
    if "field larger" in words or "unexpected end of data" in words:
        return f"a quote that opens here is not closed in the next {pluralize(span + 1, 'line')}"
    if "new-line character" in words:
        return "the file ends its lines with a bare carriage return; save it with usual line ends"
    return f"not valid CSV ({words}); double each quote inside a quoted cell"


def _read_header(cells: list[str], where: str) -> list[str]:
    if len(cells) > _MOST_COLUMNS:
        raise InputError(f"{where}: the header has {len(cells):,} columns; the maximum is {_MOST_COLUMNS:,}")
    # As in pandas, which writes its index without a name; with accents in one code point, as people type them.
    names = [normalize("NFC", cell.strip()) or f"Unnamed: {place}" for place, cell in enumerate(cells)]
    if repeated := [repr(name) for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{where}: the header has {', '.join(repeated)} more than once; rename a column")
    return names


def _read_cell(column: str, cell: str) -> Any:
    """The value of a cell; JSON is parsed only in columns with certain names."""
    key = fold_column(column)
    if key in NESTED:
        return parse_nested(cell, column)
    if key in ROLES["query"].names and cell.startswith("[{"):
        try:
            turns = parse_nested(cell, column)
        except InputError:
            if _MESSAGES.match(cell):
                raise
            return cell
        return turns if all(isinstance(turn, dict) and turn.keys() & {"role", "from"} for turn in turns) else cell
    return cell


def parse_nested(cell: str, column: str) -> Any:
    """The value of a cell in a column of lists or mappings; other text is unchanged, a blank cell None.

    Raises:
        InputError: it starts like JSON and cannot be read.

    Example:
        >>> parse_nested('["MET"]', "labels"), parse_nested("['MET']", "labels"), parse_nested("", "rubric")
        (['MET'], ['MET'], None)
        >>> parse_nested('[{"role": ', "messages")
        Traceback (most recent call last):
        autorubric.errors.InputError: 'messages' is not valid JSON: ...
    """
    text = cell.strip()
    if not text.startswith(("[", "{")):
        return cell if text else None
    try:
        return parse_json(text)
    except InputError as error:
        # pandas and csv write lists in Python's notation.
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            ways = "write it with json.dumps, or the rows to Parquet"
            raise InputError(f"{column!r} is not valid JSON: {error.problems[0]}; {ways}") from None
