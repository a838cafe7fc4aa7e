"""Dataclasses that are frozen for type checkers and cheap to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:

    def value_class(*, frozen: bool, slots: bool) -> Any:
        """A dataclass that mypy holds frozen, for values that each call to a model makes; hashed by its fields.

        At run time no assignment is refused: `dataclass(frozen=True)` sets each field by a call of
        `object.__setattr__`, which took a tenth of what grading costs beyond its HTTP requests.
        """
        from dataclasses import dataclass

        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["value_class"]
