"""HealthBench: conversations with physician-written criteria of signed points."""

from __future__ import annotations

from typing import Any

from autorubric.core.entries import POINTS, other_fields, read_entries, tagged_entry, with_tags
from autorubric.formats.format import TURNS, Format, Record, Row, read_text, table_schema
from autorubric.rows.record import as_turns, read_prompt

_IDEAL = "ideal_completions_data"
_KNOWN = frozenset({"prompt_id", "id", "prompt", "rubrics"})


def _matches(row: Row) -> bool:
    return "prompt" in row and isinstance(row.get("rubrics"), list) and "reward_model" not in row


def _read(row: Row) -> Record:
    """The record of a row; the ideal completion is its reference."""
    metadata = other_fields(row, _KNOWN)
    reference = None
    if not metadata.get("example_tags"):
        metadata.pop("example_tags", None)
    ideal = metadata.get(_IDEAL)
    if isinstance(ideal, dict):
        reference = read_text(ideal, "ideal_completion")
        rest = other_fields(ideal, ("ideal_completion",))
        metadata.pop(_IDEAL)
        if rest:
            metadata[_IDEAL] = rest
    return Record(
        read_entries(row.get("rubrics"), "rubrics", POINTS, with_tags),
        read_prompt(row.get("prompt"), "prompt"),
        read_text(row, "prompt_id", "id") or "",
        reference,
        metadata=metadata,
    )


def _write(record: Record) -> Row:
    ideal = record.metadata.get(_IDEAL)
    completions: dict[str, Any] | None = dict(ideal) if isinstance(ideal, dict) else None
    if record.reference is not None:
        completions = {"ideal_completion": record.reference, **(completions or {})}
    return {
        "prompt_id": record.id,
        "prompt": as_turns(record.prompt),
        "rubrics": [tagged_entry(criterion) for criterion in record.criteria],
        "example_tags": record.metadata.get("example_tags") or [],
        _IDEAL: completions,
    }


_SCHEMA = table_schema(
    {
        "prompt_id": str,
        "prompt": TURNS,
        "rubrics": [{"criterion": str, "points": float, "tags": [str]}],
        "example_tags": [str],
        _IDEAL: {
            "ideal_completion": str,
            "ideal_completions_group": str,
            "ideal_completions_ref_completions": [str],
        },
    }
)
HEALTHBENCH = Format("healthbench", "HealthBench", (".jsonl", ".parquet", ".json"), _matches, _read, _write, _SCHEMA)
