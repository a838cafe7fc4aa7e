"""Wordings of language."""

from __future__ import annotations

from autorubric.checks.language import detected_language
from autorubric.synthesis.compiling.grammar import MODAL, MODAL_ZH, SUBJECT, SUBJECT_ZH, Found, first_match, patterns

_LANGUAGES = {
    "english": "en",
    "chinese": "zh",
    "simplified chinese": "zh-cn",
    "traditional chinese": "zh-tw",
    "french": "fr",
    "german": "de",
    "spanish": "es",
    "italian": "it",
    "portuguese": "pt",
    "russian": "ru",
    "japanese": "ja",
    "korean": "ko",
    "arabic": "ar",
    "hindi": "hi",
    "dutch": "nl",
    "polish": "pl",
    "turkish": "tr",
    "vietnamese": "vi",
    "thai": "th",
    "swedish": "sv",
    "ukrainian": "uk",
    "英文": "en",
    "英语": "en",
    "中文": "zh",
    "汉语": "zh",
    "简体中文": "zh-cn",
    "繁体中文": "zh-tw",
    "法语": "fr",
    "法文": "fr",
    "德语": "de",
    "德文": "de",
    "西班牙语": "es",
    "俄语": "ru",
    "日语": "ja",
    "日文": "ja",
    "韩语": "ko",
    "韩文": "ko",
    "意大利语": "it",
    "葡萄牙语": "pt",
    "阿拉伯语": "ar",
}

_TONGUES = "|".join(sorted(_LANGUAGES, key=len, reverse=True))
_SPOKEN = patterns(
    rf"{SUBJECT}{MODAL}(?:(?:is|be)\s+(?:entirely\s+|fully\s+|completely\s+)?(?:written\s+)?|writes?\s+|answers?\s+"
    rf"|responds?\s+|replies\s+)(?:entirely\s+|only\s+)?in\s+"
    rf"(?P<tongue>{_TONGUES})",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:全部)?(?:用|使用|以|采用)?(?P<tongue>{_TONGUES})(?:回答|书写|撰写|作答|写成|回复)?",
)
_SAME = patterns(
    rf"{SUBJECT}{MODAL}(?:is|be)\s+(?:written\s+)?in\s+(?:the\s+same\s+language\s+as\s+the\s+(?:question|query|prompt)"
    r"|the\s+language\s+of\s+the\s+(?:question|query|prompt))",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:用|使用|以)?(?:与|和)(?:问题|提问|用户)(?:相同|一致)的?语言(?:回答|作答|书写)?",
)


def language_check(text: str, query: str) -> Found:
    """The check on the language that a wording names, or that the query is in.

    Example:
        >>> language_check("用中文回答", "")
        ('language', {'code': 'zh'})
    """
    match = first_match(_SPOKEN, text)
    if match is not None:
        return "language", {"code": _LANGUAGES[match["tongue"].lower()]}
    if first_match(_SAME, text) is None or not query:
        return None
    code = detected_language(query)
    return None if code is None else ("language", {"code": "zh" if code.startswith("zh") else code})
