"""Dataclasses that are frozen for type checkers and cheap to make."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

V = TypeVar("V")

if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:

    def value_class(*, frozen: bool, slots: bool) -> Any:
        """Decorate a dataclass that mypy treats as frozen, for values created in each model call; hashed by fields.

        At run time no assignment is refused: `dataclass(frozen=True)` sets each field by a call of
        `object.__setattr__`, which took a tenth of what grading costs beyond its HTTP requests.
        """
        from dataclasses import dataclass

        return dataclass(slots=slots, unsafe_hash=frozen)


def copy_with(value: V, **fields: Any) -> V:
    """Return a copy of a value with other fields, as by `dataclasses.replace`, in a third of the time.

    Example:
        >>> @value_class(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> copy_with(Point(1), y=2)
        Point(x=1, y=2)
    """
    kind: Any = type(value)
    values = _VALUES_OF.get(kind) or _VALUES_OF.setdefault(kind, attrgetter(*kind.__match_args__))
    copy: V = kind(*values(value))
    for name, now in fields.items():
        setattr(copy, name, now)
    return copy


_VALUES_OF: dict[type, attrgetter[tuple[Any, ...]]] = {}


__all__ = ["copy_with", "value_class"]
