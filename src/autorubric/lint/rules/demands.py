"""Criteria that ask for several things at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.lint.rules.rule import Hit, Rule
from autorubric.lint.sheet import Draft, Sheet

_VERBS = (
    "acknowledge add address adhere advise analy[sz]e answer apply argue ask assess avoid calculate caution cite clarify compare "
    "compute conclude confirm consider contrast convey correct define derive describe direct discuss "
    "cover create demonstrate emphasi[sz]e encourage end enumerate evaluate exclude explain explore express follow format give highlight identif illustrate "
    "implement include incorporate indicate inform instruct interpret introduce justif limit link list maintain "
    "mention name note offer open outline point present prioriti[sz]e propose prove provide quote recogni[sz]e "
    "recommend refer refrain reference relate remind report request respect return seek show solve specif start state "
    "stress structure suggest summari[sz]e support tell translate urge use verif warn write"
).split()  # noqa: SIM905 - a list of words reads best as words
_THIRD = "(?:" + "|".join(_VERBS) + ")(?:es|s|ies)"
_BASE = "(?:" + "|".join(verb + "y" if verb.endswith(("if",)) else verb for verb in _VERBS) + ")"
_ADVERB = r"(?:\w+ly |then |also |not |does not |do not )*"
_SUBJECT = r"(?:(?:it|(?:the )?(?:response|answer|submission|essay|text|model|assistant|output|report|code|author|writer)) )?"
_JOINT = r"(?:,? (?:and|but|while)(?: also| then)?|;(?: and)?|,? as well as)"
_NEXT_THIRD = re.compile(rf"{_JOINT} {_SUBJECT}{_ADVERB}({_THIRD})\b")
_NEXT_BASE = re.compile(rf"{_JOINT} (?:must |should |to )?{_ADVERB}({_BASE})\b(?![-'’])")
# What comes first may be any verb; what comes second has to be one that answers do.
_FIRST_THIRD = re.compile(rf"^\W*{_SUBJECT}(?:also )?{_ADVERB}(\w{{1,12}}s)\b(?! (?:is|are|has|have|and|of)\b)")
_AGAIN_THIRD = re.compile(rf"^\W*{_SUBJECT}(?:also )?{_ADVERB}({_THIRD})\b")
_FIRST_BASE = re.compile(
    rf"^\W*(?:(?:the|this) [\w\-]+ (?:must|should|needs to|has to) {_ADVERB}({_BASE})|{_ADVERB}({_BASE}))\b(?! of\b)"
)
_LISTED = re.compile(r"(?:^|[\s,;:])(?:\(?[1-9]\)|\(?[a-e]\)|step [1-9]:|[①-⑨])\s*\S|（[1-9一二三四五]）")
_BULLETS = re.compile(r"(?:^|\n)\s*(?:[-*•]|\d+[.、])\s+\S")
# Lists of examples, and lists of which some suffice, are one demand.
_EXAMPLES = re.compile(
    r"(?:,? (?:such as|including(?: but not limited to)?|for (?:example|instance)|e\.g\.?|like)|:|"
    r"(?:any|one|either|some|two|three|at least \w+) of)\b[^.;]*|(?:例如|比如|譬如|包括但不限于|诸如|之一|任意|其中|至少)[^。；]*"
)
_ZH_VERB = (
    "说明|解释|列出|指出|提供|给出|描述|提及|提到|包含|分析|讨论|建议|避免|强调|总结|比较|对比|使用|采用|询问|提醒|阐述|论述|"
    "明确|引用|介绍|推荐|计算|给予|展示|回答|区分|评估|列举|定义|证明|概括|表达"
)
_ZH_NEXT = re.compile(
    rf"(?:，|；|、|,|;)?(?:并且?|同时|而且|以及|还(?:要|应|需|必须)?|此外|另外|且|然后|再|最后)(?:也|应当?|需要?|必须|要|能|能够|对.{{1,12}}(?:进行|加以)?)?"
    rf"(?:清晰|准确|明确|具体|详细|正确|简要|进一步)?地?(?:{_ZH_VERB})|[，；](?:应当?|需要?|必须|要)?(?:{_ZH_VERB})"
)
_ZH_FIRST = re.compile(rf"(?:{_ZH_VERB})")


def _several(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in sheet.read():
        second = _second_demand(draft)
        if second:
            yield Hit(
                position,
                f"it asks for several things at once (again at {second!r}), so half of it earns nothing or all",
                "Split it into criteria that can be met one by one, or say 'any of' where one suffices",
            )


def _second_demand(draft: Draft) -> str:
    """The words where a second demand starts; empty where there is one demand."""
    words = draft.wording
    text = words.bare.strip()
    listed = _LISTED.findall(words.own), _BULLETS.findall(words.own)
    for marks in listed:
        if len(marks) >= 2 and not _EXAMPLES.search(words.own.split(marks[0].strip()[:2])[0]):
            return marks[1].strip()
    text = _EXAMPLES.sub(" ", text)
    return _second_chinese(text) if words.chinese else _second_english(text)


def _second_english(text: str) -> str:
    first, following = _FIRST_THIRD.match(text), _NEXT_THIRD
    if first is None:
        first, following = _FIRST_BASE.match(text), _NEXT_BASE
    if first is None:
        return ""
    start, end = first.end(), _sentence_end(text)
    found = following.search(text, start, end)
    if found is not None:
        return found.group().strip(" ,;")
    # A second sentence that opens as the first did is a second demand; one that explains is not.
    rest = text[end:].lstrip(" .!?\n")
    again = (_AGAIN_THIRD if following is _NEXT_THIRD else _FIRST_BASE).match(rest) if rest else None
    return again.group().strip() if again else ""


def _second_chinese(text: str) -> str:
    first = _ZH_FIRST.search(text)
    if first is None:
        return ""
    found = _ZH_NEXT.search(text, first.end())
    return found.group().strip("，；、,; ") if found else ""


_STOP = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bdr)[.!?](?=\s|$)")


def _sentence_end(text: str) -> int:
    found = _STOP.search(text)
    return found.start() if found else len(text)


SEVERAL_DEMANDS = Rule(
    "several-demands", "warning", "a criterion asks for several things, and a judge has one verdict", _several
)
