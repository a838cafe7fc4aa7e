"""Criteria as files list them: a text, points, perhaps a title and tags, under names that differ by format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from autorubric.core.criterion import Criterion
from autorubric.core.described_scores import has_described_scores, scored_criterion
from autorubric.core.known_keys import error_lines
from autorubric.core.misread_keys import misread_keys, stray_weights, unweighted
from autorubric.core.rubric import Rubric
from autorubric.core.rubric_shapes import parse_rubric, shape_advice
from autorubric.core.rule_tags import rule_of_tags
from autorubric.errors import InputError
from autorubric.files.json_values import as_number, is_finite, without_nulls
from autorubric.files.strict_json import in_short
from autorubric.rows.columns import folded, listed
from autorubric.rows.record import HOLDERS, NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS, plain


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of an entry.

    Attributes:
        text: of the requirement, in order of preference.
        weight: of the weight, likewise.
        name: of the title, likewise.
        default: the weight of an entry without any; None where each has to have one.
    """

    text: tuple[str, ...]
    weight: tuple[str, ...]
    name: tuple[str, ...] = ()
    default: float | None = None


POINTS = Names(("criterion",), ("points",))
_HOLDERS = (*HOLDERS, "sections", "reward_model")
_CHOICE = ("options", "scale_type", "aggregation")
_USUAL = Names(TEXT_KEYS, WEIGHT_KEYS, NAME_KEYS, default=10.0)
KNOWN = frozenset((*TEXT_KEYS, *WEIGHT_KEYS, *NAME_KEYS, *Criterion.model_fields))
"""The keys of a criterion that are read."""


def read_entries(
    value: Any, key: str, names: Names, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> tuple[Criterion, ...]:
    """The criteria of a list of entries.

    Other keys of an entry become the criterion's metadata.

    Args:
        value: the list, or its JSON text.
        key: where it stands, for messages.
        names: the keys of an entry.
        more: further fields of the criterion, from an entry's other keys; it takes them all.

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
    entries = from_json_text(value, key)
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{key} is {entries!r:.60}; expected a list of criteria that is not empty")
    bare = unweighted(entries, names.weight) if names is _USUAL else []
    problems = [f"{key}[{index}] has no weight, but others have; give it one" for index in bare]
    criteria = []
    for index, entry in enumerate(entries):
        place = f"{key}[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{place} is {entry!r:.60}; expected an object")
            continue
        fields, used = _fields(entry, place, names, problems)
        if fields is None:
            continue
        try:
            rest = other_fields(entry, used)
            criteria.append(Criterion(**fields, **_further(rest, place, more)))
        except ValidationError as error:
            problems += (f"{place}: {line}" for line in error_lines(error))
        except InputError as error:
            problems += (f"{place}: {problem}" for problem in error.problems)
    if problems:
        raise InputError(problems)
    return tuple(criteria)


def _further(
    rest: dict[str, Any], place: str, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None
) -> dict[str, Any]:
    """The fields in the remaining keys of an entry; a `check` decides a criterion in every format."""
    check = rest.pop("check", None)
    fields = more(rest) if more is not None else {"metadata": rest}
    if isinstance(check, str) and check.lstrip().startswith("{"):
        check = from_json_text(check, f"{place}.check")
    return fields if check is None else {**fields, "check": check}


def _usual_fields(rest: Mapping[str, Any]) -> dict[str, Any]:
    """As `with_tags`, and the fields of a multi-choice criterion."""
    choice = {key: rest[key] for key in _CHOICE if key in rest}
    return {**with_tags(other_fields(rest, _CHOICE)), **choice}


def with_tags(rest: Mapping[str, Any]) -> dict[str, Any]:
    """The tags, check and metadata in the remaining keys of an entry, tags in either layout.

    Example:
        >>> with_tags({"tags": ["axis:accuracy", "verifier:rule", "function:CommaChecker", "parameters:{}"]})
        {'tags': ['axis:accuracy'], 'check': {'name': 'CommaChecker', 'parameters': {}}, 'metadata': {}}
    """
    tags = rest.get("tags")
    rule = rule_of_tags(tags)
    plain = tags if isinstance(tags, list) else []
    if not all(isinstance(tag, str) for tag in plain):
        raise InputError(f"tags are {tags!r:.60}; expected a list of strings")
    return {
        "tags": [tag for tag in plain if tag.partition(":")[0] not in ("verifier", "function", "parameters")],
        "check": None if rule is None else {"name": rule.function, "parameters": rule.parameters},
        "metadata": other_fields(rest, ("tags",)),
    }


def tagged_entry(criterion: Criterion) -> dict[str, Any]:
    """A criterion as text, points and a list of tags, which name its check as well.

    Example:
        >>> tagged_entry(Criterion(weight=2.5, requirement="No comma.", check={"name": "CommaChecker"}))["tags"]
        ['verifier:rule', 'function:CommaChecker', 'parameters:{}']
    """
    tags = list(criterion.tags)
    if criterion.check is not None:
        parameters = json.dumps(criterion.check.get("parameters", {}), ensure_ascii=False)
        tags += ["verifier:rule", f"function:{criterion.check['name']}", f"parameters:{parameters}"]
    return {"criterion": criterion.requirement, "points": number(criterion.weight), "tags": tags}


def from_json_text(value: Any, key: str) -> Any:
    """The value, read where it is JSON in a text, as tables keep nested data.

    Example:
        >>> from_json_text('[1]', "rubric"), from_json_text([1], "rubric")
        ([1], [1])
    """
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{key} is not valid JSON: {in_short(error)}") from None


def other_fields(row: Mapping[str, Any], known: Sequence[str] | frozenset[str]) -> dict[str, Any]:
    """The values of a mapping under other keys, without those that are None.

    Example:
        >>> other_fields({"id": "q1", "split": "test", "note": None}, ["id"])
        {'split': 'test'}
    """
    return {key: value for key, value in row.items() if key not in known and value is not None}


def number(weight: float) -> int | float:
    """A weight as files write it: whole where it is whole.

    Example:
        >>> number(5.0), number(2.5)
        (5, 2.5)
    """
    return int(weight) if weight == int(weight) else weight


def rubric_from(value: Any, where: str) -> Rubric:
    """The rubric in a row's field.

    Reads a `Rubric`, a JSON text, a list of criteria, and a mapping that contains one of them. A criterion is
    `{name, requirement, weight}`, or has its text, weight and title under the names of other formats, such as
    `{criterion, points, tags}` (RubricHub, verl, HealthBench) or `{title, description, weight}` (RaR). Tags with
    `verifier: rule` name the check that decides. A field that is null counts as absent: in a table, each criterion
    has the fields of all the others.

    Args:
        value: the field.
        where: its place, for messages.

    Raises:
        InputError: it has no criterion, or one is wrong.

    Example:
        >>> rubric = rubric_from([{"criterion": "Names the cause.", "points": 7}], "row 1")
        >>> rubric[0].requirement, rubric[0].weight
        ('Names the cause.', 7.0)
        >>> rubric_from([], "row 1")
        Traceback (most recent call last):
        autorubric.errors.InputError: row 1: the list of criteria is empty
    """
    if isinstance(value, Rubric):
        return value
    if isinstance(value, str) and value.strip():
        value = parse_rubric(value, f"{where}: ")
    value = plain(value, nulls=False)
    return _of_mapping(value, where) if isinstance(value, Mapping) else _rubric("rubric", value, {}, where)


def _of_mapping(value: Mapping[str, Any], where: str) -> Rubric:
    if has_described_scores(value):
        return Rubric([scored_criterion(value)])
    held = _holder(value)
    if held is None:
        keys = f"one of the keys {', '.join(_HOLDERS)}; its keys are {listed(value)}{shape_advice(value)}"
        raise InputError(f"{where}: has no rubric; expected a list of criteria, or {keys}")
    strays = [f"{where}: {problem}" for problem in stray_weights({**value, held: None})]
    if strays:
        raise InputError(strays)
    around = {name: value[name] for name in ("guidelines", "metadata") if value.get(name)}
    if isinstance(value[held], Mapping) and held in ("rubric", "criteria"):
        return rubric_from({**around, **value[held]}, where)
    if isinstance(value[held], Mapping | str):
        return rubric_from(value[held], where)
    return _rubric(held, value[held], around, where)


def table_criterion(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table of criteria as a criterion: usual names in any case, without blanks, its weight a number.

    Example:
        >>> table_criterion({"Criterion": "Is brief.", "Points": "-2", "Tags": ""})
        {'criterion': 'Is brief.', 'points': -2.0}
    """
    own = {name: folded(name) for name in row if name not in KNOWN}
    names = {name: key if key in KNOWN and key not in row else name for name, key in own.items()}
    held = {names.get(name, name): cell for name, cell in without_nulls(row).items() if cell != ""}
    numbers = {key: as_number(held.get(key)) for key in WEIGHT_KEYS if isinstance(held.get(key), str)}
    return {**held, **{key: number for key, number in numbers.items() if number is not None}}


def is_foreign(value: Any) -> bool:
    """Whether a rubric is JSON text, or lists its criteria as other formats do.

    Example:
        >>> is_foreign([{"criterion": "Is brief", "points": 2}]), is_foreign([{"requirement": "Is brief"}])
        (True, False)
    """
    if isinstance(value, Mapping):
        held = _holder(value)
        return held is not None and is_foreign(value[held])
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return isinstance(value, str)
    # A criterion of this package, or a section of such criteria.
    is_own = not isinstance(value[0], Mapping) or "requirement" in value[0] or "criteria" in value[0]
    return not is_own and any(key in value[0] for key in TEXT_KEYS)


def _holder(value: Mapping[str, Any]) -> str | None:
    return next((name for name in _HOLDERS if value.get(name)), None)


def _rubric(key: str, entries: Any, around: Mapping[str, Any], where: str) -> Rubric:
    if not entries:
        raise InputError(f"{where}: the list of criteria is empty")
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InputError(f"{where}: a rubric is a list of criteria, got {type(entries).__name__}")
    try:
        if is_foreign(entries):
            return Rubric(list(read_entries(entries, key, _USUAL, _usual_fields)), **around)
        return Rubric.from_dict({**around, "criteria": list(entries)} if around else list(entries))
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None


def _fields(
    entry: Mapping[str, Any], place: str, names: Names, problems: list[str]
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The fields of a criterion, None after adding to `problems`, and the keys that they are under."""
    text_key, text = _first(entry, names.text)
    weight_key, weight = _first(entry, names.weight)
    rivals = [
        (mine, key)
        for mine, keys in ((text_key, names.text), (weight_key, names.weight[:2]))
        for key in keys
        if entry.get(key) not in (None, "", entry.get(mine))
    ]
    name_key, title = _first(entry, names.name) if names.name else ("", None)
    found = []
    if text is None:
        found.append(f"{place} has no text under {listed(names.text, 4)}; its keys are {listed(entry)}")
    elif not isinstance(text, str) or not text.strip():
        found.append(f"{place}.{text_key} is {text!r:.60}; expected the text of a criterion")
    # `text` stays, as it tells files of verifiers from others.
    if unknown := {key: value for key, value in entry.items() if key not in KNOWN or key == "text"}:
        # Where each has to have a weight, one without is refused below; formats with choices name them otherwise.
        options = entry.get("options") if names.default in (None, _USUAL.default) else ()
        known = {"weight": 0 if weight is None and names.default is None else weight, "options": options}
        found += (f"{place}: {problem}" for problem in misread_keys(unknown, known))
    weight = names.default if weight is None else weight
    if not is_finite(weight):
        found.append(f"{place}.{weight_key} is {weight!r:.60}; expected a finite number")
    found += (
        f"{place} has {mine}={entry[mine]!r:.60} and {key}={entry[key]!r:.60}; leave one out, or rename it"
        for mine, key in rivals
    )
    if title is not None and not isinstance(title, str):
        found.append(f"{place}.{name_key} is {title!r:.60}; expected a string")
    problems += found
    fields = {"requirement": text, "weight": weight, "name": title or None}
    return None if found else fields, (text_key, weight_key, name_key)


def _first(entry: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    return next(((key, entry[key]) for key in keys if entry.get(key) is not None), (keys[0], None))
