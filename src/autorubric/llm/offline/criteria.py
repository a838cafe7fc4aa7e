"""Criteria for a query: its constraints first, then its phrases, its field, and what any answer owes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from autorubric.llm.offline.bank import bank, filled, own_words, phrases_of
from autorubric.llm.offline.constraints import Constraint
from autorubric.llm.offline.reading import Reading
from autorubric.llm.offline.words import key_phrases, terms

_FEWEST, _MOST = 5, 12
_MOST_CONSTRAINTS = 7
_KEPT_SHARE = 0.75
_MOST_TITLE_WORDS = 5


@dataclass(frozen=True, slots=True)
class Item:
    """One criterion in the form models write it."""

    title: str
    description: str
    weight: int


def write_rubric(reading: Reading, reference: str, random: Random) -> list[dict[str, Any]]:
    """Criteria for a query, 5 to 12 of them, in the language of the query.

    Constraints and the main demand are always there; of the others each draw leaves out some, words some
    differently and weighs some one point higher or lower.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> rubric = write_rubric(read_query("Why is the sky blue? Use at most 50 words."), "", Random(1))
        >>> rubric[0]["title"]
        'At most 50 words'
    """
    needed = [*_constraint_items(reading, random), _main_item(reading, random)]
    wanted = list(_optional_items(reading, reference, random))
    kept = [item for item in wanted if random.random() < _KEPT_SHARE]
    for item in wanted:
        if len(needed) + len(kept) < _FEWEST and item not in kept:
            kept.append(item)
    return [asdict(item) for item in (needed + kept)[:_MOST]]


def item_of(key: str, reading: Reading, random: Random, **values: object) -> Item:
    """One criterion of the bank, filled with the phrases of a query and with `values`.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> item_of("example", read_query("Explain tidal locking."), Random(1)).title
        'Gives an example'
    """
    entry: Mapping[str, Any] = bank(reading.language)["criteria"][key]
    phrases = phrases_of(reading)
    values.setdefault("a", phrases[0])
    values.setdefault("b", phrases[1] if len(phrases) > 1 else bank(reading.language)["subject"])
    title = " ".join(filled(entry["title"], **values).split()[:_MOST_TITLE_WORDS])  # type: ignore[arg-type]
    description = filled(random.choice(entry["text"]), **values)  # type: ignore[arg-type]
    weight = min(10, max(1, entry["weight"] + random.choice((-1, 0, 0, 1))))
    return Item(title, description, weight)


def constraint_words(constraint: Constraint) -> str:
    """A constraint in a few words, for a title.

    Example:
        >>> constraint_words(Constraint("count", "words", None, 50, "words"))
        '≤ 50 words'
    """
    if constraint.kind not in ("count", "part"):
        return constraint.value
    low, high = constraint.low, constraint.high
    if low == high:
        return f"{low} {constraint.value}"
    if low is None or high is None:
        return f"{'≤' if low is None else '≥'} {high if low is None else low} {constraint.value}"
    return f"{low}–{high} {constraint.value}"


def _constraint_items(reading: Reading, random: Random) -> Iterator[Item]:
    for constraint in reading.constraints[:_MOST_CONSTRAINTS]:
        key: str = constraint.kind
        low, high = constraint.low, constraint.high
        if key == "count":
            bounds = {(True, False): "max", (False, True): "min"}
            key += "-" + bounds.get((low is None, high is None), "exact" if low == high else "range")
        value = constraint_words(constraint) if key == "part" else constraint.value
        noun = value[:-1] if (high or low) == 1 and value.endswith("s") else value
        yield item_of(key, reading, random, v=noun, l=low, h=high)


def _main_item(reading: Reading, random: Random) -> Item:
    return item_of(f"main-{reading.kind}", reading, random)


def _optional_items(reading: Reading, reference: str, random: Random) -> Iterator[Item]:
    phrases = phrases_of(reading)
    own = f"{reading.domain}-"
    keys = [key for key in bank(reading.language)["criteria"] if key.startswith(own)]
    general = [*(["turns"] if reading.turns > 1 else []), "example", "limits", "consistent"]
    for key in keys:
        yield item_of(key, reading, random)
    for phrase in phrases[1:4]:
        yield item_of("phrase", reading, random, a=phrase)
    if len(phrases) > 1:
        yield item_of("relation", reading, random)
    for number_given in reading.numbers[:1]:
        yield item_of("number", reading, random, v=number_given)
    for phrase in _found_in(reference, reading)[:2]:
        yield item_of("reference", reading, random, a=phrase)
    for key in general:
        yield item_of(key, reading, random)


def _found_in(reference: str, reading: Reading) -> list[str]:
    """What the reference is about that neither the query nor the offline model's own sentences say."""
    known = terms(reading.text) | own_words(reading.language)
    return [phrase for phrase in key_phrases(reference[:4000]) if not terms(phrase) & known]
