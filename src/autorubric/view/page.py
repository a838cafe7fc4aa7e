"""Answers before rendering as HTML, JSON or CSV, and the parameters of a URL."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
PAGE_ROWS = 50
"""Rows of a table on one page."""

ALL_ROWS = 1 << 40
"""Rows of a table that is not divided into pages, as in CSV."""

LONGEST_VALUE = 1000
"""Characters of a value in a URL."""


class PageRefusal(Exception):
    """The refusal of a request, with a status and a sentence."""

    def __init__(self, status: int, problem: str, advice: str = "") -> None:
        self.status, self.problem, self.advice = status, problem, advice
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Page:
    """An answer.

    Attributes:
        template: of its HTML, without the suffix.
        title: for the tab of the browser and the heading.
        data: JSON values, by the names that the template uses.
        rows: the main table, for CSV.
        charts: SVG documents by name, only for the template.
        status: of HTTP.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()
    charts: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


class PageQuery:
    """The parameters of a URL. All state of a page is in them.

    Args:
        pairs: names and values.
        rows: of a table on the page.

    Example:
        >>> query = PageQuery([("sort", "worst"), ("after", "")])
        >>> query.read_choice("sort", ("place", "worst")), query.link(sort="best", after="0.5,3")
        ('worst', '?sort=best&after=0.5%2C3')
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], rows: int = PAGE_ROWS) -> None:
        self.rows = rows
        self._values = {name: value for name, value in pairs if value}

    def read_text(self, name: str) -> str:
        """Return a text; empty if there is none."""
        value = self._values.get(name, "")
        if len(value) > LONGEST_VALUE:
            raise PageRefusal(400, f"{name} is longer than {LONGEST_VALUE} characters")
        return value

    def read_choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return one of several words; by default the first."""
        value = self._values.get(name, allowed[0])
        if value not in allowed:
            raise PageRefusal(400, f"{name}={value[:40]!r} is not one of {', '.join(filter(None, allowed))}")
        return value

    def read_whole(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number from 0 to 2^53."""
        value = self._values.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) <= 16):
            raise PageRefusal(400, f"{name}={value[:40]!r}; expected a whole number")
        return int(value)

    def read_number(self, name: str) -> float | None:
        """Return a number."""
        value = self._values.get(name)
        try:
            found = None if value is None else float(value)
        except ValueError:
            found = math.nan
        if found is not None and not math.isfinite(found):
            raise PageRefusal(400, f"{name}={(value or '')[:40]!r}; expected a number")
        return found

    @property
    def after(self) -> tuple[float, int] | None:
        """The place in a sorted list after which a page begins: the sort key and the item."""
        text = self.read_text("after")
        if not text:
            return None
        key, _, item = text.rpartition(",")
        try:
            return float(key), int(item)
        except ValueError:
            raise PageRefusal(400, "after= is not a position in the list; go back to the first page") from None

    def cut(self, found: Sequence[T]) -> tuple[Sequence[T], str | None]:
        """Return the rows of a page of a sorted list, and the `after` of the next one if `found` has one row more."""
        last: Any = found[self.rows - 1] if len(found) > self.rows else None
        return found[: self.rows], last and f"{last['place']!r},{last['item']}"

    def read_part(self, name: str, count: int) -> tuple[int, int | None]:
        """Where a page of a list with `count` rows begins, and where the next one does."""
        start = self.read_whole(name, 0) or 0
        return start, start + self.rows if start + self.rows < count else None

    def is_set(self, name: str) -> bool:
        """Return whether a switch is on."""
        return self._values.get(name, "") not in ("", "0")

    def link(self, /, *without: str, **changes: Any) -> str:
        """Return the URL with some parameters left out or changed; None leaves one out too."""
        values = {name: value for name, value in self._values.items() if name not in without}
        for name, value in changes.items():
            values.pop(name, None)
            if value is not None:
                values[name] = str(value)
        return f"?{urlencode(values)}" if values else "?"

    def to_dict(self) -> Mapping[str, str]:
        """Return the parameters by name."""
        return dict(self._values)
