"""A number with the noun that it counts."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun in the right form.

    Example:
        >>> counted(2, "list item")
        '2 list items'
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
