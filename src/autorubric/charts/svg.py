"""Bar, interval and line charts as SVG documents.

There is room for text of twice the size, because a page that is 320 pixels wide shows charts at half their size.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from math import ceil, floor, inf, log10
from typing import NamedTuple
from unicodedata import east_asian_width

from autorubric.errors import clip

WIDTH, HEIGHT = 640, 340
INK, FILL, LINE, SECOND = "#24292f", "#4c78a8", "#d0d7de", "#b4531f"
_THICK = ' stroke-width="2"'
# Characters that XML does not allow.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that figures are drawn in, in pixels; `top` is less than `bottom`."""

    left: float
    right: float
    top: float
    bottom: float

    def x(self, share: float) -> float:
        """Return the place of a share of the width, in [0, 1]."""
        return self.left + (self.right - self.left) * share

    def y(self, share: float) -> float:
        """Return the place of a share of the height, from the bottom."""
        return self.bottom - (self.bottom - self.top) * share


def draw_document(title: str, parts: Iterable[str], size: tuple[int, int] = (WIDTH, HEIGHT)) -> str:
    """Return an SVG document.

    Args:
        title: read out by screen readers, and written at the top.
        parts: its elements.
        size: width and height in pixels.

    Example:
        >>> draw_document("Weights", []).count("Weights")
        2
    """
    width, height = size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
            f"<title>{escape_xml(title)}</title>",
            f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>',
            draw_text(16, 22, title, size=15, anchor="start"),
            *parts,
            "</svg>",
            "",
        ]
    )


def draw_text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "middle", turn: int = 0) -> str:
    """Return a text element at a position.

    Example:
        >>> draw_text(8, 9, "a < b")
        '<text x="8.0" y="9.0" font-size="12" text-anchor="middle">a &lt; b</text>'
    """
    way = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{way}>{escape_xml(words)}</text>'


def draw_line(kind: str, start: tuple[float, float], end: tuple[float, float], colour: str, more: str = "") -> str:
    """Return a line between two places; `kind` is its class, `more` further attributes.

    Example:
        >>> draw_line("grid", (8, 9), (8, 20), LINE)
        '<line class="grid" x1="8.0" y1="9.0" x2="8.0" y2="20.0" stroke="#d0d7de"/>'
    """
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def draw_rows(frame: Frame, ticks: Sequence[float], low: float, high: float) -> list[str]:
    """Return the horizontal lines of a vertical axis, each with its number."""
    lines = []
    for tick, words in zip(ticks, format_ticks(ticks), strict=True):
        y = frame.y((tick - low) / (high - low))
        lines.append(draw_line("grid", (frame.left, y), (frame.right, y), LINE))
        lines.append(draw_text(frame.left - 6, y + 5, words, anchor="end"))
    return lines


def format_ticks(ticks: Sequence[float]) -> list[str]:
    """Return the ticks of an axis as text, all with the same number of decimals.

    Example:
        >>> format_ticks([0.5, 0.52]), format_ticks([0.0, 5000.0])
        (['0.50', '0.52'], ['0', '5,000'])
    """
    places = next(places for places in range(13) if all(round(tick, places) == tick for tick in ticks))
    return [f"{tick:,.{places}f}" for tick in ticks]


def choose_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Choose round numbers as marks for an axis from `low` to `high`, at most about `most`.

    Example:
        >>> choose_ticks(0.0, 1.0), choose_ticks(3.0, 47.0)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0, 40.0])
        >>> choose_ticks(2.0, 2.0)
        [2.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = -floor(-low / step + 1e-9), floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(int(first), int(last) + 1)]


def escape_xml(words: str) -> str:
    """Text escaped for an SVG element; characters that XML does not allow are replaced.

    Example:
        >>> escape_xml("<b>")
        '&lt;b&gt;'
    """
    return escape(_CONTROLS.sub("\ufffd", words), quote=False).replace('"', "&quot;")


_LEFT, _RIGHT, _TOP, _BOTTOM, _BOTTOM_SLANTED = 104, 16, 40, 62, 130
_LETTER, _LARGE_LETTER = 7, 13  # narrow pages show text twice as large


def plot_bars(title: str, bars: Sequence[tuple[str, float]], x_title: str, y_title: str, top: float = 0) -> str:
    """Return a bar chart as an SVG document.

    Args:
        title: the title of the chart.
        bars: label and height of each bar, from left to right; heights are not negative.
        x_title: the title of the horizontal axis.
        y_title: the title of the vertical axis.
        top: the end of the vertical axis; by default the highest bar.

    Example:
        >>> chart = plot_bars("Weights", [("5", 3.0), ("8", 1.0)], "weight", "criteria")
        >>> chart.count("<rect"), "<title>5: 3</title>" in chart
        (3, True)
    """
    highest = top or max((height for _, height in bars), default=0) or 1
    step = (WIDTH - _LEFT - _RIGHT) / max(len(bars), 1)
    # Words do not fit under their bars and are slanted; if there are too many numbers, every n-th is written.
    letters = max((len(label) for label, _ in bars), default=0) + 1
    slanted = letters > 6 and _LETTER * letters > step
    every = 1 if slanted else max(1, ceil(_LARGE_LETTER * letters / step))
    frame = Frame(_LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - (_BOTTOM_SLANTED if slanted else _BOTTOM))
    parts = draw_rows(frame, _choose_marks(bars, highest), 0.0, highest)
    for number, (label, height) in enumerate(bars):
        left, top_of_bar = _LEFT + number * step, frame.y(min(height / highest, 1.0))
        parts.append(
            f'<rect class="bar" x="{left + step * 0.1:.1f}" y="{top_of_bar:.1f}" width="{step * 0.8:.1f}" '
            f'height="{frame.bottom - top_of_bar:.1f}" fill="{FILL}">'
            f"<title>{escape_xml(label)}: {height:g}</title></rect>"
        )
        if number % every == 0 and slanted:
            parts.append(draw_text(left + step / 2 + 4, frame.bottom + 14, label, anchor="end", turn=-35))
        elif number % every == 0:
            parts.append(draw_text(left + step / 2, frame.bottom + 25, label))
    described = "; ".join(f"{label}: {height:g}" for label, height in bars)
    parts.append(f"<desc>{escape_xml(described)}</desc>")  # for screen readers
    parts.append(draw_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, x_title))
    parts.append(draw_text(22, (_TOP + frame.bottom) / 2, y_title, turn=-90))
    return draw_document(title, parts)


def _choose_marks(bars: Sequence[tuple[str, float]], highest: float) -> list[float]:
    """Return the numbers on the vertical axis: whole ones where the heights are."""
    ticks = choose_ticks(0.0, highest, 4)
    return [tick for tick in ticks if tick % 1 == 0] if all(height % 1 == 0 for _, height in bars) else ticks


# A name is above its interval, so that both fit on a narrow page, where the text is twice as large.
_SIDE, _ROW, _LONGEST = 24, 46, 24.5  # the last one in em


def _fit_name(name: str) -> str:
    """Return a name, cut to the width of a row, also where the font is as wide as DejaVu.

    Example:
        >>> [len(_fit_name(letter * 60)) for letter in "inG潮"]
        [58, 37, 30, 24]
    """
    ends = accumulate(
        1.0 if east_asian_width(character) in "WF" or character in "MWmw@%#"
        else 0.42 if character in "fijlrtI .,:;'()-"
        else 0.8 if character.isupper()
        else 0.65
        for character in name
    )  # fmt: skip
    return clip(name, bisect_right(list(ends), _LONGEST))


class Ranged(NamedTuple):
    """A named value; `low` and `high` are None if it has no interval, `baseline` if it has no baseline."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    baseline: float | None = None


def plot_intervals(
    title: str,
    rows: Sequence[Ranged],
    x_title: str,
    ends: tuple[float, float] = (0.0, 1.0),
    limits: Sequence[float] = (),
) -> str:
    """Figures with their intervals, one under the other, as an SVG document.

    Args:
        title: the title of the chart.
        rows: from top to bottom.
        x_title: what the figures are.
        ends: the ends of the axis; values outside are drawn at its ends.
        limits: values that dashed lines mark.

    Example:
        >>> rows = [Ranged("Cause", 0.8, 0.6, 0.9, baseline=0.5), Ranged("Brief", 1.0)]
        >>> chart = plot_intervals("Agreement", rows, "accuracy", limits=[0.7])
        >>> chart.count("<circle"), chart.count("stroke-dasharray")
        (2, 1)
        >>> "<title>Cause: 0.800 (0.600 to 0.900), baseline 0.500</title>" in chart
        True
    """
    low, high = ends
    height = 96 + _ROW * max(len(rows), 1)
    frame = Frame(_SIDE, WIDTH - _SIDE, 36, height - 60)

    def x(value: float) -> float:
        return frame.x((min(max(value, low), high) - low) / (high - low))

    parts = []
    ticks = choose_ticks(low, high)
    for tick, words in zip(ticks, format_ticks(ticks), strict=True):
        parts.append(draw_line("grid", (x(tick), frame.top), (x(tick), frame.bottom), LINE))
        parts.append(draw_text(x(tick), frame.bottom + 20, words))
    for at in map(x, limits):
        parts.append(draw_line("series1", (at, frame.top), (at, frame.bottom), SECOND, ' stroke-dasharray="4 4"'))
    for number, row in enumerate(rows):
        y = frame.top + _ROW * (number + 0.78)
        parts.append(draw_text(frame.left + 6, y - 14, _fit_name(row.name), anchor="start"))
        hint = f"{row.name}: {row.value:.3f}"
        if row.low is not None and row.high is not None:
            hint += f" ({row.low:.3f} to {row.high:.3f})"
            parts.append(draw_line("series0", (x(row.low), y), (x(row.high), y), FILL, _THICK))
        if row.baseline is not None:
            hint += f", baseline {row.baseline:.3f}"
            at = x(row.baseline)
            parts.append(draw_line("series1", (at, y - 9), (at, y + 9), SECOND, _THICK))
        parts.append(
            f'<circle class="series0" cx="{x(row.value):.1f}" cy="{y:.1f}" r="4.5" fill="{FILL}" stroke="{FILL}">'
            f"<title>{escape_xml(hint)}</title></circle>"
        )
    parts.append(draw_text((frame.left + frame.right) / 2, height - 10, x_title))
    return draw_document(title, parts, (WIDTH, height))


_FRAME = Frame(_LEFT, WIDTH - _RIGHT, 66, HEIGHT - _BOTTOM)
_COLOURS = (FILL, SECOND, INK)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a series.

    Attributes:
        x: its place.
        y: its value.
        label: its tooltip; by default the value.
        low: lower end of an interval.
        high: upper end of an interval.
    """

    x: float
    y: float
    label: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points with a name; a line joins neighbours whose x grows by at most `reach`, and none if it is `-inf`."""

    name: str
    points: Sequence[Point]
    reach: float = inf


@dataclass(frozen=True, slots=True)
class Axes:
    """The titles of the two axes, and the range of the vertical one; by default that of the points."""

    x_title: str
    y_title: str
    y_range: tuple[float, float] | None = None
    x_range: tuple[float, float] | None = None
    diagonal: bool = False


def plot_lines(title: str, series: Sequence[Series], axes: Axes) -> str:
    """Return a line chart as an SVG document.

    Args:
        title: the title of the chart.
        series: one or more; there are three colours, which repeat.
        axes: their titles and ranges; `diagonal` draws the line on which both are equal.

    Example:
        >>> chart = plot_lines("Best of k", [Series("mean", [Point(1, 0.5), Point(2, 0.75)])], Axes("k", "mean"))
        >>> chart.count("<circle"), chart.count('<line class="series0"')
        (2, 1)
    """
    points = [point for line in series for point in line.points]
    x_low, x_high = axes.x_range or _find_span([point.x for point in points])
    ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
    y_low, y_high = axes.y_range or _find_span(ends, 0.06)
    parts = draw_rows(_FRAME, choose_ticks(y_low, y_high), y_low, y_high)

    def place(x: float, y: float) -> tuple[float, float]:
        return _FRAME.x((x - x_low) / (x_high - x_low)), _FRAME.y((y - y_low) / (y_high - y_low))

    ticks = choose_ticks(x_low, x_high, 8)
    if axes.x_range is None and all(point.x % 1 == 0 for point in points):
        ticks = [tick for tick in ticks if tick % 1 == 0]  # no half candidates or windows
    for tick, words in zip(ticks, format_ticks(ticks), strict=True):
        parts.append(draw_text(place(tick, y_low)[0], _FRAME.bottom + 25, words))
    if axes.diagonal:
        low, high = max(x_low, y_low), min(x_high, y_high)
        faint = ' stroke-dasharray="4 4" opacity="0.5"'
        parts.append(draw_line("diagonal", place(low, low), place(high, high), INK, faint))
    for number, line in enumerate(series):
        shown = [(point, place(point.x, point.y)) for point in line.points]
        bars = [
            (place(p.x, p.low), place(p.x, p.high)) for p in line.points if p.low is not None and p.high is not None
        ]
        parts += _draw_series(line, shown, bars, number)
        if len(series) > 1:
            parts.append(_draw_legend(line.name, number))
    parts.append(draw_text((_FRAME.left + _FRAME.right) / 2, HEIGHT - 10, axes.x_title))
    parts.append(draw_text(22, (_FRAME.top + _FRAME.bottom) / 2, axes.y_title, turn=-90))
    return draw_document(title, parts)


def _draw_series(
    line: Series,
    shown: Sequence[tuple[Point, tuple[float, float]]],
    bars: Sequence[tuple[tuple[float, float], tuple[float, float]]],
    number: int,
) -> list[str]:
    colour, kind = _COLOURS[number % len(_COLOURS)], f"series{number % len(_COLOURS)}"
    parts = [draw_line(kind, low, high, colour) for low, high in bars]
    parts += [
        draw_line(kind, start, end, colour, _THICK)
        for (one, start), (other, end) in pairwise(shown)
        if other.x - one.x <= line.reach
    ]
    return parts + [
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" stroke="{colour}">'
        f"<title>{escape_xml(point.label or f'{point.x:g}: {point.y:.4g}')}</title></circle>"
        for point, (x, y) in shown
    ]


def _draw_legend(name: str, number: int) -> str:
    x, colour = _FRAME.left + 4 + 190 * number, _COLOURS[number % len(_COLOURS)]
    kind = f"series{number % len(_COLOURS)}"
    return f'<circle class="{kind}" cx="{x}" cy="42" r="4" fill="{colour}" stroke="{colour}"/>' + draw_text(
        x + 9, 46, name, anchor="start"
    )


def _find_span(values: Sequence[float], room: float = 0.0) -> tuple[float, float]:
    """Return the range of values, with `room` on either side as a share of it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low - room * (high - low), high + room * (high - low)) if high > low else (low - 0.5, high + 0.5)
