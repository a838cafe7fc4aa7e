"""Lists of words as regular expressions."""

from __future__ import annotations


def any_of(listing: str) -> str:
    """A pattern that matches any of the entries of a list, which commas and line ends part.

    Example:
        >>> any_of("good, well[- ]written, nice")
        '(?:good|well[- ]written|nice)'
    """
    entries = (entry.strip() for line in listing.splitlines() for entry in line.split(","))
    return "(?:" + "|".join(entry for entry in entries if entry) + ")"
