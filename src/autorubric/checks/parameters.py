"""Parameters of a check, validated before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from autorubric.checks.outcome import CheckContext
from autorubric.errors import InputError
from autorubric.files.keys import nearest

Parameters = Mapping[str, Any]
_OWN = "parameter_"
_BOUNDS = {"at_least", "at_most"}


@lru_cache(maxsize=256)
def parameter_model(function: Callable[..., Any]) -> type[BaseModel]:
    """The strict pydantic model of a check's keyword parameters; its JSON Schema documents them.

    Example:
        >>> from autorubric.checks.phrases import starts_with
        >>> sorted(parameter_model(starts_with).model_json_schema()["properties"])
        ['ignore_case', 'prefix']
    """
    hints = get_type_hints(function, include_extras=True)
    # Under a name of its own, since a parameter may be called what BaseModel uses itself, as `schema` is.
    fields: dict[str, Any] = {
        f"{_OWN}{name}": (
            hints[name],
            Field(... if parameter.default is parameter.empty else parameter.default, alias=name),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and hints[name] is not CheckContext
    }
    return create_model(function.__name__, __config__=ConfigDict(strict=True, extra="forbid"), **fields)


def validated(check: str, function: Callable[..., Any], parameters: object) -> dict[str, Any]:
    """The parameters a check runs with: nulls dropped, integral doubles as integers, types as declared.

    Raises:
        InputError: every unknown, missing or unusable parameter, with the check's name.

    Example:
        >>> from autorubric.checks.length import word_count
        >>> validated("word_count", word_count, {"at_least": 2.0, "at_most": None})
        {'at_least': 2}
    """
    if not isinstance(parameters, Mapping):
        raise InputError(f"check {check!r}: parameters are {parameters!r}; expected a mapping of names to values")
    given = {name: plain(value) for name, value in parameters.items() if value is not None}
    known = [name.removeprefix(_OWN) for name in parameter_model(function).model_fields]
    try:
        model = parameter_model(function).model_validate(given)
    except ValidationError as error:
        raise InputError(_problems(check, error, given, known)) from None
    values = {name: getattr(model, f"{_OWN}{name}") for name in known if name in given}
    problems = [f"check {check!r}: {problem}" for law in _LAWS if (problem := law(values)) is not None]
    if _is_open(model) and not _BOUNDS & set(values):
        problems.append(f"check {check!r}: neither at_least nor at_most is given; nothing can fail")
    if problems:
        raise InputError(problems)
    return values


def plain(value: Any) -> Any:
    """A value as JSON has it: integral doubles become integers, tuples and arrays lists.

    Example:
        >>> plain((2.0, 2.5, "2.0"))
        [2, 2.5, '2.0']
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def _problems(check: str, error: ValidationError, given: Parameters, known: list[str]) -> list[str]:
    problems: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0])
        if detail["type"] == "missing":
            said = f"parameter {name!r} is missing"
        elif detail["type"] == "extra_forbidden":
            near = nearest(name, known)
            advice = f"did you mean {near!r}?" if near else f"expected {', '.join(known) or 'no parameters'}"
            said = f"unknown parameter {name!r}; {advice}"
        elif detail["type"] == "value_error":
            said = f"parameter {name!r} {detail['ctx']['error']}"
        else:
            said = f"parameter {name!r} is {given.get(name)!r}; {detail['msg'][0].lower()}{detail['msg'][1:]}"
        problems.setdefault(name, f"check {check!r}: {said}")
    return list(problems.values())


def _is_open(model: BaseModel) -> bool:
    """Whether a check only compares a count with its bounds, and has none by default."""
    fields = {name.removeprefix(_OWN): field for name, field in type(model).model_fields.items()}
    return _BOUNDS <= set(fields) <= _BOUNDS | {"spaces"} and fields["at_least"].default is None


def _bounds_hold(values: Parameters) -> str | None:
    low, high = values.get("at_least"), values.get("at_most")
    if low is not None and high is not None and low > high:
        return f"at_least={low} is above at_most={high}; nothing can pass"
    return None


def _nth_paragraph_exists(values: Parameters) -> str | None:
    nth, count = values.get("nth_paragraph"), values.get("num_paragraphs")
    if nth is not None and count is not None and nth > count:
        return f"nth_paragraph={nth} is above num_paragraphs={count}; nothing can pass"
    return None


def _span_is_forward(values: Parameters) -> str | None:
    start, end = values.get("n_start"), values.get("n_end")
    if start is not None and end is not None and start > end:
        return f"n_start={start} is above n_end={end}; the span is empty"
    return None


# What must hold between parameters, whichever check has them.
_LAWS = (_bounds_hold, _nth_paragraph_exists, _span_is_forward)
