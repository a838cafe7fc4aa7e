"""What pydantic finds wrong with a value, in plain English."""

from collections.abc import Mapping, Sequence
from typing import Any

_EXPECTED = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "mapping": "a mapping",
    "model": "a mapping",
    "dataclass": "a mapping",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "callable": "a function",
    "is_instance_of": "an object of the class {class}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "a string that is not blank",
}
_ENDINGS = ("_type", "_parsing", "_from_float", "_attributes", "_exact")


def describe_expectation(problem: Mapping[str, Any], shape: str = "") -> str:
    """Return what was expected of a value, such as `expected a whole number`; a validator's own message is unchanged.

    Args:
        problem: one of the errors of a `ValidationError`.
        shape: what is expected there, if a type does not say it.

    Example:
        >>> from pydantic import TypeAdapter, ValidationError
        >>> try:
        ...     TypeAdapter(list[int]).validate_python(["many"])
        ... except ValidationError as error:
        ...     [(format_place(one["loc"]), describe_expectation(one)) for one in error.errors()]
        [('[0]', 'expected a whole number')]
    """
    kind, values = problem["type"], problem.get("ctx", {})
    if isinstance(values.get("error"), Exception):
        return str(values["error"])
    for ending in _ENDINGS:
        kind = kind.removesuffix(ending)
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return "unknown key"
    known = _EXPECTED.get(kind)
    if known is None:
        return str(problem["msg"]).replace("Input should be", "expected").replace("Input should", "must")
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
    return f"expected {shape or known.format(**shown)}"


def format_place(place: Sequence[str | int]) -> str:
    """Return the path to a place in nested values.

    Example:
        >>> format_place(("options", 0, "value"))
        'options[0].value'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


__all__ = ["describe_expectation", "format_place"]
