"""English and Chinese wordings that match a check: lengths, counts, numbers, phrases, layout, case, language."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from autorubric.checks.language import detect_language
from autorubric.core.wording import ENGLISH, compile_late, parse_number

Found: TypeAlias = tuple[str, dict[str, Any]] | None
"""A check with its parameters, or None if a wording corresponds to none."""

_NOUN = r"(?:response|answer|reply|output|text|essay|summary|message|email|e-mail|letter|article|story|poem|post)"
_NOUN_ZH = r"(?:回答|回复|答案|答复|输出|全文|文章|正文|内容|文本|摘要|邮件|故事|篇幅|总字数|字数|长度)"
SUBJECT = rf"(?:(?:(?:the|this|its)\s+)?(?:(?:entire|whole|full|final|total)\s+)?{_NOUN}\s+)?"
SUBJECT_ZH = rf"(?:该|本|此)?(?:{_NOUN_ZH}(?:的)?)*(?:长度|字数)?(?:中|里|内)?"
MODAL = r"(?:(?:should|must|has\s+to|needs\s+to)\s+)?"
MODAL_ZH = r"(?:应该|应当|应|需要|需|必须|须|要|控制在|保持在|限制在|在|为|是)*"
HAS = (
    r"(?:is|be|has|have|contains?|includes?|uses?|provides?|gives?|lists?|consists?\s+of|comprises?|stays?|keeps?\s+to|"
    r"remains?|is\s+limited\s+to|is\s+written\s+in|be\s+limited\s+to|ends\s+up|presents?|offers?|"
    r"(?:answers?|responds?|replies|is\s+given|is\s+written)\s+(?:in|with)|limits?\s+(?:the|its)\s+\w+\s+to|"
    r"keeps?\s+(?:the|its)\s+\w+(?:\s+to)?|is\s+(?:divided|split)\s+into)"
)
NOT = r"(?:does\s+not|doesn[’']t|must\s+not|should\s+not|never|do\s+not)"
NOT_ZH = r"(?:不|未|没有|不得|不应|不能|不要|避免)"


def compile_patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of texts, ignoring case."""
    return tuple(compile_late(text, re.IGNORECASE) for text in texts)


def match_first(options: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    """Return the first match that covers the whole text."""
    return next((match for option in options if (match := option.fullmatch(text))), None)


NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d+|(?:{'|'.join(ENGLISH)}|a|an)\b|[一二两三四五六七八九十百千万]+)"
"""A whole number in digits, as an English word up to twenty, or in Chinese."""

_LEAST = r"at\s+least|no\s+(?:fewer|less)\s+than|not\s+(?:fewer|less)\s+than|a\s+minimum\s+of|minimum"
_MOST = (
    r"at\s+most|no\s+more\s+than|no\s+longer\s+than|not\s+more\s+than|up\s+to|a\s+maximum\s+of|maximum|within|"
    r"does\s+not\s+exceed"
)
_BELOW = r"fewer\s+than|less\s+than|shorter\s+than|under|below"
_ABOVE = r"more\s+than|longer\s+than|over|exceeds|above|exceeding"
_EXACTLY = r"exactly|precisely"
_ZH = (
    r"至少|不少于|不低于|最少|最多|不超过|不多于|至多|不得超过|不能超过|"
    r"少于|低于|小于|多于|超过|大于|恰好|正好|刚好|仅"
)
_AFTER = r"or\s+(?:fewer|less|under)|or\s+more"
_AFTER_ZH = r"以内|之内|以下|以上|及以上|及以下"

BOUND = (
    rf"(?:between\s+(?P<low>{NUMBER})\s+and\s+(?P<high>{NUMBER})"
    rf"|(?P<from>{NUMBER})\s*(?:-|–|—|~|～|to|到|至)\s*(?P<to>{NUMBER})"
    rf"|(?:(?P<how>{_LEAST}|{_MOST}|{_BELOW}|{_ABOVE}|{_EXACTLY}|{_ZH})\s*)?(?P<n>{NUMBER}))"
)
"""A bound before the unit."""

AFTER = rf"(?P<after>{_AFTER}|{_AFTER_ZH})?"
"""What may follow the unit: "200 words or fewer", "200字以内"."""

_SENSES = (
    (compile_late(rf"(?:{_LEAST}|至少|不少于|不低于|最少|or\s+more|以上|及以上)$", re.I), "least"),
    (
        compile_late(rf"(?:{_MOST}|最多|不超过|不多于|至多|不得超过|不能超过|or\s+(?:fewer|less|under))$", re.I),
        "most",
    ),
    (compile_late(r"(?:以内|之内|以下|及以下)$"), "most"),
    (compile_late(rf"(?:{_BELOW}|少于|低于|小于)$", re.I), "below"),
    (compile_late(rf"(?:{_ABOVE}|多于|超过|大于)$", re.I), "above"),
)


class Bounds(NamedTuple):
    """The minimum and the maximum, each None if there is none."""

    at_least: int | None
    at_most: int | None

    def to_parameters(self) -> dict[str, int]:
        """Return the bounds as parameters of a check."""
        given = {"at_least": self.at_least, "at_most": self.at_most}
        return {name: value for name, value in given.items() if value is not None}


def read_bounds(match: re.Match[str], bare: str = "exactly") -> Bounds | None:
    """Read the bounds in a match of `BOUND` and `AFTER`; None if they contradict each other."""
    for low, high in (("low", "high"), ("from", "to")):
        if match[low] is not None:
            pair = Bounds(parse_number(match[low]), parse_number(match[high]))
            return pair if (pair.at_least or 0) <= (pair.at_most or 0) else None
    n = parse_number(match["n"])
    how, after = _read_sense(match["how"]), _read_sense(match["after"])
    if how and after and how != after:
        return None
    sense = how or after or bare
    if sense == "below" and n == 0:
        return None
    table = {"least": (n, None), "most": (None, n), "below": (None, n - 1), "above": (n + 1, None)}
    return Bounds(*table.get(sense, (n, n)))


def _read_sense(text: str | None) -> str:
    if not text:
        return ""
    return next((sense for pattern, sense in _SENSES if pattern.fullmatch(text)), "exactly")


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
# "Three headings" means three or more, while "200 words" is the length of the whole text.
_PRESENCE = {"list_shape", "markdown_headings", "code_block", "url_present", "citation_present"}

_TAIL = r"(?:\s+(?:long|in\s+length|in\s+total|overall|total))?"
_COUNTS = [
    (
        compile_patterns(
            rf"{SUBJECT}{MODAL}(?:{HAS}\s+)?(?:to\s+)?{BOUND}[\s-]+(?:{unit})\s*{AFTER}{_TAIL}",
            rf"{SUBJECT_ZH}{MODAL_ZH}(?:包含|使用|有|给出|列出|提供|含有?|共|分为|分成)?(?:了)?{BOUND}\s*(?:{unit})\s*{AFTER}",
        ),
        check,
        fixed,
    )
    for unit, (check, fixed) in _UNITS.items()
]


_LIMIT = compile_late(r"\blimit", re.IGNORECASE)
_BOUND_FIRST = compile_late(r"(至少|最少|最多|至多|不超过)(包含|使用|给出|列出|提供|含有?)(了)?")


def find_count_check(text: str, query: str) -> Found:
    """Return the check on a length or a count that a wording names."""
    text = _BOUND_FIRST.sub(r"\2\1", text)
    for options, check, fixed in _COUNTS:
        match = match_first(options, text)
        if match is None:
            continue
        bounds = read_bounds(match, _choose_default_sense(check, text))
        return None if bounds is None else (check, {**fixed, **bounds.to_parameters()})
    return None


def _choose_default_sense(check: str, text: str) -> str:
    """Return the meaning of a number without a bound: "limited to 100 words", "three headings", "100 words"."""
    if _LIMIT.search(text):
        return "most"
    return "least" if check in _PRESENCE else "exactly"


_VALUE = r"(?P<value>[-−]?\d+(?:,\d{3})*(?:\.\d+)?)\s*(?P<unit>%|°C|°F|[A-Za-zµμ]{1,3}(?:/[A-Za-z]{1,3})?)?"
_NUMERIC = compile_patterns(
    rf"(?:{SUBJECT}{MODAL}(?:states?|gives?|reports?|concludes?|computes?|calculates?|finds?|arrives\s+at)\s+(?:that\s+)?)?"
    rf"(?:the|a)\s+(?:final\s+|correct\s+|numerical\s+)?(?:answer|result|value|total|sum)\s+(?:is|as|of|equals?|=)\s+{_VALUE}",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:给出|得出|指出|说明)?(?:的)?(?:最终|正确)?(?:答案|结果|数值|总数|总和)(?:应)?(?:为|是|等于)\s*{_VALUE}",
)


def find_number_check(text: str, query: str) -> Found:
    """Return the check on a numeric answer that a wording names."""
    match = match_first(_NUMERIC, text)
    if match is None:
        return None
    parameters: dict[str, Any] = {"expected": float(match["value"].replace(",", "").replace("−", "-"))}
    if match["unit"]:
        parameters["unit"] = match["unit"]
    return "numeric_value", parameters


_QUOTE = r"[\"“”「『'‘’《`]"
_UNQUOTE = r"[\"“”」』'‘’》`]"
_QUOTED = rf"{_QUOTE}(?P<phrase>[^\"“”「」『』`]+?){_UNQUOTE}"
_ANY_QUOTED = compile_late(rf"{_QUOTE}([^\"“”「」『』`]+?){_UNQUOTE}(?![A-Za-z])")

_HOLDS = r"(?:contains?|includes?|uses?|mentions?|has|have)"
_KIND = r"(?:the\s+)?(?:exact\s+)?(?:words?|phrases?|terms?|keywords?|strings?|sentences?)?\s*"
_KIND_ZH = r"(?:关键词|词语|单词|短语|词|字样|句子|文字)?\s*"
_QUOTES = rf"(?P<list>{_QUOTE}.+{_UNQUOTE})"
_WORDING_ZH = r"(?:包含|出现|使用|提到|含有|提及)(?:了)?"
_ABSENT = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:{NOT}\s+{_HOLDS}|avoids?(?:\s+(?:using|mentioning))?)\s+(?:any\s+of\s+)?{_KIND}{_QUOTES}",
    rf"{SUBJECT_ZH}{NOT_ZH}(?:{_WORDING_ZH})?{_KIND_ZH}{_QUOTES}(?:一词|字样|等词|这个词)?",
)
_PRESENT = compile_patterns(
    rf"{SUBJECT}{MODAL}{_HOLDS}\s+{_KIND}{_QUOTES}",
    rf"{SUBJECT_ZH}{MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTES}(?:一词|字样|这个词)?",
)
_STARTS = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:starts?|begins?|opens?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{SUBJECT_ZH}{MODAL_ZH}以\s*{_QUOTED}\s*(?:开头|开始)",
)
_ENDS = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:ends?|closes?|concludes?)\s+with\s+{_KIND}{_QUOTED}",
    rf"{SUBJECT_ZH}{MODAL_ZH}以\s*{_QUOTED}\s*(?:结尾|结束)",
)


_TIMES = compile_patterns(
    rf"{SUBJECT}{MODAL}{_HOLDS}\s+{_KIND}{_QUOTED}\s+(?:{BOUND}\s+times?|(?P<once>exactly\s+once|twice))\s*{AFTER}",
    rf"{SUBJECT_ZH}{MODAL_ZH}{_WORDING_ZH}{_KIND_ZH}{_QUOTED}(?:一词)?{BOUND}\s*次\s*{AFTER}(?P<once>)",
)


def find_repetition_check(text: str, query: str) -> Found:
    """Return the check on how often a phrase occurs, if a wording gives one."""
    match = match_first(_TIMES, text)
    if match is None:
        return None
    if match["once"]:
        times: dict[str, int] = dict.fromkeys(("at_least", "at_most"), 2 if match["once"].lower() == "twice" else 1)
    else:
        bounds = read_bounds(match)
        if bounds is None:
            return None
        times = {"at_least": 0, **bounds.to_parameters()}
    phrase = re.escape(match["phrase"])
    pattern = rf"(?<!\w){phrase}(?!\w)" if match["phrase"].isascii() else phrase
    return "regex", {"pattern": pattern, "ignore_case": True, **times}


def find_keyword_check(text: str, query: str) -> Found:
    """Return the check on quoted phrases that a wording names."""
    for options, check, key in ((_STARTS, "starts_with", "prefix"), (_ENDS, "ends_with", "suffix")):
        match = match_first(options, text)
        if match is not None:
            return check, {key: match["phrase"], "ignore_case": True}
    for options, check in ((_ABSENT, "not_contains"), (_PRESENT, "contains")):
        match = match_first(options, text)
        phrases = None if match is None else _read_phrases(match["list"])
        if phrases is not None:
            names, match_any = phrases
            more = {"match": "any"} if match_any and check == "contains" else {}
            # Chinese words are not separated by spaces.
            whole = all(name.isascii() for name in names)
            return check, {"phrases": names, "ignore_case": True, "whole_words": whole, **more}
    return None


def _read_phrases(listed: str) -> tuple[list[str], bool] | None:
    """Return the quoted phrases of a list, and whether any one is enough; None if the text is not a plain list."""
    names = _ANY_QUOTED.findall(listed)
    between = {part.strip(" ,，、").lower() for part in _ANY_QUOTED.sub("\x00", listed).split("\x00")} - {""}
    if not names or not between <= {"and", "or", "和", "与", "以及", "或", "或者"}:
        return None
    match_any = bool(between & {"or", "或", "或者"})
    return None if match_any and between & {"and", "和", "与", "以及"} else (names, match_any)


_JSON = (
    r"(?:(?:is|be)\s+(?:(?:formatted|written|given|returned|presented)\s+)?(?:(?:as|in)\s+)?|returns?\s+|outputs?\s+)"
    r"(?:a\s+)?(?:single\s+)?(?:valid\s+)?JSON(?:\s+(?:object|array|document|format))?"
)
_MARKUP = r"(?:is|be)\s+(?:a\s+)?valid\s+{}(?:\s+document)?"
_MARKUP_ZH = r"(?:有效的?|合法的?)\s*{}\s*(?:格式)?"
_BULLETS = rf"{HAS}\s+a\s+bullet(?:ed)?(?:[\s-]point)?\s+list|uses?\s+bullet\s+points"
_WITH_ZH = r"(?:包含|使用|含有)(?:了)?(?:一个)?"
_SHAPES: list[tuple[tuple[re.Pattern[str], ...], str, dict[str, Any]]] = [
    (compile_patterns(rf"{SUBJECT}{MODAL}(?:{english})", rf"{SUBJECT_ZH}{MODAL_ZH}(?:{chinese})"), check, parameters)
    for english, chinese, check, parameters in (
        (_JSON, r"(?:以|使用|采用)?(?:有效的?|合法的?)?\s*JSON\s*(?:格式)?(?:输出|返回|给出)?", "json_valid", {}),
        (_MARKUP.format("XML"), _MARKUP_ZH.format("XML"), "xml_valid", {}),
        (_MARKUP.format("YAML"), _MARKUP_ZH.format("YAML"), "yaml_valid", {}),
        (
            rf"{HAS}\s+a\s+(?:markdown\s+)?table",
            r"(?:包含|使用|含有|提供|有)(?:了)?(?:一个)?\s*(?:Markdown\s*)?表格",
            "table_shape",
            {"at_least": 1},
        ),
        (_BULLETS, rf"{_WITH_ZH}(?:项目符号列表|无序列表)", "list_shape", {"kind": "bullet", "at_least": 1}),
        (
            rf"{HAS}\s+a\s+numbered\s+list",
            rf"{_WITH_ZH}(?:编号列表|有序列表)",
            "list_shape",
            {"kind": "numbered", "at_least": 1},
        ),
    )
]

_MARKS = {"comma": [",", "，"], "逗号": [",", "，"], "exclamation": ["!", "！"], "感叹号": ["!", "！"]}
_UNMARKED = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:{NOT}\s+(?:contain|use|include)(?:\s+any)?|avoids?(?:\s+using)?|(?:contains?|uses?|has)\s+no)"
    r"\s+(?P<mark>comma|exclamation)(?:\s+(?:marks?|points?))?s?",
    rf"{SUBJECT_ZH}{NOT_ZH}(?:包含|含有?|使用|出现)?(?:任何)?(?P<mark>逗号|感叹号)",
)
_CASED = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:is|be)\s+(?:written\s+)?(?:entirely\s+)?in\s+(?:all\s+|only\s+)?(?P<case>capital|uppercase|"
    r"upper\s+case|lowercase|lower\s+case)(?:\s+letters)?"
)


def find_typography_check(text: str, query: str) -> Found:
    """Return the check on marks or letter case that a wording names."""
    match = match_first(_UNMARKED, text)
    if match is not None:
        return "not_contains", {"phrases": _MARKS[match["mark"].lower()]}
    match = match_first(_CASED, text)
    if match is None:
        return None
    lower = match["case"].lower().startswith("lower")
    return ("LowercaseLettersEnglishChecker" if lower else "CapitalLettersEnglishChecker"), {}


def find_layout_check(text: str, query: str) -> Found:
    """Return the check on a form that a wording names."""
    return next(((check, dict(given)) for options, check, given in _SHAPES if match_first(options, text)), None)


_LANGUAGES = {
    name: code
    for code, names in (
        ("en", "english, 英文, 英语"),
        ("zh", "chinese, 中文, 汉语"),
        ("zh-cn", "simplified chinese, 简体中文"),
        ("zh-tw", "traditional chinese, 繁体中文"),
        ("fr", "french, 法语, 法文"),
        ("de", "german, 德语, 德文"),
        ("es", "spanish, 西班牙语"),
        ("it", "italian, 意大利语"),
        ("pt", "portuguese, 葡萄牙语"),
        ("ru", "russian, 俄语"),
        ("ja", "japanese, 日语, 日文"),
        ("ko", "korean, 韩语, 韩文"),
        ("ar", "arabic, 阿拉伯语"),
        ("hi", "hindi"),
        ("nl", "dutch"),
        ("pl", "polish"),
        ("tr", "turkish"),
        ("vi", "vietnamese"),
        ("th", "thai"),
        ("sv", "swedish"),
        ("uk", "ukrainian"),
    )
    for name in names.split(", ")
}
_TONGUES = "|".join(sorted(_LANGUAGES, key=len, reverse=True))
_SPOKEN = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:(?:is|be)\s+(?:entirely\s+|fully\s+|completely\s+)?(?:written\s+)?|writes?\s+|answers?\s+"
    rf"|responds?\s+|replies\s+)(?:entirely\s+|only\s+)?in\s+"
    rf"(?P<tongue>{_TONGUES})",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:全部)?(?:用|使用|以|采用)?(?P<tongue>{_TONGUES})(?:回答|书写|撰写|作答|写成|回复)?",
)
_SAME = compile_patterns(
    rf"{SUBJECT}{MODAL}(?:is|be)\s+(?:written\s+)?in\s+(?:the\s+same\s+language\s+as\s+the\s+(?:question|query|prompt)"
    r"|the\s+language\s+of\s+the\s+(?:question|query|prompt))",
    rf"{SUBJECT_ZH}{MODAL_ZH}(?:用|使用|以)?(?:与|和)(?:问题|提问|用户)(?:相同|一致)的?语言(?:回答|作答|书写)?",
)


def find_language_check(text: str, query: str) -> Found:
    """Return the check on the language that a wording names, or that the query is in."""
    match = match_first(_SPOKEN, text)
    if match is not None:
        return "language", {"code": _LANGUAGES[match["tongue"].lower()]}
    if match_first(_SAME, text) is None or not query:
        return None
    code = detect_language(query)
    return None if code is None else ("language", {"code": "zh" if code.startswith("zh") else code})


READERS: tuple[tuple[str, Callable[[str, str], Found]], ...] = (
    ("length", find_count_check),
    ("format", find_layout_check),
    ("format", find_typography_check),
    ("keyword", find_repetition_check),
    ("keyword", find_keyword_check),
    ("language", find_language_check),
    ("number", find_number_check),
)
"""The groups of wordings: their kind and their reader, in the order in which they are tried."""
