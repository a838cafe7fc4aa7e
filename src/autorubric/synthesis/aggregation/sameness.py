"""When two wordings are the same demand to the letter, and which numbers a wording holds."""

from __future__ import annotations

import re
import unicodedata

# Marks that change what a number or a name says, where other punctuation only parts words.
_MEANING = frozenset("%‰#&@*/\\§†")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[.,:’'](?=\d)")
_SIGN = re.compile(r"(?<![\w)])[-−–](?=\d)|(?<=[<>=≤≥±~])\s*[-−–](?=\d)")
_QUANTITY = re.compile(r"(?<![\w.])(\d[\d.,:/]*)\s*([^\W\d_]{1,3})(?![^\W\d_])")
_WIDE = r"\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_BESIDE_WIDE = re.compile(rf"\s+(?=[{_WIDE}])|(?<=[{_WIDE}])\s+")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *(
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ),
)
_NUMBER_WORD = re.compile(rf"(?<![^\W_])(?:{'|'.join(_WORDS)})(?![^\W_])", re.IGNORECASE)
_UNITS_ZH = "个項项条條次天日周週月年小时分钟秒字句段点點种種例步倍克毫米公岁歲名人元章节節篇行页頁"
_NUMBER_ZH = re.compile(rf"(?<!第)([一二两三四五六七八九十]{{1,3}})(?=[{_UNITS_ZH}])")
_DIGITS_ZH = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}


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
    text = "".join(map(_narrow, text))
    units = " ".join(unit for _, unit in _QUANTITY.findall(text) if not unit.islower())
    text = _SIGN.sub("\x01", text.casefold())
    text = _BETWEEN_DIGITS.sub(lambda mark: "\x02" if mark[0] in ".:" else "\x03", text)
    text = re.sub(r"(?<![\w.])(\d+)(?=[^\W\d_])", r"\1 ", text)
    kept = "".join(char if _says_something(char) else " " for char in text)
    key = _BESIDE_WIDE.sub("", " ".join(kept.split()))
    return f"{key}|{units}" if units else key


def numbers_in(text: str) -> frozenset[str]:
    """The numbers of a text, number words up to twenty and small Chinese numerals before a unit included.

    Example:
        >>> sorted(numbers_in("At least three examples in ２ parts, 十二个月")), sorted(numbers_in("no number"))
        (['12', '2', '3'], [])
    """
    text = "".join(map(_narrow, text))
    found = {number.replace(",", "") for number in _NUMBER.findall(text)}
    found |= {str(_WORDS.index(word.lower())) for word in _NUMBER_WORD.findall(text)} - {"1"}
    found |= {str(_value_zh(numeral)) for numeral in _NUMBER_ZH.findall(text)} - {"1"}
    return frozenset(found)


def lost_numbers(source: str, merged: str) -> frozenset[str]:
    """The numbers that a wording holds and the one it was merged into does not.

    "One" counts as an article, not as a number.

    Example:
        >>> lost_numbers("Advises a check every 3 months.", "Advises a check every 6 months.")
        frozenset({'3'})
    """
    return numbers_in(source) - numbers_in(merged)


def _narrow(char: str) -> str:
    """The char in its plain form, but for superscripts and the like: 10² is not 102."""
    if char.isascii() or unicodedata.decomposition(char).startswith(("<super>", "<sub>", "<fraction>", "<circle>")):
        return char
    return unicodedata.normalize("NFKC", char)


def _says_something(char: str) -> bool:
    return char in _MEANING or char in "\x01\x02\x03" or unicodedata.category(char)[0] in "LMNS"


def _value_zh(numeral: str) -> int:
    tens, ten, ones = numeral.rpartition("十")
    if not ten:
        return _DIGITS_ZH.get(ones[-1], 0)
    return 10 * (_DIGITS_ZH.get(tens, 1) if tens else 1) + (_DIGITS_ZH.get(ones, 0) if ones else 0)
