"""How far a grading run is, as its directory shows it from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autorubric.evaluation.experiment import ITEMS_FILE
from autorubric.evaluation.items_file import read_lines
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records.view import LedgerView
from autorubric.runs.status import Standing, count_of

_HEAD = 400  # bytes of a line that hold its error
_FINE = b',"error":null,"report":'
_FAILED = b'"error":"'
_NOT_ASKED = (b"infrastructure: stopped: ", b"infrastructure: budget: ")


def grading_standing(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> Standing:
    """Items that are graded and items that failed, from the lines that are written as items end.

    Example:
        >>> grading_standing(Path("no-such-run"), {"total_items": 3}, None)
        Standing(rows=3, done=0, failed=0, calls_per_row=None, groups=())
    """
    lines = {index: line for index, (_, line) in read_lines(directory / ITEMS_FILE).items()}
    heads = [line[:_HEAD] for line in lines.values()]
    done = sum(_FINE in head for head in heads)
    not_asked = sum(_FINE not in head and any(words in head for words in _NOT_ASKED) for head in heads)
    groups = FailureGroups()
    for index, line in sorted(lines.items()):
        if _FINE not in line[:_HEAD] or _FAILED in line:
            _add_failures(groups, index, line)
    failed = len(heads) - done - not_asked
    return Standing(count_of(manifest.get("total_items")), done, failed, groups=tuple(groups))


def _add_failures(groups: FailureGroups, index: int, line: bytes) -> None:
    """Take in what failed of an item; a line that is no record of one is passed over."""
    try:
        record = json.loads(line)
        criteria = record["report"].get("criterion_reports")
        found = [record["error"]] if criteria is None else [entry.get("error") for entry in criteria]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for error in found:
        if isinstance(error, str):
            groups.add_text(error, str(index))
