"""Rubric items as models write them and as the step files and final files contain them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.llm.structured import read_json
from autorubric.rows.record import NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS

LOWEST_WEIGHT, HIGHEST_WEIGHT = 0, 10


class Item(TypedDict):
    """One criterion in the step files."""

    title: str
    description: str
    weight: int


class FinalItem(TypedDict):
    """One criterion in the final files."""

    criterion: str
    points: int


class Dropped(NamedTuple):
    """An entry that is not a criterion: its position in the list, from 1, and the reason."""

    entry: int
    reason: str


class ItemReading(NamedTuple):
    """The items of a list with their weights as written, the entries that are not criteria, and what was changed."""

    items: list[Item]
    weights: list[float]
    dropped: list[Dropped]
    notes: list[str]


_LIST_KEYS = (
    *("criteria", "rubrics", "rubric", "items", "rubric_items", "new_criteria", "new_rubrics"),
    *("augmented_rubrics", "merged_rubrics"),
)
# The names that models use for the three fields, ours first; Chinese names occur with Chinese queries.
_TITLE = ("title", *NAME_KEYS)
_DESCRIPTION = ("description", "criterion", *TEXT_KEYS)

_WEIGHT_TEXT = re.compile(
    r"\s*(?P<value>[+-]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out\s+of\b)\s*(?P<of>\d+(?:[.,]\d+)?)\s*)?(?:points?|pts?\.?|分)?\s*",
    re.IGNORECASE,
)


def read_items(value: Any, lowest: int = LOWEST_WEIGHT) -> ItemReading:
    """Read the criteria in a list written by a model; every other entry is reported with a reason.

    Texts are stripped. Weights may be numbers or texts such as "7.5", "7 points" or "8/10" (scaled to 10); they
    are rounded to the nearest whole number, halves up, and clipped to `lowest` (0) to 10 with a note.

    Example:
        >>> reading = read_items([
        ...     {"title": "Dose", "description": " Names 4 g. ", "weight": "7.5"},
        ...     {"title": "Tone", "description": "Is calm.", "weight": "high"},
        ... ])
        >>> reading.items
        [{'title': 'Dose', 'description': 'Names 4 g.', 'weight': 8}]
        >>> reading.dropped
        [Dropped(entry=2, reason="weight is 'high'; expected a number")]
    """
    if not isinstance(value, list):
        return ItemReading([], [], [Dropped(1, f"a list was expected; got {value!r:.60}")], [])
    items, weights, dropped, notes = list[Item](), list[float](), list[Dropped](), list[str]()
    for number, entry in enumerate(value, 1):
        read = _read_item(entry)
        if isinstance(read, str):
            dropped.append(Dropped(number, read))
            continue
        title, description, exact = read
        weight = math.floor(exact + 0.5)
        if not lowest <= exact <= HIGHEST_WEIGHT:
            weight = min(HIGHEST_WEIGHT, max(lowest, weight))
            notes.append(f"criterion {number} has weight {exact:g}; {weight} was taken")
        items.append({"title": title, "description": description, "weight": weight})
        weights.append(exact)
    return ItemReading(items, weights, dropped, notes)


def read_rubric(reply: Reply, lowest: int = LOWEST_WEIGHT) -> Answer[list[Item]] | Unreadable:
    """Read the criteria in a reply: at least one, and not all of weight 0."""
    answer = read_additions(reply, lowest)
    if isinstance(answer, Answer):
        if not answer.value:
            return Unreadable("unreadable", "the reply holds no criterion")
        if not any(item["weight"] for item in answer.value):
            return Unreadable("unreadable", "every criterion in the reply has weight 0")
    return answer


def read_additions(reply: Reply, lowest: int = LOWEST_WEIGHT) -> Answer[list[Item]] | Unreadable:
    """Read the criteria that a reply adds to a rubric; possibly none."""
    answer = read_json(reply, "array", _LIST_KEYS, named="title")
    if isinstance(answer, Unreadable):
        return answer
    texts = [entry.get("description") if isinstance(entry, Mapping) else entry for entry in answer.value]
    if elided := [text for text in texts if isinstance(text, str) and text.strip().startswith(("...", "…"))]:
        return Unreadable("unreadable", f"the reply leaves criteria out: {elided[0]!r:.60}")
    items, weights, dropped, notes = read_items(answer.value, lowest)
    if problem := _find_grouping_problem(answer.value) or _find_scale_problem(weights):
        return Unreadable("unreadable", problem)
    if len(dropped) > len(items):
        first, usable = dropped[0], f"only {len(items)} of {len(answer.value)} criteria" if items else "no criterion"
        return Unreadable(
            "unreadable", f"the reply holds {usable} that can be used: entry {first.entry}: {first.reason}"
        )
    left_out = [f"criterion {number} was dropped: {reason}" for number, reason in dropped]
    return Answer(items, reply, (*answer.notes, *left_out, *notes))


def dedup_final_rubrics(rubrics: Iterable[FinalItem]) -> list[FinalItem]:
    """Return `rubrics` without repetitions (the same words, ignoring case and spacing).

    Of repeated criteria, the one with the most points stays, at the position of the first.

    Example:
        >>> dedup_final_rubrics([{"criterion": "Names 4 g.", "points": 5}, {"criterion": "names  4 g.", "points": 9}])
        [{'criterion': 'names  4 g.', 'points': 9}]
    """
    kept: dict[str, FinalItem] = {}
    for item in rubrics:
        key = " ".join(item["criterion"].split()).casefold()
        if key not in kept or item["points"] > kept[key]["points"]:
            kept[key] = item
    return list(kept.values())


def cap_criteria(rubrics: Sequence[FinalItem], most: int | None) -> list[FinalItem]:
    """Return the `most` criteria with the most points, in their order; of equals the first ones.

    Args:
        rubrics: the criteria, the evolved ones last.
        most: the number to keep; None, 0 or less keeps all.

    Example:
        >>> abc = [{"criterion": "a", "points": 3}, {"criterion": "b", "points": 9}, {"criterion": "c", "points": 5}]
        >>> [item["criterion"] for item in cap_criteria(abc, 2)]
        ['b', 'c']
    """
    if not most or most < 0:
        return list(rubrics)
    by_points = sorted(range(len(rubrics)), key=lambda index: -rubrics[index]["points"])
    return [rubrics[index] for index in sorted(by_points[:most])]


def _find_grouping_problem(entries: Sequence[Any]) -> str:
    """Return why a list is not a flat list of criteria, or ""; a group's name may invert weights ("Penalties")."""
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict | Mapping) or list not in map(type, entry.values()):
            continue
        for key, inner in entry.items():
            own = isinstance(inner, list) and any(not isinstance(_read_item(entry), str) for entry in inner)
            if own or (inner and isinstance(inner, list) and "criteri" in str(key).lower()):
                return f"entry {number} holds criteria of its own under {key!r}; expected one flat list"
    return ""


def _find_scale_problem(weights: Sequence[float]) -> str:
    """Return why the weights of a list are not on the requested scale; empty if they may be."""
    sizes = [abs(weight) for weight in weights]
    largest = max(sizes, default=0)
    if largest > HIGHEST_WEIGHT and 2 * sum(size > HIGHEST_WEIGHT for size in sizes) > len(sizes):
        return f"most weights are above {HIGHEST_WEIGHT}; expected whole numbers from 0 to {HIGHEST_WEIGHT}"
    if largest <= 1 and any(0 < size < 1 for size in sizes):
        return f"the weights are fractions; expected whole numbers from 0 to {HIGHEST_WEIGHT}"
    return ""


def _read_item(entry: Any) -> tuple[str, str, float] | str:
    """Return the title, description and weight (as written) of an entry, or why it is not a criterion."""
    if not isinstance(entry, dict | Mapping):  # nearly all are dicts, and that is the faster check
        return f"{entry!r:.60} is not an object"
    title, description, weight = entry.get("title"), entry.get("description"), entry.get("weight")
    if type(title) is str and type(description) is str and type(weight) is int and len(entry) == 3:
        # The requested form, which nearly all entries have.
        if (text := description.strip()) and -1000 <= weight <= 1000:
            return title.strip(), text, float(weight)
    else:
        fields = {str(key).strip().lower(): value for key, value in entry.items()}
        titles, descriptions, weights = (
            [fields[name] for name in names if fields.get(name) is not None]
            for names in (_TITLE, _DESCRIPTION, WEIGHT_KEYS)
        )
        if len({parse_weight(weight) for weight in weights}) > 1:
            return f"its weights differ: {', '.join(f'{weight!r:.20}' for weight in weights)}"
        title, description, weight = (next(iter(found), None) for found in (titles, descriptions, weights))
    if not isinstance(description, str) or not description.strip():
        return f"description is {description!r:.60}; expected text"
    exact = parse_weight(weight)
    if exact is None:
        return f"weight is {weight!r:.60}; expected a number"
    return title.strip() if isinstance(title, str) else "", description.strip(), exact


def parse_weight(weight: Any) -> float | None:
    """Return the value of a weight as models write it, or None."""
    if isinstance(weight, bool):
        return None
    if isinstance(weight, int):
        return float(min(max(weight, -1000), 1000))
    if isinstance(weight, float):
        return weight if math.isfinite(weight) else None
    match = _WEIGHT_TEXT.fullmatch(weight) if isinstance(weight, str) and len(weight) < 40 else None
    if match is None:
        return None
    value = float(match["value"].replace(",", "."))
    if match["of"] is None:
        return value
    scale = float(match["of"].replace(",", "."))
    return value / scale * HIGHEST_WEIGHT if scale > 0 else None
