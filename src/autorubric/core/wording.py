"""The words of criteria: what they assert, negations, numbers; and patterns that are compiled at their first use."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, TypeAlias, cast

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
"""The characters of scripts without spaces between words (Thai to Khmer, kana, Chinese), as ranges of a pattern."""
MARKS = "\u00ad\u200c\u200d" + "".join(
    char for char in map(chr, range(0x300, 0x1E00)) if unicodedata.category(char).startswith("M")
)
r"""Parts of words that `\w` does not match: vowel signs, accents, joiners and soft hyphens."""

_USES = ("match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "groups", "groupindex")


_BETWEEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
_Search: TypeAlias = Callable[..., re.Match[str] | None]


class _LatePattern:
    def __init__(self, pattern: str, flags: int, chinese: str) -> None:
        self.pattern = f"{pattern}|{chinese}" if chinese else pattern
        self.flags = flags
        self._ascii = pattern

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # introspection, such as that of doctest, must not compile it
        # From the second use on, this method is bypassed.
        if name == "search":
            self.search = _build_search(self._ascii, self.pattern, self.flags)
            return self.search
        compiled = re.compile(self.pattern, self.flags)
        self.__dict__.update((use, getattr(compiled, use)) for use in _USES)
        return getattr(compiled, name)


def _build_search(ascii_only: str, whole: str, flags: int) -> _Search:
    if ascii_only == whole:
        return _build_quick_search(whole, flags)
    search_of = cache(lambda plain: _build_quick_search(ascii_only if plain else whole, flags))
    return lambda text, *bounds: search_of(text.isascii())(text, *bounds)


def _build_quick_search(pattern: str, flags: int) -> _Search:
    r"""Build a faster search: `^` is tried once, and `\b` once for all alternatives that start with it."""
    compiled = re.compile(pattern, flags)
    every = _split_alternatives(pattern)
    if flags & re.MULTILINE:
        return compiled.search
    anywhere = [alternative for alternative in every if not alternative.startswith("^")]
    if not anywhere:
        return lambda text, *bounds: compiled.search(text, *bounds) if bounds else compiled.match(text)
    if len(every) == 1:
        return compiled.search
    runs = ((word, [*run]) for word, run in groupby(anywhere, lambda alternative: alternative.startswith(r"\b")))
    rest = re.compile(
        "|".join(
            rf"\b(?:{'|'.join(alternative[2:] for alternative in run)})" if word else "|".join(run)
            for word, run in runs
        ),
        flags,
    )
    return lambda text, *bounds: (
        compiled.search(text, *bounds) if bounds else compiled.match(text) or rest.search(text, 1)
    )


def _split_alternatives(pattern: str) -> list[str]:
    depth, start, found = 0, 0, []
    for mark in _BETWEEN.finditer(pattern):
        depth += (mark[0] == "(") - (mark[0] == ")")
        if mark[0] == "|" and not depth:
            found.append(pattern[start : mark.start()])
            start = mark.end()
    return [*found, pattern[start:]]


def compile_late(pattern: str, flags: int = 0, chinese: str = "") -> re.Pattern[str]:
    r"""Return a pattern that is compiled at its first use: a long one takes up to 50 ms.

    It has the methods of a pattern, but the functions of `re` do not accept it.

    Args:
        pattern: as for `re.compile`; a backreference must be in the same alternative as its group.
        flags: as for `re.compile`.
        chinese: further alternatives, none of which matches in ASCII.

    Example:
        >>> numbers = compile_late(r"\d+")
        >>> numbers.findall("2 of 30"), numbers.search("none")
        (['2', '30'], None)
    """
    return cast("re.Pattern[str]", _LatePattern(pattern, flags, chinese))


_PART = rf"(?:[^\W_{UNSPACED}]++[{MARKS}]*+)++"
WORD = compile_late(rf"[{UNSPACED}][{MARKS}]*|{_PART}(?:['’\-]{_PART})*")
"""A word, with apostrophes and hyphens inside it; of scripts without spaces, each character."""


_QUOTED = re.compile(
    r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|「[^」]{1,200}」|《[^》]{1,200}》|`[^`\n]{1,200}`|'(?<!\w')[^'\n]{1,80}'(?!\w)"
)
_ASIDE = re.compile(r"\([^()]*\)|（[^（）]*）|\[[^\[\]]*\]")
# The reason given for a criterion is not part of what it asks for.
_REASON = re.compile(r"[(（]\s*(?:justification|rationale|reason(?:ing)?|note|理由|说明|注)\s*[:：].*", re.DOTALL)


def strip_quotes(text: str) -> str:
    """Return a text without what it quotes: quoted words are mentioned, not used.

    Example:
        >>> strip_quotes('Names the drug "A".')
        'Names the drug  .'
    """
    return _QUOTED.sub(" ", text) if any(map(text.__contains__, "'\"`“「《")) else text


def strip_asides(text: str) -> str:
    """Return a text without the reasons given for it and asides in brackets.

    Example:
        >>> strip_asides("names 4 g (a day). (justification: safety.)").split()
        ['names', '4', 'g', '.']
    """
    return _ASIDE.sub(" ", _REASON.sub("", text)) if any(map(text.__contains__, "([（")) else text


def read_assertion(text: str) -> str:
    """Return a text in lower case without quotes, the reasons given for it, and asides in brackets.

    Example:
        >>> read_assertion('Names the drug "A" (generic name). (Justification: safety.)').split()
        ['names', 'the', 'drug', '.']
    """
    return strip_asides(strip_quotes(text.lower()))


def match_any(listing: str) -> str:
    """Return a pattern that matches any entry of a list; entries are separated by commas and line ends.

    Example:
        >>> match_any("errors?, typos?")
        '(?:errors?|typos?)'
    """
    entries = (entry.strip() for line in listing.splitlines() for entry in line.split(","))
    return "(?:" + "|".join(entry for entry in entries if entry) + ")"


_NEGATION = re.compile(
    r"\b(?:not|no|never|without|fails?|failed|neglects?|omits?|lacks?|avoid\w*|refrain\w*|neither|nor|none|cannot|"
    r"unless|except|incorrectly|wrongly|\w+n['’]t)\b|[不未无没勿莫禁]|非(?!常)|避免|错误"
)


def count_negations(text: str) -> int:
    """Count the negating words of a text; an even number of them may cancel out.

    Example:
        >>> [count_negations(text) for text in ("Does not fail to warn.", "Names it.", "未说明剂量", "非常清楚")]
        [2, 0, 1, 0]
    """
    return len(_NEGATION.findall(text.lower()))


ENGLISH = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
"""The words for 0 to 20, in order."""

_ONES_ZH = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_TENS_ZH = {"十": 10, "百": 100, "千": 1000, "万": 10000}
NUMBER_WORDS = {
    **{word: str(value) for value, word in enumerate(ENGLISH)},
    **{word: str(value) for word, value in _ONES_ZH.items()},
    "十": "10",
    "once": "1",
    "twice": "2",
    "double": "2",
    "thrice": "3",
}
"""The digits for each number word, and for each Chinese character that is a number by itself."""

_DIGITS = re.compile(r"\d+(?:[.,:/]\d+)*")
_WORD = re.compile(rf"(?<![^\W_])(?:{'|'.join(ENGLISH)})(?![^\W_])", re.IGNORECASE)
_UNITS_ZH = "个項项条條次天日周週月年小时分钟秒字句段点點种種例步倍克毫米公岁歲名人元章节節篇行页頁"
_NUMERAL_ZH = re.compile(rf"(?<!第)([一二两三四五六七八九十]{{1,3}})(?=[{_UNITS_ZH}])")
_KEPT = ("<super>", "<sub>", "<fraction>", "<circle>")


def find_numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text in digits: number words up to twenty and Chinese numerals before a unit included.

    "One" counts as an article, not as a number.

    Example:
        >>> sorted(find_numbers("At least three examples in ２ parts, 十二个月")), sorted(find_numbers("no number"))
        (['12', '2', '3'], [])
    """
    text = narrow(text)
    found = {number.replace(",", "") for number in _DIGITS.findall(text)}
    found |= {NUMBER_WORDS[word.lower()] for word in _WORD.findall(text)} - {"1"}
    found |= {str(parse_number(numeral)) for numeral in _NUMERAL_ZH.findall(text)} - {"1"}
    return frozenset(found)


def parse_number(text: str) -> int:
    """Return the value of digits, an English number word up to twenty, an article or a Chinese numeral.

    Example:
        >>> [parse_number(text) for text in ("1,200", "Three", "an", "两百五十", "十二")]
        [1200, 3, 1, 250, 12]
    """
    plain = text.lower().replace(",", "")
    if plain.isdecimal():
        return int(plain)
    if plain in ENGLISH:
        return ENGLISH.index(plain)
    return 1 if plain in ("a", "an") else _parse_chinese(plain)


def narrow(text: str) -> str:
    """Return a text with its characters in their plain form, except superscripts and the like: 10² is not 102.

    Example:
        >>> narrow("２０ mg/m²")
        '20 mg/m²'
    """
    return text if text.isascii() else "".join(map(_narrow_char, text))


def _narrow_char(char: str) -> str:
    if char.isascii() or unicodedata.decomposition(char).startswith(_KEPT):
        return char
    return unicodedata.normalize("NFKC", char)


def fold_text(text: str) -> str:
    """Return a text as a reader compares it: without case, accents and width; Turkish ı is i.

    Example:
        >>> fold_text("ÉTÉ, ＡＢＣ, İZMİR, Straße"), fold_text("がる")
        ('ete, abc, izmir, strasse', 'がる')
    """
    return text.lower() if text.isascii() else "".join(map(fold_letter, unicodedata.normalize("NFC", text)))


@lru_cache(maxsize=16_384)
def fold_letter(char: str) -> str:
    """Return one character of a folded text; empty for an accent, and several for `ß` and the like."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", _narrow_char(char).casefold()))
    return unicodedata.normalize("NFC", bare).replace("ı", "i")


def compile_folded(words: str) -> re.Pattern[str]:
    """Compile a pattern that finds words as `fold_text` compares them in an unfolded text (`ß` is not `ss`).

    Example:
        >>> bool(compile_folded("ete").search("En ÉTE\u0301")), bool(compile_folded("été").search("eta"))
        (True, False)
        >>> bool(compile_folded("STRASSE").search("Die Straße")), bool(compile_folded("straße").search("Strasse"))
        (True, True)
    """
    spellings = _group_spellings()
    accents = f"[{re.escape(spellings[''])}]*"
    letters = [f"[{re.escape(spellings.get(char, char))}]{accents}" for char in fold_text(words)]
    two = 2 * f"[{re.escape(spellings['s'])}]{accents}"
    return re.compile("".join(letters).replace(two, f"(?:{two}|[ßẞ])"))


@cache
def _group_spellings() -> dict[str, str]:
    """Return the letters with case, accents or width by their folded form; accents themselves fold to nothing."""
    found: dict[str, str] = {}
    for char in map(chr, (*range(0x20, 0x700), *range(0x1E00, 0x2070), *range(0xFF01, 0xFFA0))):
        found[fold_letter(char)] = found.get(fold_letter(char), "") + char
    return found


# Accents of European scripts, vowels of Hebrew and Arabic, invisible characters; not vowel signs of Hindi or Thai.
_ACCENTS = re.compile("[\u00ad\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u200b-\u200f\u2060]")


def _parse_chinese(numeral: str) -> int:
    total = digit = 0
    for char in numeral:
        if char in _ONES_ZH:
            digit = _ONES_ZH[char]
        else:
            total += (digit or 1) * _TENS_ZH[char]
            digit = 0
    return total + digit
