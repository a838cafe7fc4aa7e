"""Frames in which a criterion demands a place, an order, a length or a format, by classes of words."""

from __future__ import annotations

import re

from autorubric.core.wording import any_of
from autorubric.synthesis.thresholds import SurfaceKind

_ORDINAL = any_of("first, second, third, last, final, opening, closing, introductory, concluding, initial")
_PART = any_of("sentence, paragraph, line, section, bullet, word, stanza, heading, page, slide")
_NUMBER = r"(?:\d[\d,]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|half an?|twelve|twenty|fifty)"
_LENGTH = any_of(
    "pages?, paragraphs?, sentences?, lines?, words?, screens?, characters?, bullets?, stanzas?, sections?"
)
_OPENER = any_of(
    """question, summary, hook, quote, quotation, joke, greeting, recap, overview, signature, thesis, call to action
    one-liner, punchline, anecdote, rhetorical question, abstract, tl;dr, sign-off, salutation, list, title"""
)
_FORMAT = any_of(
    """json, xml, yaml, csv, html, haiku, sonnet, limerick, verse, rhyme, couplets, dialogue, tweet, faq, q&a, outline
    flowchart, checklist, capitals, capital letters, upper ?case, lower ?case, all caps, prose, note form
    telegraphic style
    third person, second person, first person, present tense, past tense, imperative mood, timeline"""
)
_PART_ZH = "(?:首段|末段|尾段|首句|末句|开头|结尾|开篇|文末|文首|篇首|篇末|第[一二三四五1-5](?:段|句|行|节))"
FRAMES: dict[SurfaceKind, re.Pattern[str]] = {
    "layout": re.compile(
        rf"^\W*(?:the |its |each |every )?(?:very )?{_ORDINAL} {_PART} (?:of the (?:answer|response|essay|email) )?"
        r"(?:is|has|must|should|may|contains|\w+s)\b"
        rf"|\b(?:with)?in (?:the |its )?(?:very )?{_ORDINAL} (?:{_NUMBER} )?{_PART}s?(?=\W*$|[,;])"
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
        rf"\bno (?:longer|shorter|more|fewer|less) than {_NUMBER} (?:\w+ )?{_LENGTH}\b"
        rf"|\b(?:keeps|limits|restricts|confines|holds|trims|caps) (?:[\w'-]+ ){{1,4}}(?:to|at|under|below"
        rf"|within) (?:at most |under )?{_NUMBER} {_LENGTH}\b"
        r"|^\W*(?:word|character|sentence|page|line|paragraph) (?:limit|count|budget|cap|length)\b"
        rf"|\b(?:minimum|maximum|total) of {_NUMBER} (?:\w+ )?(?:{_LENGTH}|examples?|items?|reasons?|points?"
        rf"|sources?|tips?|steps?|causes?)\b"
        rf"|^\W*(?:the )?(?:answer|response|essay|email|text|summary|poem|it|letter)?\s?(?:is|has|contains|spans"
        rf"|comprises|consists of|runs to|fits (?:on|in)|stays within|uses)"
        rf" (?:only |just |exactly |precisely )?(?!an?\b)(?!one\b){_NUMBER} (?:short |long "
        rf"|full )?{_LENGTH}(?: long)?\b"
        r"|分(?:成|为|作)?[两三四五六七八九十2-9]个?(?:自然)?段"
        r"|(?<!罗)[列举][出举]?[了]?[两三四五六七八九十\d]+\s*[个条项点](?!月|小时|星期|阶段)(?![^，。；]{0,4}(?:国家|城市"
        r"|人))"
    ),
}
"""A pattern for each kind that has frames; criteria are searched in lower case."""
