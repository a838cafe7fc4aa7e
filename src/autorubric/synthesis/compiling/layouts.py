"""Wordings of form: phrases that have to be there or must not, layout, letter case, language."""

from __future__ import annotations

import re
from typing import Any

from autorubric.checks.language import detected_language
from autorubric.synthesis.compiling.quantities import (
    AFTER,
    BOUND,
    HAS,
    MODAL,
    MODAL_ZH,
    NOT,
    NOT_ZH,
    SUBJECT,
    SUBJECT_ZH,
    Found,
    first_match,
    patterns,
    read_bounds,
)

_QUOTE = r"[\"“”「『'‘’《`]"
_UNQUOTE = r"[\"“”」』'‘’》`]"
_QUOTED = rf"{_QUOTE}(?P<phrase>[^\"“”「」『』`]+?){_UNQUOTE}"
_ANY_QUOTED = re.compile(rf"{_QUOTE}([^\"“”「」『』`]+?){_UNQUOTE}(?![A-Za-z])")

_HOLDS = r"(?:contains?|includes?|uses?|mentions?|has|have)"
_KIND = r"(?:the\s+)?(?:exact\s+)?(?:words?|phrases?|terms?|keywords?|strings?|sentences?)?\s*"
_KIND_ZH = r"(?:关键词|词语|单词|短语|词|字样|句子|文字)?\s*"
_QUOTES = rf"(?P<list>{_QUOTE}.+{_UNQUOTE})"
_WORDING_ZH = r"(?:包含|出现|使用|提到|含有|提及)(?:了)?"
_ABSENT = patterns(
    rf"{SUBJECT}{MODAL}(?:{NOT}\s+{_HOLDS}|avoids?(?:\s+(?:using|mentioning))?)\s+(?:any\s+of\s+)?{_KIND}{_QUOTES}",
    rf"{SUBJECT_ZH}{NOT_ZH}(?:{_WORDING_ZH})?{_KIND_ZH}{_QUOTES}(?:一词|字样|等词|这个词)?",
)
_PRESENT = patterns(
    rf"{SUBJECT}{MODAL}{_HOLDS}\s+{_KIND}{_QUOTES}",
    rf"{SUBJECT_ZH}{MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTES}(?:一词|字样|这个词)?",
)
_STARTS = patterns(
    rf"{SUBJECT}{MODAL}(?:starts?|begins?|opens?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{SUBJECT_ZH}{MODAL_ZH}以\s*{_QUOTED}\s*(?:开头|开始)",
)
_ENDS = patterns(
    rf"{SUBJECT}{MODAL}(?:ends?|closes?|concludes?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{SUBJECT_ZH}{MODAL_ZH}以\s*{_QUOTED}\s*(?:结尾|结束)",
)


_TIMES = patterns(
    rf"{SUBJECT}{MODAL}{_HOLDS}\s+{_KIND}{_QUOTED}\s+(?:{BOUND}\s+times?|(?P<once>exactly\s+once|twice))\s*{AFTER}",
    rf"{SUBJECT_ZH}{MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTED}(?:一词)?{BOUND}\s*次\s*{AFTER}(?P<once>)",
)


def repetition_check(text: str, query: str) -> Found:
    """The check on how often a phrase comes, where a wording names one."""
    match = first_match(_TIMES, text)
    if match is None:
        return None
    if match["once"]:
        times: dict[str, int] = dict.fromkeys(("at_least", "at_most"), 2 if match["once"].lower() == "twice" else 1)
    else:
        bounds = read_bounds(match)
        if bounds is None:
            return None
        times = {"at_least": 0, **bounds.parameters()}
    phrase = re.escape(match["phrase"])
    pattern = rf"(?<!\w){phrase}(?!\w)" if match["phrase"].isascii() else phrase
    return "regex", {"pattern": pattern, "ignore_case": True, **times}


def keyword_check(text: str, query: str) -> Found:
    """The check on quoted phrases that a wording names."""
    for options, check, key in ((_STARTS, "starts_with", "prefix"), (_ENDS, "ends_with", "suffix")):
        match = first_match(options, text)
        if match is not None:
            return check, {key: match["phrase"], "ignore_case": True}
    for options, check in ((_ABSENT, "not_contains"), (_PRESENT, "contains")):
        match = first_match(options, text)
        phrases = None if match is None else _phrases(match["list"])
        if phrases is not None:
            names, any_of = phrases
            more = {"match": "any"} if any_of and check == "contains" else {}
            # A Chinese word has no space around it.
            whole = all(name.isascii() for name in names)
            return check, {"phrases": names, "ignore_case": True, "whole_words": whole, **more}
    return None


def _phrases(listed: str) -> tuple[list[str], bool] | None:
    """The quoted phrases of a list and whether any one will do, or None where more than commas stands between."""
    names = _ANY_QUOTED.findall(listed)
    between = {part.strip(" ,，、").lower() for part in _ANY_QUOTED.sub("\x00", listed).split("\x00")} - {""}
    if not names or not between <= {"and", "or", "和", "与", "以及", "或", "或者"}:
        return None
    any_of = bool(between & {"or", "或", "或者"})
    return None if any_of and between & {"and", "和", "与", "以及"} else (names, any_of)


_SHAPES: tuple[tuple[tuple[re.Pattern[str], ...], str, dict[str, Any]], ...] = tuple(
    (
        patterns(
            rf"{SUBJECT}{MODAL}(?:{english})",
            rf"{SUBJECT_ZH}{MODAL_ZH}(?:{chinese})",
        ),
        check,
        parameters,
    )
    for english, chinese, check, parameters in (
        (
            r"(?:(?:is|be)\s+(?:(?:formatted|written|given|returned|presented)\s+)?(?:(?:as|in)\s+)?|returns?\s+|outputs?\s+)"
            r"(?:a\s+)?(?:single\s+)?(?:valid\s+)?JSON"
            r"(?:\s+(?:object|array|document|format))?",
            r"(?:以|使用|采用)?(?:有效的?|合法的?)?\s*JSON\s*(?:格式)?(?:输出|返回|给出)?",
            "json_valid",
            {},
        ),
        (
            r"(?:is|be)\s+(?:a\s+)?valid\s+XML(?:\s+document)?",
            r"(?:有效的?|合法的?)\s*XML\s*(?:格式)?",
            "xml_valid",
            {},
        ),
        (
            r"(?:is|be)\s+(?:a\s+)?valid\s+YAML(?:\s+document)?",
            r"(?:有效的?|合法的?)\s*YAML\s*(?:格式)?",
            "yaml_valid",
            {},
        ),
        (
            rf"{HAS}\s+a\s+(?:markdown\s+)?table",
            r"(?:包含|使用|含有|提供|有)(?:了)?(?:一个)?\s*(?:Markdown\s*)?表格",
            "table_shape",
            {"at_least": 1},
        ),
        (
            rf"{HAS}\s+a\s+bullet(?:ed)?(?:[\s-]point)?\s+list|uses?\s+bullet\s+points",
            r"(?:包含|使用|含有)(?:了)?(?:一个)?(?:项目符号列表|无序列表)",
            "list_shape",
            {"kind": "bullet", "at_least": 1},
        ),
        (
            rf"{HAS}\s+a\s+numbered\s+list",
            r"(?:包含|使用|含有)(?:了)?(?:一个)?(?:编号列表|有序列表)",
            "list_shape",
            {"kind": "numbered", "at_least": 1},
        ),
    )
)

_MARKS = {"comma": [",", "，"], "逗号": [",", "，"], "exclamation": ["!", "！"], "感叹号": ["!", "！"]}
_UNMARKED = patterns(
    rf"{SUBJECT}{MODAL}(?:{NOT}\s+(?:contain|use|include)(?:\s+any)?|avoids?(?:\s+using)?|(?:contains?|uses?|has)\s+no)"
    r"\s+(?P<mark>comma|exclamation)(?:\s+(?:marks?|points?))?s?",
    rf"{SUBJECT_ZH}{NOT_ZH}(?:包含|含有?|使用|出现)?(?:任何)?(?P<mark>逗号|感叹号)",
)
_CASED = patterns(
    rf"{SUBJECT}{MODAL}(?:is|be)\s+(?:written\s+)?(?:entirely\s+)?in\s+(?:all\s+|only\s+)?(?P<case>capital|uppercase|"
    r"upper\s+case|lowercase|lower\s+case)(?:\s+letters)?",
)


def typography_check(text: str, query: str) -> Found:
    """The check on marks or letter case that a wording names."""
    match = first_match(_UNMARKED, text)
    if match is not None:
        return "not_contains", {"phrases": _MARKS[match["mark"].lower()]}
    match = first_match(_CASED, text)
    if match is None:
        return None
    lower = match["case"].lower().startswith("lower")
    return ("LowercaseLettersEnglishChecker" if lower else "CapitalLettersEnglishChecker"), {}


def layout_check(text: str, query: str) -> Found:
    """The check on a form that a wording names."""
    return next(((check, dict(given)) for options, check, given in _SHAPES if first_match(options, text)), None)


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
    """The check on the language that a wording names, or that the query is in."""
    match = first_match(_SPOKEN, text)
    if match is not None:
        return "language", {"code": _LANGUAGES[match["tongue"].lower()]}
    if first_match(_SAME, text) is None or not query:
        return None
    code = detected_language(query)
    return None if code is None else ("language", {"code": "zh" if code.startswith("zh") else code})
