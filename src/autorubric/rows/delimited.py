"""Parses tables: CSV, TSV and Markdown, and the cells of every table without types."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO
from unicodedata import normalize

from autorubric.errors import InputError, pluralize
from autorubric.files.strict_json import parse_json
from autorubric.files.text import LONGEST_ROW, iter_lines
from autorubric.rows.columns import NESTED, ROLES, fold_column
from autorubric.rows.kind import detect_delimiter

_MOST_COLUMNS = 10_000
_MESSAGES = re.compile(r"""\[\{\s*(['"])(?:role|content|from|value)\1\s*:""")


def read_delimited(file: BinaryIO, name: str, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield the rows of a table with a header, with the numbers of their first lines.

    The delimiter is the most frequent of comma, semicolon, tab and bar in the header. Cells are texts; JSON is read
    in columns such as `messages` or `rubrics`, and as conversations in a column of queries.

    Args:
        file: the open file, in UTF-8.
        name: its name in messages.
        problems: collects a sentence for each row that cannot be read.

    Raises:
        InputError: the header is wrong, or quotes make the ends of rows ambiguous.

    Example:
        >>> import io
        >>> list(read_delimited(io.BytesIO(b'id;text\r\n1;"two\nlines"\r\n\r\n2;Hi\r\n'), "t.csv", []))
        [(2, {'id': '1', 'text': 'two\nlines'}), (5, {'id': '2', 'text': 'Hi'})]
    """
    return read_cells(_split(file, name), name, problems)


def read_cells(
    rows: Iterator[tuple[int, list[str]]], name: str, problems: list[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table by the names in its header, the first row.

    Args:
        rows: the cells of each row that is not blank, with its number.
        name: the name of the file in messages.
        problems: collects a sentence for each row that cannot be read.

    Raises:
        InputError: the header is missing, or wrong.

    Example:
        >>> list(read_cells(iter([(1, ["id", "text"]), (3, ["q1", "Hi"])]), "t.csv", []))
        [(3, {'id': 'q1', 'text': 'Hi'})]
    """
    header: list[str] | None = None
    for line, cells in rows:
        if header is None:
            header, width = _read_header(cells, f"{name}:{line}")
            first, named = line, sum(map(bool, map(str.strip, cells)))
            fewest = header.index(header[-width]) if width else len(header)
        elif named == 1 and header[0] != "Unnamed: 0" and sum(map(bool, map(str.strip, cells))) > 1:
            advice = "delete lines above the header, or name the columns"
            raise InputError(f"{name}:{first}: the header names 1 of {len(header)} columns; {advice}")
        elif not fewest <= len(cells) <= len(header):
            counts = f"the row has {pluralize(len(cells), 'cell')}, the header has {len(header)}"
            problems.append(f"{name}:{line}: {counts}; check for quotes and delimiters in the text")
        else:
            try:
                yield line, _read_groups(header, cells, width) if width else _read_cells(header, cells)
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
        # Excel writes and reads a first line with the delimiter.
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


def _read_header(cells: list[str], where: str) -> tuple[list[str], int]:
    """The names of the columns, and how many of them form a group that is repeated to the end; 0 if none does."""
    if len(cells) > _MOST_COLUMNS:
        raise InputError(f"{where}: the header has {len(cells):,} columns; the maximum is {_MOST_COLUMNS:,}")
    # As in pandas, which writes its index without a name; accents are composed, as users type them.
    names = [normalize("NFC", cell.strip()) or f"Unnamed: {place}" for place, cell in enumerate(cells)]
    width = _count_group(names)
    if not width and (repeated := _list_repeated(names)):
        listed = ", ".join(map(repr, repeated))
        raise InputError(f"{where}: the header has {listed} more than once; rename a column")
    return names, width


def _list_repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _count_group(names: list[str]) -> int:
    """The width of a group of columns that begin with one word and are repeated to the end; 0 if there is none."""
    group = _list_repeated(names)
    if len(group) < 2:
        return 0
    start, head = names.index(group[0]), group[0].partition(" ")[0]
    is_whole = names[start:] == group * ((len(names) - start) // len(group))
    is_one = head not in names[:start] and all(name.startswith(f"{head} ") for name in group)
    return len(group) if is_whole and is_one else 0


def _read_groups(header: list[str], cells: list[str], width: int) -> dict[str, Any]:
    """A row with repeated groups of columns as one list, as in Canvas: `Rating Name, Rating Points, Rating Name`."""
    start, names = header.index(header[-width]), header[-width:]
    head = names[0].partition(" ")[0]
    groups = [cells[place : place + width] for place in range(start, len(cells), width)]
    parts = [name.removeprefix(head).strip() for name in names]
    entries = [dict(zip(parts, group, strict=False)) for group in groups if any(map(str.strip, group))]
    return {**_read_cells(header[:start], cells[:start]), head: entries}


def _read_cells(header: list[str], cells: list[str]) -> dict[str, Any]:
    return {key: _read_cell(key, cell) for key, cell in zip(header, cells, strict=True)}


def _read_cell(column: str, cell: str) -> Any:
    """Return the value of a cell; JSON is parsed only in columns with certain names."""
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
    """Return the value of a cell in a column of lists or mappings; other text is unchanged, a blank cell None.

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
