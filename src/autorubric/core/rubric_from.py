"""The rubric in a field of a row, in any of its shapes."""

from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.core.rubric_shapes import parse_rubric
from autorubric.errors import InputError, problems_at
from autorubric.rows.record import to_plain


def rubric_from(value: Any, where: str, *, nulls: bool = False) -> Rubric:
    """Return the rubric in a row's field: a `Rubric`, a JSON text, or what `Rubric.from_dict` reads.

    Args:
        value: the field.
        where: its place, for messages.
        nulls: whether keys with null count; in a table, each criterion has the keys of all the others.

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
    value = value if nulls else to_plain(value, nulls=False)
    if value is None or (not value and not nulls):
        raise InputError(f"{where}: the list of criteria is empty")
    if not isinstance(value, list | dict):
        raise InputError(f"{where}: a rubric is a list of criteria, got {type(value).__name__}")
    with problems_at(f"{where}: "):
        return Rubric.from_dict(value)
