"""Reads the table in an Excel workbook (.xlsx)."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, time
from typing import Any, BinaryIO
from xml.parsers import expat

from autorubric.errors import InputError, format_first
from autorubric.extras import require
from autorubric.files.json_values import to_json_value
from autorubric.files.text import LARGEST_FILE

_SHEETS = "xl/worksheets/"
_FIRST_ROUNDED, _LONG = 10**15, "number of more than 15 digits, of which Excel keeps only 15"


def read_workbook(file: BinaryIO, name: str, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the only sheet with data, with their row numbers, as texts like those in a CSV file.

    Blank rows are skipped, and every row has as many cells as the header. A formula counts as its stored value.
    Rows with whole numbers of more than 15 digits, which Excel rounds, are problems.

    Args:
        file: the open file.
        name: its name in messages.
        problems: collects a sentence for each row that cannot be read.

    Raises:
        MissingPackageError: openpyxl is not installed.
        InputError: it is damaged, has data on several sheets, merged cells, or formulas without a stored value.
    """
    require(["openpyxl"], "xlsx", f"{name}: an Excel workbook")
    with _reading(name):
        sheets = _read_sheets(file, name)
        if len(sheets) > 1:
            titles = ", ".join(map(repr, sheets))
            advice = "save the one to read as CSV, or delete the others"
            raise InputError(f"{name}: the sheets {titles} have data; {advice}")
        _check_cells(file, name)
    width = 0
    for row, cells in enumerate(next(iter(sheets.values()), []), 1):
        texts = [_write_cell(cell) for cell in cells]
        while texts and not texts[-1].strip():
            texts.pop()
        if not texts:
            continue
        width = width or len(texts)
        wrong = [f"cell {cell.coordinate} is {cell.value}" for cell in cells if cell.data_type == "e"]
        if len(texts) > width:
            where = f"cell {cells[len(texts) - 1].coordinate} is to the right of the header"
            wrong.append(f"{where}; name its column, or delete rows above the header")
        wrong += [f"cell {cell.coordinate} is a {_LONG}; store it as text" for cell in cells if _is_rounded(cell)]
        if wrong:
            problems.append(f"{name}:{row}: {format_first(wrong)}")
        else:
            yield row, texts + [""] * (width - len(texts))


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Convert the errors that a damaged workbook raises, of many types, to an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        raise InputError(f"{name}: cannot be read as an Excel workbook: {words}") from error


def _read_sheets(file: BinaryIO, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the cells of each sheet with data, by the title of the sheet; at most `LARGEST_FILE` is unpacked."""
    import openpyxl

    with zipfile.ZipFile(file) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > LARGEST_FILE:
        most = f"the maximum is {LARGEST_FILE // 2**20} MiB"
        raise InputError(f"{name}: unpacks to {size / 2**20:,.0f} MiB; {most}, split it or save it as CSV")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and drop-down lists, which are not read
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # some programs write wrong ones
            rows = [*sheet.iter_rows()]
            if any(cell.value is not None for row in rows for cell in row):
                found[sheet.title] = rows
    return found


def _check_cells(file: BinaryIO, name: str) -> None:
    """Refuse merged cells, whose value may belong to one row or to all, and formulas without a stored value."""
    found = _Cells()
    with zipfile.ZipFile(file) as archive:
        for part in archive.namelist():
            if part.startswith(_SHEETS) and part.endswith(".xml"):
                with archive.open(part) as sheet:
                    found.read(sheet)
    if found.merged:
        advice = "unmerge them, and fill in each row"
        raise InputError(f"{name}: the sheet has merged cells ({format_first(found.merged)}); {advice}")
    if found.unknown:
        advice = "open the file in Excel or LibreOffice, and save it"
        raise InputError(f"{name}: formulas without a stored value ({format_first(found.unknown)}); {advice}")


class _Cells:
    """Finds merged cells and formulas without a stored value, which openpyxl does not show when it reads by row."""

    def __init__(self) -> None:
        self.merged: list[str] = []
        self.unknown: list[str] = []
        self._cell, self._is_formula, self._has_value, self._is_value = "", False, False, False

    def read(self, sheet: Any) -> None:
        """Add what is in the XML of a sheet."""
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._add_text
        parser.ParseFile(sheet)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "c":
            self._cell, self._is_formula = attributes.get("r", "?"), False
            self._has_value = attributes.get("t") == "str"  # its text may be empty
        elif tag == "f":
            self._is_formula = True
        elif tag == "mergeCell":
            self.merged.append(attributes.get("ref", "?"))
        self._is_value = tag == "v"

    def _add_text(self, text: str) -> None:
        self._has_value |= self._is_value and bool(text.strip())

    def _end(self, tag: str) -> None:
        if tag.rpartition(":")[2] == "c" and self._is_formula and not self._has_value:
            self.unknown.append(self._cell)


def _is_rounded(cell: Any) -> bool:
    """Return whether a cell has an integer that a program may have rounded, such as an id of 19 digits."""
    value = cell.value
    return isinstance(value, int | float) and abs(value) >= _FIRST_ROUNDED and value % 1 == 0


def _write_cell(cell: Any) -> str:
    """Return the text of a cell: 1.0 becomes 1, dates ISO 8601."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, str):
        return re.sub("_x([0-9A-Fa-f]{4})_", lambda found: chr(int(found[1], 16)), value)
    return str(to_json_value(value))
