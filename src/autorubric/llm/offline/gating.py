"""What the full method asks beyond rubrics: faults, licences, rewrites, and merges that name their sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from autorubric.llm.offline.bank import bank, filled, phrases_of
from autorubric.llm.offline.constraints import Constraint, find_constraints
from autorubric.llm.offline.merging import near_equal
from autorubric.llm.offline.reading import Reading
from autorubric.llm.offline.words import terms

_QUOTED = re.compile(r"[\"“「](.{2,60}?)[\"”」]")
_FORMS = {"count": "count", "part": "count", "format": "layout", "start": "phrase", "end": "phrase"}


def write_pitfalls(reading: Reading, random: Random) -> list[dict[str, Any]]:
    """Two or three faults that answers to a query may have, with negative weights.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> all(item["weight"] < 0 for item in write_pitfalls(read_query("Why is the sky blue?"), Random(1)))
        True
    """
    entries = bank(reading.language)["pitfalls"]
    chosen = random.sample(entries, k=random.choice((2, 3)))
    phrases = phrases_of(reading)
    return [
        {
            "title": entry["title"],
            "description": filled(entry["text"], phrases[0], phrases[-1]),
            "weight": max(-10, entry["weight"] - random.choice((0, 0, 1))),
        }
        for entry in chosen
    ]


def merge_named(sets: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """All criteria of several rubrics, near-equal ones of one sign once, each with the ids it was made of.

    Example:
        >>> one = {"id": "a1", "title": "Names the cause", "description": "Names the cause of the leak.", "weight": 7}
        >>> two = {"id": "b1", "title": "Cause", "description": "Names a cause of the leak.", "weight": 9}
        >>> merge_named([[one], [two]])["criteria"][0]["sources"]
        ['a1', 'b1']
    """
    merged: list[dict[str, Any]] = []
    for rubric in sets:
        earlier = len(merged)
        for item in rubric:
            alike = (known for known in merged[:earlier] if _one_sign(known, item) and near_equal(known, item))
            same = next(alike, None)
            if same is None:
                sources = {"sources": [item["id"]]}
                merged.append(sources | {key: item.get(key) for key in ("title", "description", "weight")})
            else:
                same["sources"].append(item["id"])
                same["weight"] = max(same["weight"], item["weight"], key=abs)
    return {"criteria": merged, "dropped": []}


def license_criteria(reading: Reading, criteria: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether a query asks for each criterion, as far as its words and constraints tell.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> asked = [{"id": "m1", "requirement": "Has exactly 7 sentences."}]
        >>> license_criteria(read_query("Why is the sky blue?"), asked)["licences"][0]["surface_asked"]
        False
    """
    said: list[dict[str, Any]] = []
    for place, entry in enumerate(criteria):
        requirement = str(entry.get("requirement") or "")
        earlier = criteria[:place]
        same = (one["id"] for one in earlier if near_equal(_as_item(one), _as_item(entry)))
        said.append(
            {
                "criterion_id": entry["id"],
                **_need(reading, requirement),
                **_form(reading, requirement),
                "answerable": True,
                "same_as": next(same, ""),
            }
        )
    return {"licences": said}


def rewrite_disputed(reading: Reading, disputes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each disputed criterion with a sentence behind it that settles what counts.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> disputed = [{"id": "m1", "requirement": "Names a cause."}]
        >>> rewrite_disputed(read_query("Why?"), disputed)["rewrites"][0]["criterion_id"]
        'm1'
    """
    say = bank(reading.language)["rewrite"]
    return {
        "rewrites": [
            {
                "criterion_id": entry["id"],
                "split": say["split"],
                "title": "",
                "description": say["wording"].format(d=str(entry["requirement"]).strip()),
            }
            for entry in disputes
        ]
    }


def _need(reading: Reading, requirement: str) -> dict[str, str]:
    """Explicit where a phrase of the query stands in the criterion, else implied."""
    say = bank(reading.language)["licence"]
    wanted = terms(requirement)
    for phrase in reading.phrases:
        if terms(phrase) and terms(phrase) <= wanted and phrase in reading.text:
            return {"reason": say["explicit"], "need": "explicit", "quote": phrase}
    return {"reason": say["implicit"], "need": "implicit", "quote": ""}


def _form(reading: Reading, requirement: str) -> dict[str, Any]:
    """The surface form that a criterion demands, and whether the query sets it too."""
    found = [c for c in find_constraints(requirement) if c.kind in _FORMS]
    if found:
        asked = any(_alike(found[0], other) for other in reading.constraints)
        return {"surface": _FORMS[found[0].kind], "surface_asked": asked}
    quoted = _QUOTED.findall(requirement)
    if quoted:
        return {"surface": "phrase", "surface_asked": all(part in reading.text for part in quoted)}
    return {"surface": "none", "surface_asked": True}


def _alike(one: Constraint, other: Constraint) -> bool:
    return one.kind == other.kind and (one.low, one.high) == (other.low, other.high)


def _as_item(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": str(entry.get("requirement") or "")}


def _one_sign(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["weight"] < 0) is bool(other["weight"] < 0)
