"""One item of a dataset, and items in rows whose columns have the usual names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autorubric.core.criterion import criterion_names
from autorubric.core.entries import rubric_from
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.dataset.ground_truth import GroundTruthReader
from autorubric.errors import InputError
from autorubric.rows import Record, RowReader, listed, without_nulls
from autorubric.rows.columns import COLUMN_OPTION, folded
from autorubric.rows.record import as_text, is_blank

_TEXTS: tuple[tuple[str, Any, str], ...] = (
    *((name, str, "a string") for name in ("submission", "description")),
    *((name, (str, type(None)), "a string or None") for name in ("reference_submission", "prompt", "id")),
)


@dataclass(slots=True)
class DataItem:
    """A submission to grade, with its label, reference and metadata.

    Attributes:
        submission: the text to be graded; structured data as a JSON text.
        description: a few words about this item.
        ground_truth: human verdicts, one per criterion of the rubric that applies: a `CriterionVerdict`
            for a binary criterion, an option's label for a multi-choice one. By name of the criterion or in order.
        rubric: the item's own rubric, which overrides the dataset's.
        reference_submission: the item's own reference, which overrides the dataset's.
        prompt: the item's own prompt, which overrides the dataset's.
        ground_truth_reasons: the reason for each verdict; None if there is none.
        id: a stable identifier, unique in its dataset.
        metadata: user-defined keys with JSON values.

    Raises:
        ValueError: a field has the wrong type, or the ground truth does not fit the item's own rubric.

    Example:
        >>> item = DataItem("It began in Britain.", "short", ground_truth=[CriterionVerdict.MET])
        >>> item.ground_truth
        [<CriterionVerdict.MET: 'MET'>]
    """

    submission: str
    description: str
    ground_truth: list[CriterionVerdict | str] | None = None
    rubric: Rubric | None = None
    reference_submission: str | None = None
    prompt: str | None = None
    ground_truth_reasons: list[str | None] | None = None
    id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = [
            f"'{name}' must be {wanted}, got {type(value).__name__}"
            for name, allowed, wanted in _TEXTS
            if not isinstance(value := getattr(self, name), allowed)
        ]
        truth: Any = self.ground_truth
        if self.rubric is not None and not isinstance(self.rubric, Rubric):
            found.append(f"'rubric' must be a Rubric or None, got {type(self.rubric).__name__}")
        elif truth is not None and not isinstance(truth, (list, tuple, Mapping)):
            found.append(f"ground_truth must be a list of verdicts, got {type(truth).__name__}")
        elif truth is not None and self.rubric is not None:
            self.ground_truth = GroundTruthReader(self.rubric).read(truth, found)
        elif truth is not None:
            labels: Any = truth if isinstance(truth, Mapping) else dict(enumerate(truth))
            self.ground_truth = labels if isinstance(truth, Mapping) else list(truth)
            found += (
                f"ground_truth[{key!r}] must be CriterionVerdict or str (an option's label), got {label!r}"
                for key, label in labels.items()
                if not isinstance(label, str)
            )
        if self.ground_truth_reasons is not None:
            found += _reason_problems(self.ground_truth_reasons, self.ground_truth)
        if not isinstance(self.metadata, dict):
            found.append(f"'metadata' must be a dict, got {type(self.metadata).__name__}")
        if found:
            raise InputError(found)


def _reason_problems(reasons: Any, ground_truth: list[CriterionVerdict | str] | None) -> list[str]:
    if not isinstance(reasons, list):
        return [f"ground_truth_reasons must be a list, got {type(reasons).__name__}"]
    if ground_truth is None:
        return ["ground_truth_reasons are given without ground_truth"]
    if len(reasons) != len(ground_truth):
        return [f"ground_truth_reasons has {len(reasons)} values, but ground_truth has {len(ground_truth)}"]
    return [
        f"ground_truth_reasons[{index}] must be a string or None, got {type(reason).__name__}"
        for index, reason in enumerate(reasons)
        if reason is not None and not isinstance(reason, str)
    ]


ROLES = ("submission", "query", "id", "reference", "rubric", "labels")
"""What a column can be named for with `--column ROLE=NAME`."""
_KEYS = {"query": "prompt", "reference": "reference_submission", "labels": "ground_truth"}
_BESIDES = ("description", "ground_truth_reasons", "metadata")


def item_reader(
    where: str, given: Mapping[str, str] | None, notes: list[str] | None, option: str = COLUMN_OPTION
) -> RowReader:
    """The reader of rows that are items.

    Example:
        >>> item_reader("a.csv", None, None).roles[0]
        'submission'
    """
    return RowReader(where, ROLES, option, given or {}, [] if notes is None else notes)


def item_records(
    records: Iterable[Record],
    reader: RowReader,
    problems: list[str],
    *,
    is_table: bool,
) -> Iterator[Record]:
    """Rows as the records of items; other columns become metadata.

    Rows that have `submission` and come from no table keep their other keys, so that misspelled ones are found.

    Args:
        records: the rows.
        reader: which column is what.
        problems: takes a sentence for each row that cannot be read.
        is_table: whether every row has all columns, blank or null if there is nothing.

    Raises:
        InputError: no column can be the submission, or several can.

    Example:
        >>> rows = [Record("a.csv:2", 2, {"Question": "Why?", "Answer": "So.", "model": "m"})]
        >>> [record.fields for record in item_records(rows, item_reader("a.csv", None, None), [], is_table=True)]
        [{'submission': 'So.', 'prompt': 'Why?', 'description': '', 'metadata': {'model': 'm'}}]
    """
    has_submission = False
    for record in reader.rows(records):
        is_item = not is_table and "submission" in record.fields
        has_submission = has_submission or "submission" in record.columns
        if not has_submission:
            option = reader.option.format(role="submission")
            held = f"the columns are {listed(record.fields)}" if record.fields else "its first row has no value"
            raise InputError(f"{reader.where}: no submission column found; {held}; name it with {option}")
        if "submission" not in record.columns or (is_item and _has_own_names(record)):
            yield record._replace(fields={"description": "", **record.fields})
            continue
        try:
            yield record._replace(fields=_item(record, is_item))
        except InputError as error:
            problems += error.problems


def _has_own_names(record: Record) -> bool:
    """Whether a row is an item as datasets are written, so that nothing in it has to be moved."""
    is_text = isinstance(record.fields.get("prompt", ""), str)
    return is_text and all(column == _KEYS.get(role, role) for role, column in record.columns.items())


def _item(record: Record, is_item: bool) -> dict[str, Any]:
    row = record.fields if is_item else without_nulls({k: v for k, v in record.fields.items() if not is_blank(v)})
    item = {
        _KEYS.get(role, role): row[column]
        for role, column in record.columns.items()
        if column in row and role not in ("query", "rubric")
    }
    held = record.fields.get(record.columns.get("submission", ""))
    if isinstance(held, str):
        item["submission"] = held  # a blank answer is an answer
    query, rubric = record.query, record.value("rubric")
    if query is not None:
        item["prompt"] = as_text(query)
    if rubric is not None:
        item["rubric"] = rubric_from(without_nulls(rubric), record.where)
    used = {*record.columns.values()}
    own = {key: row[key] for key in _BESIDES if key in row and key not in used}
    rest = {key: value for key, value in row.items() if key not in used and key not in own}
    if is_item:
        return {"description": "", **rest, **own, **item}
    metadata = own.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{record.where}: 'metadata' is of type {type(metadata).__name__}; expected a mapping")
    return {**item, "description": "", **own, "metadata": {**metadata, **rest}}


def take_label_columns(placed: Sequence[tuple[str, DataItem]], rubric: Rubric, notes: list[str]) -> None:
    """Read labels from columns with the names or texts of the criteria, one column for each criterion.

    Columns without a single label, such as scores, stay in the metadata. An item with blanks only has no labels.

    Args:
        placed: the items of a file, each with its place; their metadata holds the columns.
        rubric: the rubric of all items.
        notes: takes a sentence that names the columns.

    Raises:
        InputError: some values are labels and others are not; each is named with its place.

    Example:
        >>> item, notes = DataItem("So.", "", metadata={"brief": "met", "model": "m"}), []
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Is brief"}])
        >>> take_label_columns([("a.csv:2", item)], rubric, notes)
        >>> item.ground_truth, item.metadata, notes
        ([<CriterionVerdict.MET: 'MET'>], {'model': 'm'}, ["labels are read from 'brief', named like the criteria"])
    """
    columns = _label_columns(rubric, (item.metadata for _, item in placed))
    if not columns or any(item.ground_truth is not None for _, item in placed):
        return
    by_name = dict(zip(criterion_names(rubric.rubric), rubric, strict=True))
    readers = {name: GroundTruthReader(Rubric([by_name[name]])) for name in columns}
    whole = GroundTruthReader(rubric)
    labels: list[tuple[DataItem, Any]] = []
    problems: list[str] = []
    has_label = False
    for where, item in placed:
        values = {name: item.metadata.get(column) for name, column in columns.items()}
        held = {name: value for name, value in values.items() if not is_blank(value)}
        has_label = has_label or any(readers[name].read([value], []) for name, value in held.items())
        if held:
            found: list[str] = []
            labels.append((item, whole.read(held, found)))
            problems += (f"{where}: {problem}" for problem in found)
    named, bare = listed(columns.values()), [name for name in by_name if name not in columns]
    if bare or not has_label:
        notes += _unread_note(named, bare, has_label=has_label)
        return
    if problems:
        raise InputError([*problems, f"labels are read from {named}; rename columns that contain something else"])
    for item, verdicts in labels:
        item.ground_truth = verdicts
        for column in columns.values():
            item.metadata.pop(column, None)
    notes.append(f"labels are read from {named}, named like the criteria")


def _unread_note(named: str, bare: list[str], *, has_label: bool) -> list[str]:
    if not bare:
        return [f"columns named like criteria, but without labels such as MET, are kept as metadata: {named}"]
    ways = "label all criteria, or import single labels into the run with `autorubric labels RUN --import FILE`"
    return [f"labels in {named} are not read, since {listed(bare)} has none; {ways}"] * has_label


def _label_columns(rubric: Rubric, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The column with the name or the text of a criterion, by the criterion's name; empty if one has several."""
    by_name: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for row in rows for column, cell in row.items() if not is_blank(cell)):
        by_name.setdefault(folded(column), []).append(column)
    found: dict[str, list[str]] = {}
    for name, criterion in zip(criterion_names(rubric.rubric), rubric, strict=True):
        called = next((key for key in map(folded, (name, criterion.requirement)) if key in by_name), None)
        if called is not None:
            found[name] = by_name[called]
    if any(len(columns) > 1 for columns in found.values()):
        return {}
    return {name: columns[0] for name, columns in found.items()}
