"""Criteria that ask for a grade but have no options."""

from __future__ import annotations

from collections.abc import Iterator

from autorubric.core.wording import late_pattern
from autorubric.linting.finding import Hit, RawRubric, Rule
from autorubric.linting.rules.grade_frames import asked_grade
from autorubric.linting.wording import Hints

_SCALE = late_pattern(
    r"^\W*(?:please )?(?:give|evaluate|assess|judge|add|(?:(?:rate|score|grade|award|deduct)s?"
    r"|assign))\b[^.;]{0,80}?(?:\b(?:from|between) \d+(?: \([^)]*\))? (?:to|and|-) \d+\b|\bup to (?:\d+"
    r"|\w+) (?:points?|marks?)\b|\bfrom a to f\b|\b\d+ ?[-–] ?\d+\b(?=:| (?:scale|points?|for|on|based|accord)"
    r"|\W*$)|\bout of \d+\b|\b\w+[- ]point scale\b|\b\d, \d,? (?:or|and) \d(?: points?| marks?)?\b|\bon a scale\b"
    r"|\b(?:[1-9]\d*|one|two|three|half a) (?:points?|marks?) (?:for (?:each|every|any)|per|if|when)\b)"
    r"|^\W*(?:award|assign|grant|deduct|add)s? (?:points|marks|credit) (?:for (?:each|every)|per|if)\b"
    r"|^\W*(?:each|every) [^.;]{1,50}? (?:earns?|gets?|receives?|is worth|counts? for|scores?) (?:\d+|an?|one|two"
    r"|half a) (?:points?|marks?)\b"
    r"|^\W*on an? (?:\w+[- ]point )?scale\b"
    r"|\(\d+ ?(?:[-–]|to) ?\d+(?: points?| scale)?\)\W*$"
    r"|^\W*score \d\s*[:=]"
    r"|^\W*(?:\d+|one|two|three|four|five|full|half) (?:points?|marks?) (?:if|for|when)\b"
    r"|\b(?:how|to what extent)\b[^.]{0,80}\(\d+ ?[-–] ?\d+\)"
    r"|\b(?:partial|half|proportional) (?:credit|marks?|points?) (?:if|for|when|where|is|may|should)\b"
    r"|^\W*\d ?[=:：] ?\w[^,;，；]{0,40}[,;，；] ?\d ?[=:：] ?\w"
    r"|\b(?:how|to what extent)\b[^.]{0,80}\b(?:on|from|between|out of) (?:a scale )?[^.]{0,12}\d"
    r"|[，,(]? ?where \d(?: is|=| means| stands for)\b[^.]{1,60}\b\d+(?: is|=| means| stands for)\b"
    r"|\(\d+ ?= ?[^)]{1,60}\b\d+ ?= ?[^)]{1,60}\)"
    r"|^\W*(?:\w+ )?(?:points?|marks?|credit) (?:is|are|will be) (?:awarded|given|deducted|assigned|lost)\b"
    r"|[:;,(] ?\d ?[=:] ?[a-z][^,;]{0,60}[,;] ?\d ?[=:] ?[a-z]"
    r"|^\W*(?:one|two|three|\d|half a|a|an extra|a further) (?:points?|marks?) (?:per|each|off|for|if|when)\b"
    r"|\bup to (?:\d+|one|two|three|four|five|six|ten) (?:points?|marks?)\b"
    r"|\b(?:grade )?[a-e] (?:for|if|when) [^;]{1,60}[,;] ?(?:and )?(?:grade )?[b-f] (?:for|if|when)\b"
    r"|^[^.;,(]{0,60}\b(?:points?|marks?) (?:per|for each|for every|apiece) \w"
    r"|\b(?:maximum|total) of \d+ (?:points?|marks?)\b",
    chinese=(
        r"^\W*分[为成][^，。；]{1,20}[档级等]\W*$"
        r"|(?:按照?|依照?|以|从)\s*\d+\s*(?:分)?\s*[到至\-–~～]\s*\d+\s*分?[^。；]{0,20}(?:打分|评分|给分|评价"
        r"|评定|衡量|计分)"
        r"|^\W*(?:答对|答错|若|如果?|只要|正确|错误)[^，。]{0,10}[得给计扣]\s*\d+\s*分"
        r"|[得给计]\s*\d+\s*分[，,；;][^。]{1,20}[得给计]?\s*\d+\s*分"
        r"|(?:给|打|评)出?\s*\d+\s*[到至\-–~～]\s*\d+\s*(?:之间)?的?(?:分|评)"
        r"|(?:给予?|打|评|得)\s*\d+\s*分?\s*[到至\-–~～]\s*\d+\s*分"
        r"|每[^，。；]{1,20}[得给加扣]\s*\d+\s*分"
        r"|(?:打分|评分)[^。；]{0,6}\d+\s*[到至\-–~～]\s*\d+"
        r"|[（(]\s*\d+\s*[\-–~～到至]\s*\d+\s*分\s*[)）]"
        r"|\d+\s*分制"
        r"|[百十五]分制"
        r"|酌情(?:给|扣|评|打)分"
        r"|\d+\s*[\-–~～到至]\s*\d+\s*分的?(?:评分|评价|打分)"
        r"|满分\s*\d+\s*分"
        r"|[:：；，（]\s*\d\s*分?\s*[=＝为:：]\s*[^，；]{1,20}[，；]\s*\d"
        r"|[给得]\s*\d+\s*分[，,]?最多"
    ),
)


_SCALE_HINTS = Hints(
    "how , (, from , between , scale, credit, mark, grade, point, score, rate , =",
    "分, ＝",
)
_AMOUNT = late_pattern(r"\d|scale|a to f|points?\b|marks?\b|credit|分")


def _scale(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        text = criterion.wording.own
        if criterion.options:
            continue
        found = asked_grade(criterion.wording)
        if not found and _SCALE_HINTS.occur_in(text, criterion.wording) and _AMOUNT.search(text):
            found = _SCALE.search(text)
        if found:
            yield Hit(
                position,
                f"{found.group().strip()!r} asks for a grade, but the verdict is met or unmet",
                "Give the criterion options with values, or split it into criteria",
            )


SCALE = Rule("missing-options", "warning", "a binary criterion asks for a grade on a scale", _scale)
