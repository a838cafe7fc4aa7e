"""The language of a text: by its script where that is enough, else by two detectors that must agree."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from autorubric.checks.check import CannotCheck, CheckOutcome, check

if TYPE_CHECKING:
    from langdetect.detector_factory import DetectorFactory
    from py3langid.langid import LanguageIdentifier

_CODES = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no pa
    pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh zh-cn zh-tw
""".split()  # noqa: SIM905 - a list of words reads best as words
# The detector reads 10,000 characters after it has taken out addresses; beyond this nothing changes.
_LONGEST = 100_000
# Scripts (the first word of Unicode names) that only one language of the list is written in.
_SCRIPTS = {
    "HANGUL": "ko", "THAI": "th", "GREEK": "el", "HEBREW": "he", "TAMIL": "ta", "TELUGU": "te", "KANNADA": "kn",
    "MALAYALAM": "ml", "GUJARATI": "gu", "GURMUKHI": "pa", "BENGALI": "bn",
}  # fmt: skip
# From the first share on, the second detector decides alone; below the other, a language is excluded.
_SURE, _EXCLUDED = 0.6, 0.05
# Letters, in a script that languages share: `OK` and `no` are words of many languages.
_FEWEST = 4
# Japanese signs and titles, such as 営業中, may have no kana; sentences do.
_LONGEST_SIGN = 12


def _check_known(code: str) -> str:
    plain = code.lower().replace("_", "-")
    known = plain if plain in _CODES else plain.partition("-")[0]
    if known not in _CODES:
        raise ValueError(f"is not a language the detector knows; expected one of {', '.join(_CODES)}")
    return known


LanguageCode = Annotated[str, AfterValidator(_check_known)]
"""An ISO 639-1 code that the detector knows, perhaps with a region; `zh` covers both `zh-cn` and `zh-tw`."""


@check("language", packages=("langdetect", "py3langid"))
def language(text: str, *, code: LanguageCode) -> CheckOutcome:
    """Passed when the text as a whole is in the given language.

    The script decides where one language alone uses it. Otherwise two detectors read the text in lower case; it
    passes or fails where both agree, or the second is sure.

    Raises:
        CannotCheck: the text has no letters, or is so short that the detectors disagree.

    Example:
        >>> language("Wo ist der nächste Bahnhof, bitte?", code="de").passed
        True
        >>> language("BUENOS DÍAS A TODOS.", code="es").passed
        True
        >>> language("駅はどこですか。", code="zh").passed
        False
    """
    # The detectors know lower case best, and mistake a short text in capitals or title case for another language.
    text = text[:_LONGEST].lower()
    spoken = detect_language(text)
    if spoken is None:
        raise CannotCheck("the submission has too little text to detect its language")
    written = _find_script_language(text)
    if written == "zh" and code != "zh":
        # Chinese characters alone: a short text may be Japanese, and only the detector tells zh-cn from zh-tw.
        letters = sum(map(str.isalpha, text[:_LONGEST_SIGN]))
        if not spoken.startswith("zh") or (code == "ja" and letters < _LONGEST_SIGN):
            raise CannotCheck("the submission has Chinese characters only and is too short to tell its language")
        return CheckOutcome(spoken == code, f"the language is {spoken}; expected {code}")
    if written is not None:
        return CheckOutcome(is_language(written, code), f"the language is {written}; expected {code}")
    if sum(map(str.isalpha, text)) < _FEWEST:
        raise CannotCheck("the submission has too few letters to detect its language")
    shares = dict(_load_second_detector().rank(text))
    second, wanted = max(shares, key=lambda one: shares[one]), shares[code.partition("-")[0]]
    first_agrees, second_agrees = is_language(spoken, code), second == code
    if (first_agrees and second_agrees) or wanted >= _SURE:
        return CheckOutcome(True, f"the language is {code}")
    if first_agrees or second_agrees or wanted >= _EXCLUDED:
        seen = " or ".join(dict.fromkeys((spoken, second, code)))
        raise CannotCheck(f"the language may be {seen}; the submission is too short to tell")
    return CheckOutcome(False, f"the language is {spoken}; expected {code}")


def _find_script_language(text: str) -> str | None:
    """Return the language of the script of most letters; None if several languages share that script."""
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in text[:5_000] if letter.isalpha())
    if not scripts:
        return None
    kana, han = scripts["HIRAGANA"] + scripts["KATAKANA"], scripts["CJK"]
    # Japanese mixes both; a Chinese text that quotes a few kana stays Chinese.
    if kana + han > scripts.total() / 2:
        return "ja" if kana > han / 8 else "zh"
    return _SCRIPTS.get(max(scripts, key=lambda script: scripts[script]))


def is_language(spoken: str, code: str) -> bool:
    """Return whether a detected code is the expected one; `zh` takes both scripts.

    Example:
        >>> is_language("zh-tw", "zh"), is_language("zh-tw", "zh-cn")
        (True, False)
    """
    return spoken == code or (code == "zh" and spoken.startswith("zh-"))


def detect_language(text: str) -> str | None:
    """Return the most likely language code, the same on every call; None if the text has nothing to detect.

    Example:
        >>> detect_language("Where is the nearest station, please?"), detect_language("123")
        ('en', None)
    """
    return _run_detector(text[:_LONGEST])


@lru_cache(maxsize=512)
def _run_detector(text: str) -> str | None:
    from langdetect.lang_detect_exception import LangDetectException

    detector = _load_profiles().create()
    try:
        detector.append(text)
        found = detector.get_probabilities()
        # langdetect samples at random; if a few samples leave doubt, more of them find its likeliest answer.
        if not found or found[0].prob < 0.99:
            detector.n_trial, detector.langprob = 21, None
            found = detector.get_probabilities()
    except LangDetectException:
        return None
    return found[0].lang if found else "unknown"


@lru_cache(maxsize=1)
def _load_profiles() -> DetectorFactory:
    import langdetect
    from langdetect.detector_factory import DetectorFactory

    # A factory of our own: whoever uses the shared one first decides its seed.
    factory = DetectorFactory()
    factory.set_seed(0)
    directory = Path(langdetect.__file__).parent / "profiles"
    factory.load_json_profile([path.read_text("utf-8") for path in sorted(directory.iterdir()) if path.is_file()])
    return factory


@lru_cache(maxsize=1)
def _load_second_detector() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(sorted({code.partition("-")[0] for code in _CODES}))
    return identifier
