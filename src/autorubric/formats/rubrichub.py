"""RubricHub: the output of its pipeline, and its releases for RL (RuRL) and for fine-tuning (RuFT)."""

from collections.abc import Mapping
from typing import Any

from autorubric.checks import RUBRICHUB as RULES
from autorubric.checks import validate_check
from autorubric.core.criterion import Criterion
from autorubric.core.entries import POINTS, as_points, from_json_text, pick_others, read_entries, read_tags
from autorubric.errors import InputError, MissingPackageError
from autorubric.files.json_values import is_finite
from autorubric.files.parquet import build_final_schema
from autorubric.files.strict_json import dump_json
from autorubric.formats.format import Format, Record, Row, build_schema, find_source, read_object, read_text, to_whole
from autorubric.rows.dialogues import read_tools
from autorubric.rows.record import as_text, as_turns, dump_question, from_cell, read_prompt, read_question


def _read_final(row: Row) -> Record:
    return Record(
        read_entries(row.get("rubrics"), "rubrics", POINTS),
        read_question(row.get("question"), "question"),
        read_text(row, "id") or "",
        metadata=pick_others(row, ("question", "id", "rubrics")),
    )


def _write_final(record: Record) -> Row:
    """Return the row of a record, with the definitions of tools as in the final files of a synthesis."""
    row = {"question": dump_question(record.prompt), "id": record.id, "rubrics": _build_entries(record)}
    tools = record.metadata.get("tools")
    return {**row, "tools": tools} if isinstance(tools, str) and read_tools(record.metadata) else row


def _round_final(row: Row) -> Row:
    """Return the row for the three columns of the Parquet file, with whole points for its 32-bit column."""
    rubrics = [{**one, "points": to_whole(one["points"])} for one in row["rubrics"]]
    return {"question": row["question"], "id": row["id"], "rubrics": rubrics}


RUBRICHUB = Format(
    "rubrichub",
    "RubricHub pipeline output",
    (".jsonl", ".parquet"),
    lambda row: {"question", "rubrics"} <= row.keys(),
    _read_final,
    _write_final,
    build_final_schema,
    carrier=None,
    columns=_round_final,
)


_NUMBERS = (
    *("N", "capital_frequency", "frequency", "let_frequency", "m", "n", "n_end", "n_sent", "n_start", "n_words"),
    *("nth_paragraph", "num_bullets", "num_highlights", "num_paragraphs", "num_placeholders", "num_sections"),
    *("num_sentences", "num_words", "small_n"),
)
_LISTS = ("forbidden_words", "keywords")
_TEXTS = (
    *("capital_relation", "end_phrase", "first_word", "keyword", "keyword1", "keyword2", "language", "last_word"),
    *("let_relation", "letter", "phrase", "postscript_marker", "prompt_to_repeat", "relation", "section_spliter"),
)
PARAMETERS = tuple(sorted((*_NUMBERS, *_LISTS, *_TEXTS)))
"""The 36 keys of every `tags.parameters`, in the order of the release; those that a rule does not use are null."""

_OF_RELEASE = frozenset({"prompt", "data_source", "ability", "reward_model", "extra_info", "Rubrics"})


def _read_release(row: Row) -> Record:
    """Return the record of a row; a rule criterion keeps its instruction id as text and its rule as check."""
    model = read_object(row, "reward_model")
    rubrics = from_json_text(model.get("rubrics"), "reward_model.rubrics")
    criteria = read_entries(rubrics, "reward_model.rubrics", POINTS, read_tags)
    problems = [f"{name} differs from its mirror in the row" for name in _find_differences(row, rubrics)]
    if problems:
        raise InputError(problems)
    domain, source = read_text(row, "ability") or "", read_text(row, "data_source") or ""
    metadata = pick_others(row, _OF_RELEASE)
    if source != domain:
        metadata["data_source"] = source
    prompt = read_prompt(row.get("prompt"), "prompt")
    return Record(criteria, prompt, "", read_text(model, "ground_truth") or None, domain=domain, metadata=metadata)


def _write_release(record: Record) -> Row:
    """Return the row of a record, with the mirrors that trainers read.

    A criterion whose check is one of RubricHub's 53 rules is a `rule`; any other is left to the judge.
    """
    prompt = [{"content": turn["content"], "role": turn["role"]} for turn in as_turns(record.prompt)]
    criteria = zip(_build_entries(record), record.criteria, strict=True)
    rubrics = [{**entry, "tags": _build_tags(criterion)} for entry, criterion in criteria]
    model = {"ground_truth": "", "rubrics": rubrics, "style": "rubric"}
    return {
        "prompt": prompt,
        "data_source": find_source(record),
        "ability": record.domain,
        "reward_model": model,
        "extra_info": {"prompt": prompt, "reward_model": model},
        "Rubrics": _build_entries(record),
    }


def _round_release(row: Row) -> Row:
    """Return the row with whole points everywhere, as in the release."""
    rubrics = [{**entry, "points": to_whole(entry["points"])} for entry in row["reward_model"]["rubrics"]]
    model = {**row["reward_model"], "rubrics": rubrics}
    mirror = [{"criterion": entry["criterion"], "points": entry["points"]} for entry in rubrics]
    return {
        **row,
        "reward_model": model,
        "extra_info": {**row["extra_info"], "reward_model": model},
        "Rubrics": mirror,
    }


def _find_differences(row: Row, rubrics: list[Mapping[str, Any]]) -> list[str]:
    """Return the mirrors in a row that differ from what they repeat."""
    bare = [{"criterion": entry.get("criterion"), "points": entry.get("points")} for entry in rubrics]
    inner = read_object(row, "extra_info")
    mirrored = read_object(inner, "reward_model").get("rubrics")
    is_same = {
        "Rubrics": row.get("Rubrics") in (None, bare),
        "extra_info.reward_model.rubrics": mirrored in (None, rubrics),
        "extra_info.prompt": inner.get("prompt") in (None, row.get("prompt")),
    }
    return [name for name, same in is_same.items() if not same]


def _build_entries(record: Record) -> list[dict[str, Any]]:
    return [
        {"criterion": criterion.requirement, "points": as_points(criterion.weight)} for criterion in record.criteria
    ]


def _build_tags(criterion: Criterion) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(PARAMETERS)
    check = criterion.check
    given = None if check is None else _read_rule_parameters(check)
    if check is None or given is None:
        return {"function": "", "parameters": nothing, "verifier": "llm"}
    return {"function": check["name"], "parameters": {**nothing, **given}, "verifier": "rule"}


def _read_rule_parameters(check: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters in the types of the struct; None if the check is not one of the 53 rules."""
    if check["name"] not in RULES:
        return None
    try:
        values = validate_check(check["name"], check.get("parameters"))
    except MissingPackageError:
        raise
    except InputError:
        return None
    if not set(values) <= set(PARAMETERS):
        return None
    return {name: float(value) if name in _NUMBERS else value for name, value in values.items()}


_ENTRY = {"criterion": str, "points": int}
_KINDS = {name: float if name in _NUMBERS else [str] if name in _LISTS else str for name in PARAMETERS}
_OF_TAGS = {"function": str, "parameters": _KINDS, "verifier": str}
_PROMPT = [{"content": str, "role": str}]
_MODEL = {"ground_truth": str, "rubrics": [{**_ENTRY, "tags": _OF_TAGS}], "style": str}
_RELEASE = {
    "prompt": _PROMPT,
    "data_source": str,
    "ability": str,
    "reward_model": _MODEL,
    "extra_info": {"prompt": _PROMPT, "reward_model": _MODEL},
    "Rubrics": [_ENTRY],
}
RURL = Format(
    "rurl",
    "RubricHub release, RuRL",
    (".parquet", ".jsonl"),
    lambda row: {"reward_model", "Rubrics"} <= row.keys(),
    _read_release,
    _write_release,
    build_schema(_RELEASE),
    carrier=None,
    columns=_round_release,
)


_DETAILS = "rubric_judge_details"
_OF_RUFT = frozenset({"source", "query", "answer", "sample_id", "rubrics"})


def _read_ruft(row: Row) -> Record:
    """Return the record of a row: query, answer and rubric; score and details are metadata."""
    metadata = pick_others(row, _OF_RUFT)
    if _DETAILS in metadata:
        metadata[_DETAILS] = from_cell(metadata[_DETAILS])
    return Record(
        read_entries(row.get("rubrics"), "rubrics", POINTS),
        read_prompt(row.get("query"), "query"),
        read_text(row, "sample_id") or "",
        answer=read_text(row, "answer"),
        domain=read_text(row, "source") or "",
        metadata=metadata,
    )


def _write_ruft(record: Record) -> Row:
    """Return the row of a record; a conversation becomes one text."""
    score = record.metadata.get("rubric_score")
    return {
        "source": record.domain,
        "query": as_text(record.prompt),
        "answer": record.answer,
        "sample_id": record.id,
        "rubrics": _build_entries(record),
        "rubric_score": float(score) if is_finite(score) else None,
        _DETAILS: record.metadata.get(_DETAILS),
    }


def dump_details(row: Row) -> Row:
    """Return the row with its details as JSON text, so that their Parquet column always has one type.

    Example:
        >>> dump_details({"rubric_judge_details": [{"criterion": "Says why.", "verdict": "MET"}]})
        {'rubric_judge_details': '[{"criterion": "Says why.", "verdict": "MET"}]'}
    """
    details = row.get(_DETAILS)
    if details is None or isinstance(details, str):
        return row
    return {**row, _DETAILS: dump_json(details, None)}


_RUFT = {
    **dict.fromkeys(("source", "query", "answer", "sample_id"), str),
    "rubrics": [{"criterion": str, "points": float}],
    "rubric_score": float,
    _DETAILS: str,
}
RUFT = Format(
    "ruft",
    "RubricHub release, RuFT",
    (".parquet", ".jsonl"),
    lambda row: {"query", "answer", "rubrics"} <= row.keys(),
    _read_ruft,
    _write_ruft,
    build_schema(_RUFT),
    carrier=None,
    columns=dump_details,
)
