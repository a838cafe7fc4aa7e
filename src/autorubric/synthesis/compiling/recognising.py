"""From the words of a criterion to the check that decides it, where the words leave no room for judgment.

A pattern has to cover the whole criterion: one that also asks for something else stays with the judge, and so does
any bound that is only approximate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autorubric.checks import validate_check
from autorubric.checks.language import detected_language
from autorubric.errors import InputError
from autorubric.synthesis.compiling.quantities import AFTER, BOUND, bounds_of

_NOUN = r"(?:response|answer|reply|output|text|essay|summary|message|email|e-mail|letter|article|story|poem|post)"
_NOUN_ZH = r"(?:回答|回复|答案|答复|输出|全文|文章|正文|内容|文本|摘要|邮件|故事|篇幅|总字数|字数|长度)"
_SUBJECT = rf"(?:(?:(?:the|this|its)\s+)?(?:(?:entire|whole|full|final|total)\s+)?{_NOUN}\s+)?"
_SUBJECT_ZH = rf"(?:该|本|此)?(?:{_NOUN_ZH}(?:的)?)*(?:长度|字数)?(?:中|里|内)?"
_MODAL = r"(?:(?:should|must|has\s+to|needs\s+to)\s+)?"
_MODAL_ZH = r"(?:应该|应当|应|需要|需|必须|须|要|控制在|保持在|限制在|在|为|是)*"
_HAS = (
    r"(?:is|be|has|have|contains?|includes?|uses?|provides?|gives?|lists?|consists?\s+of|comprises?|stays?|keeps?\s+to|"
    r"remains?|is\s+limited\s+to|is\s+written\s+in|be\s+limited\s+to|ends\s+up|presents?|offers?|"
    r"(?:answers?|responds?|replies|is\s+given|is\s+written)\s+(?:in|with)|limits?\s+(?:the|its)\s+\w+\s+to|"
    r"keeps?\s+(?:the|its)\s+\w+(?:\s+to)?|is\s+(?:divided|split)\s+into)"
)
_NOT = r"(?:does\s+not|doesn[’']t|must\s+not|should\s+not|never|do\s+not)"
_NOT_ZH = r"(?:不|未|没有|不得|不应|不能|不要|避免)"
_QUOTE = r"[\"“”「『'‘’《`]"
_UNQUOTE = r"[\"“”」』'‘’》`]"
_QUOTED = rf"{_QUOTE}(?P<phrase>[^\"“”「」『』`]+?){_UNQUOTE}"
_ANY_QUOTED = re.compile(rf"{_QUOTE}([^\"“”「」『』`]+?){_UNQUOTE}(?![A-Za-z])")

_UNITS: dict[str, tuple[str, dict[str, Any]]] = {
    r"words?|个?词|个?字": ("word_count", {}),
    r"sentences?|(?:个)?句(?:子|话)?": ("sentence_count", {}),
    r"paragraphs?|(?:个)?(?:自然)?段(?:落|话)?": ("paragraph_count", {}),
    r"characters?|个?字符": ("character_count", {}),
    r"(?:non-blank\s+)?lines?|行": ("line_count", {}),
    r"bullet(?:ed)?\s*(?:points?|items?)|bullets|(?:个|条)项目符号(?:列表项)?": ("list_shape", {"kind": "bullet"}),
    r"numbered\s+(?:items?|steps?|points?)|(?:个|条)编号(?:步骤|列表项|条目)": ("list_shape", {"kind": "numbered"}),
    r"list\s+items?|(?:个|条|点)?(?:列表项|要点)": ("list_shape", {}),
    r"(?:markdown\s+)?(?:section\s+)?headings?|个(?:Markdown)?标题": ("markdown_headings", {}),
    r"(?:fenced\s+)?code\s+blocks?|个代码块": ("code_block", {}),
    r"links?|URLs?|web\s+addresses|个(?:网址|链接)": ("url_present", {}),
    r"citations?|(?:个|条|处)引用": ("citation_present", {}),
}
# What "a table" or "three headings" has to have, while "200 words" are the whole text.
_PRESENCE = {"list_shape", "markdown_headings", "code_block", "url_present", "citation_present"}

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


@dataclass(frozen=True, slots=True)
class Recognised:
    """The check that a wording names.

    Attributes:
        name: of the check.
        parameters: valid for it.
        kind: of the wording: length, format, keyword, language or number.
    """

    name: str
    parameters: Mapping[str, Any]
    kind: str


_LONGEST = 300  # characters: what is longer asks for more than a count or a phrase
_Found = tuple[str, dict[str, Any]] | None


def recognise(text: str, query: str = "") -> Recognised | None:
    """The check that decides a criterion, or None where its words need a judge.

    The check passes where what the words describe is there, whatever the sign of the criterion's weight.

    Args:
        text: the words of the criterion.
        query: what the submission answers, for "in the language of the question".

    Example:
        >>> recognise("The response is no more than 200 words long.")
        Recognised(name='word_count', parameters={'at_most': 200}, kind='length')
        >>> recognise("回答不超过三句话。").parameters
        {'at_most': 3}
        >>> recognise("Has at most 200 words and names the dose.") is None
        True
    """
    wording = " ".join(text.split()).rstrip(" .。!！;；")
    if len(wording) > _LONGEST:
        return None
    for kind, read in _READERS:
        found = read(wording, query)
        if found is None:
            continue
        name, parameters = found
        try:
            return Recognised(name, validate_check(name, parameters), kind)
        except InputError:
            continue
    return None


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _match(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.fullmatch(text))), None)


_TAIL = r"(?:\s+(?:long|in\s+length|in\s+total|overall|total))?"
_COUNTS = [
    (
        _compiled(
            rf"{_SUBJECT}{_MODAL}(?:{_HAS}\s+)?(?:to\s+)?{BOUND}[\s-]+(?:{unit})\s*{AFTER}{_TAIL}",
            rf"{_SUBJECT_ZH}{_MODAL_ZH}(?:包含|使用|有|给出|列出|提供|含有?|共|分为|分成)?(?:了)?{BOUND}\s*(?:{unit})\s*{AFTER}",
        ),
        check,
        fixed,
    )
    for unit, (check, fixed) in _UNITS.items()
]


_LIMIT = re.compile(r"\blimit", re.IGNORECASE)
_BOUND_FIRST = re.compile(r"(至少|最少|最多|至多|不超过)(包含|使用|给出|列出|提供|含有?)(了)?")


def _count(text: str, query: str) -> _Found:
    text = _BOUND_FIRST.sub(r"\2\1", text)
    for patterns, check, fixed in _COUNTS:
        match = _match(patterns, text)
        if match is None:
            continue
        bounds = bounds_of(match, _bare(check, text))
        return None if bounds is None else (check, {**fixed, **bounds.parameters()})
    return None


_SHAPES: tuple[tuple[tuple[re.Pattern[str], ...], str, dict[str, Any]], ...] = tuple(
    (
        _compiled(
            rf"{_SUBJECT}{_MODAL}(?:{english})",
            rf"{_SUBJECT_ZH}{_MODAL_ZH}(?:{chinese})",
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
            rf"{_HAS}\s+a\s+(?:markdown\s+)?table",
            r"(?:包含|使用|含有|提供|有)(?:了)?(?:一个)?\s*(?:Markdown\s*)?表格",
            "table_shape",
            {"at_least": 1},
        ),
        (
            rf"{_HAS}\s+a\s+bullet(?:ed)?(?:[\s-]point)?\s+list|uses?\s+bullet\s+points",
            r"(?:包含|使用|含有)(?:了)?(?:一个)?(?:项目符号列表|无序列表)",
            "list_shape",
            {"kind": "bullet", "at_least": 1},
        ),
        (
            rf"{_HAS}\s+a\s+numbered\s+list",
            r"(?:包含|使用|含有)(?:了)?(?:一个)?(?:编号列表|有序列表)",
            "list_shape",
            {"kind": "numbered", "at_least": 1},
        ),
    )
)


def _bare(check: str, text: str) -> str:
    """What a number without a bound means: "limited to 100 words", "three headings", "100 words"."""
    if _LIMIT.search(text):
        return "most"
    return "least" if check in _PRESENCE else "exactly"


_MARKS = {"comma": [",", "，"], "逗号": [",", "，"], "exclamation": ["!", "！"], "感叹号": ["!", "！"]}
_UNMARKED = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:{_NOT}\s+(?:contain|use|include)(?:\s+any)?|avoids?(?:\s+using)?|(?:contains?|uses?|has)\s+no)"
    r"\s+(?P<mark>comma|exclamation)(?:\s+(?:marks?|points?))?s?",
    rf"{_SUBJECT_ZH}{_NOT_ZH}(?:包含|含有?|使用|出现)?(?:任何)?(?P<mark>逗号|感叹号)",
)
_CASED = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:is|be)\s+(?:written\s+)?(?:entirely\s+)?in\s+(?:all\s+|only\s+)?(?P<case>capital|uppercase|"
    r"upper\s+case|lowercase|lower\s+case)(?:\s+letters)?",
)


def _typography(text: str, query: str) -> _Found:
    match = _match(_UNMARKED, text)
    if match is not None:
        return "not_contains", {"phrases": _MARKS[match["mark"].lower()]}
    match = _match(_CASED, text)
    if match is None:
        return None
    lower = match["case"].lower().startswith("lower")
    return ("LowercaseLettersEnglishChecker" if lower else "CapitalLettersEnglishChecker"), {}


def _shape(text: str, query: str) -> _Found:
    return next(((check, dict(given)) for patterns, check, given in _SHAPES if _match(patterns, text)), None)


_HOLDS = r"(?:contains?|includes?|uses?|mentions?|has|have)"
_KIND = r"(?:the\s+)?(?:exact\s+)?(?:words?|phrases?|terms?|keywords?|strings?|sentences?)?\s*"
_KIND_ZH = r"(?:关键词|词语|单词|短语|词|字样|句子|文字)?\s*"
_QUOTES = rf"(?P<list>{_QUOTE}.+{_UNQUOTE})"
_WORDING_ZH = r"(?:包含|出现|使用|提到|含有|提及)(?:了)?"
_ABSENT = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:{_NOT}\s+{_HOLDS}|avoids?(?:\s+(?:using|mentioning))?)\s+(?:any\s+of\s+)?{_KIND}{_QUOTES}",
    rf"{_SUBJECT_ZH}{_NOT_ZH}(?:{_WORDING_ZH})?{_KIND_ZH}{_QUOTES}(?:一词|字样|等词|这个词)?",
)
_PRESENT = _compiled(
    rf"{_SUBJECT}{_MODAL}{_HOLDS}\s+{_KIND}{_QUOTES}",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTES}(?:一词|字样|这个词)?",
)
_STARTS = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:starts?|begins?|opens?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}以\s*{_QUOTED}\s*(?:开头|开始)",
)
_ENDS = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:ends?|closes?|concludes?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}以\s*{_QUOTED}\s*(?:结尾|结束)",
)


_TIMES = _compiled(
    rf"{_SUBJECT}{_MODAL}{_HOLDS}\s+{_KIND}{_QUOTED}\s+(?:{BOUND}\s+times?|(?P<once>exactly\s+once|twice))\s*{AFTER}",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTED}(?:一词)?{BOUND}\s*次\s*{AFTER}(?P<once>)",
)


def _repeated(text: str, query: str) -> _Found:
    match = _match(_TIMES, text)
    if match is None:
        return None
    if match["once"]:
        times: dict[str, int] = dict.fromkeys(("at_least", "at_most"), 2 if match["once"].lower() == "twice" else 1)
    else:
        bounds = bounds_of(match)
        if bounds is None:
            return None
        times = {"at_least": 0, **bounds.parameters()}
    phrase = re.escape(match["phrase"])
    pattern = rf"(?<!\w){phrase}(?!\w)" if match["phrase"].isascii() else phrase
    return "regex", {"pattern": pattern, "ignore_case": True, **times}


def _keyword(text: str, query: str) -> _Found:
    for patterns, check, key in ((_STARTS, "starts_with", "prefix"), (_ENDS, "ends_with", "suffix")):
        match = _match(patterns, text)
        if match is not None:
            return check, {key: match["phrase"], "ignore_case": True}
    for patterns, check in ((_ABSENT, "not_contains"), (_PRESENT, "contains")):
        match = _match(patterns, text)
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


_TONGUES = "|".join(sorted(_LANGUAGES, key=len, reverse=True))
_SPOKEN = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:(?:is|be)\s+(?:entirely\s+|fully\s+|completely\s+)?(?:written\s+)?|writes?\s+|answers?\s+"
    rf"|responds?\s+|replies\s+)(?:entirely\s+|only\s+)?in\s+"
    rf"(?P<tongue>{_TONGUES})",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}(?:全部)?(?:用|使用|以|采用)?(?P<tongue>{_TONGUES})(?:回答|书写|撰写|作答|写成|回复)?",
)
_SAME = _compiled(
    rf"{_SUBJECT}{_MODAL}(?:is|be)\s+(?:written\s+)?in\s+(?:the\s+same\s+language\s+as\s+the\s+(?:question|query|prompt)"
    r"|the\s+language\s+of\s+the\s+(?:question|query|prompt))",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}(?:用|使用|以)?(?:与|和)(?:问题|提问|用户)(?:相同|一致)的?语言(?:回答|作答|书写)?",
)


def _language(text: str, query: str) -> _Found:
    match = _match(_SPOKEN, text)
    if match is not None:
        return "language", {"code": _LANGUAGES[match["tongue"].lower()]}
    if _match(_SAME, text) is None or not query:
        return None
    code = detected_language(query)
    return None if code is None else ("language", {"code": "zh" if code.startswith("zh") else code})


_VALUE = r"(?P<value>[-−]?\d+(?:,\d{3})*(?:\.\d+)?)\s*(?P<unit>%|°C|°F|[A-Za-zµμ]{1,3}(?:/[A-Za-z]{1,3})?)?"
_NUMERIC = _compiled(
    rf"(?:{_SUBJECT}{_MODAL}(?:states?|gives?|reports?|concludes?|computes?|calculates?|finds?|arrives\s+at)\s+(?:that\s+)?)?"
    rf"(?:the|a)\s+(?:final\s+|correct\s+|numerical\s+)?(?:answer|result|value|total|sum)\s+(?:is|as|of|equals?|=)\s+{_VALUE}",
    rf"{_SUBJECT_ZH}{_MODAL_ZH}(?:给出|得出|指出|说明)?(?:的)?(?:最终|正确)?(?:答案|结果|数值|总数|总和)(?:应)?(?:为|是|等于)\s*{_VALUE}",
)


def _numeric(text: str, query: str) -> _Found:
    match = _match(_NUMERIC, text)
    if match is None:
        return None
    parameters: dict[str, Any] = {"expected": float(match["value"].replace(",", "").replace("−", "-"))}
    if match["unit"]:
        parameters["unit"] = match["unit"]
    return "numeric_value", parameters


_READERS: tuple[tuple[str, Callable[[str, str], _Found]], ...] = (
    ("length", _count),
    ("format", _shape),
    ("format", _typography),
    ("keyword", _repeated),
    ("keyword", _keyword),
    ("language", _language),
    ("number", _numeric),
)


def kinds() -> Iterator[str]:
    """The kinds of wording that are recognised.

    Example:
        >>> list(kinds())
        ['length', 'format', 'keyword', 'language', 'number']
    """
    yield from dict.fromkeys(kind for kind, _ in _READERS)
