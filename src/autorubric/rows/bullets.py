"""Criteria that are the items of a Markdown list, with their points in brackets."""

import re
from typing import Any

from autorubric.errors import InputError, warn
from autorubric.files.json_values import as_weight
from autorubric.rows.record import NAME_KEYS, TEXT_KEYS, WEIGHT_KEYS

_ITEM = re.compile(r"(?:[-*+•]|\d+[.)])[ \t]+(?:\[[ xX]?\][ \t]+)?(\S.*)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*")
_RULE = re.compile(r"([-*_=])\1{2,}")
_OF_YAML = re.compile(
    rf"(?:- *)?[\"']?(?:{'|'.join((*TEXT_KEYS, *NAME_KEYS, *WEIGHT_KEYS))})[\"']? *:(?: |\Z)|- *[{{\"']"
)
_BRACKETS = r"\[([^\[\]()]+)\]|\(([^\[\]()]+)\)"
_LEADING = re.compile(rf"(?:{_BRACKETS})[ :–—-]*(.+)")
_TRAILING = re.compile(rf"(.*?\S)[ :–—-]*(?:{_BRACKETS})[ .:]*")
_NAMED = re.compile(r"\*\*(.+?)\*\*[ :–—-]*(.*)")
_BARE = re.compile(r"[ \d.,]+")
_LOOSE = re.compile(
    r"(?i)(?:\A|\bworth |(?<!\d)[.,;:=…|/*_`–—-][ *_`]*)[+-]?\d+(?:[.,]\d+)? ?(?:points?|pts?|marks?|punkte?)\b"
    r"(?:[.*_`]*\Z| ?[:–—-])"
)
"""Points without brackets, such as "Is kind. **3 points**"."""
_AT_END = re.compile(r"(?i)(?<!least)(?<!most)(?<!than) \d+(?:[.,]\d+)? (?:points?|pts?|marks?|punkte?)[.*_`]*\Z")
_EXPECTED = "expected a heading, or an item such as '- [5] Names the cause' or '- Names the cause (5 points)'"


def is_list(text: str) -> bool:
    r"""Return whether a text begins with a list item, perhaps below headings, and is not YAML with criterion keys.

    Example:
        >>> is_list("# Rubric\n\n- [5] Names the cause"), is_list("- requirement: Is kind"), is_list("Write:\n- A")
        (True, False, False)
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _RULE.fullmatch(line.strip())]
    first = next((line for line in lines if not _HEADING.fullmatch(line)), "")
    return bool(_ITEM.fullmatch(first)) and not any(map(_OF_YAML.match, lines))


def has_items(text: str) -> bool:
    """Return whether a text has items of a list, perhaps below other text."""
    return any(map(_ITEM.fullmatch, text.splitlines()))


def parse_list(text: str, name: str) -> list[dict[str, Any]]:
    r"""Return the criteria of a list, with their points and the headings above them.

    Raises:
        InputError: a line is not part of the list, or points are ambiguous.

    Example:
        >>> parse_list("- [5] Names the cause\n- **Tone** (-2 points): Is rude", "rubric.md")
        [{'criterion': 'Names the cause', 'points': 5.0}, {'criterion': 'Is rude', 'points': -2.0, 'name': 'Tone'}]
    """
    problems: list[str] = []
    items = _list_items(text, name, problems)
    criteria = [_read_item(item) for _, _, item in items]
    if len(criteria) > 1 and [entry.get("points") for entry in criteria] == [*range(1, len(criteria) + 1)]:
        problems.append(f"{name}: [1], [2], … may be numbers or points; write them as 1. or as (1 point)")
    for (number, section, _), entry in zip(items, criteria, strict=True):
        entry.update({"section": section} if section else {})
        texts = [entry["criterion"], entry.get("name", ""), section]
        problems += (
            f"{name}:{number}: has points in {text!r:.60}; {_EXPECTED}" for text in texts if _has_points(text)
        )
    if problems:
        raise InputError(problems)
    unread = [(number, text) for number, _, text in items if _AT_END.search(text)]
    if unread:
        more = f" (and {len(unread) - 1} more)" if unread[1:] else ""
        advice = "they are part of the text; to give points, write them in brackets, such as (3 points)"
        warn(f"{name}:{unread[0][0]}: the points at the end of {unread[0][1]!r:.60} are not read{more}: {advice}")
    return criteria


def _list_items(text: str, name: str, problems: list[str]) -> list[tuple[int, str, str]]:
    """Return the line, the heading and the text of each item; indented lines continue an item."""
    section, items = "", list[tuple[int, str, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or _RULE.fullmatch(stripped):
            continue
        item = _ITEM.fullmatch(stripped)
        if heading := _HEADING.fullmatch(stripped):
            section = heading[1]
        elif item and not line[0].isspace():
            items.append((number, section, item[1]))
        elif items and not item and line[0].isspace():
            items[-1] = (*items[-1][:2], f"{items[-1][2]} {stripped}")
        else:
            problems.append(f"{name}:{number}: {'a nested item' if item else repr(stripped)[:60]}; {_EXPECTED}")
    return items


def _read_item(text: str) -> dict[str, Any]:
    points, text = _take_points(text)
    named = _NAMED.fullmatch(text)
    if named is None:
        return {"criterion": text} if points is None else {"criterion": text, "points": points}
    (own, head), (other, rest) = map(_take_points, named.groups())
    given = [one for one in (points, own, other) if one is not None]
    head, rest = head.strip(" :"), rest.strip(" :")
    entry = {"criterion": rest or head} | ({"points": given[0]} if given else {})
    return entry | ({"name": head} if rest else {})


def _take_points(text: str) -> tuple[float | None, str]:
    """Return the points in brackets at the start or the end of a text, and the text without them."""
    if (found := _LEADING.fullmatch(text)) and (points := _read_points(found[1], found[2])) is not None:
        return points, found[3]
    if (found := _TRAILING.fullmatch(text)) and (points := _read_points(None, found[2] or found[3])) is not None:
        return points, found[1]
    return None, text


def _read_points(square: str | None, other: str | None) -> float | None:
    """Return the points in brackets; a bare number counts only in leading square ones (else a year or a citation)."""
    inside = square or other or ""
    return None if square is None and _BARE.fullmatch(inside) else as_weight(inside)


def _has_points(text: str) -> bool:
    marks = (square or other for square, other in re.findall(_BRACKETS, text))
    return bool(_LOOSE.search(text)) or any(
        as_weight(mark) is not None and not _BARE.fullmatch(mark) for mark in marks
    )
