"""Wordings of form: JSON, tables, lists, marks, letter case."""

from __future__ import annotations

import re
from typing import Any

from autorubric.synthesis.compiling.grammar import (
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
)

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
    """The check on marks or letter case that a wording names.

    Example:
        >>> typography_check("does not contain any commas", "")
        ('not_contains', {'phrases': [',', '，']})
    """
    match = first_match(_UNMARKED, text)
    if match is not None:
        return "not_contains", {"phrases": _MARKS[match["mark"].lower()]}
    match = first_match(_CASED, text)
    if match is None:
        return None
    lower = match["case"].lower().startswith("lower")
    return ("LowercaseLettersEnglishChecker" if lower else "CapitalLettersEnglishChecker"), {}


def layout_check(text: str, query: str) -> Found:
    """The check on a form that a wording names.

    Example:
        >>> layout_check("is valid JSON", "")
        ('json_valid', {})
    """
    return next(((check, dict(given)) for options, check, given in _SHAPES if first_match(options, text)), None)
