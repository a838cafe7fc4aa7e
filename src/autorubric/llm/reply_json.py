"""JSON in the text of a reply: where it is, found in one pass over its brackets, and its value."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

MOST_NESTED = 64

# An unclosed string runs to the end, so that every quote is visited once.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_TOKEN = re.compile(rf"[\[\]{{}}]|{_STRING}", re.DOTALL)
_OPENER = re.compile(r"[\[{]")
_PUNCTUATION = re.compile(rf"{_STRING}|[,，：]|[−–](?=\d)", re.DOTALL)
_MARKDOWN_ESCAPE = re.compile(r"(?<!\\)\\_")
_CLOSER_NEXT = re.compile(r"\s*[\]}]")
# Entries that the model left out.
_ELISION = re.compile(r"(?:[,\[{]|//|#)\s*(?:\.\.\.|…)|(?://|#)[^\n\"]*\b(?:so on|etc|more|remaining|rest|others?)\b")
_LOOKS_LIKE_JSON = re.compile(r"""\[\s*(?:[\[\]{"'“‘]|//|/\*|-?\d|true|false|null)|\{\s*(?:["'“‘}]|//|/\*|\w+\s*:)""")
_HOLDS_DATA = re.compile(r"""\[\s*(?:[\[{"'“‘]|//|/\*|\Z)|\{\s*(?:["'“‘]|//|/\*|\w+\s*:|\Z)""")
_FENCE = re.compile(r"(?:`{3,}|~{3,})\w*\s*")
_BEFORE_FENCED = re.compile(r"(?:^|\n)[ \t>]*(?:`{3,}|~{3,})[ \t]*[\w+-]*\s*\Z")
_CLOSES = {"]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class JsonSpan:
    """Text from an opening bracket to after the closing one.

    `fenced` spans open a code fence; before `in_broken` ones, a bracket that looked like JSON was never closed.
    """

    start: int
    end: int
    fenced: bool = False
    in_broken: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """The outermost closed spans that look like JSON, in order.

    `broken` is the start of the first span that looks like JSON and does not close; `too_deep` says that brackets
    nest deeper than `MOST_NESTED`; `steps` counts the brackets and strings visited.
    """

    spans: tuple[JsonSpan, ...]
    broken: int | None
    too_deep: bool
    steps: int


def scan_json(text: str) -> Scan:
    """Return the spans of `text` that may be JSON, found without parsing.

    Quotes count only inside brackets, so that prose may contain any. A bracket that does not close, or that begins
    like prose (`[see below]`), is skipped and its content scanned. The work is bounded by a small multiple of the
    text's length.

    Example:
        >>> text = 'See [1]: {"a": "]"} and [this'
        >>> [text[span.start : span.end] for span in scan_json(text).spans]
        ['[1]', '{"a": "]"}']
    """
    spans: list[JsonSpan] = []
    broken: int | None = None
    too_deep = False
    steps, position, allowance = 0, 0, 2 * len(text) + 1000
    while steps < allowance and (opener := _OPENER.search(text, position)):
        start = opener.start()
        end, reached, used = _find_closing(text, start)
        steps += used
        if end is None:
            too_deep |= used > MOST_NESTED and reached > start + 1
            if broken is None and _HOLDS_DATA.match(text, start):
                broken = start
            position = reached
        elif _LOOKS_LIKE_JSON.match(text, start):
            fenced = _BEFORE_FENCED.search(text, max(0, start - 60), start) is not None
            spans.append(JsonSpan(start, end, fenced, broken is not None))
            position = end
        else:
            position = start + 1
    return Scan(tuple(spans), broken, too_deep, steps)


def _find_closing(text: str, start: int) -> tuple[int | None, int, int]:
    """Return the end of the span from `start` or None, where to continue if there is none, and the steps taken."""
    open_brackets: list[str] = []
    steps = 0
    for token in _TOKEN.finditer(text, start):
        steps += 1
        mark = token.group()[0]
        if mark in "[{":
            open_brackets.append(mark)
            if len(open_brackets) > MOST_NESTED:
                return None, token.end(), steps
        elif mark in "]}":
            if open_brackets.pop() != _CLOSES[mark]:
                return None, start + 1, steps
            if not open_brackets:
                return token.end(), token.end(), steps
    return None, start + 1, steps


def strip_fence(text: str) -> str:
    """Return a text without the code fence around it."""
    return _FENCE.sub("", text, count=1).rstrip("`~ \n") if text.startswith(("```", "~~~")) else text


def may_hold_data(text: str) -> bool:
    """Return whether `text` begins like JSON with content, not like a number or word in brackets."""
    return _HOLDS_DATA.match(text) is not None


def describe_form(text: str) -> str:
    """Return what kind of JSON a text is, in words; empty if it is not JSON.

    Example:
        >>> describe_form('["MET"]'), describe_form("It is met.")
        ('a JSON array', '')
    """
    try:
        value = json.loads(strip_fence(text))
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict | list):
        return "a JSON object with other keys" if isinstance(value, dict) else "a JSON array"
    return "a JSON string" if isinstance(value, str) else f"the JSON value {json.dumps(value)}"


def _normalize_mark(match: re.Match[str]) -> str:
    """Make punctuation ASCII, and drop commas before a closing bracket; strings stay unchanged."""
    found = match.group()
    if found[0] == '"':
        return found
    if found in "：−–":
        return ":" if found == "：" else "-"
    return "" if _CLOSER_NEXT.match(match.string, match.end()) else ","


MOST_REPAIRED = 100_000
"""Maximum characters for the repair library, which is not linear in time."""

_ODD_KEY = re.compile(r'[\[\]{}"\n:]')
_QUOTED_KEY = re.compile(r"[\"'“](\w+)[\"'”]\s*[:：]")
_VERDICT = r"(?:true|false|(?:un)?met|cannot_assess)\b(?![\"'”]?\s*:)"
_HEDGED = re.compile(
    r"(?i)[\"'“](?P<key>(?:\w+_)?(?:option|choice|select(?:ed|ion)|option_number|answer|result|grade"
    rf"|met|status|verdict|judge?ment|decision))[\"'”]\s*[:：]\s*(?:[~<>≈≤≥≠!]|(?P<quote>[\"“])?"
    rf"(?:(?P<number>[-+−–]?\d+(?:\.\d+)?)|{_VERDICT})(?(quote)[\"”])(?:\s*[?+]|\s*[-–—~～;|&]\s*[\"“]?\d"
    rf"|(?:\s+|\s*,\s*)\d+(?!\d|[\"']?\s*:)|\s*[,;|/&]\s*[\"“]?{_VERDICT}|\W{{1,4}}(?:maybe|perhaps)\b"
    rf"|\W{{1,4}}(?:or|and|to|oder|ou|bis|或|至|到)\W{{0,3}}(?:\d|{_VERDICT})"
    r"|(?(number)(?!)|\W{1,4}(?:part(?:ly|ially)|mostly|nearly|almost|but|not)\b)))"
)
"""A verdict or option with more next to it, which a repair leaves out: `1 or 2`, `~1`, `true (partly)`.

Words next to a number may be its label: `2 (partly)`.
"""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NEEDS_CLEANING = re.compile(r"\\[ubf]|[\ud800-\udfff]")
_EATEN_BACKSLASH = re.compile(r"[\b\f](?=[A-Za-z])")


class UncertainError(Exception):
    """The text can be parsed, but is ambiguous."""


def parse_json(text: str, notes: list[str]) -> Any:
    """The value of `text`: parsed strictly, then with normalized punctuation, then repaired; `notes` record how.

    Raises an `UncertainError` if a number is NaN or infinite or a key has two different values, and a `ValueError` if
    the text is not JSON.
    """
    try:
        return parse_strictly(text, notes)
    except ValueError:
        text = _MARKDOWN_ESCAPE.sub("_", text)  # "criterion\\_status", as Mixtral writes it
    try:
        value = parse_strictly(_PUNCTUATION.sub(_normalize_mark, text), notes)
    except ValueError:
        return repair_json(text, notes)
    notes.append("stray or full-width punctuation was normalized")
    return value


def repair_json(text: str, notes: list[str]) -> Any:
    """Return the value from the repair library, with a note; a `ValueError` for prose, elided or overlong text.

    Raises an `UncertainError` if the repair lost a key: a string with unescaped quotes may hold a whole other object,
    such as a verdict that the judge quotes from the submission. It also raises one if a verdict or option is hedged.
    """
    if not may_hold_data(text) or _ELISION.search(text) or len(text) > MOST_REPAIRED:
        raise ValueError("not JSON")
    if hedged := _HEDGED.search(text):
        raise UncertainError(f"the reply is broken JSON, in which the value of {hedged['key']!r} is not certain")
    import json_repair

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except Exception as error:  # the library fails on some texts, with errors of any kind
        raise ValueError("not JSON") from error
    value = _clean(value, notes)
    if not value or any(map(_ODD_KEY.search, keys := _list_keys(value))):  # punctuation taken for words
        raise ValueError("not JSON")
    kept = json.dumps(value, ensure_ascii=False)
    if lost := [key for key in (*keys, *_QUOTED_KEY.findall(text)) if text.count(key) > kept.count(key)]:
        raise UncertainError(f"the reply is broken JSON, in which key {lost[0]!r} may have two values")
    notes.append("the JSON was broken and was repaired")
    return value


def _list_keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _list_keys(inner))]
    return [key for inner in value for key in _list_keys(inner)] if isinstance(value, list) else []


def parse_strictly(text: str, notes: list[str]) -> Any:
    """The value of `text` by the rules of JSON, with raw line breaks allowed in strings; repeated keys are noted."""
    found: list[str] = []
    try:
        try:
            parsed = _DECODER.decode(text)
        except _RepeatedKeyError:
            parsed = json.loads(
                text,
                strict=False,
                object_pairs_hook=lambda pairs: _build_object(pairs, found),
                parse_constant=_refuse,
                parse_float=_to_float,
            )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    # Lone surrogates, lost backslashes and very deep nesting are rare.
    odd = ("\\" in text or not text.isascii()) and _NEEDS_CLEANING.search(text)
    value = _clean(parsed, found) if odd or text.count("[") + text.count("{") > MOST_NESTED else parsed
    notes.extend(dict.fromkeys(found))
    return value


def _build_object(pairs: list[tuple[str, Any]], found: list[str]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, inner in pairs:
        if key in value:
            # Two criteria merged into one object look like this; either choice would lose one.
            if value[key] != inner:
                raise UncertainError(f"the reply gives key {key!r} two values in one object")
            found.append(f"key {key!r} was given twice")
        value[key] = inner
    return value


def _refuse(name: str) -> NoReturn:
    raise UncertainError(f"the reply is not JSON: {name} is not a JSON number")


def _to_float(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(str(number))


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedKeyError
    return value


# Making a decoder costs as much as reading a short reply with it.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_to_dict, parse_constant=_refuse, parse_float=_to_float)


def _clean(value: Any, notes: list[str], depth: int = 0) -> Any:
    """`value` without lone surrogates, and with LaTeX backslashes that JSON read as escapes restored."""
    if isinstance(value, str):
        return _clean_text(value, notes)
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(str(value))
    if depth > MOST_NESTED:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_clean(inner, notes, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {_clean_text(key, notes): _clean(inner, notes, depth + 1) for key, inner in value.items()}
    return value


def _clean_text(text: str, notes: list[str]) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        text = _SURROGATE.sub("\ufffd", text)
        notes.append("half characters were replaced")
    # "\frac" in a JSON string is a form feed and "rac"; real texts contain no form feeds or backspaces.
    if "\f" in text or "\b" in text:
        text = _EATEN_BACKSLASH.sub(lambda match: "\\f" if match.group() == "\f" else "\\b", text)
    return text
