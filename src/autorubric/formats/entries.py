"""Criteria as rows list them: a text, points, perhaps a title and tags, under names that differ by format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from autorubric.checks import rule_of_tags
from autorubric.core.criterion import Criterion
from autorubric.core.known_keys import error_lines
from autorubric.errors import InputError
from autorubric.files.numbers import is_finite
from autorubric.files.strict_json import in_short
from autorubric.formats.record import number, rest_of


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of an entry.

    Attributes:
        text: of the requirement, in order of preference.
        weight: of the weight.
        name: of the title, where there is one.
        default: the weight of an entry without any; None where each has to have one.
    """

    text: tuple[str, ...]
    weight: tuple[str, ...]
    name: str | None = None
    default: float | None = None


POINTS = Names(("criterion",), ("points",))


def read_entries(
    value: Any, key: str, names: Names, more: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> tuple[Criterion, ...]:
    """The criteria of a list of entries.

    Keys of an entry that are none of the names become the criterion's metadata.

    Args:
        value: the list, or its JSON text.
        key: where it stands, for messages.
        names: the keys of an entry.
        more: further fields of the criterion, from an entry's other keys; it takes them all.

    Raises:
        InputError: there are no entries, or some are wrong; all of them are named.

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
    problems: list[str] = []
    criteria = []
    for index, entry in enumerate(entries):
        place = f"{key}[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{place} is {entry!r:.60}; expected an object")
            continue
        fields = _fields(entry, place, names, problems)
        if fields is None:
            continue
        try:
            rest = rest_of(entry, frozenset((*names.text, *names.weight, names.name or "")))
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
    return fields if check is None else {**fields, "check": from_json_text(check, f"{place}.check")}


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
        raise InputError(f"tags are {tags!r:.60}; expected a list of texts")
    return {
        "tags": [tag for tag in plain if tag.partition(":")[0] not in ("verifier", "function", "parameters")],
        "check": None if rule is None else {"name": rule.function, "parameters": rule.parameters},
        "metadata": rest_of(rest, ("tags",)),
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


def _fields(entry: Mapping[str, Any], place: str, names: Names, problems: list[str]) -> dict[str, Any] | None:
    text_key, text = _first(entry, names.text)
    weight_key, weight = _first(entry, names.weight)
    found = []
    if not isinstance(text, str) or not text.strip():
        found.append(f"{place}.{text_key} is {text!r:.60}; expected the text of a criterion")
    if weight is None and names.default is not None:
        weight = names.default
    if not is_finite(weight):
        found.append(f"{place}.{weight_key} is {weight!r:.60}; expected a finite number")
    title = entry.get(names.name) if names.name else None
    if title is not None and not isinstance(title, str):
        found.append(f"{place}.{names.name} is {title!r:.60}; expected text")
    problems += found
    return None if found else {"requirement": text, "weight": weight, "name": title or None}


def _first(entry: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    return next(((key, entry[key]) for key in keys if entry.get(key) is not None), (keys[0], None))
