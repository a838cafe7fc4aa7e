"""Demands without a measure: how many, how much, what is relevant, what a reader feels or an author understands."""

from __future__ import annotations

import re

from autorubric.core.wording import any_of, late_pattern
from autorubric.linting.wording import Wording

_SPEAKER = any_of(
    """response, answer, reply, submission, essay, text, model, assistant, output, report, code, author, writer
    student, summary, explanation, letter, email, story, poem, plan, it"""
)
_HEAD = rf"^\W*(?:(?:the |this )?{_SPEAKER} )?(?:should |must |needs to )?(?:also )?"
# What an answer does with its parts; behind verbs of saying stands what it says.
_ACTS = (
    "(?:"
    + any_of(
        """give, provide, list, name, offer, present, include, contain, use, cite, mention, discuss, cover, address
        describe, explore, identify, identifie, add, bring up, touch on, touches on, draw on, refer to, make
        show, ha
        raise, consider, analy[sz]e, compare, outline, supplie, supply, quote, touch upon, support, back, propose
        suggest, recommend, look at, weigh, examine, highlight, incorporate, reference, demonstrate, illustrate
        explain, feature, pose, ask, respect, follow, meet, leave out"""
    )
    + r"e?s?(?: up| on| to| upon)?|has|have)"
)
_AMOUNT = any_of(
    r"""quite (?:a few(?: of)?|some|a lot of|a number of), plenty of
    a (?:\w+ )?(?:number|handful|couple|variety|range|lot) of
    lots of, several, various, numerous, many, a few, some, enough, a (?:wide|broad|good|fair|decent) \w+ of
    a wealth of, a sufficient number of, ample, a little, a bit of
    a good deal of"""
)
# Each judge draws its own line; who counts on numbers says them.
_QUANTITY = rf"{_HEAD}(?:\w+ly )?{_ACTS} (?P<amount>{_AMOUNT}) (?!(?:of the following|other|people|times)\b)[a-z]"
_BY_MEANS = r"\b(?:with|using|through) (?P<means>plenty of|lots of|many|several|numerous|some|a few|enough) [a-z]"
_WEIGHTY = any_of(
    """relevant, key, main, important, necessary, essential, major, significant, appropriate, applicable, required
    critical, crucial, pertinent, salient, central, notable, needed"""
)
_PARTS = any_of(
    """details?, points?, aspects?, information, considerations?, factors?, elements?, issues?, facts?, features?
    topics?, ideas?, parts?, areas?, concepts?, components?, evidence, context, terms?, themes?, arguments?
    examples?
    sources?, background, limitations?, caveats?, questions?, content, material, steps?"""
)
_RELEVANT = (
    rf"{_HEAD}(?:\w+ly )?{_ACTS} (?:up |on |to )?(?P<which>(?:all |any |the |every |most |some |other "
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
_MIND = any_of(
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
_PEOPLE = any_of(
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
_ROUGHLY = any_of(
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
_ENDING = late_pattern(
    r"\b(?P<sounds>(?:sounds|feels|seems|looks|reads like|comes across as) "
    r"(?:\w+ )?(?!like\b|as\b|to\b|in\b|at\b|up\b|into\b)[a-z]+)\W*$"
    r"|\b(?P<manner>in an? (?:\w+ (?:and )?){1,3}(?:manner|fashion))\W*$"
    r"|\b(?P<simply>(?:in|with) [a-z]+ enough [a-z]+)\W*$"
    r"|\b(?P<enough>(?:suitably|appropriately|reasonably|adequately|sufficiently|acceptably|pleasantly|fittingly"
    r"|satisfyingly) [a-z]+)\W*$"
)
"""What may end a criterion; its last words are enough to look at."""
_TAIL = 60
_JUDGED = any_of(
    """sensible, reasonable, suitable, appropriate, adequate, sufficient, acceptable, decent, proper, good, nice
    interesting, compelling, useful, helpful, meaningful, fitting, satisfactory, plausible, worthwhile, fair, sound
    realistic, healthy, high-quality, valuable, clever, creative, memorable, catchy, convincing, persuasive
    elegant"""
)
_CHOICE = (
    rf"{_HEAD}(?:gives?|provides?|offers?|chooses?|selects?|picks?|uses?|proposes?|suggests?|recommends?|finds?"
    rf"|reaches|draws|makes?|has|includes?|contains?|presents?|opens with|ends with|begins with|closes with)"
    rf" (?:an? )(?P<choice>{_JUDGED})(?:,? (?:and |but )?[a-z\-]+){{0,2}} [a-z]+(?=\W*$| (?:of|for|to|in|on"
    rf"|from|with"
    rf"|at)\b)"
)
# Quick to look for: without one of its hints a pattern has no match. Those without hints match at the start only.
_ENGLISH = tuple(
    (hints, late_pattern(pattern))
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
_ACTS_ZH = any_of(
    """给出, 提供, 列出, 列举, 举, 提到, 提及, 使用, 运用, 引用, 包含, 包括, 涉及, 涵盖, 覆盖, 介绍, 讨论
    分析, 推荐, 建议
    选择, 采用, 补充, 描述, 展示, 结合, 举出, 论述, 阐述, 解释, 回应, 体现, 展现, 表现, 显示, 具备, 具有, 反映
    表达"""
)
_HEAD_ZH = (
    r"^\W*(?:该|此)?(?:回答|回复|答案|文章|作者|内容|学生|作文|模型)?(?:应当?|应该|需要?|必须|要|能够?)?(?:中|里)?"
)
_MIND_ZH = any_of(
    """理解, 掌握, 认识, 思维, 能力, 素养, 意识, 洞察力?, 把握, 功底, 思考, 共情, 同理心, 创造力, 想象力, 责任感
    专业性, 感悟, 了解, 同情, 关怀, 尊重, 关心"""
)
_CHINESE = late_pattern(
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
_EXPLAINS = late_pattern(
    r"[^.]{0,200}?(?:[(:：（]|\bi\.e\b|\be\.g\b|\bsuch as\b|\bincluding\b|\blike\b|\bfor example\b"
    r"|\bby \w+ing\b|\d|例如|比如|即|包括|如)"
)
_LONGEST = 60


def unmeasured(words: Wording, weight: float = 1) -> str:
    """The words of a demand that leave its measure open; empty where there are none.

    Example:
        >>> [unmeasured(Wording(text)) for text in ("Gives several examples.", "Gives several examples, e.g. a dog.")]
        ['several', '']
    """
    if words.size > _LONGEST:
        return ""
    text = words.bare.strip()
    found = _CHINESE.search(text) if words.chinese else _english(text)
    # "Contains several typos" is a fault as it stands.
    if found is None or (weight < 0 and found.groupdict().get("amount")):
        return ""
    named = next((one for one in found.groupdict().values() if one), found.group())
    return "" if _EXPLAINS.match(words.own, words.own.find(named) + len(named)) else named.strip()


def _english(text: str) -> re.Match[str] | None:
    for hints, pattern in _ENGLISH:
        found = pattern.search(text) if not hints or any(map(text.__contains__, hints)) else None
        if found:
            return found
    return _ENDING.search(text, max(len(text) - _TAIL, 0))
