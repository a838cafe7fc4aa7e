"""The members of one long list in a JSON document, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from autorubric.files.strict_json import DEEPEST, decode_quickly, is_too_deep, parse_json

_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_END = re.compile(r"[ \t\n\r]*\][ \t\n\r]*\}[ \t\n\r]*")


def head_and_members(text: str, key: str) -> tuple[dict[str, Any], Iterator[Any]]:
    """The other members of a JSON object whose last one is a list, and what the list holds.

    A member of the list is read when it is taken, so that it can go before the next. Only what is strict JSON
    beyond doubt is read; `parse_json` reads the rest, and tells what is wrong.

    Args:
        text: the JSON text.
        key: the key of the list, which is not empty.

    Raises:
        ValueError: the text has another form, or is perhaps no strict JSON; also while the list is read.
        RecursionError: it nests too deeply; also while the list is read.

    Example:
        >>> head, items = head_and_members('{"name": "day", "items": [{"id": "a"}, {"id": "b"}]}', "items")
        >>> head, list(items)
        ({'name': 'day'}, [{'id': 'a'}, {'id': 'b'}])
    """
    found = re.search(rf'"{re.escape(key)}"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*', text)
    if found is None:
        raise ValueError(f"there is no list {key!r}")
    head = parse_json(text[: found.end()] + "]}")
    if not isinstance(head, dict) or head.pop(key, None) != []:
        raise ValueError(f"the list {key!r} stands deeper")
    return head, _members(text, found.end())


def _members(text: str, start: int) -> Iterator[Any]:
    while True:
        value, end = decode_quickly(text, start)
        brackets = text.count("[", start, end) + text.count("{", start, end)
        if brackets > DEEPEST - 2 and is_too_deep([[value]]):
            raise ValueError("nested too deeply")
        yield value
        comma = _COMMA.match(text, end)
        if comma is None:
            break
        start = comma.end()
    if _END.fullmatch(text, end) is None:
        raise ValueError("the list is not the last member")
