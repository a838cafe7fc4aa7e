"""Explicit constraints of a query, found by patterns, and whether a text keeps to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from autorubric.llm.offline.tables import patterns, words

Kind: TypeAlias = Literal[
    "count", "part", "format", "language", "include", "avoid", "audience", "tone", "start", "end"
]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing a query demands of the form of its answer.

    Attributes:
        kind: what sort of demand; a `part` is a count that holds for a part of the answer.
        value: the format, language, words, audience or tone; the counted noun of a `count`.
        low: the least allowed count, or None.
        high: the greatest allowed count, or None.
        unit: what is counted: words, characters, sentences, paragraphs, lines or items.
        span: where in the text it stands.
    """

    kind: Kind
    value: str
    low: int | None = None
    high: int | None = None
    unit: str = ""
    span: tuple[int, int] = (0, 0)


_ENGLISH_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_NUMBERS = {word: number for number, word in enumerate(_ENGLISH_NUMBERS, start=1)} | {
    character: number for number, character in enumerate("一二三四五六七八九十", start=1)
}
_NUMBERS["两"] = 2
_N = rf"\d[\d,]*|{'|'.join(_ENGLISH_NUMBERS)}"
_RELATIONS = (
    "no more than|not more than|at most|under|fewer than|less than|within|up to|maximum(?: of)?|at least|"
    "minimum(?: of)?|no fewer than|more than|over|exactly|about|around|approximately|roughly|between"
)
_ITEMS = (
    "tips|reasons|examples|ideas|questions|items|suggestions|headlines|names|options|stanzas|sections|titles|"
    "bullet points|bullets|points|steps|arguments|exercises|recommendations|ways|facts|activities|taglines|"
    "rows|versions|lunches|meals|recipes|books|places|step|item|point|stanza"
)
_COUNT_EN = re.compile(
    rf"(?P<before>\b(?:have|has|had|were|these|those)\s+)?(?P<rel>\b(?:{_RELATIONS})\s+)?"
    rf"\b(?P<n>{_N})(?:\s*(?:-|–|to|and)\s*(?P<m>\d[\d,]*))?[\s-]+"
    rf"(?:(?!(?:and|or|of|to|in)\b)[a-z]+\s+){{0,2}}?"
    rf"(?P<unit>words?|sentences?|paragraphs?|characters?|lines?|{_ITEMS})\b"
    rf"(?P<tail>\s+or\s+(?:less|fewer|more)|\s+(?:maximum|minimum|max|min)\b)?(?!\s+(?:a|per)\s)",
    re.I,
)
_COUNT_ZH = re.compile(
    r"(?P<rel>不超过|不要超过|不多于|少于|至多|最多|控制在|至少|不少于|不低于|恰好|正好|大约|约)?\s*"
    r"(?P<n>\d+|[一二两三四五六七八九十])\s*(?:[到至\-~—]\s*(?P<m>\d+)\s*)?(?:个|条|点|种|项)?"
    r"(?P<unit>字|词|句话|句|段落|段|行|条|点|个|种|项|步骤|步|首)(?P<tail>以内|之内|左右|以上)?"
    r"(?P<noun>建议|理由|例子|要点|方法|问题|标题|方案|原因)?"
)
_UNITS = {"字": "characters", "词": "words", "句话": "sentences", "句": "sentences", "段落": "paragraphs"} | {
    "段": "paragraphs", "行": "lines", "word": "words", "sentence": "sentences", "paragraph": "paragraphs",
    "character": "characters", "line": "lines", "row": "rows",
}  # fmt: skip
_TOLD = frozenset("条点个种项首步句段") | {"way", "lines"}  # as likely to be told as asked for
_SIZES = ("words", "characters", "sentences")
_IN_PART = re.compile(r"\b(?:each|every|then|after|add|followed by|and tell|plus)\b|每(?:条|句|段|项|个|点)|再", re.I)
_AT_MOST = (
    "no more|not more|at most|within|up to|maximum|max|or less|or fewer|"
    "不超过|不要超过|不多于|至多|最多|控制在|以内|之内"
)
_BELOW = "under|fewer than|less than|少于"
_AT_LEAST = "at least|minimum|min|no fewer|至少|不少于|不低于|以上|or more"
_ABOVE = "more than|over"
_ROUGHLY = "about|around|approximately|roughly|大约|约|左右"
_DETERMINERS = frozenset({"a", "an", "the", "one", "two", "three", "your", "any", "at"})


def find_constraints(text: str) -> tuple[Constraint, ...]:
    """The constraints that stand in a text, in order, each once.

    Example:
        >>> for found in find_constraints("Give me three tips in under 100 words, and avoid jargon."):
        ...     print(found.kind, found.value, found.low, found.high)
        count tips 3 3
        count words None 99
        avoid jargon None None
    """
    found = [*_counts(text), *_formats(text), *_demands(text)]
    seen: dict[tuple[Kind, str, str, int | None, int | None], Constraint] = {}
    for constraint in sorted(found, key=lambda c: c.span):
        key = (constraint.kind, constraint.value.lower(), constraint.unit, constraint.low, constraint.high)
        seen.setdefault(key, constraint)
    return tuple(seen.values())


def _counts(text: str) -> Iterator[Constraint]:
    for match in (*_COUNT_EN.finditer(text), *_COUNT_ZH.finditer(text)):
        groups = match.groupdict()
        unit = groups["unit"].lower()
        noun = groups.get("noun")
        relation = f"{groups['rel'] or ''} {groups['tail'] or ''}".lower()
        bare = not relation.strip() and not noun
        if bare and (groups.get("before") or unit in _TOLD):
            continue  # a count that is told, not asked for
        number = _number(groups["n"])
        upper = _number(groups["m"]) if groups["m"] else None
        low, high = (number, upper) if upper else _bounds(number, relation, unit)
        scale = _UNITS.get(unit.removesuffix("s"), "items")
        shown = noun or (unit if unit.endswith("s") or not unit.isascii() else f"{unit}s")
        kind: Kind = "part" if scale in _SIZES and _IN_PART.search(_sentence(text, match)) else "count"
        yield Constraint(kind, shown, low, high, scale, match.span())


def _sentence(text: str, match: re.Match[str]) -> str:
    """The sentence around a match, as far as what says that only a part is meant."""
    start = max(text.rfind(mark, 0, match.start()) for mark in ".!?。！？：\n") + 1
    return text[start : match.end() + len(" each")]


def _number(text: str) -> int:
    return _NUMBERS.get(text.lower()) or int(text.replace(",", ""))


def _bounds(number: int, relation: str, unit: str) -> tuple[int | None, int | None]:
    if re.search(_AT_MOST, relation):
        return None, number
    if re.search(_BELOW, relation):
        return None, number - 1
    if re.search(_AT_LEAST, relation):
        return number, None
    if re.search(_ABOVE, relation):
        return number + 1, None
    long = unit.startswith(("word", "character", "字", "词"))
    if re.search(_ROUGHLY, relation) or (long and not relation.strip()):
        return number * 4 // 5, -(-number * 6 // 5)  # a fifth to either side
    return number, number


def _formats(text: str) -> Iterator[Constraint]:
    for value, alternatives in patterns("formats").items():
        for pattern in alternatives:
            for match in pattern.finditer(text):
                yield Constraint("format", value, span=match.span())


def _demands(text: str) -> Iterator[Constraint]:
    for kind, alternatives in patterns("demands").items():
        for match in (match for pattern in alternatives for match in pattern.finditer(text)):
            said = match[1].strip()
            for part in _listed(said) if kind in ("include", "avoid") else [said]:
                yield Constraint(cast("Kind", kind), part, span=match.span())


def _listed(text: str) -> list[str]:
    """`a, b and c` as its parts, each short enough to quote."""
    quoted = re.findall(r"[\"“「]([^\"”」]+)[\"”」]", text)
    if quoted:
        return quoted
    listed: list[str] = []
    for part in re.split(r",\s*(?:and\s+|or\s+)?|\s+and\s+|、|和", text)[:4]:
        first = part.split(" ", 1)[0].lower()
        if listed and first not in _DETERMINERS and first in words("function_words") | words("task_words"):
            break  # the next demand begins here
        listed.append(" ".join(part.removeprefix("that ").split()[:8]).strip(" \"'“”「」"))
    return [part for part in listed if part]


_UNIT_PATTERNS = {
    "words": re.compile(r"[^\W_][\w'’-]*"),
    "characters": re.compile(r"[\u3400-\u9fff]|[A-Za-z0-9]+"),
    "sentences": re.compile(r"[^.!?。！？\s][^.!?。！？]*(?:[.!?。！？]+|$)"),
    "paragraphs": re.compile(r"\S(?:.|\n(?!\s*\n))*"),
    "lines": re.compile(r"^.*\S.*$", re.M),
    "rows": re.compile(r"^\s*\|", re.M),
    "items": re.compile(r"^\s*(?:[-*•]|\d+[.)、])\s*\S", re.M),
}


def counted(text: str, unit: str) -> int:
    r"""How many words, characters, sentences, paragraphs, lines or items a text has.

    Example:
        >>> counted("One. Two!", "sentences"), counted("- a\n- b", "items")
        (2, 2)
    """
    if unit == "rows":
        return max(0, len(_UNIT_PATTERNS[unit].findall(text)) - 2)  # without the head and its rule
    return len(_UNIT_PATTERNS[unit].findall(text))


def holds(constraint: Constraint, text: str) -> bool | None:
    """Whether a text keeps to a constraint; None where a pattern cannot tell.

    Example:
        >>> holds(Constraint("avoid", "jargon"), "Plain words only.")
        True
    """
    value = constraint.value
    if constraint.kind == "count":
        count = counted(text, constraint.unit)
        return (constraint.low or 0) <= count <= (count if constraint.high is None else constraint.high)
    if constraint.kind == "avoid":
        return _absent(value, text)
    if constraint.kind in ("start", "end"):
        bare = text.strip().strip("\"'“”")
        return (
            bare.startswith(value)
            if constraint.kind == "start"
            else bare.rstrip(".。!").endswith(value.rstrip(".。!"))
        )
    if constraint.kind == "format":
        return _has_format(value, text)
    return None


def _absent(value: str, text: str) -> bool:
    marks = {"commas": ",，", "exclamation marks": "!！", "emojis": "😀🎉🚀✅👍"}.get(value.lower())
    if marks:
        return not any(mark in text for mark in marks)
    return value.lower() not in text.lower()


def _has_format(value: str, text: str) -> bool | None:
    if value == "JSON":
        try:
            json.loads(re.sub(r"^```\w*\n|\n```$", "", text.strip()))
        except ValueError:
            return False
        return True
    marks = {
        "table": r"^\s*\|.+\|\s*$",
        "bullets": r"^\s*[-*•]\s",
        "numbered list": r"^\s*\d+[.)、]",
        "code": r"```",
    }
    return bool(re.search(marks[value], text, re.M)) if value in marks else None
