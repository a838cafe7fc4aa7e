"""Line charts: one or several series of points, some with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autorubric.charts.svg import (
    FILL,
    HEIGHT,
    INK,
    SECOND,
    WIDTH,
    Frame,
    document,
    escaped,
    numbers,
    rows_of,
    text,
    ticks_between,
)

_FRAME = Frame(84, WIDTH - 16, 66, HEIGHT - 56)
_COLOURS = (FILL, SECOND, INK)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a series.

    Attributes:
        x: its place.
        y: its value.
        label: what a pointer over it is told; the value by default.
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
    """Points with a name; `joined` draws a line through them."""

    name: str
    points: Sequence[Point]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Axes:
    """What the two axes are called, and the range of the vertical one; by default that of the points."""

    x_title: str
    y_title: str
    y_range: tuple[float, float] | None = None
    x_range: tuple[float, float] | None = None
    diagonal: bool = False


def line_chart(title: str, series: Sequence[Series], axes: Axes) -> str:
    """A line chart as an SVG document.

    Args:
        title: what it shows.
        series: one or more; the first three have colours of their own.
        axes: their titles and ranges; `diagonal` draws the line on which both are equal.

    Example:
        >>> chart = line_chart("Best of k", [Series("score", [Point(1, 0.5), Point(2, 0.75)])], Axes("k", "score"))
        >>> chart.count("<circle"), chart.count("<polyline")
        (2, 1)
    """
    points = [point for one in series for point in one.points]
    x_low, x_high = axes.x_range or _span([point.x for point in points])
    ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
    y_low, y_high = axes.y_range or _span(ends, 0.06)
    parts = rows_of(_FRAME, ticks_between(y_low, y_high), y_low, y_high)

    def place(x: float, y: float) -> tuple[float, float]:
        return _FRAME.x((x - x_low) / (x_high - x_low)), _FRAME.y((y - y_low) / (y_high - y_low))

    ticks = ticks_between(x_low, x_high, 8)
    if all(point.x % 1 == 0 for point in points) and x_high - x_low > 1:
        ticks = [tick for tick in ticks if tick % 1 == 0]  # no half candidates or windows
    for tick, words in zip(ticks, numbers(ticks), strict=True):
        parts.append(text(place(tick, y_low)[0], _FRAME.bottom + 20, words))
    if axes.diagonal:
        low, high = max(x_low, y_low), min(x_high, y_high)
        (x1, y1), (x2, y2) = place(low, low), place(high, high)
        parts.append(
            f'<line class="diagonal" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{INK}" '
            'stroke-dasharray="4 4" opacity="0.5"/>'
        )
    for number, one in enumerate(series):
        shown = [(point, place(point.x, point.y)) for point in one.points]
        bars = [
            (place(p.x, p.low), place(p.x, p.high)) for p in one.points if p.low is not None and p.high is not None
        ]
        parts += _drawn(one, shown, bars, number)
        if len(series) > 1:
            parts.append(_legend(one.name, number))
    parts.append(text((_FRAME.left + _FRAME.right) / 2, HEIGHT - 12, axes.x_title))
    parts.append(text(22, (_FRAME.top + _FRAME.bottom) / 2, axes.y_title, turn=-90))
    return document(title, parts)


def _drawn(
    one: Series,
    shown: Sequence[tuple[Point, tuple[float, float]]],
    bars: Sequence[tuple[tuple[float, float], tuple[float, float]]],
    number: int,
) -> list[str]:
    colour, kind = _COLOURS[number % len(_COLOURS)], f"series{number % len(_COLOURS)}"
    parts = [
        f'<line class="{kind}" x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{colour}"/>'
        for (x, low), (_, high) in bars
    ]
    if one.joined and len(shown) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for _, (x, y) in shown)
        parts.append(f'<polyline class="{kind}" points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += [
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" stroke="{colour}">'
        f"<title>{escaped(point.label or f'{point.x:g}: {point.y:.4g}')}</title></circle>"
        for point, (x, y) in shown
    ]
    return parts


def _legend(name: str, number: int) -> str:
    x, colour = _FRAME.left + 4 + 190 * number, _COLOURS[number % len(_COLOURS)]
    kind = f"series{number % len(_COLOURS)}"
    return f'<circle class="{kind}" cx="{x}" cy="42" r="4" fill="{colour}" stroke="{colour}"/>' + text(
        x + 9, 46, name, anchor="start"
    )


def _span(values: Sequence[float], room: float = 0.0) -> tuple[float, float]:
    """The range of values, with `room` on either side as a share of it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low - room * (high - low), high + room * (high - low)) if high > low else (low - 0.5, high + 0.5)
