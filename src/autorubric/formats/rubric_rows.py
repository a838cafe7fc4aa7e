"""Rows of datasets and trainers, each with a rubric."""

import json
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import (
    POINTS,
    Names,
    as_points,
    build_tagged_entry,
    from_json_text,
    pick_others,
    read_entries,
    read_tags,
)
from autorubric.errors import InputError
from autorubric.formats.format import (
    KEY,
    TURNS,
    Format,
    Record,
    Row,
    build_schema,
    find_source,
    read_object,
    read_text,
)
from autorubric.rows.record import as_text, as_turns, read_prompt

# HealthBench: conversations with physician-written criteria of signed points.

_IDEAL = "ideal_completions_data"
_OF_HEALTHBENCH = frozenset({"prompt_id", "id", "prompt", "rubrics"})


def _read_healthbench(row: Row) -> Record:
    """Return the record of a row; the ideal completion is its reference."""
    metadata = pick_others(row, _OF_HEALTHBENCH)
    reference = None
    if not metadata.get("example_tags"):
        metadata.pop("example_tags", None)
    ideal = metadata.get(_IDEAL)
    if isinstance(ideal, dict):
        reference = read_text(ideal, "ideal_completion")
        rest = pick_others(ideal, ("ideal_completion",))
        metadata.pop(_IDEAL)
        if rest:
            metadata[_IDEAL] = rest
    return Record(
        read_entries(row.get("rubrics"), "rubrics", POINTS, read_tags),
        read_prompt(row.get("prompt"), "prompt"),
        read_text(row, "prompt_id", "id") or "",
        reference,
        metadata=metadata,
    )


def _write_healthbench(record: Record) -> Row:
    ideal = record.metadata.get(_IDEAL)
    completions: dict[str, Any] | None = dict(ideal) if isinstance(ideal, dict) else None
    if record.reference is not None:
        completions = {"ideal_completion": record.reference, **(completions or {})}
    return {
        "prompt_id": record.id,
        "prompt": as_turns(record.prompt),
        "rubrics": [build_tagged_entry(criterion) for criterion in record.criteria],
        "example_tags": record.metadata.get("example_tags") or [],
        _IDEAL: completions,
    }


_HEALTHBENCH = build_schema(
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
HEALTHBENCH = Format(
    "healthbench",
    "HealthBench",
    (".jsonl", ".parquet", ".json"),
    lambda row: "prompt" in row and isinstance(row.get("rubrics"), list) and "reward_model" not in row,
    _read_healthbench,
    _write_healthbench,
    _HEALTHBENCH,
)


# RaR-Medicine and RaR-Science: questions with titled criteria of whole weights.

_RAR_ENTRY = Names(("description",), ("weight",), ("title",))
_OF_RAR = frozenset({"id", "question", "reference_answer", "rubric", "rubric_list", "rubric_count"})


def _read_rar(row: Row) -> Record:
    """Return the record of a row; `rubric_list` and `rubric_count` repeat the rubric and are not kept."""
    return Record(
        read_entries(row.get("rubric"), "rubric", _RAR_ENTRY),
        read_prompt(row.get("question"), "question"),
        read_text(row, "id") or "",
        read_text(row, "reference_answer"),
        metadata=pick_others(row, _OF_RAR),
    )


def _write_rar(record: Record) -> Row:
    """Return the row of a record; a conversation becomes one text."""
    return {
        "question": as_text(record.prompt),
        "reference_answer": record.reference,
        "question_source": record.metadata.get("question_source"),
        "rubric": [
            {
                "title": criterion.name or "",
                "description": criterion.requirement,
                "weight": as_points(criterion.weight),
            }
            for criterion in record.criteria
        ],
        "rubric_list": [criterion.requirement for criterion in record.criteria],
        "rubric_count": len(record.criteria),
    }


_RAR = build_schema(
    {
        "question": str,
        "reference_answer": str,
        "question_source": str,
        "rubric": [{"title": str, "description": str, "weight": float}],
        "rubric_list": [str],
        "rubric_count": int,
    }
)
RAR = Format(
    "rar",
    "RaR-Medicine and RaR-Science",
    (".jsonl", ".parquet", ".json"),
    lambda row: {"question", "rubric"} <= row.keys(),
    _read_rar,
    _write_rar,
    _RAR,
)


# open-instruct: messages, and the rubric as JSON in the text of `ground_truth`.

_INSTRUCT_ENTRY = Names(("description", "rubric_item", "Ingredient"), ("weight",), ("title",), default=1.0)
_VERIFIER = "general_rubric"


def _read_open_instruct(row: Row) -> Record:
    """Return the record of a row; the default weight is 1."""
    prompt = read_prompt(row.get("messages"), "messages")
    truth = row.get("ground_truth")
    # Some of its datasets wrap every ground truth in a list with one element.
    truth = from_json_text(truth[0] if isinstance(truth, list) and len(truth) == 1 else truth, "ground_truth")
    if not isinstance(truth, dict):
        raise InputError(f"ground_truth is {truth!r:.60}; expected an object with query and rubrics")
    metadata = pick_others(row, ("messages", "ground_truth", "dataset"))
    if row.get("dataset") not in (None, _VERIFIER):
        metadata["dataset"] = row["dataset"]
    more = pick_others(truth, ("rubrics",))
    if more.get("query") == as_text(prompt):
        del more["query"]
    if more:
        metadata["ground_truth_rest"] = more
    return Record(
        read_entries(truth.get("rubrics"), "ground_truth.rubrics", _INSTRUCT_ENTRY), prompt, metadata=metadata
    )


def _write_open_instruct(record: Record) -> Row:
    more = record.metadata.get("ground_truth_rest")
    truth = {
        "query": as_text(record.prompt),
        **(more if isinstance(more, dict) else {}),
        "rubrics": [_build_entry(criterion) for criterion in record.criteria],
    }
    dataset = record.metadata.get("dataset")
    return {
        "messages": as_turns(record.prompt),
        "ground_truth": json.dumps(truth, ensure_ascii=False),
        "dataset": dataset if isinstance(dataset, str) else _VERIFIER,
    }


def _build_entry(criterion: Criterion) -> dict[str, Any]:
    title = {"title": criterion.name} if criterion.name is not None else {}
    return {**title, "description": criterion.requirement, "weight": as_points(criterion.weight)}


_OPEN_INSTRUCT = build_schema({"messages": TURNS, "ground_truth": str, "dataset": str})
OPEN_INSTRUCT = Format(
    "open-instruct",
    "open-instruct",
    (".jsonl", ".parquet"),
    lambda row: {"messages", "ground_truth"} <= row.keys(),
    _read_open_instruct,
    _write_open_instruct,
    _OPEN_INSTRUCT,
)


# Rows of verl, RuscaRL and verl-rubric: chat prompts, and the rubric in the field that the reward function reads.

_OF_VERL = frozenset({"data_source", "prompt", "ability", "reward_model", "extra_info", "Rubric", "id"})


def _read_verl(row: Row) -> Record:
    """Return the record of a row; the rubric may be in `reward_model`, in its mirror, or under `Rubric`."""
    model, info = read_object(row, "reward_model"), read_object(row, "extra_info")
    mirror = read_object(info, "reward_model")
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
    metadata = pick_others(row, _OF_VERL)
    if source != domain:
        metadata["data_source"] = source
    more = pick_others(info, ("id", "prompt", "reward_model", KEY))
    if more:
        metadata["extra_info"] = more
    return Record(
        read_entries(rubrics, key, POINTS, read_tags),
        read_prompt(row.get("prompt") or info.get("prompt"), "prompt"),
        read_text(info, "id") or read_text(row, "id") or "",
        read_text(model, "ground_truth") or None,
        domain=domain,
        metadata=metadata,
    )


def _write_verl(record: Record) -> Row:
    """Return the row of a record: it always has `ground_truth`, tags are texts, and `extra_info` has the mirror."""
    prompt = as_turns(record.prompt)
    model: dict[str, Any] = {
        "style": "rubric",
        "rubrics": [build_tagged_entry(criterion) for criterion in record.criteria],
        "ground_truth": record.reference or "",
    }
    return {
        "data_source": find_source(record),
        "prompt": prompt,
        "ability": record.domain,
        "reward_model": model,
        "extra_info": {"id": record.id, "prompt": prompt, "reward_model": model},
    }


_MODEL = {"style": str, "rubrics": [{"criterion": str, "points": float, "tags": [str]}], "ground_truth": str}
_VERL = {
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
    _read_verl,
    _write_verl,
    build_schema(_VERL),
    carrier=("extra_info",),
)
