"""Frames in which a criterion asks for a grade: verbs with a range, questions of degree, lists of levels."""

from __future__ import annotations

import re

from autorubric.core.wording import any_of, late_pattern
from autorubric.linting.wording import Wording

_NUMBER = r"(?:\d+(?:\.\d+)?|zero|one|two|three|four|five|six|seven|eight|nine|ten|twenty|hundred)"
_RANGE = rf"{_NUMBER} ?(?:[-–—~～/]|to|and|through|or|,) ?{_NUMBER}"
_GRADE = any_of(
    """rate, score, grade, mark, award, assign, give, grant, rank, judge, assess, evaluate, measure, indicate
    pick, record, place, choose, select, estimate, allocate, enter, add, deduct, subtract, take off, express
    quantify, use, apply, put, provide an?, state as, report as, lose"""
)
_UNIT = any_of("points?, marks?, stars?, credits?, scores?, grades?, bands?, levels?")
_MEASURE = (
    rf"(?:\b(?:from|between|of|as|to|with|on|in|number|scale|score|rating|grade)\b[^.;]{{0,20}}? ?{_RANGE}\b"
    rf"|\b{_RANGE} {_UNIT}\b"
    rf"|{_RANGE}\W*$|\bup to {_NUMBER} {_UNIT}\b|\bout of (?:\d+|ten|five|twenty|a hundred)\b"
    rf"|\b{_NUMBER}[- ](?:point|level|star|step|grade|band|tier)s?\b(?: (?:likert|rating))?(?: scale| rubric)?"
    rf"|\b(?:likert|sliding|ordinal|numeric(?:al)?) (?:scale|rating)\b"
    rf"|\bper ?cent(?:age)?\b|\bbetween a and [a-f]\b|\bfrom a to [a-f]\b|\bnumber of stars\b|\b(?:{_NUMBER}|half a"
    rf"|partial) {_UNIT}\b)"
)
_LEVEL = any_of(
    """excellent, outstanding, exemplary, very good, good, satisfactory, sufficient, fair, average, adequate
    acceptable, poor, very poor, weak, strong, basic, developing, proficient, emerging, beginning, beginner
    mastery, advanced, limited, none, low, medium, moderate, high, partial, partially, full, fully, complete
    incomplete, minimal, inadequate, needs improvement, unsatisfactory, secure, exceeding, not at all, somewhat
    mostly, completely, meets expectations, exceeds expectations, below expectations, above average
    below average, great, okay, ok, bad, terrible, competent, expert, novice, pass, merit, distinction"""
)
_LEVELS = rf"{_LEVEL}(?: ?(?:[/|,;<>→]|-|–|\bor\b|\bto\b|\band\b)+ ?(?:or |to |and )?{_LEVEL}){{2,}}"
_MARKED = (
    r"(?:(?:band|level|grade|tier|score|stage|step)s? ?)?(?:\d{1,3}|[a-f]|[ivx]{1,3})(?: ?(?:points?|marks?|分"
    r"|stars?))?(?: ?[=:：–—]| - |\))"
)
_OPENING = late_pattern(
    rf"^\W*(?:please |the (?:judge|grader) (?:should|must) )?{_GRADE}\b[^.;]{{0,100}}?{_MEASURE}"
    rf"|^\W*(?:please )?(?:how (?!to\b|come\b)\w+|to what (?:extent|degree)|(?:at |to )?what (?:share|percentage"
    rf"|proportion|fraction|"
    rf"level|degree|number|grade|score)|(?:the )?(?:degree|extent) to which|in how far|how)\b"
    rf"|^\W*(?:percentage|proportion|share|fraction|number|amount) of [^.;]{{2,60}}?(?:that|which|who|supported"
    rf"|correct|present|cited|covered|used|mentioned)\b|^\W*(?:total |maximum |max )?(?:marks?|points?"
    rf"|score) (?:available|possible|maximum|out of|total)\b"
    rf"|^\W*the (?:more|fewer|better|less|higher|clearer) [^.;]{{2,60}}?,? the (?:higher|better|more|lower"
    rf"|greater) (?:the |is the )?(?:score|mark|grade|points?|credit)"
    rf"|^\W*(?:for )?(?:each|every|per) [^.;]{{2,50}}?,? (?:take off|deduct|subtract|lose|add|give|award|knock off"
    rf"|count|\w+ is deducted|gets?|earns?|\+|-|minus|plus)\b|^[^.;:]{{1,40}}: ?{_RANGE}(?: {_UNIT})?\W*$"
    rf"|^\W*{_GRADE} (?:a |the )?(?:number|level|grade|score|mark|band|rating|percentage|figure|letter|value)\b"
    rf"|^\W*{_GRADE} [^.;]{{2,60}} [a-e](?: to |-|–)[a-f]\W*$"
    rf"|^\W*(?:likert|rating|score|grade|mark)s?\b[^.;]{{0,40}}?{_MEASURE}"
    rf"|^[^.;:]{{2,60}}[:–—] ?{_LEVELS}|^\W*{_LEVELS}"
    rf"|^\W*(?:[^.;:]{{0,60}}[:–—] ?)?{_MARKED} ?\S[^;]{{1,100}}?[;,/.|] ?{_MARKED} ?\S"
    rf"|^\W*(?:[\w'-]+ ){{0,3}}(?:earns?|gets?|receives?|scores?|is worth|gains?|loses?|lose|deserves?) (?:up to "
    rf"|at most |only |from )?(?:{_RANGE}|{_NUMBER}|half an?) (?:{_UNIT})\b"
)
_INSIDE = late_pattern(
    r"\b(?:full|half|partial|proportional|no) (?:marks?|credit|points?) (?:for|if|when|where|unless)\b"
    r"|\b(?:score|award|give|count|deduct|add|subtract)\w* (?:one|two|\d+|half an?|an?) (?:points?|marks?) (?:each"
    r"|apiece|per|for (?:each|every))\b"
    r"|[\s(]_*/ ?(?:5|10|20|100)\b"
)
_ASKED_ZH = late_pattern(
    r"[（(]\s*\d+\s*[-–~～到至]\s*\d+\s*分?[^）)]{0,20}[）)]|\d+\s*[-–~～到至]\s*\d+\s*分?(?:之间|以内"
    r"|内)?(?:进行)?(?:打分|给分|评分|评定)"
    r"|^\W*(?:请)?(?:在|从|按|以|用)?.{0,6}\d+\s*[-–~～到至]\s*\d+\s*分?.{0,12}[打给评]"
    r"|^.{0,14}?(?:多大|何种)程度|^\W*(?:请)?(?:评估|评价|衡量|判断|评定|考察)[^，。；]{1,30}(?:程度|水平|质量|高低"
    r"|好坏|优劣|等级)(?=\W*$|[：:（(])"
    r"|^.{2,20}(?:如何|怎么样|怎样)[？?，,。]?(?:请)?(?:打分|评分|评价|打几分)|(?:[一二三四五]档"
    r"|[ABCDabcd甲乙丙丁][档等级]).{0,8}\d+\s*分|视情况(?:给|打|评|扣)分|[:：（(]\s*(?:优秀?|好|高|强|很好)[/、，,"
    r"|]\s*(?:良好?|中等?|较好|一般|及格)[/、，,|或]\s*(?:中等?|低|差|弱|及格|一般|不及格|较差)(?:[/、，,"
    r"|或]\s*(?:差|不及格|很差|劣|低))?[）)]?\W*$"
    r"|\d\s*[-–~～到至]\s*\d\s*[颗个]?星"
    r"|[一二三四五1-5][档等级类]\s*[:：（(].{1,60}[一二三四五1-5][档等级类]\s*[:：（(]"
    r"|(?:按|分)(?:档|等级|层次|级)(?:给|评|打|赋)?分|酌情(?:给|扣|评|打|赋|加)分|酌定|李克特|^.{0,4}(?:百分比"
    r"|比例是?多少)|百分之几|占比(?:多少|为)|几成"
    r"|每(?:[答写错漏多少]|处|个|点|条|项|步|空|题)[^，。；]{0,14}[得给扣加计]?\s*(?:\d+(?:\.\d+)?"
    r"|[一二两三半])\s*分|[扣得给加计]\s*(?:\d+(?:\.\d+)?|[一二两三半])\s*分(?:[，,；;].{1,30}(?:分|扣)|$|。)"
    r"|满分(?:为)?\s*\d+|(?:完整|全对|部分)[^，。；]{0,6}(?:得|给)(?:全分|满分|一半|半分|\d+分)|[^，。；]{1,20}(?:打"
    r"|评)几分"
)
_GRADED = frozenset(
    """mark marks credit point points 5 10 20 100 _ /10""".split()  # noqa: SIM905
)


def asked_grade(words: Wording) -> re.Match[str] | None:
    """The words with which a criterion asks for a grade; None where it asks for none.

    Example:
        >>> asked_grade(Wording("How well is it argued? Award 0-5."))[0], asked_grade(Wording("Argues well."))
        ('how well', None)
    """
    if words.chinese:
        return _ASKED_ZH.search(words.own)
    return _OPENING.match(words.own) or (None if words.vocabulary.isdisjoint(_GRADED) else _INSIDE.search(words.own))
