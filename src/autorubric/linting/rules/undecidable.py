"""Criteria that no judge can decide: circular, or decided in advance."""

import re

from autorubric.core.wording import compile_late, match_any
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import RawCriterion, Rule, apply_to_judged
from autorubric.linting.rules.emptiness import find_emptiness

_SUBMISSION = match_any(
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
_ORDER = match_any(
    """mark, put, tick, give, award, grant, assign, enter, record, write, set, return, output, select, choose, say
    answer, report, conclude, assume, consider, treat, count, deem, accept, pass, fail, reject, approve
    default, credit, check, score, judge, rate, regard, take, declare, respond, reply, print, emit, let, vote
    allow, click, log, circle"""
)
_CONDITION = (
    r"(?:if|when|only|unless|provided|once|where|who|which|that (?:mention|state|name|explain|contain)\w*"
    r"|for (?:each|naming|stating|any (?:two|three|one)|a)|as long as)"
)
_ANYWAY = match_any(
    """regardless, no matter, whatever, whichever, irrespective, independent(?:ly)? of, even if, even when
    even for, without (?:even )?(?:reading|looking|checking|regard|opening|considering|evaluating)
    whether or not, under (?:all|any), in (?:all|any|every) cases?, by default, unconditionally, automatically
    in any event, come what may, anyway, always"""
)
_MEETS = match_any(
    """pass(?:es|ed|ing)?, satisf(?:y|ies|ied|ying), meets?, met, meeting, qualif(?:y|ies|ied|ying)
    fulfill?(?:s|ed|ing)?, fail(?:s|ed|ing)?, count(?:s|ed|ing)?"""
)
_TOLD = compile_late(
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
    rf"| the)?(?: \w+){{0,2}}?(?: {_SUBMISSION})?(?: \w+)? "
    rf"(?:gets?|receives?|earns?|gains?|is|are|be|has|have|should|must|will|can|scores?|obtains?|qualif(?:y|ies)) "
    rf"(?:\w+ ){{0,4}}?(?:(?:this|the|full|all|a|these|its) (?:mark|point|credit|score)s?|{_VERDICT}|credit(?:ed)?"
    rf"|marked)\b"
    rf"|^\W*(?:every|all|any|each)(?: \w+)? {_SUBMISSION} (?:automatically |trivially |always |simply )?{_MEETS}"
    rf"(?: (?:this|the) {_ITEM}| here| automatically)?\W*$"
    rf"|\b{_ANYWAY}\b[^.]{{0,80}}?(?:\bmet\b|\bunmet\b|\b(?:this|the) {_ITEM} (?:is|counts|passes)|full (?:marks"
    rf"|credit)\b|(?:this|the) (?:mark|point)s?\b|\btick (?:yes|this|the)\b|\bverdict\b"
    rf"|\bis satisfied\b)(?![^.]{{0,40}}\b(?:insurance|card)\b)"
    rf"|(?:\bmet\b(?! with)|\bunmet\b|\b(?:this|the) {_ITEM} (?:is|counts|passes)|full (?:marks|credit)\b|\b(?:grant"
    rf"|award|give)s? (?:this|the) (?:mark|point)s?\b|\btick (?:yes|this|the)\b|\bverdict\b|\bthis {_ITEM}\b"
    rf"|\bsatisfied (?:by|for) (?:every|any|all))"
    rf"[^.]{{0,60}}?\b{_ANYWAY}\b(?! with)"
    rf"|^\W*(?:regardless|whatever|no matter)\b[^.;]{{2,60}}, (?:this|it|that) is an? (?:pass|fail|yes)\b"
    rf"|^\W*(?:this|the) (?:{_ITEM} |one )?is (?:an? )?(?:pass|gift|given|formality)\W*$"
    rf"|\b(?:freebie|giveaway|courtesy (?:point|mark|credit)|free (?:point|mark|credit)s?|already (?:granted|decided"
    rf"|awarded|been (?:granted|awarded|decided)|met|given)"
    rf"|pre-?(?:marked|awarded|filled|approved|decided)|foregone conclusion|rubber[- ]stamp)\b"
    rf"|^\W*(?:the )?(?:verdict|answer|result|outcome|decision|judge?ment)(?: here| for this \w+)?"
    rf"(?: (?:is|must be|should be|will be) | ?[:=] ?)(?:always )?[\"']?(?:met|unmet|pass|fail|yes|no|true"
    rf"|false|positive)\b\W*$"
    rf"|^\W*(?:(?:this|the) {_ITEM} )?(?:is |was |counts as |should be |must be )?(?:always|unconditionally"
    rf"|automatically|trivially|by default|invariably) (?:be |to be )?(?:met|unmet|satisfied|fulfilled|passed"
    rf"|awarded|granted|true|marked)\b"
    rf"|\b(?:trivially|vacuously|automatically) (?:satisfied|met|true|fulfilled)\b|\bsatisfied (?:by|for) (?:every"
    rf"|any|all) (?:\w+ )?{_SUBMISSION}"
)
_TOLD_ZH = compile_late(
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
# A quick test: a verdict by name, or a word of credit together with an order or a word such as "everyone".
_VERDICTS = frozenset(
    """met unmet verdict tick freebie giveaway gift formality unconditionally granted foregone
    trivially vacuously rubber rubber-stamp premarked preawarded prefilled preapproved predecided pre-marked
    pre-awarded pre-filled pre-approved pre-decided pass fail yes no true false positive given""".split()  # noqa: SIM905
)
_CREDITS = frozenset(
    """mark marks marked point points credit credits credited score scores box criterion item satisfied fulfilled
    yes pass passes passed passing fail fails failed satisfy satisfies meet meets qualify qualifies fulfil
    fulfils fulfill fulfills fulfilled fulfilling fulfiled fulfiling meeting satisfying qualified qualifying counted
    counting failed failing counts count false accept reject approve awarded decided deduct outcome requirement true
    here no correct answer given award penalise penalize row check line question one""".split()  # noqa: SIM905
)
_ALIKE = frozenset(
    """everyone everybody anyone anybody nobody every all any each no always never automatically default
    regardless matter whatever whichever irrespective without even unconditionally anyway simply just please
    cases case judge grader marker rater evaluator examiner you do don't already whoever courtesy free
    invariably come independent independently whether""".split()  # noqa: SIM905
)
_ORDERS = frozenset(_ORDER[3:-1].split("|"))


def find_verdict_command(words: Phrasing) -> re.Match[str] | None:
    """Return the words of a criterion that tell the judge its verdict; None if there are none.

    Example:
        >>> find_verdict_command(Phrasing("Every candidate gets this mark, whatever they wrote."))[0]
        'every candidate gets this mark'
        >>> find_verdict_command(Phrasing("Marks the route on the map.")) is None
        True
    """
    if words.chinese:
        return _TOLD_ZH.search(words.text.lower())
    vocabulary = words.vocabulary
    if vocabulary.isdisjoint(_VERDICTS):
        orders = next(filter(str.isalpha, words.tokens), "") in _ORDERS
        if vocabulary.isdisjoint(_CREDITS) or (not orders and vocabulary.isdisjoint(_ALIKE)):
            return None
    return _TOLD.search(words.text.lower())


_ALL_ALIKE = match_any(
    """regardless of (?:the )?(?:content|response|answer|quality|what|how), no matter what, no matter how
    whatever the (?:response|answer|content), in (?:every|any) case, unconditionally"""
)
_OUTCOME = (
    r"(?:met|unmet|true|false|pass(?:ed)?|fail(?:ed)?|satisfied|fulfilled|correct"
    r"|(?:full|maximum|highest|top) (?:possible )?(?:marks|points|credit|scores?|rating))"
)
_SUBMISSIONS = match_any("submissions?, responses?, answers?, essays?, outputs?")
_FORCED = compile_late(
    r"\b(?:always (?:be )?(?:mark|grade|rate|score|judge|count|treat|consider|return|answer|give"
    rf"|award)\w*\b[^.;]{{0,40}}\b{_OUTCOME}\b|(?:mark|grade|count|treat|give|award|return"
    rf"|score)\w*\b[^.;]{{0,60}}\b{_OUTCOME}\b[^.;]{{0,40}}\b(?:{_ALL_ALIKE}|for (?:every|all|any) {_SUBMISSIONS}"
    r"|in all cases|to everyone)|(?:mark|grade|count|treat|consider) (?:all|every|any"
    rf"|each) {_SUBMISSIONS} (?:as )?(?:{_OUTCOME}|passing)\b|(?:all|every|any) {_SUBMISSIONS} (?:satisf|meet|pass"
    r"|fulfil)\w*\b|auto[- ]?(?:pass|fail)\b|(?:criterion|item|rubric) is always (?:true|met|satisfied|false)\b"
    r"|(?:mark|rate|grade|count|treat|consider|deem|score|regard|record|assume)(?:s|ed)? (?:that )?(?:this"
    r"|the present)(?: (?:one|criterion|item|point|requirement|line))?,? (?:(?:as|to be|is) )?(?:always "
    rf"|automatically )?(?:being )?{_OUTCOME}\b|\birrespective of (?:the |its |any )?(?:content|response|answer"
    r"|quality|what)|^\W*(?:nobody|no one|no (?:student|answer|response|submission)|everyone|everybody) (?:should "
    r"|must |may |will |can )?(?:loses?|fails?|gets?|passes?|earns?|receives?|be (?:penali[sz]ed"
    r"|marked))\b[^.;]{0,20}(?:points?|marks?|credit|this|here)?[^.;]{0,12}(?:criterion|item|points?|here|this)\W*$"
    r"|\b(?:judge|grader|rater|evaluator|marker|scorer)s? (?:must|should|has to|have to|is to|are to|always"
    r"|shall) (?:always )?(?:answer|say|return|respond|output|choose|vote|mark|tick|select)\w* [\"']?(?:yes|no|met"
    r"|unmet|true|false|pass|this|it)\b|(?:人人|大家|所有人|每个人|任何人|一律|全员)(?:都|均|皆)?(?:有分|得分|给分"
    r"|满分|通过|可得)|^\W*(?:please )?(?:give|award|grant|mark|count|treat|assign|pass|fail|accept|credit"
    r"|score)\b[^.;]{0,60}? (?:even (?:if|when)|whether or not|no matter (?:if|whether)|anyway|either way)(?: (?:the "
    r"|it |there |this )[^.;]{0,50}|)\W*$|^\W*(?:this |it )?(?:automatically|always|never) (?:pass|fail|count|qualif"
    rf"|score|satisf)\w*\b[^.;]{{0,12}}(?:\W*$|, )|automatic(?:ally)? (?:full )?(?:{_OUTCOME}|points?|credit"
    r"|marks?)\b|(?:ignore|disregard|forget) (?:all |any |the )*(?:other |previous |prior |above )?(?:instructions"
    rf"|criteria|rubric)[^.;]{{0,40}}\b{_OUTCOME}\b)|^\W*(?:(?:this|the) {_ITEM} )?(?:must|should|shall|(?:is|has"
    rf"|needs|ought) to) be (?:marked|graded|rated|scored|judged|counted|considered|treated) (?:as )?{_OUTCOME}\W*$"
    r"|^\W*(?:the \w+ (?:must|should|shall) )?(?:ignore|disregard|skip|(?:do not|don't) read)\b[^.;,]{0,30}\b"
    rf"{_SUBMISSIONS}\b(?:[,;]| and| then)+ (?:\w+ )?{_ORDER}\b[^.;]{{0,40}}\b{_OUTCOME}\b|\b(?:do not|don't|never) "
    rf"(?:mark|grade|count|score|judge|fail) (?:this|the) ?(?:criterion|item|point)?(?: as (?:not )?{_OUTCOME})?\W*$",
    chinese=(
        r"(?:无论|不论|不管)[^。；]{0,20}[，,]?(?:均|都|一律|直接|应)?[^。；]{0,6}(?:判|给|算|视为|标记"
        r"|打)[^。；]{0,8}(?:满足|符合|通过|满分|得分|达标|正确|met)"
        r"|(?:总是|始终|一律|永远|直接|全部|都)[^。；，]{0,4}(?:判|给|算|视为|标记|打)[^。；，]{0,6}(?:满足"
        r"|符合|通过|满分|达标|met)"
        r"|(?:无论|不论|不管)[^。；]{0,20}(?:都|均|一律)(?:给|得|打)分"
        r"|(?:忽略|无视|忘记)[^。；，]{0,8}(?:标准|准则|指令|指示|要求|规则)[^。；]{0,8}(?:判|给|算|视为"
        r"|打)[^。；]{0,8}(?:满分|最高分|满足|符合|通过)"
        r"|(?:所有|任何)(?:回答|答案|回复|提交)(?:均|都|一律)(?:满足|符合|通过|得分)"
        r"|^\W*默认(?:给|得|算|判|为)?(?:分|满分|通过|满足|符合|达标)"
        r"|(?:本|此|该)(?:条|项目?|条标准|项标准|标准)?(?:默认|自动|一定|必须|直接|一律)(?:判定?为?|算作?|视为|记为"
        r"|得)?(?:满足|符合|通过|得分|满分|达标)"
        r"|(?:请|务必)(?:直接)?(?:将|把)?(?:本|此|该)[条项]?[^。；，]{0,6}(?:判定?为|标记为|算作|视为)(?:满足"
        r"|符合|通过|达标|met)"
        r"|(?:不得|不要|不能|切勿)(?:将|把)?(?:本|此|该)?[条项]?(?:判定?为?|标记为|算作?)(?:不满足|不符合|未通过"
        r"|unmet)"
    ),
)


_OUTCOME_HINTS = Hints(
    "met, true, verdict, irrespective, false, pass, fail, satisf, correct, full , meet, fulfil, always be, "
    "rating, yes, lose, point, mark, credit, score, grade, rated, rater, judge, evaluator, count, consider, grant, "
    "give, award, treat, assign, accept, qualif",
    "分, 满, 符合, 通过, 可得, 达标, 正确",
)


_LONGEST_ORDER = 80


def find_forced_verdict(criterion: Phrasing) -> str:
    """Return the words in which a criterion tells the judge its verdict; empty if there are none."""
    if criterion.size > _LONGEST_ORDER:
        return ""
    text = criterion.own
    found = find_verdict_command(criterion)
    if not found and _OUTCOME_HINTS.occur_in(text):
        found = _FORCED.search(text)
    return found.group().strip() if found else ""


_RUBRIC = match_any(
    """criteri(?:on|a), requirements?, rubric(?: items?)?, standards?, expectations?, conditions?, guidelines?
    objectives?"""
)
_OF_TASK = (
    r"(?: (?:of|in|for|set by|listed in|given in) (?:the |this )?(?:rubric|task|question|prompt|assignment|query))?"
)
_SUBJECT = match_any("response, answer, submission, essay, text, output, solution, work, it")
_CIRCULAR = compile_late(
    rf"^\W*(?:the |this )?(?:{_SUBJECT} )?(?:is (?:correct|complete|good) and )?(?:should |must )?(?:fully "
    r"|completely |successfully )?(?:meets?|satisf(?:y|ies)|fulfill?s?|complies with|conforms to|follows|passes"
    r"|adheres to) (?:all |the |every |this |these |of |its )*(?:other |stated |specified |given "
    rf"|rubric )?{_RUBRIC}{_OF_TASK}\W*$"
    r"|^\W*(?:the |this )?(?:\w+ )?(?:meets|satisfies|reaches|clears|hits|matches|achieves|attains|lives up to"
    r"|is up to|does|has) [^.;,]{0,30}?(?:quality (?:bar|level|threshold|standards?)|acceptance criteria"
    r"|pass(?:ing)? (?:mark|grade|threshold|standard)|(?:high|top|full)[- ](?:scoring|marks?|quality|scored?|rated"
    r"|graded?) (?:\w+ )?(?:essays?|answers?|responses?|submissions?|work|ones?))\b"
    r"|^\W*(?:is |this is |it is )?(?:what|as) (?:we|the (?:task|prompt|question|rubric|grader|examiner)) (?:want"
    r"|ask|expect|need|require|demand|look)\w*(?: for)?\W*$"
    r"|^\W*an? (?:\w+ )?(?:response|answer) (?:that|which) (?:meets|satisfies|fulfils) (?:all |the "
    r"|every )*(?:criteria|requirements?|standards?|conditions?)\W*$"
    r"|\b(?:criterion|requirement|item|rubric|standard) is (?:met|satisfied|fulfilled) (?:if|when) (?:the |this "
    r"|it )?(?:(?:criterion|requirement|item|rubric|standard) )?is (?:met|satisfied|fulfilled)"
    r"|\b(?:deserves?|merits?|earns?|receives?|gets?|worthy of) (?:a |the |an )?(?:high(?:est)?|top|full|good"
    r"|passing|perfect|maximum) (?:score|mark|grade|rating|credit)s?\b"
    r"|^\W*(?:the |this )?(?:\w+ )?(?:is|should be) (?:scored|graded|rated|marked|judged|deemed) (?:as )?(?:correct"
    r"|good|high|highly|acceptable|passing)\W*$"
    r"|^\W*(?:the |this )?(?:\w+ )?(?:does|delivers|provides|fulfil\w*|meets|satisfies|covers|includes"
    r"|contains) (?:everything |exactly |all )?(?:what|that) (?:is|was|the (?:criterion|rubric|task|question|prompt"
    r"|user))(?: has)? (?:demand|ask|requir|request|want|expect|specif)\w*(?: for)?\W*$"
    r"|^\W*(?:the |this )?(?:\w+ )?(?:fulfil\w*|completes?|accomplish\w*|does) the (?:task|assignment|job|prompt"
    r"|request)\W*$"
    r"|\bwould (?:satisfy|please|convince) (?:an? |the |any )?(?:\w+ )?(?:grader|judge|teacher|examiner|expert"
    r"|reader)s?\b"
    r"|\bwould (?:be given|be|get|receive|score|earn) (?:rated |scored |graded )?(?:an? )?(?:highly?|well|top"
    r"|passing|good)\b(?! risk| dose)"
    r"|\b(?:is )?(good|correct|accurate|complete|relevant|clear|right)(?:ly)? (?:if|when|because) (?:it"
    r"|the (?:answer|response)) (?:is|gives|provides|contains) (?:a |the )?(?:\1|good|correct|accurate|right)\b",
    chinese=(
        r"^\W*(?:该|此|本)?(?:回答|答案|回复|文章|内容)?(?:达到|符合|满足|具备)了?[^，。；]{0,12}(?:得分|高分"
        r"|满分|优秀|合格|及格|评分|采分)(?:的)?(?:要求|标准|水平|水准|条件|门槛|线)\W*$"
        r"|^\W*(?:该|此|本)?(?:标准|准则|条件|要求)(?:得到|被|已)(?:了)?(?:满足|达到|符合)\W*$"
        r"|^\W*(?:回答|答案)(?:正确|准确|合格|良好)(?:即|则|就)[^，。；]{0,4}(?:正确|准确|合格|良好|得分|满足)\W*$"
        r"|^\W*(?:该|此)?(?:回答|答案|回复|内容)?(?:应|需|必须)?(?:完全|充分|全部)?(?:符合|满足"
        r"|达到)(?:了)?(?:(?:题目|题干|任务|问题|用户|提问者?|提示)的?)?(?:所有|全部|本|该|此|这|各"
        r"|以上)?[条项个]?(?:的)?(?:评分|评价|评估)?(?:标准|准则|要求|细则"
        r"|评分[项点])(?:(?:所?规定)?的要求)?(?:的回答)?(?:[，,]?(?:即可|就|则|便|才)(?:可)?(?:得满?分|给分"
        r"|通过))?\W*$"
        r"|(?:如果|若|当)[^，。；]{0,8}?(?P<met>满足|符合|达到|通过)[^，。；]{0,10}?[，,]?(?:则|就|即|即为"
        r"|便)[^，。；]{0,4}(?P=met)"
        r"|(?:应当?|应该|可以|能够?|值得|配得?上?)(?:得到|获得|拿到|给予?|得)?(?:高分|满分|好评)"
    ),
)


_LONGEST_CIRCLE = 30


def _find_circle(criterion: RawCriterion) -> str:
    words = criterion.wording
    if words.size > _LONGEST_CIRCLE:
        return ""
    if empty := find_emptiness(words):
        return empty.word if empty.lack == "circular" else ""
    found = _CIRCULAR.search(words.bare.strip())
    return found.group().strip() if found else ""


DECIDED = Rule(
    "fixed-verdict",
    "error",
    "a criterion tells the judge its verdict whatever the submission says",
    apply_to_judged(
        lambda criterion: find_forced_verdict(criterion.wording),
        "{!r} decides the verdict whatever the submission says",
        "Say what the submission must contain",
    ),
)
CIRCULAR = Rule(
    "circular",
    "warning",
    "a criterion asks only whether the submission meets the criteria",
    apply_to_judged(
        _find_circle,
        "{!r} repeats the judge's question instead of answering it",
        "Say what the submission must contain to be scored so",
    ),
)
