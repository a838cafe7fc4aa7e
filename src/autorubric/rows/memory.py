"""Conversion of rows in memory to the contents of an equivalent file."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from io import IOBase
from typing import Any, Protocol

from autorubric.errors import InputError
from autorubric.files.json_values import to_json_value
from autorubric.rows.columns import ROLES, fold_column

_LISTINGS = ("to_pylist", "to_dicts", "to_list", "tolist")
"""Methods that return the rows of a table or column, in pyarrow, polars, datasets or Series, and numpy."""


class Table(Protocol):
    """A table or column of pandas, polars, pyarrow, datasets or numpy."""

    @property
    def shape(self) -> Any:
        """The number of rows, and of columns if it is a table."""


def convert_rows(value: Any, *, blanks: bool = False) -> Any:
    """Rows in memory as JSON values; a value without rows is returned unchanged.

    Rows may be a sequence, an iterator, or a table of pandas, polars, pyarrow or datasets; a row may be a
    mapping, a dataclass, a named tuple, or an object of pydantic or attrs. Nulls inside cells are kept, as in JSON
    Lines, but dropped in tables, where every row has all keys.

    Args:
        value: the rows.
        blanks: whether to keep all empty cells as null, not only those of submissions.

    Raises:
        InputError: a cell contains bytes that are not UTF-8, two columns have one name, or the rows have to be taken
            out of the value first.

    Example:
        >>> convert_rows([{"submission": "So.", "id": None, "score": float("nan"), "metadata": {"by": None}}])
        [{'submission': 'So.', 'metadata': {'by': None}}]
        >>> convert_rows(text for text in ("So.", "No."))
        ['So.', 'No.']
    """
    rows = _list_table_rows(value)
    listed = value if rows is None else rows
    if isinstance(listed, str | bytes | bytearray) or not isinstance(listed, Iterator | Sequence):
        return value
    return [
        _convert_cells(row, f"item {index}", nulls=rows is None, blanks=blanks) if isinstance(row, Mapping) else row
        for index, row in enumerate(map(_list_fields, listed))
    ]


def _list_fields(row: Any) -> Any:
    """Return the fields of a row that is an object, by name; other rows and this package's objects unchanged."""
    kind = type(row)
    if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return row
    listing = getattr(kind, "model_dump", getattr(kind, "_asdict", asdict if is_dataclass(kind) else None))
    if listing is not None:
        return listing(row)
    fields = getattr(kind, "__attrs_attrs__", None)
    return row if fields is None else {field.name: getattr(row, field.name) for field in fields}


def _list_table_rows(value: Any) -> Any:
    """Return the rows of a table in memory, or the cells of a single column; None for any other value."""
    if advice := _advise_on_holder(value):
        raise InputError(f"expected rows, got a {type(value).__name__}; {advice}")
    columns = getattr(value, "column_names", getattr(value, "columns", ()))
    pandas: Any = sys.modules.get("pandas")  # a caller with a DataFrame has imported it
    is_frame = pandas is not None and isinstance(value, pandas.DataFrame)
    names = [str(name) for name in columns] if is_frame or isinstance(columns, list) else []
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise InputError(f"the DataFrame has two columns named {', '.join(map(repr, repeated))}; rename one")
    if is_frame:
        levels = [name for name in value.index.names if name is not None and name not in value.columns]
        return (value.reset_index(levels) if levels else value).astype(object).to_dict("records")
    listing = next((name for name in _LISTINGS if callable(getattr(value, name, None))), None)
    return None if listing is None else getattr(value, listing)()


def _advise_on_holder(value: Any) -> str:
    """Return advice for a value from which rows must first be extracted; empty for any other value."""
    if isinstance(value, IOBase):
        return "pass the path of the file"
    if hasattr(value, "collect_schema") and not hasattr(value, "to_dicts"):
        return "call its collect()"
    if isinstance(value, Mapping) and value and all(hasattr(one, "column_names") for one in value.values()):
        return f"pass one of its splits: {', '.join(map(repr, value))}"
    return ""


def _convert_cells(row: Mapping[Any, Any], where: str, *, nulls: bool, blanks: bool) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    problems: list[str] = []
    for name, cell in row.items():
        try:
            cells[name] = to_json_value(cell, nulls=nulls)
        except InputError as error:
            problems += (f"{where}: {name!r} {problem}" for problem in error.problems)
    if problems:
        raise InputError(problems)
    texts = ROLES["submission"].names
    return {name: cell for name, cell in cells.items() if blanks or cell is not None or fold_column(name) in texts}
