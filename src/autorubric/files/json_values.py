"""Values and rows of tables and programs in JSON's terms: times as text, decimals as numbers, NaN as null."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from autorubric.errors import InputError

_SCALARS = frozenset((str, int, bool, type(None)))
_MISSING = frozenset(("None", "nan", "NaN", "-NaN", "sNaN", "NaT", "<NA>"))


def is_missing(value: Any) -> bool:
    """Whether a value is null, a NaN of any kind of number, or NA or NaT as pandas writes them.

    Example:
        >>> is_missing(None), is_missing(float("nan")), is_missing(Decimal("NaN")), is_missing("nan")
        (True, True, True, False)
    """
    if type(value) is float:  # most values are of these types: the test below is slow
        return math.isnan(value)
    if type(value) in _SCALARS or isinstance(value, str | list | tuple | Mapping):
        return value is None
    return str(value) in _MISSING


def in_json(value: Any, *, nulls: bool = True) -> Any:
    """A value in JSON's terms; what JSON has no words for stays as it is.

    Dates and times become ISO 8601, durations a number of seconds in it, bytes their UTF-8 text, UUIDs text, decimals
    numbers, and whatever is missing null.

    Args:
        value: the value.
        nulls: whether mappings keep keys that hold null.

    Raises:
        InputError: it holds bytes that are not UTF-8.

    Example:
        >>> in_json({"day": date(2026, 1, 2), "took": timedelta(hours=1, milliseconds=5), "tags": (b"a", None)})
        {'day': '2026-01-02', 'took': 'PT3600.005S', 'tags': ['a', None]}
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        value = value.tolist()
    if isinstance(value, Mapping):
        cells = ((str(key), in_json(inner, nulls=nulls)) for key, inner in value.items())
        return {key: inner for key, inner in cells if nulls or inner is not None}
    if isinstance(value, list | tuple):
        return [in_json(inner, nulls=nulls) for inner in value]
    return None if is_missing(value) else _scalar(value)


def without_nulls(value: Any) -> Any:
    """A value of a table in JSON's terms, without the nulls of mappings: every row has the keys of all the others.

    Example:
        >>> without_nulls({"id": "q1", "note": None, "day": date(2026, 1, 2), "tags": [{"a": None}]})
        {'id': 'q1', 'day': '2026-01-02', 'tags': [{}]}
    """
    return in_json(value, nulls=False)


def _scalar(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = Decimal(abs(value) // timedelta(microseconds=1)) / 1_000_000
        return f"{'-' * (value < timedelta())}PT{seconds:f}S"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InputError("holds bytes that are not UTF-8; leave it out, or write it as text") from None
    if isinstance(value, UUID):
        return str(value)
    return float(value) if isinstance(value, Decimal) else value


def memory_rows(value: Any) -> Any:
    """Rows in memory in JSON's terms, without cells that hold nothing, also those of a DataFrame; else the value.

    Nulls inside cells stay, as those of JSON Lines do. In a DataFrame they are left out: there, as in every table,
    rows have each other's keys.

    Raises:
        InputError: a cell holds bytes that are not UTF-8, or two columns have one name.

    Example:
        >>> memory_rows([{"submission": "So.", "id": None, "score": float("nan"), "metadata": {"by": None}}])
        [{'submission': 'So.', 'metadata': {'by': None}}]
    """
    pandas: Any = sys.modules.get("pandas")  # whoever has a DataFrame has imported it
    is_table = pandas is not None and isinstance(value, pandas.DataFrame)
    if is_table:
        repeated = sorted({str(name) for name in value.columns[value.columns.duplicated()]})
        if repeated:
            raise InputError(f"the DataFrame has two columns named {', '.join(map(repr, repeated))}; rename one")
        value = value.astype(object).to_dict("records")
    if not isinstance(value, list | tuple):
        return value
    return [
        _full_cells(row, f"item {index}", nulls=not is_table) if isinstance(row, Mapping) else row
        for index, row in enumerate(value)
    ]


def _full_cells(row: Mapping[Any, Any], where: str, *, nulls: bool) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    problems: list[str] = []
    for name, cell in row.items():
        try:
            cells[name] = in_json(cell, nulls=nulls)
        except InputError as error:
            problems += (f"{where}: {name!r} {problem}" for problem in error.problems)
    if problems:
        raise InputError(problems)
    return {name: cell for name, cell in cells.items() if cell is not None}
