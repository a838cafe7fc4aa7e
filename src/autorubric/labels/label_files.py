"""Labels in files of others: rows, datasets, and what Argilla and Label Studio export.

Argilla (`dataset.records.to_json`) and Label Studio (JSON export) are recognized by their keys. A question of either
is a criterion, by name, unless the record names the criterion itself (`criterion` in Argilla's metadata, in Label
Studio's data). The item is the record's `id` or `item` in these, else the id of the record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autorubric.dataset import RubricDataset
from autorubric.dataset.ground_truth import read_label_rows
from autorubric.metrics.joining import relabelled
from autorubric.rows import Record, read_rows

_MORE = ("note", "quote", "seconds")
_CELLS = ("id", "criterion", "label", "annotator", *_MORE)
_ITEM_KEYS = ("id", "item", "item_id")
_NOTES = frozenset({"note", "notes", "comment", "comments", "reason"})
_QUOTES = frozenset({"quote", "quotes", "evidence"})


@dataclass(frozen=True, slots=True)
class Given:
    """A label as a file has it.

    Attributes:
        where: its place, for messages.
        item: the item's id, or `#` and its place.
        criterion: the criterion's name.
        verdict: the word for the verdict.
        annotator: who; empty if the file does not say.
        note: free text.
        quote: a part of the submission.
        seconds: time spent.
    """

    where: str
    item: str
    criterion: str
    verdict: str
    annotator: str = ""
    note: str = ""
    quote: str = ""
    seconds: Any = None


@dataclass(slots=True)
class LabelFile:
    """A file of labels.

    Attributes:
        path: the file.
        columns: columns that the user named, by role.
        notes: takes a sentence for each column that was guessed, and on what was left out.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def labels(self, dataset: RubricDataset, problems: list[str]) -> Iterator[Given]:
        """The labels of the file; what is wrong with a row joins the problems.

        Args:
            dataset: what was graded.
            problems: takes a sentence for each row that cannot be read.

        Raises:
            InputError: the file as a whole cannot be read.
        """
        rows = read_rows(self.path, problems, what="Label file")
        first = next(rows, None)
        if first is None:
            return
        if "items" in first.fields:
            yield from self._of_dataset(dataset)
        elif first.fields.keys() >= {"fields", "responses"}:
            yield from self._each(_of_argilla, first, rows, problems)
        elif first.fields.keys() >= {"data", "annotations"}:
            yield from self._each(_of_label_studio, first, rows, problems)
        else:
            yield from self._of_table(first, rows)

    def _each(self, read: Any, first: Record, rows: Iterator[Record], problems: list[str]) -> Iterator[Given]:
        for record in (first, *rows):
            try:
                yield from read(record)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                problems.append(f"{record.where}: this record is not as {read.__doc__} writes it: {said}")

    def _of_table(self, first: Record, rows: Iterator[Record]) -> Iterator[Given]:
        every = itertools.chain([first], rows)
        for record in read_label_rows(self.path, every, self.columns, self.notes, _MORE):
            cells = {role: str(record.fields.get(role, "")).strip() for role in _CELLS}
            if cells["label"]:
                seconds = cells.pop("seconds") or None
                item, verdict = cells.pop("id"), cells.pop("label")
                yield Given(record.where, item, verdict=verdict, seconds=seconds, **cells)

    def _of_dataset(self, graded: RubricDataset) -> Iterator[Given]:
        from autorubric.core.criterion import criterion_names
        from autorubric.labels.event import item_name

        made, notes = relabelled(graded, RubricDataset.from_file(self.path))
        self.notes += notes
        for index, item in enumerate(made.items):
            if item.ground_truth is None:
                continue
            names = criterion_names(made.get_item_rubric(index).rubric)
            for name, verdict in zip(names, item.ground_truth, strict=True):
                word = getattr(verdict, "value", verdict)
                yield Given(f"{self.path}: item {index}", item_name(item, index), name, str(word))


def _of_argilla(record: Record) -> Iterator[Given]:
    """Argilla"""  # noqa: D415 (a name, for messages)
    fields = record.fields
    named = {**(fields.get("metadata") or {})}
    item = _first(named, _ITEM_KEYS) or fields.get("id") or fields.get("external_id")
    for user, answers in _argilla_answers(fields["responses"] or {}):
        note = " ".join(str(value) for name, value in answers.items() if name.lower() in _NOTES)
        for name, value in answers.items():
            if name.lower() in _NOTES:
                continue
            word = value[0] if isinstance(value, list) and len(value) == 1 else value
            if isinstance(word, bool | list | dict) or word is None:
                raise ValueError(f"{name}: expected one label, got {word!r}")
            yield Given(record.where, _id(item), str(named.get("criterion") or name), str(word), user, note)


def _argilla_answers(responses: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The submitted answers of each user, by question."""
    if isinstance(responses, list):  # Argilla 1
        for one in responses:
            if one.get("status", "submitted") == "submitted":
                yield str(one.get("user_id") or ""), {name: said["value"] for name, said in one["values"].items()}
        return
    by_user: dict[str, dict[str, Any]] = {}
    for name, answers in responses.items():
        for one in answers or ():
            if one.get("status", "submitted") in ("submitted", None):
                by_user.setdefault(str(one.get("user_id") or ""), {})[name] = one["value"]
    yield from by_user.items()


def _of_label_studio(record: Record) -> Iterator[Given]:
    """Label Studio"""  # noqa: D415 (a name, for messages)
    data = record.fields["data"]
    item = _first(data, _ITEM_KEYS)
    item = record.fields.get("id") if item is None else item
    for annotation in record.fields["annotations"] or ():
        if annotation.get("was_cancelled"):
            continue
        note, quote = "", ""
        chosen: list[tuple[str, str]] = []
        for result in annotation["result"]:
            name, value = str(result["from_name"]), result["value"]
            if name.lower() in _NOTES:
                note = value["text"] if isinstance(value.get("text"), str) else " ".join(value.get("text") or ())
            elif name.lower() in _QUOTES:
                quote = str(value.get("text") or "")
            elif "choices" in value:
                chosen.append((name, _only_choice(name, value["choices"])))
        for name, word in chosen:
            who, seconds = _annotator(annotation.get("completed_by")), annotation.get("lead_time")
            criterion = str(data.get("criterion") or name)
            yield Given(record.where, _id(item), criterion, word, who, note, quote, seconds)


def _only_choice(name: str, words: Sequence[Any]) -> str:
    if len(words) != 1:
        raise ValueError(f"{name}: expected one choice, got {len(words)}")
    return str(words[0])


def _annotator(who: Any) -> str:
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("username") or who.get("id")
    return "" if who is None else str(who)


def _first(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _id(value: Any) -> str:
    if value is None or isinstance(value, bool | list | dict):
        raise ValueError(f"not an item id: {value!r}")
    return str(value)
