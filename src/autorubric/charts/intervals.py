"""Interval charts: a row for each figure, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autorubric.charts.svg import FILL, LINE, WIDTH, Frame, clipped, document, escaped, numbers, text, ticks_between

# A name stands above its interval, so that both fit where the text is twice as large, on a narrow page.
_SIDE, _ROW, _LONGEST = 24, 46, 44


class Ranged(NamedTuple):
    """A named figure; `low` and `high` are None where it has no interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def interval_chart(title: str, rows: Sequence[Ranged], x_title: str, ends: tuple[float, float] = (0.0, 1.0)) -> str:
    """Figures with their intervals, one under the other, as an SVG document.

    Args:
        title: what it shows.
        rows: from top to bottom.
        x_title: what the figures are.
        ends: of the axis; what lies outside is drawn at its end.

    Example:
        >>> chart = interval_chart("Agreement", [Ranged("Cause", 0.8, 0.6, 0.9), Ranged("Brief", 1.0)], "accuracy")
        >>> chart.count("<circle"), "<title>Cause: 0.800 (0.600 to 0.900)</title>" in chart
        (2, True)
    """
    low, high = ends
    height = 96 + _ROW * max(len(rows), 1)
    frame = Frame(_SIDE, WIDTH - _SIDE, 36, height - 60)

    def x(value: float) -> float:
        return frame.x((min(max(value, low), high) - low) / (high - low))

    parts = []
    ticks = ticks_between(low, high)
    for tick, words in zip(ticks, numbers(ticks), strict=True):
        parts.append(
            f'<line class="grid" x1="{x(tick):.1f}" y1="{frame.top:g}" x2="{x(tick):.1f}" y2="{frame.bottom:g}" '
            f'stroke="{LINE}"/>'
        )
        parts.append(text(x(tick), frame.bottom + 20, words))
    for number, row in enumerate(rows):
        y = frame.top + _ROW * (number + 0.78)
        parts.append(text(frame.left + 6, y - 14, clipped(row.name, _LONGEST), anchor="start"))
        told = f"{row.name}: {row.value:.3f}"
        if row.low is not None and row.high is not None:
            told += f" ({row.low:.3f} to {row.high:.3f})"
            parts.append(
                f'<line class="series0" x1="{x(row.low):.1f}" y1="{y:.1f}" x2="{x(row.high):.1f}" y2="{y:.1f}" '
                f'stroke="{FILL}" stroke-width="2"/>'
            )
        parts.append(
            f'<circle class="series0" cx="{x(row.value):.1f}" cy="{y:.1f}" r="4.5" fill="{FILL}" stroke="{FILL}">'
            f"<title>{escaped(told)}</title></circle>"
        )
    parts.append(text((frame.left + frame.right) / 2, height - 10, x_title))
    return document(title, parts, (WIDTH, height))
