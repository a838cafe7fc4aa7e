"""Labels in tables, one per row or a column for each criterion, and the items that they label."""

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.ground_truth import NEAR, find_criterion, find_near_columns, match_label
from autorubric.errors import InputError
from autorubric.files.printable import escape_formula, unescape_formula
from autorubric.rows import Record, RowReader, join_names, name_input, read_rows
from autorubric.rows.columns import ROLES, fold_name
from autorubric.rows.record import FLOAT_ID, MERGED, from_cell, is_blank

LABEL_ROLES = ("criterion", "label", "annotator")
_STUDIO = "annotation_id"  # Label Studio writes it, and with it the number of the task as the id
_TEXTS = frozenset((*ROLES["submission"].names, "data"))
_EXPORTS = ({"fields", "responses"}, {"data", "annotations"})
_HEAD = 100
_TRUTH = "ground_truth"
_FLAT, _HUB = ".responses", "-suggestion"


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """A label in a file.

    Attributes:
        where: its place, for messages.
        item: the item's id, or `#` and its index; empty if the file has only the submission.
        criterion: the criterion's name or text; empty if the rubric has only one.
        verdict: the word for the verdict.
        annotator: who gave the label; empty if unknown.
        note: free text.
        quote: a part of the submission.
        seconds: time spent.
        texts: the texts in the columns of the submission.
        is_own_id: whether the id is the user's, not one of the tool that wrote the file.
    """

    where: str
    item: str
    criterion: str
    verdict: str
    annotator: str = ""
    note: str = ""
    quote: str = ""
    seconds: Any = None
    texts: tuple[str, ...] = ()
    is_own_id: bool = True


class _SeveralLabelsError(ValueError):
    """A cell has several labels."""


class _Layout(NamedTuple):
    criteria: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass
class LabelRows:
    """Reads a table of labels.

    Attributes:
        path: the file, for messages.
        dataset: the graded dataset.
        columns: the columns named by the user, by role.
        notes: collects a sentence for each column that was guessed, and on rows without a label.
        problems: collects a sentence for each label that cannot be read.
        hints: collects a sentence for each column with nearly the name of a criterion.
        more: further roles to find: note, quote, seconds.
    """

    path: Path
    dataset: RubricDataset
    columns: Mapping[str, str]
    notes: list[str]
    problems: list[str]
    hints: list[str]
    more: Sequence[str] = ()
    _is_wide: bool = False
    _layouts: dict[tuple[str, ...], _Layout] = field(default_factory=dict)

    def read_labels(self, rows: Iterable[Record]) -> Iterator[GivenLabel]:
        """Yield the labels; blank cells are skipped.

        Raises:
            InputError: the file has no column for the id, the criterion or the label.
        """
        rows = iter(rows)
        head = list(itertools.islice(rows, _HEAD))
        if not head:
            return
        first = head[0]
        if any(first.fields.keys() >= keys for keys in _EXPORTS) or any(
            is_question(first.fields, k) for k in first.fields
        ):
            raise InputError(
                f"{name_input(self.path)}: this looks like an export of Argilla or Label Studio; add it to the label "
                "store of the run with `autorubric labels RUN --import FILE` (Python: import_labels)"
            )
        given, names = dict(self.columns), {fold_name(name): name for name in first.fields}
        if "item" in names and not names.keys() & {*ROLES["id"].names}:
            given.setdefault("id", names["item"])
        reader = RowReader(name_input(self.path), ("id", *LABEL_ROLES, *self.more), given=given, notes=self.notes)
        wholes: deque[Record] = deque()
        self._is_wide = any(self._find_layout(record.fields).criteria for record in head)
        blank = 0
        for read in reader.read_all(self._strip_labels(itertools.chain(head, rows), wholes)):
            try:
                found = list(self._read_row(read, wholes.popleft().fields))
            except _SeveralLabelsError as error:
                self.problems.append(f"{read.where}: {error}")
                continue
            blank += not found
            yield from found
        if blank:
            self._note(f"{blank} row{'s have' if blank > 1 else ' has'} no label")

    def _strip_labels(self, rows: Iterable[Record], wholes: deque[Record]) -> Iterator[Record]:
        """Yield the rows without the columns of the criteria; `wholes` takes the complete rows."""
        for row in rows:
            columns = self._find_layout(row.fields).criteria
            wholes.append(row)
            own = {name: cell for name, cell in row.fields.items() if name not in columns} if columns else row.fields
            yield row._replace(fields=own)

    def _read_row(self, read: Record, fields: Mapping[str, Any]) -> Iterator[GivenLabel]:
        label = read.columns.get("label", _TRUTH if _TRUTH in fields else None)
        if (self._is_wide and not self._find_layout(fields).criteria) or _is_passed_over(fields, label):
            return
        cells = {role: _format_cell(fields[name]) for role, name in read.columns.items() if role != "label"}
        texts = tuple(text for name in self._find_layout(fields).texts if (text := _format_cell(fields[name])))
        verdicts = self._read_verdicts(fields, label, cells.pop("criterion", None))
        if verdicts is None or ("id" not in cells and not self._find_layout(fields).texts):
            raise InputError(self._describe_missing(read, label, is_read=verdicts is not None))
        if not is_blank(fields.get("probability")):
            self._note("the probabilities of drawn pairs are not read; `labels --export` keeps them in .jsonl")
        for name in fields.keys() - self._find_layout(fields).criteria:
            if "weight" in fold_name(name) and not is_blank(fields[name]):
                self._note(f"{name!r} is not read: each label counts once, and weights are those of the rubric")
        item, seconds = cells.pop("id", ""), cells.pop("seconds", "") or None
        for name, value in verdicts.items():
            word = read_label(value)
            if word:
                own = _STUDIO not in fields
                yield GivenLabel(read.where, item, name, word, **cells, seconds=seconds, texts=texts, is_own_id=own)

    def _read_verdicts(
        self, fields: Mapping[str, Any], label: str | None, criterion: str | None
    ) -> dict[str, Any] | None:
        """Return the labels of a row by criterion, from a column for each or one for all; None if there is none."""
        columns = self._find_layout(fields).criteria
        if columns or label is None:
            return {name: fields[name] for name in columns} or None
        if criterion is not None:
            return {criterion: fields[label]}
        cell, only = from_cell(fields[label]), self._has_one_criterion
        if isinstance(cell, Mapping) and not (only and len(cell) == 1):
            return dict(cell)
        if isinstance(cell, list) and len(self._rubrics) == 1 and len(cell) == len(self._rubrics[0]):
            return dict(zip(name_criteria(self._rubrics[0]), cell, strict=True))
        return {"": cell} if only else {} if is_blank(cell) else None

    def _describe_missing(self, read: Record, label: str | None, *, is_read: bool) -> str:
        there = {
            "id": "id" in read.columns or self._find_layout(read.fields).texts,
            "criterion": "criterion" in read.columns or is_read,
            "label": label is not None or is_read,
        }
        missing = [role for role, is_there in there.items() if not is_there]
        flags = " ".join(f"--column {role}=NAME" for role in missing)
        in_python = ", ".join(f"{role!r}: NAME" for role in missing)
        advice = f"name {'it' if len(missing) == 1 else 'them'} with {flags} (in Python: column={{{in_python}}})"
        otherwise = "" if missing == ["id"] else ", or name columns like the criteria"
        hints = "".join(f"; {hint}" for hint in self._find_hints(read.fields))
        there_are = f"no column for {', '.join(missing)}; the columns are {join_names(read.fields)}"
        return f"{name_input(self.path)}: {there_are}; {advice}{otherwise}{hints}"

    def _find_hints(self, names: Iterable[str]) -> Iterator[str]:
        """Sentences on columns with nearly the name of a criterion of the only rubric."""
        if len(self._rubrics) == 1:
            unnamed = [name for name in names if name not in self.columns.values()]
            yield from (NEAR.format(*pair) for pair in find_near_columns(unnamed, self._rubrics[0]).items())

    def _find_layout(self, fields: Mapping[str, Any]) -> _Layout:
        """Return the columns named like criteria (none if a column names the criterion), and those of submissions."""
        names = tuple(fields)
        if names not in self._layouts:
            own = {fold_name(name) for criteria in self._rubrics for name in _list_criterion_names(criteria)}
            found = tuple(name for name in names if fold_name(name) in own)
            others = {fold_name(name) for name in names if name not in found}
            if self.columns.keys() & {"criterion", "label"} or others & {*ROLES["criterion"].names}:
                found = ()
            if found:
                self._note(f"labels are read from {join_names(found)}, named like the criteria")
                fresh = (f"{name_input(self.path)}: {hint}" for hint in self._find_hints(names))
                self.hints += (hint for hint in fresh if hint not in self.hints)
            texts = tuple(name for name in names if fold_name(name) in _TEXTS and name not in found)
            self._layouts[names] = _Layout(found, texts)
        return self._layouts[names]

    @cached_property
    def _rubrics(self) -> list[Sequence[Criterion]]:
        return collect_rubrics(self.dataset)

    @cached_property
    def _has_one_criterion(self) -> bool:
        return all(len(criteria) == 1 for criteria in self._rubrics)

    def _note(self, problem: str) -> None:
        note = f"{name_input(self.path)}: {problem}"
        self.notes += [note] * (note not in self.notes)


class ItemFinder:
    """Finds the item and the criterion of a label.

    Attributes:
        notes: collects a sentence if items are found only by their submission, and on words read as verdicts.
    """

    def __init__(self, dataset: RubricDataset, notes: list[str]) -> None:
        self._dataset, self.notes = dataset, notes
        own = {item.id if item.id is not None else f"#{at}": at for at, item in enumerate(dataset.items)}
        self._places = {normalize("NFC", name): at for name, at in own.items()} | own
        self._by_text: dict[str, list[int]] | None = None
        self._columns: dict[str, set[str]] | None = None
        self._called: dict[tuple[int, str], int] = {}

    def find(self, given: GivenLabel) -> tuple[int, int]:
        """Return the indices of the item and of the criterion.

        Raises:
            InputError: there is no such item or criterion, or the id and the submission belong to different items.
        """
        place = self.find_item(given)
        rubric = self._dataset.get_item_rubric(place)
        if not given.criterion and len(rubric) == 1:
            return place, 0
        key = id(rubric), given.criterion
        if key not in self._called:
            marked = {escape_formula(name): at for at, name in enumerate(name_criteria(rubric.rubric))}
            at = marked.get(given.criterion)
            self._called[key] = find_criterion(given.criterion, rubric) if at is None else at
        return place, self._called[key]

    def find_item(self, given: GivenLabel) -> int:
        """Return the index of the item, by its id or else its submission.

        Raises:
            InputError: there is no such item, or the id and the submission belong to different items.
        """
        spellings = given.item, unescape_formula(given.item), normalize("NFC", given.item)
        own = next((key for key in spellings if key in self._places), None)
        place, alike = self._places.get(own or ""), self._find_by_text(given.texts)
        if place is not None and (place in alike or not alike):
            return place
        if place is not None and given.is_own_id:
            other = self._name_item(alike[0])
            raise InputError(f"the id is that of item {own!r}, but the submission is that of {other!r}")
        if len(alike) == 1:
            self._note("items are found by their submission, since the file does not have their ids")
            return alike[0]
        if given.item and not alike and all(item.id is None for item in self._dataset.items):
            raise InputError(
                "the items of the dataset have no ids; add ids to it, or grade its table again with --column id=NAME "
                "(saved replies are not paid for twice)"
            )
        hint = FLOAT_ID if given.item.endswith(".0") else self._suggest_id(given.item)
        problem = f"no item has the id {given.item!r}{hint}"
        named = problem if given.item else f"the label does not name its item{MERGED}"
        raise InputError(f"{named}, and {len(alike)} items have its submission" if alike else named)

    def read_verdict(self, criterion: Criterion, word: str) -> str:
        """Return the verdict that a word of a file stands for, or else the word."""
        meant = match_label(criterion, word, self.notes)
        return word if meant is None else meant

    def _find_by_text(self, texts: Sequence[str]) -> list[int]:
        """Return the indices of the items that have one of these submissions."""
        if texts and self._by_text is None:
            self._by_text = {}
            for place, item in enumerate(self._dataset.items):
                self._by_text.setdefault(" ".join(str(item.submission).split()), []).append(place)
        return [place for text in texts for place in (self._by_text or {}).get(" ".join(text.split()), ())]

    def _suggest_id(self, wanted: str) -> str:
        """Return the column that has an id that no item has, else the id of the first item."""
        if self._columns is None:
            items = self._dataset.items
            values = {key: {str(item.metadata.get(key)) for item in items} for key in items[0].metadata}
            self._columns = {key: found for key, found in values.items() if len(found) == len(items)}
        column = next((key for key, found in self._columns.items() if wanted in found), None)
        if column is None:
            return f"; the first item is {self._name_item(0)!r}"
        return f", but {column!r} has it; grade with --column id={column} (saved replies are not paid for twice)"

    def _name_item(self, place: int) -> str:
        own = self._dataset.items[place].id
        return f"#{place}" if own is None else own

    def _note(self, note: str) -> None:
        self.notes += [note] * (note not in self.notes)


def collect_rubrics(dataset: RubricDataset) -> list[Sequence[Criterion]]:
    """Return the distinct rubrics of the items."""
    rubrics = (dataset.get_item_rubric(place) for place in range(len(dataset)))
    return [rubric.rubric for rubric in {id(rubric): rubric for rubric in rubrics}.values()]


def find_submission_texts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a row in columns that usually have the submission.

    Example:
        >>> find_submission_texts({"text": "So.", "id": "a"})
        ('So.',)
    """
    return tuple(text for name, text in fields.items() if isinstance(text, str) and fold_name(name) in _TEXTS)


def read_label(value: Any) -> str:
    """Return the label in a cell, also in a list or mapping with a single value; empty if there is none.

    Raises:
        ValueError: the cell has several labels.

    Example:
        >>> read_label([{"rating": 3}]), read_label(["MET"]), read_label(True), read_label(None)
        ('3', 'MET', 'True', '')
    """
    value = from_cell(value)
    while isinstance(value, list | Mapping) and len(value) == 1:
        value = next(iter(value.values() if isinstance(value, Mapping) else value))
    if isinstance(value, list | Mapping) and value:
        raise _SeveralLabelsError(f"expected one label, got {value!r}")
    return unescape_formula(_format_cell(value))


def is_label_table(path: Path) -> bool:
    """Return whether a file has labels, rather than pairs that `--label-next` drew.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = path.write_text("id,criterion,label")
        >>> is_label_table(path)
        False
    """
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return first is not None and not {"draw", "probability"} <= {fold_name(name) for name in first.fields}


def is_dataset(path: Path) -> bool:
    """Return whether a file is a dataset rather than a table."""
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return first is not None and has_items(first.fields.keys())


def has_items(keys: Collection[str]) -> bool:
    """Return whether the first record of a file is that of a dataset."""
    return "items" in keys or set(keys) == {"dataset"}


def is_question(keys: Collection[str], key: str) -> bool:
    """Return whether a column of flat records has the answers to a question in Argilla.

    Example:
        >>> is_question({"Tone.responses.users"}, "Tone.responses"), is_question({"Tone-suggestion"}, "Tone")
        (True, True)
    """
    return f"{key}.users" in keys if key.endswith(_FLAT) else f"{key}{_HUB}" in keys


def _is_passed_over(fields: Mapping[str, Any], label: str | None) -> bool:
    """Return whether a row of Prodigy has no label because its task was ignored or rejected."""
    answer = fields.get("answer") if "_task_hash" in fields else None
    return answer == "ignore" or (answer == "reject" and label != "answer")


def _list_criterion_names(criteria: Sequence[Criterion]) -> Iterator[str]:
    yield from name_criteria(criteria)
    yield from (criterion.requirement for criterion in criteria)


def _format_cell(value: Any) -> str:
    return "" if is_blank(value) else str(value).strip()
