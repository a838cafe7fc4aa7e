"""Bar charts."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from autorubric.charts.svg import FILL, HEIGHT, WIDTH, Frame, document, escaped, rows_of, text, ticks_between

_LEFT, _RIGHT, _TOP, _BOTTOM, _BOTTOM_SLANTED = 84, 16, 40, 56, 130
_LETTER, _LARGE_LETTER = 7, 13  # narrow pages show text twice as large


def bar_chart(title: str, bars: Sequence[tuple[str, float]], x_title: str, y_title: str, top: float = 0) -> str:
    """A bar chart as an SVG document.

    Args:
        title: what it shows.
        bars: label and height of each bar, from left to right; heights are not negative.
        x_title: what the labels are.
        y_title: what the heights are.
        top: the end of the vertical axis; by default the highest bar.

    Example:
        >>> chart = bar_chart("Weights", [("5", 3.0), ("8", 1.0)], "weight", "criteria")
        >>> chart.count("<rect"), "<title>5: 3</title>" in chart
        (3, True)
    """
    highest = top or max((height for _, height in bars), default=0) or 1
    step = (WIDTH - _LEFT - _RIGHT) / max(len(bars), 1)
    # Words do not fit under their bars and are slanted; of too many numbers every n-th is written.
    letters = max((len(label) for label, _ in bars), default=0) + 1
    slanted = letters > 6 and _LETTER * letters > step
    every = 1 if slanted else max(1, ceil(_LARGE_LETTER * letters / step))
    frame = Frame(_LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - (_BOTTOM_SLANTED if slanted else _BOTTOM))
    parts = rows_of(frame, _marks(bars, highest), 0.0, highest)
    for number, (label, height) in enumerate(bars):
        left = _LEFT + number * step
        parts.append(
            _bar(label, height, frame.bottom - frame.y(min(height / highest, 1.0)), left, frame.bottom, step)
        )
        if number % every == 0 and slanted:
            parts.append(text(left + step / 2 + 4, frame.bottom + 14, label, anchor="end", turn=-35))
        elif number % every == 0:
            parts.append(text(left + step / 2, frame.bottom + 20, label))
    parts.append(text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 12, x_title))
    parts.append(text(22, (_TOP + frame.bottom) / 2, y_title, turn=-90))
    return document(title, parts)


def _marks(bars: Sequence[tuple[str, float]], highest: float) -> list[float]:
    """The numbers on the vertical axis: whole ones where the heights are."""
    ticks = ticks_between(0.0, highest, 4)
    return [tick for tick in ticks if tick % 1 == 0] if all(height % 1 == 0 for _, height in bars) else ticks


def _bar(label: str, height: float, tall: float, left: float, base: float, step: float) -> str:
    return (
        f'<rect class="bar" x="{left + step * 0.1:.1f}" y="{base - tall:.1f}" width="{step * 0.8:.1f}" '
        f'height="{tall:.1f}" fill="{FILL}"><title>{escaped(label)}: {height:g}</title></rect>'
    )
