"""Subjective words, and comparisons without a reference point."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.core.wording import any_of, late_pattern
from autorubric.linting.finding import Hit, RawRubric, Rule
from autorubric.linting.rules.comparison_frames import compared
from autorubric.linting.rules.emptiness import emptiness
from autorubric.linting.rules.unmeasured import unmeasured
from autorubric.linting.wording import Hints, Wording

# "Adequate sleep" is what an answer is about, "adequate detail" how it is: the adjectives count before these.
_OF_ANSWERS = any_of(
    """answers?, responses?, repl(?:y|ies), explanations?, descriptions?, discussions?, analys[ei]s
    summar(?:y|ies), reasoning, arguments?, details?, depth, language, tone, style, structure
    format(?:ting)?, layout, length, level, manner, way, fashion, quality, clarity, coverage
    examples?, evidence, justifications?, terminology, wording, vocabulary, grammar, flow, transitions?
    presentation, organi[sz]ation, content, uncertainty, hedging, disclaimers?
    recommendations?, suggestions?, advice, guidance, insights?, amount, number, sources?, citations?
    points?, understanding, knowledge, grasp, treatment, conclusions?, introductions?"""
)
_ADJECTIVES = any_of(
    r"""good(?! idea), nice, great, decent, appropriate, adequate, sufficient, reasonable, suitable, proper
    satisfactory, acceptable, excellent, useful, helpful, interesting, engaging, compelling, meaningful
    insightful, balanced, fair, ample, rich, strong(?! (?:[a-z]+ )?(?:evidence|recommendations?))
    high[- ]quality(?! evidence), well[- ]written, smooth, natural, pleasant, fitting, creative
    enough(?= (?:detail|depth|examples?|explanation)\b)"""
)
_JUDGED = any_of(
    """good, nice, great, decent, appropriate, adequate, sufficient, reasonable, suitable, satisfactory, acceptable
    excellent, interesting, engaging, compelling, insightful, helpful, useful, clear, natural, smooth, readable
    professional, creative, comprehensive, detailed, thorough, concise, brief, relevant, coherent, informative
    clean, elegant, polished, strong, balanced, \\w+ enough
    (?:of )?(?:good|high)[- ]quality, well[- ]\\w+"""
)
# "Explains it adequately": how the answer does something; "store it properly" is what it says.
_ADVERBS = any_of(
    """adequately, appropriately, sufficiently, reasonably, properly, suitably, effectively, satisfactorily
    nicely, well, meaningfully, skil?lfully"""
)
_ACTS = any_of(
    """addresses, addressing, answers, answering, explains, explaining, describes, describing, covers, covering
    discusses, discussing, handles, presents, presenting, conveys, communicates, communicating
    summari[sz]es, uses, structures, organi[sz]es, responds, supports, justifies, demonstrates, documents
    elaborates, develops, expresses, captures, reflects, integrates, balances, tailors, adapts, acknowledges"""
)
_LAST_ADVERBS = any_of("clearly, thoroughly, concisely, simply, logically, convincingly, persuasively, elegantly")
_PHRASES = any_of(
    r"""well[- ](?:written|structured|organi[sz]ed|crafted|formatted|presented|articulated|reasoned)
    good enough, as much as possible, to some extent, to a certain degree, more or less, and so on
    and so forth, and the like, where (?:appropriate|applicable|possible), as (?:appropriate|applicable)
    (?:strong|solid|good|deep|firm|excellent|sound) (?:command|grasp|understanding|mastery|knowledge) of
    (?:most )?(?:important|relevant|key|main|major|necessary) aspects
    (?<!not )enough information(?=\W*$), reads? (?:smoothly|naturally|nicely), user[- ]friendly
    easy to (?:read|follow|understand), (?:reads?|writes?) well, flows? (?:well|naturally|smoothly)
    in an? [a-z]+ing way, as \w+ as possible"""
)
_HEDGES = any_of(
    "almost, nearly, fairly, somewhat, quite, rather, very, mostly, reasonably, sufficiently, adequately"
)
_HEDGED = any_of(
    """complete, correct, accurate, clear, detailed, thorough, comprehensive, good, well, brief, concise, specific
    relevant, engaging, readable, simple, short
    (?:all|every) (?:of the )?(?:steps?|points?|parts?|requirements?)"""
)
_SPEAKER = any_of("submission, essay, text, model, assistant, code")
_COUNTED = any_of("examples?, sources?, details?, aspects?, points, arguments?, citations?, ideas, facts, references")
_STATE = any_of("is, are, be, sounds?, seems?, feels?, looks?, stays?, remains?")
_MANNER = late_pattern(
    rf"\b(?<!without )(?:(?P<adjective>{_ADJECTIVES})(?:,? (?:(?:and"
    rf"|or) )?(?!than\b)[a-z\-]+)?? {_OF_ANSWERS}"
    rf"|(?P<before>{_ADVERBS}) {_ACTS}"
    rf"|{_ACTS}(?: [\w\-']+){{1,6}}? (?P<after>{_ADVERBS}|{_LAST_ADVERBS})(?=\s*(?:[.;,]|$)))\b"
)
# Of the answer, not of what it speaks about: "the tone is appropriate".
_STATED = late_pattern(
    rf"\b(?:(?:^(?:(?:the |its )?\w+(?: \w+)? )??|(?:{_OF_ANSWERS}|{_SPEAKER}) )(?:should |must )?"
    rf"{_STATE} (?:\w+ly |very |quite |fairly |rather |so )?"
    rf"(?P<judged>{_JUDGED})"
    r"(?=\s*(?:[.;,]|(?:and|enough|to|for|overall|throughout|in)\b|$))"
    rf"|(?P<many>some|various|(?<!too )many|numerous|several|a few) (?:\w+ )?{_COUNTED}"
    rf"|(?P<phrase>{_PHRASES})|(?P<hedge>{_HEDGES}) {_HEDGED})\b"
)
# Behind these stands what the answer says, not how it says it.
_SAYING = late_pattern(
    r"^\W*(?:the \w+ )?(?:\w+ly )?(?:not )?(?:stat|mention|not|suggest|recommend|advis|emphasi[sz]|highlight|point|"
    r"warn|instruct|encourag|indicat|inform|tell|stress|specif|conclud|claim|argu|ask|"
    r"explains? (?:that|how|why|when|what))"
)
_DEGREES_ZH = any_of("较为?, 比较, 相对, 十分, 非常, 很, 足够")
_ADJECTIVES_ZH = any_of(
    """好, 清晰, 详细, 完整, 准确, 全面, 深入, 充分, 合理, 生动, 流畅, 具体, 清楚, 专业, 通顺, 丰富, 严谨"""
)
_JUDGED_ZH = any_of(
    """生动, 优美, 流畅, 清晰, 清楚, 自然, 有趣, 丰富, 详实, 充实, 通顺, 恰当, 合理, 简洁明了, 专业, 良好, 严谨
    完整"""
)
_SUBJECT_ZH = any_of("语言, 文笔, 表达, 表述, 行文, 内容, 结构, 条理, 逻辑, 层次, 思路, 回答")
_CHINESE = late_pattern(
    r"高质量|(?<!证据)(?<!空气)(?<!产品)(?<!睡眠)质量(?:较|很)?[好高]|引人入胜|差不多|基本上|一定程度上?|尽可能"
    r"|尽量|适当地?(?:说明|解释|介绍|提供"
    r"|给出|举例|使用|运用)|适当的(?:语气|语言|例子|专业术语|术语|细节|格式|解释|说明|篇幅|长度)"
    r"|恰当(?:[的地，。]|$)"
    r"|合适的?(?:语气|方式|语言|格式|结构|长度|篇幅|例子|表达|措辞)|得体|通俗易懂|易于理解|简单易懂"
    r"|一定的?(?:深度|广度|高度|参考价值|说服力|逻辑性?|创新性|可读性|条理性?|文采)"
    rf"|良好的?(?:结构|语言|表达|逻辑|回答|质量|可读性)|{_DEGREES_ZH}{_ADJECTIVES_ZH}"
    r"|充分[地的]?(?:说明|解释|讨论|阐述|论证|展开|体现|分析|回答)"
    r"|美观大方|(?:排版|格式|版面|页面)美观|足够多?的?(?:细节|信息|深度|例子|说明|解释|篇幅)|合理[地的]?(?:解释"
    r"|安排|组织|结构|阐述|分析|说明|论证)"
    rf"|一些(?:相关的?|具体的?)?(?:例子|细节|信息|建议|内容|来源)"
    rf"|{_SUBJECT_ZH}(?:应当?|应该|需要?|必须|要)?(?:准确[、，])?{_JUDGED_ZH}"
)
# What stands behind the word may say what it means: "an appropriate tone (no slang)".
_EXPLAINED = late_pattern(
    r"[^.;。；]{0,160}?(?:[(:：（]|\bi\.e\b|\be\.g\b|\bsuch as\b|\bfor example\b|\bnamely\b|\bthat is\b"
    r"|\bby \w+ing\b|例如|比如|即)"
)


# A text this long defines its terms.
_LONGEST = 100
_SUBJECTIVE = "{!r} means something different to each judge"
_CONCRETE = "Name what the submission must contain instead"


# "Explains that ...": what follows is what the answer says.
_PURPOSE = late_pattern(r"\bto \w+ (?:an? |the )?$")
_TOLD = late_pattern(r"^\W*(?:the \w+ )?(?:\w+ly )?\w+s (?:[\w' ]{0,30} )?that ")


def _vague(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        words = criterion.wording
        empty = emptiness(words)
        if empty is not None:
            if empty.lack == "praise":
                yield Hit(position, _SUBJECTIVE.format(empty.word), _CONCRETE)
            continue
        if words.size > _LONGEST:
            continue
        named = _subjective(words) or unmeasured(words, criterion.weight)
        if named:
            yield Hit(position, _SUBJECTIVE.format(named.strip("，。")), _CONCRETE)


def _subjective(words: Wording) -> str:
    found = _CHINESE.search(words.bare) if words.chinese else _english(words.bare.strip())
    # What it means may stand in the brackets that `bare` leaves out.
    if found is None or _EXPLAINED.match(words.own, words.own.find(found.group()) + len(found.group())):
        return ""
    return next((text for text in found.groupdict().values() if text), None) or found.group()


def _english(text: str) -> re.Match[str] | None:
    told = _TOLD.match(text)
    manner = _MANNER.search(text, 0, told.end()) if told else _MANNER.search(text)
    if manner and _PURPOSE.search(text, 0, manner.start()):
        manner = None
    return manner or (None if _SAYING.match(text) else _STATED.search(text))


VAGUE_WORDS = Rule(
    "vague-words",
    "warning",
    "a word such as 'appropriate' or 'good' is subjective",
    _vague,
)


_QUALITIES = any_of(
    """detailed, comprehensive, thorough, creative, original, engaging, helpful, useful, complete, concise
    informative, nuanced, insightful, in-depth, precise, readable, natural, persuasive, convincing, logical
    polished, coherent, elegant, vivid, well-written, sophisticated, structured, organi[sz]ed, interesting
    compelling"""
)
_ANSWERS = any_of(
    """explanations?, answers?, responses?, structure, organi[sz]ation, quality, arguments?, account, flow
    reasoning, analys[ei]s, descriptions?, wording, writing, style, clarity, coverage, depth, grammar, detail
    vocabulary, formatting, overview, summar(?:y|ies), discussion, introduction, conclusion"""
)
_BETTER = any_of("better, superior, stronger, richer, clearer, deeper, smoother, higher[- ]quality")
_MEASURES = any_of(
    """others?\\b, (?:the )?baseline, (?:the )?original, average, usual, typical, expected, most\\b, what an average
    the (?:typical|usual|average|other), an? (?:typical|basic|generic|average|ordinary|standard)"""
)
_SPEAKER = any_of("response, answer, submission, essay, text, model, assistant, output, report, it")
_PERFORMERS = any_of(
    """answers?, responses?, submissions?, essays?, entry, entries, models?, students?, writers?, humans?, experts?
    teachers?, solutions?, explanations?, textbooks?, articles?, summar(?:y|ies), translations?, programmers?
    authors?, assistants?, candidates?, attempts?, versions?, reviews?, drafts?"""
)
# What the answer itself is or gives; "asks for more detailed information" is about something else.
_OWN = (
    rf"^\W*(?:(?:the |this )?{_SPEAKER} )?(?:should |must )?(?:(?:is|be)|(?:gives?|provides?|offers?|has|have"
    rf"|shows?|"
    r"presents?|contains?|includes?|uses?|writes?|organi[sz]es? [\w ]{1,30} into)) (?:a |an |the )?"
)
_COMPARED = late_pattern(
    rf"{_OWN}(?:(?:more|less)(?: and more)? (?:\w+ly )?{_QUALITIES}(?: {_ANSWERS}\b|(?= than\b|\W*$))"
    rf"|(?:most|least) {_QUALITIES}(?: of\b|(?=\W*$))|{_BETTER} {_ANSWERS}\b)"
    rf"|\bthe (?:best|most \w+) possible (?:answer|response|explanation|solution)\b"
    rf"|(?<!rather )(?<!other )\bthan (?:what )?(?:an?|most|the (?:average|typical|usual|ordinary)|any|other"
    rf"|many) (?:\w+ ){{0,2}}{_PERFORMERS}\b"
    rf"|\bthan (?:usual|expected|average|normal|typical|ordinary|most)(?=\W*$)"
    rf"|\b(?:better|worse|more|less|longer|shorter|clearer|deeper|further"
    rf"|detail) (?:\w+ )?than (?:the )?(?:{_MEASURES}|gpt|claude|gemini|llama|chatgpt|a human\b|other )"
    r"|\b(?:exceeds?|surpass(?:es)?) (?:the )?(?:expectations?|average|others?)\b"
    r"|\bgoes? beyond (?:what (?:is|was) |the )?(?:expected\b|asked\b|expectations?|basics?|average|obvious)\b"
    r"|\branks? (?:\w+ )?(?:among|amongst|in|first|highest|above)\b|\bas (?:good|strong|detailed|clear"
    r"|accurate) as (?:the |an? )?(?:baseline|other|average|typical|human|expert|previous|original|best)\b"
    r"|\bis (?:one of the best|among the best|the best)\b"
    r"|\b(?:beats|is ahead of|wins (?:over|against)) (?:the |an? |all |any )?(?:\w+ )?(?:models?|baselines?"
    r"|responses?|answers?|others?|candidates?|humans?)\b"
    r"|\boutperforms? (?:the )?(?:baseline|others?|average|usual|typical)\b"
    rf"|\b(?:improves? (?:up)?on|is (?:superior to|better than)) (?:the )?(?:other |usual |previous |earlier "
    rf"|original |first )(?:{_ANSWERS}|drafts?|versions?|attempts?)\b"
)
_QUALITIES_ZH = any_of(
    """详细, 全面, 深入, 清晰, 生动, 完整, 有说服力, 丰富, 优秀, 优美, 流畅, 有创意, 有趣, 有深度, 出色, 详尽, 细致
    专业, 好"""
)
# "更" also means "moreover", and a purpose ("以更全面地") is not a comparison: the comparison has to end the clause.
_COMPARED_ZH = late_pattern(
    rf"(?<![以便为使让能了于而])更(?:加|为)?{_QUALITIES_ZH}(?:的(?:分析|解释|说明|回答|描述|结构|论述|论证"
    rf"|内容))?(?=\W|$)"
    rf"|(?:优于|胜过|好于|超越|超出|超过)(?:其他|其它|一般|普通|预期|平均|大多数|多数|大部分|绝大多数|所有)(?:模型"
    rf"|回答|答案|水平|人|作品|$|的|预)?|(?:所有|各|全部)(?:个|份|篇)?(?:回答|答案|回复)(?:中|里|之中)最|名列前茅"
    rf"|首屈一指"
    rf"|比(?:模型|回答|答案|版本) ?[a-z甲乙丙]?(?:的回答|的答案|的输出)?[^，。；]{{0,6}}?更|^\W*(?:回答|质量|整体"
    rf"|的|水平)*(?:高于|优于|超过)(?:平均|一般)(?:水平)?\W*$|比(?:上一|前一|之前|以前|原来?|旧)(?:版|次|个|份"
    rf"|轮)?[^，。；]{{0,8}}?更|(?:优于|胜过|好于|超越|超过)(?:人类|专家|普通人|真人)|比(?:其他|一般|另一|普通"
    rf"|常规|常见|典型|通常|大多数|多数|平均(?![数值率]))[^，。；]{{0,8}}?(?:更|要|好|强|高|详细)"
    rf"|(?:优于|胜过|好于|高于|超越|超出|超过|强于)(?:了)?(?:其他|其它|一般|普通|常规|平均|大多数|多数"
    rf"|同类)[^，。；]{{0,4}}"
    rf"(?:回答|答案|水平|水准|作品|模型|文章|方案|实现|译文)"
)
_NOT_ONLY_ZH = late_pattern("不仅|不但|不只|帮助|有助|以便|从而|为了|使得|能否")
# A bound makes a comparison decidable: "more detailed than 3 sentences".
_BOUND = late_pattern(r".{0,24}?\d")


_SAYING_ZH = late_pattern(
    r"^\W*(?:回答|文章|答案)?(?:应|需|要)?(?:指出|说明|解释|提到|提及|强调|介绍|分析|认为|描述|比较|讨论|阐述|说出"
    r"|列出)"
)
_COMPARED_HINTS = Hints(
    "beats, ahead, wins, rank, as good, as strong, as detailed, as clear, as accurate, best, more, less, most , "
    "least, than , beyond, exceed, surpass, outperform, improve, superior, better, stronger, richer, clearer, "
    "deeper, smoother, higher",
    "高于, 更, 比, 最, 优于, 名列, 首屈, 胜过, 好于, 超",
)


def _comparative(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        words = criterion.wording
        found = _compared(words)
        if found is not None and not _BOUND.match(words.bare, found.end()):
            yield Hit(
                position,
                f"{found.group()!r} is a comparison with something the judge does not see",
                "Say how much is enough: a number, or the required points",
            )


def _compared(words: Wording) -> re.Match[str] | None:
    text = words.bare
    if words.chinese:
        found = None if _SAYING_ZH.match(text) else compared(words)
        if not found and not ("比" in text and _SAYING_ZH.match(text)):
            found = _COMPARED_ZH.search(text)
        return None if found is None or _NOT_ONLY_ZH.search(text, 0, found.start()) else found
    found = compared(words)
    if found and not _SAYING.match(text) and not _TOLD.match(text):
        return found
    return _COMPARED.search(text) if _COMPARED_HINTS.occur_in(text, words) else None


COMPARATIVE = Rule(
    "comparative", "warning", "a comparison such as 'more detailed' has no reference point", _comparative
)
