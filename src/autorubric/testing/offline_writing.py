"""What the offline model writes about a query: answers, criteria, merges and stricter criteria."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from autorubric.testing.offline_reading import Query, find_phrases, find_terms, load_table

Item = dict[str, Any]


def _fill(template: str, a: str, b: str, **values: object) -> str:
    return template.format(a=a, b=b, A=a[:1].upper() + a[1:], **values)


def write_answer(query: Query, random: Random, *, thorough: bool) -> str:
    r"""An answer in the form the query demands; one that is not thorough is short and ignores what to include."""
    say, phrases = load_table(query.language), query.phrases
    openings = say["opening"].get(query.kind, say["opening"]["other"])
    # Neighbouring draws take different openings, so that even one-sentence answers differ.
    templates = [openings[(len(query.text) + thorough) % len(openings)]]
    templates += random.sample(say["body"], k=min(len(phrases) + 2 if thorough else 2, len(say["body"])))
    templates += [*say[query.domain], say["example"], say["caveat"], say["closing"]][: None if thorough else 1]
    lines = [_fill(line, phrases[i % len(phrases)], phrases[-1]) for i, line in enumerate(templates)]
    if thorough:
        demanded = [one.value for one in query.constraints if one.kind == "include"]
        lines[1:1] = [say["include"].format(v=value) for value in demanded]
    return _lay_out(query, lines, "" if query.language == "zh" else " ", thorough=thorough)


def _lay_out(query: Query, lines: list[str], gap: str, *, thorough: bool) -> str:
    counts = {one.unit: one for one in query.constraints if one.kind == "count"}
    formats = [one.value for one in query.constraints if one.kind == "format"]
    if "JSON" in formats:
        return json.dumps({"summary": lines[0], "points": lines[1:]}, ensure_ascii=False, indent=2)
    if "items" in counts or formats:
        number = min(counts["items"].low or counts["items"].high, 50) if "items" in counts else len(lines) - 1
        return "\n".join([lines[0], "", *("- " + lines[1 + i % (len(lines) - 1)] for i in range(number))])
    if not thorough:
        return gap.join(lines)
    for one in counts.values():
        if one.low and one.holds(gap.join(lines)) is False:
            lines = lines * 20
        while len(lines) > 1 and one.holds(gap.join(lines)) is False:
            lines = lines[:-1]
    half = len(lines) // 2
    return "\n\n".join(gap.join(part) for part in (lines[:half], lines[half:]) if part)


def _write_item(key: str, query: Query, random: Random, **values: str) -> Item:
    weight, title, *wordings = load_table(query.language)["criteria"][key]
    a = values.pop("a", query.phrases[0])
    b = query.phrases[1] if len(query.phrases) > 1 else load_table(query.language)["subject"]
    title = " ".join(_fill(title, a, b, **values).split()[:5])
    shift = random.choice((-1, 0, 0, 1)) if weight < 10 else 0
    return {"title": title, "description": _fill(random.choice(wordings), a, b, **values), "weight": weight + shift}


def write_rubric(query: Query, reference: str, random: Random) -> list[Item]:
    """5 to 12 criteria for a query: its constraints, its main demand, and some of what else applies."""
    needed = [_write_item(one.kind, query, random, v=one.value) for one in query.constraints[:6]]
    needed.append(_write_item(f"main-{query.kind}", query, random))
    known = find_terms(query.text) | _find_own_terms("opening", "body", "medical", "science", "writing", "chat")
    found = [phrase for phrase in find_phrases(reference[:4000]) if not find_terms(phrase) & known][:2]
    keys: list[tuple[str, dict[str, str]]] = [(f"{query.domain}-1", {}), (f"{query.domain}-2", {})]
    keys += [("phrase", {"a": phrase}) for phrase in query.phrases[1:4]]
    keys += [("relation", {})] * (len(query.phrases) > 1)
    keys += [("reference", {"a": phrase}) for phrase in found] + [("turns", {})] * (query.turns > 1)
    keys += [("example", {}), ("limits", {}), ("consistent", {})]
    wanted = [_write_item(key, query, random, **values) for key, values in keys]
    kept = [item for item in wanted if random.random() < 0.75]
    kept += [item for item in wanted if item not in kept][: max(0, 5 - len(needed) - len(kept))]
    return (needed + kept)[:12]


@cache
def _find_own_terms(*parts: str) -> frozenset[str]:
    return find_terms(" ".join(str(load_table(language)[part]) for language in ("en", "zh") for part in parts))


def write_pitfalls(query: Query, random: Random) -> list[Item]:
    """Two or three faults that answers to a query may have, with negative weights."""
    keys = random.sample(range(1, 5), k=random.choice((2, 3)))
    return [_write_item(f"pitfall-{key}", query, random) for key in keys]


def merge_sets(sets: Sequence[Sequence[Item]]) -> list[Item]:
    """The criteria of all sets, near-equal ones of different sets once with the larger weight, and their sources."""
    merged: list[Item] = []
    for rubric in sets:
        earlier = len(merged)
        for item in rubric:
            same = next((known for known in merged[:earlier] if _is_same(known, item)), None)
            if same is None:
                merged.append({"sources": [item.get("id")], **{key: item[key] for key in item if key != "id"}})
            else:
                same["sources"].append(item.get("id"))
                same["weight"] = max(same["weight"], item["weight"], key=abs)
    return merged


def _is_same(one: Item, other: Item) -> bool:
    one_title = bool(one["title"]) and one["title"] == other["title"]
    one_sign = (one["weight"] < 0) == (other["weight"] < 0)
    return one_sign and is_near_equal(one["description"], other["description"], one_title=one_title)


def is_near_equal(one: str, other: str, *, one_title: bool = False) -> bool:
    """Whether two criteria demand the same: the same numbers, and most words and most of the subject in common."""
    terms, own = (find_terms(one), find_terms(other)), _find_own_terms("criteria")
    pairs = (terms, (terms[0] - own, terms[1] - own))
    near = all(len(a & b) >= 0.6 * len(a | b) or (one_title and (a & b or a == b)) for a, b in pairs)
    return near and re.findall(r"\d+", one) == re.findall(r"\d+", other)


def write_harder(query: Query, rubric: Sequence[Item], responses: Sequence[str], random: Random) -> list[Item]:
    """One to four stricter criteria, from what one response has and another lacks."""
    broken = [one.value for one in query.constraints if any(one.holds(text) is False for text in responses)]
    missed = [a for a in query.phrases if len({find_terms(a) <= find_terms(text) for text in responses}) > 1]
    found = [_write_item("harder-constraint", query, random, v=value) for value in broken[:1]]
    found += [_write_item("harder-phrase", query, random, a=phrase) for phrase in missed[:1]]
    for key, marks in load_table(query.language)["marks"].items():
        differs = len({bool(re.search(marks, text, re.I)) for text in responses}) > 1
        if differs and key in ("example", "limits", query.domain):
            found.append(_write_item(f"harder-{key}", query, random))
    known = [item["description"] for item in rubric]
    new = [item for item in found if not any(is_near_equal(item["description"], text) for text in known)]
    return new[:4] or [_write_item("harder-depth", query, random)]
