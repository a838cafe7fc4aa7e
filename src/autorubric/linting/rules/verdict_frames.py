"""Frames that tell the judge its verdict: orders to grade, every submission alike, verdicts without a condition."""

from __future__ import annotations

import re

from autorubric.core.wording import any_of, late_pattern
from autorubric.linting.wording import Wording

_SUBMISSION = any_of(
    """submissions?, responses?, answers?, essays?, outputs?, candidates?, students?, pupils?, learners?, papers?
    scripts?, texts?, repl(?:y|ies), solutions?, entries, entry, participants?, models?, attempts?, works?, one"""
)
_ITEM = r"(?:criterion|item|point|mark|requirement|row|check|box|one|line|question)"
_CREDIT = (
    r"(?:(?:full|maximum|max|all|top|these|those|the|this|that|its|a free|the full|every|zero|no) (?:possible "
    r"|available )?"
    r"(?:marks?|points?|credits?|score)\b|\b(?:credit|marks|points)(?=\W*$))"
)
_VERDICT = (
    rf"(?:\b(?:met|unmet|not met|passed|satisfied|fulfilled|yes|failed)\b|\b(?:pass|fail|true|false|no"
    rf"|correct)(?=\W*$| (?:in|for|by|to|here|without|regardless|no matter|whatever|even|automatically|always)\b)"
    rf"|{_CREDIT})"
)
_ORDER = any_of(
    """mark, put, tick, give, award, grant, assign, enter, record, write, set, return, output, select, choose, say
    answer, report, conclude, assume, consider, treat, count, deem, accept, pass, fail, reject, approve
    default, credit, check, score, judge, rate, regard, take, declare, respond, reply, print, emit, let, vote
    allow, click, log, circle"""
)
_CONDITION = (
    r"(?:if|when|only|unless|provided|once|where|who|which|that (?:mention|state|name|explain|contain)\w*"
    r"|for (?:each|naming|stating|any (?:two|three|one)|a)|as long as)"
)
_ANYWAY = any_of(
    """regardless, no matter, whatever, whichever, irrespective, independent(?:ly)? of, even if, even when
    even for, without (?:even )?(?:reading|looking|checking|regard|opening|considering|evaluating)
    whether or not, under (?:all|any), in (?:all|any|every) cases?, by default, unconditionally, automatically
    in any event, come what may, anyway, always"""
)
_FORCED = late_pattern(
    rf"^\W*(?:please |simply |just |always |never |automatically |unconditionally |do not |don't |you (?:must|should"
    rf"|have to|can|may) "
    rf"|(?:the )?(?:judge|grader|marker|rater|evaluator|examiner|llm|model)s? (?:must|should|has to|is to|will"
    rf"|shall) )*{_ORDER}\b"
    rf"(?![^.]{{0,160}}\b{_CONDITION}\b)[^.;]{{0,50}}?{_VERDICT}"
    rf"|^\W*(?:always |never |do not |don't |automatically |please )+(?:mark|pass|fail|reject|accept|award"
    rf"|penali[sz]e|deduct)\b"
    rf"[^.;]{{0,40}}(?:{_ITEM}|{_SUBMISSION}|here|as \w+)\W*$|^\W*(?:pass|fail|reject|accept|approve) (?:all|every"
    rf"|any|each|everyone|everybody)\b"
    rf"|^\W*(?:pass|fail) (?:automatically|by default|unconditionally|always|regardless)\b"
    rf"|^\W*(?:every(?:one|body)?|all|any(?:one|body)?|each|no|nobody|whoever)(?: of the"
    rf"| the)?(?: \w+){{0,2}}? ?(?:{_SUBMISSION})?(?: \w+)? "
    rf"(?:gets?|receives?|earns?|gains?|is|are|be|has|have|should|must|will|can|scores?|obtains?|qualif(?:y|ies)) "
    rf"(?:\w+ ){{0,4}}?(?:(?:this|the|full|all|a|these|its) (?:mark|point|credit|score)s?|{_VERDICT}|credit(?:ed)?"
    rf"|marked)\b"
    rf"|^\W*(?:every|all|any|each)(?: \w+)? {_SUBMISSION} (?:automatically |trivially |always |simply )?(?:pass"
    rf"|satisf|meet|qualif|fulfil|fail|count)\w*"
    rf"(?: (?:this|the) {_ITEM}| here| automatically)?\W*$"
    rf"|\b{_ANYWAY}\b[^.]{{0,80}}?(?:\bmet\b|\bunmet\b|\b(?:this|the) {_ITEM} (?:is|counts|passes)|full (?:marks"
    rf"|credit)|(?:this|the) (?:mark|point)s?\b|\btick (?:yes|this|the)\b|\bverdict\b"
    rf"|\bis satisfied\b)(?![^.]{{0,40}}\b(?:insurance|card)\b)"
    rf"|(?:\bmet\b(?! with)|\bunmet\b|\b(?:this|the) {_ITEM} (?:is|counts|passes)|full (?:marks|credit)|\b(?:grant"
    rf"|award|give)s? (?:this|the) (?:mark|point)s?\b|\btick (?:yes|this|the)\b|\bverdict\b|\bthis {_ITEM}\b"
    rf"|\bsatisfied (?:by|for) (?:every|any|all))"
    rf"[^.]{{0,60}}?\b{_ANYWAY}\b(?! with)"
    rf"|^\W*(?:regardless|whatever|no matter)\b[^.;]{{2,60}}, (?:this|it|that) is an? (?:pass|fail|yes)\b"
    rf"|^\W*(?:this|the) (?:{_ITEM} |one )?is (?:an? )?(?:pass|gift|given|formality)\W*$"
    rf"|\b(?:freebie|giveaway|courtesy (?:point|mark|credit)|free (?:point|mark|credit)s?|already (?:granted|decided"
    rf"|awarded|been (?:granted|awarded|decided)|met|given)"
    rf"|pre-?(?:marked|awarded|filled|approved|decided)|foregone conclusion|rubber[- ]stamp)\b"
    rf"|^\W*(?:the )?(?:verdict|answer|result|outcome|decision|judge?ment)(?: here| for this \w+)? ?(?:is|must be"
    rf"|should be|will be|:|=) ?(?:always )?[\"']?(?:met|unmet|pass|fail|yes|no|true|false|positive)\b\W*$"
    rf"|^\W*(?:(?:this|the) {_ITEM} )?(?:is |was |counts as |should be |must be )?(?:always|unconditionally"
    rf"|automatically|trivially|by default|invariably) (?:be |to be )?(?:met|unmet|satisfied|fulfilled|passed"
    rf"|awarded|granted|true|marked)\b"
    rf"|\b(?:trivially|vacuously|automatically) (?:satisfied|met|true|fulfilled)\b|\bsatisfied (?:by|for) (?:every"
    rf"|any|all) (?:\w+ )?{_SUBMISSION}"
)
_FORCED_ZH = late_pattern(
    r"(?:一律|凡|全体|一概|统统|人人|所有(?:的)?(?:考生|回答|答案|学生|人|提交|作答|答卷)|每[个位名](?:考生|学生|人)"
    r"|全员|任何(?:考生|回答|答案|作答|人)|不管|无论(?!是)|不论(?!是)|无需|无须|不必|不用|不看|哪怕|即使|只要(?:交卷"
    r"|作答|提交|回答|写了))"
    r"[^。；]{0,28}?(?:给分|得分|满分|判[为定作]?(?!断)|通过(?=\W*$)|满足(?=\W*$)|达成|算(?:作|对|通过|满足)|视为"
    r"|记为|打[勾√对]|勾选|送分|加分|填|选|零分|得此分|得本分|合格|达标|扣分|不给分|标记)"
    r"|(?:默认|自动|直接|始终|总是|永远|必须|务必|一定|固定|照例|直接地)(?:地)?(?:将|把)?(?:本|此"
    r"|该)?[条项题]?(?:判定?|给满?分|得满?分|打[勾√]|勾选|算[作对]|视为|记为|标记|通过|回答[“\"']?是|选[“\"']?是"
    r"|输出|返回)"
    r"|(?:本|此|该)[条项题小]?(?:题|标准|评分项|条目|项)?(?:为)?(?:送分|总是(?:满足|通过|成立)|恒为|恒成立"
    r"|永远(?:满足|成立)|已经?(?:给分|判定|满足|得分)|白送)"
    r"|送分题|(?:裁判|评委|评分者|阅卷人|阅卷老师|模型)(?:必须|应当?|应该|只能|一律|直接)?(?:回答|选择?|判定?|输出"
    r"|填|给)[^，。；]{0,4}[“\"'「]?(?:是|否|满足|met|通过|满分)"
    r"|^\W*(?:请)?(?:直接)?(?:判|填|输出|返回|勾选|选|写)(?:定)?(?:为|作)?[“\"'「]?(?:met|unmet|满足|不满足|通过|是"
    r"|否|达成|未达成)\W*$"
)
# Quick to look for: a verdict by name, or a word of credit together with a word for an order or for all alike.
_VERDICTS = frozenset(
    """met unmet verdict tick freebie giveaway gift formality unconditionally granted foregone
    trivially vacuously""".split()  # noqa: SIM905
)
_CREDITS = frozenset(
    """mark marks marked point points credit credits credited score scores box criterion item satisfied fulfilled
    yes pass passes passed passing fail fails failed satisfy satisfies meet meets qualify qualifies fulfil
    fulfils fulfill fulfills counts count accept reject approve awarded decided deduct outcome requirement true
    here no correct answer""".split()  # noqa: SIM905
)
_ALIKE = frozenset(
    """everyone everybody anyone anybody nobody every all any each no always never automatically default
    regardless matter whatever whichever irrespective without even unconditionally anyway simply just please
    cases case judge grader marker rater evaluator examiner you do don't already whoever courtesy free""".split()  # noqa: SIM905
)
_ORDERS = frozenset(_ORDER[3:-1].split("|"))


def forced(words: Wording) -> re.Match[str] | None:
    """The words of a criterion that tell the judge its verdict; None where there are none.

    Example:
        >>> forced(Wording("Every candidate gets this mark, whatever they wrote."))[0]
        'every candidate gets this mark'
        >>> forced(Wording("Marks the route on the map.")) is None
        True
    """
    if words.chinese:
        return _FORCED_ZH.search(words.text.lower())
    vocabulary = words.vocabulary
    if vocabulary.isdisjoint(_VERDICTS):
        orders = words.tokens[:1] and words.tokens[0] in _ORDERS
        if vocabulary.isdisjoint(_CREDITS) or (not orders and vocabulary.isdisjoint(_ALIKE)):
            return None
    return _FORCED.search(words.text.lower())
