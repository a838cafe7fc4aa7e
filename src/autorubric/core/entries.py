"""Criteria as files list them: a text, points, perhaps a title and tags, under names that differ by format."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from autorubric.core.criterion import Criterion
from autorubric.core.known_keys import format_errors
from autorubric.core.misread_keys import find_misread, find_uneven_weights, find_usual_keys, find_wholes
from autorubric.core.rule_tags import read_check_tags
from autorubric.errors import InputError, problems_at, warn
from autorubric.files.json_values import as_weight, drop_nulls, is_finite
from autorubric.files.strict_json import describe_parse_error
from autorubric.files.text import decode, read_text
from autorubric.rows import inspect_file
from autorubric.rows.columns import ROLES, fold_name, join_names
from autorubric.rows.kind import ROW_ENDINGS
from autorubric.rows.record import HOLDERS, NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of an entry.

    Attributes:
        text: the keys of the requirement, in order of preference.
        weight: the keys of the weight, in the same order.
        name: the keys of the title, in the same order.
        default: the weight of an entry without one; None if every entry needs one.
    """

    text: tuple[str, ...]
    weight: tuple[str, ...]
    name: tuple[str, ...] = ()
    default: float | None = None


POINTS = Names(("criterion",), ("points",))
USUAL = Names(TEXT_KEYS, WEIGHT_KEYS, NAME_KEYS, default=10.0)
"""The names that files use."""
_OWN = frozenset(Criterion.model_fields)
HEADINGS = ("criteri", "kriteri", "critère", "critéri", "критери", "観点", "評価項目", "평가항목", "المعيار")
_FURTHER = ("options", "scale_type", "aggregation", "section")


class RubricParts(NamedTuple):
    """The keys of an entry with the parts of a criterion; empty for a missing part."""

    text: str
    weight: str
    name: str


def find_parts(entry: Mapping[str, Any], names: Names = USUAL) -> tuple[RubricParts, list[str]]:
    """Return the keys of an entry's parts, ignoring case, and a message for each part that is ambiguous.

    A heading under `criterion`, in any language, next to a longer text is the name if there is no other.

    Example:
        >>> find_parts({"Criterion": "Tone", "Description": "Is kind.", "Points": 2})[0]
        RubricParts(text='Description', weight='Points', name='Criterion')
        >>> find_parts({"criterion": "Is kind.", "text": "Is brief."})[1]
        ["criterion='Is kind.' and text='Is brief.'; leave one out, or rename it"]
    """
    keys = [find_usual_keys(tuple(entry), usual) for usual in (names.text, names.weight, names.name)]
    texts, weights, titles = ([key for key in found if entry[key] not in (None, "")] for found in keys)
    if len(texts) == 2 and not titles:
        heading, text = sorted(texts, key=lambda key: not fold_name(key).startswith(HEADINGS))
        titles, texts = ([heading], [text]) if _is_heading(entry[heading], entry[text]) else ([], texts)
    problems = [
        f"{texts[0]}={entry[texts[0]]!r:.60} and {key}={entry[key]!r:.60}; leave one out, or rename it"
        for key in texts[1:]
        if entry[key] != entry[texts[0]]
    ]
    found = zip((texts, weights, titles), keys, strict=True)
    return RubricParts(*(next(iter([*full, *others]), "") for full, others in found)), problems


_OF_ROWS = frozenset((*ROLES["query"].names, *ROLES["submission"].names))


def is_criterion(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a criterion, not a query or a submission: it has a weight, and a text or a heading.

    Example:
        >>> [is_criterion({key: "Is kind.", "points": 2}) for key in ("criterion", "title", "question", "note")]
        [True, True, False, False]
        >>> [is_criterion({"criterion": "Is kind.", "points": 2, key: "1"}) for key in ("id", "prompt_id", "answer")]
        [True, False, False]
    """
    parts = find_parts(row)[0]
    others = {fold_name(key).removesuffix("_id") for key in row if key != parts.text}
    return bool(parts.weight and (parts.text or parts.name)) and others.isdisjoint(_OF_ROWS)


def _is_heading(one: Any, other: Any) -> bool:
    """Return whether a text is the heading of another one."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return len(one) < min(len(other), 60) and not one.rstrip().endswith((".", "。", "?", "？", ";"))


def read_entries(
    value: Any, key: str, names: Names, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> tuple[Criterion, ...]:
    """Return the criteria of a list of entries.

    Other keys of an entry become the criterion's metadata.

    Args:
        value: the list, or its JSON text.
        key: its place, for messages.
        names: the keys of an entry.
        more: returns further fields of the criterion, given all other keys of an entry.

    Raises:
        InputError: there are no entries, or some are wrong; every wrong one is named.

    Example:
        >>> read_entries([{"criterion": "Names the dose.", "points": 5}], "rubrics", POINTS)
        (Criterion(weight=5.0, requirement='Names the dose.'),)
        >>> read_entries([{"criterion": " ", "points": True}], "rubrics", POINTS)
        Traceback (most recent call last):
        autorubric.errors.InputError: 2 problems:
          rubrics[0].criterion is ' '; expected the text of a criterion
          rubrics[0].points is True; expected a finite number
    """
    entries, more = from_json_text(value, key), read_usual_fields if names is USUAL else more
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{key} is {entries!r:.60}; expected a list of criteria that is not empty")
    problems: list[str] = []
    criteria = []
    for index, entry in enumerate(entries):
        place = f"{key}[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{place} is {entry!r:.60}; expected an object")
            continue
        try:
            criteria.append(_read_criterion(entry, place, names, more))
        except ValidationError as error:
            problems += (f"{place}: {line}" for line in format_errors(error))
        except InputError as error:
            problems += error.problems
    if names is USUAL and len(criteria) == len(entries):
        problems += (f"{key}[{index}] {problem}" for index, problem in find_uneven_weights(entries))
    if problems:
        raise InputError(problems)
    return tuple(criteria)


def read_usual_fields(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags, check, metadata and other fields of a criterion in the remaining keys of an entry.

    Example:
        >>> read_usual_fields({"section": "Style", "axis": "tone", "metadata": {"by": "me"}})["metadata"]
        {'axis': 'tone', 'by': 'me'}
    """
    fields = {key: rest[key] for key in _FURTHER if rest.get(key) not in (None, [])}
    own = rest.get("metadata")
    known = (*_FURTHER, "metadata") if isinstance(own, Mapping) else _FURTHER
    made = read_tags(pick_others(rest, known))
    return {**made, **fields, "metadata": {**made["metadata"], **(own if isinstance(own, Mapping) else {})}}


def read_tags(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags, check and metadata in the remaining keys of an entry, tags in either layout.

    Example:
        >>> read_tags({"tags": ["axis:accuracy", "verifier:rule", "function:CommaChecker", "parameters:{}"]})
        {'tags': ['axis:accuracy'], 'check': {'name': 'CommaChecker', 'parameters': {}}, 'metadata': {}}
    """
    tags = rest.get("tags")
    check = read_check_tags(tags)
    plain = tags if isinstance(tags, list) else []
    if not all(isinstance(tag, str) for tag in plain):
        raise InputError(f"tags are {tags!r:.60}; expected a list of strings")
    return {
        "tags": [tag for tag in plain if tag.partition(":")[0] not in ("verifier", "function", "parameters")],
        "check": check,
        "metadata": pick_others(rest, ("tags",)),
    }


def build_tagged_entry(criterion: Criterion) -> dict[str, Any]:
    """Return a criterion as text, points and a list of tags, which also name its check.

    Example:
        >>> build_tagged_entry(Criterion(weight=2.5, requirement="No comma.", check={"name": "CommaChecker"}))["tags"]
        ['verifier:rule', 'function:CommaChecker', 'parameters:{}']
    """
    tags = list(criterion.tags)
    if criterion.check is not None:
        parameters = json.dumps(criterion.check.get("parameters", {}), ensure_ascii=False)
        tags += ["verifier:rule", f"function:{criterion.check['name']}", f"parameters:{parameters}"]
    return {"criterion": criterion.requirement, "points": as_points(criterion.weight), "tags": tags}


def from_json_text(value: Any, key: str) -> Any:
    """Return the value, parsed if it is JSON text, as tables store nested data.

    Example:
        >>> from_json_text('[1]', "rubric"), from_json_text([1], "rubric")
        ([1], [1])
    """
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{key} is not valid JSON: {describe_parse_error(error)}") from None


def pick_others(row: Mapping[str, Any], known: Sequence[str] | frozenset[str]) -> dict[str, Any]:
    """Return the values of a mapping under other keys, without those that are None.

    Example:
        >>> pick_others({"id": "q1", "split": "test", "note": None}, ["id"])
        {'split': 'test'}
    """
    return {key: value for key, value in row.items() if key not in known and value is not None}


def as_points(weight: float) -> int | float:
    """Return a weight as files write it: an integer if it is whole.

    Example:
        >>> as_points(5.0), as_points(2.5)
        (5, 2.5)
    """
    return int(weight) if weight == int(weight) else weight


def read_table_criterion(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table of criteria as a criterion: field names in any case, blank cells left out.

    Example:
        >>> read_table_criterion({"Requirement": "Is brief.", "Weight": "-2", "Tags": ""})
        {'requirement': 'Is brief.', 'weight': '-2'}
    """
    cells = {name: cell for name, cell in drop_nulls(row).items() if cell != ""}
    return {fold_name(name) if fold_name(name) in _OWN - cells.keys() else name: cell for name, cell in cells.items()}


def read_columns(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the criteria in a mapping of lists, as Parquet and `datasets` store lists of structs; empty for others.

    Raises:
        InputError: the lists have different lengths.

    Example:
        >>> read_columns({"criterion": ["Is kind.", "Is brief."], "points": [2, None]})
        [{'criterion': 'Is kind.', 'points': 2}, {'criterion': 'Is brief.'}]
    """
    is_table = all(isinstance(column, list) for column in data.values()) and not {*HOLDERS, "sections"} & data.keys()
    text = find_parts(data)[0].text if is_table else ""
    if not text or any(isinstance(cell, Mapping) for cell in data[text]):
        return []
    lengths = {key: len(column) for key, column in data.items()}
    if len({*lengths.values()}) > 1:
        raise InputError(f"the lists of the rubric have different lengths: {lengths}")
    cells = zip(*data.values(), strict=True)
    return [{key: cell for key, cell in zip(data, row, strict=True) if cell is not None} for row in cells]


BY_PATH = (".md", *ROW_ENDINGS)
"""Extensions of files of criteria that are read by path only."""


def read_rubric_file(path: str | Path, *, what: str = "Rubric file") -> Any:
    r"""Return the value of a rubric in an input of any kind; in a table and in JSON Lines each row is a criterion.

    Args:
        path: the input.
        what: the noun for the message about a missing file.

    Raises:
        InputError: it cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rubric.csv"
        >>> _ = path.write_text("Name,Requirement\nTone,Is kind.\n")
        >>> read_rubric_file(path)
        [{'name': 'Tone', 'requirement': 'Is kind.'}]
    """
    found = inspect_file(path, what=what)
    if found.is_document:
        return found.read_document()
    problems: list[str] = []
    rows = [
        (read_table_criterion if found.is_table else drop_nulls)(record.fields)
        for record in found.iter_rows(problems)
    ]
    if problems:
        raise InputError(problems)
    if found.is_table and (wholes := [*find_wholes(rows)]):
        raise InputError(wholes)
    rubrics = {str(row["Rubric Name"]) for row in rows if found.is_table and "Rubric Name" in row}
    if len(rubrics) > 1:
        raise InputError(f"{found.name}: it has {len(rubrics)} rubrics by 'Rubric Name'; write each to its own file")
    without = [number for number, row in enumerate(rows, 1) if found.is_table and not row.get("section")]
    if without and len(without) < len(rows):
        message = f"{len(without)} of {len(rows)} criteria have no section, the first is criterion {without[0]}"
        warn(f"{found.name}: {message}; if cells were merged, fill them all in")
    return rows[0] if len(rows) == 1 and not found.is_table and not rows[0].keys().isdisjoint(HOLDERS) else rows


def read_source(source: Any) -> tuple[str, str, str]:
    """Return the name, the extension and the text of a path or an open file.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is neither, has another extension, or is not UTF-8.

    Example:
        >>> read_source(3)
        Traceback (most recent call last):
        autorubric.errors.InputError: Cannot determine file format of 3; expected a path, or an open file with a name
    """
    if isinstance(source, (str, Path)):
        return str(source), check_extension(str(source)), read_text(source)
    if not hasattr(source, "read") or not isinstance(name := getattr(source, "name", None), (str, Path)):
        raise InputError(f"Cannot determine file format of {source!r}; expected a path, or an open file with a name")
    text = content if isinstance(content := source.read(), str) else decode(content, str(name))
    return str(name), check_extension(str(name)), text


def check_extension(name: str) -> str:
    """Return the extension of a rubric file in lower case.

    Raises:
        InputError: rubrics are not kept in such files.

    Example:
        >>> check_extension("rubric.YAML")
        '.yaml'
    """
    if (extension := Path(name).suffix.lower()) not in (".json", ".yaml", ".yml"):
        known = f".yaml, .yml, .json; by path also {', '.join(BY_PATH)}"
        raise InputError(f"{name}: Unsupported file format {extension!r}. Supported formats: {known}")
    return extension


def is_foreign(entries: Sequence[Any]) -> bool:
    """Return whether criteria have the keys of other formats: another one than `requirement` or `weight`.

    Example:
        >>> is_foreign([{"criterion": "Is brief", "points": 2}]), is_foreign([{"requirement": "Is brief"}])
        (True, False)
    """
    if not entries or any(not isinstance(entry, Mapping) or "requirement" in entry for entry in entries):
        return False
    return any((used := find_parts(entry)[0]).text or used.weight not in ("", "weight") for entry in entries)


def _read_criterion(
    entry: Mapping[str, Any], place: str, names: Names, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None
) -> Criterion:
    """Return the criterion of an entry."""
    used, rivals = find_parts(entry, names)
    text, weight, title = (entry.get(key) for key in used)
    found = [f"{place} has {rival}" for rival in rivals]
    if text is None:
        found.append(f"{place} has no text under {join_names(names.text, 4)}; its keys are {join_names(entry)}")
    elif not isinstance(text, str) or not text.strip():
        found.append(f"{place}.{used.text} is {text!r:.60}; expected the text of a criterion")
    # `text` stays, because it marks files of verifiers.
    unknown = {key: value for key, value in entry.items() if key not in (_OWN | {*used}) - {"text"}}
    if unknown or entry.get("tags"):
        # If every entry needs a weight, one without is refused below; formats with choices have other keys for them.
        options = entry.get("options") if names.default in (None, USUAL.default) else [""]
        known = {"weight": 0 if weight is None and names.default is None else weight, "options": options}
        found += (f"{place}: {problem}" for problem in find_misread(unknown, {**known, "tags": entry.get("tags")}))
    # In files of named formats, weights are numbers.
    number = names.default if weight is None else as_weight(weight) if names is USUAL else weight
    if not is_finite(number):
        found.append(f"{place}.{used.weight or names.weight[0]} is {weight!r:.60}; expected a finite number")
    if title is not None and not isinstance(title, str):
        found.append(f"{place}.{used.name} is {title!r:.60}; expected a string")
    if found:
        raise InputError(found)
    fields = _read_further_fields(pick_others(entry, used), place, more)
    return Criterion(**{"requirement": text, "weight": number, "name": title or None, **fields})


def _read_further_fields(
    rest: dict[str, Any], place: str, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None
) -> dict[str, Any]:
    """Return the fields in the remaining keys of an entry; a `check` decides a criterion in every format."""
    check = rest.pop("check", None)
    if isinstance(check, str) and check.lstrip().startswith("{"):
        check = from_json_text(check, f"{place}.check")
    with problems_at(f"{place}: "):
        fields = {"metadata": rest} if more is None else more(rest)
    return fields if check is None else {**fields, "check": check}
