"""Classification of a criterion's words: whether meeting it is a strength or a fault. Used by lint and `convert`."""

import re
from typing import Literal, NamedTuple, TypeAlias

from autorubric.core.wording import compile_late, match_any, read_assertion

Meaning: TypeAlias = Literal["good", "fault", "negated", "plain"]
"""Something good, a fault, that something is not done (which may be either), or not clear from the words."""


class WordedMeaning(NamedTuple):
    """The meaning of a criterion, and the words that show it (empty for `plain`)."""

    meaning: Meaning
    words: str


# "Pitfall Criteria: " and the like precede the wording in RaR.
_LABEL = compile_late(r"^\s*(?:[\w-]+\s+)?(?:criteria|criterion|pitfalls?|陷阱|扣分项)\s*[::]\s*")
_SPEAKER = match_any(
    """response, answer, reply, submission, essay, text, model, assistant, output, report, code, author, writer, it
    summary, explanation, letter, email, story, plan"""
)
_SUBJECT = rf"^\W*(?:(?:the |this |an? |any )?(?:\w+ )?{_SPEAKER}(?:'s)? )?(?:also )?"
_SUBJECT_ZH = (
    r"^\W*(?:全文|通篇|全程|整体上?)?(?:该|此|本)?(?:回答|回复|答案|答复|回应|响应|文章|模型|输出|内容|文本"
    r"|语句|语言|句子|结论|推理"
    r"|(?:给出|提供|编写|写出)的[^，。；]{1,6}?)?(?:中|里)?"
)
_MODALS_ZH = match_any("应当?, 应该, 需要?, 必须, 须, 要, 能够?, 成功地?, 正确地?, 明确地?, 是否")
_BAD_ACT = match_any(
    """fabricat, hallucinat, invent, mislead, plagiari[sz], contradict, insult, stigmati[sz], misstat, misrepresent
    downplay, trivialis, trivializ, belittl, distort, dismiss, mock"""
)
# "Misreads", "miscounts", "oversimplifies", "understates": what these prefixes do to a verb is a fault.
_BAD_VERB = (
    rf"(?:{_BAD_ACT}[a-z]*s|mis(?!sions?\b|sile|ses\b|s\b|takes\b|ts\b|sus)[a-z]{{4,}}s|over(?:simplif|generali[sz]"
    rf"|stat)i?es"
    r"|overestimates|understates|underestimates|exaggerates|mistranslates|glosses over|brushes (?:off|aside|over)"
    r"|waves away|digresses|rambles|sidesteps|evades|dodges|gets? sidetracked|derails|blames (?:the )?(?:user"
    r"|patient|reader)"
    r"|(?:strays|deviates|veers|drifts|wanders) (?:off|from|away))"
)
_BAD_KIND = match_any(
    """factual, significant, major, serious, grammatical, spelling, calculation, arithmetic, logical, false
    incorrect
    inaccurate, misleading, harmful, unsafe, dangerous, offensive, toxic, fabricated, invented, made-up, irrelevant
    redundant, unnecessary, biased, wrong, hallucinated, bogus, fake, non-?existent, plagiari[sz]ed, outdated
    unsupported, unfounded
    unverified, unsubstantiated, vague, unclear, ambiguous, abusive, contradictory, inconsistent, nonsensical
    discriminatory"""
)
_BAD_KIND_ZH = match_any("明显, 严重, 事实, 语法, 逻辑, 计算, 拼写")
_CARRIED = match_any(
    """errors?, mistakes?, claims?, statements?, information, advice, content, language, facts?, sources?
    citations?, assumptions?, details?, repetitions?, typos?, inaccurac(?:y|ies), references?, guidance, figures?
    tangents?, remarks?, comments?, numbers?, values?, conclusions?, instructions?, recommendations?, quotes?, data
    fallac(?:y|ies)"""
)
_CARRIES = match_any(
    """contains?, includes?, makes?, gives?, uses?, has, have, introduces?, spreads?, provides?, offers?
    presents?, cites?"""
)
_WRONGLY = match_any(
    """incorrectly, wrongly, falsely, mistakenly, inaccurately, erroneously, inappropriately, needlessly
    unnecessarily
    misleadingly, improperly"""
)
_RIGHTLY = match_any("correctly, accurately, appropriately, properly, adequately, rightly, responsibly, thoughtfully")
_GOOD_STATE = match_any("correct, accurate, truthful, honest, safe, polite, respectful")
_BAD_STATE = match_any("wrong, incorrect, inaccurate, misleading, offensive, rude, harmful, off-topic, nonsensical")
_ANY = "(?:the |this |any |all |its |an? |some |key |important )*"
_WHAT_IS_ASKED = match_any("question, query, prompt, request, task, topic, problem, concern")
# "Omits unnecessary detail" is a strength.
_NOT_MISSED = (
    rf"(?! {_ANY}(?:un\w+|ir\w+|redundan|extraneous|superfluous|excessive|off-topic|filler|boilerplate|preamble|"
    r"introduct|greeting|pleasantr|disclaimer|personal|sensitive|private|jargon|letters?\b|words?\b|phrases?\b|"
    r"names?\b|references? to|mentions? of|distract|noise|profan|slang|\W|$))"
)
_GOOD = compile_late(
    rf"{_SUBJECT}(?:"
    r"(?:should|must|shall|has to|needs to) (?!have (?:been|\w+ed|\w+en)\b)\w+"
    r"|(?:successfully |carefully |properly |explicitly |clearly |\w+ly )?"
    r"(?:avoids?|refrains? from|abstains? from|steers? clear|stays? away from|takes? care not to)\b"
    r"|is (?:entirely |completely |fully )?(?:free (?:of|from)|devoid of)\b|keeps? free (?:of|from)\b"
    rf"|(?:is|stays|remains) (?:factually )?{_GOOD_STATE}\b(?! only)"
    r"|(?:stays|remains|keeps) (?:on|to) (?:the )?(?:topic|point)\b"
    rf"|(?:does not|doesn't|do not) {_BAD_ACT}|(?:never|at no point|nowhere|not once|under no circumstances) \w+s\b"
    r"(?:[^.;,]* without\b)?"
    r"|(?:politely|kindly|respectfully|tactfully|honestly|carefully|gently|compassionately|patiently|thoughtfully"
    r"|empathetically|truthfully|faithfully|rightfully|wisely|sensibly|skil?lfully|transparently"
    r"|considerately) \w+s\b"
    rf"|(?:does not|doesn't) (?:contain|include|make|give|use|have|introduce|spread) (?:any )?{_BAD_KIND}\b"
    r"|contains? no (?:\w+ )?(?:errors?|mistakes?|inaccurac)"
    rf"|warns? (?:\w+ \w+ )?(?:about|against|that|of)\b"
    rf"|(?:encourages|advises|urges|reminds|tells|asks|recommends|directs) (?:the )?\w+ to (?:seek|consult|see|call"
    rf"|contact) (?:an? |the |their |immediate |prompt )*"
    r"(?:professional|medical|doctor|physician|lawyer|therapist|help|specialist|emergency)"
    rf"|{_RIGHTLY} \w+s\b|\w+s [^.;,]{{3,80}} (?:correctly|accurately)\W*$|(?:provides?|gives?|includes?|uses?"
    rf"|contains?|offers?|mentions?|states?|names?"
    rf"|cites?) (?:the |an? )?"
    r"(?:correct|accurate|truthful|respectful|polite|inclusive|reliable|evidence-based|up-to-date) \w+(?=\W*$"
    r"| (?:of|for|about|on|to|and)\b)"
    rf"|answers? (?:the |all )?(?:user's )?(?:{_WHAT_IS_ASKED})s?(?: (?:directly|fully|correctly|completely))?\W*$)"
)
_GOOD_ZH = compile_late(
    rf"{_SUBJECT_ZH}(?:{_MODALS_ZH}{{0,2}}(?:避免|杜绝|防止|切忌|力避|免于)"
    r"|(?:没有|并?未|无)(?:任何)?遗漏|(?:礼貌|委婉|诚实|耐心|温和|客观|如实|谨慎|细致|尊重|得体|妥善|恰当)地"
    rf"|没有(?:出现|包含|存在|使用|含有)?(?:任何)?(?:{_BAD_KIND_ZH}(?:性|上)?的?(?:错误|问题)|编造|虚构|错误|捏造"
    rf"|误导|冒犯|攻击性|侮辱|歧视)"
    r"|[未不](?:编造|虚构|捏造|误导|冒犯|出现(?:任何)?(?:\w\w)?错误|包?含有?(?:任何)?(?:错误|有害|冒犯|虚假|歧视"
    r"|偏见))|(?:应当?|应该|必须)"
    r"|(?:提醒|警告|告诫)(?:了)?(?:用户|患者|读者|对方)|(?:从不|从未|从来不|绝不|决不)|(?:正确|准确|恰当"
    r"|妥善)地?(?:使用|运用|[指说解回列描识给提计分理引判建总概翻]))"
)
_FAULT = compile_late(
    rf"{_SUBJECT}(?:\w+ly )?(?:"
    rf"fail(?:s|ed)? (?:to|the|all|any)\b|leaves [^.;]{{1,60}}? (?:without|incomplete|un(?!changed|touched|altered"
    rf"|modified|edited)\w+ed)\b|"
    rf"(?:produces|writes|gives|provides|returns|outputs) (?:\w+ ){{1,3}}that (?:crashes|fails|does not|is (?:wrong"
    rf"|incorrect|false))\b|answers? (?:a |an )?(?:different|another|other|wrong) questions?\b|failure to\b"
    rf"|neglects?\b|forgets? (?:to|the)\b|should have (?:been|\w+ed|\w+en)\b"
    rf"|(?:omits?|overlooks?|skips?|misses|leaves out|ignores?|disregards?)\b{_NOT_MISSED}"
    rf"|presents? [^.;]{{1,40}}? as (?:an? |established )?facts?\b|(?:confuses|conflates|mixes up"
    rf"|mistakes)\b(?! nothing)|(?:cites|quotes|mentions|references|invents|uses|lists|names)"
    rf" [^.;]{{1,50}}? (?:that|which|who) (?:does not|do not|never|did not) (?:exist|happen|occur)\w*"
    rf"|gets? {_ANY}[\w ]{{1,40}}? wrong\b"
    rf"|(?:does not|doesn't|do not) (?:even )?(?:address|answer|respond to) {_ANY}(?:user's "
    rf"|given )?{_WHAT_IS_ASKED}"
    r"|makes? up (?:\w+ )?(?:statistics|facts|sources?|quot\w+|citations?|references?|data|numbers|details"
    r"|stud\w+)\b"
    rf"|{_BAD_VERB}\b(?! of\b)|is (?:full of|riddled with)\b"
    rf"|{_CARRIES} {_ANY}(?:several |many |multiple |at least \w+ |one |two )?(?:{_BAD_KIND} (?:\w+ )?{_CARRIED}"
    rf"|(?:wrong|incorrect"
    rf"|false) \w+|hallucinations?|typos?|(?:\w+ ){{1,4}}(?:in|with|for|to|by) (?:the|a|an) (?:wrong|incorrect))\b"
    r"(?! (?:and|or) (?:then )?corrects)"
    r"|penali[sz]ed?\b|appl(?:y|ies) (?:a |the )?penalt|(?:deduct|subtract)s?\b|loses? points?|points? off"
    r"|lacks? (?:a |an |any |the )?\w|overly\b|(?:is|are) (?:missing|lacking)\b(?! from)"
    rf"|(?:is|are) (?:factually |simply |completely )?{_BAD_STATE}(?=\W*$|[.,;] | (?:to|towards?|about)\b)"
    r"|(?:promotes|encourages|glorifies|endorses|normali[sz]es|recommends|suggests|incites) (?:\w+ )?"
    r"(?:self-harm|suicide|violence|hate|hatred|illegal|abuse|discrimination|unsafe|dangerous|harmful|unproven)\b"
    r"|(?:encourages|advises|tells|suggests|recommends) (?!against\b|not\b)[^.;]{0,60}? without (?:consulting|asking"
    r"|seeing|talking|medical|professional)"
    r"|(?:recommends|suggests|advises|gives|promotes) [^.;]{0,60}?(?:\bis|\bthat is|\bwhich is) "
    r"(?:\w+ly )?(?:dangerous|harmful|unsafe|too high|too low|incorrect|dangerously \w+))"
    rf"|{_SUBJECT}{_WRONGLY} \w+s\b"
)
_FAULT_ZH = compile_late(
    rf"{_SUBJECT_ZH}(?:未能|没能|没有(?:提醒|警告|提示|回答|回应|考虑)(?!任何|多余|无关|不)"
    r"|(?:并?未|没有?)(?:提及|提到|说明|指出|给出|列出|解释|提醒|警告|回答|回应|考虑|注明|标注)(?!任何|多余|无关|不"
    r"|其他|品牌|个人)"
    r"|(?:遗漏|漏掉|漏了|忘记|忽略|忽视|漏写|漏答|漏算|省略(?!号)|略去)了?+(?!无关|多余|不|冗余|重复)|缺少|缺乏|错误(?:地|的?[将把])"
    r"|错误[将把指说给引解计使判理]|误[将导称述把解读判当认用]|编造|虚构|捏造"
    r"|(?:给出|提供|使用|列出|写出|引用|推荐|指出|说出|得出)了?(?:一个|一些|多个)?(?:错误|虚假|虚构|过时|不存在"
    r"|有害)的"
    r"|答非所问|自相矛盾|跑题|离题|偏题|文不对题|[将把].{1,30}(?:混淆|弄[错混]|搞[错混]|说错|写错|算错|当成"
    r"|误[认当用读判解作写算记])"
    r"|混淆了?|曲解|误解|偏离了?"
    rf"|(?:存在|出现|包含|含有|有)了?(?:一[处个些])?(?:对[^，。；]{{1,15}}的)?(?:{_BAD_KIND_ZH}性?上?的?)*(?:错误"
    rf"|误导|虚构|有害|冒犯|偏见|矛盾|歧义|错别字|遗漏)"
    r"|(?:若|如果?|凡).{1,40}则?扣|扣分|予以惩罚)"
)
_NEGATED = compile_late(
    rf"{_SUBJECT}(?:(?:does|do|did|is|are|was|has|have|should|must|can|will|would)(?: not\b|n't\b)"
    r"|cannot\b|no\b|not\b|without\b)"
)
_NEGATED_ZH = compile_late(
    rf"{_SUBJECT_ZH}{_MODALS_ZH}{{0,2}}(?:没有|沒有|未(?!能|来|來|必|婚|成年|知)|不(?!同|仅|僅|但|断|斷|良|适"
    rf"|適)|无(?!论|论)|勿)"
)
# The rest may reverse a strength or a fault: "avoids X but fails to Y".
_TURNED = compile_late(
    r"\b(?:fails? to|(?<!that )(?<!which )(?<!and )does not|without|but|instead of|rather than|when|despite"
    r"|even though|not the|and (?:then )?does)\b"
)
_TURNED_ZH = compile_late("但|却|而没有|而未|反而")
_HAN = compile_late("[\u4e00-\u9fff]")
_REACH = 200  # characters: what comes later is detail, not what the criterion is about


def read_meaning(text: str) -> WordedMeaning:
    """Classify the meaning of meeting a criterion, from its words alone.

    Quotes, asides in brackets and reasons are ignored.

    Example:
        >>> [read_meaning(text).meaning for text in ("Avoids it.", "Omits doses.", "Does not name it.", "Names it.")]
        ['good', 'fault', 'negated', 'plain']
        >>> read_meaning("未能说明剂量")
        WordedMeaning(meaning='fault', words='未能')
    """
    return _read_bare_meaning(read_assertion(text))


def _read_bare_meaning(bare: str) -> WordedMeaning:
    plain = _LABEL.sub("", bare.strip()[:_REACH]).replace("’", "'")
    chinese = bool(_HAN.search(plain))
    turned = _TURNED_ZH if chinese else _TURNED
    patterns: tuple[tuple[Meaning, re.Pattern[str]], ...] = (
        ("fault", _FAULT_ZH if chinese else _FAULT),
        ("good", _GOOD_ZH if chinese else _GOOD),
        ("negated", _NEGATED_ZH if chinese else _NEGATED),
    )
    for meaning, pattern in patterns:
        found = pattern.match(plain)
        if found is not None:
            if meaning != "negated" and turned.search(plain, found.end()):
                return WordedMeaning("plain", "")
            return WordedMeaning(meaning, found.group().strip())
    return WordedMeaning("plain", "")


def find_conflict(text: str, weight: float) -> str:
    """Return the words that contradict the sign of the weight; empty if none do.

    Example:
        >>> find_conflict("Omits warning signs.", 8), find_conflict("Omits warning signs.", -8)
        ('omits', '')
    """
    return find_contradiction(read_assertion(text), weight)


def find_contradiction(bare: str, weight: float) -> str:
    """Do the work of `find_conflict` for a text from `read_assertion`."""
    found = _read_bare_meaning(bare)
    opposite = found.meaning == "good" if weight < 0 else found.meaning == "fault" and weight > 0
    return found.words if opposite else ""
