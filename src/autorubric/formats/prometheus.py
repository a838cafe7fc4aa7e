"""Prometheus and its Feedback-Collection: one criterion a row, on a scale of five described scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.entries import other_fields
from autorubric.errors import InputError
from autorubric.formats.format import Format, Record, Row, read_text, table_schema
from autorubric.rows.record import as_text

_SCORES = range(1, 6)
_PREFIX = "orig_"
_LEVELS = ("Not met.", "Hardly met.", "Partly met.", "Mostly met.", "Fully met.")
_PART = "part_of_rubric"


def _read(row: Row) -> Record:
    """The record of a row: its criterion has five options, the descriptions, worth 0 to 1."""
    prefix = _prefix(row)
    described = [f"{prefix}score{score}_description" for score in _SCORES]
    requirement = read_text(row, f"{prefix}criteria")
    problems = [] if requirement and requirement.strip() else [f"{prefix}criteria is empty"]
    texts = [read_text(row, key) for key in described]
    problems += [f"{key} is missing" for key, text in zip(described, texts, strict=True) if text is None]
    if problems:
        raise InputError(problems)
    own = [f"{prefix}{name}" for name in ("instruction", "response", "reference_answer", "criteria")]
    return Record(
        (Criterion(requirement=str(requirement), options=_options([text or "" for text in texts])),),
        read_text(row, f"{prefix}instruction") or "",
        read_text(row, "id") or "",
        read_text(row, f"{prefix}reference_answer"),
        read_text(row, f"{prefix}response"),
        metadata=other_fields(row, frozenset((*own, *described, "id"))),
    )


def _write(record: Record) -> Row:
    """The row of a record with one criterion; where it has no scale of five, met and unmet are its ends."""
    criterion = record.criteria[0]
    levels = _levels(criterion.options)
    row: Row = {
        "id": record.id,
        "orig_instruction": as_text(record.prompt),
        "orig_response": record.answer,
        "orig_reference_answer": record.reference,
        "orig_criteria": criterion.requirement,
    }
    row.update((f"orig_score{score}_description", text) for score, text in zip(_SCORES, levels, strict=True))
    for key in ("orig_feedback", "orig_score"):
        value = record.metadata.get(key)
        row[key] = None if value is None else str(value)
    return row


def _parts(record: Record) -> Sequence[Record]:
    """A record for each criterion, marked with its place if there are several."""
    most = len(record.criteria)
    if most == 1:
        return (record,)
    return [
        replace(record, criteria=(criterion,), metadata={**record.metadata, _PART: [place, most]})
        for place, criterion in enumerate(record.criteria, 1)
    ]


def _joined(record: Record, part: Record) -> Record | None:
    """The record with the criterion of the next part, or None if that is not the next part of it."""
    here, there = record.metadata.get(_PART), part.metadata.get(_PART)
    if (
        not here
        or not there
        or there != [here[0] + 1, here[1]]
        or (record.prompt, record.id) != (part.prompt, part.id)
    ):
        return None
    metadata = {**record.metadata, _PART: there}
    if there[0] == there[1]:
        del metadata[_PART]
    return replace(record, criteria=(*record.criteria, *part.criteria), metadata=metadata)


def _prefix(row: Row) -> str:
    return _PREFIX if f"{_PREFIX}criteria" in row else ""


def _options(texts: list[str]) -> list[CriterionOption]:
    """Options with the descriptions as labels, numbered where two read alike or one is blank."""
    folded = {text.strip().casefold() for text in texts}
    clear = len(folded) == len(texts) and "" not in folded
    labels = texts if clear else [f"{score}. {text}".strip() for score, text in zip(_SCORES, texts, strict=True)]
    return [CriterionOption(label=label, value=index / 4) for index, label in enumerate(labels)]


def _levels(options: list[CriterionOption] | None) -> Sequence[str]:
    if options is not None and [option.value for option in options] == [index / 4 for index in range(5)]:
        return [option.label for option in options]
    return _LEVELS


_COLUMNS = (
    *("id", "orig_instruction", "orig_response", "orig_reference_answer", "orig_criteria"),
    *(f"orig_score{score}_description" for score in _SCORES),
    *("orig_feedback", "orig_score"),
)
PROMETHEUS = Format(
    "prometheus",
    "Prometheus and Feedback-Collection",
    (".jsonl", ".parquet", ".json"),
    lambda row: {f"{_prefix(row)}criteria", f"{_prefix(row)}score1_description"} <= row.keys(),
    _read,
    _write,
    table_schema(dict.fromkeys(_COLUMNS, str)),
    parts=_parts,
    joined=_joined,
)
