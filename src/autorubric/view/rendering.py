"""Pages as HTML, JSON and CSV."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import cycle
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from autorubric.charts.html import build_templates
from autorubric.files.printable import format_csv
from autorubric.runs.progress import format_cost
from autorubric.view.page import Page

FORMATS = ("html", "json", "csv")
KINDS = {"html": "text/html", "json": "application/json", "csv": "text/csv"}


@cache
def build_environment() -> Environment:
    """Return the templates."""
    loaders = PackageLoader("autorubric.view", "templates"), PackageLoader("autorubric", "charts")
    made = build_templates(ChoiceLoader(loaders))
    made.filters |= {
        "percent": format_percent,
        "interval": format_interval,
        "percents": format_percents,
        "count": lambda number: f"{number:,}",
        "dollars": partial(format_cost, unknown="unknown"),
        "when": _format_time,
    }
    made.globals |= {"asset": digest_asset, "on_paper": False}
    made.globals |= {
        "cards": made.get_template("judged.html").module,
        "parts": made.get_template("parts.html").module,
    }
    return made


def render_html(page: Page, surroundings: Mapping[str, Any]) -> str:
    """Return a page as HTML.

    Args:
        page: the answer.
        surroundings: further values for the layout: navigation and the query.
    """
    # Texts in charts are escaped when the charts are drawn.
    charts = defaultdict(Markup, {name: Markup(chart) for name, chart in page.charts.items()})
    template = build_environment().get_template(f"{page.template if surroundings.get('on_paper') else 'layout'}.html")
    made = template.render(
        {**surroundings, **page.data, "charts": charts, "title": page.title, "template": page.template}
    )
    return _TABLE.sub(_label_cells, made)


# Templates write table cells without attributes. All text is escaped, so none looks like a tag.
_TABLE = re.compile(r'(<table class="cards.*?</thead>)(.*?</table>)', re.DOTALL)
_HEAD, _CELL = re.compile(r"<th( [^>]*)?>([^<,]*)"), re.compile("<td")


def _label_cells(table: re.Match[str]) -> str:
    """Return a table whose cells have their column's class, and its title, which narrow pages show."""
    heads = cycle(_HEAD.findall(table[1]))
    return table[1] + _CELL.sub(lambda cell: '<td{} data-label="{}"'.format(*next(heads)), table[2])


def render_page(page: Page, form: str, surroundings: Mapping[str, Any]) -> bytes:
    """Return a page in one of `FORMATS`."""
    if form == "json":
        return (json.dumps({"title": page.title, **page.data}, default=str) + "\n").encode()
    rows = (dict(_list_cells(row)) for row in page.rows)
    text = format_csv(rows) if form == "csv" else render_html(page, surroundings)
    return text.encode("utf-8", "backslashreplace")


def _list_cells(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the cells of a row by column: two of an interval, which is None or a pair; lists and counts as text."""
    for name, value in row.items():
        if name.endswith("interval"):
            yield from zip((f"{name}_low", f"{name}_high"), value or (None, None), strict=True)
        elif isinstance(value, Mapping | list | tuple):
            yield name, "; ".join(f"{key}: {value[key]}" if isinstance(value, Mapping) else str(key) for key in value)
        else:
            yield name, value


@cache
def read_asset(name: str) -> bytes:
    """Return the style sheet or the script."""
    return (files("autorubric.view") / "static" / name).read_bytes()


@cache
def digest_asset(name: str) -> str:
    """Return a digest of an asset, for its URL: browsers keep it until it changes."""
    return sha256(read_asset(name)).hexdigest()[:12]


def format_percent(value: float | None) -> str:
    """Return a share in per cent.

    Example:
        >>> format_percent(0.8371), format_percent(None)
        ('84%', '–')
    """
    return "–" if value is None else f"{100 * value:.0f}%"


def format_interval(ends: Sequence[float] | None, places: int = 2) -> str:
    """Return an interval in words.

    Example:
        >>> format_interval((0.25, 0.75)), format_interval(None)
        ('0.25 to 0.75', '')
    """
    return "" if not ends else f"{ends[0]:.{places}f} to {ends[1]:.{places}f}"


def format_percents(ends: Sequence[float] | None) -> str:
    """Return an interval of a share, in per cent.

    Example:
        >>> format_percents((0.25, 0.75)), format_percents(None)
        ('25 to 75%', '')
    """
    return "" if not ends else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f}%"


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
