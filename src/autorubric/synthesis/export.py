"""The export: `final.jsonl` and `final.parquet` from the rows of the last step file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.files import atomic_writer, parquet_writer
from autorubric.synthesis.items import cap_criteria, dedup_final_rubrics, rubrics_to_final_format
from autorubric.synthesis.remarks import Remarks
from autorubric.synthesis.steps import STEP_FILES, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

FINAL_FILES = ("final.jsonl", "final.parquet")


@dataclass(frozen=True, slots=True)
class Exported:
    """What the export wrote.

    Attributes:
        rows: rows in the final files.
        criteria: criteria in them.
        without_rubric: rows that had no rubric to export.
        remarks: what is odd about the rubrics, a sentence each.
    """

    rows: int
    criteria: int
    without_rubric: int
    remarks: tuple[str, ...] = ()


def final_row(row: dict[str, Any], max_criteria: int = 0) -> dict[str, Any] | None:
    """The exported form of a step-4 row, or None where it holds no rubric.

    Merged and evolved criteria are joined, duplicates (same words, whatever the case and spacing) keep the
    higher points, and `max_criteria` > 0 keeps those with the most points, ties in order.

    Example:
        >>> final_row({"question": " Why? ", "id": "q1", "augmented_rubrics": [],
        ...     "merged_rubrics": [{"title": "Cause", "description": "Names the cause.", "weight": 7}]})
        {'question': 'Why?', 'id': 'q1', 'rubrics': [{'criterion': 'Names the cause.', 'points': 7}]}
    """
    question = question_text(row.get("question"))
    merged = row.get("merged_rubrics") or []
    if not question or not merged:
        return None
    items = [*merged, *(row.get("augmented_rubrics") or [])]
    rubrics = cap_criteria(dedup_final_rubrics(rubrics_to_final_format(items)), max_criteria)
    if not any(item["points"] > 0 for item in rubrics):
        return None
    row_id = row.get("id")
    return {"question": question, "id": "" if row_id is None else str(row_id), "rubrics": rubrics}


def question_text(question: Any) -> str:
    """A query as the final files hold it: its text, or a conversation's messages as JSON.

    Example:
        >>> question_text(" Why? "), question_text([{"role": "user", "content": "Hi"}])
        ('Why?', '[{"role": "user", "content": "Hi"}]')
    """
    return json.dumps(question, ensure_ascii=False) if isinstance(question, list) else str(question or "").strip()


def name_of(row: Mapping[str, Any]) -> str:
    """What to call a row in a message: its id, or else the key that it was recorded under.

    Example:
        >>> name_of({"id": "", "__record_id__": "idx:4"})
        'idx:4'
    """
    return str(row.get("id") or row.get("__record_id__") or "")


def export_final(directory: Path, max_criteria: int = 0) -> Exported:
    """Write `final.jsonl` and `final.parquet` from `step4_augmented.jsonl`, both whole or not at all."""
    rows = criteria = without = 0
    remarks = Remarks()
    with (
        atomic_writer(directory / "final.jsonl") as lines,
        parquet_writer(directory / "final.parquet", final_schema()) as add,
    ):
        for row in read_rows(directory / STEP_FILES[4]):
            final = final_row(row, max_criteria)
            if final is None:
                without += 1
                if row.get("merged_rubrics"):
                    remarks.leave_out(name_of(row))
                continue
            remarks.look(name_of(row), row.get("question"), final["rubrics"])
            lines.write(json.dumps(final, ensure_ascii=False) + "\n")
            add(final)
            rows += 1
            criteria += len(final["rubrics"])
    return Exported(rows, criteria, without, tuple(remarks.sentences()))


def final_schema() -> pa.Schema:
    """The seed's schema: question, id, and a list of {criterion, points} structs."""
    import pyarrow as pa

    criterion = pa.struct([("criterion", pa.string()), ("points", pa.int32())])
    return pa.schema([("question", pa.string()), ("id", pa.string()), ("rubrics", pa.list_(criterion))])
