"""Several rubrics into one, and the stricter criteria that two answers give rise to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from autorubric.llm.offline.bank import bank, criteria_words, phrases_of
from autorubric.llm.offline.constraints import holds
from autorubric.llm.offline.criteria import Item, constraint_words, item_of
from autorubric.llm.offline.reading import Reading
from autorubric.llm.offline.words import likeness, terms

_NEAR = 0.6
_MOST_NEW = 4


def merge_rubrics(sets: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """All criteria of several rubrics, near-equal ones once: the first wording, the higher weight.

    Only criteria of different rubrics are compared, unless they are equal to the letter.

    Example:
        >>> one = {"title": "Names the cause", "description": "Names the cause of the leak.", "weight": 7}
        >>> two = {"title": "Cause", "description": "Names a cause of the leak.", "weight": 9}
        >>> [item["weight"] for item in merge_rubrics([[one], [two]])]
        [9]
    """
    merged: list[dict[str, Any]] = []
    for rubric in sets:
        earlier = len(merged)
        for item in rubric:
            same = next((known for known in merged[:earlier] if near_equal(known, item)), None)
            same = same or next((known for known in merged if _text(known) == _text(item)), None)
            if same is None:
                merged.append({key: item.get(key) for key in ("title", "description", "weight")})
            else:
                same["weight"] = max(_weight(same), _weight(item))
    return merged


def near_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two criteria demand the same, as far as words and numbers tell.

    They hold the same numbers, and either share a title and a subject, or most words and most of the subject.
    The subject is what is left without the words that the offline model's own criteria are made of.

    Example:
        >>> near_equal({"description": "Has at most 50 words."}, {"description": "Has at most 80 words."})
        False
    """
    texts = _text(first), _text(second)
    if re.findall(r"\d+", texts[0]) != re.findall(r"\d+", texts[1]):
        return False
    words = terms(texts[0]), terms(texts[1])
    subjects = _subject(words[0]), _subject(words[1])
    titles = [str(item.get("title") or "").strip().lower() for item in (first, second)]
    if titles[0] and titles[0] == titles[1]:
        return bool(subjects[0] & subjects[1]) or subjects[0] == subjects[1]
    return likeness(*words) >= _NEAR and likeness(*subjects) >= _NEAR


def write_harder(
    reading: Reading, rubrics: Sequence[Mapping[str, Any]], responses: Sequence[str], random: Random
) -> list[dict[str, Any]]:
    """One to four stricter criteria, from what one answer has and the other lacks.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> reading = read_query("Why is bread dough slower in a cold kitchen?")
        >>> one = "For example, bread dough is slower in a cold kitchen."
        >>> harder = write_harder(reading, [], [one, "Bread dough is slower then."], Random(1))
        >>> [item["title"] for item in harder]
        ['Covers the cold kitchen', 'Gives an example']
    """
    new: list[dict[str, Any]] = []
    for item in _stricter(reading, responses, random):
        candidate = asdict(item)
        if not any(near_equal(candidate, {**known, "title": ""}) for known in (*rubrics, *new)):
            new.append(candidate)
        if len(new) == _MOST_NEW:
            break
    return new or [asdict(item_of("augment-depth", reading, random))]


def _stricter(reading: Reading, responses: Sequence[str], random: Random) -> Iterator[Item]:
    if len(responses) < 2:
        return
    first, second = responses[:2]
    for constraint in reading.constraints:
        kept = holds(constraint, first), holds(constraint, second)
        if False in kept:
            yield item_of("augment-constraint", reading, random, v=constraint_words(constraint))
            break
    words = terms(first), terms(second)
    for phrase in phrases_of(reading):
        wanted = terms(phrase)
        if (wanted <= words[0]) != (wanted <= words[1]):
            yield item_of("augment-phrase", reading, random, a=phrase)
            break
    for key, marks in bank(reading.language)["augment-marks"].items():
        fits = key in ("example", "caveat") or key == reading.domain
        if fits and bool(re.search(marks, first, re.I)) != bool(re.search(marks, second, re.I)):
            yield item_of(f"augment-{key}", reading, random)


def _text(item: Mapping[str, Any]) -> str:
    return str(item.get("description") or item.get("criterion") or "")


def _subject(words: frozenset[str]) -> frozenset[str]:
    return words - criteria_words()


def _weight(item: Mapping[str, Any]) -> float:
    weight = item.get("weight")
    return weight if isinstance(weight, int | float) else 0
