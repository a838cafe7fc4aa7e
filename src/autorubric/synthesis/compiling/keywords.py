"""Wordings of phrases that have to be there, or must not."""

from __future__ import annotations

import re

from autorubric.synthesis.compiling.grammar import (
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
from autorubric.synthesis.compiling.quantities import AFTER, BOUND, bounds_of

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
    """The check on how often a phrase comes, where a wording names one.

    Example:
        >>> repetition_check('uses the word "tide" at least twice', "") is None
        True
        >>> repetition_check('uses the word "tide" at least two times', "")[1]["at_least"]
        2
    """
    match = first_match(_TIMES, text)
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


def keyword_check(text: str, query: str) -> Found:
    """The check on quoted phrases that a wording names.

    Example:
        >>> keyword_check('begins with "Dear Ada"', "")
        ('starts_with', {'prefix': 'Dear Ada', 'ignore_case': True})
    """
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
