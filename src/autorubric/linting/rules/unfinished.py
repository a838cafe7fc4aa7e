"""Unfinished criteria: placeholders, and leftovers of drafting such as a generator's own remarks."""

import re

from autorubric.core.wording import compile_late, strip_quotes
from autorubric.linting.criterion_words import Hints, Phrasing
from autorubric.linting.finding import RawCriterion, Rule, apply_to_judged

_MARKERS = frozenset(
    """foo bar baz qux asdf qwerty lorem ipsum dolor blah testing test tmp temp dummy undefined null nan nil blank
    wip tba tbd tbc tk todo fixme placeholder untitled draft sample example template unnamed stub boilerplate
    criterion criteria requirement rubric description delete remove replace insert pending unfinished
    incomplete note notes xyz abc xxx soon later filler copy paste duplicate wording agreed""".split()  # noqa: SIM905
)
_OTHERS = frozenset(
    """the a an this that my your our me it new add write fill edit update change complete enter type describe
    define decide see check ask discuss finalise finalize confirm revisit here do not use to be is in out with
    of for and or text item row title name entry content details goes go coming come follow follows first
    second third another one some empty number no # please anna later needed needs need work up still must
    should same as above below before after line thing things what standard question point section field value
    string hello board exam team learning objective about something by who when tba maria rest world reword
    rephrase expand idea ideas version old""".split()  # noqa: SIM905
)
_MOST = 8
_SLOT = compile_late(
    r"(?<=[ (])\{[a-z][a-z _]{2,30}\}(?![}_^\\])"
    r"|[\[<](?:specific|relevant|your|some|the|a|an|correct|exact|main|key|second|first|another|x|y|n)? ?(?:topic"
    r"|fact|entity|name|thing|detail|keyword|concept|person|place|event|drug|dose|number|year|date|city|country"
    r"|title|word|phrase|quote|term|author|company|product|answer|value|amount|language|item|event|x|y|n|tk|blank"
    r"|placeholder)(?: here| name| \d)?[\]>](?!\(|(?: and \S+)? (?:tags?|elements?|blocks?|sections?)\b)"
    r"|(?<![-/.\w])yyyy\b(?![-/.]| ?mm| format)"
    r"|\?{3,}"
    r"|_{3,}"
    r"|\.{5,}"
    r"|(?:XX|××|○○|〇〇|xx|ｘｘ)(?=[\u4e00-\u9fff])"
    r"|(?<=[\u4e00-\u9fff])(?:XX+|××+|○○+|〇〇+)",
    chinese=(
        r"【[^】]{0,10}(?:内容|名称|要点|主题|填写|具体|某|姓名|数字|时间|地点|关键词)[^】]{0,8}】"
        r"|[（(【\[<]\s*请?(?:在)?(?:此处|这里|此)?(?:填写|输入|插入|补充|添加|替换)"
        r"|某某"
    ),
)
_REMARK = compile_late(
    r"^\W*(?:sure|certainly|of course|okay|ok|absolutely|great)[,!.] (?:here|i|let|this)\b"
    r"|^\W*(?:here|below) (?:are|is) (?:the |\d+ |an? |some |my |your |ten |five "
    r"|another )(?:\w+ ){0,3}(?:criteri|rubric|item|requirement|list|json|evaluation)"
    r"|\b(?:as an ai|as a (?:large )?language model|i(?:'m| am) sorry|i cannot (?:help|assist|generate|create"
    r"|provide))\b"
    r"|^\W*```"
    r"|^\W*(?:json|yaml|end of (?:rubric|criteria|list)|\[/?\w+\]|</?\w+>)\W*$"
    r"|\b(?:fill|write|add|finish|complete|decide|define|check|come back to|flesh out|reword|ask \w+ about) (?:this"
    r"|it|me|these) (?:in |up |out )?(?:later|soon|tomorrow|next week)\b"
    r"|^\W*(?:insert|fill in|write|enter|type|put|paste) [^.;]{2,50} here\W*$"
    r"|^\W*(?:tb[acd]|todo|wip)\b"
    r"|^\W*(?:something|anything|maybe something|a point|stuff) (?:about|on|like|to do with)\b"
    r"|^\W*(?:note to self|reminder|todo|to do|to-do|fixme|wip|tbd|draft)\s*[:：–—-]",
    chinese=(
        r"^\W*(?:此处|本处|这里|该处|本条|此条)?(?:有?待|尚待|等待|需要?)(?:补充|定|填写?|完善|讨论|确认|商议|商定"
        r"|修改|编写|更新|添加)(?=\W|$|中)"
        r"|^\W*(?:示例|样例|测试|新建?|未命名|默认|空白)?(?:的)?(?:评分)?(?:标准|条目|准则|要求|评分项"
        r"|评分点)\s*[一二三四五六七八九十\d]*\W*$"
        r"|^\W*(?:测试|示例|空白|草稿|同上|占位|暂缺|暂无|未完待续|略)\W*$"
        r"|^\W*(?:好的|当然)[，,！!]"
        r"|作为(?:一个)?(?:AI|ai|人工智能)(?:语言)?(?:模型|助手)"
        r"|以下是[^，。；]{0,12}(?:标准|准则|条目|评分)\W*$"
        r"|(?:待|稍后|以后|回头|下周|下次)(?:再)?(?:补充?|填写?|完善|定|讨论|写|改|说|议|添加)\W*$"
        r"|[（(【\[]\s*(?:待|未(?!満))[^）)】\]]{0,6}[）)】\]]"
    ),
)
_PENDING = compile_late(
    r"\bto be (?:agreed|confirmed|finali[sz]ed|discussed|reworded|added|decided|written|defined|completed|updated"
    r"|filled)\b[^.;]{0,40}\W*$"
)
_SLOT_MARKS = Hints(
    "{, [, <, yyyy, ???, ___, ....., xx",
    "(, 【, （, 某某, ××, ｘｘ, ○○, 〇〇",
)


def find_leftover(words: Phrasing) -> str:
    """Return a leftover of drafting in a criterion; empty if there is none.

    Example:
        >>> [find_leftover(Phrasing(text)) for text in ("Delete this row", "Names {city}.", "[city]", "A city.")]
        ['delete', '{city}', '[city]', '']
        >>> [find_leftover(Phrasing(f"Puts the year into {text}")) for text in ("<answer>.", "<answer> tags.")]
        ['<answer>', '']
    """
    tokens = words.tokens
    if 0 < len(tokens) <= _MOST and all(token in _MARKERS or token in _OTHERS or token.isdigit() for token in tokens):
        marker = next((token for token in tokens if token in _MARKERS), "")
        if marker or (len(tokens) > 1 and len(words.vocabulary) == 1):
            return marker or tokens[0]
    text = words.own
    found = _SLOT.search(text) if _SLOT_MARKS.occur_in(text) else None
    if found is None:
        found = _REMARK.search(text)
    if found is None and len(tokens) <= _MOST:
        found = _PENDING.search(text)
    return found.group().strip() if found else ""


# Capitals tell "TODO" from a to-do list.
_MARKS = compile_late(
    r"(?<!no )(?<!any )(?<!an )(?<!a )(?<!every )\b(?:TODO|TBD|TBC|FIXME)\b"
    r"(?! (?:list|item|comment|app|marker|stands|means))|(?<![-(])\bX{3,}\b(?![-)]| (?:chromosome|syndrome))"
    r"|\bXX(?= (?:hours?|days?|weeks?|months?|years?|minutes?|mg|kg|km|percent|times|people|points?|words?"
    r"|degrees)\b| ?%)"
    r"|\[[A-Z][A-Z_ ]{2,}\]|(?<=\w )<[A-Z][A-Z_ ]{3,}>(?= \w|\W*$)(?! tags?)"
)
_PLACEHOLDER = compile_late(
    r"\blorem ipsum(?= dolor|\W*$)"
    r"|\b(?:(?:text|criterion|description|requirement) goes|(?:criterion|requirement)(?: text)?) here\b"
    r"|[\[<](?:insert|add|fill in|your|enter|placeholder)\b[^\]>\n]{0,60}[\]>]"
    r"|\{\{\s*\w+\s*\}\}"
    r"|(?<![\\^_$\w}/])\{[a-z]+(?:_[a-z]+)+\}"
    r"|[<\[](?:name|title|number|date|year|amount|dose) of [^\]>\n]{1,40}[>\]]"
    r"|[<\[](?:[a-z]+ ){1,2}(?:name|topic|title|number|date|year|value|amount|dose|city|country|author|term)[>\]]"
    r"|[(\[](?:complete|fill in|finish|add|write|expand|define|decide|check|revise) (?:this |it |me )?(?:later|here"
    r"|soon|in)[)\]]"
    r"|\bto be (?:filled in|written|defined|decided|determined|specified|completed|added|confirmed)(?: (?:by|later"
    r"|soon|here|with|once|when)\b[^.]{0,40})?(?=\W*$)"
    r"|\b(?:description|criterion|requirement|text|details) to follow\b"
    r"|<(?:criterion|requirement|rubric|description|text)(?: \w+){0,2}>",
    re.IGNORECASE,
    chinese=(
        r"^\W*(?:此处|在此|这里)(?:填写|输入|插入|补充)"
        r"|[\[【<（(]\s*(?:请)?(?:填写|插入|输入|此处|补充|添加)[^\]】>）)]{0,30}[\]】>）)]"
        r"|<[\u4e00-\u9fff]{1,12}>"
        r"|占位符?(?=\W*$)"
        r"|^\W*待办"
        r"|[:：]\s*[（(]略[)）]\W*$"
    ),
)
_NOTHING = compile_late(
    r"\W*(?:n/?a|x{2,}|insert (?:\w+ )?(?:requirement|criterion|text|description)(?: here)?|none|null"
    r"|to be (?:determined|written|defined|added|confirmed|completed|decided|announced|filled in)"
    r"|asdf\w*|qwerty|blah(?: blah)*|暂无|无|略|空|placeholder|untitled|test|(?:new )?(?:criteri(?:on|a)"
    r"|requirement|item|rubric(?: item)?|标准|准则|条目) ?#?\d*)\W*",
    re.IGNORECASE,
)
# A fast pre-check: a text without any of these cannot match.
_HINTS = Hints(
    "xx,  here, ___, to follow, to be filled, to be written, to be de, to be specified, to be completed, "
    "to be added, to be confirmed, later), soon), here), in), later], soon], here], in], todo, tbd, tbc, fixme, "
    "lorem, [, <, {",
    "ｘ, 某某, ×, 待, 此处, 在此, 这里, 略, 占位, 填写, 插入, 输入, 补充, 添加",
)
# A criterion about placeholders says so, also after one: "contains {{name}} exactly once".
_ABOUT_PLACEHOLDERS = compile_late(
    r".+(?:placeholder|template|syntax|variable|parameter|f-string|jinja|mustache|abbreviat|unchanged|untouched"
    r"|verbatim|exactly once|stands for|\bgaps\b|cloze|</|模板)|.*(?:such as|e\.g\.|for example|例如|如\W).*\0",
    re.DOTALL,
)


def _find_placeholder(criterion: RawCriterion) -> str:
    text = strip_quotes(criterion.text)
    low = text.lower()
    found = _NOTHING.fullmatch(criterion.text)
    if not found and _HINTS.occur_in(low):
        found = _MARKS.search(text) or _PLACEHOLDER.search(text)
    word = found.group().strip() if found else find_leftover(criterion.wording)
    # A NUL stands for the placeholder.
    return "" if word and _ABOUT_PLACEHOLDERS.match(low.replace(word.lower(), "\0", 1)) else word


UNFINISHED = Rule(
    "unfinished",
    "error",
    "a criterion contains a placeholder such as TODO or [insert ...]",
    apply_to_judged(_find_placeholder, "{!r} is a placeholder", "Write the criterion, or remove it"),
)
