"""Wordings of length and number: words, sentences, list items, headings."""

from __future__ import annotations

import re
from typing import Any

from autorubric.synthesis.compiling.grammar import (
    HAS,
    MODAL,
    MODAL_ZH,
    SUBJECT,
    SUBJECT_ZH,
    Found,
    first_match,
    patterns,
)
from autorubric.synthesis.compiling.quantities import AFTER, BOUND, bounds_of

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

_TAIL = r"(?:\s+(?:long|in\s+length|in\s+total|overall|total))?"
_COUNTS = [
    (
        patterns(
            rf"{SUBJECT}{MODAL}(?:{HAS}\s+)?(?:to\s+)?{BOUND}[\s-]+(?:{unit})\s*{AFTER}{_TAIL}",
            rf"{SUBJECT_ZH}{MODAL_ZH}(?:包含|使用|有|给出|列出|提供|含有?|共|分为|分成)?(?:了)?{BOUND}\s*(?:{unit})\s*{AFTER}",
        ),
        check,
        fixed,
    )
    for unit, (check, fixed) in _UNITS.items()
]


_LIMIT = re.compile(r"\blimit", re.IGNORECASE)
_BOUND_FIRST = re.compile(r"(至少|最少|最多|至多|不超过)(包含|使用|给出|列出|提供|含有?)(了)?")


def count_check(text: str, query: str) -> Found:
    """The check on a length or a count that a wording names.

    Example:
        >>> count_check("has at most 200 words", "")
        ('word_count', {'at_most': 200})
    """
    text = _BOUND_FIRST.sub(r"\2\1", text)
    for options, check, fixed in _COUNTS:
        match = first_match(options, text)
        if match is None:
            continue
        bounds = bounds_of(match, _bare(check, text))
        return None if bounds is None else (check, {**fixed, **bounds.parameters()})
    return None


def _bare(check: str, text: str) -> str:
    """What a number without a bound means: "limited to 100 words", "three headings", "100 words"."""
    if _LIMIT.search(text):
        return "most"
    return "least" if check in _PRESENCE else "exactly"
