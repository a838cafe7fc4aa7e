"""Comparisons a judge has nothing to hold against."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.linting.patterns import any_of
from autorubric.linting.rules.rule import Hit, Rule
from autorubric.linting.sheet import Sheet

_QUALITIES = any_of(
    """detailed, comprehensive, thorough, creative, original, engaging, helpful, useful, complete, concise
    informative, nuanced, insightful, in-depth, precise, relevant, readable, natural, persuasive, convincing
    polished, coherent, elegant, vivid, well-written, sophisticated, structured, organi[sz]ed, interesting
    compelling"""
)
# "More detailed information" may be what a person is told to ask for.
_NOT_OF_ANSWERS = any_of(
    "information, options?, plan, exam, about, data, evidence, results?, recommendation, approach, treatment, view"
)
_ANSWERS = any_of(
    """explanations?, answers?, responses?, structure, organi[sz]ation, quality, examples?, arguments?
    reasoning, analys[ei]s, descriptions?, wording, writing, style, flow, clarity, coverage, depth, grammar
    vocabulary, formatting"""
)
_BETTER = any_of("better, best, superior, stronger, richer, clearer, deeper, smoother, higher[- ]quality")
_MEASURES = any_of(
    "others?, baseline, original, average, usual, typical, expected, most, a (?:typical|basic|generic)"
)
_ENGLISH = re.compile(
    rf"\b(?:more|most|less|least)(?: and more)? (?:\w+ly )?{_QUALITIES}\b(?! {_NOT_OF_ANSWERS}\b)"
    rf"|\b{_BETTER} {_ANSWERS}\b"
    rf"|\b(?:better|worse|more|less|clearer|deeper|further) than (?:the )?{_MEASURES}\b"
    r"|\b(?:exceeds?|surpass(?:es)?|goes? beyond) (?:the )?(?:expectations?|basics?|average|obvious|others?)\b"
    rf"|\b(?:improves? (?:up)?on|outperforms?|is (?:superior to|better than)) (?:the )?(?:other |usual )?{_ANSWERS}\b"
)
_QUALITIES_ZH = any_of(
    """详细, 全面, 深入, 清晰, 生动, 完整, 有说服力, 丰富, 优秀, 优美, 流畅, 有创意, 有趣, 有深度, 出色, 详尽, 细致
    专业, 好(?!地|的?理解)"""
)
_CHINESE = re.compile(
    rf"更(?:加|为)?{_QUALITIES_ZH}|最(?:为)?(?:详细|全面|清晰|生动|完整|优秀|优美|出色)"
    r"|(?:优于|胜过|好于|超越|超出)(?:其他|一般|普通|预期|平均)|比(?:其他|一般|另一)"
)
# A bound makes a comparison decidable: "more detailed than 3 sentences".
_BOUND = re.compile(r".{0,24}?\d")


def _comparative(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in sheet.read():
        words = draft.wording
        found = (_CHINESE if words.chinese else _ENGLISH).search(words.bare)
        if found is not None and not _BOUND.match(words.bare, found.end()):
            yield Hit(
                position,
                f"{found.group()!r} compares with something the judge does not see",
                "Say how much is enough: a number, or the points that have to be there",
            )


COMPARATIVE = Rule(
    "comparative", "warning", "a comparison such as 'more detailed' has no measure to be held against", _comparative
)
