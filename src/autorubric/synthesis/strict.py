"""Settings that refuse what they do not know."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Strict(BaseModel):
    """Frozen settings without room for unknown keys.

    Example:
        >>> class Speed(Strict):
        ...     calls: int = 8
        >>> Speed(calls=9).calls
        9
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`concurrency: yes` of another YAML is no one call in flight."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and {kind, *get_args(kind)} & {int, float}:
            raise ValueError("expected a number, no truth value")
        return value
