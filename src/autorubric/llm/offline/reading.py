"""What a query asks for: its language, its kind of question, its field, its constraints, its phrases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autorubric.llm.offline.constraints import Constraint, find_constraints
from autorubric.llm.offline.tables import patterns
from autorubric.llm.offline.words import Language, key_phrases, language_of

_MOST_READ = 6000  # characters; what a very long query asks stands at its ends


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be made out of a query.

    Attributes:
        text: the query, or the last turn of the user where it is a conversation.
        language: the language of that text.
        kind: the kind of question (how, why, compare, write, list, explain, translate, solve, code, ask).
        domain: the field it belongs to (medical, science, writing, code, instructions, chat).
        constraints: what it demands of the form of the answer.
        phrases: what it is about, at least one, in its own words.
        numbers: figures that stand in it and are no constraint.
        turns: how many messages the conversation has.
    """

    text: str
    language: Language
    kind: str
    domain: str
    constraints: tuple[Constraint, ...]
    phrases: tuple[str, ...]
    numbers: tuple[str, ...]
    turns: int


_QUOTATION = re.compile(r"[\"“「][^\"”」]{20,}[\"”」]|(?<!\w)'[^'\n]{20,}'(?!\w)")
_FIGURE = re.compile(r"(?<![\w.])\$?\d+(?:[.,]\d+)*\s?(?:%|°C|km/h|km|kg|mg|ml|cm|°|g\b|m\b)?")


def read_query(query: str | Sequence[Mapping[str, Any]]) -> Reading:
    """What a query, or a conversation of `{role, content}` messages, asks for.

    Example:
        >>> reading = read_query("Why is bread dough slower in a cold kitchen? Use at most 80 words.")
        >>> reading.kind, reading.domain, reading.constraints[0].high, reading.phrases
        ('why', 'chat', 80, ('bread dough slower', 'the cold kitchen'))
    """
    if isinstance(query, str):
        return _read(without_surrogates(query), "", 1)
    said = [without_surrogates(str(turn.get("content") or "")) for turn in query if turn.get("role") != "assistant"]
    return _read(said[-1] if said else "", "\n".join(said[:-1]), len(query))


def without_surrogates(text: str) -> str:
    """The text with its lone surrogates, which no file and no endpoint takes, as question marks.

    Example:
        >>> without_surrogates("a" + chr(0xD800))
        'a?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=512)
def _read(text: str, context: str, turns: int) -> Reading:
    if len(text) > _MOST_READ:
        text = f"{text[: _MOST_READ // 2]}\n{text[-_MOST_READ // 2 :]}"
    language = language_of(text)
    constraints = find_constraints(text)
    bare = _without(text, constraints)
    phrases = key_phrases(bare) or key_phrases(context) or _first_words(text)
    return Reading(
        text=text,
        language=language,
        kind=_kind(_QUOTATION.sub("", text)),
        domain=_domain(text, constraints),
        constraints=constraints,
        phrases=phrases,
        numbers=tuple(dict.fromkeys(number.strip() for number in _FIGURE.findall(bare)))[:3],
        turns=turns,
    )


def _kind(text: str) -> str:
    for name, alternatives in patterns("kinds").items():
        if any(pattern.search(text) for pattern in alternatives):
            return name
    return "ask"


def _domain(text: str, constraints: tuple[Constraint, ...]) -> str:
    if len(constraints) >= 3:
        return "instructions"
    hits = {
        name: len({hit.lower() for pattern in alternatives for hit in pattern.findall(text)})
        for name, alternatives in patterns("domains").items()
    }
    best = max(hits, key=lambda name: hits[name])
    if hits[best]:
        return best
    return "instructions" if len(constraints) == 2 else "chat"


def _without(text: str, constraints: tuple[Constraint, ...]) -> str:
    """The text with its counts and formats blanked, so that they do not count as what it is about."""
    for constraint in constraints:
        about = constraint.unit == "items"  # what is counted is what the query is about
        if constraint.kind in ("count", "part", "format", "language", "avoid", "tone") and not about:
            start, stop = constraint.span
            text = text[:start] + "." * (stop - start) + text[stop:]
    return text


def _first_words(text: str) -> tuple[str, ...]:
    words = re.sub(r"[\s\"“”`*#{}<>|\[\]]+", " ", text).strip(" .,!?。！？，")
    short = words[:12] if language_of(text) == "zh" else " ".join(words.split()[:3])[:40]
    return (short,) if short else ()
