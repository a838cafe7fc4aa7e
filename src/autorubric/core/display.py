"""The display of values: a `repr` that fits a screen, a table in a notebook, a pandas DataFrame."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from itertools import islice
from typing import Any

from pydantic import BaseModel

from autorubric.errors import clip

_MOST = 1500
_MOST_OF_ONE = 400
_MOST_LISTED = 3
_MOST_ROWS = 20
_MOST_ROWS_BELOW = 8
_MOST_IN_CELL = 300


class Verbatim:
    """Text whose `repr` is the text itself, for values that pydantic prints as `name=value`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class BriefModel(BaseModel):
    """A model whose `repr` leaves out defaults and shortens long values."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return shorten_args(iter_set_fields(self))


class Displayed(ABC):
    """A value that a notebook shows as a table, and that converts to a pandas data frame."""

    __slots__ = ()

    @abstractmethod
    def _build_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows of the data frame."""

    def _select_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows that a notebook shows."""
        return self._build_rows()

    def _render_above(self) -> str:
        """HTML that a notebook shows above the table, with all texts escaped."""
        return ""

    def _repr_html_(self) -> str:
        above = self._render_above()
        return render_table(repr(self), self._select_rows(), _MOST_ROWS_BELOW if above else _MOST_ROWS, above)

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Raises:
            MissingPackageError: pandas is not installed; install the extra `pandas`.
        """
        from autorubric.extras import require

        require(["pandas"], "pandas", "to_dataframe()")
        return import_module("pandas").DataFrame(list(self._build_rows()))


def iter_set_fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of required fields, and of fields that differ from their default."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if field.is_required() or value != field.get_default(call_default_factory=True):
            yield name, value


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with the keys of inner mappings as separate columns, `outer_inner`.

    Example:
        >>> flatten({"n": 3, "rate": {"value": 0.5, "low": None}})
        {'n': 3, 'rate_value': 0.5, 'rate_low': None}
    """
    found: dict[str, Any] = {}
    for name, cell in row.items():
        found |= (
            {f"{name}_{key}": inner for key, inner in flatten(cell).items()}
            if isinstance(cell, dict)
            else {name: cell}
        )
    return found


def shorten_args(fields: Iterable[tuple[str, Any]]) -> Iterator[tuple[str | None, Any]]:
    """These fields as pydantic prints them, shortened so that together they fit a screen."""
    left = _MOST
    for name, value in fields:
        text = shorten(value)
        left -= len(name) + len(text)
        if left < 0:
            yield None, Verbatim("…")
            return
        yield name, Verbatim(text)


def shorten(value: Any, most: int = _MOST_OF_ONE) -> str:
    """Return the `repr` of a value, cut off at `most` characters; of a long list or mapping only its size.

    Example:
        >>> print(shorten("word " * 100, 20), shorten([1, 2]), shorten({n: n for n in range(9)}))
        'word word word wo…' [1, 2] <9 int>
    """
    if isinstance(value, str):
        return repr(clip(value, most - 2))
    if isinstance(value, list | tuple | dict) and len(value) > _MOST_LISTED:
        kinds = {type(element).__name__ for element in (value.values() if isinstance(value, dict) else value)}
        return f"<{len(value)} {kinds.pop() if len(kinds) == 1 else 'entries'}>"
    return clip(repr(value), most)


def render_table(title: str, rows: Iterable[Mapping[str, Any]], most: int = _MOST_ROWS, above: str = "") -> str:
    """Return the first rows as an HTML table with all texts escaped, without columns that are empty in all of them.

    Args:
        title: a line at the top.
        rows: their keys are the columns.
        most: how many rows to show.
        above: HTML between the title and the table, escaped already.

    Example:
        >>> render_table("<b>", [{"score": 0.5, "error": None}])
        '<div><p>&lt;b&gt;</p><table><thead><tr><th>score</th></tr></thead><tbody><tr><td>0.5</td></tr>...</div>'
    """
    first = list(islice(rows, most + 1))
    shown, more = first[:most], len(first) > most
    columns = [name for name in (shown[0] if shown else ()) if any(row.get(name) is not None for row in shown)]
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_render_cell(row.get(name)) for name in columns)}</tr>" for row in shown)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if columns else ""
    rest = f"<p>The first {most} rows; to_dataframe() has all of them.</p>" if more else ""
    return f"<div><p>{escape(clip(title, _MOST))}</p>{above}{table}{rest}</div>"


def join_charts(charts: Iterable[str]) -> str:
    """SVG documents side by side, wrapped where there is no room."""
    drawn = "".join(f'<div style="flex:0 1 480px">{chart}</div>' for chart in charts)
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px">{drawn}</div>' if drawn else ""


def as_html(name: str, text: str | None, most: int = 1200) -> str:
    """Return a named text as HTML, cut off if it is long; empty if there is no text.

    Example:
        >>> as_html("Query", "a < b")
        '<p><b>Query</b></p><pre style="white-space:pre-wrap;max-height:12em;overflow:auto">a &lt; b</pre>'
    """
    from autorubric.charts.html import escape_hidden

    if not text:
        return ""
    style = "white-space:pre-wrap;max-height:12em;overflow:auto"
    return f'<p><b>{escape(name)}</b></p><pre style="{style}">{escape(escape_hidden(clip(text, most)))}</pre>'


def _render_cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(clip(text, _MOST_IN_CELL))}</td>"


def tell_apart(named: Iterable[tuple[str, str]]) -> list[str]:
    """Return distinct names for criteria of several rubrics, each given as its name and requirement.

    A name that several have is followed by the start of the requirement, and by a number if that is the same too, or
    empty. The numbers follow the requirements, so that they are the same in whatever order criteria are found.

    Example:
        >>> tell_apart([("Right", "Is 4"), ("Brief", "Is brief"), ("Right", "Is Paris"), ("Right", "Is Paris")])
        ['Right (Is 4)', 'Brief', 'Right (Is Paris)', 'Right (Is Paris) 2']
    """
    named = list(named)
    repeated, times, shown = Counter(name for name, _ in named), Counter[str](), dict[int, str]()
    for place in sorted(range(len(named)), key=named.__getitem__):
        name, requirement = named[place]
        start = clip(" ".join(requirement.split()), 40) if repeated[name] > 1 else ""
        whole = f"{name} ({start})" if start else name
        times[whole] += 1
        shown[place] = whole if times[whole] == 1 else f"{whole} {times[whole]}"
    return [shown[place] for place in range(len(named))]


def join_first(parts: Sequence[str], most: int = _MOST_OF_ONE) -> str:
    """Return the first parts with commas between them, and how many more there are.

    Example:
        >>> join_first(["Causes", "Tone", "Sources"], 14)
        'Causes, Tone and 1 more'
    """
    shown: list[str] = []
    for part in parts:
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(part) > most:
            break
        shown.append(clip(part, most))
    rest = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
