"""Rows of verl, RuscaRL and verl-rubric: chat prompts with the rubric where the reward function reads it."""

from __future__ import annotations

from typing import Any

from autorubric.core.entries import POINTS, other_fields, read_entries, tagged_entry, with_tags
from autorubric.errors import InputError
from autorubric.formats.format import (
    KEY,
    TURNS,
    Format,
    Record,
    Row,
    data_source,
    mapping_at,
    read_text,
    table_schema,
)
from autorubric.rows.record import as_turns, read_prompt

_KNOWN = frozenset({"data_source", "prompt", "ability", "reward_model", "extra_info", "Rubric", "id"})


def _read(row: Row) -> Record:
    """The record of a row; the rubric may be in `reward_model`, in its mirror, or under `Rubric`."""
    model, info = mapping_at(row, "reward_model"), mapping_at(row, "extra_info")
    mirror = mapping_at(info, "reward_model")
    places = (
        ("reward_model.rubrics", model.get("rubrics")),
        ("extra_info.reward_model.rubrics", mirror.get("rubrics")),
        ("Rubric", row.get("Rubric")),
    )
    found = [(key, value) for key, value in places if value is not None]
    if not found:
        raise InputError("no rubric found in reward_model.rubrics, extra_info.reward_model.rubrics or Rubric")
    if any(value != found[0][1] for _, value in found[1:]):
        raise InputError(f"{found[0][0]} and {found[1][0]} differ; the reward function would read another rubric")
    key, rubrics = found[0]
    domain, source = read_text(row, "ability") or "", read_text(row, "data_source") or ""
    metadata = other_fields(row, _KNOWN)
    if source != domain:
        metadata["data_source"] = source
    more = other_fields(info, ("id", "prompt", "reward_model", KEY))
    if more:
        metadata["extra_info"] = more
    return Record(
        read_entries(rubrics, key, POINTS, with_tags),
        read_prompt(row.get("prompt") or info.get("prompt"), "prompt"),
        read_text(info, "id") or read_text(row, "id") or "",
        read_text(model, "ground_truth") or None,
        domain=domain,
        metadata=metadata,
    )


def _write(record: Record) -> Row:
    """The row of a record: `ground_truth` is always there, tags are texts, the mirror is in `extra_info`."""
    prompt = as_turns(record.prompt)
    model: dict[str, Any] = {
        "style": "rubric",
        "rubrics": [tagged_entry(criterion) for criterion in record.criteria],
        "ground_truth": record.reference or "",
    }
    return {
        "data_source": data_source(record),
        "prompt": prompt,
        "ability": record.domain,
        "reward_model": model,
        "extra_info": {"id": record.id, "prompt": prompt, "reward_model": model},
    }


_MODEL = {"style": str, "rubrics": [{"criterion": str, "points": float, "tags": [str]}], "ground_truth": str}
_COLUMNS = {
    "data_source": str,
    "prompt": TURNS,
    "ability": str,
    "reward_model": _MODEL,
    "extra_info": {"id": str, "prompt": TURNS, "reward_model": _MODEL, KEY: str},
}
VERL = Format(
    "verl",
    "rows of verl, RuscaRL and verl-rubric",
    (".parquet", ".jsonl"),
    lambda row: "reward_model" in row and "Rubrics" not in row and bool({"prompt", "extra_info"} & row.keys()),
    _read,
    _write,
    table_schema(_COLUMNS),
    carrier=("extra_info",),
)
