"""Rubrics as training rows carry them: RubricHub's, RaR's and verl's criteria, and this package's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric.checks.rules.tags import rule_of_tags
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.files.strict_json import parse_json

_HOLDERS = ("rubric", "rubrics", "Rubrics", "criteria", "reward_model", "rubric_items")


def rubric_from(value: Any, where: str) -> Rubric:
    """The rubric in a row's field.

    Reads a `Rubric`, a JSON text, a list of criteria, and a mapping that holds one of them. A criterion is
    `{criterion, points, tags}` (RubricHub, verl, HealthBench), `{title, description, weight}` (RaR) or
    `{name, requirement, weight}`. Tags with `verifier: rule` name the check that decides.

    Args:
        value: the field.
        where: its place, for messages.

    Raises:
        InputError: there is no criterion in it, or one is wrong.

    Example:
        >>> rubric = rubric_from([{"criterion": "Names the cause.", "points": 7}], "row 1")
        >>> rubric[0].requirement, rubric[0].weight
        ('Names the cause.', 7.0)
        >>> rubric_from([], "row 1")
        Traceback (most recent call last):
        autorubric.errors.InputError: row 1: has no rubric
    """
    if isinstance(value, Rubric):
        return value
    if isinstance(value, str) and value.strip():
        value = parse_json(value, where)
    value = _plain(value)
    if isinstance(value, Mapping):
        held = next((name for name in _HOLDERS if value.get(name)), None)
        if held is None:
            raise InputError(f"{where}: has no rubric; expected one of the keys {', '.join(_HOLDERS)}")
        if held not in ("rubric", "criteria"):
            return rubric_from(value[held], where)
        rest = {key: value[key] for key in ("guidelines", "metadata") if value.get(key)}
        value = {**rest, "criteria": _listed(_plain(value[held]), where)}
    elif not value:
        raise InputError(f"{where}: has no rubric")
    else:
        value = _listed(value, where)
    try:
        return Rubric.from_dict(value)
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None


def rubric_rows(rubric: Rubric) -> list[dict[str, Any]]:
    """The criteria as RubricHub's release has them: `criterion` and `points`.

    Example:
        >>> rubric_rows(rubric_from([{"requirement": "Is brief", "weight": 2.5}], "row 1"))
        [{'criterion': 'Is brief', 'points': 2.5}]
    """
    return [{"criterion": criterion.requirement, "points": _points(criterion.weight)} for criterion in rubric]


def _points(weight: float) -> int | float:
    return int(weight) if weight.is_integer() else weight


def _plain(value: Any) -> Any:
    """A list in the place of an array, which is what parquet readers make of one."""
    return value.tolist() if hasattr(value, "tolist") else value


def _listed(value: Any, where: str) -> list[Any]:
    if isinstance(value, Mapping):
        return _listed(_plain(value.get("criteria") or value.get("rubric")), where)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"{where}: a rubric is a list of criteria, got {type(value).__name__}")
    return [_criterion(_plain(entry), f"{where}: criterion {number}") for number, entry in enumerate(value, start=1)]


def _criterion(entry: Any, where: str) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "criterion" in entry:
        record = {"requirement": entry["criterion"], "weight": entry.get("points", entry.get("weight"))}
        known = {"criterion", "points", "weight", "tags"}
    elif "description" in entry and "requirement" not in entry:
        record = {"requirement": entry["description"], "weight": entry.get("weight"), "name": entry.get("title")}
        known = {"description", "weight", "title", "tags"}
    else:
        return dict(entry)
    record.update(_tagged(_plain(entry.get("tags")), where))
    if extra := {key: value for key, value in entry.items() if key not in known and value is not None}:
        record["metadata"] = extra
    return {key: value for key, value in record.items() if value is not None}


def _tagged(tags: Any, where: str) -> dict[str, Any]:
    """The check or the tags of a criterion; structs of parquet carry null for every key that is not used."""
    try:
        rule = rule_of_tags(tags)
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None
    if rule is not None:
        return {"check": {"name": rule.function, "parameters": rule.parameters}}
    return {"tags": list(tags)} if tags and not isinstance(tags, Mapping) else {}
