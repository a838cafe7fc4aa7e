"""Bounds on a number, as criteria word them: "at most 200", "不少于三个"."""

from __future__ import annotations

import re
from typing import NamedTuple

from autorubric.wording import ENGLISH, whole_number

NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d+|(?:{'|'.join(ENGLISH)}|a|an)\b|[一二两三四五六七八九十百千万]+)"
"""A whole number in digits, as an English word up to twenty, or in Chinese."""

_LEAST = r"at\s+least|no\s+(?:fewer|less)\s+than|not\s+(?:fewer|less)\s+than|a\s+minimum\s+of|minimum"
_MOST = (
    r"at\s+most|no\s+more\s+than|no\s+longer\s+than|not\s+more\s+than|up\s+to|a\s+maximum\s+of|maximum|within|"
    r"does\s+not\s+exceed"
)
_BELOW = r"fewer\s+than|less\s+than|shorter\s+than|under|below"
_ABOVE = r"more\s+than|longer\s+than|over|exceeds|above|exceeding"
_EXACTLY = r"exactly|precisely"
_ZH = (
    r"至少|不少于|不低于|最少|最多|不超过|不多于|至多|不得超过|不能超过|"
    r"少于|低于|小于|多于|超过|大于|恰好|正好|刚好|仅"
)
_AFTER = r"or\s+(?:fewer|less|under)|or\s+more"
_AFTER_ZH = r"以内|之内|以下|以上|及以上|及以下"

BOUND = (
    rf"(?:between\s+(?P<low>{NUMBER})\s+and\s+(?P<high>{NUMBER})"
    rf"|(?P<from>{NUMBER})\s*(?:-|–|—|~|～|to|到|至)\s*(?P<to>{NUMBER})"
    rf"|(?:(?P<how>{_LEAST}|{_MOST}|{_BELOW}|{_ABOVE}|{_EXACTLY}|{_ZH})\s*)?(?P<n>{NUMBER}))"
)
"""A bound before the unit."""

AFTER = rf"(?P<after>{_AFTER}|{_AFTER_ZH})?"
"""What may follow the unit: "200 words or fewer", "200字以内"."""

_SENSES = (
    (re.compile(rf"(?:{_LEAST}|至少|不少于|不低于|最少|or\s+more|以上|及以上)$", re.I), "least"),
    (re.compile(rf"(?:{_MOST}|最多|不超过|不多于|至多|不得超过|不能超过|or\s+(?:fewer|less|under))$", re.I), "most"),
    (re.compile(r"(?:以内|之内|以下|及以下)$"), "most"),
    (re.compile(rf"(?:{_BELOW}|少于|低于|小于)$", re.I), "below"),
    (re.compile(rf"(?:{_ABOVE}|多于|超过|大于)$", re.I), "above"),
)


class Bounds(NamedTuple):
    """The least and the most, each None where there is none."""

    at_least: int | None
    at_most: int | None

    def parameters(self) -> dict[str, int]:
        """The bounds that are there, as a check takes them."""
        given = {"at_least": self.at_least, "at_most": self.at_most}
        return {name: value for name, value in given.items() if value is not None}


def bounds_of(match: re.Match[str], bare: str = "exactly") -> Bounds | None:
    r"""The bounds in a match of `BOUND` and `AFTER`, or None where they contradict each other.

    Args:
        match: of a pattern that holds both.
        bare: what a number without a bound means: `exactly`, `least` or `most`.

    Example:
        >>> pattern = re.compile(rf"{BOUND} words {AFTER}".replace(" ", r"\s*"))
        >>> [tuple(bounds_of(pattern.fullmatch(text))) for text in ("under 200 words", "50 to 80 words", "9 words")]
        [(None, 199), (50, 80), (9, 9)]
    """
    for low, high in (("low", "high"), ("from", "to")):
        if match[low] is not None:
            pair = Bounds(whole_number(match[low]), whole_number(match[high]))
            return pair if (pair.at_least or 0) <= (pair.at_most or 0) else None
    n = whole_number(match["n"])
    how, after = _sense(match["how"]), _sense(match["after"])
    if how and after and how != after:
        return None
    sense = how or after or bare
    if sense == "below" and n == 0:
        return None
    table = {"least": (n, None), "most": (None, n), "below": (None, n - 1), "above": (n + 1, None)}
    return Bounds(*table.get(sense, (n, n)))


def _sense(text: str | None) -> str:
    if not text:
        return ""
    return next((sense for pattern, sense in _SENSES if pattern.fullmatch(text)), "exactly")
