"""People's verdicts: of one item, read against its criteria; as cells of a score; and in rows, joined to items."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autorubric.core.criterion import Criterion, criterion_names
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.core.scoring import Cell, cell
from autorubric.errors import InputError
from autorubric.files.keys import advice
from autorubric.rows import Record, RowReader, input_name, listed, read_rows, without_nulls
from autorubric.rows.columns import ROLES, folded

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


GroundTruth: TypeAlias = list[CriterionVerdict | str]

_VERDICTS: dict[Any, CriterionVerdict | str] = {verdict.value: verdict for verdict in CriterionVerdict}


class GroundTruthReader:
    """Reads ground truth for one rubric.

    Verdicts on binary criteria become `CriterionVerdict`, whatever their case; option labels stay as they are
    written, as long as they name an option.

    Example:
        >>> reader = GroundTruthReader(Rubric([Criterion(requirement="Is brief")]))
        >>> problems = []
        >>> reader.read(["met"], problems), reader.read(["maybe"], problems), problems
        ([<CriterionVerdict.MET: 'MET'>], None, ["ground_truth[0]: invalid verdict 'maybe'. Must be ..."])
    """

    def __init__(self, rubric: Rubric) -> None:
        self._criteria = rubric.rubric
        # One table per criterion from what may be written to what it means: the common case is one look-up.
        self._tables: list[dict[Any, CriterionVerdict | str]] = [
            _VERDICTS if criterion.options is None else {option.label: option.label for option in criterion.options}
            for criterion in self._criteria
        ]

    def read(self, values: Sequence[Any] | Mapping[str, Any], problems: list[str]) -> GroundTruth | None:
        """The verdicts of one item, or None after adding to `problems` what is wrong with them.

        Args:
            values: a verdict for each criterion, in order, or by the criterion's name.
            problems: takes a sentence for each thing that is wrong.
        """
        if isinstance(values, Mapping):
            ordered = self._ordered(values, problems)
            if ordered is None:
                return None
            values = ordered
        try:
            return [table[value] for table, value in zip(self._tables, values, strict=True)]
        except (KeyError, ValueError, TypeError):
            return self._read_with_care(values, problems)

    def check(self, label: str) -> None:
        """Nothing, where a label is one of the first criterion's.

        Raises:
            InputError: it is not; the labels are named.
        """
        try:
            _verdict(self._criteria[0], label)
        except ValueError:
            options = self._criteria[0].options
            known = list(CriterionVerdict.__members__) if options is None else [option.label for option in options]
            raise InputError(f"label {label!r} is not one of {', '.join(known)}") from None

    def _ordered(self, values: Mapping[str, Any], problems: list[str]) -> list[Any] | None:
        """Verdicts by name in the order of the criteria."""
        by_place: dict[int, Any] = {}
        found: list[str] = []
        for name, value in values.items():
            try:
                place = criterion_called(str(name), self._criteria)
            except InputError as error:
                found += (f"ground_truth: {problem}" for problem in error.problems)
                continue
            if place in by_place:
                found.append(f"ground_truth has criterion {str(name)!r} twice")
            by_place[place] = value
        names = criterion_names(self._criteria)
        missing = [name for place, name in enumerate(names) if place not in by_place]
        if missing and not found:
            found.append(f"ground_truth has no verdict on {', '.join(map(repr, missing))}")
        problems += found
        return None if found else [by_place[place] for place in range(len(names))]

    def _read_with_care(self, values: Sequence[Any], problems: list[str]) -> GroundTruth | None:
        if isinstance(values, str) or not isinstance(values, Sequence):
            problems.append(f"ground_truth must be a list of verdicts, got {type(values).__name__}")
            return None
        if len(values) != len(self._criteria):
            problems.append(f"Ground truth has {len(values)} values, but rubric has {len(self._criteria)} criteria")
            return None
        verdicts: GroundTruth = []
        found: list[str] = []
        for index, (criterion, value) in enumerate(zip(self._criteria, values, strict=True)):
            try:
                verdicts.append(_verdict(criterion, value))
            except ValueError as error:
                found.append(f"ground_truth[{index}]: {error}")
        problems += found
        return None if found else verdicts


def criterion_called(name: str, rubric: Sequence[Criterion] | Rubric) -> int:
    """The place of the criterion of a name, or of these words; the case of letters counts only between two.

    Raises:
        InputError: there is none, or there are several.

    Example:
        >>> criterion_called("tone", [Criterion(name="Tone", requirement="Is kind")])
        0
        >>> criterion_called("Tome", [Criterion(name="Tone", requirement="Is kind")])
        Traceback (most recent call last):
        autorubric.errors.InputError: no criterion is named 'Tome'; did you mean 'Tone'?
    """
    criteria = list(rubric)
    names = criterion_names(criteria)
    wanted = name.strip()
    for called in (names, [criterion.name or "" for criterion in criteria], [one.requirement for one in criteria]):
        for fold in (str.strip, str.casefold):
            places = [place for place, own in enumerate(called) if fold(own) == fold(wanted)]
            if len(places) == 1:
                return places[0]
            if places and fold is str.casefold:
                distinct = ", ".join(map(repr, names))
                raise InputError(f"several criteria are named {wanted!r}; refer to them as {distinct}")
    raise InputError(f"no criterion is named {wanted!r}; {advice(wanted, names)}")


def _verdict(criterion: Criterion, value: Any) -> CriterionVerdict | str:
    if criterion.options is None:
        folded = value.strip().upper() if isinstance(value, str) else value
        if isinstance(folded, str) and folded in _VERDICTS:
            return _VERDICTS[folded]
        raise ValueError(f"invalid verdict '{value}'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.")
    if isinstance(value, CriterionVerdict) or not isinstance(value, str):
        kind = type(value).__name__
        raise ValueError(f"multi-choice criterion expects option label string, got {kind}")
    criterion.find_option_by_label(value)
    return value


def weighted_cells(rubric: Rubric, verdicts: Sequence[CriterionVerdict | str]) -> list[Cell]:
    """The cells of verdicts on the first criteria of a rubric.

    Raises:
        InputError: a verdict does not belong to its criterion, or there are more verdicts than criteria.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> weighted_cells(Rubric([Criterion(weight=3, requirement="Is brief")]), ["MET"])
        [Cell(weight=3.0, value=1.0, worst=0.0)]
    """
    if len(verdicts) > len(rubric):
        raise InputError(f"Expected {len(rubric)} verdicts, got {len(verdicts)}")
    return [
        _cell(index, criterion, verdict)
        for index, (criterion, verdict) in enumerate(zip(rubric, verdicts, strict=False))
    ]


def _cell(index: int, criterion: Criterion, verdict: CriterionVerdict | str) -> Cell:
    if criterion.is_multi_choice:
        if isinstance(verdict, CriterionVerdict) or not isinstance(verdict, str):
            kind = type(verdict).__name__
            raise InputError(f"Criterion {index} is multi-choice but got {kind}; expected option label string")
        return cell(criterion, verdict)
    try:
        return cell(criterion, verdict)
    except ValueError:
        raise InputError(
            f"Criterion {index} is binary but got invalid verdict '{verdict}'. "
            "Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'."
        ) from None


MAJORITY = "majority"
LABEL_ROLES = ("criterion", "label", "annotator")
_ROLES = ("id", *LABEL_ROLES)
_SINGLE_PAIRS = (
    "Labels of single pairs of a graded run belong in its label store, which weights those of pairs that it drew: "
    "`autorubric labels RUN --import FILE --annotator NAME`, then `autorubric agree RUN` (Python: import_labels, "
    "label_agreement)."
)


@dataclass(slots=True)
class LabelTable:
    """Files of labels: rows of id, criterion, label and perhaps annotator.

    Attributes:
        paths: the files, of any kind that contains rows.
        annotator: whose labels count; `majority` for the label that most annotators gave; None if they agree.
        columns: columns that the user named, by role.
        notes: takes a sentence for each column that was guessed, and on items without labels.
    """

    paths: Sequence[Path]
    annotator: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def joined(self, dataset: RubricDataset) -> RubricDataset:
        """The dataset with these labels as ground truth; items that have none here are unlabelled.

        Raises:
            InputError: an id, criterion, label or annotator is unknown, a label comes twice, annotators disagree and
                none is chosen, or an item has labels for a part of its criteria; all at once.
        """
        problems: list[str] = []
        join = _Join(dataset, self.annotator, problems)
        for path in self.paths:
            rows = read_rows(path, problems, what="Label file")
            for record in read_label_rows(path, rows, self.columns, self.notes):
                join.add(record)
        truths = join.truths()
        if not problems and not truths:
            problems.append(f"{', '.join(map(str, self.paths))}: it has no labels")
        if problems:
            raise InputError(problems, _SINGLE_PAIRS if join.has_parts else "")
        items = [
            replace(item, ground_truth=truths.get(index), ground_truth_reasons=None)
            for index, item in enumerate(dataset.items)
        ]
        if len(truths) < len(items):
            without = len(items) - len(truths)
            self.notes.append(f"{without} of {len(items)} items have no labels in the file and count as unlabelled")
        return replace(dataset, items=items)


def read_label_rows(
    path: Path, rows: Iterable[Record], columns: Mapping[str, str], notes: list[str], more: Sequence[str] = ()
) -> Iterator[Record]:
    """Rows of labels with their cells by role: id, criterion, label, and annotator where they have it.

    Args:
        path: the file, for messages.
        rows: its rows.
        columns: columns that the user named, by role.
        notes: called with a sentence for each column that was guessed.
        more: further roles to find.

    Raises:
        InputError: the file lacks a column for the id, the criterion or the label.
    """
    rows = iter(rows)
    first = next(rows, None)
    given = dict(columns)
    names = {} if first is None else {folded(name): name for name in first.fields}
    if "item" in names and not names.keys() & {*ROLES["id"].names}:
        given.setdefault("id", names["item"])
    reader = RowReader(input_name(path), (*_ROLES, *more), given=given, notes=notes)
    for record in reader.rows(itertools.chain(() if first is None else [first], rows)):
        missing = [role for role in _ROLES[:3] if role not in record.columns]
        if missing:
            held, option = f"the columns are {listed(record.fields)}", reader.option.format(role="ROLE")
            raise InputError(
                f"{input_name(path)}: no column for {', '.join(missing)}; {held}; choose one with {option}"
            )
        cells = {role: record.fields[column] for role, column in record.columns.items()}
        yield record._replace(fields=without_nulls(cells))


def is_label_table(path: Path) -> bool:
    """Whether a file contains labels, rather than pairs that `--label-next` drew.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = path.write_text("id,criterion,label")
        >>> is_label_table(path)
        False
    """
    first = next(iter(read_rows(path, [], what="Label file")), None)
    return first is not None and not {"draw", "probability"} <= {folded(name) for name in first.fields}


class _Join:
    """Labels on their way to the items of a dataset."""

    def __init__(self, dataset: RubricDataset, annotator: str | None, problems: list[str]) -> None:
        self._dataset, self._annotator, self._problems = dataset, annotator, problems
        self._places = {item.id: index for index, item in enumerate(dataset.items) if item.id is not None}
        self._labels: dict[int, dict[int, dict[str, str]]] = {}
        self._first: dict[tuple[int, int, str], str] = {}
        self._annotators: dict[str, None] = {}
        self.has_parts = False

    def add(self, record: Record) -> None:
        """Take in a row; what is wrong with it joins the problems."""
        label = str(record.fields.get("label", "")).strip()
        annotator = str(record.fields.get("annotator", "")).strip()
        self._annotators[annotator] = None
        if not label:
            return
        try:
            place = self._place(record)
            rubric = self._dataset.get_item_rubric(place)
            criterion = criterion_called(str(record.fields.get("criterion", "")), rubric)
            GroundTruthReader(Rubric([rubric[criterion]])).check(label)
        except InputError as error:
            self._problems += (f"{record.where}: {problem}" for problem in error.problems)
            return
        first = self._first.setdefault((place, criterion, annotator), record.where)
        if first != record.where:
            self._problems.append(f"{record.where}: this label is given at {first} already")
            return
        self._labels.setdefault(place, {}).setdefault(criterion, {})[annotator] = label

    def truths(self) -> dict[int, Any]:
        """The labels of each labelled item in the order of its criteria."""
        if self._annotator not in (None, MAJORITY, *self._annotators):
            known = ", ".join(filter(None, self._annotators)) or "none; no column has annotators"
            self._problems.append(f"--annotator {self._annotator!r} is unknown; the annotators are {known}")
            return {}
        return {place: truth for place in self._labels if (truth := self._truth(place)) is not None}

    def _place(self, record: Record) -> int:
        own = str(record.fields.get("id", "")).strip()
        if own in self._places:
            return self._places[own]
        if not self._places:
            raise InputError("the items of the dataset have no ids; add ids that the labels can refer to")
        raise InputError(f"no item has the id {own!r}")

    def _truth(self, place: int) -> list[str] | None:
        """The labels of an item; None if it has none, or after adding to the problems."""
        rubric = self._dataset.get_item_rubric(place).rubric
        names, given = criterion_names(rubric), self._labels[place]
        chosen = {at: self._chosen(place, names[at], by) for at, by in given.items()}
        found = {at: label for at, label in chosen.items() if label is not None}
        is_one = self._annotator not in (None, MAJORITY)
        missing = [name for at, name in enumerate(names) if at not in (found if is_one else given)]
        if found and missing:
            own, self.has_parts = self._dataset.items[place].id, True
            self._problems.append(f"item {own!r} has no label for {listed(missing)}; label all criteria or none")
        return [found[at] for at in range(len(names))] if len(found) == len(names) else None

    def _chosen(self, place: int, name: str, by_annotator: Mapping[str, str]) -> str | None:
        """The label that counts."""
        if self._annotator not in (None, MAJORITY):
            return by_annotator.get(self._annotator or "")
        counts = Counter(label.upper() for label in by_annotator.values()).most_common()
        if len(counts) == 1 or (self._annotator == MAJORITY and counts[0][1] > counts[1][1]):
            return next(label for label in by_annotator.values() if label.upper() == counts[0][0])
        said = ", ".join(f"{who or 'one'}: {label}" for who, label in by_annotator.items())
        where = f"item {self._dataset.items[place].id!r}, criterion {name!r}"
        if self._annotator == MAJORITY:
            self._problems.append(f"{where}: no label has a majority ({said}); pass --annotator NAME")
        else:
            self._problems.append(f"{where}: annotators disagree ({said}); pass --annotator NAME or majority")
        return None
