"""Strict JSON: no NaN, no repeated keys, no lone surrogates."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from autorubric.errors import InputError

_quoted = json.encoder.encode_basestring
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
# An escaped backslash, a surrogate pair, or (captured) a lone surrogate, in that order.
_ESCAPED_SURROGATES = re.compile(
    r"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)


DEEPEST = 100
"""Maximum nesting depth of a value; deeper ones exhaust the stack of recursive readers."""

_TOO_DEEP = f"nested too deeply; the maximum is {DEEPEST} levels"
_LONG = 2**20
"""Characters of a text above which nesting is checked by walking the value, without counting brackets."""


class _RepeatedKeys(dict[str, Any]):
    """An object with a repeated key; kept until its place is known."""

    repeated: tuple[str, ...] = ()


_NESTING = frozenset({dict, list, _RepeatedKeys})


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not finite")


_quick_decoder = json.JSONDecoder(parse_constant=_refuse)


def decode_quickly(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the value that starts at an index of a JSON text, and its end, if it is certainly strict JSON.

    The value is encoded again. Fewer colons then mean a repeated key (unless a string has an escaped colon), the
    encoder refuses lone surrogates, and it writes numbers beyond all floats as words. The caller checks the nesting.

    Args:
        text: the JSON text.
        start: the index of the value's first character.

    Raises:
        ValueError: it is not, or may not be, strict JSON; `parse_json` decides.
        RecursionError: it nests too deeply for the reader.

    Example:
        >>> decode_quickly('[{"a": 1}, {"b": 2}]', 1)
        ({'a': 1}, 9)
        >>> decode_quickly('{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ValueError: perhaps not strict JSON
    """
    value, end = _quick_decoder.raw_decode(text, start)
    try:
        written = to_json(value)
    except PydanticSerializationError:
        raise ValueError("perhaps not strict JSON") from None
    escaped = text.find("\\", start, end)  # many times faster than a search for five characters
    if (
        written.count(b":") != text.count(":", start, end)
        or (escaped >= 0 and text.find("\\u003", escaped, end) >= 0)
        or (b"Infinity" in written and any(find_json_problems(value)))
    ):
        raise ValueError("perhaps not strict JSON")
    return value, end


def _decode_with_care(text: str) -> tuple[Any, bool]:
    """Return the value of a JSON text, and whether it violates the standard.

    All repeated keys are marked, and every number is kept.
    """
    blemished = False

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        nonlocal blemished
        blemished = True
        marked, keys = _RepeatedKeys(pairs), [key for key, _ in pairs]
        marked.repeated = tuple(dict.fromkeys(key for key in keys if keys.count(key) > 1))
        return marked

    def parse_number(digits: str) -> float:
        found = float(digits)
        if found - found != 0.0:
            nonlocal blemished
            blemished = True
        return found

    decoder = json.JSONDecoder(object_pairs_hook=build_object, parse_constant=parse_number, parse_float=parse_number)
    value = decoder.decode(text)
    return value, blemished or has_lone_surrogate(text)


def parse_json(text: str, where: str = "JSON") -> Any:
    r"""Return the value of a JSON text.

    NaN and Infinity (also by overflow, `1e999`), repeated keys and lone surrogates are refused; all are reported.

    Args:
        text: the JSON text.
        where: the head of every message.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> parse_json('{"weight": 1.5}')
        {'weight': 1.5}
        >>> parse_json('[{"weight": NaN}, {"a": 1, "a": 2}]', "rubric.json")
        Traceback (most recent call last):
        autorubric.errors.InputError: 2 problems:
          rubric.json: [0].weight is nan; JSON numbers are finite; write null, or leave the key out
          rubric.json: [1] has the key 'a' twice
    """
    if not isinstance(text, str):
        raise InputError(f"{where}: expected a string, got {type(text).__name__}")
    text, doubtful = text.removeprefix("\ufeff"), False
    body = text.strip(" \t\n\r")
    try:
        value, end = decode_quickly(body)
    except (ValueError, RecursionError):
        end = -1
    if end != len(body):
        try:
            value, doubtful = _decode_with_care(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: {describe_parse_error(error)}") from None
    # Counting brackets is less work than walking the value, except in a long text with many brackets.
    if (len(text) > _LONG or text.count("[") + text.count("{") > DEEPEST) and is_too_deep(value):
        raise InputError(f"{where}: {_TOO_DEEP}")
    if doubtful:
        problems = [f"{where}: {problem}" for problem in find_json_problems(value)]
        if problems:
            raise InputError(problems)
    return value


def is_too_deep(value: Any) -> bool:
    """Return whether lists and mappings nest deeper than `DEEPEST` levels.

    Example:
        >>> is_too_deep([[{"a": 1}]])
        False
    """
    # This runs for every value of a file; a set of types is several times faster than isinstance.
    level = [value] if type(value) in _NESTING else []
    for _ in range(DEEPEST):
        level = [
            member
            for node in level
            for member in (node if type(node) is list else node.values())
            if type(member) in _NESTING
        ]
        if not level:
            return False
    return True


def describe_parse_error(error: ValueError | RecursionError) -> str:
    """Return a parser's error, worded for the author of the text.

    Example:
        >>> try:
        ...     json.loads('{"weight": five}')
        ... except ValueError as error:
        ...     describe_parse_error(error)
        "column 12: expected a value, found 'five'"
    """
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, json.JSONDecodeError):
        return _describe_decode_error(error)
    message = str(error)
    return "a whole number has more than 4300 digits" if "set_int_max_str_digits" in message else message


# The beginnings of messages of Python's parser, and our messages; `{}` is the text at the error.
_FAULTS = (
    ("Expecting value", "expected a value, found {}"),
    ("Expecting property name", "expected a key in double quotes, found {}"),
    ("Expecting ':'", "expected ':' after the key, found {}"),
    ("Expecting ','", "expected ',' or the closing bracket, found {}"),
    ("Illegal trailing comma", "expected no ',' before the closing bracket"),
    ("Extra data", "expected nothing after the value, found {}"),
    ("Unterminated string", "the string that starts here has no closing quote"),
    ("Invalid control character", "a string contains {}, which JSON requires to be escaped"),
    ("Invalid \\", "a string contains a backslash that starts no escape; write two backslashes"),
)
_TOKEN = re.compile(r"[\w.+-]{1,40}|.", re.DOTALL)


def _describe_decode_error(error: json.JSONDecodeError) -> str:
    """Describe where the JSON is invalid, what was expected there and what was found."""
    here = _TOKEN.match(error.doc, error.pos)
    found = repr(here[0]) if here else "the end of the text"
    message = next((words for start, words in _FAULTS if error.msg.startswith(start)), error.msg)
    line = f"line {error.lineno}, " if "\n" in error.doc else ""
    return f"{line}column {error.colno}: {message.replace('{}', found)}"


def dump_json(value: Any, indent: int | None = None) -> str:
    """`value` as JSON text that keeps every language readable and that `parse_json` reads back.

    Raises:
        InputError: a number is NaN or infinite, a text contains a lone surrogate, or something has no JSON form.

    Example:
        >>> dump_json({"query": "什么是光合作用?"})
        '{"query": "什么是光合作用?"}'
    """
    try:
        text = _compact(value) if indent is None else _dump_indented(value, "\n", " " * indent)
        if text.isascii() or not _is_unencodable(text):
            return text
    except TypeError as error:
        raise InputError(list(_find_unserializable(value, "")) or str(error)) from None
    except RecursionError as error:
        raise InputError(str(error)) from None
    except ValueError as error:
        if "Circular" in str(error):
            raise InputError(str(error)) from None
    raise InputError(find_json_problems(value))


def _dump_indented(value: Any, newline: str, step: str) -> str:
    """Do the work of `json.dumps` with an indent, which is not implemented in C, several times faster."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is float:
        return repr(value) if value - value == 0.0 else _compact(value)
    if kind not in (dict, list) or not value:
        return _compact(value)
    inner = newline + step
    if kind is list:
        members = [_dump_indented(member, inner, step) for member in value]
        return f"[{inner}{f',{inner}'.join(members)}{newline}]"
    members = [  # a key that is not text as JSON writes it: `null` for None
        f"{_quoted(key) if type(key) is str else _compact({key: 0})[1:-4]}: {_dump_indented(member, inner, step)}"
        for key, member in value.items()
    ]
    return f"{{{inner}{f',{inner}'.join(members)}{newline}}}"


def has_lone_surrogate(text: str) -> bool:
    r"""Return whether JSON text contains a lone surrogate, escaped or bare.

    Example:
        >>> has_lone_surrogate(r'"\ud83d\ude00"'), has_lone_surrogate(r'"\ud83d"')
        (False, True)
    """
    if not text.isascii() and _is_unencodable(text):
        return True
    # Most texts have no backslash, and a search for one character is many times faster than for three.
    if "\\" not in text or ("\\ud" not in text and "\\uD" not in text):
        return False
    return any(match[1] for match in _ESCAPED_SURROGATES.finditer(text))


def _find_unserializable(value: Any, path: str) -> Iterator[str]:
    """Yield a sentence for each place in a value whose type has no JSON equivalent."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _find_unserializable(member, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _find_unserializable(member, f"{path}[{index}]")
    elif not isinstance(value, str | int | float | None):
        kinds = "text, a number, a boolean, a list or a mapping"
        yield f"{path or 'the document'} is of type {type(value).__name__}; expected {kinds}"


def find_json_problems(value: Any, path: str = "") -> Iterator[str]:
    r"""Yield a sentence for each place in a value that strict JSON cannot represent.

    Example:
        >>> list(find_json_problems({"items": [1.0, float("inf")]}))
        ['items[1] is inf; JSON numbers are finite; write null, or leave the key out']
    """
    place = path or "the document"
    if isinstance(value, str):
        if _is_unencodable(value):
            yield f"{place} contains a lone surrogate: {_find_first_surrogate(value)}"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{place} is {value}; JSON numbers are finite; write null, or leave the key out"
    elif isinstance(value, dict):
        yield from _find_member_problems(value, path)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from find_json_problems(member, f"{path}[{index}]")


def _find_member_problems(members: dict[Any, Any], path: str) -> Iterator[str]:
    place = path or "the document"
    if isinstance(members, _RepeatedKeys):
        yield from (f"{place} has the key {key!r} twice" for key in members.repeated)
    for key, member in members.items():
        if isinstance(key, str) and _is_unencodable(key):
            yield f"{place} has a key with a lone surrogate: {_find_first_surrogate(key)}"
            continue
        yield from find_json_problems(member, f"{path}.{key}" if path else str(key))


def _is_unencodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _find_first_surrogate(text: str) -> str:
    return next(f"U+{ord(char):04X}" for char in text if "\ud800" <= char <= "\udfff")


SLOW_MARK = b" "
"""The first byte of the slow encoder's output; only that output can contain lone surrogates."""


def encode_json(value: Any) -> bytes:
    """Return the compact JSON of a value in UTF-8.

    NaN and infinity become null. Lone surrogates, which the quick encoder refuses, are written as three bytes each
    (`surrogatepass`). Raises `TypeError` if a value has no JSON form.

    Example:
        >>> encode_json({"title": "剂量", "weight": 9}).decode()
        '{"title":"剂量","weight":9}'
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return SLOW_MARK + text.encode("utf-8", "surrogatepass")


def decode_json(data: bytes, *, share_texts: bool = True) -> Any:
    """Return the value of JSON in UTF-8, with lone surrogates and NaN as `json` reads them; else a `ValueError`.

    `share_texts` makes equal short texts one object: a third slower, but values that are kept take less memory.

    Example:
        >>> decode_json(b'{"a": [1, 2.5, null]}')
        {'a': [1, 2.5, None]}
    """
    if data[:1] == SLOW_MARK:
        return json.loads(data)
    try:
        return from_json(data, allow_inf_nan=False, cache_strings="all" if share_texts else "keys")
    except ValueError:
        return json.loads(data)
