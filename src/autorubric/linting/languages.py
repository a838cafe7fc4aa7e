"""Which language a text is written in, by its script and its small words.

A detector that knows every language takes milliseconds a text and guesses at short ones. Lint needs the opposite:
microseconds, and None rather than a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]+")),
    ("ar", re.compile(r"[\u0600-\u06ff]+")),
    ("he", re.compile(r"[\u0590-\u05ff]+")),
    ("hi", re.compile(r"[\u0900-\u097f]+")),
    ("bn", re.compile(r"[\u0980-\u09ff]+")),
    ("th", re.compile(r"[\u0e00-\u0e7f]{1,4}")),
    ("el", re.compile(r"[\u0370-\u03ff]+")),
    ("am", re.compile(r"[\u1200-\u137f]+")),
)
_LATIN = re.compile(r"[a-zà-öø-ÿœ]+")
_SMALL_WORDS = {
    "en": "the of and to is that in it for with as are this be on by an or from not should has have was which",
    "es": "el la los las de que y en un una por con para es del se su no lo como más pero sus está qué mi",
    "fr": "le la les des et est en un une du que qui dans pour pas sur au avec ce il je ne vous mon cette",
    "de": "der die das und ist nicht ein eine zu den mit von für auf im dem des sich auch ich wie es dass",
    "pt": "o os as de que e em um uma para com não do da no na por se mais como mas dos foi ao meu eu você",
    "it": "il lo gli di che e la un una per non con del della sono è le si nel come da più ma anche al mio",
    "nl": "de het een en van is dat niet op te zijn met voor die in er maar om ook als aan ik wat hoe mijn",
    "sw": "ya na wa kwa ni la katika za kama yangu cha mimi au hii sana nini kuwa",
}
_CODES_OF: dict[str, list[str]] = {}
for _code, _listed in _SMALL_WORDS.items():
    for _word in _listed.split():
        _CODES_OF.setdefault(_word, []).append(_code)
_FEWEST = 3
_LONGEST = 4000
_TRANSLATION = re.compile(r"\btranslat|\btraduc|\btraduz|übersetz|翻译|译成|译为|翻訳")


@lru_cache(maxsize=256)
def spoken(text: str) -> str | None:
    """The code of the language a text is in; None where it is mixed, about translation, too short or unknown.

    Example:
        >>> spoken("What is the safest dose of paracetamol for an adult?"), spoken("对乙酰氨基酚的安全剂量是多少？")
        ('en', 'zh')
        >>> spoken("Translate 今天天气很好 into English"), spoken("print(x)")
        (None, None)
    """
    text = text[:_LONGEST].lower()
    if _TRANSLATION.search(text):
        return None
    found: Counter[str] = Counter()
    if not text.isascii():
        found.update({code: len(pattern.findall(text)) for code, pattern in _SCRIPTS})
    if found["ja"]:
        found["ja"] += found.pop("zh")
    latin = _LATIN.findall(text)
    foreign = found.total()
    if foreign + len(latin) < _FEWEST:
        return None
    if foreign <= 0.15 * (foreign + len(latin)):
        return _by_small_words(latin)
    (code, most), *_ = found.most_common(1)
    return code if most >= 0.7 * (foreign + len(latin)) else None


def _by_small_words(words: list[str]) -> str | None:
    scores = Counter(code for word in words if word in _CODES_OF for code in _CODES_OF[word])
    (code, best), (_, second) = (*scores.most_common(2), ("", 0), ("", 0))[:2]
    return code if best >= _FEWEST and best >= 1.5 * second else None
