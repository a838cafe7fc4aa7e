"""From a stretch of text to a JSON value, and from a value to the part of it that was asked for."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, NoReturn, TypeAlias

from autorubric.llm.reading.json_scan import MOST_NESTED, holds_data, is_elided, with_plain_punctuation

Want: TypeAlias = Literal["array", "object"]

MOST_REPAIRED = 100_000
"""Characters that the repair library is given at most: it promises no linear time."""

_ENVELOPES = (
    "arguments",
    "parameters",
    "input",
    "function",
    "result",
    "response",
    "answer",
    "output",
    "data",
    "json",
)
_NUMBERED = re.compile(r"\D*\d+\Z")
_ODD_KEY = re.compile(r'[\[\]{}"\n:]')
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CODED = re.compile(r"\\[ubf]")
_EATEN_BACKSLASH = re.compile(r"[\b\f](?=[A-Za-z])")


class NotFiniteError(ValueError):
    """The text holds NaN or an infinity, which are not JSON."""


def parse_json(text: str, notes: list[str]) -> Any:
    """The value of `text`, by the strict rules first, then with its punctuation mended, then repaired.

    What had to be overlooked is added to `notes`.

    Raises:
        NotFiniteError: a number is NaN or infinite.
        ValueError: the text is not JSON.

    Example:
        >>> notes = []
        >>> parse_json("[{'title': 'Dose',}]", notes), notes
        ([{'title': 'Dose'}], ['the JSON was broken and was repaired'])
    """
    try:
        return strict_json(text, notes)
    except NotFiniteError:
        raise
    except ValueError:
        pass
    try:
        value = strict_json(with_plain_punctuation(text), notes)
    except NotFiniteError:
        raise
    except ValueError:
        return repair_json(text, notes)
    notes.append("stray or full-width punctuation was mended")
    return value


def repair_json(text: str, notes: list[str]) -> Any:
    """The value that the repair library sees in `text`; the repair is noted.

    Raises:
        ValueError: the text does not begin like data in JSON, leaves entries out, or is too long to try.

    Example:
        >>> repair_json("[{title: 'Dose'}]", [])
        [{'title': 'Dose'}]
    """
    if not holds_data(text) or is_elided(text) or len(text) > MOST_REPAIRED:
        raise ValueError("not JSON")
    import json_repair

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except RecursionError as error:
        raise ValueError("not JSON") from error
    value = _cleaned(value, notes)
    if not value or _has_odd_key(value):
        raise ValueError("not JSON")
    notes.append("the JSON was broken and was repaired")
    return value


def _has_odd_key(value: Any) -> bool:
    """True where a repair took punctuation for words: what it made of the rest is not to be trusted."""
    if isinstance(value, list):
        return any(_has_odd_key(inner) for inner in value)
    if isinstance(value, dict):
        return any(_ODD_KEY.search(key) or _has_odd_key(inner) for key, inner in value.items())
    return False


def strict_json(text: str, notes: list[str]) -> Any:
    """The value of `text` by the rules of JSON, raw line breaks in strings aside; repeated keys are noted.

    Raises:
        NotFiniteError: a number is NaN or infinite.
        ValueError: the text is not JSON, or nests too deeply.

    Example:
        >>> notes = []
        >>> strict_json('{"a": 1, "a": 2}', notes), notes
        ({'a': 2}, ["key 'a' was given twice; the last was taken"])
    """
    found: list[str] = []

    try:
        parsed = _DECODER.decode(text)
        if _keys_in(parsed) != text.count('":'):
            # A key may have been given twice, or a string holds the same signs: the slow way tells.
            parsed = json.loads(
                text,
                strict=False,
                object_pairs_hook=lambda pairs: _paired(pairs, found),
                parse_constant=_refused,
                parse_float=_finite,
            )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    value = _cleaned(parsed, found) if _may_need_cleaning(text) else parsed
    notes.extend(dict.fromkeys(found))
    return value


def _may_need_cleaning(text: str) -> bool:
    """True where there may be half characters, eaten backslashes, or brackets nested without end."""
    if "\\" in text and _CODED.search(text):
        return True
    if not text.isascii() and _SURROGATE.search(text):
        return True
    return text.count("[") + text.count("{") > MOST_NESTED


def _paired(pairs: list[tuple[str, Any]], found: list[str]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        found.extend(f"key {key!r} was given twice; the last was taken" for key in value if keys.count(key) > 1)
    return value


def _refused(name: str) -> NoReturn:
    raise NotFiniteError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refused(str(number))


# Making a decoder costs as much as reading a short reply with it.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_refused, parse_float=_finite)


def _keys_in(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_keys_in, value))
    if isinstance(value, dict):
        return len(value) + sum(_keys_in(inner) for inner in value.values() if isinstance(inner, list | dict))
    return 0


def _cleaned(value: Any, notes: list[str], depth: int = 0) -> Any:
    """`value` without lone surrogates, with the LaTeX backslashes that JSON took for escapes put back."""
    if isinstance(value, str):
        return _cleaned_text(value, notes)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotFiniteError(f"{value} is not a JSON number")
    if depth > MOST_NESTED:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_cleaned(inner, notes, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {_cleaned_text(key, notes): _cleaned(inner, notes, depth + 1) for key, inner in value.items()}
    return value


def _cleaned_text(text: str, notes: list[str]) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        text = _SURROGATE.sub("\ufffd", text)
        notes.append("half characters were replaced")
    # "\frac" in a JSON string is a form feed and "rac": no text to grade holds form feeds or backspaces.
    if "\f" in text or "\b" in text:
        text = _EATEN_BACKSLASH.sub(lambda match: "\\f" if match.group() == "\f" else "\\b", text)
    return text


def unwrap(value: Any, want: Want, keys: tuple[str, ...], notes: list[str], depth: int = 5) -> Any:
    """The wanted array or object inside `value`, or None where there is none.

    Looks through the wrappers that models put around: an object with one of `keys`, a tool call, a list of
    one, JSON inside a string.

    Args:
        value: what was parsed.
        want: the type asked for.
        keys: for an array, the keys it may stand under; for an object, keys of which it has at least one.
        notes: gets a sentence for every guess made.
        depth: how many wrappers deep to look.

    Example:
        >>> unwrap({"arguments": {"criteria": [{"title": "Dose"}]}}, "array", ("criteria",), [])
        [{'title': 'Dose'}]
    """
    if isinstance(value, str) and depth and holds_data(value.lstrip()):
        try:
            inner = strict_json(value, notes)
        except ValueError:
            return None
        notes.append("the JSON came as text inside JSON")
        return unwrap(inner, want, keys, notes, depth - 1)
    if isinstance(value, list):
        return _from_list(value, want, keys, notes, depth)
    if not isinstance(value, dict):
        return None
    if want == "object" and (not keys or any(key in value for key in keys)):
        return value
    return _from_object(value, want, keys, notes, depth) if depth else None


def _from_list(value: list[Any], want: Want, keys: tuple[str, ...], notes: list[str], depth: int) -> Any:
    alone = value[0] if len(value) == 1 and depth else None
    if want == "array":
        wrapped = isinstance(alone, list) or (isinstance(alone, dict) and any(_listed(alone, key) for key in keys))
        return unwrap(alone, want, keys, notes, depth - 1) if wrapped else value
    if not isinstance(alone, dict):
        return None
    notes.append("the object came in a list of one")
    return unwrap(alone, want, keys, notes, depth - 1)


def _from_object(value: dict[str, Any], want: Want, keys: tuple[str, ...], notes: list[str], depth: int) -> Any:
    by_name = {key.strip().lower(): inner for key, inner in value.items()}
    for key in (*(keys if want == "array" else ()), *_ENVELOPES):
        if isinstance(by_name.get(key), (list, dict, str)):
            inner = unwrap(by_name[key], want, keys, notes, depth - 1)
            if inner is not None:
                return inner
    return _guessed(value, notes) if want == "array" else None


def _guessed(value: dict[str, Any], notes: list[str]) -> list[Any] | None:
    """The array that an object without a known key must have meant, where only one reading is possible."""
    lists = [key for key, inner in value.items() if _listed(value, key) and all(isinstance(i, dict) for i in inner)]
    if len(lists) == 1:
        notes.append(f"the array stood under {lists[0]!r}")
        found: list[Any] = value[lists[0]]
        return found
    if value and all(isinstance(inner, dict) and _NUMBERED.match(key) for key, inner in value.items()):
        notes.append("an object with numbered keys was taken as the array")
        return list(value.values())
    return None


def _listed(value: dict[str, Any], key: str) -> bool:
    return isinstance(value.get(key), list) and bool(value[key])
