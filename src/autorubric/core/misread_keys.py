"""Keys of a criterion that nothing reads, although they sound like its weight, its scale or criteria within it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from autorubric.files.json_values import as_number
from autorubric.rows.columns import listed

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_WEIGHTS = frozenset(("weight", "weights", "weighting", "points", "marks", "worth", "importance", "priority"))
_ALONE = frozenset(
    (
        *("pts", "weightage", "percent", "percentage", "credit", "credits", "multiplier", "coefficient"),
        *("w", "max", "maximum", "value", "point", "mark", "grade", "score"),
    )
)
"""Words that mean a weight where a key has no other."""
_FAULTS = frozenset(
    (
        *("pitfall", "negative", "penalty", "penalties", "deduction", "deductions", "deduct"),
        *("negate", "negated", "invert", "inverted", "reverse", "reversed"),
    )
)
_IN_WORDS = frozenset(("weight", "importance", "priority"))
_MOST = frozenset(("max", "score"))
_SCALES = frozenset(
    (
        "levels",
        "scale",
        "choices",
        "scoring",
        "range",
        "ranges",
        "rating",
        "ratings",
        "descriptors",
        "bands",
        "anchors",
    )
)
_PARTS = frozenset(("sub", "subcriteria", "subtasks", "children", "criteria"))
_IDS = frozenset(("id", "ids"))
_VERDICTS = frozenset(("MET", "UNMET", "CANNOT_ASSESS", "True", "False"))
_OF_SCORE = re.compile(
    r"(?:score|rating)s?[ _-]?\d+(?:[ _-]?(?:desc\w*|text))?\Z|(?:level|grade|band|point)s?[ _-]?\d+[ _-]?desc\w*\Z",
    re.IGNORECASE,
)
_OWN = frozenset(("metadata", "tags", "check"))
_ELSE = "or put it under 'metadata'"
_NO_SCALE = (
    "but without options a criterion is met or not; "
    f"write it as options, each with a label and a value from 0 to 1, {_ELSE}"
)


def misread_keys(entry: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key that would change the criterion if it were read.

    Args:
        entry: the keys that are not known, with their values.
        known: the criterion's own `weight` and `options`, where it has them.

    Example:
        >>> list(misread_keys({"maxPoints": 4, "key_points": "none"}, {}))
        ["'maxPoints' is 4; rename it to 'weight' if that is the weight, else to something else"]
        >>> list(misread_keys({"max_score": 4, "levels": "1 to 4"}, {"weight": 4}))
        ["'levels' is '1 to 4', but without options a criterion is met or not; write it as options, each ..."]
        >>> list(misread_keys({"criteria_ids": ["c1", "c2"]}, {"weight": 4}))
        []
    """
    is_pitfall = (as_number(known.get("weight")) or 0) < 0
    described = [str(key) for key, value in entry.items() if isinstance(value, str) and _OF_SCORE.match(str(key))]
    if known.get("options") is None and len(described) > 1:
        yield f"{listed(described, 2)} describe a scale, {_NO_SCALE}"
    for key, value in entry.items():
        words = _words(str(key))
        if known.get("weight") is None and isinstance(value, Mapping) and key not in _OWN:
            inner = {name: one for name, one in value.items() if _is_weight(_words(str(name)), one, alone=False)}
            yield from (f"{key}: {problem}" for problem in misread_keys(inner, known))
        if known.get("weight") is None and _is_weight(words, value):
            kind = "" if as_number(value) is not None else ", as a number,"
            advice = f"rename it to 'weight'{kind} if that is the weight, else to something else"
            yield f"{key!r} is {value!r:.60}; {advice}"
        elif not is_pitfall and (_is_fault(words, value, known.get("weight")) or _is_met_worst(key, entry, known)):
            yield f"{key!r} is {value!r:.60}; give a criterion that describes a fault a negative weight, {_ELSE}"
        elif known.get("options") is None and words & _SCALES and _is_scale(value):
            yield f"{key!r} is {value!r:.60}, {_NO_SCALE}"
        elif _has_criteria(value) or (
            words & _PARTS and not words & _IDS and isinstance(value, list | Mapping) and value
        ):
            yield f"{key!r} has {len(value)} more; write them as criteria of the rubric with their weights, {_ELSE}"


def unread_notes(entries: Any, known: Collection[str]) -> list[str]:
    """Notes if criteria, as a file lists them, have keys with sentences that are not read, or if some have no weight.

    Example:
        >>> unread_notes([{"criterion": "Breadth", "explanation": "All three causes are named."}], {"criterion"})
        ["'explanation' of the criteria is metadata, which judges do not see"]
    """
    rows = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    texts = [key for row in rows for key, value in row.items() if isinstance(value, str) and len(value.split()) > 2]
    unread = [key for key in dict.fromkeys(texts) if key not in known]
    notes = [f"{listed(unread)} of the criteria is metadata, which judges do not see"] if unread else []
    # A weight that is null is refused where the criterion is made.
    own = [row for row in rows if "requirement" in row and row.get("weight", 10) is not None]
    if bare := unweighted(own, ("weight",)):
        notes.append(
            f"{len(bare)} of {len(rows)} criteria have no weight and count 10, the first is criterion {bare[0] + 1}"
        )
    return notes


def unweighted(entries: Iterable[Any], keys: Collection[str]) -> list[int]:
    """The places of criteria without a weight, if others have one.

    Example:
        >>> unweighted([{"points": 1}, {"points": None}, "Is brief."], ("points",)), unweighted(["Is brief."], ())
        ([1, 2], [])
    """
    has = [isinstance(entry, Mapping) and any(entry.get(key) is not None for key in keys) for entry in entries]
    return [place for place, own in enumerate(has) if not own] if any(has) else []


def stray_weights(around: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key next to a list of criteria that has weights for them, or more criteria.

    Example:
        >>> list(stray_weights({"weights": {"Tone": 0.4}, "total_weight": 1}))
        ["'weights' is {'Tone': 0.4}; write each weight into its criterion"]
    """
    for key, value in around.items():
        if _words(str(key)) & {"weight", "weights"} and isinstance(value, list | Mapping) and value:
            yield f"{key!r} is {value!r:.60}; write each weight into its criterion"
        elif _has_criteria(value):
            yield f"{key!r} has {len(value)} more criteria; write all criteria into one list, {_ELSE}"


def section_weights(around: Mapping[str, Any], entries: Sequence[Any]) -> Iterator[str]:
    """A sentence for each key of a section that is its weight, which nothing applies.

    A value equal to the sum of the weights of its criteria is a total, not a weight.

    Example:
        >>> list(section_weights({"weight": 0.7, "total_weight": "all", "points": 5}, [{"weight": 2}, {"weight": 3}]))
        ["'weight' is 0.7; sections have no weights: multiply it into those of its criteria"]
    """
    weights = [as_number(entry.get("weight", 10)) or 0 for entry in entries if isinstance(entry, Mapping)]
    total = sum(weight for weight in weights if weight > 0)
    for key, value in around.items():
        number = as_number(value) if _words(str(key)) & _WEIGHTS else None
        if number not in (None, 1) and not math.isclose(number, total):
            yield f"{key!r} is {value!r:.60}; sections have no weights: multiply it into those of its criteria"


@lru_cache(maxsize=4096)
def _words(key: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORDS.findall(key))


def _is_weight(words: frozenset[str], value: Any, alone: bool = True) -> bool:
    if isinstance(value, str) and value.strip() and words & _IN_WORDS:
        return True
    is_weight = words & _WEIGHTS or words >= _MOST or (alone and words and words <= _ALONE)
    return bool(is_weight) and as_number(value) is not None


def _has_criteria(value: Any) -> bool:
    """Whether a list has criteria, by the keys of its entries."""
    texts, weights = {"requirement", "criterion"}, {"weight", "points"}
    return isinstance(value, list) and any(
        isinstance(one, Mapping) and one.keys() & texts and (one.keys() & weights or "requirement" in one)
        for one in value
    )


def _is_fault(words: frozenset[str], value: Any, weight: Any) -> bool:
    """Whether a key says that to meet the criterion is a fault."""
    if words & {"polarity", "sign", "type"}:
        return str(value).strip().casefold() in ("negative", "pitfall", "penalty", "-", "-1")
    return bool(words & _FAULTS) and (value is True or (weight is None and as_number(value) is not None))


def _is_met_worst(key: str, entry: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether the choices of a criterion, as files of verifiers have it, say that to meet it is a fault."""
    return key == "choices" and "text" in entry and entry[key] == ["MET", "UNMET"] and known.get("options") is None


def _is_scale(value: Any) -> bool:
    if isinstance(value, str):
        return any(map(str.isdigit, value))
    return isinstance(value, list | Mapping) and len(value) > 1 and not _VERDICTS.issuperset(map(str, value))
