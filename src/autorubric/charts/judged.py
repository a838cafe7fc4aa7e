"""Judged criteria as HTML: one template for the view, the report and the cards of notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from autorubric.charts.visible import Span, spelled, text_html

MOST_CARDS = 50
# A notebook has a style of its own, light or dark: these only arrange.
_STYLE = (
    ".ar-judged{list-style:none;padding:0;text-align:left}.ar-judged>li{border:1px solid #8888;border-radius:8px;"
    "padding:4px 12px;margin:6px 0}.ar-judged h3{font-size:1em;margin:2px 0}.ar-judged p{margin:2px 0}"
    ".ar-judged .verdict{border:1px solid;border-radius:12px;padding:0 8px;font-size:.85em}"
    ".ar-judged .met{color:#1a7f37}.ar-judged .unmet{color:#cf222e}.ar-judged .failed,.ar-judged .abstained,"
    ".ar-judged .warn,.ar-judged .differs{color:#9a6700}.ar-judged .votes{padding-left:1em}"
)


def figure(value: float | None, places: int = 2) -> str:
    """A number as a table shows it.

    Example:
        >>> figure(0.8371), figure(-0.0), figure(None)
        ('0.84', '0.00', '–')
    """
    return "–" if value is None else f"{value:z.{places}f}"


def marked(text: str, marks: Iterable[Sequence[int]] = ()) -> Any:
    """A text for a template, with stretches of it marked."""
    from markupsafe import Markup

    return Markup(text_html(text, [Span(*one) for one in marks]))


def printed(value: Any) -> Any:
    """What a template prints of a value: hidden characters of a text are spelled out."""
    return spelled(value) if type(value) is str else value


@cache
def _cards() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("autorubric", "charts"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"text": marked, "figure": figure}
    return made.from_string(
        "{% import 'judged.html' as judged %}<style>{{ style }}</style><ol class='ar-judged'>"
        "{% for one in criteria %}<li>{{ judged.criterion(one) }}</li>{% endfor %}</ol>"
        "{% if more %}<p>The first {{ criteria | length }} criteria; to_dataframe() has all of them.</p>{% endif %}"
    )


def judged_html(criteria: Sequence[Mapping[str, Any]]) -> str:
    """A card for each judged criterion, for a notebook.

    Args:
        criteria: as `runs.cells.entries_of` gives them.
    """
    shown = criteria[:MOST_CARDS]
    from markupsafe import Markup

    html: str = _cards().render(criteria=shown, more=len(criteria) > len(shown), style=Markup(_STYLE))
    return html
