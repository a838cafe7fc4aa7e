"""Weights whose sign says the opposite of the words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.lint.rules.rule import Hit, Rule
from autorubric.lint.sheet import Draft, Sheet

_SUBJECT = (
    r"^\W*(?:(?:the |this )?(?:response|answer|submission|essay|text|model|assistant|output|report|code|author|writer|"
    r"it)(?:'s)? )?(?:also )?"
)
_BAD_ACT = (
    "fabricat|hallucinat|invent|mislead|plagiari[sz]|contradict|insult|stigmati[sz]|misstat|misrepresent|misinterpret"
)
_BAD_THING = (
    r"(?:factual |significant |major |serious |grammatical |spelling |false |incorrect |inaccurate |misleading |harmful |"
    r"unsafe |dangerous |offensive |toxic |fabricated |invented |made-up |irrelevant |redundant |unnecessary )"
)
# Praise: what no one loses points for.
_PRAISE = re.compile(
    _SUBJECT + r"(?:(?:should|must|needs to) (?!not\b|never\b)"
    r"|(?:successfully |correctly |carefully |properly |explicitly |clearly )?(?:avoids?|refrains? from|abstains? from)\b"
    r"|is (?:entirely |completely |fully )?(?:free (?:of|from)|devoid of)\b|(?:is|stays|remains) (?:factually )?(?:correct|"
    r"accurate|truthful|honest|safe|polite|respectful)\b(?! (?:only|about .* but))"
    rf"|(?:does not|doesn't|do not|never) (?:{_BAD_ACT})"
    rf"|(?:does not|doesn't|never) (?:contain|include|make|give|use|have|introduce|spread) (?:any )?{_BAD_THING}"
    r"|contains? no (?:factual |significant |grammatical |spelling |major )?(?:errors?|mistakes?|inaccurac))"
)
_PRAISE_ZH = re.compile(
    r"^\W*(?:该|此|本)?(?:回答|回复|答案|文章|响应|模型|内容)?(?:中|里)?(?:应当?|应该|需要?|必须|要|能够?|成功|正确地?|明确地?)?"
    r"(?:避免|没有(?:任何)?(?:事实|语法|明显|编造|虚构|错误|捏造|误导|冒犯)|未(?:编造|虚构|捏造|误导|冒犯|出现错误)|"
    r"不(?:编造|虚构|捏造|误导|冒犯|含(?:有)?(?:错误|有害|冒犯))|(?:应当?|应该|必须)(?!避免|不))"
)
# Blame: what no one earns points for.
_BLAME = re.compile(
    _SUBJECT + r"(?:fails? to\b|failed to\b|neglects? (?:to|the)\b|forgets? to\b|omits? (?:the |any |key |important |to )"
    r"|(?:incorrectly|wrongly|falsely|mistakenly|inaccurately|erroneously|inappropriately|needlessly|unnecessarily) \w+s\b"
    rf"|(?:{_BAD_ACT})[a-z]*s\b(?! of\b)"
    rf"|(?:contains?|includes?|makes?|gives?|uses?|has|introduces?|spreads?) (?:any |some |a |an |several )?{_BAD_THING}"
    r"(?:\w+ )?(?:errors?|mistakes?|claims?|statements?|information|advice|content|language|facts?|sources?|citations?|"
    r"assumptions?|details?|repetitions?)\b(?! (?:and|or) (?:then )?corrects)"
    r"|penali[sz]e\b|apply (?:a |the )?penalt|deduct|lacks? (?:a |an |any |the )?\w|ignores? the\b"
    r"|(?:is|are) (?:factually |simply |completely )?(?:wrong|incorrect|inaccurate|misleading|offensive|rude|harmful|"
    r"off-topic)(?=\W*$|[.,;] ))"
)
_BLAME_ZH = re.compile(
    r"^\W*(?:该|此|本)?(?:回答|回复|答案|文章|响应|模型|内容)?(?:中|里)?(?:未能|没能|没有(?:提|说|给|指|包|解|列|回|考)|遗漏|忽略了?|缺少|缺乏|"
    r"错误地|误将|误导|编造|虚构|捏造|(?:存在|出现|包含|含有)(?:了)?(?:明显|严重|事实|语法)?(?:性)?(?:的)?(?:错误|误导|虚构|有害|冒犯)|扣分|若.{1,40}(?:则)?扣分)"
)
# A condition turns praise and blame about: "avoids X only by ...", "fails to X unless".
_TURNED = re.compile(r"\b(?:fails? to|does not|doesn't|without|but|instead of|rather than|when|despite|even though)\b|但|却|而没有|反而")


def _contradicts(sheet: Sheet) -> Iterator[Hit]:
    for position, draft in sheet.read():
        if draft.weight < 0 and (found := _said(draft, _PRAISE, _PRAISE_ZH)):
            yield Hit(
                position,
                f"weight {draft.weight:g} takes points from a submission that {found!r} describes, which is a virtue",
                "Describe the fault itself (what is there when points are lost), or make the weight positive",
            )
        elif draft.weight > 0 and (found := _said(draft, _BLAME, _BLAME_ZH)):
            yield Hit(
                position,
                f"weight {draft.weight:g} rewards a submission that {found!r} describes, which is a fault",
                "Make the weight negative, or ask for the right thing",
            )


def _said(draft: Draft, english: re.Pattern[str], chinese: re.Pattern[str]) -> str:
    words = draft.wording
    text = words.bare.strip()
    found = (chinese if words.chinese else english).match(text)
    if found is None or _TURNED.search(text, found.end()):
        return ""
    return found.group().strip()


SIGN = Rule(
    "sign-contradiction", "error", "the sign of the weight and the wording say opposite things", _contradicts
)
