"""How far a grading run is, as its directory shows it from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autorubric.evaluation.experiment import ITEMS_FILE
from autorubric.evaluation.items_file import read_lines
from autorubric.llm.records.view import LedgerView
from autorubric.runs.status import Standing, count_of

_HEAD = 400  # bytes of a line that hold its error
_FINE = b',"error":null,"report":'
_NOT_ASKED = (b"infrastructure: stopped: ", b"infrastructure: budget: ")


def grading_standing(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> Standing:
    """Items that are graded and items that failed, from the lines that are written as items end.

    Example:
        >>> grading_standing(Path("no-such-run"), {"total_items": 3}, None)
        Standing(rows=3, done=0, failed=0, calls_per_row=None)
    """
    heads = [line[:_HEAD] for _, line in read_lines(directory / ITEMS_FILE).values()]
    done = sum(_FINE in head for head in heads)
    not_asked = sum(_FINE not in head and any(words in head for words in _NOT_ASKED) for head in heads)
    return Standing(count_of(manifest.get("total_items")), done, len(heads) - done - not_asked)
