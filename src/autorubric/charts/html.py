"""HTML without scripts, fonts or requests: escaped text, judged criteria, and self-contained pages.

In untrusted text, characters that are invisible or change its direction are spelled out. Judged criteria have one
template for the view, the report and the cards of notebooks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from autorubric.errors import clip

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment, Template


# Controls except tab and line ends, lone surrogates, and characters that have no width or change the direction.
# U+200C and U+200D stay: scripts and emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\r\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffc\U000e0000-\U000e0fff\ud800-\udfff]"
)


class Span(NamedTuple):
    """A range of characters in a text."""

    start: int
    end: int


def escape_hidden(text: str) -> str:
    r"""Return a text with each invisible character replaced by its code point.

    Example:
        >>> escape_hidden("a\u202eb\x00")
        'a⟨U+202E⟩b⟨U+0000⟩'
    """
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text) if not text.isprintable() else text


def render_text(text: str, marks: Iterable[Span] = ()) -> str:
    r"""Return a text as HTML: escaped, hidden characters as labelled elements, and ranges of it marked.

    Args:
        text: the unescaped text.
        marks: ranges, in any order; overlapping ranges are joined.

    Example:
        >>> render_text("a < b", [Span(0, 1)])
        '<mark>a</mark> &lt; b'
        >>> render_text("\u202e")
        '<span class="hidden" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>'
    """
    parts, at = [], 0
    for span in _join_spans(marks, len(text)):
        parts.append(_escape_text(text[at : span.start]))
        parts.append(f"<mark>{_escape_text(text[span.start : span.end])}</mark>")
        at = span.end
    parts.append(_escape_text(text[at:]))
    return "".join(parts)


def _join_spans(marks: Iterable[Span], length: int) -> Iterator[Span]:
    inside = sorted(Span(max(0, span.start), min(span.end, length)) for span in marks if span.start < span.end)
    current: Span | None = None
    for span in inside:
        if current is None:
            current = span
        elif span.start <= current.end:
            current = Span(current.start, max(current.end, span.end))
        else:
            yield current
            current = span
    if current is not None and current.start < current.end:
        yield current


def _escape_text(text: str) -> str:
    if text.isprintable():
        return escape(text)
    parts: list[str] = []
    at = 0
    for found in _HIDDEN.finditer(text):
        parts += (escape(text[at : found.start()]), _render_hidden(found[0]))
        at = found.end()
    return "".join((*parts, escape(text[at:])))


def _render_hidden(character: str) -> str:
    name = unicodedata.name(character, "CONTROL CHARACTER")
    return f'<span class="hidden" title="{name}">U+{ord(character):04X}</span>'


def cut_part(text: str, start: int, most: int) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return a part of a long text, and the start and end of all parts.

    Example:
        >>> cut_part("abcdefg", 3, 3)
        ('def', [(0, 3), (3, 6), (6, 7)])
    """
    parts = [(at, min(at + most, len(text))) for at in range(0, max(len(text), 1), most)]
    return text[start : start + most], parts


MOST_CARDS = 50
# Notebooks have their own style, light or dark: these rules only arrange.
_STYLE = (
    ".ar-judged{list-style:none;padding:0;text-align:left}.ar-judged>li{border:1px solid #8888;border-radius:8px;"
    "padding:4px 12px;margin:6px 0}.ar-judged h3{font-size:1em;margin:2px 0}.ar-judged p{margin:2px 0}"
    ".ar-judged .verdict{border:1px solid;border-radius:12px;padding:0 8px;font-size:.85em}"
    ".ar-judged .met{color:#1a7f37}.ar-judged .unmet{color:#cf222e}.ar-judged .failed,.ar-judged .abstained,"
    ".ar-judged .warn,.ar-judged .differs{color:#9a6700}.ar-judged .votes{padding-left:1em}"
)


def format_float(value: float | None, places: int = 2) -> str:
    """Return a number as a table shows it.

    Example:
        >>> format_float(0.8371), format_float(-0.0), format_float(None)
        ('0.84', '0.00', '–')
    """
    return "–" if value is None else f"{value:z.{places}f}"


def format_p_value(value: float | None) -> str:
    """Return a p-value as a table shows it.

    Example:
        >>> format_p_value(0.0371), format_p_value(0.0), format_p_value(None)
        ('0.037', '< 0.001', '–')
    """
    return "< 0.001" if value is not None and value < 0.001 else format_float(value, 3)


def render_marked(text: str, marks: Iterable[Sequence[int]] = ()) -> Any:
    """Return a text for a template, with ranges of it marked."""
    from markupsafe import Markup

    return Markup(render_text(text, [Span(*mark) for mark in marks]))


def escape_printed(value: Any) -> Any:
    """Return what a template prints for a value: in texts, hidden characters are spelled out."""
    return escape_hidden(value) if type(value) is str else value


def build_templates(loader: BaseLoader) -> Environment:
    """Templates of HTML. Whatever they print is escaped, and hidden characters are spelled out."""
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=escape_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Jinja's own `truncate` drops the whole last word, which is everything in a language without spaces.
    made.filters |= {"text": render_marked, "figure": format_float, "p_value": format_p_value, "truncate": clip}
    return made


@cache
def _build_cards() -> Template:
    from jinja2 import PackageLoader

    return build_templates(PackageLoader("autorubric", "charts")).from_string(
        "{% import 'judged.html' as judged %}<style>{{ style }}</style><ol class='ar-judged'>"
        "{% for one in criteria %}<li>{{ judged.criterion(one) }}</li>{% endfor %}</ol>"
        "{% if more %}<p>The first {{ criteria | length }} criteria; to_dataframe() has all of them.</p>{% endif %}"
    )


def render_judged(criteria: Sequence[Mapping[str, Any]]) -> str:
    """Return a card for each judged criterion, for a notebook.

    Args:
        criteria: as `runs.cells.list_entries` gives them.
    """
    shown = criteria[:MOST_CARDS]
    from markupsafe import Markup

    return str(_build_cards().render(criteria=shown, more=len(criteria) > len(shown), style=Markup(_STYLE)))


@cache
def load_page_template(package: str) -> Template:
    """Load the template `page.html` of a package, which extends that of `autorubric.charts`."""
    from jinja2 import DictLoader

    sources = {name: files(name).joinpath("page.html").read_text("utf-8") for name in ("autorubric.charts", package)}
    return build_templates(DictLoader(sources)).get_template(package)
