"""The words of a criterion, and the language of a text.

A full language detector takes milliseconds and guesses for short texts. Linting needs microseconds, and None instead
of a guess.
"""

import re
from functools import cached_property, lru_cache
from unicodedata import normalize

from autorubric.core.wording import MARKS, compile_late, strip_asides, strip_quotes

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
# Thai, Lao, Burmese and Khmer have no spaces between words; a word has about four letters.
_THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PART = rf"(?:[^\W\d_{HAN}{_THAI}]++[{MARKS}]*+)++"
_TOKEN = compile_late(rf"{_PART}(?:['’\-]{_PART})*|\d+(?:[.,:/]\d+)*|[{HAN}]|[%‰°$€£¥]|(?!\d)[{_THAI}][{MARKS}]*")
_THAI_LETTER = compile_late(f"[{_THAI}][{MARKS}]*")
# A faster version for lower-case ASCII, which takes half the time.
_ASCII_TOKEN = compile_late(r"[a-z]+(?:['\-][a-z]+)*|\d+(?:[.,:/]\d+)*|[%$]")
_SHORTENED = compile_late(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|dr|mr|mrs|ms|st|no|fig|al|inc|[a-z])\.", re.IGNORECASE)
_END = compile_late(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s|$)|[。！？；]+|\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)]|[A-Z]))")
_FINAL = " \n\t.!?。！？；"
_WORD = compile_late(r"[^\W_]")
_HAN = compile_late(f"[{HAN}]")
_SIGNS = frozenset("%‰°$€£¥")


class Phrasing:
    """A text with its tokens: words, numbers, signs of units, and each Chinese or Thai character by itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens, in lower case."""
        text = self.text.lower()
        return tuple(_ASCII_TOKEN.findall(text) if text.isascii() else _TOKEN.findall(normalize("NFC", text)))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The distinct tokens."""
        return frozenset(self.tokens)

    @cached_property
    def chinese(self) -> bool:
        """Whether it is written in Chinese: more characters than words of other scripts."""
        return not self.text.isascii() and len(_HAN.findall(self.text)) * 2 > len(self.tokens)

    @cached_property
    def size(self) -> int:
        """Its length in words, or for a Chinese text in characters; a number or a foreign word counts as one."""
        shorter = 0 if self.text.isascii() else len(_THAI_LETTER.findall(self.text)) * 3 // 4
        return len(self.tokens) - sum(map(self.tokens.count, _SIGNS & self.vocabulary)) - shorter

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences; a Chinese semicolon also ends a sentence, because it separates whole statements."""
        whole = self.text.strip(_FINAL)
        if _END.search(whole) is None:
            return (whole,) if _WORD.search(whole) else ()
        kept = _SHORTENED.sub(lambda found: found.group().replace(".", "\0"), self.text)
        pieces = (piece.replace("\0", ".").strip() for piece in _END.split(kept))
        return tuple(piece for piece in pieces if _WORD.search(piece))

    @cached_property
    def own(self) -> str:
        """The text in lower case without what it quotes: quoted words are mentioned, not used."""
        return strip_quotes(self.text.lower())

    @cached_property
    def bare(self) -> str:
        """The text in lower case without quotes, the reasons given for it, and asides in brackets."""
        return strip_asides(self.own)


class Hints:
    """Strings without which a pattern cannot match; searching for them first saves time.

    Args:
        english: the strings, separated by a comma and a space.
        chinese: those with characters that are not ASCII, separated in the same way.

    Example:
        >>> places = Hints("on the map, figure", "图")
        >>> [places.occur_in(text) for text in ("see figures", "on the map", "地图", "the plan")]
        [True, True, True, False]
    """

    def __init__(self, english: str, chinese: str = "") -> None:
        self._ascii = english.split(", ")
        self._all = [*self._ascii, *filter(None, chinese.split(", "))]

    def occur_in(self, text: str) -> bool:
        """Return whether a text contains one of them."""
        return any(map(text.__contains__, self._ascii if text.isascii() else self._all))


_SCRIPTS = {
    code: compile_late(letters)
    for code, letters in {
        "ja": r"[\u3040-\u30ff]", "zh": r"[\u3400-\u4dbf\u4e00-\u9fff]", "th": r"[\u0e00-\u0e7f]{1,4}",
        "ru": r"[\u0400-\u04ff]+", "ar": r"[\u0600-\u06ff]+", "he": r"[\u0590-\u05ff]+", "bn": r"[\u0980-\u09ff]+",
        "ko": r"[\uac00-\ud7af]", "hi": r"[\u0900-\u097f]+", "el": r"[\u0370-\u03ff]+", "am": r"[\u1200-\u137f]+",
    }.items()
}  # fmt: skip
_LATIN = compile_late(r"\b(?:(?<!-)[a-zà-öø-ɏḀ-ỿ]{2,}|[aeyoéà]\b(?! *[=+*/<>)(^-]))")
_ASCII_LATIN = compile_late(r"\b(?:(?<!-)[a-z]{2,}|[aeyo]\b(?! *[=+*/<>)(^-]))", re.ASCII)
_SMALL_WORDS = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the of and to is that in it for with as are this be on by an or from not should has have was which "
        "how what why when can could would do does did non you your if were had but at we they their my our its",
        "es": "el la los las de que y en un una por con para es del se su no lo como más pero sus está qué mi "
        "cómo cuál cuáles cuándo si fuera puedo puede podría al sobre entre ser usted esta este",
        "fr": "le la les des et est en un une du que qui dans pour pas sur au avec ce il je ne vous mon cette "
        "comment quel quelle quels quelles pourquoi si être aux sont votre ses peut vos où se ces elle ont leur "
        "par moins plus combien",
        "de": "der die das und ist nicht ein eine zu den mit von für auf im dem des sich auch ich wie es dass "
        "wenn wir sie sind kann können würde würden wäre einer einem einen bei oder warum um wird zum zur "
        "viel wieviel pro darf was welche welcher welches",
        "pt": "o os as de que e em um uma para com não do da no na por se mais como mas dos ao são é ser você pode",
        "it": "il lo gli di che e la un una per non con del della sono è le si nel come da più ma anche al mio "
        "quali quale cosa perché se in dei delle degli dalla nella essere può potrebbe posso fosse dell ho ha ogni",
        "nl": "de het een en van is dat niet op te zijn met voor die in er maar om ook als aan ik wat hoe mijn",
        "tr": "ve bir bu için ile nasıl çok olarak olan kadar daha gibi neden hangi mı mi midir nedir olur gün günde",
        "vi": "và của là có không được cho một những các trong này với khi người bao nhiêu như thế nào tôi bạn mỗi",
        "id": "dan yang dengan untuk dari apa ini itu adalah bagaimana dalam tidak saya jelaskan mengapa pada berapa",
        "pl": "jest się nie jak czy dla na do od oraz jakie jaki jaka przez może który która które ile dlaczego",
        "sw": "ya na wa kwa ni la katika za kama yangu cha mimi au hii sana nini kuwa",
    }.items()
}
# LaTeX and code contain words of no language, such as "\\la" and "e".
_FORMULA = compile_late(r"\$\$?[^$]{1,400}\$\$?|\\\(.{1,300}?\\\)|\\\[.{1,300}?\\\]|\\[A-Za-z]+|`[^`]{1,300}`|[{}_^]")
_FEWEST = 3
_LONGEST = 4000
_TRANSLATION_HINTS = ("transl", "tradu", "übers", "译", "翻訳")
_TRANSLATION = compile_late(r"\btranslat|\btraduc|\btraduz|übersetz|翻译|译成|译为|翻訳")


@lru_cache(maxsize=256)
def detect_language(text: str) -> str | None:
    """Return the code of a text's language; None if it is mixed, about translation, too short or unknown."""
    text = normalize("NFC", text[:_LONGEST].lower())
    if any(map(text.__contains__, _TRANSLATION_HINTS)) and _TRANSLATION.search(text):
        return None
    if any(map(text.__contains__, "$\\`{_^")):
        text = _FORMULA.sub(" ", text)
    if text.isascii():
        return _guess_by_small_words(_ASCII_LATIN.findall(text))
    found = {code: len(pattern.findall(text)) for code, pattern in _SCRIPTS.items()}
    if found["ja"]:
        found["ja"] += found.pop("zh")
    latin = _LATIN.findall(text)
    foreign = sum(found.values())
    if foreign <= 0.15 * (foreign + len(latin)):
        return _guess_by_small_words(latin)
    code = max(found, key=found.__getitem__)
    total = foreign + len(latin)
    # Names and terms in Latin letters, without function words, do not change the language of a text.
    least = 0.5 if _SMALL_WORDS["en"].isdisjoint(latin) else 0.7
    return code if total >= _FEWEST and found[code] >= least * total else None


def _guess_by_small_words(words: list[str]) -> str | None:
    found = set(words)  # a name or a variable, such as y, may be repeated
    scores = {code: len(known & found) for code, known in _SMALL_WORDS.items()}
    *_, second, best = sorted(scores, key=scores.__getitem__)
    least = 1.5 if scores[best] >= _FEWEST else 2.0
    return best if scores[best] >= least * max(scores[second], 1) else None
