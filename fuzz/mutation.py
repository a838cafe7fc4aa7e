"""Changes to JSON that leave it JSON, so that a search gets past the parser to what reads the value."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

_STRETCH = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_DEEP = json.loads("[" * 150 + "]" * 150)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 10**400, -(10**400), -0.0, 0.5, 1e308, float("nan"), float("inf")),
    *(
        "",
        " ",
        "x",
        "0",
        "1e999",
        "9" * 5000,
        "null",
        "NaN",
        "MET",
        "c0",
        "ſ",
        "\x00",
        "\ud800",
        "\u2028",
        "剂量",
        "['",
    ),
    *([], {}, [None], [[]], [{}], {"": None}, {"name": {}}, {"\ud83d": 1}, "[{", '{"a": 1', _DEEP),
)
"""Values that readers trip over."""

_Spot = tuple[Any, Any]
"""A list or an object, and the index or key of a member."""


def text_of(data: bytes) -> str:
    r"""The bytes as text, half characters kept, as a reply may hold them.

    Example:
        >>> text_of(b"\xed\xa0\xbd"), text_of(b"\xff")
        ('\ud83d', '\ufffd')
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def mutated(data: bytes, seed: int) -> bytes | None:
    """The text with one value in its JSON changed, or None where there is no JSON in it, or one too deep to copy.

    Example:
        >>> mutated(b'Here: {"weight": 5}', seed=5) != b'Here: {"weight": 5}'
        True
        >>> mutated(b"no JSON", seed=1) is None
        True
    """
    random = Random(seed)
    text = text_of(data)
    found = _stretch(text, random)
    if found is None:
        return None
    start, end, value = found
    try:
        changed = json.dumps(_changed(value, random), ensure_ascii=random.random() < 0.5)
    except RecursionError:
        return None
    return (text[:start] + changed + text[end:]).encode("utf-8", "surrogatepass")


def _stretch(text: str, random: Random) -> tuple[int, int, Any] | None:
    """A stretch of the text that is JSON, with its value: all of it, one of its lines, or what brackets enclose."""
    lines = [(match.start(), match.end()) for match in re.finditer(r"[^\n]+", text)]
    enclosed = [(match.start(), match.end()) for match in _STRETCH.finditer(text)]
    one = [random.choice(lines)] if lines else []
    for start, end in ((0, len(text)), *one, *enclosed):
        try:
            return start, end, json.loads(text[start:end])
        except (ValueError, RecursionError):
            continue
    return None


def _changed(value: Any, random: Random) -> Any:
    root = [value]
    spots = list(_spots(root))
    place, key = random.choice(spots)
    random.choice(_CHANGES)(place, key, spots, random)
    return root[0] if root else None


def _spots(value: Any) -> Iterator[_Spot]:
    waiting = [value]
    while waiting:
        place = waiting.pop()
        for key, member in list(place.items() if isinstance(place, dict) else enumerate(place)):
            yield place, key
            if isinstance(member, dict | list):
                waiting.append(member)


def _put_odd(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    place[key] = copy.deepcopy(random.choice(ODD))


def _put_another(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    there, name = random.choice(spots)
    place[key] = copy.deepcopy(there[name])


def _wrap(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    place[key] = [place[key]] if random.random() < 0.5 else {"name": place[key]}


def _as_text(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    place[key] = json.dumps(place[key])


def _rename(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    names = [name for _, name in spots if isinstance(name, str)]
    if isinstance(place, dict) and names:
        place[random.choice([*names, key.upper(), f" {key}", ""])] = place.pop(key)


def _remove(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    del place[key]


def _repeat(place: Any, key: Any, spots: list[_Spot], random: Random) -> None:
    if isinstance(place, list):
        place.insert(key, copy.deepcopy(place[key]))


_CHANGES: tuple[Callable[[Any, Any, list[_Spot], Random], None], ...] = (
    *(_put_odd, _put_odd, _put_odd, _put_another, _put_another),
    *(_wrap, _as_text, _rename, _remove, _repeat),
)
