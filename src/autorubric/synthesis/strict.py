"""Settings that refuse what they do not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Frozen settings without room for unknown keys.

    Example:
        >>> class Speed(Strict):
        ...     calls: int = 8
        >>> Speed(calls=9).calls
        9
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
