"""An environment for templates from others."""

from __future__ import annotations

from typing import Any

import jinja2
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_REPEATED = 10_000
"""Maximum number in a product and maximum padding."""


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment for templates from others: no files, no attributes of values, no ways to exhaust memory.

    Example:
        >>> Sandbox().from_string("{{ 'x' * 10 ** 10 }}").render()
        Traceback (most recent call last):
        jinja2.exceptions.SecurityError: ...
    """

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
        del self.globals["lipsum"]
        for name in ("center", "indent"):
            self.filters[name] = _bounded(name)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The value of a product or power of small numbers."""
        if any(not isinstance(side, int | float) or abs(side) > MOST_REPEATED for side in (left, right)):
            raise jinja2.exceptions.SecurityError(f"'{operator}' takes numbers up to {MOST_REPEATED} here")
        return super().call_binop(context, operator, left, right)


def _bounded(name: str) -> Any:
    inner = FILTERS[name]

    def bounded(text: str, width: int = 4, *more: Any, **named: Any) -> str:
        if not isinstance(width, int) or width > MOST_REPEATED:
            raise jinja2.exceptions.SecurityError(f"'{name}' takes a width up to {MOST_REPEATED} here")
        return str(inner(text, width, *more, **named))

    return bounded
