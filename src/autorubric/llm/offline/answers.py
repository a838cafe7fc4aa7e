"""Plausible answers to a query, made of its own phrases and in the form it demands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from autorubric.llm.offline.bank import bank, filled, phrases_of
from autorubric.llm.offline.constraints import Constraint, counted
from autorubric.llm.offline.reading import Reading
from autorubric.llm.offline.words import Language

_MOST_PADDING = 60  # sentences added to reach a demanded length
_ENGLISH = ("english", "英文", "英语")
_CHINESE = ("chinese", "mandarin", "中文")


@dataclass(frozen=True, slots=True)
class _Draft:
    """The sentences of an answer and the parts of speech they stand in."""

    sentences: tuple[str, ...]
    headings: tuple[str, ...]


def write_answer(reading: Reading, random: Random, *, thorough: bool = True) -> str:
    """An answer to a query.

    Args:
        reading: what the query asks.
        random: where the choice of sentences comes from.
        thorough: a thorough answer covers every phrase, gives an example, names limits and keeps to the
            demanded form; a thin one covers the first two phrases and forgets what was to be included.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> reading = read_query("List exactly three tips for keeping basil alive indoors.")
        >>> counted(write_answer(reading, Random(1)), "items")
        3
    """
    language = _answer_language(reading)
    draft = _draft(reading, language, random, thorough)
    text = _laid_out(reading, draft, language)
    limits = [c for c in reading.constraints if c.kind == "count" and c.unit in ("words", "characters")]
    if thorough:
        for limit in limits:
            text = _lengthened(text, limit, reading, language, random)
            text = _shortened(text, limit, language)
    return _framed(text, reading.constraints)


def _answer_language(reading: Reading) -> Language:
    for constraint in reading.constraints:
        if constraint.kind == "language":
            wanted = constraint.value.lower()
            return "zh" if wanted in _CHINESE else "en" if wanted in _ENGLISH else reading.language
    return reading.language


def _draft(reading: Reading, language: Language, random: Random, thorough: bool) -> _Draft:
    say = bank(language)["answers"]
    phrases = phrases_of(reading)
    covered = phrases if thorough else phrases[:2]
    openings = say["opening"].get(reading.kind) or say["opening"]["other"]
    # Neighbouring draws take different openings, so that even one-sentence answers differ.
    opening = openings[(len(reading.text) + thorough) % len(openings)]
    body = random.sample(say["body"], k=min(len(covered) + (len(covered) > 2) * 2, len(say["body"])))
    sentences = [filled(opening, phrases[0], phrases[-1])]
    for index, template in enumerate(body):
        phrase = covered[index % len(covered)]
        sentences.append(filled(template, phrase, phrases[(phrases.index(phrase) + 1) % len(phrases)]))
    extra = [*say[reading.domain]]
    if thorough:
        extra += [random.choice(say["example"]), random.choice(say["caveat"])]
    elif random.random() < 0.5:
        extra = extra[:1]
    else:
        extra = [random.choice(say["example"])]
    sentences += [filled(line, phrases[0], phrases[-1]) for line in extra]
    if thorough:
        wanted = [c.value for c in reading.constraints if c.kind == "include"]
        sentences[1:1] = [filled(say["include"], v=value) for value in wanted]  # early: the end may be cut
        sentences.append(filled(random.choice(say["closing"]), phrases[0], phrases[-1]))
    return _Draft(tuple(sentences), covered)


def _laid_out(reading: Reading, draft: _Draft, language: Language) -> str:
    formats = {c.value for c in reading.constraints if c.kind == "format"}
    items = next((c for c in reading.constraints if c.kind == "count" and c.unit == "items"), None)
    first, *rest = draft.sentences
    if "JSON" in formats:
        return json.dumps({"summary": first, "points": rest}, ensure_ascii=False, indent=2)
    if "table" in formats:
        wanted = next((c.low or c.high for c in reading.constraints if c.unit == "rows"), None)
        names = [draft.headings[i % len(draft.headings)] for i in range(min(wanted or len(draft.headings), 50))]
        rows = [f"| {rest[i % len(rest)]} | {name} |" for i, name in enumerate(names)]
        head = "| 内容 | 方面 |" if language == "zh" else "| Point | Aspect |"
        return "\n".join([head, "| --- | --- |", *rows])
    if items is not None:
        return _listed(first, rest, items.low or items.high or len(rest))
    if "bullets" in formats or "numbered list" in formats:
        mark = "- " if "bullets" in formats else ""
        return "\n".join(f"{mark or f'{n}. '}{line}" for n, line in enumerate(draft.sentences, start=1))
    if "code" in formats:
        return f"{first}\n\n```python\n{_code(draft.headings[0])}\n```\n\n{_joined(rest, language)}"
    return _in_paragraphs(list(draft.sentences), reading.constraints, language)


def _listed(first: str, rest: list[str], count: int) -> str:
    count = min(count, 50)
    lines = [f"{n}. {rest[(n - 1) % len(rest)]}" for n in range(1, count + 1)]
    return "\n".join([first, "", *lines])


def _code(phrase: str) -> str:
    name = "_".join(re.findall(r"[a-z0-9]+", phrase.lower())) or "answer"
    name = f"f_{name}" if name[0].isdigit() else name
    return f"def {name}(values):\n    if not values:\n        return []\n    return sorted(set(values))"


def _in_paragraphs(sentences: list[str], constraints: tuple[Constraint, ...], language: Language) -> str:
    wanted = next((c for c in constraints if c.kind == "count" and c.unit == "paragraphs"), None)
    limit = next((c for c in constraints if c.kind == "count" and c.unit == "sentences"), None)
    if limit is not None:
        count = limit.high or limit.low or len(sentences)
        sentences = (sentences * (count // len(sentences) + 1))[: min(count, 200)]
    count = (wanted.low or wanted.high or 1) if wanted is not None else max(1, len(sentences) // 3)
    count = min(count, len(sentences))
    edges = [round(i * len(sentences) / count) for i in range(count + 1)]
    return "\n\n".join(_joined(sentences[a:b], language) for a, b in pairwise(edges))


def _joined(sentences: list[str], language: Language) -> str:
    return ("" if language == "zh" else " ").join(sentences)


def _lengthened(text: str, limit: Constraint, reading: Reading, language: Language, random: Random) -> str:
    if limit.low is None or text.startswith(("{", "|")):
        return text
    body = bank(language)["answers"]["body"]
    phrases = phrases_of(reading)
    for added in range(_MOST_PADDING):
        if counted(text, limit.unit) >= limit.low:
            break
        phrase = phrases[added % len(phrases)]
        text += ("" if language == "zh" else " ") + filled(random.choice(body), phrase, phrases[-1])
    return text


def _shortened(text: str, limit: Constraint, language: Language) -> str:
    if limit.high is None or text.startswith(("{", "|")):
        return text
    while counted(text, limit.unit) > limit.high:
        kept = re.sub(r"(?:^|(?<=[.。!?！？\n]))[^.。!?！？\n]*[.。!?！？]?\s*$", "", text).rstrip()
        if not kept or kept == text:
            pieces = list(text) if language == "zh" else text.split()
            return ("" if language == "zh" else " ").join(pieces[: limit.high])
        text = kept
    return text


def _framed(text: str, constraints: tuple[Constraint, ...]) -> str:
    for constraint in constraints:
        if constraint.kind == "start" and not text.startswith(constraint.value):
            text = f"{constraint.value} {text}"
        if constraint.kind == "end" and not text.endswith(constraint.value):
            text = f"{text} {constraint.value}"
    return text
