"""Entries without a text under a usual key: criteria with only a heading, or rows with submissions."""

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric.core.entries import find_parts, pick_others
from autorubric.core.misread_keys import find_usual_keys
from autorubric.errors import warn
from autorubric.rows.columns import ROLES, fold_column, join_names
from autorubric.rows.record import HOLDERS, TEXT_KEYS, is_sentence

_ANSWERS = frozenset((*ROLES["submission"].names, *ROLES["submission"].fallback))
OF_ANSWERS = "pass it as DATASET or --submissions, and a file of criteria as --rubric"


def read_headings(entries: Sequence[Any]) -> Sequence[Any]:
    """Return the criteria of a list; if they have only headings (a name and a weight), these become their texts.

    Entries with any other text stay as they are, because that text may be the requirement under an unknown key.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     read_headings([{"title": "Names the cause", "weight": 5}])
        [{'weight': 5, 'criterion': 'Names the cause'}]
        >>> read_headings([{"title": "Cause", "guidance": "Names the cause."}])
        [{'title': 'Cause', 'guidance': 'Names the cause.'}]
    """
    if not entries or not all(map(_find_heading, entries)):
        return entries
    headings = [_find_heading(entry) for entry in entries]
    warn(f"the criteria have no text except {join_names(dict.fromkeys(headings))}, which is read as the requirement")
    pairs = zip(entries, headings, strict=True)
    return [{**pick_others(entry, (key,)), TEXT_KEYS[1]: entry[key]} for entry, key in pairs]


def has_criteria(document: Mapping[str, Any]) -> bool:
    """Return whether the `items` of a document are criteria, rather than the rows of a dataset.

    Example:
        >>> has_criteria({"items": [{"criterion": "Is brief"}]}), has_criteria({"items": [{"submission": "So."}]})
        (True, False)
    """
    items = document.get("items")
    if not isinstance(items, list) or not items or any(document.get(key) is not None for key in HOLDERS):
        return False
    return all(isinstance(item, str) or (isinstance(item, Mapping) and _is_criterion(item)) for item in items)


def _is_criterion(entry: Mapping[str, Any]) -> bool:
    parts = find_parts(entry)[0]
    is_answer = fold_column(parts.text) in _ANSWERS and not parts.weight
    return bool((parts.text and not is_answer) or (parts.name and parts.weight)) and entry.keys().isdisjoint(
        ("submission", "rubric")
    )


def _find_heading(entry: Any) -> str:
    """Return the key of the name of an entry that has no other text; empty if there is none."""
    if type(entry) is not dict or "requirement" in entry or not (parts := find_parts(entry)[0]).name or parts.text:
        return ""
    heading, others = entry[parts.name], [value for key, value in entry.items() if key != parts.name]
    is_told = any(is_sentence(value) or _is_longer(value, heading) for value in others)
    return "" if is_told or find_usual_keys(tuple(entry), TEXT_KEYS) else parts.name


def _is_longer(value: Any, heading: Any) -> bool:
    """Return whether a value, other than an id, is a longer text than the heading."""
    return isinstance(value, str) and len(value) > len(str(heading)) and (" " in value or not value.isascii())


def find_answers(data: Sequence[Any]) -> str:
    """Return the column of the submissions of rows without a criterion; empty if they may be criteria.

    Example:
        >>> find_answers([{"id": 1, "answer": "So."}]), find_answers([{"text": "Is brief."}])
        ('answer', '')
    """
    first = data[0] if data else None
    if not isinstance(first, dict) or find_parts(first)[0].text:
        return ""
    return next((key for key in map(str, first) if fold_column(key) in _ANSWERS), "")
