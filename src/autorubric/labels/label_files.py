"""Labels in files of other tools: rows, datasets, and exports of Argilla and Label Studio.

Argilla (`records.to_json`, the flat `records.to_list(flatten=True)` and `to_datasets()`, and rows of the Hugging Face
hub) and Label Studio (JSON export) are recognized by their keys. A question of either is a criterion, by name, unless
the record names the criterion itself (`criterion` in Argilla's metadata, in Label Studio's data). The item is named
by `id` or `item` there, in Argilla also by the record's id, or else found by its submission.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from autorubric.core.criterion import name_criteria
from autorubric.dataset import RubricDataset
from autorubric.dataset.label_rows import (
    GivenLabel,
    LabelRows,
    collect_rubrics,
    find_submission_texts,
    has_items,
    is_question,
    read_label,
)
from autorubric.errors import InputError
from autorubric.metrics.joining import relabel
from autorubric.rows import Record, name_input, read_rows

_MORE = ("note", "quote", "seconds")
_ITEM_KEYS = ("id", "item", "item_id")
_NOTES = frozenset({"note", "notes", "comment", "comments", "reason"})
_QUOTES = frozenset({"quote", "quotes", "evidence"})
_LABELS = ("choices", "rating", "number")


_DATASET, _ARGILLA, _STUDIO = "a dataset", "an export of Argilla", "an export of Label Studio"


def _detect_kind(keys: Collection[str]) -> str:
    """Return the kind of a file, by the keys of its first record; empty for a table."""
    if has_items(keys):
        return _DATASET
    if {"fields", "responses"} <= {*keys} or any(is_question(keys, key) for key in keys):
        return _ARGILLA
    return _STUDIO if {"data", "annotations"} <= {*keys} else ""


@dataclass(slots=True)
class LabelFile:
    """A file of labels.

    Attributes:
        path: the file.
        columns: the columns named by the user, by role.
        notes: collects a sentence for each column that was guessed, and on what was left out.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def read_given(self, dataset: RubricDataset, problems: list[str]) -> Iterator[GivenLabel]:
        """Yield the labels of the file; add a problem for each invalid row.

        Args:
            dataset: the graded dataset.
            problems: collects a sentence for each row that cannot be read.

        Raises:
            InputError: the file as a whole cannot be read.
        """
        rows = read_rows(self.path, problems, what="Label file")
        first = next(rows, None)
        if first is None:
            return
        kind = _detect_kind(first.fields.keys())
        if kind and self.columns:
            raise InputError(f"{name_input(self.path)}: --column is for tables, and this is {kind}; leave it out")
        if kind == _DATASET:
            yield from self._read_dataset(dataset)
        elif kind:
            read = _read_argilla if kind == _ARGILLA else _read_label_studio
            yield from self._read_each(read, kind, _Questions.from_dataset(dataset), chain([first], rows), problems)
        else:
            table = LabelRows(self.path, dataset, self.columns, self.notes, problems, self.notes, _MORE)
            yield from table.read_labels(chain([first], rows))

    def _read_each(
        self, read: _Reader, kind: str, aside: _Questions, rows: Iterator[Record], problems: list[str]
    ) -> Iterator[GivenLabel]:
        tool = kind.removeprefix("an export of ")
        for record in rows:
            try:
                yield from read(record, aside)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                problems.append(f"{record.where}: this record is not as {tool} writes it: {message}")
        self.notes += (f"{name_input(self.path)}: {what}" for what in aside.left_out)

    def _read_dataset(self, graded: RubricDataset) -> Iterator[GivenLabel]:
        from autorubric.labels.event import name_item

        made, notes = relabel(graded, RubricDataset.from_file(self.path))
        self.notes += notes
        for index, item in enumerate(made.items):
            if item.ground_truth is None:
                continue
            names = name_criteria(made.get_item_rubric(index).rubric)
            for name, verdict in zip(names, item.ground_truth, strict=True):
                word = getattr(verdict, "value", verdict)
                yield GivenLabel(f"{self.path}: item {index}", name_item(item, index), name, str(word))


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions of another tool that have notes and quotes, and sentences on what is left out."""

    notes: frozenset[str]
    quotes: frozenset[str]
    left_out: dict[str, None]

    @classmethod
    def from_dataset(cls, dataset: RubricDataset) -> _Questions:
        """Return the side questions for a dataset; a question named like a criterion has labels instead."""
        names = {name.lower() for criteria in collect_rubrics(dataset) for name in name_criteria(criteria)}
        return cls(_NOTES - names, _QUOTES - names, {})


_Reader = Callable[[Record, _Questions], Iterator[GivenLabel]]


def _read_argilla(record: Record, aside: _Questions) -> Iterator[GivenLabel]:
    fields = record.fields
    metadata = fields.get("metadata")
    named = {**metadata} if isinstance(metadata, Mapping) else {}
    item = _find_first((named, _ITEM_KEYS), (fields, ("external_id", "item", "id")))
    texts = find_submission_texts(fields["fields"] if isinstance(fields.get("fields"), Mapping) else fields)
    for user, answers in _collect_argilla_answers(fields, aside.left_out).items():
        note = " ".join(str(value) for name, value in answers.items() if name.lower() in aside.notes)
        for name, value in answers.items():
            if name.lower() in aside.notes:
                continue
            word = value[0] if isinstance(value, list) and len(value) == 1 else value
            if isinstance(word, bool | list | dict) or word is None:
                raise ValueError(f"{name}: expected one label, got {word!r}")
            criterion = str(named.get("criterion") or name)
            yield GivenLabel(record.where, _read_id(item, texts), criterion, str(word), user, note, texts=texts)


def _collect_argilla_answers(fields: Mapping[str, Any], left_out: dict[str, None]) -> dict[str, dict[str, Any]]:
    """Return the submitted answers of each user, by question."""
    found: dict[str, dict[str, Any]] = {}
    for name, user, status, value in _list_answers(fields):
        if status in ("submitted", None):
            found.setdefault(str(user or ""), {})[name] = value
        if status is None:
            left_out.setdefault(
                "its answers have no status, so drafts and discarded ones count too; "
                "`dataset.records.to_list(flatten=True)` exports it"
            )
    return found


def _list_answers(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield question, user, status and value of each answer, in the format of any version of Argilla."""
    responses = fields.get("responses") or {}
    if isinstance(responses, list):  # Argilla 1
        for response in responses:
            for name, answer in (response.get("values") or {}).items():
                yield name, response.get("user_id"), response.get("status", "submitted"), answer["value"]
        return
    flat = {key: fields[key] or () for key in fields if is_question(fields, key)}
    for name, answers in (responses or flat).items():
        if f"{name}.users" in fields:
            users, states = (fields.get(f"{name}.{what}") or () for what in ("users", "status"))
            own = name.removesuffix(".responses")
            yield from ((own, who, status, value) for value, who, status in zip_longest(answers, users, states))
        else:
            yield from (
                (name, answer.get("user_id"), answer.get("status"), answer["value"]) for answer in answers or ()
            )


def _read_label_studio(record: Record, aside: _Questions) -> Iterator[GivenLabel]:
    data = record.fields["data"]
    item, texts = _find_first((data, _ITEM_KEYS)), find_submission_texts(data)
    for annotation in record.fields["annotations"] or ():
        if annotation.get("was_cancelled") or _is_rejected(annotation, aside.left_out):
            continue
        note, quote = "", ""
        chosen: list[tuple[str, str]] = []
        for result in annotation["result"]:
            name, value = str(result["from_name"]), result["value"]
            kind = next((name for name in _LABELS if name in value), None)
            if name.lower() in aside.notes:
                note = value["text"] if isinstance(value.get("text"), str) else " ".join(value.get("text") or ())
            elif name.lower() in aside.quotes:
                quote = str(value.get("text") or "")
            elif kind is not None:
                chosen.append((name, _read_choice(name, value[kind])))
            else:
                aside.left_out.setdefault(f"{name!r} is left out: only choices, ratings and numbers are labels")
        for name, word in chosen:
            who, seconds = _read_annotator(annotation.get("completed_by")), annotation.get("lead_time")
            criterion = str(data.get("criterion") or name)
            yield GivenLabel(record.where, _read_id(item, texts), criterion, word, who, note, quote, seconds, texts)


def _is_rejected(annotation: Mapping[str, Any], left_out: dict[str, None]) -> bool:
    """Return whether the last action on an annotation was a reviewer's rejection (Label Studio Enterprise)."""
    reviews = sorted(annotation.get("reviews") or (), key=lambda review: str(review.get("created_at") or ""))
    last = annotation.get("last_action")
    is_rejected = last == "rejected" or (not last and bool(reviews) and reviews[-1].get("accepted") is False)
    if is_rejected:
        left_out.setdefault("annotations that a reviewer rejected are left out")
    return is_rejected


def _read_choice(name: str, value: Any) -> str:
    if isinstance(value, list) and len(value) != 1:
        raise ValueError(f"{name}: expected one choice, got {len(value)}")
    return read_label(value)


def _read_annotator(who: Any) -> str:
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("username") or who.get("id")
    return "" if who is None else str(who)


def _find_first(*places: tuple[Mapping[str, Any], Sequence[str]]) -> Any:
    return next((values[name] for values, names in places for name in names if values.get(name) is not None), None)


def _read_id(value: Any, texts: Sequence[str]) -> str:
    if isinstance(value, bool | list | dict) or (value is None and not texts):
        raise ValueError(f"not an item id: {value!r}")
    return "" if value is None else str(value)
