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
    if not isinstance(value, str):
        return value
    # The writer leaves a bare carriage return unquoted, and readers begin a row behind it.
    text = value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
