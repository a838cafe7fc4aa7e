"""Rows that are in memory, as a file of them would give them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from autorubric.errors import InputError
from autorubric.files.json_values import in_json


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
