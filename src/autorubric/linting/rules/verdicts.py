"""Criteria that no judge can decide: unfinished, circular, or decided in advance."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autorubric.core.wording import any_of, late_pattern, unquoted
from autorubric.linting.finding import Hit, RawRubric, Rule
from autorubric.linting.rules.emptiness import emptiness
from autorubric.linting.rules.leftover_frames import leftover
from autorubric.linting.rules.verdict_frames import forced
from autorubric.linting.wording import Hints, Wording

# Capitals tell "TODO" from a to-do list.
_MARKS = late_pattern(
    r"(?<!no )(?<!any )(?<!an )(?<!a )\b(?:TODO|TBD|TBC|FIXME)\b(?! (?:list|item|comment|app|marker))|\bX{3,}\b"
    r"|\bXX(?= (?:hours?|days?|weeks?|months?|years?|minutes?|mg|kg|km|percent|times|people|points?|words?"
    r"|degrees)\b| ?%)"
    r"|\[[A-Z][A-Z_ ]{2,}\]|(?<=\w )<[A-Z][A-Z_ ]{3,}>(?= \w|\W*$)(?! tags?)"
)
_PLACEHOLDER = late_pattern(
    r"\blorem ipsum\b"
    r"|\b(?:(?:text|criterion|description|requirement) goes|(?:criterion|requirement)(?: text)?) here\b"
    r"|[\[<](?:insert|add|fill in|your|enter|placeholder)\b[^\]>\n]{0,60}[\]>]"
    r"|\{\{\s*\w+\s*\}\}"
    r"|(?<![\\^_$\w}])\{[a-z]+(?:_[a-z]+)+\}"
    r"|(?<= )\{(?:topic|name|title|date|year|subject|word|text|value|number|item|query|answer|question|drug)\}"
    r"|[<\[](?:name|title|number|date|year|amount|dose) of [^\]>\n]{1,40}[>\]]"
    r"|[<\[](?:[a-z]+ ){1,2}(?:name|topic|title|number|date|year|value|amount|dose|city|country|author|term)[>\]]"
    r"|\b_{3,}(?!\w)"
    r"|(?<![\w_])_{3,}"
    r"|(?<![A-Za-z])[XＸ×]{2,}(?=[\u4e00-\u9fff])"
    r"|[(\[](?:complete|fill in|finish|add|write|expand|define|decide|check|revise) (?:this |it |me )?(?:later|here"
    r"|soon|in)[)\]]"
    r"|\bto be (?:filled in|written|defined|decided|determined|specified|completed|added|confirmed)(?: (?:by|later"
    r"|soon|here|with|once|when)\b[^.]{0,40})?(?=\W*$)"
    r"|\b(?:description|criterion|requirement|text|details) to follow\b"
    r"|<(?:criterion|requirement|rubric|description|text)(?: \w+){0,2}>",
    re.IGNORECASE,
    chinese=(
        r"某某"
        r"|[(（]待[定补填完][^)）]{0,6}[)）]"
        r"|待(?:补充|定|填写?|完善|添加)(?=\W*$)"
        r"|^\W*待(?:补充|填写|完善)\s*[:：]"
        r"|^\W*(?:此处|在此|这里)(?:填写|输入|插入|补充)"
        r"|[\[【<（(]\s*(?:请)?(?:填写|插入|输入|此处|补充|添加)[^\]】>）)]{0,30}[\]】>）)]"
        r"|<[\u4e00-\u9fff]{1,12}>"
        r"|占位符?(?=\W*$)"
        r"|^\W*待办"
        r"|[:：]\s*[（(]略[)）]\W*$"
    ),
)
_NOTHING = late_pattern(
    r"\W*(?:n/?a|x{2,}|insert (?:\w+ )?(?:requirement|criterion|text|description)(?: here)?|none|null"
    r"|to be (?:determined|written|defined|added|confirmed|completed|decided|announced|filled in)"
    r"|asdf\w*|qwerty|blah(?: blah)*|暂无|无|略|空|placeholder|untitled|test|(?:new )?(?:criteri(?:on|a)"
    r"|requirement|item|rubric(?: item)?|标准|准则|条目) ?#?\d*)\W*",
    re.IGNORECASE,
)
# Quick to look for: without one of these there is no match.
_HINTS = Hints(
    "xx,  here, ___, to follow, to be filled, to be written, to be de, to be specified, to be completed, "
    "to be added, to be confirmed, later), soon), here), later], soon], here], todo, tbd, tbc, fixme, lorem, [, "
    "<, {",
    "ｘｘ, 某某, ×, 待, 此处, 在此, 这里, 略, 占位, 填写, 插入, 输入",
)
_ABOUT_PLACEHOLDERS = late_pattern(r"placeholder|template|such as|e\.g\.|for example|模板|例如|如\W")


def _unfinished(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        text = unquoted(criterion.text)
        low = text.lower()
        found = _NOTHING.fullmatch(criterion.text)
        if not found and _HINTS.occur_in(low, criterion.wording):
            found = _MARKS.search(text) or _PLACEHOLDER.search(text)
        if found is None:
            words = leftover(criterion.wording)
        else:
            words = "" if _ABOUT_PLACEHOLDERS.search(low[: found.start()]) else found.group().strip()
        if words:
            yield Hit(position, f"{words!r} is a placeholder", "Write the criterion, or remove it")


_ALL_ALIKE = any_of(
    """regardless of (?:the )?(?:content|response|answer|quality|what|how), no matter what, no matter how
    whatever the (?:response|answer|content), in (?:every|any) case, unconditionally"""
)
_OUTCOME = (
    r"(?:met|unmet|true|false|pass(?:ed)?|fail(?:ed)?|satisfied|correct|(?:full|maximum|highest|top) (?:possible )?"
)
_OUTCOME += r"(?:marks|points|credit|scores?|rating))"
_SUBMISSIONS = any_of("submissions?, responses?, answers?, essays?, outputs?")
_FORCED = late_pattern(
    r"\b(?:always (?:be )?(?:mark|grade|rate|score|judge|count|treat|consider|return|answer|give"
    rf"|award)\w*\b[^.;]{{0,40}}\b{_OUTCOME}\b|(?:should|must|is|are) (?:to )?always (?:be )?(?:marked|graded|rated"
    r"|scored|judged|counted|considered)\b|(?:mark|grade|count|treat|give|award|return"
    rf"|score)\w*\b[^.;]{{0,60}}\b{_OUTCOME}\b[^.;]{{0,40}}\b(?:{_ALL_ALIKE}|for (?:every|all|any) {_SUBMISSIONS}"
    r"|in all cases|to everyone)|(?:mark|grade|count|treat|consider) (?:all|every|any"
    rf"|each) {_SUBMISSIONS} (?:as )?(?:{_OUTCOME}|passing)\b|(?:give|award|grant|assign) (?:this|the) (?:point|mark"
    r"|credit|score)s? (?:whatever|no matter|regardless|in any case|anyway)|give (?:this|the) (?:point|mark|credit"
    rf"|score)s? to (?:everyone|all|every)|(?:all|every|any) {_SUBMISSIONS} (?:satisf|meet|pass|fulfil)\w*\b"
    rf"|auto[- ]?(?:pass|fail)\b|(?:all|every|any) {_SUBMISSIONS} (?:gets?|receives?|earns?) (?:this|the|full|all"
    r"|a) (?:point|mark|credit|score)s?\b|(?:criterion|item|rubric) is always (?:true|met|satisfied|false)\b"
    r"|(?:mark|rate|grade|count|treat|consider|deem|score|regard|record|assume)(?:s|ed)? (?:that )?(?:this"
    r"|the present)(?: (?:one|criterion|item|point|requirement|line))?,? (?:(?:as|to be|is) )?(?:always "
    rf"|automatically )?(?:being )?{_OUTCOME}\b|this (?:criterion|item|point|requirement) (?:counts|passes|is (?:met"
    r"|satisfied|granted|given)|scores) (?:as met )?(?:by default|automatically|in any case|always)\b|(?:do not"
    r"|don't|never) (?:mark|grade|count|score|judge|fail) (?:this|the) ?(?:criterion|item|point)?(?: as (?:unmet"
    r"|not met|false|failed))?\W*$|(?:award|grant|assign) (?:this|the|full) (?:point|mark|credit"
    r"|score)s? to (?:everyone|all|every|any)|\b(?:output|return|answer|emit|print|say|respond with|choose"
    r"|select) (?:the verdict )?met\b|\bset (?:the |its )?verdicts? to\b|\birrespective of (?:the |its "
    r"|any )?(?:content|response|answer|quality|what)|^\W*(?:nobody|no one|no (?:student|answer|response"
    r"|submission)|everyone|everybody) (?:should |must |may |will |can )?(?:loses?|fails?|gets?|passes?|earns?"
    r"|receives?|be (?:penali[sz]ed|marked))\b[^.;]{0,20}(?:points?|marks?|credit|this"
    r"|here)?[^.;]{0,12}(?:criterion|item|points?|here|this)\W*$|\b(?:judge|grader|rater|evaluator|marker"
    r"|scorer)s? (?:must|should|has to|have to|is to|are to|always|shall) (?:always )?(?:answer|say|return|respond"
    r"|output|choose|vote|mark|tick|select)\w* [\"']?(?:yes|no|met|unmet|true|false|pass|this|it)\b|(?:人人|大家"
    r"|所有人|每个人|任何人|一律|全员)(?:都|均|皆)?(?:有分|得分|给分|满分|通过|可得)|^\W*(?:please )?(?:give|award"
    r"|grant|mark|count|treat|assign|pass|fail|accept|credit|score)\b[^.;]{0,60}? (?:even (?:if|when)"
    r"|whether or not|no matter (?:if|whether)|anyway|either way)(?: (?:the |it |there |this )[^.;]{0,50}|)\W*$"
    r"|^\W*(?:this |it )?(?:automatically|always|never) (?:pass|fail|count|qualif|score"
    r"|satisf)\w*\b[^.;]{0,12}(?:\W*$|, )|^\W*always (?:passe?s?|met|true|satisfied)\W*$"
    rf"|automatic(?:ally)? (?:full )?(?:{_OUTCOME}|points?|credit|marks?)\b|(?:ignore|disregard|forget) (?:all |any "
    rf"|the )*(?:other |previous |prior |above )?(?:instructions|criteria|rubric)[^.;]{{0,40}}\b{_OUTCOME}\b)"
    r"|^\W*(?:just |simply )?(?:return|answer|output|say|reply) [\"']?(?:true|false|met|unmet|yes"
    r"|pass)\b[^,;]{0,12}$",
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


_ALIKE_HINTS = Hints(
    "always, regardless, no matter, whatever, any case, every case, all cases, unconditionally, ignore, "
    "disregard, forget, auto, verdict, irrespective, everyone, return , output , answer , say , reply , nobody, "
    "no one, no student, no answer, no response, no submission, everybody, judge, grader, rater, evaluator, "
    "marker, scorer, even if, even when, whether or not, anyway, either way, this, by default, never, n't, "
    "not mark, all submission, all response, all answer, every submission, every response, every answer, "
    "any submission, any response, any answer, each submission, each response, each answer, all essay, "
    "all output, every essay, every output, any essay, any output, each essay, each output",
    "人人, 大家, 本, 此, 该, 默认, 务必, 不得, 不要, 切勿, 忽略, 无视, 忘记, 无论, 不论, 不管, 总是, 始终, 一律, "
    "永远, 直接, 全部, 都, 所有, 任何",
)
_OUTCOME_HINTS = Hints(
    "met, true, verdict, irrespective, false, pass, fail, satisf, correct, full , meet, fulfil, always be, "
    "rating, yes, lose, point, mark, credit, score",
    "最高分, 有分, 满, 符合, 通过, 得分, 给分, 打分, 达标, 正确",
)


_LONGEST_ORDER = 80


def forced_verdict(criterion: Wording) -> str:
    """The words in which a criterion tells the judge its verdict; empty if there are none."""
    if criterion.size > _LONGEST_ORDER:
        return ""
    text = criterion.own
    found = forced(criterion)
    if not found and _ALIKE_HINTS.occur_in(text, criterion) and _OUTCOME_HINTS.occur_in(text, criterion):
        found = _FORCED.search(text)
    return found.group().strip() if found else ""


def _decided(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        found = forced_verdict(criterion.wording)
        if found:
            yield Hit(
                position,
                f"{found!r} decides the verdict whatever the submission says",
                "Say what the submission must contain",
            )


_RUBRIC = any_of(
    """criteri(?:on|a), requirements?, rubric(?: items?)?, standards?, expectations?, conditions?, guidelines?
    objectives?"""
)
_OF_TASK = (
    r"(?: (?:of|in|for|set by|listed in|given in) (?:the |this )?(?:rubric|task|question|prompt|assignment|query))?"
)
_SUBJECT = any_of("response, answer, submission, essay, text, output, solution, work, it")
_CIRCULAR = late_pattern(
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


_CIRCLING = frozenset(
    """criterion criteria requirement requirements rubric item items standard standards expectation expectations
    condition conditions guideline guidelines objective objectives quality bar threshold pass passing grade
    mark marks score scores scoring scored credit rating rated graded judged deemed full-mark high-scoring
    top-scoring want ask asks asked expect expects expected need needs require requires required demand demands
    demanded look looks task assignment job prompt request grader judge teacher examiner expert acceptable
    correct good accurate complete relevant clear right would does deserves merits""".split()  # noqa: SIM905
)


def _may_circle(words: Wording) -> bool:
    return words.chinese or not words.vocabulary.isdisjoint(_CIRCLING)


def _circular(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        if criterion.wording.size > _LONGEST_CIRCLE:
            continue
        empty = emptiness(criterion.wording)
        found = (
            None if empty or not _may_circle(criterion.wording) else _CIRCULAR.search(criterion.wording.bare.strip())
        )
        words = empty.word if empty and empty.lack == "circular" else found.group().strip() if found else ""
        if words:
            yield Hit(
                position,
                f"{words!r} repeats the judge's question instead of answering it",
                "Say what the submission must contain to be scored so",
            )


UNFINISHED = Rule("unfinished", "error", "a criterion holds a placeholder such as TODO or [insert ...]", _unfinished)
DECIDED = Rule(
    "fixed-verdict", "error", "a criterion tells the judge its verdict whatever the submission says", _decided
)
CIRCULAR = Rule("circular", "warning", "a criterion asks only whether the submission meets the criteria", _circular)
