"""Criteria about things that a judge does not have before it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.lint.rules.rule import Hit, Rule
from autorubric.lint.sheet import Sheet

_TEXT = "(?:answers?|responses?|solutions?|submissions?|completions?|outputs?|repl(?:y|ies)|essays?|summar(?:y|ies))"
_REFERENCE = re.compile(
    rf"\b(?:reference|gold(?:en|[- ]standard)?|ground[- ]truth|sample|official|canonical) {_TEXT}\b"
    r"|\bmodel (?:solution|essay)s?\b|\banswer key\b|\bthe ground[- ]truth\b|\bas (?:in|per) the reference\b|\bthe reference (?:text|document)\b"
    r"|参考答案|标准答案|参考回答|参考文本|参考解答|范文|示例答案"
)
_OTHERS = re.compile(
    rf"\b(?:the )?other (?:{_TEXT}|candidates?|models?)\b(?! (?:from|by) the (?:user|assistant))"
    rf"|\b(?:response|answer) (?:[ab12]|one|two)\b(?! (?:or|of|questions?)\b)|\bboth {_TEXT}\b"
    rf"|\b(?:than|with|to) (?:the )?(?:competing|alternative|rival|baseline|second|first) {_TEXT}\b|\beither {_TEXT}\b"
    r"|(?:另一|另外一)(?:个|份|条|篇)?(?:回答|答案|回复|响应)|其他(?:模型|回答|答案|回复)|(?:回答|答案|回复|响应) ?[AB12甲乙](?![A-Za-z0-9])|两个(?:回答|答案|回复)"
)
_PICTURES = re.compile(
    r"\b(?:in|shown in|from|on|see|of|with|to|matches|based on) the (?:attached |provided |accompanying |given |above )?"
    r"(?:image|picture|photo(?:graph)?|screenshot|video|audio(?: clip| file)?|recording)\b(?! (?:of|the user|file name))"
    r"|\b(?:attached|accompanying|provided) (?:image|picture|photo(?:graph)?|screenshot|figure|diagram|chart|video|file|document)s?\b"
    r"|(?:图片|图像|附图|截图|照片|图表|视频|音频|录音)(?:中|里|内|所示|上的?)|如图所示|附件(?:中|里)?"
)
_ABOVE = re.compile(
    r"\b(?:same )?as above\b|\bsee above\b|\bthe (?:above|previous|preceding|other|next|following) "
    r"(?:criteri(?:on|a)|rubrics?|rubric items?)\b|\b(?:criterion|criteria|rubric item) (?:#|no\.? ?)?\d+\b|\bditto\b"
    r"|\bmentioned above\b|\babove[- ]mentioned\b|\bin addition to the (?:above|previous)\b"
    r"|同上|如上(?:所述)?|上述(?:标准|条目|要求|准则|各[条项])|[前上]一?[条个项](?:标准|准则|评分|要求)|第[0-9一二三四五六七八九十]+[条项个]?(?:标准|准则|评分项)|其他(?:标准|准则|评分项)"
)
_KINDS = (
    (_REFERENCE, "a reference answer", "Put what the reference says into the criterion itself"),
    (_OTHERS, "another response", "Describe what this submission alone has to show"),
    (_PICTURES, "a picture or file", "Describe in words what it shows"),
    (_ABOVE, "other criteria", "Repeat what is meant: a judge reads one criterion at a time"),
)


def _unseen(sheet: Sheet) -> Iterator[Hit]:
    asked = sheet.query.lower()
    for position, draft in sheet.read():
        for pattern, what, advice in _KINDS:
            if sheet.reference and pattern is _REFERENCE:
                continue
            found = pattern.search(draft.wording.own)
            # What the query speaks of, the judge sees.
            if found is not None and found.group() not in asked:
                yield Hit(position, f"{found.group().strip()!r} points at {what}, which a judge does not see", advice)
                break


UNSEEN_REFERENCE = Rule(
    "unseen-reference", "warning", "a criterion points at something that the judge is not shown", _unseen
)
