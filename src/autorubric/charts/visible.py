"""Text of others on a page: characters that hide, turn or imitate are spelled out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

# Controls but tab and line ends, half characters, and characters that have no width or change the direction.
# U+200C and U+200D stay: scripts and emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\r\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffc\U000e0000-\U000e0fff\ud800-\udfff]"
)


class Span(NamedTuple):
    """A stretch of a text, by character."""

    start: int
    end: int


def spelled(text: str) -> str:
    r"""A text without characters that a reader could not see, each written as its number.

    Example:
        >>> spelled("a\u202eb\x00")
        'a⟨U+202E⟩b⟨U+0000⟩'
    """
    return _HIDDEN.sub(_number, text) if not text.isprintable() else text


def text_html(text: str, marks: Iterable[Span] = ()) -> str:
    r"""A text as HTML: escaped, hidden characters as labelled elements, and stretches of it marked.

    Args:
        text: as it is.
        marks: stretches, in any order; those that overlap become one.

    Example:
        >>> text_html("a < b", [Span(0, 1)])
        '<mark>a</mark> &lt; b'
        >>> text_html("\u202e")
        '<span class="hidden" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>'
    """
    parts, at = [], 0
    for span in _joined(marks, len(text)):
        parts.append(_html(text[at : span.start]))
        parts.append(f"<mark>{_html(text[span.start : span.end])}</mark>")
        at = span.end
    parts.append(_html(text[at:]))
    return "".join(parts)


def _joined(marks: Iterable[Span], length: int) -> Iterator[Span]:
    inside = sorted(Span(max(0, one.start), min(one.end, length)) for one in marks if one.start < one.end)
    held: Span | None = None
    for one in inside:
        if held is None:
            held = one
        elif one.start <= held.end:
            held = Span(held.start, max(held.end, one.end))
        else:
            yield held
            held = one
    if held is not None and held.start < held.end:
        yield held


def _html(text: str) -> str:
    if text.isprintable():
        return escape(text)
    parts: list[str] = []
    at = 0
    for found in _HIDDEN.finditer(text):
        parts += (escape(text[at : found.start()]), _element(found[0]))
        at = found.end()
    return "".join((*parts, escape(text[at:])))


def _element(character: str) -> str:
    name = unicodedata.name(character, "CONTROL CHARACTER")
    return f'<span class="hidden" title="{name}">U+{ord(character):04X}</span>'


def _number(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def part_of(text: str, start: int, most: int) -> tuple[str, Sequence[tuple[int, int]]]:
    """A part of a long text, and where all parts start and end.

    Example:
        >>> part_of("abcdefg", 3, 3)
        ('def', [(0, 3), (3, 6), (6, 7)])
    """
    parts = [(at, min(at + most, len(text))) for at in range(0, max(len(text), 1), most)]
    return text[start : start + most], parts
