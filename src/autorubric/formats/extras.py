"""What a format has no place for: found by reading back, carried along in one key, or named as lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.rubric_shapes import criterion_record, read_criteria
from autorubric.errors import InputError
from autorubric.files.strict_json import in_short
from autorubric.formats.record import Record, read_prompt

KEY = "autorubric"
"""The key that carries it, as JSON in a text, so that a column of it has one type whatever is in it."""

_FIELDS = ("id", "prompt", "reference", "answer", "domain", "guidelines")


def left_out(record: Record, back: Record) -> dict[str, Any]:
    """What a record holds that its row does not give back, as JSON values; None for what the row adds.

    Example:
        >>> one = Criterion(weight=5, requirement="Names the dose.", tags=["axis:accuracy"])
        >>> left_out(Record((one,), "Why?", id="q1"), Record((one.model_copy(update={"tags": []}),), "Why?"))
        {'id': 'q1', 'criteria': {'0': {'tags': ['axis:accuracy']}}}
    """
    found: dict[str, Any] = {
        name: getattr(record, name) for name in _FIELDS if getattr(record, name) != getattr(back, name)
    }
    metadata = _changes(record.metadata, back.metadata)
    if metadata:
        found["metadata"] = metadata
    if len(record.criteria) != len(back.criteria):
        found["criteria"] = [criterion_record(criterion) for criterion in record.criteria]
    elif record.criteria != back.criteria:
        pairs = zip(record.criteria, back.criteria, strict=True)
        changes = [(str(index), _changed(*pair)) for index, pair in enumerate(pairs)]
        found["criteria"] = {index: change for index, change in changes if change}
    return found


def put_back(record: Record, left: Mapping[str, Any]) -> Record:
    """The record with what its row could not hold.

    Raises:
        InputError: `left` does not fit the record.

    Example:
        >>> put_back(Record((Criterion(requirement="Is brief"),)), {"id": "q1", "criteria": {"0": {"weight": 2}}})
        Record(criteria=(Criterion(weight=2.0, requirement='Is brief'),), prompt='', id='q1', ...)
    """
    unknown = sorted(set(left) - {*_FIELDS, "metadata", "criteria"})
    if unknown:
        raise InputError(f"{KEY} holds the unknown keys {', '.join(unknown)}")
    fields: dict[str, Any] = {name: left[name] for name in _FIELDS if name in left}
    if "prompt" in fields:
        fields["prompt"] = read_prompt(fields["prompt"], f"{KEY}.prompt")
    wrong = [name for name, value in fields.items() if name != "prompt" and not isinstance(value, str | None)]
    if wrong:
        raise InputError(f"{KEY}.{wrong[0]} is {fields[wrong[0]]!r:.60}; expected text")
    if "metadata" in left:
        merged = {**record.metadata, **_mapping(left["metadata"], "metadata")}
        fields["metadata"] = {key: value for key, value in merged.items() if value is not None}
    if "criteria" in left:
        fields["criteria"] = _criteria(record, left["criteria"])
    return replace(record, **fields)


def names_of(left: Mapping[str, Any]) -> Iterator[str]:
    """What is left out, by name, such as `criteria.tags`.

    Example:
        >>> sorted(names_of({"id": "q1", "criteria": {"0": {"tags": ["x"]}, "3": {"tags": ["y"]}}}))
        ['criteria.tags', 'id']
    """
    for name, value in left.items():
        if name == "metadata":
            yield from (f"metadata.{key}" for key, inner in value.items() if inner is not None)
        elif name == "criteria" and isinstance(value, Mapping):
            keys = dict.fromkeys(key for change in value.values() for key in change)
            yield from (f"criteria.{key}" for key in keys)
        else:
            yield name


def dump(left: Mapping[str, Any]) -> str:
    """The text that goes under the key; empty where nothing is left out.

    Raises:
        InputError: a value is no JSON.
    """
    try:
        return json.dumps(left, ensure_ascii=False, allow_nan=False) if left else ""
    except (TypeError, ValueError) as error:
        raise InputError(f"the row holds what JSON cannot: {error}") from None


def load(text: Any) -> dict[str, Any]:
    """What stands under the key of a row.

    Raises:
        InputError: it is no JSON object in a text.
    """
    if text is None or text == "":
        return {}
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise InputError(f"{KEY} is not valid JSON: {in_short(error)}") from None
    return dict(_mapping(value, ""))


def _changes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    keys = dict.fromkeys((*ours, *theirs))
    return {key: ours.get(key) for key in keys if ours.get(key) != theirs.get(key)}


def _changed(ours: Criterion, theirs: Criterion) -> dict[str, Any]:
    return {} if ours == theirs else _changes(criterion_record(ours), criterion_record(theirs))


def _criteria(record: Record, left: Any) -> tuple[Criterion, ...]:
    if isinstance(left, list):
        return tuple(read_criteria(left))
    entries = [criterion_record(criterion) for criterion in record.criteria]
    for index, change in _mapping(left, "criteria").items():
        if not index.isdecimal() or int(index) >= len(entries):
            raise InputError(f"{KEY}.criteria names criterion {index!r}; the row has {len(entries)}")
        merged = {**entries[int(index)], **_mapping(change, f"criteria.{index}")}
        entries[int(index)] = {key: value for key, value in merged.items() if value is not None}
    return tuple(read_criteria(entries))


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{KEY}{'.' if name else ''}{name} is {value!r:.60}; expected an object")
    return value
