"""Queries with good and bad criteria, and which responses truly meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

from autorubric.files import read_document
from autorubric.synthesis.candidate import Candidate, Origin, Relevance

Kind: TypeAlias = Literal[
    "good", "twice", "unlicensed", "surface", "universal", "reversed", "ambiguous", "unanswerable"
]
BAD: tuple[Kind, ...] = ("twice", "unlicensed", "surface", "universal", "reversed", "ambiguous", "unanswerable")
LANGUAGES = ("en", "zh")
REWORDED = {"en": " An answer that does so in other words meets it too.", "zh": "换一种说法做到也算满足。"}
# How far a response's own luck with one criterion goes, beside its quality (both in standard deviations).
_LUCK = 0.6
PLAIN = 0.75
"""Of two responses of which one meets a good criterion, how often it is the better one, at least."""

Truth: TypeAlias = tuple[bool | None, ...]
"""Whether each response meets a criterion; None if its wording is ambiguous."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One criterion and the truth about it, which no gate sees.

    Attributes:
        candidate: what the gates see.
        kind: good, or the fault that was planted.
        relevance: what a judge without error says of it.
        mended: a wording without the fault, where it is ambiguous.
    """

    candidate: Candidate
    kind: Kind
    relevance: Relevance
    mended: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One query with its responses and planted criteria.

    Attributes:
        language: en or zh.
        query: the text.
        responses: the texts, each unlike any other of the corpus.
        planted: the criteria, merged ones first.
        truth: what is true of each wording of a criterion, rewritten ones included.
    """

    language: str
    query: str
    responses: tuple[str, ...]
    planted: tuple[Planted, ...]
    truth: Mapping[str, Truth]


def scenes(seed: int, responses: int, *, selected: bool = False) -> Iterator[Scene]:
    """Every query of the corpus, with new truths for each seed.

    With `selected`, good criteria are drawn until some responses meet them, some do not, and better ones do.
    """
    for language in LANGUAGES:
        for entry in _entries(language):
            yield _scene(language, entry, Random(f"{seed}|{entry['query']}"), responses, selected)


@cache
def _entries(language: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = read_document(Path(__file__).parent / f"{language}.yaml")
    return entries


def _scene(language: str, entry: Mapping[str, Any], random: Random, responses: int, selected: bool) -> Scene:
    planted = _mixed(list(_planted(entry, random)), random)
    drawn = plainly_better if selected else _better
    quality = [random.gauss(0, 1) for _ in range(responses)]
    texts = {one.candidate.id: one.candidate.description for one in planted}
    truth = dict[str, Truth]()
    for one in sorted(planted, key=lambda one: one.kind == "twice"):
        text = one.candidate.description
        draw = _TRUTHS.get(one.kind, drawn)
        truth[text] = truth[texts[one.relevance.same_as]] if one.kind == "twice" else draw(quality, random)
        truth[text + REWORDED[language]] = truth[text]
        if one.mended:
            truth[one.mended] = drawn(quality, random)
    good = [one.candidate.description for one in planted if one.kind == "good"]
    read_raw_criteria = tuple(
        "\n".join([f"[{number + 1}]", *(text for text in good if truth[text][number])]) for number in range(responses)
    )
    return Scene(language, entry["query"], read_raw_criteria, planted, truth)


def _mixed(planted: list[Planted], random: Random) -> tuple[Planted, ...]:
    """The criteria, merged ones first, in an order and under ids that tell nothing about them."""
    random.shuffle(planted)
    planted.sort(key=lambda one: one.candidate.origin, reverse=True)
    names = {one.candidate.id: f"c{number}" for number, one in enumerate(planted, 1)}
    return tuple(
        replace(
            one,
            candidate=replace(one.candidate, id=names[one.candidate.id]),
            relevance=replace(one.relevance, same_as=names.get(one.relevance.same_as, "")),
        )
        for one in planted
    )


def _planted(entry: Mapping[str, Any], random: Random) -> Iterator[Planted]:
    """The criteria of one query, with weights that tell nothing about them."""
    good: list[tuple[Origin, list[Any]]] = [
        *(("merged", words) for words in entry["merged"]),
        *(("evolved", words) for words in entry["evolved"]),
    ]
    for number, (origin, (text, *asked)) in enumerate(good):
        relevance = Relevance("explicit", asked[0]) if asked else Relevance("implicit")
        if len(asked) > 1:
            relevance = Relevance("explicit", asked[0], surface=asked[1])
        yield Planted(_candidate(f"g{number}", text, random.randint(3, 10), origin), "good", relevance)
    needed, nothing = Relevance("implicit"), Relevance("none")
    unasked = Relevance("implicit", surface="layout", surface_asked=False)
    bad: list[tuple[Kind, Origin, str, Relevance]] = [
        ("unlicensed", "merged", entry["unlicensed"], nothing),
        *(("surface", "evolved", text, unasked) for text in entry["surface"]),
        ("universal", "evolved", entry["universal"], needed),
        ("reversed", "evolved", entry["reversed"], needed),
        ("unanswerable", "evolved", entry["unanswerable"], Relevance("implicit", answerable=False)),
    ]
    origins: tuple[Origin, Origin] = ("merged", "evolved")
    for origin, (place, text) in zip(origins, entry["twice"].items(), strict=True):
        bad.append(("twice", origin, text, Relevance("implicit", same_as=f"g{place}")))
    for number, (kind, origin, text, relevance) in enumerate(bad):
        yield Planted(_candidate(f"b{number}", text, random.randint(3, 10), origin), kind, relevance)
    text, mended = entry["ambiguous"]
    yield Planted(_candidate("b9", text, random.randint(3, 10), "evolved"), "ambiguous", needed, mended)


def _candidate(name: str, text: str, weight: int, origin: Origin) -> Candidate:
    return Candidate(name, text[:12], text, weight, origin, int(origin == "evolved"))


def _better(quality: Sequence[float], random: Random) -> Truth:
    """Met by better responses, apart from luck; it may happen that all meet it, none does, or the worse ones do."""
    bar = random.uniform(-1, 1)
    return tuple(one + random.gauss(0, _LUCK) > bar for one in quality)


def plainly_better(quality: Sequence[float], random: Random) -> Truth:
    """Met by some responses and not by all, and plainly by better ones."""
    while True:
        bar = random.uniform(-1, 1)
        truth = tuple(one + random.gauss(0, _LUCK) > bar for one in quality)
        if 0 < sum(truth) < len(truth) and _precedence(quality, truth) >= PLAIN:
            return truth


def _precedence(quality: Sequence[float], truth: Truth) -> float:
    """Of all pairs of a response that meets a criterion and one that does not, those with the former better."""
    pairs = [
        (mine, other)
        for mine, met in zip(quality, truth, strict=True)
        if met
        for other, also in zip(quality, truth, strict=True)
        if not also
    ]
    return sum(mine > other for mine, other in pairs) / len(pairs)


def _worse(quality: Sequence[float], random: Random) -> Truth:
    return plainly_better([-one for one in quality], random)


def _all(quality: Sequence[float], random: Random) -> Truth:
    return (True,) * len(quality)


def _open(quality: Sequence[float], random: Random) -> Truth:
    return (None,) * len(quality)


_TRUTHS: dict[Kind, Callable[[Sequence[float], Random], Truth]] = {
    "universal": _all,
    "reversed": _worse,
    "ambiguous": _open,
}
