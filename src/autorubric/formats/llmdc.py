"""Rubrics of The LLM Data Company's `rubric`: requirements with weights, in JSON or YAML."""

from __future__ import annotations

from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import number
from autorubric.core.rubric_shapes import criterion_record, read_criteria, unfold
from autorubric.formats.format import Format, Record, Row, only_row

_KEYS = ("name", "weight", "requirement", "scale_type", "options", "aggregation")
_HOLDERS = ("rubric", "sections", "criteria")
_OF_DATA = frozenset({"submission", "question", "query", "prompt", "items"})


def _read(row: Row) -> Record:
    """The record of a document: a list of criteria or sections under `rubric`, `sections` or `criteria`."""
    parts = unfold(row)
    return Record(tuple(read_criteria(parts.entries)), guidelines=parts.guidelines, metadata=parts.metadata)


def _write(record: Record) -> Row:
    """The document of a record, its criteria under `rubric`; a file of one document contains the bare list."""
    return {"rubric": [_entry(criterion) for criterion in record.criteria]}


def _holds_requirements(value: Any) -> bool:
    """Whether a list of criteria or sections, or a mapping that contains one, has criteria with a `requirement`."""
    if isinstance(value, list):
        return any(_holds_requirements(entry) for entry in value[:3])
    if not isinstance(value, dict):
        return False
    return "requirement" in value or any(_holds_requirements(value[key]) for key in _HOLDERS if key in value)


def _entry(criterion: Criterion) -> dict[str, Any]:
    record = criterion_record(criterion)
    record["weight"] = number(criterion.weight)
    return {key: record[key] for key in _KEYS if record.get(key) is not None}


LLMDC = Format(
    "llmdc",
    "rubrics of The LLM Data Company's rubric",
    (".json", ".yaml", ".yml", ".jsonl"),
    lambda row: not _OF_DATA & row.keys() and _holds_requirements(row),
    _read,
    _write,
    carrier=None,
    document=lambda rows: only_row(rows)["rubric"],
)
