"""Similarity, quotes and demanded forms in the words of a criterion and a query; forms in English and Chinese."""

import re
import unicodedata
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from autorubric.core.wording import MARKS, NUMBER_WORDS, UNSPACED, count_negations, find_numbers, match_any
from autorubric.synthesis.thresholds import SurfaceKind

_PAIRED = re.compile(f"[{UNSPACED}\uac00-\ud7af]")  # Korean has spaces, but particles are joined to its words
_TOKEN = re.compile(
    rf"[^\W\d_{UNSPACED}](?:[^\W\d_{UNSPACED}]|[{MARKS}])*(?:'[a-z]+)?|\d+(?:\.\d+)?|(?:[{UNSPACED}][{MARKS}]*)+"
)
_STOP = frozenset(
    re.findall(
        "[a-z]+",
        "a an and any are as at be by does each every for from has have in include includes including into is it "
        "its mention mentions must of on or should state states such than that the their this to which with "
        "response answer",
    )
)
_TELLING = frozenset(
    re.findall(
        "[a-z]+",
        "describe describes detail details explain explains give gives identify identifies list lists name names "
        "note notes outline outlines point points present presents provide provides recommend recommends say "
        "says show "
        "shows specify specifies suggest suggests tell tells out clearly explicitly correctly both also",
    )
)
_ZH_TELLING = re.compile(
    "说明|指出|提到|提及|给出|列出|列举|描述|解释|介绍|建议|推荐|强调|说出|应当|应该|必须|需要|明确|是否|了|的|要|应"
)
_ENDINGS = re.compile(r"(?:ies|ing|ed|es|s|ly)$")


def rate_similarity(left: str, right: str) -> float:
    """Return the share of the shorter criterion's words that the other criterion contains, from 0 to 1.

    Chinese, Japanese, Korean and Thai count by pairs of characters. The similarity is 0 if the numbers differ
    ("every 3 months", "every 6 months"), if only one is a negation, or if only the object differs ("recommends
    finasteride", "… minoxidil").
    """
    if find_numbers(left) != find_numbers(right) or bool(count_negations(left)) != bool(count_negations(right)):
        return 0.0
    if _is_contrast(left, right):
        return 0.0
    mine, others = _collect_word_parts(left), _collect_word_parts(right)
    return len(mine & others) / min(len(mine), len(others)) if mine and others else 0.0


def _is_contrast(left: str, right: str) -> bool:
    """Return whether two wordings differ only in their object: one sequence of words is replaced by another."""
    mine, others = _list_content_words(left), _list_content_words(right)
    if mine == others:
        return False
    changes = [op for op in SequenceMatcher(None, mine, others, autojunk=False).get_opcodes() if op[0] != "equal"]
    return len(changes) == 1 and changes[0][0] == "replace"


def _list_content_words(text: str) -> list[str]:
    """Return the content words of a criterion in order, without verbs such as "states" or "mentions"."""
    found = list[str]()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).lower()):
        if _PAIRED.match(token):
            found.extend(_ZH_TELLING.sub("", token))
        elif token not in _STOP and token not in _TELLING and token not in NUMBER_WORDS and not token[0].isdigit():
            found.append(_ENDINGS.sub("", token) if len(token) > 4 else token)
    return found


def has_quote(text: str, quote: str) -> bool:
    """Return whether a text contains the quoted words, ignoring case, spaces and punctuation."""
    bare = _strip_marks(quote)
    return bool(bare) and bare in _strip_marks(text)


def _strip_marks(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


@lru_cache(4096)
def _collect_word_parts(text: str) -> frozenset[str]:
    parts = set[str]()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).lower()):
        if _PAIRED.match(token):
            parts.update(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        elif token not in _STOP and token not in NUMBER_WORDS and not token[0].isdigit():
            parts.add(_ENDINGS.sub("", token) if len(token) > 4 else token)
    return frozenset(parts)


_QUOTED = re.compile("[\"“「『]([^\"”」』]{1,120})[\"”」』]|(?<!\\w)['‘]([^'’]{2,120})['’](?!\\w)")
_UNITS = (
    "words?|sentences?|paragraphs?|bullets?|bullet points?|items?|examples?|sections?|headings?|lines?|tips?|"
    "characters?|questions?|entries|rows?|columns?"
)
_NUMBER = (
    r"(?:\d[\d,]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|(?:\w+[ -]){0,3}(?:hundred|thousand)"
    r"(?:(?: and)? [a-z]+(?:-[a-z]+)?)?)"
)
_LENGTHS = r"(?:words?|sentences?|paragraphs?|bullets?|lines?|characters?|pages?|tokens?|letters?)"
_ZH_NUMBER = r"[\d一二两三四五六七八九十百]+"
_ZH_EXACTLY = "(?:恰好|正好|刚好|不多不少|整整)"
_MANY = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve)"
_MEASURED = (
    r"(?:hundred|thousand|million|(?:\w+ )?(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|times|"
    r"doses?|"
    r"tablets?|pills?|drops?|degrees?|percent|per cent|points?|grams?|milligrams?|litres?|liters?|metres?|meters?))\b"
)
_ZH_GIVE = "(?:列出|给出|举出|写出|提供|介绍|分成|分为)"

# Words of a criterion that demand a form for its own sake. They alone can reject a criterion, so they must not match
# substance: a hash table, a bold claim, exactly two solutions, a book title.
_FORMS: dict[SurfaceKind, re.Pattern[str]] = {
    "phrase": re.compile(
        r"\b(?:exact|literal|verbatim)(?:ly)? (?:the )?"
        r"(?:phrase|phrasing|words|wording|term|sentence|expression|line)\b"
        r"|\bverbatim\b|\bword for word\b"
        r"|\b(?:contains?|includes?|uses?|says|has|features?|writes?) "
        r"the (?:phrase|sentence|words?|line|wording) [\"“'‘]"
        r"|\b(?:ends?|begins?|starts?|opens?|closes?|concludes?|signs? off) with (?:the |an? )?(?:\w+ )?"
        r"(?:line|sentence|phrase|words|statement|disclaimer|remark|offer|invitation|greeting|[\"“'‘])"
        r"|逐字|一字不差|原封不动|(?:字样|原话|固定(?:语句|句子|短语|表述))"
        r"|[”」』]\s*(?:这|一)(?:一|句|个|四个字)*(?:句话|话|短语|词组|字|句式|表述|说法)"
        r"|(?:以|用)\s*[“「『][^”」』]+[”」』]\s*(?:开头|结尾|收尾|结束|作结)"
        r"|(?:开头|结尾|末尾)处?(?:要|须|应)?(?:写上|写明|加上|附上|使用)\s*[“「『]",
        re.IGNORECASE,
    ),
    "heading": re.compile(
        r"\b(?:sub)?headings?\b|\bsubheads?\b"
        r"|\b(?:section|paragraph|part|block) (?:titled|called|named|labell?ed|headed)\b"
        r"|\b(?:under|with|has|have|bears?|carries) (?:a |the )?(?:separate |own )?titles?\b"
        r"|(?:小|副|大|二级|一级)?标题|(?:题为|标为)\s*[“「『《]",
        re.IGNORECASE,
    ),
    "count": re.compile(
        rf"\b(?:exactly|precisely|no more and no fewer than) \w+ (?:\w+ ){{0,2}}(?:{_UNITS})\b"
        rf"|\b(?:at least|at most|no more than|no fewer than|between \w+ and) "
        r"\w+ (?:words|sentences|paragraphs|bullets)\b"
        r"|\b(?:under|below|over|above|more than|less than|fewer than|up to|within|maximum of|limit\w* (?:\w+ "
        r"){0,2}to|"
        r"exceed(?:s|ing)?|beyond|around|about|roughly|approximately|shorter than|longer than|at least|at most|"
        rf"no more than|no fewer than|only|just|in|between {_NUMBER} and) {_NUMBER} {_LENGTHS}\b"
        rf"|\b{_NUMBER}[- ](?:word|sentence|paragraph|line|character|page)s?(?:[- ](?:or (?:less|fewer|more)|"
        rf"long|limit|"
        r"cap|maximum|minimum|in length|at (?:the )?most|at (?:the )?least))\b"
        rf"|\b(?:word|character|line|sentence) count\b[^.;]{{0,30}}{_NUMBER}\b|\bfits? (?:on|onto|in) (?:a|one) "
        r"(?:single )?(?:page|screen|paragraph|tweet)\b"
        rf"|\b(?:names|lists|gives|provides|includes|describes|mentions) (?:exactly|precisely) {_NUMBER}\b"
        rf"|\b(?:lists|enumerates|gives|provides|offers) (?:at least |at most )?{_MANY}\b(?! {_MEASURED}|-)"
        rf"|(?<!\w)[\"“'‘][^\"”'’]{{1,60}}[\"”'’](?: \w+){{0,3}} {_NUMBER} (?:or more )?times\b"
        rf"|[”」』][^，。；,;]{{0,4}}(?:出现|使用|提到|重复)[^，。；,;]{{0,4}}{_ZH_NUMBER}\s*次"
        rf"|(?!(?:至少|不少于)?举出(?:至少|不少于)?{_ZH_NUMBER}\s*种)(?:{_ZH_GIVE}(?:至少|不少于|最多|至多)|(?:至少|不少于|最多|至多){_ZH_GIVE}){_ZH_NUMBER}\s*[个项条种点例]"
        rf"|{_ZH_EXACTLY}[^，。；,;]{{0,6}}{_ZH_NUMBER}\s*(?:[条句段字行]|点(?!钟))"
        rf"|(?:{_ZH_GIVE}{_ZH_EXACTLY}|{_ZH_EXACTLY}{_ZH_GIVE}){_ZH_NUMBER}\s*[个步种项]"
        rf"|(?:不少于|不多于|不超过|少于|多于|低于|超过|大于|小于|至少|至多|最多|控制在|限制在|限于|"
        rf"保持在)[^，。；,;]{{0,4}}"
        rf"{_ZH_NUMBER}\s*个?\s*(?:[句段字词行页]|单词|汉字|字符)"
        rf"|{_ZH_NUMBER}\s*个?\s*(?:句话|[句段字词行页]|单词|汉字|字符)\s*(?:以内|之内|以下|以上|左右|上下|内)"
        rf"|(?:字数|篇幅|长度)[^，。；,;]{{0,8}}{_ZH_NUMBER}\s*(?:[句段字词行页]|单词)"
        rf"|字数[^，。；,;]{{0,6}}{_ZH_NUMBER}|(?:分为|分成|写成|包含|共){_ZH_NUMBER}个?(?:自然段|段落)",
        re.IGNORECASE,
    ),
    "layout": re.compile(
        r"\b(?:bulleted|numbered|unordered|bullet)[- ](?:list|points?|items?|steps?)\b"
        r"|\b(?:in|as|with|uses?) bullets\b"
        r"|\b(?:in|as|uses?|with|contains?|presents?|draws?|provides?|includes?|adds?|has|gives?|builds?) an? "
        r"(?:(?!(?:hash|lookup|truth|routing|symbol|database|temporary|page|periodic|lookup)\b)[\w-]+ ){0,3}"
        r"(?:table|tabular form|matrix layout)\b"
        r"|\btabulates\b|\b(?:two|three|four|five|\d)[- ]column(?:ed)?\b|\bin (?:two|three|four|separate|"
        r"parallel) columns\b"
        r"|\bside[- ]by[- ]side (?:table|columns?|layout|comparison table)\b"
        r"|\b(?:in|uses?|using|of) bold\b|\bbold(?:ed|face)\b"
        r"|\bbold (?:text|font|type|letters|heads?|(?:sub)?headings?)\b"
        r"|\b(?:italics?|italici[sz]ed|underlined|markdown|latex|boxed|code blocks?|emojis?)\b"
        r"|\b(?:in|within|as) (?:its|the) (?:very )?(?:first|opening|second|third|last|final|closing) "
        r"(?:paragraph|sentence|line|section)\b(?! of the (?:passage|text|poem|document|story|article))"
        r"|\b(?:on|in) (?:a|its|their) (?:separate|own|single|new) (?:line|paragraph)s?\b|\bline breaks?\b"
        r"|(?:编号|有序|无序)列表|[两双三四2-4][列栏](?:的)?(?:表|对照|排版|布局|呈现|形式)|"
        r"分[两三四2-4][列栏]|对照表|"
        r"项目符号|分点(?:列出|呈现|作答)|表格|加粗|粗体|斜体|下划线|代码块|单独(?:一|成)(?:行|段)|表情符号"
        r"|\btl;?dr\b|\bnumbers (?:its|the|each|every) (?:steps?|points?|items?|sections?|paragraphs?)\b"
        r"|\bwritten (?:\w+ )?in the (?:first|second|third) person\b"
        r"|阿拉伯数字|(?:步骤|要点|段落)[^，。；]{0,6}编号|以(?:一个|一句)?(?:问句|疑问句|反问句?|名言)(?:开头|开篇|结尾|收尾)",
        re.IGNORECASE | re.ASCII,  # so that a Latin word ends where Chinese begins
    ),
    "link": re.compile(
        r"\b(?:urls?|hyperlinks?|web ?links?|web ?address(?:es)?|https?)\b|\b(?:working|clickable|direct|"
        r"external|valid|"
        r"embedded|inline|live) links?\b|\blinks? to (?:(?:the|an?|its|each|every|all|at|least|one|two|three|"
        r"official|"
        r"primary|original|relevant|further) ){0,4}(?:sources?|stud(?:y|ies)|articles?|web ?sites?|web ?pages?|"
        r"pages?|"
        r"guidelines?|documentation|papers?|resources?|references?)\b"
        r"|(?:超链接|网页链接|链接地址|网址|(?:附上?|提供|给出|包含|含有|插入|列出|加上)[^，。；]{0,12}链接)",
        re.IGNORECASE | re.ASCII,
    ),
}

# Frames in which a criterion demands a place, an order, a length or a format; searched in lower case.
_ORDINAL = match_any("first, second, third, last, final, opening, closing, introductory, concluding, initial")
_PART = match_any("sentence, paragraph, line, section, bullet, word, stanza, heading, page, slide")
_AMOUNT = r"(?:\d[\d,]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|half an?|twelve|twenty|fifty)"
_LENGTH = match_any(
    "pages?, paragraphs?, sentences?, lines?, words?, screens?, characters?, bullets?, stanzas?, sections?"
)
_OPENER = match_any(
    """question, summary, hook, quote, quotation, joke, greeting, recap, overview, signature, thesis, call to action
    one-liner, punchline, anecdote, rhetorical question, abstract, tl;dr, sign-off, salutation, list, title"""
)
_FORMAT = match_any(
    """json, xml, yaml, csv, html, haiku, sonnet, limerick, verse, rhyme, couplets, dialogue, tweet, faq, q&a, outline
    flowchart, checklist, capitals, capital letters, upper ?case, lower ?case, all caps, prose, note form
    telegraphic style
    third person, second person, first person, present tense, past tense, imperative mood, timeline"""
)
_PART_ZH = "(?:首段|末段|尾段|首句|末句|开头|结尾|开篇|文末|文首|篇首|篇末|第[一二三四五1-5](?:段|句|行|节))"
_FRAMES: dict[SurfaceKind, re.Pattern[str]] = {
    "layout": re.compile(
        rf"^\W*(?:the |its |each |every )?(?:very )?{_ORDINAL} {_PART} (?:of the (?:answer|response|essay|email) )?"
        r"(?:is|has|must|should|may|contains|\w+s)\b"
        rf"|\b(?:with)?in (?:the |its )?(?:very )?{_ORDINAL} (?:{_AMOUNT} )?{_PART}s?(?=\W*$|[,;])"
        r"|^\W*(?:\w+ ){1,8}?(?:at|by|near|towards?) (?:the|its) (?:very )?(?:start|beginning|end|top|bottom|outset"
        r"|close)"
        r"(?: of (?:the|its) (?:answer|response|reply|essay|email|letter|text|report|summary))?\W*$"
        r"|\b(?:begins|starts|ends|opens|closes|prefixes|numbers) (?:every|each|all)(?: of its)? "
        r"(?:steps?|sentences?|items?|lines?|paragraphs?|bullets?|points?)\b"
        rf"|\b(?:opens|begins|starts|ends|closes|concludes|leads|finishes) with (?:an? )(?:[\w-]+ "
        rf"){{0,3}}?{_OPENER}\b"
        r"|^\W*(?:the |its )?\w+ (?:comes?|appears?|is placed|is given|stands?|precedes?|is put) "
        r"(?:(?:directly |right )?(?:before|after|above|below)|first|last|the|at|in the)\b"
        rf"|\b(?:answers?|responds?|repl(?:y|ies)|is written|written|formatted|returned|presented|outputs?|is given) "
        rf"(?:only |entirely |solely )?(?:in|as|using) (?:an? |valid |a valid |pure |rhyming |the )*{_FORMAT}\b"
        r"|\b(?:horizontal rules?|divider lines?|blank lines? between|white ?space between|all[- ]caps|indented"
        r"|cent(?:re|er)ed(?! on| around))\b"
        rf"|^\W*(?:回答|文章|全文)?(?:在|应在|于)?{_PART_ZH}(?:处|中|里)?(?:就|应|须|要|先|必须)?"
        r"(?:点|给|说|写(?!上|明)|提|交代|总结|概括|列|用|使用|引用|呼应|指|明|回|介绍|重申|设)"
    ),
    "count": re.compile(
        rf"\bno (?:longer|shorter|more|fewer|less) than {_AMOUNT} (?:\w+ )?{_LENGTH}\b"
        rf"|\b(?:keeps|limits|restricts|confines|holds|trims|caps) (?:[\w'-]+ ){{1,4}}(?:to|at|under|below"
        rf"|within) (?:at most |under )?{_AMOUNT} {_LENGTH}\b"
        r"|^\W*(?:word|character|sentence|page|line|paragraph) (?:limit|count|budget|cap|length)\b"
        rf"|\b(?:minimum|maximum|total) of {_AMOUNT} (?:\w+ )?(?:{_LENGTH}|examples?|items?|reasons?|points?"
        rf"|sources?|tips?|steps?|causes?)\b"
        rf"|^\W*(?:the )?(?:answer|response|essay|email|text|summary|poem|it|letter)?\s?(?:is|has|contains|spans"
        rf"|comprises|consists of|runs to|fits (?:on|in)|stays within|uses)"
        rf" (?:only |just |exactly |precisely )?(?!an?\b)(?!one\b){_AMOUNT} (?:short |long "
        rf"|full )?{_LENGTH}(?: long)?\b"
        r"|分(?:成|为|作)?[两三四五六七八九十2-9]个?(?:自然)?段"
        r"|(?<!罗)[列举][出举]?[了]?[两三四五六七八九十\d]+\s*[个条项点](?!月|小时|星期|阶段)(?![^，。；]{0,4}(?:国家|城市"
        r"|人))"
    ),
}

# Words with which a criterion demands a statement, such as about a limit that others set.
_TOLD = re.compile(
    r"\b(?:states?|says?|explains?|mentions?|notes?|warns?|tells?|points? out|specif(?:y|ies)|clarif(?:y|ies)|"
    r"indicates?|"
    r"argues?|advises?|recommends?|suggests?|reports?|shows?|describes?)\b[^.;]*?\b(?:that|how|why|whether|"
    r"what|which|when)\b"
    r"|(?:说明|指出|提到|提及|解释|强调|提醒|告知|告诉)[^，。；]*$",
    re.IGNORECASE,
)

# Words with which a query asks for such a form.
_ASKED: dict[SurfaceKind, re.Pattern[str]] = {
    "phrase": re.compile(
        r"\b(?:phrase|wording|verbatim|word for word|exact words|say|include|use|mention|contain|end|begin|start)\b"
        r"|包含|使用|写上|出现|逐字|原话|开头|结尾",
        re.IGNORECASE,
    ),
    "heading": re.compile(
        r"\b(?:sub)?(?:headings?|titles?|titled|sections?|headed)\b|标题|题目|小节|章节", re.IGNORECASE
    ),
    "count": re.compile(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b|[一二两三四五六七八九十]"
    ),
    "layout": re.compile(
        r"\b(?:lists?|bullets?|bullet points?|numbered|table|tabular|bold|italics?|markdown|latex|format(?:ted)?|"
        r"layout|columns?|code block|line by line|separate lines?|paragraphs?|emojis?|tl;?dr|"
        r"(?:first|second|third)[- ]person)\b"
        r"|列表|列出|表格|加粗|粗体|格式|排版|分点|编号|分行|表情|代码块|段|数字|开头|开篇|结尾",
        re.IGNORECASE | re.ASCII,
    ),
    "link": re.compile(
        r"\b(?:links?|urls?|hyperlinks?|web ?sites?|web|sources?|references?|cite[sd]?|citing|citations?|"
        r"bibliography)\b"
        r"|链接|网址|来源|出处|参考|引用|网站|文献",
        re.IGNORECASE | re.ASCII,
    ),
}


class Form(NamedTuple):
    """A form that a criterion demands.

    Attributes:
        kind: phrase, heading, count, layout or link.
        words: the words of the criterion that demand it.
        asked: whether the query asks for such a form too.
    """

    kind: SurfaceKind
    words: str
    asked: bool


_MEASURES = frozenset({"count", "layout", "link", "heading"})


def find_forms(criterion: str, query: str) -> list[Form]:
    """Find the forms that a criterion demands, each with whether the query asks for it."""
    found = ((kind, pattern.search(criterion) or _find_frame(kind, criterion)) for kind, pattern in _FORMS.items())
    return [
        Form(kind, match.group(), _is_asked(kind, criterion, query))
        for kind, match in found
        if match and not (kind in _MEASURES and _TOLD.search(criterion, 0, match.start()))
    ]


def _find_frame(kind: SurfaceKind, criterion: str) -> re.Match[str] | None:
    frames = _FRAMES.get(kind)
    return frames.search(criterion.lower()) if frames else None


def _is_asked(kind: SurfaceKind, criterion: str, query: str) -> bool:
    """Return whether the query asks for the form: a phrase in the same words, a count with the same number."""
    if kind == "phrase":
        quoted = [first or second for first, second in _QUOTED.findall(criterion)]
        if quoted:
            return any(has_quote(query, words) for words in quoted)
    if kind == "count":
        numbers = find_numbers(criterion)
        if numbers:
            return bool(numbers & find_numbers(query))
    return bool(_ASKED[kind].search(query))
