"""Reads rows and rubrics of any layout as raw rubrics.

Reading is lenient where a rule reports the problem (a blank requirement, a duplicate label), and strict elsewhere: a
weight that is not a number, a misspelt key, a row without a rubric.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.described_scores import read_scale
from autorubric.core.entries import RubricParts, find_parts, is_foreign
from autorubric.core.entry_kinds import read_headings
from autorubric.core.misread_keys import find_hidden_weights, find_misread, find_total_rows, find_uneven_weights
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_shapes import TREE, as_entries, parse_rubric, read_criteria, unfold
from autorubric.core.rule_tags import read_check_tags
from autorubric.errors import InputError, collected
from autorubric.files.json_values import as_number, as_weight, is_finite
from autorubric.files.keys import describe_unknown_key, find_nearest_key
from autorubric.files.strict_json import parse_json
from autorubric.linting.finding import Location, RawCriterion, RawOption, RawRubric
from autorubric.rows import Record, RowReader
from autorubric.rows.columns import ROLES, fold_name, join_names
from autorubric.rows.record import NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS, find_rubric, read_question, to_plain

_CRITERION_KEYS = (*TEXT_KEYS[:4], *WEIGHT_KEYS[:2], *NAME_KEYS[:2], "options", "check", "tags")
# Columns of a run's step files: a merged rubric and its evolved criteria are one rubric.
_MERGED = ("merged_rubrics", "augmented_rubrics")
_CANDIDATES = ("rubrics_a", "rubrics_b")
_AT_INDEX = re.compile(r"Invalid criterion at index (\d+):\s*")
ROW_KEYS = (*_MERGED[:1], *ROLES["rubric"].quiet, *_CANDIDATES)
NO_RUBRIC = "the row has no rubric; expected one under 'rubrics', 'rubric' or 'criteria'"
"""The problem of a row without a rubric."""
_IN_ROW = ("query", "rubric", "id", "reference")


def is_row(record: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a row with a query and a rubric, rather than a criterion or a section.

    Example:
        >>> is_row({"question": "Why?", "rubrics": []}), is_row({"criterion": "Says why.", "points": 3})
        (True, False)
    """
    keys = {fold_name(key) for key in record}
    has_query = any(keys.intersection(ROLES[role].names + ROLES[role].fallback) for role in ("query", "id", "sample"))
    has_rubric = any(fold_name(key) in keys for key in ROW_KEYS)
    return has_query and has_rubric and not any(record.get(k) for k in TEXT_KEYS[:1])


def build_row_reader(file: str, columns: Mapping[str, str] | None = None) -> RowReader:
    """Return the reader of rows with a query and a rubric.

    Example:
        >>> build_row_reader("final.jsonl").roles
        ('query', 'rubric', 'id', 'reference')
    """
    return RowReader(file, _IN_ROW, given=columns or {})


def read_row(record: Record, place: Location) -> Iterator[RawRubric]:
    """Yield the rubrics of a row (see `build_row_reader`): one, or one per candidate rubric of a step file.

    Raises:
        InputError: the row has no rubric, or one that cannot be read.

    Example:
        >>> row = {"id": "q1", "question": "Why?", "rubrics": [{"criterion": "Names the cause.", "points": 7}]}
        >>> record = build_row_reader("final.jsonl").read(Record("final.jsonl:1", 1, row))
        >>> [rubric] = read_row(record, Location("final.jsonl", 1))
        >>> rubric.query, rubric.criteria[0].weight, rubric.place.record
        ('Why?', 7.0, 'q1')
    """
    query = read_query(record.read_value("query"))
    name = record.id if record.id is not None else str(record.fields.get("sample_id") or "")
    reference = record.read_value("reference") is not None
    for part, entries in _read_rubrics(record):
        own = Location(place.file, place.row, name, part)
        yield read_raw_rubric(entries, query, reference, own, f"{part}: " if part else "")


def read_query(value: Any) -> str:
    """Return the query: a text, or the user's turns in a conversation; empty if it is neither.

    Example:
        >>> read_query([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}])
        'Hi.'
    """
    try:
        prompt = read_question(to_plain(value), "query")
    except InputError:
        return ""
    if isinstance(prompt, str):
        return prompt
    asked = [turn["content"] for turn in prompt if turn["role"] == "user"]
    return "\n".join(asked or [turn["content"] for turn in prompt])


def list_entries(value: Any) -> list[Any]:
    """Return the criteria of a rubric in any of its shapes, as they were written, scales as options.

    Raises:
        InputError: it is not a rubric.

    Example:
        >>> list_entries({"sections": [{"name": "Style", "criteria": [{"requirement": "Is brief"}]}]})
        [{'requirement': 'Is brief', 'section': 'Style'}]
    """
    if isinstance(value, str):
        value = parse_rubric(value)
    if value is None:  # an empty file
        raise InputError("the list of criteria is empty")
    if not isinstance(value, Mapping | list | tuple):
        raise InputError(f"the criteria of a rubric are a list, got {type(value).__name__}")
    if isinstance(value, Mapping) or any(
        isinstance(entry, Mapping) and not isinstance(entry.get("criteria", ""), str) for entry in value
    ):
        value = unfold(dict(value) if isinstance(value, Mapping) else list(value)).entries
    return [read_scale(entry) if isinstance(entry, dict) else entry for entry in value]


def read_raw_rubric(
    entries: Sequence[Any],
    query: str = "",
    reference: bool = False,
    place: Location | None = None,
    where: str = "",
) -> RawRubric:
    """Return the rubric of a list of criteria in any shape; each problem begins with `where`.

    Raises:
        InputError: with one problem for each criterion that cannot be read.

    Example:
        >>> read_raw_rubric([{"title": "Dose", "description": "Names 4 g.", "weight": 9}]).criteria[0].label
        'Dose'
    """
    found: list[RawCriterion] = []
    problems: list[str] = []
    entries = read_headings(entries)
    for number, entry in enumerate(entries, 1):
        with collected(problems, f"{where}criterion {number}: "):
            found.append(read_raw_criterion(entry))
    if not problems and is_foreign(entries):
        uneven = find_uneven_weights(entries)
        problems += (f"{where}criterion {place + 1}: it {problem}" for place, problem in uneven)
        totals = find_total_rows((criterion.text, criterion.weight) for criterion in found)
        problems += (f"{where}{problem}" for problem in (*totals, *find_hidden_weights(entries)))
    if problems:
        raise InputError(problems)
    return RawRubric(found, query, reference, place or Location(), find_refusals(entries))


def find_refusals(entries: Sequence[Any]) -> list[tuple[int | None, str]]:
    """List why grading refuses bare texts and criteria in this package's format, with positions from 1.

    Example:
        >>> find_refusals([{"requirement": "Names 4 g.", "wieght": 3}])
        [(1, "wieght: unknown key 'wieght'; did you mean 'weight'?")]
        >>> find_refusals([{"criterion": "Names 4 g."}])
        []
    """
    if not entries:
        return [(None, "no criteria")]
    if not any(
        isinstance(entry, str) or (isinstance(entry, Mapping) and "requirement" in entry) for entry in entries
    ):
        return []
    try:
        Rubric(read_criteria(as_entries(list(entries))))
    except InputError as error:
        return [_parse_refusal(problem) for problem in error.problems]
    return []


def _parse_refusal(problem: str) -> tuple[int | None, str]:
    found = _AT_INDEX.match(problem)
    if found is None:
        return None, problem
    return int(found[1]) + 1, "; ".join(line.strip() for line in problem[found.end() :].splitlines())


def read_raw_criterion(entry: Any) -> RawCriterion:
    """Return one criterion: a `Criterion`, a mapping, or a bare text.

    Raises:
        InputError: with one problem for each key that cannot be read.

    Example:
        >>> read_raw_criterion({"criterion": "Names 4 g.", "points": "high"})
        Traceback (most recent call last):
        autorubric.errors.InputError: points is 'high'; expected a finite number
    """
    if isinstance(entry, RawCriterion):
        return entry
    if isinstance(entry, str):
        return RawCriterion(entry)
    if isinstance(entry, Criterion):
        entry = entry.model_dump(exclude_none=True)
    if not isinstance(entry, Mapping):
        raise InputError(f"expected a mapping or a string, got {type(entry).__name__}")
    is_own = "requirement" in entry
    used, problems = (RubricParts("requirement", "weight", "name"), []) if is_own else find_parts(entry)
    check = _read_check(entry, problems)
    text = _read_text(entry, used.text, problems, needed=check is None)
    weight = _read_weight(entry, used.weight, problems)
    options = _read_options(entry, problems)
    if not is_own and not problems:
        unknown = {key: value for key, value in entry.items() if key not in {*used} - {"text"}}
        known = {"weight": entry.get(used.weight), "options": options, "tags": entry.get("tags")}
        problems += find_misread(unknown, known)
    if problems:
        raise InputError(problems)
    name = str(entry.get(used.name) or "")
    return RawCriterion(text, weight, name, options, str(entry.get("scale_type", "ordinal")), check)


def _read_rubrics(record: Record) -> Iterator[tuple[str, list[Any]]]:
    """Yield each rubric of a row with the name of its part, which is empty for a single rubric."""
    row, column = record.fields, record.columns.get("rubric")
    if _MERGED[0] in row:
        yield "", [entry for key in _MERGED if row.get(key) is not None for entry in list_entries(row[key])]
        return
    value = None if column is None else row[column]
    if column == "reward_model":
        value = find_rubric(value)
    if value is not None:
        yield "", list_entries(to_plain(value, nulls=False))
        return
    candidates = [(key, list_entries(row[key])) for key in _CANDIDATES if row.get(key) is not None]
    if not candidates:
        raise InputError(_describe_missing_rubric(row))
    yield from candidates


def _describe_missing_rubric(row: Mapping[str, Any]) -> str:
    known = [key for key in ROW_KEYS if key.islower()]
    wrong = next((str(key) for key in row if find_nearest_key(str(key), known)), None)
    if wrong is not None:
        return describe_unknown_key(wrong, known, "the row")
    return TREE if "sub_tasks" in row else NO_RUBRIC


def _read_text(entry: Mapping[str, Any], key: str, problems: list[str], *, needed: bool) -> str:
    text = entry.get(key)
    if isinstance(text, str):
        return text
    if text is not None:
        problems.append(f"{key} is {text!r:.60}; expected a string")
    elif needed:
        problems.append(
            _describe_misspelling(entry, _CRITERION_KEYS)
            or f"it has no text; expected one of {', '.join(TEXT_KEYS[:4])}; its keys are {join_names(entry)}"
        )
    return ""


def _describe_misspelling(entry: Mapping[str, Any], known: Sequence[str]) -> str | None:
    """Return a message about a key of a criterion that is nearly one of these; None if there is no such key."""
    wrong = next((str(key) for key in entry if find_nearest_key(str(key), known)), None)
    return None if wrong is None else describe_unknown_key(wrong, _CRITERION_KEYS, "the criterion")


def _read_weight(entry: Mapping[str, Any], key: str, problems: list[str]) -> float:
    if entry.get(key) is None:
        problems += filter(None, [_describe_misspelling(entry, WEIGHT_KEYS[:2])])
        return 10.0
    value = as_weight(entry[key])
    if value is None:
        problems.append(f"{key} is {entry[key]!r:.60}; expected a finite number")
    return 10.0 if value is None else value


def _read_options(entry: Mapping[str, Any], problems: list[str]) -> tuple[RawOption, ...] | None:
    given = entry.get("options")
    if given in (None, []):
        return None
    if not isinstance(given, Sequence) or isinstance(given, str):
        problems.append(f"options are {given!r:.60}; expected a list of {{label, value}}")
        return None
    found: list[RawOption] = []
    for number, option in enumerate(given, 1):
        value = as_number(option.get("value")) if isinstance(option, Mapping) else None
        if not is_finite(value) or not isinstance(option.get("label"), str):
            problems.append(
                f"option {number} is {option!r:.60}; expected a label that is a string and a value that is a number"
            )
            continue
        found.append(RawOption(option["label"], float(value), bool(option.get("na"))))
    return tuple(found)


def _read_check(entry: Mapping[str, Any], problems: list[str]) -> Mapping[str, Any] | None:
    check = entry.get("check")
    # Parquet files store checks as JSON, because their parameters have no common columns.
    if isinstance(check, str) and check.lstrip().startswith(("{", "null")):
        check = parse_json(check, "check")
    with collected(problems):
        check = read_check_tags(entry.get("tags")) if check is None else check
    if isinstance(check, Mapping | None):
        return check
    problems.append(f"check is {check!r:.60}; expected a mapping with a name and parameters")
    return None
