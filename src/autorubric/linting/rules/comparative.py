"""Comparisons without a reference point, such as those with other submissions."""

import re

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import RawCriterion, Rule, apply_to_judged
from autorubric.linting.rules.vague import SAYING, TOLD

_WORK = match_any(
    """answers?, responses?, submissions?, essays?, entry, entries, models?, students?, writers?, solutions?
    explanations?, summar(?:y|ies), translations?, candidates?, attempts?, versions?, drafts?, papers?
    reports?, reviews?, completions?, outputs?, repl(?:y|ies), assistants?, systems?, competitors?, rivals?
    peers?, classmates?, scripts?, poems?, stor(?:y|ies), proposals?, designs?, programs?, letters?
    speech(?:es)?, presentations?, projects?, pieces?, pupils?, learners?, participants?, entrants?
    compositions?, alternatives?, chatbots?, llms?, samples?"""
)
_RIVAL = match_any(
    """others?\\b, another, the rest, rest of the, remaining, competing, competitors?, competition, rivals?
    peers?, classmates?, baselines?, reference, gold(?:en)?\\b, average, typical, most (?:of the )?(?:other )?
    previous, earlier, alternatives?, second, first, next, runner-up, gpt, chatgpt, claude, gemini, llama
    deepseek, qwen, mistral, (?:any|every) other, the one (?:by|from|written), those (?:of|by|from|written)
    what (?:the |most |other ), (?:any|every)(?:one|body)(?: else)?, last (?:week|time|year|month|term)'?s?
    the (?:neighbou?ring|next) \\w+'?s?, gpt would"""
)
_MORE = (
    r"(?:more|less|fewer|better|worse|further|farther|(?!other|rather|whether|either|after|under|over|never|answer"
    r"|number|paper|matter|letter|order|later|older|younger|former|latter|earlier|longer|together|ever|offer"
    r"|consider|computer|user|reader|writer|teacher|power|water|remember|per|her|higher|lower|another|weather|manner"
    r"|character|chapter|quarter|center|member)[a-z]{2,10}er|longer|higher|lower)"
)
_MOST = (
    r"(?:best|worst|most \w+|least \w+|(?:most|fewest|least)|(?!test|rest|request|interest|suggest|honest|guest"
    r"|latest|forest|west|past|contest|protest|digest|modest|harvest|invest|manifest|quest|nest|vest"
    r"|chest)[a-z]{3,10}est|top|leading|winning)"
)
_GROUP = (
    r"(?:group|class|batch|set|cohort|lot|bench|field|pile|pool|year|school|room|bunch|competition|panel|pack|two"
    r"|three|four|five)"
)
_BEATS = match_any(
    """outperforms?, outdo(?:es)?, outshines?, outclass(?:es)?, beats?, surpass(?:es)?, exceeds?, tops, trumps?
    eclipses?, wins? (?:over|against), edges? out, stands? out (?:from|among|against|above), is ahead of
    leaves? behind, ranks? (?:above|ahead|higher|first|top|among), improves? (?:up)?on, betters
    is (?:preferred|preferable) (?:to|over), loses? (?:to|against), falls? behind, lags? behind, trails
    measures? up to, keeps? up with, differs? from
    compares? (?:favou?rably|well|poorly|unfavou?rably) (?:with|to|against)"""
)
_WORKS = (
    r"(?:the )?(?:\w+ ){0,2}?(?:answers|responses|submissions|essays|entries|candidates|solutions|models|students"
    r"|papers|drafts|scripts)"
)
_FRAMES = compile_late(
    rf"\b{_MORE}\b[^.;]{{0,70}}? than (?:(?:what|that|those|all|any|of|the|an?|its|in|by|from|every"
    rf"|either) ){{0,3}}(?:(?:{_RIVAL}(?: \w+){{0,2}}|\w+ )?? ?(?:{_WORK}|{_RIVAL}))(?<!than answer)(?<!than "
    rf"response)(?<!than model)\b"
    rf"(?! (?:of care|organism|for|with|who|in (?:the )?(?:study|trial|population))\b)"
    rf"|\b(?:the |its )?{_MOST}\b[^.;]{{0,40}}? (?:(?:of|among|amongst|out of|from) (?:all |the |these |those |both "
    rf"|any |our )+(?:\w+ ){{0,2}}?(?:{_WORK}|{_GROUP})|in (?:the |our |this )(?:whole "
    rf"|entire )?{_GROUP})\b(?! (?:by|of|'s|that (?:the|a)))(?=\W*$|[,.;]| (?:submitted|handed|received|produced"
    rf"|written|from|given|provided|in|turned)\b)"
    rf"|^\W*(?:of|among|amongst|out of) (?:all|both|the|these|those) {_WORKS}[,.;]"
    rf"|\b(?:of|among) (?:all|both) {_WORKS}[,.;]"
    rf"|^\W*(?:\w+ ){{0,6}}?{_BEATS} (?:(?:the|all|any|its|most|an?|every|those|that|of"
    rf"|what) ){{0,3}}(?:\w+ )?(?:{_WORK}|{_RIVAL})"
    rf"|\b(?:compared (?:with|to)|in comparison (?:with|to)|relative to|versus|vs\.?|unlike|as opposed to|alongside"
    rf"|next to|against) (?:(?:the|all|any|its|most|an?|other|every) ){{1,3}}(?:{_RIVAL} )?{_WORK}\b"
    rf"|\b(?:as|so) \w+ as (?:(?:the|any|all|an?|that of|those of|its|every) ){{0,3}}(?:{_RIVAL})(?: {_WORK}|\w* )"
    rf"|^\W*(?:the |is the |it is the )?{_MOST} (?:\w+ )?(?:{_WORK}|one) (?:handed in|submitted|received|produced"
    rf"|turned in|of all|we|i|so far|in the|on the)\b|^\W*(?:is |the |it is )*(?:winner|loser|better|best|worse"
    rf"|worst|weaker|stronger|favou?rite) of (?:the|these|all|both)\b"
    rf"|\b(?:ahead of|behind|above|below|ahead|clear of) (?:the )?(?:rest|others?|field|pack|group|class|competition"
    rf"|average|peers)\b|\b(?:upper|lower|top|bottom) (?:half|third|quarter|quartile|decile|tier|end) of (?:the|all"
    rf"|this)\b"
    rf"|^\W*(?:which|whichever) (?:of the (?:two |\w+ )?)?{_WORK}\b|\b(?:top|best|bottom) (?:\d+ ?%|\d+ per ?cent"
    rf"|ten|five|three|quartile|decile|half|third|\d+) (?:of|among|in)\b"
    rf"|^\W*(?:is |it is |this is )?(?:the )?(?:better|worse|stronger|weaker|superior|preferred|winning|best|worst"
    rf"|second|first|other|longer|shorter) (?:of the (?:two|three|pair|\w+)\b|(?:{_WORK}) is (?:preferable|preferred"
    rf"|better|worse|superior|stronger))"
    rf"|\b(?:above|below) (?:the )?(?:class |group |cohort |field )?average\W*$|\b(?:in|for) the (?:class|group"
    rf"|cohort|batch)'s (?:best|top)\b"
    rf"|\b(?:other|remaining|competing|rival) (?:{_WORK})\b(?= (?:did|do|does|fail|miss|omit|lack|overlook|wrote"
    rf"|submitted|handed|gave|get|forget|leave|left|skip)\w*)"
)
_OTHER_ZH = (
    r"(?:其他|其它|其余|别的|另|同考场|同班|同组|同类|同学|同龄|考生|大多数|绝大多数|多数|大部分|一般(?=学生|考生|人"
    r"|回答|作文|水平|同学)|普通(?=学生|考生|人|回答|作文)|参考答案|标准答案"
    r"|基线|范文|样卷|候选|他人|别人|旁人|上一|前一|之前的|上次|以前|过去|往常|对手|竞争|全班|全校|班级|平均水平"
    r"|人类|专家写|GPT|gpt|回答[ab12甲乙一二AB]|答案[ab12甲乙AB]|模型)"
)
_FRAMES_ZH = compile_late(
    rf"(?:与|和|同|跟){_OTHER_ZH}[^，。；]{{0,8}}?(?:相比|比起来|比较而言)|(?:比(?!较|如)起?|(?<!比)较之?|相比于?"
    rf"|相较于?|胜过|优于|超过|超越|高于|强于|好于|多于|少于|劣于|不如|不及|逊于|领先于?|落后于?|赶超|压倒|高出|远超"
    rf"|媲美|堪比|不亚于|不逊于|比得上)"
    rf"[^，。；]{{0,4}}{_OTHER_ZH}[^，。；]{{0,14}}?(?:更|要|还|较|好|多|少|强|优|高|深|长|短|相比|比较|不同|出色"
    rf"|突出|新颖|(?=\W*$))"
    rf"|(?:在|于)?(?:所有|全部|全体|各|众|这些|几[篇份个]|[两三四五六七八九十]\w?[篇份个]|全班|同批|同组|本批|本组"
    rf"|全场|候选)[^，。；]{{0,6}}?(?:回答|答案|答卷|作文|作业|考生|学生|同学|译文|作品|卷子|提交|候选)(?:中|里|之中"
    rf"|当中)?[^，。；]{{0,8}}?最"
    rf"|较其[他它]\S{{0,12}}?更|(?:全班|全校|年级|全场|同组|同类|班级)[^，。；]{{0,6}}?(?:最|第一|前\d|前[一三五十]"
    rf"|之首|之最)|名列|排名(?:第一|靠前|领先)|位居|首屈一指|独占鳌头|脱颖而出|数一数二|更胜一筹|略胜一筹|高人一等"
    rf"|优于平均|高于平均(?:水平|分)"
    rf"|^\W*(?:哪|两)[个篇份](?:回答|答案|作文|方案)"
)
# A quick test: a comparing word together with a rival; words that are common elsewhere need a group of works.
_COMPARING = frozenset(
    """than compared comparison relative versus vs unlike whichever top best worst better worse stronger weaker
    outperforms outdoes ahead winner loser favourite favorite beats surpasses exceeds tops trumps eclipses wins
    edges ranks betters preferred preferable loses lags trails""".split()  # noqa: SIM905
)
_RIVALS = frozenset(
    """answer response submission essay entry model student writer solution explanation summary translation
    candidate attempt version draft paper report review completion output reply assistant system competitor
    rival script poem story proposal design program letter speech presentation project piece pupil learner
    participant entrant composition alternative chatbot llm sample another baseline reference gold average
    typical most previous earlier last gpt chatgpt claude gemini llama deepseek qwen mistral gpt-4 gpt-4's
    gpt-3 anyone everyone anybody everybody competition two three pair""".split()  # noqa: SIM905
)
_GROUPS = frozenset(
    """answers responses submissions essays entries models students writers solutions explanations summaries
    translations candidates attempts versions drafts papers reports reviews completions outputs replies
    assistants systems competitors rivals peers classmates scripts poems stories proposals designs programs
    letters speeches presentations projects pieces pupils learners participants entrants compositions
    alternatives chatbots llms samples others rest remaining competing group class batch cohort lot bench field
    pile pool year school room bunch panel pack table's""".split()  # noqa: SIM905
)
_OFTEN = frozenset(
    """most least fewest other second first among amongst which against alongside bottom above below behind upper
    lower stands leaves improves falls measures keeps differs compares half competing remaining rival""".split()  # noqa: SIM905
)


def find_framed_comparison(words: Phrasing) -> re.Match[str] | None:
    """Return the words of a criterion that compare the submission with others; None if there are none.

    Example:
        >>> find_framed_comparison(Phrasing("More persuasive than what the remaining candidates handed in."))[0]
        'more persuasive than what the remaining'
    """
    if words.chinese:
        return _FRAMES_ZH.search(words.bare)
    vocabulary = words.vocabulary
    grouped, comparing = not vocabulary.isdisjoint(_GROUPS), not vocabulary.isdisjoint(_COMPARING)
    if comparing and not grouped:
        grouped = not vocabulary.isdisjoint(_RIVALS)
    elif grouped and not comparing:
        comparing = "est " in words.bare or not vocabulary.isdisjoint(_OFTEN)
    elif not grouped:
        comparing = grouped = "which" in words.tokens[:1] or {"second", "response"} <= vocabulary
    return _FRAMES.search(words.bare) if grouped and comparing else None


_QUALITIES = match_any(
    """detailed, comprehensive, thorough, creative, original, engaging, helpful, useful, complete, concise
    informative, nuanced, insightful, in-depth, precise, readable, natural, persuasive, convincing, logical
    polished, coherent, elegant, vivid, well-written, sophisticated, structured, organi[sz]ed, interesting
    compelling"""
)
_ANSWERS = match_any(
    """explanations?, answers?, responses?, structure, organi[sz]ation, quality, arguments?, account, flow
    reasoning, analys[ei]s, descriptions?, wording, writing, style, clarity, coverage, depth, grammar, detail
    vocabulary, formatting, overview, summar(?:y|ies), discussion, introduction, conclusion"""
)
_BETTER = match_any("better, superior, stronger, richer, clearer, deeper, smoother, higher[- ]quality")
_MEASURES = match_any(
    """others?\\b, (?:the )?baseline, (?:the )?original, average, usual, typical, expected, most\\b, what an average
    the (?:typical|usual|average|other), an? (?:typical|basic|generic|average|ordinary|standard)"""
)
_SPEAKER = match_any("response, answer, submission, essay, text, model, assistant, output, report, it")
_PERFORMERS = match_any(
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
_COMPARED = compile_late(
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
    rf"|^\W*(?:(?:the |this )?{_SPEAKER} )?is (?:one of the best|among the best|the best)\b"
    rf"|\b(?:improves? (?:up)?on|is (?:superior to|better than)) (?:the )?(?:other |usual |previous |earlier "
    rf"|original |first )(?:{_ANSWERS}|drafts?|versions?|attempts?)\b"
)
_QUALITIES_ZH = match_any(
    """详细, 全面, 深入, 清晰, 生动, 完整, 有说服力, 丰富, 优秀, 优美, 流畅, 有创意, 有趣, 有深度, 出色, 详尽, 细致
    专业, 好"""
)
# "更" also means "moreover", and a purpose ("以更全面地") is not a comparison: the comparison has to end the clause.
_COMPARED_ZH = compile_late(
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
_NOT_ONLY_ZH = compile_late("不仅|不但|不只|帮助|有助|以便|从而|为了|使得|能否")
# A bound makes a comparison decidable: "more detailed than 3 sentences".
_BOUND = compile_late(r".{0,24}?\d")


_SAYING_ZH = compile_late(
    r"^\W*(?:回答|文章|答案)?(?:应|需|要)?(?:指出|说明|解释|提到|提及|强调|介绍|分析|认为|描述|比较|讨论|阐述|说出"
    r"|列出)"
)
_COMPARED_HINTS = Hints(
    "beats, ahead, wins, rank, as good, as strong, as detailed, as clear, as accurate, best, more, less, most , "
    "least, than , beyond, exceed, surpass, outperform, improve, superior, better, stronger, richer, clearer, "
    "deeper, smoother, higher",
    "高于, 更, 比, 最, 优于, 名列, 首屈, 胜过, 好于, 超",
)


def _find_unbounded(criterion: RawCriterion) -> str:
    words = criterion.wording
    found = _find_comparison(words)
    return "" if found is None or _BOUND.match(words.bare, found.end()) else found.group()


def _find_comparison(words: Phrasing) -> re.Match[str] | None:
    text = words.bare
    if words.chinese:
        found = None if _SAYING_ZH.match(text) else find_framed_comparison(words)
        if not found and not ("比" in text and _SAYING_ZH.match(text)):
            found = _COMPARED_ZH.search(text)
        return None if found is None or _NOT_ONLY_ZH.search(text, 0, found.start()) else found
    if TOLD.match(text):
        return None
    found = None if SAYING.match(text) else find_framed_comparison(words)
    return found or (_COMPARED.search(text) if _COMPARED_HINTS.occur_in(text) else None)


COMPARATIVE = Rule(
    "comparative",
    "warning",
    "a comparison such as 'more detailed' has no reference point",
    apply_to_judged(
        _find_unbounded,
        "{!r} is a comparison with something the judge does not see",
        "Say how much is enough: a number, or the required points",
    ),
)
