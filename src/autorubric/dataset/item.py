"""One item of a dataset, and items in rows whose columns have the usual names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autorubric.core.criterion import Criterion, criterion_names
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.dataset.ground_truth import NEAR, GroundTruthReader, columns_meant, label_meant, number_in
from autorubric.dataset.label_rows import one_word
from autorubric.errors import InputError, counted
from autorubric.rows import Record, RowReader, listed, without_nulls
from autorubric.rows.columns import COLUMN_OPTION, first_part, folded, from_cell
from autorubric.rows.record import as_text, is_blank, plain, read_message, shown

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
        return [
            f"ground_truth_reasons has {counted(len(reasons), 'value')}, but ground_truth has {len(ground_truth)}"
        ]
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
    for record in map(partial(_with_last_turn, reader), reader.rows(records)):
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


def _with_last_turn(reader: RowReader, record: Record) -> Record:
    """The row; without a submission, the answer at the end of its conversation is one."""
    column, path = record.columns.get("query", ""), record.columns.get("submission", "")
    is_inside = not path or (path.startswith(column or "-") and first_part(path) == column)
    value: Any = record.value("query") if is_inside else None
    query = from_cell(value) if path else plain(value)
    last = read_message(query[-1]) if isinstance(query, list) and len(query) > 1 else None
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return record
    fields = {**record.fields, column: query[:-1]}
    if not path and isinstance(last.get("content"), str):
        path = f"{column}[-1].content"
        fields[path] = last["content"]
        note = f"{reader.where}: the last turn of {column!r} is read as the submission"
        reader.notes += [note] * (note not in reader.notes)
    return record._replace(fields=fields, columns={**record.columns, "submission": path}) if path else record


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
    if isinstance(item.get("ground_truth"), str):
        told = f"{record.columns['labels']!r} is {shown(item['ground_truth'])}; expected a list of verdicts"
        option = COLUMN_OPTION.format(role="reference")
        raise InputError(f"{record.where}: {told}; if it is a reference answer, name it with {option}")
    if nested := [*_nested(record, row)]:
        raise InputError(nested)
    if query is not None:
        item["prompt"] = as_text(query)
    if rubric is not None:
        item["rubric"] = rubric_from(rubric, record.where)
    used = {*record.columns.values()}
    own = {key: row[key] for key in _BESIDES if key in row and key not in used}
    rest = {key: value for key, value in row.items() if key not in used and key not in own}
    if is_item:
        return {"description": "", **rest, **own, **item}
    metadata = own.pop("metadata", {})
    if not isinstance(metadata, dict):
        metadata = {"metadata": metadata}
    return {**item, "description": "", **own, "metadata": {**metadata, **rest}}


def _nested(record: Record, row: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each text that is a list or a mapping, with the path to what is in it."""
    for role in ("submission", "reference"):
        column = record.columns.get(role, "")
        value = row.get(column)
        if isinstance(value, list | dict):
            inner = f"{column}{_path_to_text(value)}"
            told = f"{column!r} is of type {type(value).__name__}; expected a text"
            yield f"{record.where}: {told}; choose one in it with --column {role}={inner}"


def _path_to_text(value: Any) -> str:
    """The path to what is probably the text in a list or a mapping."""
    if isinstance(value, list):
        return f"[0]{_path_to_text(value[0]) if value else ''}"
    if not isinstance(value, dict):
        return ""
    usual = (key for key in ("content", "text", "message", "choices", "body", "answer") if key in value)
    longest = sorted(value, key=lambda key: -len(str(value[key])))
    key = next(usual, longest[0] if longest else "KEY")
    return f".{key}{_path_to_text(value.get(key))}"


def query_notes(where: str, items: Iterable[DataItem]) -> list[str]:
    """A note on items without a query, whose other columns have sentences, so that one may be the query.

    Example:
        >>> query_notes("a.csv", [DataItem("So.", "", metadata={"ticket": "Why is it late?", "lang": "en"})])
        ["a.csv: judges do not see what was asked: no column is read as the query, perhaps 'ticket'; choose one ...
    """
    left = (item.metadata.items() for item in items if item.prompt is None)
    texts = [key for fields in left for key, value in fields if isinstance(value, str) and len(value.split()) > 2]
    if not texts:
        return []
    told = f"no column is read as the query, perhaps {listed(dict.fromkeys(texts))}"
    option = COLUMN_OPTION.format(role="query")
    return [f"{where}: judges do not see what was asked: {told}; choose one with {option}, or pass --prompt"]


_WAYS = "label all criteria, or import single labels into the run with `autorubric labels RUN --import FILE`"


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
    columns = _label_columns(rubric, (item.metadata for _, item in placed), notes)
    if any(item.ground_truth is not None for _, item in placed):
        kept = f"kept as metadata, since 'ground_truth' has the labels: {listed(columns.values())}"
        notes += [kept] * bool(columns)
        return
    by_name = dict(zip(criterion_names(rubric.rubric), rubric, strict=True))
    rows = [{name: _word(item.metadata.get(column)) for name, column in columns.items()} for _, item in placed]
    used = dict.fromkeys(pair for row in rows for pair in row.items() if pair[1])
    meant = {(name, word): label_meant(by_name[name], word) for name, word in used}
    bare, has_label = [name for name in by_name if name not in columns], _are_labels(meant)
    if bare or not has_label:
        notes += [*_unread_note(columns, bare, meant), *_hints(placed, by_name)]
        return
    partial = (
        where for (where, _), row in zip(placed, rows, strict=True) if any(row.values()) and "" in row.values()
    )
    if None not in meant.values() and (first := next(partial, None)) is not None:
        notes.append(f"labels in {listed(columns.values())} are not read, since {first} has only some; {_WAYS}")
        return
    whole, problems, labels = GroundTruthReader(rubric), list[str](), list[Any]()
    for (where, _), row in zip(placed, rows, strict=True):
        held = {name: meant[name, word] or word for name, word in row.items() if word}
        found: list[str] = []
        labels.append(whole.read(held, found) if held else None)
        problems += (f"{where}: {problem}" for problem in found)
    read = f"labels are read from {listed(columns.values())}"
    if problems:
        advice = "label all criteria of a row or none, and rename columns that contain something else"
        raise InputError([*problems, f"{read}; {advice}"])
    for (_, item), verdicts in zip(placed, labels, strict=True):
        item.ground_truth = verdicts
        item.metadata = {key: cell for key, cell in item.metadata.items() if key not in columns.values()}
    notes.append(f"{read}, named like the criteria")
    for name, word in used:
        label_meant(by_name[name], word, notes)


def _word(cell: Any) -> str:
    try:
        return one_word(cell)
    except ValueError:
        return str(cell)


def _are_labels(meant: Mapping[Any, str | None]) -> bool:
    """Whether words of columns are labels: all of them, or one that cannot be a score."""
    return (bool(meant) and None not in meant.values()) or any(
        label is not None and (label == word or number_in(word) is None) for (_, word), label in meant.items()
    )


def _unread_note(
    columns: Mapping[str, str], bare: list[str], meant: Mapping[tuple[str, str], str | None]
) -> Iterator[str]:
    named, other = listed(columns.values()), next((pair for pair, label in meant.items() if label is None), None)
    if bare:
        if _are_labels(meant):
            yield f"labels in {named} are not read, since {listed(bare)} has none; {_WAYS}"
    elif other is None or not any(meant.values()):
        yield f"columns named like criteria, but without labels such as MET, are kept as metadata: {named}"
    else:
        told = f"since {columns[other[0]]!r} has {other[1]!r:.60}; expected only labels"
        yield f"labels in {named} are not read, {told}"


def own_label_notes(placed: Iterable[tuple[str, DataItem]]) -> Iterator[str]:
    """A note on the first item with a rubric of its own and labels in columns named like its criteria.

    Example:
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Is brief"}])
        >>> list(own_label_notes([("a.csv:2", DataItem("So.", "", rubric=rubric, metadata={"brief": "yes"}))]))
        ["a.csv:2: labels in 'brief' are not read, since the row has its own rubric; write them under ...
    """
    for where, item in placed:
        if item.rubric is None or item.ground_truth is not None:
            continue
        columns = _label_columns(item.rubric, [item.metadata], [])
        by_name = dict(zip(criterion_names(item.rubric.rubric), item.rubric, strict=True))
        words = ((by_name[name], _word(item.metadata.get(column))) for name, column in columns.items())
        if columns and all(label_meant(criterion, word) for criterion, word in words):
            told = "since the row has its own rubric; write them under 'ground_truth', a list or a mapping from names"
            yield f"{where}: labels in {listed(columns.values())} are not read, {told}"
            return


def _hints(placed: Sequence[tuple[str, DataItem]], by_name: Mapping[str, Criterion]) -> Iterator[str]:
    """Sentences on columns of labels that are nearly called like a criterion."""
    columns = dict.fromkeys(column for _, item in placed for column in item.metadata)
    called = {criterion.requirement: criterion for criterion in by_name.values()} | dict(by_name)
    for column, name in columns_meant(columns, [*by_name.values()]).items():
        words = {_word(item.metadata.get(column)) for _, item in placed} - {""}
        if words and all(label_meant(called[name], word) for word in words):
            yield NEAR.format(column, name)


def _label_columns(rubric: Rubric, rows: Iterable[Mapping[str, Any]], notes: list[str]) -> dict[str, str]:
    """The column with the name or the text of a criterion, by the criterion's name; empty if one has several."""
    by_name: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for row in rows for column, cell in row.items() if not is_blank(cell)):
        by_name.setdefault(folded(column), []).append(column)
    found: dict[str, list[str]] = {}
    for name, criterion in zip(criterion_names(rubric.rubric), rubric, strict=True):
        called = next((key for key in map(folded, (name, criterion.requirement)) if key in by_name), None)
        if called is not None:
            found[name] = by_name[called]
    several = [columns for columns in found.values() if len(columns) > 1]
    if several:
        notes.append(f"labels are not read, since several columns are named like one criterion: {listed(several[0])}")
        return {}
    return {name: columns[0] for name, columns in found.items()}
