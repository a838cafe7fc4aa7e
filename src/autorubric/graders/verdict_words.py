"""Verdicts and options in words: what one value says, labelled fields in a text, and what its sentences state."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, TypeAlias

from autorubric.core.judgment import TRUTH_WORDS, VERDICT_WORDS, CriterionVerdict
from autorubric.core.wording import compile_late, fold_text
from autorubric.files.strict_yaml import parse_yaml
from autorubric.graders.judge import MENTIONED, REPLIED, UNCHECKED, ShownOptions
from autorubric.llm.reply_json import describe_form, scan_json

MET, UNMET, CANNOT_ASSESS = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS
Stated: TypeAlias = CriterionVerdict | int
"""A verdict, or the index of an option."""

_QUOTES = " .…*`'\"“”「」【】『』[]\ufe0f"
MARKS = dict.fromkeys("✅✓✔☑", MET) | dict.fromkeys("❌✗✘✖☒", UNMET)
"""Marks next to a word for a verdict; alone, one may also mean that a pitfall was avoided."""
_PARTS = re.compile(rf"[()]|/(?!\d)|, ?(?=confidence)|(?<=[{''.join(MARKS)}])|(?=[{''.join(MARKS)}])")
_SURE = r"(?:high|(?:[5-9]\d(?:\.\d+)?|100) ?%|0?[.,][5-9]\d*|1[.,]0+|[45]/5|(?:[89]|10)/10)"
_CONFIDENCE = re.compile(rf"(?:high )?(?:confidence|konfidenz|置信度)(?: ?[:=]? ?{_SURE})?|{_SURE} confiden(?:t|ce)")
_SEPARATORS = re.compile(r"[\s_\-\\]+")
_STATUSES = VERDICT_WORDS | MARKS
_ANSWERS = _STATUSES | TRUTH_WORDS
_LANGUAGES = parse_yaml(files(__package__).joinpath("verdict_sentences.yaml").read_text("utf-8"), "the sentences")


def _join_words(kind: str) -> str:
    """The alternatives of all languages for one kind of words."""
    return "|".join(patterns[kind] for patterns in _LANGUAGES.values() if kind in patterns)


def _join_sentences(kind: str) -> str:
    """The alternatives of all languages for one kind of sentence; whole words in languages with spaces."""
    spaced, unspaced = list[str](), list[str]()
    for name, patterns in _LANGUAGES.items():
        (unspaced if name in ("zh", "ja", "ko") else spaced).append(patterns.get(kind, r"\b\B"))
    return "|".join((rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)", *unspaced))


_LABEL = (
    rf"(?P<label>(?:(?:{_join_words('led')})[ _,，]*)*(?:{_join_words('label')}|c\d+|criterion[ _]\d+)"
    r"(?: final| النهائي| d\w+ [ck]rit[eéè]r\w+)?)"
)
KEY = re.compile(_LABEL, re.IGNORECASE)
"""A key or label that may state a verdict."""
_OF_VERDICT = re.compile(r"verdict|status|met|judge?ment|boxed|\[|判|Urteil", re.IGNORECASE)
_ANEW = re.compile(r"correction|更正|final", re.IGNORECASE)
_NUMBER = re.compile(r"\W*(?:[2-9]|\d\d)[\d.,]*[^\w/%]*")
_SENTENCE = re.compile(r"\w\W+\w+\W+\w|(?:[\u3040-\ud7a3] ?){6}")
OF_ANYTHING = ("true", "false", "satisfied", "not satisfied", True, False)
"""Words that are a verdict only under a label for verdicts."""
_TRUTH = "|".join(filter(str.isalpha, TRUTH_WORDS))
_ANSWERS_ANEW = re.compile(
    rf"(?i)\W*(?:(?:{_TRUTH})(?!\w| \w)|(?:not|or|never|is|as(?! both| all)|hard|(?:\w+ )?would)\b"
    r"|.*(?:[?？]|(?:\b(?:no|not|nicht|pas|to)|n['’]t)\W*$))"
)
"""The beginning of another answer, a question, or a line that ends with a negation."""
_TWO_WORDS = re.compile(r"\w\w\W+\w\w|[\u3040-\ud7a3]{4}")
_BECAUSE = _join_sentences("because")
_FACT = re.compile(
    rf"(?i){_BECAUSE}|(?:{_join_sentences('subject')})(?! (?:opposite|reverse|contrary|contraire|gegenteil|contrario"
    r"|verdict|jud\w+|criterion|requirement|example|but|except|if|in|for|when|once|depends|can|cannot|could|way"
    r"|longer|(?:is|was) no way|lo|del|se|estoy|\w+ (?:tell|ask|want|claim|say)s?)\b)"
)
"""The beginning of a statement about a submission; other words may limit a verdict ("at best") or report it."""
_EDGE = r"(?:[ \t*_`\"'“”|\]]|\[(?!\s*\]))*+"
_IS = r"(?:[ \t*_`\"'”]*+为?[:：=|]|(?P<loose> is:?(?= )| [-–—](?= )|】|[为是は은는]))"
_VALUE = r"(?P<value>(?:(?!\[\[)(?:[^\n<|\\]|\\_)){1,80}?)"
_COPULA = "(?:です|でした|である|입니다|이다)"
_ENDS = rf"[^\w\n<.。!?？]*+(?:$|[<。!]|\.(?!\.)|(?:because|since|as)\b|{_COPULA})"
_FIELDS = [
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"^(?:[^\w\n<]|_)*+(?:\d\d?[.)][^\w\n<]*)?{_LABEL}{_IS}{_EDGE}(?:option )?{_VALUE}{_EDGE}"
        rf"{_COPULA}?(?:(?<!\d)[.。])?,?$",  # Markdown, YAML, a row of a table
        rf"^#+ *{_EDGE}{_LABEL}{_EDGE}\n+{_EDGE}{_VALUE}{_EDGE}$",  # a heading
        rf"<{_LABEL}>\s*{_VALUE}\s*</\w+>(?={_ENDS})",
        rf"(?P<label>\\boxed)\{{(?:\\\w+\{{)?(?P<value>[^\n<|{{}}]{{1,80}})\}}(?={_ENDS})",
        rf"\[(?P<label>result)\][\s(]*{_VALUE}\W*\Z",  # Prometheus
        rf"(?P<label>\[)\[{_VALUE}\]\][ *_.]*$",  # MT-Bench, Arena-Hard
        rf"(?<=[.!。！] )[*_`]*+{_LABEL}[*_`]*+[:：][ *_`]*+(?P<value>[\w ]{{1,40}})[*_`]*\.?[*_`]*\Z",
        r"(?:[ \n*_`](?<=[.!。！]\n|[:：][ \n*_`])|：(?=\w))[ \n*_`]*+(?P<label>)"
        r"(?P<value>(?:un|not )?met|cannot[ _]assess)[*_`]*\.?[*_`]*\s*\Z",
    )
]
_ABOVE = re.compile(rf"^{_EDGE}{_LABEL}{_EDGE}[:：]?{_EDGE}\n+{_EDGE}{_VALUE}{_EDGE}$", _FIELDS[0].flags)
"""A label on the line above its verdict; above other words, it is a title."""
CONTRAST = re.compile(
    r"\W*(?:(?:however|but|yet|still|though|aber|doch|jedoch|mais|pero|mas|ma|но)\b|但|然而|不过|しかし|ただし|하지만)",
    re.IGNORECASE,
)
"""The beginning of a text that takes back what comes before it."""
_REASONED = re.compile(
    rf"(?:^[^\w\n<>]*{_LABEL}[*_` ]*[:：]|\A(?!\W*\[)){_EDGE}(?P<value>[^\n<|\\.,;:(。，；：（–—]{{1,40}}?){_EDGE}"
    rf"(?:$|(?:[.;:][*_`]*|(?<=[ *_`])[-–—]+)(?= )|，(?![只没未])|[。；：—]|(?=,? ?(?:{_BECAUSE}))"
    r"|(?=[(（](?:(?:\w+\W+){2}\w|[\u3040-\ud7a3]{4})))"
    rf"(?=(?:(?<![-–—.;:。；：]),? ?(?:{_BECAUSE})| [*_]*(?:reason|explanation|rationale)[*_ ]*:)?"
    r"(?:[\W_]|because\b)*(?P<reason>[^\n]*))",
    re.IGNORECASE | re.MULTILINE,
)
"""A verdict with its reason: "Verdict: MET - it names two" or, at the beginning of a text, "MET. It names two"."""
QUALIFIES = re.compile(
    rf"^{CONTRAST.pattern}|部分|基本|大致|可能|一部|부분|不完全|不[太够足]|\b(\d+) ?(?:/|of|out of) ?(?!\1\b)\d"
    r"|^\W*(?:actually not|not (?:really|quite|fully|entirely|completely|sure|yet))\b"
    r"|^(?:\W*\w+ ){0,2}(?:(?:maybe|if|unless|except)\b|part(?!s|y|ic|n)|most|near|almost|barely|somewhat|borderline"
    r"|probab|likely|perhaps|doubt|seems? so|tentativ|provision|draft|parc|parz|teil"
    r"|(?:at least )?(?:in|to) (?:part|(?:\w+ ){1,2}?(?:degree|extent|respect)))",
    re.IGNORECASE,
)
"""What a word for a verdict may not have next to it."""
IN_BRACKETS = re.compile(r"(?i)(?:\[\[|\\boxed\{(?:\\\w+\{)?|<verdict>)\s*([^\[\]{}<>\n]{1,80})(?:\]\]|\}|<)")
"""A verdict that is marked in a line, whatever governs it."""


def _fold(word: str) -> str:
    return _SEPARATORS.sub(" ", fold_text(word)).lstrip(_QUOTES).rstrip(_QUOTES + "!。！")


def find_verdict(value: Any, *, of_truth: bool = False) -> CriterionVerdict | None:
    """The verdict that a word or truth value states, alone or as a field; None if that is not certain.

    Example:
        >>> find_verdict("Verdict: **Not met**"), find_verdict("partially met")
        (<CriterionVerdict.UNMET: 'UNMET'>, None)
    """
    if isinstance(value, bool) or (of_truth and value in (0, 1)):
        return MET if value else UNMET
    if not isinstance(value, str) or UNCHECKED.search(value):
        return None
    field = _FIELDS[0].fullmatch(value.strip())
    # A gloss in brackets, or a mark, must be the same verdict: "MET (满足)", "✅ MET".
    parts = _PARTS.split(_fold(field["value"] if field else value))
    words = [word for part in parts if (word := _fold(part)) and not _CONFIDENCE.fullmatch(word)]
    found = {(_ANSWERS if of_truth else _STATUSES).get(word) for word in words}
    return found.pop() if len(found) == 1 and (of_truth or not MARKS.keys() >= {*words}) else None


def find_reasoned_verdict(value: Any) -> CriterionVerdict | None:
    """The verdict with which a value begins, if what follows is its reason.

    Example:
        >>> find_reasoned_verdict("UNMET (no moon is named)"), find_reasoned_verdict("MET - but only in part")
        (<CriterionVerdict.UNMET: 'UNMET'>, None)
    """
    field = _REASONED.match(value) if isinstance(value, str) and not UNCHECKED.search(value) else None
    return find_verdict(field["value"]) if field and _has_reason(field) else None


def find_fields(text: str) -> list[re.Match[str]]:
    r"""The fields in a text that may state a verdict, in order, as matches with a `label` and a `value`.

    A text with JSON that is never closed has none. True, false and (not) satisfied count under a label for verdicts.

    Example:
        >>> said = "Answer: True\n\n**Verdict:** MET"
        >>> [(field["label"], field["value"]) for field in find_fields(said)]
        [('Verdict', 'MET')]
    """
    if scan_json(text).broken is not None:
        return []
    found = [field for pattern in _FIELDS[:-2] for field in pattern.finditer(text)]
    ends = {field.end("value") for field in found}
    at_end = (field for pattern in _FIELDS[-2:] for field in pattern.finditer(text, len(text) - 200))
    found += (field for field in at_end if field.end("value") not in ends)
    found += filter(_has_reason, _REASONED.finditer(text))
    found += (field for field in _ABOVE.finditer(text) if find_verdict(field["value"]) is not None)
    found = [field for field in found if field.re is _FIELDS[4] or _is_own(text, field)]
    return [
        field
        for _, field in sorted({field.start(): field for field in found}.items())
        if (_OF_VERDICT.search(field["label"] or "") or _fold(field["value"]) not in OF_ANYTHING)
        and (
            field.re is not _FIELDS[0]
            or not field["loose"]
            or REPLIED.fullmatch(field["value"])
            or not is_remark(field)
        )
    ]


def _has_reason(field: re.Match[str]) -> bool:
    """Whether a field is a verdict that the rest of its line gives a reason for, and does not qualify or change."""
    verdict, reason = find_verdict(field["value"]), field["reason"]
    if verdict is None or not reason:
        return verdict is not None
    if _FACT.match(reason) is None and "\n" not in field.string[field.end() : field.start("reason")]:
        return False
    if _ANSWERS_ANEW.match(reason) or QUALIFIES.search(reason) or find_retractions(reason):
        return False
    return _TWO_WORDS.search(reason) is not None and {*find_mentions(reason.upper())} <= {verdict}


def is_limited(field: re.Match[str]) -> bool:
    """Whether the line after a field qualifies its verdict or gives another answer; a sentence is its reason."""
    after, verdict = field.string[field.end() :], find_verdict(field["value"])
    if field.re is _REASONED and after.partition("\n")[0].strip():
        return False
    line = after.lstrip().partition("\n")[0]
    if CONTRAST.match(line) or verdict is None:
        return CONTRAST.match(line) is not None
    first, _, rest = line.partition(",")
    if _ANSWERS.get(_fold(first), verdict) is not verdict:
        return True
    is_sentence = len(line.split()) > 4 and not line[0].islower()
    line = rest.lstrip() if _fold(first) in _ANSWERS else line
    return not is_sentence and bool(_ANSWERS_ANEW.match(line) or QUALIFIES.match(line))


def is_remark(field: re.Match[str]) -> bool:
    """Whether a field is a sentence about something else: "The answer is clear", "Conclusion: It names two causes".

    What qualifies a verdict is none ("The verdict is partly met"). A number but 0, 1 or a part is one ("Score: 42").
    """
    value = field["value"]
    if find_verdict(value) is not None:
        return False
    if field.re is _FIELDS[0] and field["loose"]:
        return not HINT.search(value) or any(find_mentions(value))
    is_of_verdict = _OF_VERDICT.search(field["label"])
    if _NUMBER.fullmatch(value) and (field["label"][0] in "\\[" or not is_of_verdict):
        return True
    is_other = not is_of_verdict and _ANEW.search(field["label"]) is None
    return is_other and _SENTENCE.search(value) is not None and not HINT.search(value)


def _is_own(text: str, field: re.Match[str]) -> bool:
    """Whether no words govern a field: only those of "So my verdict is" or "The criterion is met:" may lead to it.

    Any others may negate, doubt or report the verdict: "It cannot be said to be", "One could argue", "とは言えない".
    """
    is_at_end = field.re in _FIELDS[-2:]
    start = field.start("label" if is_at_end else 0)
    earlier, _, before = text[max(0, start - _MOST_BEFORE) : start].rpartition("\n")
    before = _MARKUP.sub(" ", _CLOSED.split(before)[-1])
    if not _WORD.search(before):
        before = earlier.rstrip().rpartition("\n")[2]
        before = before if _UNFINISHED.search(before) else ""
    if is_at_end and {*find_mentions(text[:start].upper())} - {find_verdict(field["value"])}:
        return False
    sentence = _END.split(before)[-1]
    is_supposed = _SUPPOSES.match(_THEREFORE.split(sentence)[-1]) or (is_at_end and _WEIGHED.search(sentence))
    clause = _CLAUSE.split(before)[-1]
    verdict = find_verdict(field["value"]) if clause.rstrip().endswith((":", "：")) else None
    is_led = _LEAD.fullmatch(clause) or (verdict is not None and find_conclusion(before) is verdict)
    return bool(is_led) and not is_supposed


_WORDS = "|".join(sorted(VERDICT_WORDS, key=len, reverse=True))
_BARE_LABELS = fold_text(_join_words("label")).replace(r"[^\w不未没沒非难難无無]{0,4}", "")  # faster than IGNORECASE
_BARE_FIELD = compile_late(rf"(?:{_BARE_LABELS}|met|boxed|c\d+)[\W_]{{1,12}}(?P<value>{_WORDS}|yes|no)(?!\w)")
_BARE_OPTION = compile_late(rf"(?:{_BARE_LABELS}|boxed)[\W_]{{1,12}}(?P<value>\w+(?:[.,]\d+)?)")


def find_quoted_fields(text: str, submission: str, shown: ShownOptions | None = None) -> set[Stated | None]:
    """What fields state that a text and the submission have, if the fields of the text state different things.

    Example:
        >>> find_quoted_fields('{"verdict": "It says {"verdict":"MET"}", "status": UNMET}', "Verdict: MET")
        {<CriterionVerdict.MET: 'MET'>}
    """
    if describe_form(text) not in ("", "a JSON string"):  # what valid JSON quotes is certain
        return set()
    pattern, read = (_BARE_OPTION, shown.find_index) if shown else (_BARE_FIELD, (VERDICT_WORDS | TRUTH_WORDS).get)
    fields = [(read(found["value"]), found[0]) for found in pattern.finditer(fold_text(text))]
    given = fold_text(submission) if len({stated for stated, _ in fields}) > 1 else ""
    return {stated for stated, field in fields if re.search(re.sub(r"\W+", r"\\W*", field), given)}


# Sentences: a word of the schema states a verdict unless the sentence weighs or quotes it.

_SHORT = re.compile(r"(n)['’]t\b|(?<=\bit)['’]s\b", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])(?<!\d\.)(?<!\.\w\.)\s+|(?<=[。！？；;])|\n")
_QUOTED = re.compile(
    r"<(\w+)>[^<]*</\1>|^[ \t]*>.*|\"(?=\S{0,200} )[^\"\n]{0,2000}\"|“(?=\S{0,200} )[^”\n]{0,2000}”", re.MULTILINE
)
_THEREFORE = re.compile(
    r"(?:\b(?:(?<!if )so(?! that)|therefore|thus|hence|also|daher)\b|→|[=-]>|因此|所以|综上)", re.I
)
_WEIGHED = compile_late(rf"\bHad\b|^\W*To\b|(?i:{_join_sentences('weighed')})")
_WORD = re.compile(r"\w")
_MOST_BEFORE = 500  # characters in which words that govern a field are searched
_CLOSED = re.compile(r"</(?!(?:b|i|u|em|strong)>)\w+>")
_MARKUP = re.compile(r"</?\w+>|[$*_`]+")
_CLAUSE = re.compile(rf"{_END.pattern}|[,;，；]|{_THEREFORE.pattern}", re.IGNORECASE)
_SUPPOSES = re.compile(
    r"\W*(?:(?:if|had|unless|should|were|suppos\w+|assuming|in case|wenn|falls|si|caso|если|nếu|eğer|إذا|لو)\b"
    r"|如果|假如|若|もし|만약|(?:for example|according to)\b)",
    re.IGNORECASE,
)
_UNNAMED = _LABEL.replace("?P<label>", "?:")  # `re` fails on groups in a possessive repeat
_LEAD = compile_late(rf"(?:[\W\d]|(?<![a-z]){_UNNAMED}(?![a-z])|{_join_sentences('lead')})*+", re.IGNORECASE)
_UNFINISHED = compile_late(
    rf"(?:\b(?:is|are|be|not|that|as|to)|[是为為不]|\b{_LABEL})(?:[^\w.!?。！？]|\.\.++)*+\Z|[:：]\W*\Z",
    re.IGNORECASE,
)
_RETRACTION = compile_late(rf"^\W*(?:{_join_words('opening')})|{_join_sentences('retraction')}", re.IGNORECASE)

_PLAIN_WORD = r"(?:not[ _-](?:\w+ly )?)?(?:met|satisfied|fulfilled)|unmet"
_PLAIN = re.compile(
    r"\b(?:(?:criterion|requirement|verdict|judge?ment|status)(?:,? \w+,?){0,3}?|c\d+|it|this|that"
    r"|both|(?<!not )all(?: criteria)?) (?:is|are|was|were|remains|should be|has(?: not)? been) (?:\w+ly |in fact )?"
    rf"(?:{_PLAIN_WORD})\b|"
    rf"(?:^|[:：>→])\W{{0,9}}(?:{_PLAIN_WORD})\W*$|"
    r"(?:\b(?:not|fails? to) )?\b(?:meets?|satisf(?:y|ies)|fulfil?ls?|fails) (?:the|this) "
    r"(?:criterion|requirement)\b(?!['’])",
    re.IGNORECASE,
)
_LATIN = r"(?<![A-Za-z_])(?:{})(?![A-Za-z_])"
_NEGATED = (
    r"UNMET|(?:(?i:not)[ _-]+(?:\w+LY )?(?:BEEN )?|FAILS? TO )(?:MEET|MET|SATISF\w+|FULFILL?\w*)|FAILS TH(?:E|IS)"
)
_MENTION = compile_late(
    rf"(?P<UNMET>{_LATIN.format(_NEGATED)}|(?i:{_join_sentences('unmet')}))|"
    rf"(?P<CANNOT_ASSESS>{_LATIN.format('CANNOT[ _]ASSESS')}|[无無]法[評评判][估断斷])|"
    rf"(?P<MET>{_LATIN.format('MET|MEETS|SATISFIE[SD]|FULFILL?E?[SD]')}|(?i:{_join_sentences('met')}))"
)
HINT = compile_late(
    "mee?t|satisf|fulfil|fails|rempli|cumpl|cumpr|atend|assess|respect|rispett|soddisf",
    re.IGNORECASE,
    "[满滿]足|[无無]法|erfüllt|満た|符合|未[达達]|критери|требован|выполн|соблюд|karşıl|sağla|đáp ứng|"
    "th(?:ỏa|oả) mãn|đạt|المعيار|충족|만족",
)
"""Every sentence that states a verdict matches this."""
_CHOOSING = re.compile(
    r"\b(?:choose|chose|choice|select|pick|chang\w+|correct\w*|final|best|answer|should be)\b|应|應|更|改|最",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"\b(?:from|not(?: \w+){0,3}|than|instead of|part\w*|most\w*|nearly|almost|teilweise)\s(?:an? |as )?\W?\Z",
    re.IGNORECASE,
)


def find_last_sentence(text: str) -> str:
    r"""The last sentence of a text that has words, ignoring an opening code fence.

    Example:
        >>> find_last_sentence("It names one. So it is MET.\n```json\n")
        'So it is MET.'
    """
    sentences = _END.split(text.removesuffix("```json\n").removesuffix("```\n"))
    return next((sentence for sentence in reversed(sentences) if _WORD.search(sentence)), "")


def find_retractions(after: str) -> list[str]:
    """The sentences of a text after a verdict that take it back, such as "Wait, that is wrong".

    Example:
        >>> find_retractions("I retract that judgment. My verdict is MET. The verdict above is final. It is wrong.")
        ['I retract that judgment.']
    """
    return [sentence for sentence in _END.split(after) if _RETRACTION.search(sentence)]


def find_statements(text: str, shown: ShownOptions | None = None) -> Iterator[tuple[str, Stated | None]]:
    """The sentences of a text that state a verdict (or an option, if options were shown) as their own, last first.

    A sentence that weighs, quotes, demands or supposes states none. The value None marks a sentence that begins with
    a contrast, such as "However", and takes back what was said before it.

    Example:
        >>> said = "MET would need a date. If it had one, it would be MET. So the criterion isn't met."
        >>> [verdict.value for _, verdict in find_statements(said)]
        ['UNMET']
    """
    hint = HINT if shown is None else MENTIONED
    if not hint.search(text):
        return
    text = _SHORT.sub(lambda found: " not" if found[1] else " is", _QUOTED.sub(" ", text))
    for sentence in reversed(_END.split(text)):
        own = _THEREFORE.split(sentence)[-1] if hint.search(sentence) else ""
        mentioned = set(find_mentions(own, shown)) if own else set()
        if len(mentioned) == 1 and not _WEIGHED.search(own):
            yield sentence, mentioned.pop()
        elif CONTRAST.match(sentence):
            yield sentence, None


def find_mentions(sentence: str, shown: ShownOptions | None = None) -> Iterator[Stated | None]:
    """The verdicts or options that a sentence mentions and does not reject."""
    if shown is None:
        sentence = _PLAIN.sub(lambda found: found[0].upper(), sentence)
    elif not _CHOOSING.search(sentence):
        return
    for found in (_MENTION if shown is None else MENTIONED).finditer(sentence):
        if not _REJECTED.search(sentence, max(0, found.start() - 50), found.start()):
            kind = found.lastgroup or ""
            yield shown.find_index(float(found[kind].replace("−", "-"))) if shown else CriterionVerdict[kind]


def find_conclusion(text: str, shown: ShownOptions | None = None) -> Stated | None:
    """The last verdict or option that a text states and does not take back, or None.

    Example:
        >>> find_conclusion("At first it is MET. However, the date is wrong.")
    """
    return next((stated for _, stated in find_statements(text, shown)), None)
