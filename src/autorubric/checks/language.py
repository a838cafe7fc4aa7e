"""The language of a text, by langdetect with a fixed seed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from autorubric.checks.check import CannotCheck, CheckOutcome, check

if TYPE_CHECKING:
    from langdetect.detector_factory import DetectorFactory

_CODES = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no pa
    pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh zh-cn zh-tw
""".split()  # noqa: SIM905 - a list of words reads best as words
# The detector reads 10,000 characters after it has taken out addresses; beyond this nothing changes.
_LONGEST = 100_000


def _known(code: str) -> str:
    if code not in _CODES:
        raise ValueError(f"is not a language the detector knows; expected one of {', '.join(_CODES)}")
    return code


LanguageCode = Annotated[str, AfterValidator(_known)]
"""An ISO 639-1 code the detector can answer; `zh` covers both `zh-cn` and `zh-tw`."""


@check("language", packages=("langdetect",))
def language(text: str, *, code: LanguageCode) -> CheckOutcome:
    """Passed when the text as a whole is in the given language.

    Short texts are often mistaken for a neighbour language; a sentence or two is enough. A text in capitals is
    read in lower case, because the detector takes most of them for German.

    Raises:
        CannotCheck: the text holds no letters to judge by.

    Example:
        >>> language("Wo ist der nächste Bahnhof, bitte?", code="de").passed
        True
        >>> language("BUENOS DÍAS A TODOS.", code="es").passed
        True
    """
    spoken = detected_language(text.lower() if text.isupper() else text)
    if spoken is None:
        raise CannotCheck("the submission has too little text to detect its language")
    return CheckOutcome(is_language(spoken, code), f"the language is {spoken}; expected {code}")


def is_language(spoken: str, code: str) -> bool:
    """Whether a detected code is the expected one; `zh` takes both scripts.

    Example:
        >>> is_language("zh-tw", "zh"), is_language("zh-tw", "zh-cn")
        (True, False)
    """
    return spoken == code or (code == "zh" and spoken.startswith("zh-"))


def detected_language(text: str) -> str | None:
    """The most likely language code, the same on every call; None where the text gives nothing to go by.

    Example:
        >>> detected_language("Where is the nearest station, please?"), detected_language("123")
        ('en', None)
    """
    return _detected(text[:_LONGEST])


@lru_cache(maxsize=512)
def _detected(text: str) -> str | None:
    from langdetect.lang_detect_exception import LangDetectException

    detector = _profiles().create()
    try:
        detector.append(text)
        found = detector.get_probabilities()
        # langdetect draws at random; where few draws leave a doubt, more of them find its likeliest answer.
        if not found or found[0].prob < 0.99:
            detector.n_trial, detector.langprob = 21, None
            found = detector.get_probabilities()
    except LangDetectException:
        return None
    return found[0].lang if found else "unknown"


@lru_cache(maxsize=1)
def _profiles() -> DetectorFactory:
    import langdetect
    from langdetect.detector_factory import DetectorFactory

    # Our own factory: the module's shared one is seeded, or not, by whoever came first.
    factory = DetectorFactory()
    factory.set_seed(0)
    directory = Path(langdetect.__file__).parent / "profiles"
    factory.load_json_profile([path.read_text("utf-8") for path in sorted(directory.iterdir()) if path.is_file()])
    return factory
