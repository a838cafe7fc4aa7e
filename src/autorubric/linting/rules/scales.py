"""Criteria that ask for a grade but have no options."""

import re

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import RawCriterion, Rule, apply_to_judged

_NUMBER = r"(?:\d+(?:\.\d+)?|zero|one|two|three|four|five|six|seven|eight|nine|ten|twenty|hundred)"
_RANGE = rf"{_NUMBER} ?(?:[-–—~～/]|to|and|through|or|,) ?{_NUMBER}"
_GRADE = match_any(
    """rate, score, grade, mark, award, assign, give, grant, rank, judge, assess, evaluate, measure, indicate
    pick, record, place, choose, select, estimate, allocate, enter, add, deduct, subtract, take off, express
    quantify, use, apply, put, provide an?, state as, report as, lose"""
)
_UNIT = match_any("points?, marks?, stars?, credits?, scores?, grades?, bands?, levels?")
_MEASURE = (
    rf"(?:\b(?:from|between|of|as|to|with|on|in|number|scale|score|rating|grade)\b[^.;]{{0,20}}? ?{_RANGE}\b"
    rf"|\b{_RANGE} {_UNIT}\b"
    rf"|{_RANGE}\W*$|\bup to {_NUMBER} {_UNIT}\b|\bout of (?:\d+|ten|five|twenty|a hundred)\b"
    rf"|\b{_NUMBER}[- ](?:point|level|star|step|grade|band|tier)s?\b(?: (?:likert|rating))?(?: scale| rubric)?"
    rf"|\b(?:likert|sliding|ordinal|numeric(?:al)?) (?:scale|rating)\b"
    rf"|\bper ?cent(?:age)?\b|\bbetween a and [a-f]\b|\bfrom a to [a-f]\b|\bnumber of stars\b|\b(?:{_NUMBER}|half a"
    rf"|partial) {_UNIT}\b)"
)
_LEVEL = match_any(
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
_AFTER = r"(?:[.?!]\s+|\n\s*)"
_EQUAL = r"(?:\d{1,3}|[a-f]) ?= ?[a-z]"
_OPENING = compile_late(
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
    # After a sentence, the marks need a level or a verb of grading: "Explains the flags. 1 = on, 0 = off."
    rf"|^[^;]{{2,120}}?{_AFTER}{_MARKED} ?{_LEVEL}\b[^;]{{0,100}}?[;,/.|\n] ?{_MARKED} ?\S"
    rf"|^\W*(?:please )?(?:rate|score|grade|judge|assess|evaluate)s?\b[^;]{{2,120}}?{_AFTER}{_EQUAL}[^;]{{1,100}}?"
    rf"[;,.\n] ?{_EQUAL}"
    rf"|^[^;]{{2,120}}?{_AFTER}{_LEVELS}\W*$"
    rf"|^\W*(?:[\w'-]+ ){{0,3}}(?:earns?|gets?|receives?|scores?|is worth|gains?|loses?|lose|deserves?) (?:up to "
    rf"|at most |only |from )?(?:{_RANGE}|{_NUMBER}|half an?) (?:{_UNIT})\b"
)
_INSIDE = compile_late(
    r"\b(?:full|half|partial|proportional|no) (?:marks?|credit|points?) (?:for|if|when|where|unless)\b"
    r"|\b(?:score|award|give|count|deduct|add|subtract)\w* (?:one|two|\d+|half an?|an?) (?:points?|marks?) (?:each"
    r"|apiece|per|for (?:each|every))\b"
    r"|[\s(]_*/ ?(?:5|10|20|100)\b"
)
_ASKED_ZH = compile_late(
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


def find_asked_grade(words: Phrasing) -> re.Match[str] | None:
    """Return the words with which a criterion asks for a grade; None if it asks for none.

    Example:
        >>> find_asked_grade(Phrasing("How well is it argued? Award 0-5."))[0], find_asked_grade(Phrasing("Is kind"))
        ('how well', None)
    """
    if words.chinese:
        return _ASKED_ZH.search(words.own)
    return _OPENING.match(words.own) or _INSIDE.search(words.own)


_SCALE = compile_late(
    r"^\W*(?:please )?(?:give|evaluate|assess|judge|add|(?:rate|score|grade|(?:award|deduct)s?"
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
    r"|[:;,(] ?\d ?[=:] ?[a-z][^;]{0,90}?(?:[,;] ?\d ?[=:]|\. ?\d ?=) ?[a-z]"
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
        r"|[。！？]\s*\d\s*(?:分\s*[:：]|分?\s*[=＝为])\s*[^，；。]{1,20}[，；。]\s*\d"
        r"|[给得]\s*\d+\s*分[，,]?最多"
    ),
)


_SCALE_HINTS = Hints(
    "how, extent, where , (, from , between , scale, credit, mark, grade, point, score, rate , =, :, "
    + ", ".join(f"{letter} {when}" for letter in "abcde" for when in ("for", "if", "when")),
    "分, 评, 衡量, 为, ＝, ：",
)
_AMOUNT = compile_late(r"\d|scale|a to f|points?\b|marks?\b|credit|\b[a-e] (?:for|if|when)\b|分")


def _find_scale(criterion: RawCriterion) -> str:
    words, text = criterion.wording, criterion.wording.own
    if criterion.options:
        return ""
    found = find_asked_grade(words)
    if not found and _SCALE_HINTS.occur_in(text) and _AMOUNT.search(text):
        found = _SCALE.search(text)
    return found.group().strip() if found else ""


SCALE = Rule(
    "missing-options",
    "warning",
    "a binary criterion asks for a grade on a scale",
    apply_to_judged(
        _find_scale,
        "{!r} asks for a grade, but the verdict is met or unmet",
        "Give the criterion options with values, or split it into criteria",
    ),
)
