"""Cells of a CSV file that a spreadsheet shows and does not carry out."""

from __future__ import annotations

import re
from typing import Any

# Full-width signs count as well: some spreadsheets read them as the plain ones.
_FORMULA = re.compile(r"[\s\0]*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+(?:[eE][+-]?[0-9]+)?%?")


def defused(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, marked as text; anything else as it is.

    Names and reasons come from models and from strangers. Numbers stay numbers, the negative ones too.

    Example:
        >>> defused("=HYPERLINK(A1)"), defused("-0.5"), defused(-0.5), defused("plain")
        ("'=HYPERLINK(A1)", '-0.5', -0.5, 'plain')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
