"""What every chart is drawn with: a document, texts, and axes.

There is room for text of twice the size: a page that is 320 pixels wide shows charts at half their size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 340
INK, FILL, LINE, SECOND = "#24292f", "#4c78a8", "#d0d7de", "#b4531f"
# What no XML document may hold.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that figures are drawn in, in pixels; `top` is less than `bottom`."""

    left: float
    right: float
    top: float
    bottom: float

    def x(self, share: float) -> float:
        """The place of a share of the width, in [0, 1]."""
        return self.left + (self.right - self.left) * share

    def y(self, share: float) -> float:
        """The place of a share of the height, from the bottom."""
        return self.bottom - (self.bottom - self.top) * share


def document(title: str, parts: Iterable[str], size: tuple[int, int] = (WIDTH, HEIGHT)) -> str:
    """An SVG document.

    Args:
        title: read out by screen readers, and written at the top.
        parts: its elements.
        size: width and height in pixels.

    Example:
        >>> document("Weights", []).count("Weights")
        2
    """
    width, height = size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
            f"<title>{escaped(title)}</title>",
            f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>',
            text(16, 22, title, size=15, anchor="start"),
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "middle", turn: int = 0) -> str:
    """Words at a place.

    Example:
        >>> text(8, 9, "a < b")
        '<text x="8.0" y="9.0" font-size="12" text-anchor="middle">a &lt; b</text>'
    """
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turned}>{escaped(words)}</text>'


def rows_of(frame: Frame, ticks: Sequence[float], low: float, high: float) -> list[str]:
    """The horizontal lines of a vertical axis, each with its number."""
    lines = []
    for tick, words in zip(ticks, numbers(ticks), strict=True):
        y = frame.y((tick - low) / (high - low))
        lines.append(
            f'<line class="grid" x1="{frame.left:g}" y1="{y:.1f}" x2="{frame.right:g}" y2="{y:.1f}" stroke="{LINE}"/>'
        )
        lines.append(text(frame.left - 6, y + 5, words, anchor="end"))
    return lines


def numbers(ticks: Sequence[float]) -> list[str]:
    """The ticks of an axis as text, all with the same number of decimals.

    Example:
        >>> numbers([0.5, 0.52]), numbers([0.0, 5000.0])
        (['0.50', '0.52'], ['0', '5,000'])
    """
    places = next(places for places in range(13) if all(round(tick, places) == tick for tick in ticks))
    return [f"{tick:,.{places}f}" for tick in ticks]


def ticks_between(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers that an axis from `low` to `high` is marked with, at most about `most`.

    Example:
        >>> ticks_between(0.0, 1.0), ticks_between(3.0, 47.0)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0, 40.0])
        >>> ticks_between(2.0, 2.0)
        [2.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = -floor(-low / step + 1e-9), floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(int(first), int(last) + 1)]


def escaped(words: str) -> str:
    """Words as an SVG element may hold them; what no XML document may hold is replaced.

    Example:
        >>> escaped("<b>")
        '&lt;b&gt;'
    """
    return escape(_CONTROLS.sub("\ufffd", words), {'"': "&quot;"})


def clipped(words: str, most: int) -> str:
    """Words that fit where there is room for `most` characters.

    Example:
        >>> clipped("Names the cause", 9)
        'Names th…'
    """
    return words if len(words) <= most else f"{words[: most - 1]}…"
