"""Rubric files of verifiers: named criteria with choices from worst to best, in TOML or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import Names, number, other_fields, read_entries
from autorubric.errors import InputError
from autorubric.formats.format import Format, Record, Row, only_row

_ENTRY = Names(("text",), ("weight",), ("name",), default=1.0)
_DEMAND = ["UNMET", "MET"]
_PITFALL = ["MET", "UNMET"]


def _matches(row: Row) -> bool:
    """Whether a document is a rubric of verifiers: its criteria have a `text`."""
    entries = row.get("criteria")
    return isinstance(entries, list) and bool(entries) and isinstance(entries[0], dict) and "text" in entries[0]


def _read(row: Row) -> Record:
    """The record of a document: choices are options from 0 to 1, evenly apart.

    The choices UNMET and MET stand for a criterion that is met or not; MET as the worst marks a pitfall, whose
    weight becomes negative.
    """
    criteria = read_entries(row.get("criteria"), "criteria", _ENTRY, _with_choices)
    pairs = zip(row["criteria"], criteria, strict=True)
    ours = tuple(_as_ours(position, entry, criterion) for position, (entry, criterion) in enumerate(pairs, 1))
    return Record(ours, metadata=other_fields(row, ("criteria",)))


def _write(record: Record) -> Row:
    """The document of a record: weights are positive, and the order of the choices gives the direction."""
    return {"criteria": [_entry(number, criterion) for number, criterion in enumerate(record.criteria, 1)]}


def _with_choices(rest: Mapping[str, Any]) -> dict[str, Any]:
    choices = rest.get("choices")
    metadata = other_fields(rest, ("choices",))
    if choices in (None, _DEMAND, _PITFALL):
        return {"metadata": metadata}
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(one, str) for one in choices):
        raise InputError(f"choices are {choices!r:.60}; expected at least two strings, worst to best")
    values = [index / (len(choices) - 1) for index in range(len(choices))]
    options = [{"label": label, "value": value} for label, value in zip(choices, values, strict=True)]
    return {"metadata": metadata, "options": options}


def _as_ours(position: int, entry: Mapping[str, Any], criterion: Criterion) -> Criterion:
    """The criterion under our conventions: no made-up name, and a pitfall by its sign."""
    if criterion.weight < 0:
        raise InputError(f"criteria[{position - 1}].weight is {criterion.weight:g}; verifiers needs at least 0")
    name = None if criterion.name == f"c{position}" else criterion.name
    sign = -1 if entry.get("choices") == _PITFALL else 1
    return criterion.model_copy(update={"name": name, "weight": sign * criterion.weight})


def _entry(position: int, criterion: Criterion) -> dict[str, Any]:
    entry = {"name": criterion.name or f"c{position}", "text": criterion.requirement}
    pitfall = criterion.weight < 0
    if criterion.options is None:
        choices = _PITFALL if pitfall else _DEMAND
    else:
        scored = sorted((option for option in criterion.options if not option.na), key=lambda option: option.value)
        choices = [option.label for option in (reversed(scored) if pitfall else scored)]
    return {**entry, "weight": number(abs(criterion.weight)), "choices": choices}


VERIFIERS = Format(
    "verifiers",
    "rubric files of verifiers",
    (".toml", ".json", ".jsonl"),
    _matches,
    _read,
    _write,
    carrier=None,
    document=only_row,
)
