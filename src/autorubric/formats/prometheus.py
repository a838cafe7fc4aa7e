"""Prometheus and its Feedback-Collection: one criterion a row, on a scale of five described scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autorubric.core.criterion import CriterionOption
from autorubric.core.described_scores import SCORES, has_described_scores, scored_criterion
from autorubric.core.entries import other_fields
from autorubric.formats.format import Format, Record, Row, read_text, table_schema
from autorubric.rows.record import as_text

_PREFIX = "orig_"
_LEVELS = ("Not met.", "Hardly met.", "Partly met.", "Mostly met.", "Fully met.")
_PART = "part_of_rubric"


def _read(row: Row) -> Record:
    """The record of a row: its criterion has five options, the descriptions, worth 0 to 1."""
    prefix = _prefix(row)
    criterion = scored_criterion(row, prefix)
    described = [f"{prefix}score{score}_description" for score in SCORES]
    own = [f"{prefix}{name}" for name in ("instruction", "response", "reference_answer", "criteria")]
    return Record(
        (criterion,),
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
    row.update((f"orig_score{score}_description", text) for score, text in zip(SCORES, levels, strict=True))
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


def _levels(options: list[CriterionOption] | None) -> Sequence[str]:
    if options is not None and [option.value for option in options] == [index / 4 for index in range(5)]:
        return [option.label for option in options]
    return _LEVELS


_COLUMNS = (
    *("id", "orig_instruction", "orig_response", "orig_reference_answer", "orig_criteria"),
    *(f"orig_score{score}_description" for score in SCORES),
    *("orig_feedback", "orig_score"),
)
PROMETHEUS = Format(
    "prometheus",
    "Prometheus and Feedback-Collection",
    (".jsonl", ".parquet", ".json"),
    lambda row: has_described_scores(row, _prefix(row)),
    _read,
    _write,
    table_schema(dict.fromkeys(_COLUMNS, str)),
    parts=_parts,
    joined=_joined,
)
