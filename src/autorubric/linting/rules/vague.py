"""Subjective words, and demands without a measure: how many, what is relevant, what a reader feels."""

import re

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Phrasing
from autorubric.linting.finding import RawCriterion, Rule, apply_to_judged
from autorubric.linting.rules.emptiness import find_emptiness

# "Adequate sleep" is what an answer is about, "adequate detail" how it is: adjectives count only before these.
_OF_ANSWERS = match_any(
    """answers?, responses?, repl(?:y|ies), explanations?, descriptions?, discussions?, analys[ei]s
    summar(?:y|ies), reasoning, arguments?, details?, depth, language, tone, style, structure
    format(?:ting)?, layout, length, level, manner, way, fashion, quality, clarity, coverage
    examples?, evidence, justifications?, terminology, wording, vocabulary, grammar, flow, transitions?
    presentation, organi[sz]ation, content, uncertainty, hedging, disclaimers?
    recommendations?, suggestions?, advice, guidance, insights?, amount, number, sources?, citations?
    points?, understanding, knowledge, grasp, treatment, conclusions?, introductions?"""
)
_ADJECTIVES = match_any(
    r"""good(?! idea), nice, great, decent, appropriate, adequate, sufficient, reasonable, suitable, proper
    satisfactory, acceptable, excellent, useful, helpful, interesting, engaging, compelling, meaningful
    insightful, balanced, fair, ample, rich, strong(?! (?:[a-z]+ )?(?:evidence|recommendations?))
    high[- ]quality(?! evidence), well[- ]written, smooth, natural(?! knowledge), pleasant, fitting, creative
    enough(?= (?:detail|depth|examples?|explanation)\b)"""
)
_JUDGED = match_any(
    """good, nice, great, decent, appropriate, adequate, sufficient, reasonable, suitable, satisfactory, acceptable
    excellent, interesting, engaging, compelling, insightful, helpful, useful, clear, natural, smooth, readable
    professional, creative, comprehensive, detailed, thorough, concise, brief, relevant, coherent, informative
    clean, elegant, polished, strong, balanced, \\w+ enough
    (?:of )?(?:good|high)[- ]quality, well[- ]\\w+"""
)
# "Explains it adequately": how the answer does something; "store it properly" is what it says.
_ADVERBS = match_any(
    """adequately, appropriately, sufficiently, reasonably, properly, suitably, effectively, satisfactorily
    nicely, well, meaningfully, skil?lfully"""
)
_ACTS = match_any(
    """addresses, addressing, answers, answering, explains, explaining, describes, describing, covers, covering
    discusses, discussing, handles, presents, presenting, conveys, communicates, communicating
    summari[sz]es, uses, structures, organi[sz]es, responds, supports, justifies, demonstrates, documents
    elaborates, develops, expresses, captures, reflects, integrates, balances, tailors, adapts, acknowledges"""
)
_LAST_ADVERBS = match_any("clearly, thoroughly, concisely, simply, logically, convincingly, persuasively, elegantly")
_PHRASES = match_any(
    r"""well[- ](?:written|structured|organi[sz]ed|crafted|formatted|presented|articulated|reasoned)
    good enough, as much as possible, to some extent, to a certain degree, more or less, and so on
    and so forth, and the like, where (?:appropriate|applicable|possible), as (?:appropriate|applicable)
    (?:strong|solid|good|deep|firm|excellent|sound) (?:command|grasp|understanding|mastery|knowledge) of
    (?:most )?(?:important|relevant|key|main|major|necessary) aspects
    (?<!not )enough information(?=\W*$), reads? (?:smoothly|naturally|nicely), user[- ]friendly
    easy to (?:read|follow|understand), (?:reads?|writes?) well, flows? (?:well|naturally|smoothly)
    in an? [a-z]+ing way, as \w+ as possible"""
)
_HEDGES = match_any(
    "almost, nearly, fairly, somewhat, quite, rather, very, mostly, reasonably, sufficiently, adequately"
)
_HEDGED = match_any(
    """complete, correct, accurate, clear, detailed, thorough, comprehensive, good, well, brief, concise, specific
    relevant, engaging, readable, simple, short
    (?:all|every) (?:of the )?(?:steps?|points?|parts?|requirements?)"""
)
_SPEAKER = match_any("submission, essay, text, model, assistant, code")
_COUNTED = match_any(
    "examples?, sources?, details?, aspects?, points, arguments?, citations?, ideas, facts, references"
)
_STATE = match_any("is, are, be, sounds?, seems?, feels?, looks?, stays?, remains?")
_MANNER = compile_late(
    rf"\b(?<!without )(?:(?P<adjective>{_ADJECTIVES})(?:,? (?:(?:and"
    rf"|or) )?(?!than\b)[a-z\-]+)?? {_OF_ANSWERS}"
    rf"|(?P<before>{_ADVERBS}) {_ACTS}"
    rf"|{_ACTS}(?: [\w\-']+){{1,6}}? (?P<after>{_ADVERBS}|{_LAST_ADVERBS})(?=\s*(?:[.;,]|$)))\b"
)
# About the answer, not its subject: "the tone is appropriate".
_STATED = compile_late(
    rf"\b(?:(?:^(?:(?:the |its )?\w+(?: \w+)? )??|(?:{_OF_ANSWERS}|{_SPEAKER}) )(?:should |must )?"
    rf"{_STATE} (?:\w+ly |very |quite |fairly |rather |so )?"
    rf"(?P<judged>{_JUDGED})"
    r"(?=\s*(?:[.;,]|(?:and|enough|to|for|overall|throughout|in)\b|$))"
    rf"|(?P<many>some|various|(?<!too )many|numerous|several|a few) (?:\w+ )?{_COUNTED}"
    rf"|(?P<phrase>{_PHRASES})|(?P<hedge>{_HEDGES}) {_HEDGED})\b"
)
# After these comes what the answer says, not how it says it.
SAYING = compile_late(
    r"^\W*(?:the \w+ )?(?:\w+ly )?(?:not )?(?:stat|mention|not|suggest|recommend|advis|emphasi[sz]|highlight|point|"
    r"warn|instruct|encourag|indicat|inform|tell|stress|specif|conclud|claim|argu|ask|"
    r"explains? (?:that|how|why|when|what))"
)
_DEGREES_ZH = match_any("较为?, 比较, 相对, 十分, 非常, 很, 足够")
_ADJECTIVES_ZH = match_any(
    """好, 清晰, 详细, 完整, 准确, 全面, 深入, 充分, 合理, 生动, 流畅, 具体, 清楚, 专业, 通顺, 丰富, 严谨"""
)
_JUDGED_ZH = match_any(
    """生动, 优美, 流畅, 清晰, 清楚, 自然, 有趣, 丰富, 详实, 充实, 通顺, 恰当, 合理, 简洁明了, 专业, 良好, 严谨
    完整"""
)
_SUBJECT_ZH = match_any("语言, 文笔, 表达, 表述, 行文, 内容, 结构, 条理, 逻辑, 层次, 思路, 回答")
_CHINESE = compile_late(
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
# What follows the word may explain it: "an appropriate tone (no slang)".
_EXPLAINED = compile_late(
    r"[^.;。；]{0,160}?(?:[(:：（]|\bi\.e\b|\be\.g\b|\bsuch as\b|\bfor example\b|\bnamely\b|\bthat is\b"
    r"|\bby \w+ing\b|例如|比如|即)"
)


_ANSWERER = match_any(
    """response, answer, reply, submission, essay, text, model, assistant, output, report, code, author, writer
    student, summary, explanation, letter, email, story, poem, plan, it"""
)
_HEAD = rf"^\W*(?:(?:the |this )?{_ANSWERER} )?(?:should |must |needs to )?(?:also )?"
# What an answer does with its parts; after verbs of saying comes what it says.
_GIVES = (
    "(?:"
    + match_any(
        """give, provide, list, name, offer, present, include, contain, use, cite, mention, discuss, cover, address
        describe, explore, identify, identifie, add, bring up, touch on, touches on, draw on, refer to, make
        show, ha
        raise, consider, analy[sz]e, compare, outline, supplie, supply, quote, touch upon, support, back, propose
        suggest, recommend, look at, weigh, examine, highlight, incorporate, reference, demonstrate, illustrate
        explain, feature, pose, ask, respect, follow, meet, leave out"""
    )
    + r"e?s?(?: up| on| to| upon)?|has|have)"
)
_AMOUNT = match_any(
    r"""quite (?:a few(?: of)?|some|a lot of|a number of), plenty of
    a (?:\w+ )?(?:number|handful|couple|variety|range|lot) of
    lots of, several, various, numerous, many, a few, some, enough, a (?:wide|broad|good|fair|decent) \w+ of
    a wealth of, a sufficient number of, ample, a little, a bit of
    a good deal of"""
)
# Without a number, each judge draws its own line.
_QUANTITY = rf"{_HEAD}(?:\w+ly )?{_GIVES} (?P<amount>{_AMOUNT}) (?!(?:of the following|other|people|times)\b)[a-z]"
_BY_MEANS = r"\b(?:with|using|through) (?P<means>plenty of|lots of|many|several|numerous|some|a few|enough) [a-z]"
_WEIGHTY = match_any(
    """relevant, key, main, important, necessary, essential, major, significant, appropriate, applicable, required
    critical, crucial, pertinent, salient, central, notable, needed"""
)
_PARTS = match_any(
    """details?, points?, aspects?, information, considerations?, factors?, elements?, issues?, facts?, features?
    topics?, ideas?, parts?, areas?, concepts?, components?, evidence, context, terms?, themes?, arguments?
    examples?
    sources?, background, limitations?, caveats?, questions?, content, material, steps?"""
)
_RELEVANT = (
    rf"{_HEAD}(?:\w+ly )?{_GIVES} (?:up |on |to )?(?P<which>(?:all |any |the |every |most |some |other "
    rf"|of )*(?:\w+ly )?"
    rf"{_WEIGHTY}(?: and {_WEIGHTY})? {_PARTS})(?=\W*$| (?:of|in|from|about|on|for|to|related)\b)"
)
_MATTERS = (
    rf"{_HEAD}(?:\w+ ){{1,3}}?(?P<matters>(?:nothing|everything|anything|all|whatever|what) (?:that )?"
    r"(?:matters|counts|is (?:important|relevant|needed|necessary|essential)))\W*$"
)
_IF_NEEDED = (
    rf"{_HEAD}(?:\w+ly )?(?!advis|recommend|suggest|tell|instruct|encourag|stat|warn|urg)[^.;]{{3,80}}? "
    r"(?P<when>(?:where|when|whenever|if|as|wherever) (?:it is |they are )?"
    r"(?:needed|necessary|appropriate|applicable|relevant|required|suitable|useful|helpful|warranted))\W*$"
)
_MIND = match_any(
    """understanding, grasp, awareness, knowledge, command, mastery, appreciation, insight, critical thinking
    expertise
    familiarity, sensitivity, comprehension, creativity, originality, empathy, maturity, confidence, professionalism
    effort, care, depth, common sense, reasoning skills?, thinking, curiosity, passion, intuition"""
)
_UNDERSTOOD = (
    rf"{_HEAD}(?:\w+ly )?(?:shows?|demonstrates?|displays?|exhibits?|reflects?|reveals?|conveys?|evidences?|has"
    rf"|have"
    rf"|possess(?:es)?) "
    rf"(?:signs? of |evidence of |an? |the |some |real |clear |genuine |\w+ )*?(?P<mind>{_MIND})"
    rf"(?: (?:of|about|for|in|on|into|towards?|with|when)\b|\W*$)"
    rf"|{_HEAD}(?P<grasps>(?:\w+ly )?(?:gets the (?:idea|point|gist)|understands|grasps|appreciates|comprehends))\b"
)
_PEOPLE = match_any(
    "readers?, audiences?, listeners?, viewers?, users?, patients?, students?, learners?, reader's, people"
)
_EFFECT = (
    rf"{_HEAD}(?P<effect>(?:makes?|leaves?|keeps?|holds?|gets?) (?:the |a |an |any )?(?:\w+ )?{_PEOPLE}"
    rf"(?:'s)? (?!(?:to|with the|with an?) )\w+"
    rf"|(?:captivat|engag|grip|hook|delight|mov|inspir|entertain|impress|intrigu|enthral|charm|draw|excit|motivat)"
    rf"(?:e?s|ls) (?:in )?(?:the |a |an |its |their )?(?:\w+ )?{_PEOPLE})"
    rf"|{_HEAD}(?:would|will|could) (?P<usefulness>be (?:\w+ )?(?:helpful|useful|interesting|convincing|engaging"
    rf"|clear|easy|understandable|appealing|enjoyable|of (?:use|help|interest)|accessible))\b"
)
_ATTENTION = (
    r"\b(?:grab|catch|hold|keep|captur|command|sustain|attract)(?:e?s|) (?:the |an? |its )?(?:\w+'s )?"
    r"(?P<attention>attention|interest)\b"
)
_FOLLOWED = (
    r"\b(?:readers?|layperson|laypeople|beginners?|newcomers?|child|novices?|non-experts?|outsiders?)"
    r" (?:could|can|would|might|should) (?:\w+ )?(?P<followed>follow|understand|grasp|enjoy|appreciate)\b"
)
_ROUGHLY = match_any(
    """mostly, largely, generally, broadly, fairly, partly, partially, reasonably, adequately, sufficiently
    somewhat
    basically, loosely, more or less, by and large, for the most part, essentially, acceptably, satisfactorily
    appropriately, suitably, properly, sensibly, tastefully, nicely, decently"""
)
_DEGREE = (
    rf"{_HEAD}(?P<roughly>{_ROUGHLY}) (?!(?:as|its|this|is)\b|(?:stat|advis|suggest|recommend|emphasi|indicat)\w)"
    r"[a-z]+(?:s|es)\b"
    rf"|{_HEAD}(?P<close>(?:comes|is|stays) (?:\w+ )?close to) "
    rf"|{_HEAD}is (?P<caring>(?:\w+ly )?(?:sensitive|mindful|considerate|empathetic|thoughtful|attentive|tactful"
    r"|humane))\W*$"
)
_EXTENT = (
    rf"{_HEAD}[^.;]{{3,120}}?\b(?P<extent>to (?:some|a certain|a reasonable|a good|a fair|a large|a great)"
    r" (?:extent|degree))\b"
)
_RIGHT = (
    rf"{_HEAD}(?!stat|explain|say|tell|mention|not)[^.;]{{3,80}}?\b(?P<right>(?:the )?right "
    r"(?:amount|level|degree|balance|mix|blend|length|pace|dose) (?:of|between))\b"
)
_LENGTH = (
    r"\b(?P<length>(?:at|of|in|with|to) an? (?:reasonable|appropriate|suitable|good|acceptable"
    r"|adequate|decent|sensible|fair|proper|right|moderate) \w+)"
)
_ENDING = compile_late(
    r"\b(?P<sounds>(?:sounds|feels|seems|looks|reads like|comes across as) "
    r"(?:\w+ )?(?!like\b|as\b|to\b|in\b|at\b|up\b|into\b)[a-z]+)\W*$"
    r"|\b(?P<manner>in an? (?:\w+ (?:and )?){1,3}(?:manner|fashion))\W*$"
    r"|\b(?P<simply>(?:in|with) [a-z]+ enough [a-z]+)\W*$"
    r"|\b(?P<enough>(?:suitably|appropriately|reasonably|adequately|sufficiently|acceptably|pleasantly|fittingly"
    r"|satisfyingly) [a-z]+)\W*$"
)
"""What may end a criterion; only its last words are searched."""
_TAIL = 60
_CHOSEN = match_any(
    """sensible, reasonable, suitable, appropriate, adequate, sufficient, acceptable, decent, proper, good, nice
    interesting, compelling, useful, helpful, meaningful, fitting, satisfactory, plausible, worthwhile, fair, sound
    realistic, healthy, high-quality, valuable, clever, creative, memorable, catchy, convincing, persuasive
    elegant"""
)
_CHOICE = (
    rf"{_HEAD}(?:gives?|provides?|offers?|chooses?|selects?|picks?|uses?|proposes?|suggests?|recommends?|finds?"
    rf"|reaches|draws|makes?|has|includes?|contains?|presents?|opens with|ends with|begins with|closes with)"
    rf" (?:an? )(?P<choice>{_CHOSEN})(?:,? (?:and |but )?[a-z\-]+){{0,2}} [a-z]+(?=\W*$| (?:of|for|to|in|on"
    rf"|from|with"
    rf"|at)\b)"
)
# Without one of its hints a pattern has no match; patterns without hints match only at the start.
_OPEN = tuple(
    (hints, compile_late(pattern))
    for hints, pattern in (
        ((), _QUANTITY),
        (("with ", "using ", "through "), _BY_MEANS),
        ((), _RELEVANT),
        ((), _MATTERS),
        (("where", "when", " if ", " as "), _IF_NEEDED),
        ((), _UNDERSTOOD),
        ((), _EFFECT),
        (("attention", "interest"), _ATTENTION),
        (("follow", "understand", "grasp", "enjoy", "appreciate"), _FOLLOWED),
        ((), _DEGREE),
        (("extent", "degree"), _EXTENT),
        (("right ",), _RIGHT),
        ((" a ", " an "), _LENGTH),
        ((), _CHOICE),
    )
)
_ACTS_ZH = match_any(
    """给出, 提供, 列出, 列举, 举, 提到, 提及, 使用, 运用, 引用, 包含, 包括, 涉及, 涵盖, 覆盖, 介绍, 讨论
    分析, 推荐, 建议
    选择, 采用, 补充, 描述, 展示, 结合, 举出, 论述, 阐述, 解释, 回应, 体现, 展现, 表现, 显示, 具备, 具有, 反映
    表达"""
)
_HEAD_ZH = (
    r"^\W*(?:该|此)?(?:回答|回复|答案|文章|作者|内容|学生|作文|模型)?(?:应当?|应该|需要?|必须|要|能够?)?(?:中|里)?"
)
_MIND_ZH = match_any(
    """理解, 掌握, 认识, 思维, 能力, 素养, 意识, 洞察力?, 把握, 功底, 思考, 共情, 同理心, 创造力, 想象力, 责任感
    专业性, 感悟, 了解, 同情, 关怀, 尊重, 关心"""
)
_OPEN_ZH = compile_late(
    rf"{_HEAD_ZH}[^，。；]{{0,6}}{_ACTS_ZH}了?(?P<amount>若干|不少|一些(?!人|患者|国家|地区|医生|学者|研究)"
    rf"|许多|很多|大量|多种|多个|各种|一系列|足够的?|适量|一定数量)"
    rf"|{_HEAD_ZH}[^，。；]{{0,6}}{_ACTS_ZH}了?(?P<which>(?:与[^，。；]{{1,10}}(?:相关|有关)的|所有|全部|各个"
    rf"|题目|问题|的)*"
    r"(?:主要|关键|重要|相关|核心|必要|基本|有关)(?:的|性)?(?:内容|要点|信息|方面|因素|细节|问题|观点|概念"
    r"|知识点?|事项"
    r"|补充说明|背景|环节|论据|证据))(?=\W*$)"
    rf"|{_HEAD_ZH}[^，。；]{{0,6}}{_ACTS_ZH}了?(?:一个|一种|一些|一份|的)?(?P<choice>(?:合理|合适|适当|适宜"
    rf"|适度|恰当|良好|优质"
    r"|有趣|实用|有用|有价值|可行|有效)的[^，。；]{1,10})(?=\W*$)"
    r"|(?P<when>^\W*(?:必要时|如有(?:需要|必要)|视情况|酌情|适时|在(?:适当|合适|必要|恰当)(?:的时候|时|的地方"
    r"|之处))(?![^。]{0,12}就医))"
    rf"|{_HEAD_ZH}(?:体现|展现|表现|显示|具备|具有|反映|展示|有)(?:出"
    rf"|了)?[^，。；]{{0,16}}(?P<mind>{_MIND_ZH})(?=\W*$)"
    rf"|{_HEAD_ZH}[^，。；]{{0,8}}(?P<effect>(?:打动|吸引|感染|感动|触动|启发|抓住)了?(?:人|读者|观众|听众|用户"
    rf"|学生)"
    r"|(?:让|令|使)(?:人|读者|观众|听众|用户)[^，。；]{0,6}?(?:感到|觉得|产生|愿意|眼前|印象|信服|舒服|愉悦"
    r"|满意)|读来令人|令人(?:捧腹|感动|动容|信服|难忘|愉悦|满意|耳目一新|回味))"
    r"|^\W*(?:回答|文章|内容)?(?P<roughly>(?:基本|大致|大体|较好|很好|适当|合理|部分|相对|恰当|妥善|比较好"
    r"|一定程度)"
    r"(?:上|地)?(?:解释|说明|回答|遵循|遵守|符合|完成|介绍|描述|分析|处理|覆盖|涵盖|体现|概括|总结|运用|使用"
    r"|满足|还原|表达))"
    r"|(?P<right>详略得当|繁简得当|长短适中|篇幅适中|长度适中|难度适中|语速适中|轻重得当|恰到好处|分寸得当"
    r"|深浅适度|松紧得当|适度"
    r"|因人而异|符合(?:场合|语境|身份|情境|常理|实际))(?=\W*$)"
    r"|^\W*对?(?P<stressed>(?:重点|关键|主要|核心)(?:内容|部分|信息|要点))(?:进行了?|作了?|做了?|有所?"
    r"|得到)?(?:强调|说明|突出|介绍|概括)(?=\W*$)"
)
_EXPLAINS = compile_late(
    r"[^.]{0,200}?(?:[(:：（]|\bi\.e\b|\be\.g\b|\bsuch as\b|\bincluding\b|\blike\b|\bfor example\b"
    r"|\bby \w+ing\b|\d|例如|比如|即|包括|如)"
)
_LONGEST_OPEN = 60


def find_unmeasured(words: Phrasing, weight: float = 1) -> str:
    """Return the words of a demand without a measure; empty if there are none.

    Example:
        >>> [find_unmeasured(Phrasing(f"Gives several examples{end}")) for end in (".", ", e.g. a dog.")]
        ['several', '']
    """
    if words.size > _LONGEST_OPEN:
        return ""
    text = words.bare.strip()
    found = _OPEN_ZH.search(text) if words.chinese else _find_open_english(text)
    # "Contains several typos" is a fault without a number.
    if found is None or (weight < 0 and found.groupdict().get("amount")):
        return ""
    named = next((group for group in found.groupdict().values() if group), found.group())
    return "" if _EXPLAINS.match(words.own, words.own.find(named) + len(named)) else named.strip()


def _find_open_english(text: str) -> re.Match[str] | None:
    for hints, pattern in _OPEN:
        found = pattern.search(text) if not hints or any(map(text.__contains__, hints)) else None
        if found:
            return found
    return None if TOLD.match(text) else _ENDING.search(text, max(len(text) - _TAIL, 0))


# A text this long defines its terms.
_LONGEST = 100


# "Explains that ...": what follows is what the answer says.
_PURPOSE = compile_late(r"\bto \w+ (?:an? |the )?$")
TOLD = compile_late(r"^\W*(?:the \w+ )?(?:\w+ly )?\w+s (?:[\w' ]{0,30} )?(?:(?<!way )that|why|how) ")


def _find_vague(criterion: RawCriterion) -> str:
    words = criterion.wording
    if empty := find_emptiness(words):
        return empty.word if empty.lack == "praise" else ""
    if words.size > _LONGEST:
        return ""
    return (_find_subjective(words) or find_unmeasured(words, criterion.weight)).strip("，。")


def _find_subjective(words: Phrasing) -> str:
    found = _CHINESE.search(words.bare) if words.chinese else _find_subjective_english(words.bare.strip())
    # The brackets that `bare` leaves out may explain it.
    if found is None or _EXPLAINED.match(words.own, words.own.find(found.group()) + len(found.group())):
        return ""
    return next((text for text in found.groupdict().values() if text), None) or found.group()


def _find_subjective_english(text: str) -> re.Match[str] | None:
    match = TOLD.match(text)
    manner = _MANNER.search(text, 0, match.end()) if match else _MANNER.search(text)
    if manner and _PURPOSE.search(text, 0, manner.start()):
        manner = None
    return manner or (None if SAYING.match(text) else _STATED.search(text))


VAGUE_WORDS = Rule(
    "vague-words",
    "warning",
    "a word such as 'appropriate' or 'good' is subjective",
    apply_to_judged(
        _find_vague,
        "{!r} means something different to each judge",
        "Name what the submission must contain instead",
    ),
)
