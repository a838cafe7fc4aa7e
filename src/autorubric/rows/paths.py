"""Paths to values inside a column, such as `choices[0].text`."""

import re
from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from autorubric.rows.record import find_paths, from_cell

_PATH_PART = re.compile(r"[^.\[\]]+|\[-?\d{1,9}\]")


def find_value(row: Any, path: str) -> Any:
    """Return the value of a column, or at a path into it, also inside JSON text; None if there is none.

    Example:
        >>> row = {"choices": [{"turns": ["So.", "No."]}], "meta": '{"rubrics": ["Is brief"]}'}
        >>> find_value(row, "choices[0].turns[-1]"), find_value(row, "meta.rubrics[0]"), find_value(row, "turns")
        ('No.', 'Is brief', None)
    """
    value: Any = from_cell(row) if isinstance(row, str) else row
    # Headers of CSV files are composed.
    if isinstance(value, Mapping) and (own := path if path in value else normalize("NFC", path)) in value:
        return value[own]
    part = find_base_column(path)
    try:
        value = value[int(part[1:-1]) if part.startswith("[") else part] if not isinstance(value, str) else None
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    rest = path.partition(part)[2].removeprefix(".")
    return find_value(value, rest) if rest else value


def find_base_column(path: str) -> str:
    """Return the column that a path begins with.

    Example:
        >>> find_base_column("choices[0].turns"), find_base_column("answer")
        ('choices', 'answer')
    """
    return next(iter(_PATH_PART.findall(path)), path)


_ENDS = (".content", ".text", ".message", ".answer", ".output", ".question")


def find_text_path(row: Any, column: str, *, is_query: bool = False) -> str:
    """Return the path to the most likely text in a column, its longest, or to the messages of a query; empty if none.

    Example:
        >>> turns = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]}
        >>> find_text_path({"input": turns}, "input"), find_text_path({"input": turns}, "input", is_query=True)
        ('input.messages[-1].content', 'input.messages')
    """
    paths = find_paths(find_value(row, column), column)
    found = max(paths, key=lambda at: (at.endswith(_ENDS), len(find_value(row, at))), default="")
    return found.partition("[-1]")[0] if is_query else found
