"""When two wordings are the same demand to the letter, and which numbers a merge lost."""

from __future__ import annotations

import re
import unicodedata

from autorubric.wording import narrowed, numbers_in

# Marks that change what a number or a name says, where other punctuation only parts words.
_MEANING = frozenset("%‰#&@*/\\§†")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[.,:’'](?=\d)")
_SIGN = re.compile(r"(?<![\w)])[-−–](?=\d)|(?<=[<>=≤≥±~])\s*[-−–](?=\d)")
_QUANTITY = re.compile(r"(?<![\w.])(\d[\d.,:/]*)\s*([^\W\d_]{1,3})(?![^\W\d_])")
_WIDE = r"\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_BESIDE_WIDE = re.compile(rf"\s+(?=[{_WIDE}])|(?<=[{_WIDE}])\s+")


def sameness_key(text: str) -> str:
    """What is left of a text when case, space and punctuation are gone: equal keys are the same demand.

    Numbers keep their points, signs and percent marks, units of up to three letters behind a number keep their
    case (mg is not Mg), and nothing but marks and spaces is dropped, so that no negation can be. Full-width forms
    are the same as the narrow ones, and superscripts stay what they are.

    Example:
        >>> sameness_key("Follow up  every 3 months.") == sameness_key("follow up every ３ months")
        True
        >>> sameness_key("Follow up every 3 months") == sameness_key("Follow up every 6 months")
        False
        >>> sameness_key("提到剂量，并说明频率。") == sameness_key("提到剂量, 并说明频率")
        True
    """
    text = narrowed(text)
    units = " ".join(unit for _, unit in _QUANTITY.findall(text) if not unit.islower())
    text = _SIGN.sub("\x01", text.casefold())
    text = _BETWEEN_DIGITS.sub(lambda mark: "\x02" if mark[0] in ".:" else "\x03", text)
    text = re.sub(r"(?<![\w.])(\d+)(?=[^\W\d_])", r"\1 ", text)
    kept = "".join(char if _says_something(char) else " " for char in text)
    key = _BESIDE_WIDE.sub("", " ".join(kept.split()))
    return f"{key}|{units}" if units else key


def lost_numbers(source: str, merged: str) -> frozenset[str]:
    """The numbers that a wording holds and the one it was merged into does not.

    "One" counts as an article, not as a number.

    Example:
        >>> lost_numbers("Advises a check every 3 months.", "Advises a check every 6 months.")
        frozenset({'3'})
    """
    return numbers_in(source) - numbers_in(merged)


def _says_something(char: str) -> bool:
    return char in _MEANING or char in "\x01\x02\x03" or unicodedata.category(char)[0] in "LMNS"
