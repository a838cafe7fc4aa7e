"""One item of a dataset, and items in rows whose columns have the usual names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.misread_keys import describe_unread
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_from import rubric_from
from autorubric.dataset.ground_truth import GroundTruthReader, match_label
from autorubric.errors import InputError, pluralize
from autorubric.files.json_values import is_missing
from autorubric.rows import Record, RowReader, drop_nulls, join_names
from autorubric.rows.columns import COLUMN_OPTION, fold_column, fold_name
from autorubric.rows.columns import ROLES as NAMES
from autorubric.rows.contexts import is_for_models
from autorubric.rows.dialogues import split_dialogues
from autorubric.rows.messages import fold_role, read_message
from autorubric.rows.paths import find_base_column, find_text_path, find_value
from autorubric.rows.record import as_text, find_paths, from_cell, is_blank, is_sentence, to_plain

_TEXTS: tuple[tuple[str, Any, str], ...] = (
    *((name, str, "a string") for name in ("submission", "description")),
    *((name, (str, type(None)), "a string or None") for name in ("reference_submission", "prompt", "id")),
)
PREFERENCE_PAIR = "preference_pair"
"""The metadata key of the number that a chosen and a rejected submission share."""
OF_TWO = "labels of two submissions; give each of them a row of its own"
_SIDES = {"chosen": 1, "rejected": 0}
_SUBMISSIONS, _QUERIES = (frozenset(NAMES[role].names) for role in ("submission", "query"))


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
            found += _find_reason_problems(self.ground_truth_reasons, self.ground_truth)
        if not isinstance(self.metadata, dict):
            found.append(f"'metadata' must be a dict, got {type(self.metadata).__name__}")
        if found:
            raise InputError(found)


def _find_reason_problems(reasons: Any, ground_truth: list[CriterionVerdict | str] | None) -> list[str]:
    if not isinstance(reasons, list):
        return [f"ground_truth_reasons must be a list, got {type(reasons).__name__}"]
    if ground_truth is None:
        return ["ground_truth_reasons are given without ground_truth"]
    if len(reasons) != len(ground_truth):
        given = pluralize(len(reasons), "value")
        return [f"ground_truth_reasons has {given}, but ground_truth has {len(ground_truth)}"]
    return [
        f"ground_truth_reasons[{index}] must be a string or None, got {type(reason).__name__}"
        for index, reason in enumerate(reasons)
        if reason is not None and not isinstance(reason, str)
    ]


ROLES = ("submission", "query", "id", "reference", "rubric", "labels")
"""The roles that `--column ROLE=NAME` accepts."""
_KEYS = {"query": "prompt", "reference": "reference_submission", "labels": "ground_truth"}
_BINARY = Criterion(requirement="-")
_BESIDES = ("description", "ground_truth_reasons", "metadata")


def build_item_reader(
    where: str, given: Mapping[str, str] | None, notes: list[str] | None, option: str = COLUMN_OPTION
) -> RowReader:
    """Return a reader of rows that are items.

    Example:
        >>> build_item_reader("a.csv", None, None).roles[0]
        'submission'
    """
    return RowReader(where, ROLES, option, given or {}, [] if notes is None else notes)


def read_item_records(
    records: Iterable[Record], reader: RowReader, problems: list[str], *, is_table: bool
) -> Iterator[Record]:
    """Rows as the records of items; other columns become metadata.

    Rows with a `submission` that are not from a table keep their other keys, so that misspelled ones are found.

    Args:
        records: the rows.
        reader: finds the column of each role.
        problems: collects a sentence for each row that cannot be read.
        is_table: whether every row has all columns, and missing values are blank or null.

    Raises:
        InputError: no column, or several, can be the submission.

    Example:
        >>> rows = [Record("a.csv:2", 2, {"Question": "Why?", "Answer": "So.", "model": "m"})]
        >>> reader = build_item_reader("a.csv", None, None)
        >>> [record.fields for record in read_item_records(rows, reader, [], is_table=True)]
        [{'submission': 'So.', 'prompt': 'Why?', 'description': '', 'metadata': {'model': 'm'}}]
    """
    has_submission = False
    for record in map(partial(split_last_turn, reader), reader.read_all(records)):
        record = _fill_submission(reader, record)  # noqa: PLW2901
        is_item = not is_table and "submission" in record.fields
        has_submission = has_submission or "submission" in record.columns
        if not has_submission:
            option = reader.option.format(role="submission")
            columns = (
                f"the columns are {join_names(record.fields)}" if record.fields else "its first row has no value"
            )
            raise InputError(f"{reader.where}: no submission column found; {columns}; name it with {option}")
        if "submission" not in record.columns or (is_item and _has_own_names(record)):
            yield record._replace(fields={"description": "", **record.fields})
            continue
        try:
            yield record._replace(fields=_build_item(record, is_item))
        except InputError as error:
            problems += error.problems


def split_preferences(
    records: Iterable[Record], columns: Mapping[str, str], where: str, notes: list[str]
) -> Iterator[Record]:
    """Yield the rows; one with a chosen and a rejected submission becomes two.

    They have 1 and 0 in `preferred`, and the same number in `preference_pair`.

    Raises:
        InputError: a row has a column of this name, or labels, which do not say for which submission they are.

    Example:
        >>> row = Record("a.jsonl:1", 1, {"id": 7, "chosen": "So.", "rejected": "No."})
        >>> for found in split_preferences([row], {}, "a.jsonl", []):
        ...     print(found.where, [*found.fields.values()])
        a.jsonl:1 (chosen) ['7-chosen', 'So.', 1, 1]
        a.jsonl:1 (rejected) ['7-rejected', 'No.', 0, 1]
    """
    for record in records:
        if not (sides := _find_sides(tuple(record.fields))):
            yield record
            continue
        if taken := record.fields.keys() & {"preferred", PREFERENCE_PAIR}:
            raise InputError(f"{record.where}: rename the column {min(taken)!r}, under which preferences are stored")
        if _list_given("labels", record.fields, columns):
            raise InputError(f"{record.where}: {OF_TWO}")
        note = f"{where}: each row's 'chosen' and 'rejected' are two submissions, with 1 and 0 in 'preferred'"
        notes += [note] * (note not in notes)
        common = {name: value for name, value in record.fields.items() if name not in sides}
        has_query = "query" in columns or not _QUERIES.isdisjoint(map(fold_column, common))
        cells = [record.fields[column] for column in sides]
        turns, answers = ([], []) if has_query else split_dialogues(*cells)
        for place, (side, preferred) in enumerate(_SIDES.items()):
            own = {"messages": turns, "submission": answers[place]} if turns else _read_side(cells[place], has_query)
            own |= {name: f"{common[name]}-{side}" for name in _list_given("id", common, columns)}
            own |= {"preferred": preferred, PREFERENCE_PAIR: record.number}
            yield record._replace(where=f"{record.where} ({side})", fields={**common, **own})


def _list_given(role: str, fields: Mapping[str, Any], columns: Mapping[str, str]) -> list[str]:
    """Return the columns of a role that have a value."""
    named = (name for name in fields if name == columns.get(role) or fold_column(name) in NAMES[role].names)
    return [name for name in named if not is_blank(fields[name])]


@lru_cache(maxsize=256)
def _find_sides(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a chosen and a rejected submission; empty if one is missing or there is a third."""
    columns = {fold_column(name): name for name in sorted(names, key=_SIDES.__contains__)}
    is_pair = columns.keys() >= _SIDES.keys() and _SUBMISSIONS.isdisjoint(columns)
    return tuple(columns[side] for side in _SIDES) if is_pair else ()


def _read_side(cell: Any, has_query: bool) -> dict[str, Any]:
    """Return a chosen or rejected submission: a text, a message, or messages, whose last one is the answer."""
    value = from_cell(cell)
    last = read_message(value[-1] if isinstance(value, list) and value else value)
    if not isinstance(last, Mapping) or "role" not in last:
        return {"submission": "" if is_blank(cell) else cell}  # also an answer in JSON
    if isinstance(value, list) and not has_query:
        return {"messages": value}
    return {"submission": last.get("content") if fold_role(last["role"]) == "assistant" else value}


def split_last_turn(reader: RowReader, record: Record) -> Record:
    """Return the row; if it has no submission, the last answer of its conversation becomes it.

    Example:
        >>> row = {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]}
        >>> reader = build_item_reader("a.jsonl", None, None)
        >>> split_last_turn(reader, reader.read(Record("a.jsonl:1", 1, row))).read_value("submission")
        'So.'
    """
    column, path = record.columns.get("query", ""), record.columns.get("submission", "")
    if path and fold_name(path) != "submission" and is_missing(record.fields[path]):
        path = ""
    is_inside = not path or (path.startswith(column or "-") and find_base_column(path) == column)
    value: Any = record.read_value("query") if is_inside else None
    query = from_cell(value) if path else to_plain(value)
    last = read_message(query[-1]) if isinstance(query, list) and len(query) > 1 else None
    if not isinstance(last, dict) or fold_role(last.get("role")) != "assistant":
        return record
    fields = {**record.fields, column: query[:-1]}
    if not path and isinstance(last.get("content"), str):
        path = f"{column}[-1].content"
        fields[path] = last["content"]
        note = f"{reader.where}: the last turn of {column!r} is read as the submission"
        reader.notes += [note] * (note not in reader.notes)
    return record._replace(fields=fields, columns={**record.columns, "submission": path}) if path else record


def _fill_submission(reader: RowReader, record: Record) -> Record:
    """Return the row; a null submission becomes a blank one, and the first of either kind is noted."""
    column = record.columns.get("submission", "")
    value = record.fields[column] if column else None
    if not column or not (is_missing(value) or (isinstance(value, str) and not value.strip())):
        return record
    found = "is blank or null; blank submissions are graded, and only the first one is reported"
    if not any(note.endswith(found) for note in reader.notes):
        reader.notes.append(f"{record.where}: {column!r} {found}")
    return record if isinstance(value, str) else record._replace(fields={**record.fields, column: ""})


def _has_own_names(record: Record) -> bool:
    """Return whether a row has the keys of this package's datasets, so that nothing has to be moved."""
    is_text = isinstance(record.fields.get("prompt", ""), str)
    return is_text and all(column == _KEYS.get(role, role) for role, column in record.columns.items())


def _build_item(record: Record, is_item: bool) -> dict[str, Any]:
    row = record.fields if is_item else drop_nulls({k: v for k, v in record.fields.items() if not is_blank(v)})
    item = {
        _KEYS.get(role, role): row[column]
        for role, column in record.columns.items()
        if column in row and role not in ("query", "rubric")
    }
    submission = record.fields.get(record.columns.get("submission", ""))
    if isinstance(submission, str):
        item["submission"] = submission  # a blank answer is an answer
    if nested := [*_find_non_texts(record)]:
        raise InputError(nested)
    query, rubric = record.query, record.read_value("rubric")
    if "ground_truth" in item:
        item["ground_truth"] = _read_truth(record, item["ground_truth"])
    if rubric is not None:
        item["rubric"] = rubric_from(rubric, record.where)
    used = {*record.columns.values()}
    own = {key: row[key] for key in _BESIDES if key in row and key not in used}
    if query is not None:
        item["prompt"], own["metadata"] = as_text(query), _keep_messages(record, own.get("metadata", {}))
    rest = {key: value for key, value in row.items() if key not in used and key not in own}
    if is_item:
        return {"description": "", **rest, **own, **item}
    metadata = own.pop("metadata", {})
    rest = {**(metadata if isinstance(metadata, dict) else {"metadata": metadata}), **rest}
    return {**item, "description": "", **own, "metadata": rest}


def _keep_messages(record: Record, metadata: Any) -> Any:
    """Return an item's metadata, with the messages that its prompt shows as one text, because trainers need them."""
    if not isinstance(record.query, list) or not isinstance(metadata, dict):
        return metadata
    return {**metadata, record.columns["query"]: to_plain(record.read_value("query"))}


def _read_truth(record: Record, labels: Any) -> Any:
    """Return the labels of a row; a single word such as yes is the label of the only criterion."""
    if not isinstance(labels, str | bool | int | float):
        return labels
    if match_label(_BINARY, str(labels)) is not None:
        return [labels]
    problem = f"{record.columns['labels']!r} is {labels!r:.60}; expected MET or UNMET, or a list of them"
    option = COLUMN_OPTION.format(role="reference")
    raise InputError(f"{record.where}: {problem}; if it is a reference answer, name it with {option}")


def _find_non_texts(record: Record) -> Iterator[str]:
    """Yield a sentence for each value that is not a string but should be, with the path to the likely text in it."""
    for role in ("submission", "reference", "query"):
        column, value = record.columns.get(role, ""), record.read_value(role)
        is_conversation = role == "query" and isinstance(value, list) and isinstance(value[0], Mapping)
        if not is_conversation and not isinstance(value, str | None):
            inner = find_text_path(record.fields, column, is_query=role == "query")
            advice = "choose one in it" if inner else "write it as text, or choose another column"
            problem = f"{column!r} is of type {type(value).__name__}; expected a string"
            yield f"{record.where}: {problem}; {advice} with --column {role}={inner or 'NAME'}"


def collect_query_notes(where: str, items: Sequence[DataItem], prompt: str | None = None) -> list[str]:
    """Return notes on what judges do not see: other text columns, and the query if none is found or given.

    Example:
        >>> collect_query_notes("a.csv", [DataItem("So.", "", metadata={"ticket": "Why is it late?", "lang": "en"})])
        ["a.csv: judges do not see what was asked: no column is read as the query, perhaps 'ticket'; choose one ...
        >>> collect_query_notes("a.csv", [DataItem("So.", "", prompt="Why?", metadata={"gold": "So.", "lang": "en"})])
        ["a.csv: models do not see 'gold'; add what they need to the query, or name a reference with --column ...
    """
    columns = dict.fromkeys(name for item in items for name in item.metadata)
    bare = [item.metadata for item in items if not prompt and item.prompt is None]
    texts = {
        path.partition("[-1]")[0]: name
        for item in items[:100]
        for name, value in item.metadata.items()
        for path in find_paths(value, name)
        if is_sentence(text := find_value(item.metadata, path)) and text not in f"{item.prompt} {item.submission}"
    }
    has_query = len(bare) < len(items)
    unseen = [name for name in columns if is_for_models(name) or (has_query and name in texts.values())]
    notes = []
    if unseen:
        note = f"models do not see {join_names(unseen)}; add what they need to the query"
        notes.append(f"{where}: {note}, or name a reference with {COLUMN_OPTION.format(role='reference')}")
    if prompt and all(item.prompt is not None for item in items):
        notes.append(f"{where}: --prompt has no effect, because every row has its own query")
    if has_query and bare:
        advice = "fill in their cells (in merged cells, only the first has a value), or pass --prompt for them"
        notes.append(f"{where}: judges do not see what was asked in {len(bare)} of {len(items)} rows: {advice}")
    elif bare and texts:
        note = f"no column is read as the query, perhaps {join_names([*texts])}"
        option = COLUMN_OPTION.format(role="query")
        notes.append(f"{where}: judges do not see what was asked: {note}; choose one with {option}, or pass --prompt")
    return notes


def collect_rubric_notes(placed: Iterable[tuple[str, DataItem]]) -> list[str]:
    """Return each note on unread parts of items' rubrics, once, with the place of the first such item.

    Example:
        >>> rubric = Rubric.from_dict([{"requirement": "Is brief", "weight": 2}, {"requirement": "Is kind"}])
        >>> collect_rubric_notes([("a.csv:2", DataItem("So.", "", rubric=rubric))])
        ['a.csv:2: 1 of 2 criteria have no weight and count 10, the first is criterion 2']
    """
    found: dict[str, str] = {}
    for where, item in placed:
        for note in [] if item.rubric is None else describe_unread(item.rubric.rubric):
            found.setdefault(re.sub(r"\d+", "", note), f"{where}: {note}")
    return [*found.values()]
