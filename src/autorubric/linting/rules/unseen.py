"""Criteria about content that the judge does not see."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import Hit, RawRubric, Rule
from autorubric.linting.rules.outside_frames import find_outside_reference

_TEXT = match_any(
    "answers?, responses?, solutions?, submissions?, completions?, outputs?, repl(?:y|ies), essays?, summar(?:y|ies)"
)
_TEXT_ZH = match_any("回答, 答案, 回复, 响应")
_EXEMPLARY = match_any("reference, ideal, gold(?:en|[- ]standard)?, sample, official, canonical")
_MEDIUM = match_any("image, picture, photo(?:graph)?, screenshot, painting, poster, cartoon, drawing")
_MEDIUM_ZH = match_any("图片, 图像, 附图, 截图, 照片")
_FIGURE = match_any(
    """figure, diagram, chart, file, document, pdf, slides?, spreadsheet, video, recording, audio(?: clip| file)?
    table"""
)


class _UnseenKind(NamedTuple):
    """Something that the judge does not see: the pattern of its names with hints, its description, and the advice."""

    pattern: re.Pattern[str]
    hints: Hints
    what: str
    advice: str


_REFERENCE = _UnseenKind(
    compile_late(
        rf"\b(?:(?:{_EXEMPLARY}|ground[- ]truth) {_TEXT}|expected (?:answers?|responses?|solutions?)"
        r"|model (?:solution|essay)s?"
        r"|the model answer(?= ?(?:[.,;:]|$)| (?:gives|says|states|uses|shows|is|does)\b)"
        r"|(?:answer|solution) (?:key|sheet)|(?:with|to|in"
        r"|as|from|matches) the key(?=\s*(?:[.,;]|$))|mark(?:ing)? (?:scheme|guide|sheet|rubric)|grading (?:guide"
        r"|key)|(?:taught|covered|discussed|learned) in (?:the )?(?:class|lectures?)|(?:we|as|was"
        r"|were) discussed (?:earlier|before|above|in (?:class|the meeting|our))|we discussed|the (?:instructor"
        r"|teacher|professor)(?:'s)? (?:taught|expects|expectations|notes|solution|answer)"
        r"|the ground[- ]truth(?![\w -]* (?:indicator|variable|image|mask)s?\b)"
        r"|as (?:in|per) the reference|(?:as|than|to|with|in|from) the reference(?=\s*(?:[.,;]|$))"
        r"|gold(?:en)? labels?|(?:from|in|on|per) the (?:lecture|course|class) (?:slides?|notes?|materials?"
        r"|handouts?)|(?:same|as|like|by) (?:\w+ ){0,3}(?:the|our|your) (?:instructor|teacher|professor|lecturer"
        r"|examiner)|(?:in|from|of) (?:chapter \d+ of )?(?:the|our|your) (?:course )?(?:textbook|syllabus"
        r"|course reader|coursebook)|(?:from|in|per|covered in) the (?:lecture|seminar|class)(?=\s*(?:[.,;]|$))"
        r"|provided solution|the reference (?:text|document)|(?:agree|match|coincide|correspond|consistent|in line"
        r"|identical|same|differ|deviate)\w*\b[^.;]{0,30}?\bthe (?:\w+ )?(?:expert|annotator|rater|grader|marker"
        r"|radiologist|reviewer|committee|panel)s?(?:'s?)? (?:verdict|answer|solution|judge?ment|diagnosis|ratings?"
        r"|assessment|labels?|opinion|decision|version)|(?:from|in|of|covered in|taught in|learned in) (?:unit"
        r"|lesson|module|lecture|chapter) \d+|(?:described|defined|given|stated|set out|laid down|specified"
        r"|prescribed|listed|required|recommended|explained) (?:in|by) (?:the |our |your )(?:\w+ )?(?:handbook"
        r"|style guide|playbook|wiki|manual|policy|policies|guidebook|intranet|brief|onboarding \w+"
        r"|code of conduct)|(?:that|which|as) (?:the )?(?:students?|we|you|they|pupils?|learners?"
        r"|the class) (?:have )?(?:learn(?:ed|t)|were taught|studied|practised|practiced|covered|agreed)"
        r"|our (?:brand|tone of voice|voice|template|values|product|customers?|guidelines)|(?:our|your"
        r"|the (?:company|department|team|school|course|house|firm|agency)(?:'s)?) (?:\w+ )?(?:handbook|style guide"
        r"|house style|playbook|brand guidelines|internal (?:policy|guidelines|wiki)))\b",
        chinese=(
            r"(?:参考|标准|示例|给定|官方|专家)的?(?:参考)?(?:答案|解答|解析|解法|解(?=[一致。，]|\W*$)|译文|作文"
            r"|文本|回答|结果|结论|判断|诊断)"
            r"|与专家[^，。；]{0,12}(?:一致|相同|吻合)"
            r"|本(?:课程|单元|课|章|公司|校|店|团队)的"
            r"|本课程第"
            r"|范文"
            r"|课堂上?(?:所?讲|所?教|强调|讨论|介绍)"
            r"|老师(?:[^，。；]{0,6}?(?:讲|教|要求|强调|布置|提到|给的|的答案|提供))"
        ),
    ),
    Hints(
        "expected, examiner, textbook, syllabus, marking, coursebook, reader, reference, ideal , "
        "provided solution, gold, ground, sample , official , canonical , model , key, sheet, "
        "learn, taught, studied, practi, covered, agreed, our , expert, annotator, rater, grader, "
        "marker, radiologist, reviewer, committee, panel, unit , lesson, module, chapter, "
        "handbook, guide, rubric, seminar, internal , "
        "house style, playbook, wiki, manual, polic, brief, intranet, onboarding, code of conduct, "
        "scheme, grading , discussed, course, class, lecture, instructor, teacher, professor",
        "参考, 标准, 示例, 给定, 官方, 专家, 范文, 课堂, 老师, 教材, 课本, 讲义, 本",
    ),
    "a reference answer",
    "Put the reference's content into the criterion",
)
_OTHER_RESPONSE = _UnseenKind(
    compile_late(
        rf"\b(?<!no )(?:(?:the )?other (?:{_TEXT}|candidates?|models?)\b(?! (?:from|by) the (?:user|assistant))"
        r"|(?:response|answer|model|assistant|candidate|system|submission) (?:[ab12]|one|two)\b"
        r"(?! (?:or|of|questions?)\b)"
        rf"|(?:both|either) {_TEXT}\b|(?:than|with|to|as|like) (?:the )?(?:competing|alternative|rival|baseline"
        rf"|second|first|previous|other|weaker|stronger) (?:{_TEXT}|candidates?|systems?)\b"
        r"|side[- ]by[- ]side comparison(?! (?:table|chart|list|section|of|between))|(?:preferred|chosen|picked"
        r"|favou?red) (?:over|to|instead of) (?:the|its|any|all) (?:other|alternative|competing|rival|baseline)\b"
        r"|the (?:competing|alternative|rival|baseline|second|first|previous|other|weaker|stronger) (?:candidate"
        r"|response|model|assistant|submission|system)s? (?:\w+ )?(?:said|says|gave|gives|wrote|writes|left|leaves"
        r"|missed|misses|made|makes|mentions?|mentioned|used|uses|omits|omitted|covers|covered))",
        chinese=(
            rf"比(?:第?[一二两]|前一|后一)个?{_TEXT_ZH}"
            rf"|另(?:外)?一(?:个|份|条|篇)?(?:模型的?|{_TEXT_ZH})"
            rf"|其他(?:模型|{_TEXT_ZH})"
            rf"|两个{_TEXT_ZH}"
            rf"|{_TEXT_ZH} ?[ab12甲乙](?![a-z0-9])"
        ),
    ),
    Hints(
        "other , both , either , competing, alternative, rival, baseline, second, first, weaker, stronger, previous, "
        "side, prefer, chosen, picked, favo,  1,  2,  one,  two, "
        + ", ".join(
            f"{text} {letter}"
            for text in ("response", "answer", "model", "assistant", "candidate", "system", "submission")
            for letter in "ab"
        ),
        "另, 其他, 两个, 回, 答, 响应",
    ),
    "another response",
    "Describe what this submission alone must show",
)
_PICTURE = _UnseenKind(
    compile_late(
        r"\b(?:in|shown in|from|on|visible in|depicted in|based on) the (?:attached |provided |accompanying |given "
        rf"|above )?{_MEDIUM}(?=\s*(?:[.,;:?]|$|and\b|is\b|are\b|as\b|that\b))"
        rf"|\b(?:attached|accompanying|uploaded|enclosed|linked|embedded) (?:\w+ )?(?:{_MEDIUM}|{_FIGURE}|article"
        r"|report|paper|excerpt)s?\b"
        rf"|\b(?:{_MEDIUM}|{_FIGURE})s? (?:is |are )?attached\b(?! to)"
        rf"|\b(?:{_MEDIUM}|{_FIGURE}|graph|map|plot|article|excerpt|worksheet|handout)s? (?:that|which) (?:was|were"
        r"|is|are|has been|have been|we|you|the \w+) (?:handed out|attached|uploaded|provided|supplied|shared|shown"
        r"|sent|included|given)\b"
        rf"|\bthe (?:{_MEDIUM}|{_FIGURE}|graph|map|plot|passage|extract|excerpt)s? (?:above|below)(?=\s*(?:[.,;:]|$)"
        r"|(?: \w+ly)?\W*$| (?:shows?|is|are|and|to|with|by)\b)"
        r"|\b(?:guide|instructions|template|list|rules|document|notes|data|figures?|example|definition|format"
        r"|steps) (?:provided|given|shared|supplied|sent|listed|shown) (?:earlier|above|before|previously|below)\b"
        r"|\b(?:in|see|from|shown in) figure \d+\b(?![.,]?\d| ?[%°])",
        chinese=(
            r"上传的[^，。；]{0,8}(?:文件|表格?|图片?|资料|文档|附件)"
            r"|(?:根据|按照|依据|参照|结合)[上下左右]?[图表]"
            r"|[图表] ?\d+(?:[-.]\d+)?(?=中|里|所|的|上|显示|给出)"
            rf"|{_MEDIUM_ZH}(?:中|里|内|所示|上的?)"
            r"|如图所示"
            r"|(?<![地版意企力试])图[中里](?:的|所)"
            r"|(?<![地版])[上下左右]图(?=\W|$|中|里|所|的|显)"
            r"|[与和从见按据如照][上下左右该此]?[图表](?:中|里|所示|一致|相符)"
            r"|附件[中里](?!可)"
            r"|附录[中里]?的"
            r"|(?:根据|按照?|依据|参照|参考|见|如|符合)(?:所?附(?:的|图|表|件)|附件)"
        ),
    ),
    Hints(
        "earlier, before, previous, above, below, image, picture, photo, screenshot, painting, "
        "poster, cartoon, drawing, attached, accompanying, "
        " was ,  were , uploaded, enclosed, linked, embedded, figure, "
        " handed,  provided,  supplied,  shared,  shown,  sent,  included,  given",
        "图, 照片, 附, 表, 上传",
    ),
    "a picture or file",
    "Describe in words what it shows",
)
_OTHER_CRITERION = _UnseenKind(
    compile_late(
        r"\b(?:same as above|as above|see above|ditto|above[- ]mentioned|(?:mentioned|given|listed|described|stated"
        r"|noted|defined|specified|shown|pictured|drawn|depicted) above|the (?:above|previous|preceding|earlier"
        r"|former|other|next|following) (?:criteri(?:on|a)|rubrics?|rubric items?)|(?:criterion|criteria"
        r"|rubric item) (?:#|no\.? ?)?\d+|(?:from|in) the rubric|in addition to the (?:above|previous)"
        r"|(?:criteri(?:on|a)|rubric items?) (?:above|below))\b",
        chinese=(
            r"同上(?!述)"
            r"|如上(?:所[述示列]|文)?(?=\W|$)"
            r"|上文(?:所?[述提]|中|列)"
            r"|上述(?:标准|条目|要求|准则|各[条项])"
            r"|[前上]一?[条个项](?:标准|准则|评分|要求)"
            r"|第[0-9一二三四五六七八九十]+[条项个](?:标准|准则|评分项)"
            r"|(?<!合)[同见如][上前]?第[0-9一二三四五六七八九十]+[条项]"
            r"|其他(?:评分标准|准则|评分项)"
        ),
    ),
    Hints(
        "above, criteri, rubric, ditto, in addition to",
        "同上, 如上, 上, 前, 第, 其他",
    ),
    "other criteria",
    "Repeat the content: a judge reads one criterion at a time",
)


_SECONDS = (
    r"(?:\d+(?:\.\d+)? ?(?:ms|s)|(?:\d+(?:\.\d+)?|an?|one|two|three|five|ten|thirty) ?(?:milli)?"
    r"(?:seconds?|secs?|minutes?))\b"
)
_SPEED = _UnseenKind(
    compile_late(
        rf"^\W*(?:the )?(?:{_TEXT} |model |assistant |it )?(?:is |was |must be |should be |must "
        r"|should )?(?:responds?|repl(?:y|ies)|answers?|generated|produced|returned|delivered|given|sent|arrives?"
        r"|comes back|finishes|completes)\b[^.;]{0,25}?\b(?:within|in under|in less than|in at most|under"
        rf"|in) {_SECONDS}"
        r"|^\W*(?:the )?(?:response|generation|inference|reply) (?:time|latency|speed)\b"
        r"|\btime to first token\b"
        r"|^\W*(?:has |keeps |with )?(?:a |the )?(?:low |minimal )?latency\b"
        rf"|^\W*(?:the )?(?:{_TEXT} |model |assistant |it )?(?:is |was )?(?:responds?|repl(?:y|ies)|answers?"
        r"|generated|produced|delivered) (?:quickly|promptly|immediately|instantly|fast|without (?:any )?delay"
        r"|in real time)\b",
        chinese=(
            r"(?:\d+|[一两三五十几]) ?(?:秒钟?|毫秒|分钟)(?:之内|以内|内)(?:就|要|应|必须)?(?:完成)?(?:回复|回答"
            r"|响应|给出|生成|作答|返回|输出)"
            r"|^\W*(?:回答|回复|模型)?的?(?:响应|生成|回复|回答)(?:时间|速度|耗时|用时|延迟)"
            r"|(?:立即|迅速|及时|快速|毫无延迟地)(?:回复|作答|响应|给出回答)"
        ),
    ),
    Hints(
        "sec, minute, ms, time, latency, speed, quick, prompt, immediate, instant, fast, delay, real, "
        + ", ".join(f"{digit}{space}s" for digit in range(10) for space in ("", " ")),
        "秒, 分钟, 响应, 速度, 时间, 耗时, 用时, 延迟, 立即, 迅速, 及时, 快速",
    ),
    "the time that the response took",
    "Describe what the submission itself must show",
)


_SHOWN = compile_late(rf"\b(?:{_MEDIUM}|{_FIGURE})s?\b|图|照片|附件")


def _find_unseen(rubric: RawRubric) -> Iterator[Hit]:
    asked = rubric.query.lower()
    kinds: tuple[_UnseenKind, ...] = (_OTHER_RESPONSE, _PICTURE, _OTHER_CRITERION, _SPEED)
    kinds = kinds if rubric.reference else (_REFERENCE, *kinds)
    for position, criterion in rubric.judged:
        for kind in kinds:
            # After the entries of a list, "above" refers to the criterion itself.
            own = criterion.wording.own
            found = _find_words(kind, own.split("\n")[0] if kind is _OTHER_CRITERION else own)
            # The judge can see what the query mentions.
            if found and found not in asked and not (kind is _PICTURE and _SHOWN.search(asked)):
                yield Hit(position, f"{found!r} refers to {kind.what}, which the judge does not see", kind.advice)
                break
        else:
            words = find_outside_reference(criterion.wording, asked)
            if words:
                yield Hit(
                    position, f"{words!r} refers to something outside, which the judge does not see", _PICTURE.advice
                )


def find_unseen_text(criterion: str, query: str) -> str:
    """Return how a criterion mentions a reference, other responses or response time; empty if the query does too."""
    own, asked = Phrasing(criterion).own, query.lower()
    found = (_find_words(kind, own) for kind in (_REFERENCE, _OTHER_RESPONSE, _SPEED) if not _find_words(kind, asked))
    return next((words for words in found if words and words not in asked), "")


def has_criterion_reference(wording: Phrasing) -> bool:
    """Return whether a criterion mentions other criteria."""
    return bool(_find_words(_OTHER_CRITERION, wording.own))


def _find_words(kind: _UnseenKind, text: str) -> str:
    found = kind.pattern.search(text) if kind.hints.occur_in(text) else None
    return found.group().strip() if found else ""


UNSEEN_REFERENCE = Rule(
    "unseen-reference", "warning", "a criterion refers to something that the judge is not shown", _find_unseen
)
