"""JSON on the paths that every model call takes, where a slower encoder would show."""

from __future__ import annotations

import json
from typing import Any

import orjson

_SLOW_MARK = b" "
"""Starts what the slow way wrote: the quick reader would make floats of its integers."""


def json_bytes(value: Any) -> bytes:
    """The compact JSON of a value in UTF-8.

    What the quick encoder does not take (half characters, integers beyond 64 bits, keys that are no text) goes the
    slow way, half characters as the three bytes that `surrogatepass` gives them.

    Raises:
        TypeError: something in the value is no JSON value.

    Example:
        >>> json_bytes({"title": "剂量", "weight": 9}).decode()
        '{"title":"剂量","weight":9}'
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _SLOW_MARK + text.encode("utf-8", "surrogatepass")


def json_value(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; half characters and NaN are taken as Python's reader does.

    Integers beyond 64 bits become floats, unless `json_bytes` wrote them.

    Raises:
        ValueError: the bytes are no JSON.
        RecursionError: they nest too deeply.

    Example:
        >>> json_value(b'{"a": [1, 2.5, null]}')
        {'a': [1, 2.5, None]}
    """
    if data[:1] == _SLOW_MARK:
        return json.loads(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)
