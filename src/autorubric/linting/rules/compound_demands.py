"""Criteria with several requirements."""

import re
from functools import lru_cache

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import Rule, apply_to_judged

# Stems of verbs for what answers do: `identif` stands for identifies and identify.
_VERBS = (
    "acknowledge, add, address, adhere, advise, analy[sz]e, answer, apply, argue, ask, assess, avoid",
    "calculate, caution, cite, clarify, compare, compute, conclude, confirm, consider, contain, contrast",
    "convey, correct, cover, create, define, derive, describe, demonstrate, direct, discuss, emphasi[sz]e",
    "draw, sketch, plot, sort, print, apologi[sz]e, greet",
    "encourage, end, enumerate, evaluate, exclude, explain, explore, express, follow, format, give, highlight",
    "identif, illustrate, implement, include, incorporate, indicate, inform, instruct, interpret, introduce",
    "justif, keep, limit, link, list, maintain, mention, name, note, offer, open, outline, point, present",
    "prioriti[sz]e, propose, prove, provide, quote, recogni[sz]e, recommend, refer, refrain, reference, relate",
    "remind, report, request, respect, return, seek, show, solve, specif, start, stay, state, stress",
    "structure, suggest, summari[sz]e, handle, compile, document, support, tell, translate, urge, use, verif",
    "warn, write, choose, collect, disprove, examine, inspect, multiply, observe, predict, reject, replace",
    "select, separate, simplif, spell, substitute, suppl",
)
_STEMS = [stem.strip() for line in _VERBS for stem in line.split(",")]
_PLURAL = [stem[:-1] + "i" if stem.endswith("ply") else stem for stem in _STEMS]
_THIRD = "(?:" + "|".join(_PLURAL) + ")(?:es|s|ies)"
_BASE = "(?:" + "|".join(stem + "y" if stem.endswith(("if", "suppl")) else stem for stem in _STEMS) + ")"
_ADVERB = r"(?:\w+ly |then |also |not |does not |do not )*"
_SPEAKER = match_any(
    """response, answer, submission, essay, text, model, assistant, output, report, code, author, writer, function
    poem, song, speech, paragraph, query, slide, post, table, dialogue, scene, message, note, review, outline
    abstract
    script, program, summary, letter, email, story, article, plan, proof, solution"""
)
_SUBJECT = rf"(?:(?:it|(?:the )?{_SPEAKER}) )?"
_JOINT = r"(?:,? (?:and|but|while)(?: also| then)?|;(?: and)?|,? as well as)"
_JOINTS = (",", ";", " and", " but", " while", " as well as")  # quick to look for
_SUBJECT_AGAIN = rf"{_JOINT} (?:the )?{_SPEAKER} (?:is|has|does|must|should)\b"
# Without "and", a word such as "points" may be a noun, so the next words must show that it is a verb.
_LISTED = rf", {_ADVERB}{_THIRD} (?:a|an|the|its|their|that|how|why|what|at|which|whether|any|all|each|\d+)\b"
_NEXT_THIRD = compile_late(
    rf"{_JOINT} {_SUBJECT}{_ADVERB}({_THIRD})\b|{_LISTED}|{_SUBJECT_AGAIN}"
    r"|, (?:and )?then \w{2,14}[a-rt-z]s (?:the|an?|its?|their|them|to|on|with|that|how|why)\b"
)
# Any other verb, before a clause about the subject begins: "converts the units and rounds the result".
_DETERMINED = r"(?:the|an?|its|their|each|every|all|any|it|them|\d+)"
_NEXT_ANY = compile_late(
    rf"{_JOINT} {_ADVERB}(?!as\b|this\b|its\b|was\b|is\b)(?:say|tell|show|know|make|keep|give|find|set)s (?:who|what"
    rf"|which|how|why|when|where|whether|that|its|the|their)\b|(?<!s){_JOINT} {_ADVERB}(?!as\b|this\b|its\b|was\b"
    rf"|is\b)([a-z]{{2,12}}[a-rt-z]s) (?:{_DETERMINED}|with|by)\b"
)
# After a modal or in a question verbs have no ending; an object after the word tells a verb from a noun.
_NEXT_ANY_BASE = compile_late(
    rf"{_JOINT} (?:then |also |to )?(?!the\b|an?\b|its\b|their\b|how\b|what\b|why\b|that\b|of\b|in\b|for\b|to\b"
    rf"|with\b|on\b|from\b|by\b|at\b|as\b|all\b)([a-z]{{2,14}}) (?:the|its|their|it|them|to (?:the|two|three|\d+))\b"
)
_FORM_HINTS = Hints(
    "while, as well, addition, besid, apart from, along with, together with,  also , plus, then, furthermore, "
    "moreover, both, not only,  - ",
    "–, —, •",
)
_ASKS = compile_late(r"^\W*(?:does|do|did) ((?:the|this|an?) [\w-]+) ")
_MODAL_START = compile_late(r"^\W*(?:(?:does|do|is) |(?:the \w+ |it )?(?:must|should|needs to|has to)\b)")
# A second clause with a subject of its own: "each step is justified, and the final answer is boxed".
_TWO_CLAUSES = compile_late(
    r"^\W*(?:the|its|each|every|all|both) (?:(?!that\b|which\b|who\b|how\b|why\b|if\b|when\b)[\w'-]+ ){1,5}?(?:is"
    r"|are|has|have|uses?|contains?|includes?|opens?|ends?|\w+s) [^.;:]{2,80}?"
    r"(?:[,;] (?:and |but |while )?|[,;]? and )((?:the|its|each|every|all|their|no) (?:[\w'-]+ ){1,4}?(?:is|are|has"
    r"|have|states?|contains?|includes?|names?|ends?|gives?|uses?|must|should|stays?|remains?|fits?|shows?|opens?"
    r"|begins?|rhymes?|runs?|costs?|covers?|takes?|keeps?)|it (?:(?!is\b|has\b)\w+s))\b"
)
# A second act in another form: "as well as describing", "while also naming", "plus tells".
_OTHER_FORM = compile_late(
    r",? while(?: also)? ((?:emphasi[sz]|highlight|not|explain|describ|acknowledg|express|clarif|mention|warn|advis"
    r"|caution|cit|list|nam|stat|identif|outlin|suggest|recommend|discuss|address|point|remind|stress|quot"
    r"|compar)y?ing) (?!it\b|them\b)\w+|"
    r"(?:,? (?:as well as|while(?: also)?|in addition to|bes[i]des|along with|together with|apart from|before"
    r"|and) also|,? (?:as well as|in addition to|bes[i]des|apart from))"
    r" ((?!be|having|being|us|during|follow)\w{3,}ing) (?:the|an?|its|their|his|her|how|why|what|that|which|whether"
    r"|any|all|each|every|at|two|three|\d+|it|them|for|with|\w+ (?:for|of|in|to))\b"
    r"|^\W*(?:in addition to|bes[i]des|as well as|apart from|not only) (\w+ing)\b"
    r"|,? (?:plus|then|additionally|furthermore|moreover),? (?:it )?(?:also )?(\w+s (?:the|an?|its|their|how|why"
    r"|when|what|that|whether))\b"
    r"|^\W*(?:(?!that |how |why )\w+ ){0,3}?(?:both|not only) \w+s\b.{3,80}?\b((?:and|but)(?: also)? \w+s) (?:the"
    r"|an?|its|their|how|why|what|that|whether|it)\b"
    r"| [-–—•] \w+s [^-–—•]{2,60} ([-–—•] \w+s) "
)
_CLAUSE = compile_late(
    r"\b(?:that|how|why|when|where|which|who|whose|whether|what|if|because|as|since|while|after|before|until)\b"
    r"|[\"“:]"
)
# After "it is", another "it is" is about the answer; after "states" it is about the subject. So with "must".
_NEXT_STATE = compile_late(rf"{_NEXT_THIRD.pattern}|{_JOINT} (?:it )?(?:is|has|does)\b")
_NEXT_BASE = compile_late(
    rf"{_JOINT} (?:must |should |to )?{_ADVERB}({_BASE})\b(?![-'’])|{_SUBJECT_AGAIN}"
    rf"|{_JOINT} (?:must|should|needs to) (?:not )?\w+"
)
# Three adjectives of the answer: "is accurate, concise, and polite".
_ADJECTIVES = compile_late(
    rf"^\W*(?:the )?(?:(?:{_SPEAKER}|tone|language|style|it)(?:'s (?:tone|language|style))? )?"
    r"(?:is|are|should be|must be|be|remains?|stays?) (?:\w+ly )?[\w-]+, (?:\w+ly )?[\w-]+,? and "
    r"((?:\w+ly )?[\w-]+)\W*$"
)
# What comes first may be any verb; what comes second has to be one that answers do.
_FIRST_THIRD = compile_late(
    rf"^\W*{_SUBJECT}(?:also )?{_ADVERB}(?!as\b|this\b|its\b)(\w{{1,12}}s)\b(?! (?:is|are|has|have|and|of)\b)"
)
_AGAIN_THIRD = compile_late(
    rf"^\W*{_SUBJECT}(?:also |then |additionally,? |finally,? )?{_ADVERB}(?:({_THIRD})\b"
    r"|(?!this\b|its\b|as\b|is\b|was\b|has\b)\w{2,14}[a-rt-z]s (?:the|an?|it|them) )"
)
_FIRST_BASE = compile_late(
    rf"^\W*(?:(?:does|do) (?:the|this|an?) [\w\-]+ {_ADVERB}\w+|(?:the|this) [\w\-]+ (?:must|should|needs to"
    rf"|has to) {_ADVERB}(?:be|have|{_BASE}|\w+)|(?:should|must"
    rf"|needs to|has to) {_ADVERB}(?!be\b)\w+|{_ADVERB}{_BASE})"
    r"\b(?! of\b)"
)
_NUMBERED = compile_late(r"(?:^|[\s,;:])(?:\(?[1-9]\)|\(?[a-e]\)|step [1-9]:|[①-⑨])\s*\S|（[1-9一二三四五]）")
_COUNT = compile_late(r"[\da-e①-⑨一二三四五]")
_CHOICE = compile_late(
    r"\b(?:any|one|either|(?:can|may|could) (?:be|include)|examples?|such as|e\.g|including|definitions)\b"
)
_BULLETS = compile_late(r"(?:^|\n)[^\S\n]*(?:[-*•]|\d+[.、])[^\S\n]+\S")
# Lists of examples, and lists of which some suffice, are one demand.
_EXAMPLES = compile_late(
    r"(?:,? (?:such as|including(?: but not limited to)?|for (?:example|instance)|e\.g\.?|like)|:|"
    r"(?:any|one|either|some|two|three|at least \w+) of)\b[^.;]*"
)
# A fast pre-check: a text without any of these cannot match.
_EXAMPLE_HINTS = Hints(
    "such as, including, for example, for instance, e.g,  like, :, any of, one of, either of, some of, two of, "
    "three of, at least ",
)
_EXAMPLES_ZH = compile_late(r"(?:例如|比如|譬如|包括但不限于|诸如|之一|任意|其中|至少)[^。；]*")
_VERB_ZH = match_any(
    """说明, 解释, 列出, 指出, 提供, 给出, 描述, 提及, 提到, 分析, 讨论, 建议, 强调, 总结
    比较(?!倔|[好多高大小少低强弱重轻复简常不]), 比照, 对比, 使用, 采用, 询问, 提醒, 阐述, 论述, 明确, 引用, 介绍
    推荐, 计算, 给予, 展示, 区分, 评估, 列举
    定义, 证明, 概括, 提出, 阐明, 讲述, 回顾, 概述, 识别, 推导, 验证, 呈现, 写出, 举出, 代入, 画出, 举例, 反驳, 标注
    注明, 回应, 说出, 指明, 归纳, 判断, 判定, 求出, 求解, 配平, 翻译, 改写, 排除, 检验, 绘制, 记录, 选出, 补充
    致歉, 道歉"""
)
# After a comma alone, the other verbs often only elaborate on the first.
_OFFER_ZH = match_any("建议, 提供, 给出, 列出, 列举, 提醒, 推荐, 询问, 提出, 介绍, 计算")
_ADVERB_ZH = match_any("逐一, 分别, 依次, 充分, 清晰, 准确, 明确, 具体, 详细, 正确, 简要, 进一步")
_MODAL_ZH = match_any("也, 应当?, 需要?, 必须, 要, 能够?")
_JOINT_ZH = match_any("并且?, 同时(?![使服]用), 而且, 以及, 还, 此外, 另外, 且, 然后, 再, 最后")
_NEXT_ZH = compile_late(
    rf"[，；、,;]?{_JOINT_ZH}{_MODAL_ZH}?{_ADVERB_ZH}?地?{_VERB_ZH}|；{_MODAL_ZH}?{_ADVERB_ZH}?地?{_VERB_ZH}"
    rf"|，{_MODAL_ZH}?{_ADVERB_ZH}?地?{_OFFER_ZH}"
)
# Any verb behind "and", unless what comes before is told, advised or stressed: then it is part of that.
_AND_ZH = compile_late(r"[，、]并且?(?![非不发列排购存行联入用])\w{2,}")
_TOLD_ZH = compile_late(
    "强调|提醒|建议|指出|告知|叮嘱|推荐|认为|表示|提示|说明|明确|解释|要求|应|需|如果|若|确保|避免|可以|帮助|介绍"
)
_FIRST_ZH = compile_late(_VERB_ZH)
_MEANS_ZH = compile_late("如何|怎样|怎么|基于")
_BOTH_ZH = compile_late(
    rf"既(?:要|需|应|能|须)?{_VERB_ZH}.{{1,30}}[又也](?:要|需|应|能|须)?{_VERB_ZH}|既(?:要|需"
    rf"|应)[^，。；]{{2,20}}，[又也还](?:要|需|应)"
    rf"|(?<!首)先[^，。；、]{{1,20}}，(?:然后|再|接着|最后)[^，。；]{{2,}}|一方面.{{2,30}}另一方面|(?:除了?|不仅"
    rf"|不但|不光)[^，。；]{{2,20}}，(?:还|也|而且|并且)(?:要|应|需|能)?{_VERB_ZH}"
)
_QUALITY_ZH = match_any(
    "准确, 正确, 完整, 简洁, 简明, 礼貌, 客观, 友好, 清晰, 清楚, 具体, 专业, 严谨, 全面, 流畅, 生动, 中立"
)
_ADJECTIVES_ZH = compile_late(
    rf"^\W*(?:该|此)?(?:回答|回复|答案|内容|语言|语气|表达|表述|文章)(?:应当?|应该|需要?|必须|要|是)?"
    rf"{_QUALITY_ZH}[、，,]{_QUALITY_ZH}(?:、|，|,|且|而且|并且?|又|和|与){_QUALITY_ZH}"
)
# "First ..., then ...": an order of parts; after a verb such as "explains" it is about the subject.
_ORDER_ZH = compile_late(
    r"^\W*(?:回答|文章|内容)?(?:应当?|应该|需要?|必须)?首先.{2,60}?(?P<next>其次|然后|接着|最后)"
)
_NARROW_COMMA = compile_late(r"(?<=[\u4e00-\u9fff]),|,(?=[\u4e00-\u9fff])")
_ENDS_THIRD = compile_late(rf"(?:^|\s){_THIRD}$")
_ENDS_VERB_ZH = compile_late(rf"(?:{_VERB_ZH}|调研|收集|探讨|研究|整理|梳理|时)$")
_WITH_ADVERB = compile_late(r" (?:and|but) \w+ly ")
_STOP = compile_late(r"[.!?](?=\s|$)(?<!\be\.g[.!?])(?<!\bi\.e[.!?])(?<!\bvs[.!?])(?<!\bdr[.!?])")


@lru_cache(maxsize=65_536)
def find_second_demand(requirement: str) -> str:
    """Return the words with which a second demand begins; empty if there is only one demand.

    Example:
        >>> find_second_demand("States the dose and warns about liver damage.")
        'and warns'
        >>> find_second_demand("Names two causes, such as coal and wages.")
        ''
    """
    return _find_second_demand(Phrasing(requirement))


def _find_second_demand(words: Phrasing) -> str:
    listed = _find_second_in_list(words.own)
    if listed or words.chinese:
        return listed or _find_second_chinese(words.bare)
    text = words.bare.strip()
    asked = _ASKS.match(text)
    return _find_second_english(f"{asked[1]} must {text[asked.end() :]}" if asked else text)


def _find_second_in_list(text: str) -> str:
    """Return the second entry of a list in the text, unless any of the entries would do."""
    for marks in (_NUMBERED, _BULLETS):
        first = dict[str, int]()
        for found in marks.finditer(text):
            kind = _COUNT.sub("", found[0][:-1].lstrip("\n,;:"))  # with the spaces before it: lists may be nested
            before = text[: first.setdefault(kind, found.start()) + 1]
            if first[kind] < found.start() and not (_EXAMPLES_ZH.search(before) or _CHOICE.search(before)):
                return text[found.start() : found.end() + 20].strip().split("\n")[0]
    return ""


def _find_second_english(text: str) -> str:
    if _EXAMPLE_HINTS.occur_in(text):
        text = _EXAMPLES.sub(" ", text)
    listed = _ADJECTIVES.match(text)
    other = listed[1] if listed else _find_other_form(text)
    if other:
        return other
    first, following, again = _FIRST_THIRD.match(text), _NEXT_THIRD, _AGAIN_THIRD
    if first is None:
        first, following, again = _FIRST_BASE.match(text), _NEXT_BASE, _FIRST_BASE
    elif first.group(1) in ("is", "has", "does"):
        following = _NEXT_STATE
    if first is None:
        return ""
    stop = _STOP.search(text)
    end = stop.start() if stop else len(text)
    return _find_joined_verb(text, first.end(), end, following) or _find_second_sentence(text, end, again)


def _find_joined_verb(text: str, start: int, end: int, following: re.Pattern[str]) -> str:
    if not any(map(text.__contains__, _JOINTS)):
        return ""
    for found in following.finditer(text, start, end):
        if found.start() > start and not _are_one_demand(text[: found.start()], found[0]):
            return found.group().strip(" ,;")
    return _find_other_verb(text, start, end, following)


def _find_other_form(text: str) -> str:
    clauses = _TWO_CLAUSES.match(text)
    form = _OTHER_FORM.search(text) if _FORM_HINTS.occur_in(text) else None
    if clauses and not _CLAUSE.search(text, 0, clauses.start(1)):
        return clauses[1]
    return form[form.lastindex or 0] if form and not _CLAUSE.search(text, 0, form.start()) else ""


def _find_other_verb(text: str, start: int, end: int, following: re.Pattern[str]) -> str:
    plain = following is _NEXT_BASE
    found = (
        None
        if plain and not _MODAL_START.match(text)
        else (_NEXT_ANY_BASE if plain else _NEXT_ANY).search(text, start, end)
    )
    if found is None or _CLAUSE.search(text, 0, found.start()) or _are_one_demand(text[: found.start()], found[0]):
        return ""
    return found.group().strip(" ,;")


def _find_second_sentence(text: str, end: int, again: re.Pattern[str]) -> str:
    # A second sentence that opens as the first did is a second demand; one that explains is not.
    repeated = again.match(text[end:].lstrip(" .!?\n"))
    return repeated.group().strip() if repeated else ""


def _are_one_demand(before: str, joined: str) -> bool:
    """Return whether two verbs are one demand: "distills and presents the facts", "directly and fully answers it"."""
    return bool(_ENDS_THIRD.search(before)) or (before.endswith("ly") and bool(_WITH_ADVERB.match(joined)))


def _find_second_chinese(text: str) -> str:
    text = _NARROW_COMMA.sub("，", text)
    listed = _ADJECTIVES_ZH.match(text)
    if listed:
        return listed.group()[-2:]
    text = _EXAMPLES_ZH.sub("", text)
    first = _FIRST_ZH.search(text)
    found = _ORDER_ZH.search(text)
    if found:
        return found["next"]
    found = _BOTH_ZH.search(text) or (_NEXT_ZH.search(text, first.end()) if first else None)
    if found and first and _ENDS_VERB_ZH.search(text, 0, found.start()):
        found = _NEXT_ZH.search(text, found.end())
    if found and first and found.group()[0] == "，" and _MEANS_ZH.search(text, 0, found.start()):
        return ""
    found = found or _find_any_verb_zh(text)
    return found.group().strip("，；、,; ") if found else ""


def _find_any_verb_zh(text: str) -> re.Match[str] | None:
    found = _AND_ZH.search(text)
    return None if found is None or _TOLD_ZH.search(text, 0, found.start()) else found


SEVERAL_DEMANDS = Rule(
    "several-demands",
    "warning",
    "a criterion has several requirements, but gets one verdict",
    apply_to_judged(
        lambda criterion: _find_second_demand(criterion.wording),
        "it has several requirements but one verdict (the second at {!r})",
        "Split it into separate criteria, or say 'any of' if one suffices",
    ),
)
