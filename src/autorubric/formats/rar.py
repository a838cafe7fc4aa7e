"""RaR-Medicine and RaR-Science: questions with titled criteria of whole weights."""

from __future__ import annotations

from autorubric.core.entries import Names, number, other_fields, read_entries
from autorubric.formats.format import Format, Record, Row, read_text, table_schema
from autorubric.rows.record import as_text, read_prompt

_ENTRY = Names(("description",), ("weight",), ("title",))
_KNOWN = frozenset({"id", "question", "reference_answer", "rubric", "rubric_list", "rubric_count"})


def _matches(row: Row) -> bool:
    return "question" in row and "rubric" in row


def _read(row: Row) -> Record:
    """The record of a row; `rubric_list` and `rubric_count` repeat the rubric and are not kept."""
    return Record(
        read_entries(row.get("rubric"), "rubric", _ENTRY),
        read_prompt(row.get("question"), "question"),
        read_text(row, "id") or "",
        read_text(row, "reference_answer"),
        metadata=other_fields(row, _KNOWN),
    )


def _write(record: Record) -> Row:
    """The row of a record; a conversation becomes one text."""
    return {
        "question": as_text(record.prompt),
        "reference_answer": record.reference,
        "question_source": record.metadata.get("question_source"),
        "rubric": [
            {"title": one.name or "", "description": one.requirement, "weight": number(one.weight)}
            for one in record.criteria
        ],
        "rubric_list": [criterion.requirement for criterion in record.criteria],
        "rubric_count": len(record.criteria),
    }


_SCHEMA = table_schema(
    {
        "question": str,
        "reference_answer": str,
        "question_source": str,
        "rubric": [{"title": str, "description": str, "weight": float}],
        "rubric_list": [str],
        "rubric_count": int,
    }
)
RAR = Format("rar", "RaR-Medicine and RaR-Science", (".jsonl", ".parquet", ".json"), _matches, _read, _write, _SCHEMA)
