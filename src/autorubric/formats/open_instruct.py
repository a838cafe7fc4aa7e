"""open-instruct: messages, and the rubric as JSON in the text of `ground_truth`."""

from __future__ import annotations

import json
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import Names, from_json_text, number, other_fields, read_entries
from autorubric.errors import InputError
from autorubric.formats.format import TURNS, Format, Record, Row, table_schema
from autorubric.rows.record import as_text, as_turns, read_prompt

_ENTRY = Names(("description", "rubric_item", "Ingredient"), ("weight",), ("title",), default=1.0)
_VERIFIER = "general_rubric"


def _matches(row: Row) -> bool:
    return "messages" in row and "ground_truth" in row


def _read(row: Row) -> Record:
    """The record of a row; an entry without a weight weighs 1."""
    prompt = read_prompt(row.get("messages"), "messages")
    truth = row.get("ground_truth")
    # Some of its data sets wrap every ground truth in a list of one.
    truth = from_json_text(truth[0] if isinstance(truth, list) and len(truth) == 1 else truth, "ground_truth")
    if not isinstance(truth, dict):
        raise InputError(f"ground_truth is {truth!r:.60}; expected an object with query and rubrics")
    metadata = other_fields(row, ("messages", "ground_truth", "dataset"))
    if row.get("dataset") not in (None, _VERIFIER):
        metadata["dataset"] = row["dataset"]
    more = other_fields(truth, ("rubrics",))
    if more.get("query") == as_text(prompt):
        del more["query"]
    if more:
        metadata["ground_truth_rest"] = more
    return Record(read_entries(truth.get("rubrics"), "ground_truth.rubrics", _ENTRY), prompt, metadata=metadata)


def _write(record: Record) -> Row:
    more = record.metadata.get("ground_truth_rest")
    truth = {
        "query": as_text(record.prompt),
        **(more if isinstance(more, dict) else {}),
        "rubrics": [_entry(criterion) for criterion in record.criteria],
    }
    dataset = record.metadata.get("dataset")
    return {
        "messages": as_turns(record.prompt),
        "ground_truth": json.dumps(truth, ensure_ascii=False),
        "dataset": dataset if isinstance(dataset, str) else _VERIFIER,
    }


def _entry(criterion: Criterion) -> dict[str, Any]:
    title = {"title": criterion.name} if criterion.name is not None else {}
    return {**title, "description": criterion.requirement, "weight": number(criterion.weight)}


_SCHEMA = table_schema({"messages": TURNS, "ground_truth": str, "dataset": str})
OPEN_INSTRUCT = Format("open-instruct", "open-instruct", (".jsonl", ".parquet"), _matches, _read, _write, _SCHEMA)
