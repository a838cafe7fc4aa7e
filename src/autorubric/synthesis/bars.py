"""Bar charts as SVG, written by hand: no plotting library, and every viewer shows them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 40, 56
_MOST_LABELS = 16
_INK, _FILL, _LINE = "#24292f", "#4c78a8", "#d0d7de"


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
        >>> chart.count("<rect"), "3" in chart
        (3, True)
    """
    highest = top or max((height for _, height in bars), default=0) or 1
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    step = inner_width / max(len(bars), 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{_INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(WIDTH / 2, 22, title, size=15),
        *_axis(highest, inner_height),
    ]
    # Many labels would lie over each other: every n-th is written.
    every = -(-len(bars) // _MOST_LABELS) or 1
    for number, (label, height) in enumerate(bars):
        tall = inner_height * min(height / highest, 1.0)
        left, base = _LEFT + number * step, _TOP + inner_height
        parts.append(
            f'<rect x="{left + step * 0.1:.1f}" y="{base - tall:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}" '
            f'fill="{_FILL}"><title>{escape(label)}: {height:g}</title></rect>'
        )
        if number % every == 0:
            parts.append(_text(left + step / 2, base + 16, label))
    parts.append(_text(_LEFT + inner_width / 2, HEIGHT - 12, x_title))
    parts.append(_text(14, _TOP + inner_height / 2, y_title, turned=True))
    return "\n".join([*parts, "</svg>", ""])


def _axis(highest: float, inner_height: float) -> list[str]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + inner_height * (1 - share)
        lines.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_LINE}"/>')
        lines.append(_text(_LEFT - 6, y + 4, f"{highest * share:,.4g}", anchor="end"))
    return lines


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>{escape(words)}</text>'
