"""The value in a reply, read by the strictest rules first.

1. A refusal, a content filter, a truncated or an empty reply is not read.
2. Thinking before the answer is removed; JSON inside a JSON string is unescaped.
3. Every span between brackets that looks like JSON is found. Of several lists, fenced or not, one is read only if it
   has all entries of the others; of equal ones a fenced one is preferred, then the last.
4. A span is parsed strictly, then with normalized punctuation, then repaired; the last two add a note.
5. The wanted array or object is taken out of the wrappers that models add.

Unclosed JSON is never completed: half a rubric looks like a whole one.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from autorubric.llm import reply_json
from autorubric.llm.request import Answer, Reply, Unreadable, Usage
from autorubric.llm.thinking import find_misplaced_answer, remove_thinking

Want: TypeAlias = Literal["array", "object"]

_ENVELOPES = (
    *("evaluation", "judgment", "judgement", "properties", "arguments", "parameters", "input", "function"),
    *("result", "response", "answer", "output", "data", "json"),
)
_CALL = frozenset({"arguments", "function"})
_NUMBERED = re.compile(r"\D*\d+\Z")
_SEPARATORS = re.compile(r"[\s_-]+|(?<=[a-z])(?=[A-Z])")
_AS_TEXT = "the JSON came as text inside JSON"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BARE_QUOTE = re.compile(r'(?<!\\)"')


class WantedValue(NamedTuple):
    """The wanted value of a reply; `keys` and `named` as in `read_json`."""

    want: Want
    keys: tuple[str, ...] = ()
    named: str = ""


def _check_readable(reply: Reply, whole: bool = True) -> tuple[str, list[str]] | Unreadable:
    """The text of a reply after its thinking, with notes, or why not to read it; `whole` rejects truncated text."""
    if reply.refusal:
        return Unreadable("refusal", f"the model refused: {reply.refusal[:200]}", again=False)
    if reply.finish_reason == "content_filter":
        return Unreadable("refusal", "the endpoint's content filter stopped the reply", again=False)
    if whole and reply.finish_reason == "length":
        if not remove_thinking(reply.text):
            return Unreadable("truncated", _describe_no_answer(reply))
        tokens = min(filter(None, (reply.limit, (reply.usage or Usage()).completion_tokens)), default=0)
        where = f"{tokens:,} tokens" if tokens else "the token limit"
        return Unreadable("truncated", f"the reply was cut off at {where}")
    is_json = reply.text[:1] == "{" and reply.text[-1:] == "}"  # a fast check: most replies are JSON alone
    text = reply.text if is_json else remove_thinking(reply.text)
    if not text:
        return Unreadable("empty", _describe_no_answer(reply))
    halves = not text.isascii() and _SURROGATE.search(text)
    return (_SURROGATE.sub("\ufffd", text), ["half characters were replaced"]) if halves else (text, [])


def _describe_no_answer(reply: Reply) -> str:
    usage = reply.usage or Usage()
    if not (reply.reasoning or reply.text.strip() or usage.reasoning_tokens):
        return "the reply is empty"
    tokens = usage.reasoning_tokens or usage.completion_tokens
    return f"{tokens:,} tokens of reasoning and no answer" if tokens else "the reply is reasoning and no answer"


def read_text(reply: Reply, *, whole: bool = True) -> Answer[str] | Unreadable:
    """Return the text of a reply without thinking and lone surrogates; a truncated one adds a note unless `whole`.

    Example:
        >>> read_text(Reply("<think>hm</think> Four.")).value
        'Four.'
    """
    found = _check_readable(reply, whole)
    if isinstance(found, Unreadable):
        return found
    text, notes = found
    if reply.finish_reason == "length":
        notes.append("the text is cut off at the token limit")
    return Answer(text, reply, tuple(notes))


def read_json(reply: Reply, want: Want, keys: tuple[str, ...] = (), named: str = "") -> Answer[Any] | Unreadable:
    r"""Return the array or object in a reply, with a note for everything that was ignored or repaired.

    A truncated list is never an answer, nor is one of several different lists.

    Args:
        reply: a model's reply.
        want: the requested type.
        keys: for an array, the keys of an object it may be under; for an object, keys of which it has one.
        named: for an array, the field that a key stands for in an object with one entry per key.

    Example:
        >>> read_json(Reply('Here you are:\n```json\n[{"title": "Dose"},]\n```'), "array")
        Answer(value=[{'title': 'Dose'}], ..., notes=('stray or full-width punctuation was normalized',))
        >>> read_json(Reply("I would look at [3 to 25] things."), "array").message
        'the reply holds no JSON array'
    """
    found = (None if reply.text else find_misplaced_answer(reply)) or _check_readable(reply)
    if isinstance(found, Unreadable):
        return found
    text, notes = found
    asked, sent = WantedValue(want, keys, named), text
    value = _parse_whole(text, asked, notes)
    if value is None and (inner := _unescape(text, notes)) != text:
        text, value = inner, _parse_whole(inner, asked, notes)
    if value is not None:
        return Answer(value, reply, tuple(dict.fromkeys(notes)))
    scan = reply_json.scan_json(text)
    try:
        value = _choose_best(text, scan, asked, notes)
        if value is None and want == "array" and scan.broken is None:
            value = _collect_objects(text, scan, notes)
    except reply_json.UncertainError as error:
        return Unreadable("unreadable", str(error), ambiguous=True)
    if value is None:
        form = reply_json.describe_form(sent)
        is_other = want == "object" and form.startswith("a JSON object")
        message = f"the reply holds no {keys[0]}" if is_other and keys else _explain_missing(scan, want)
        return Unreadable("unreadable", message, form=form)
    return Answer(value, reply, tuple(dict.fromkeys(notes)))


def _unescape(text: str, notes: list[str]) -> str:
    """`text`, unescaped if it is the content of a JSON string."""
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    if not quoted and ('\\"' not in text or _BARE_QUOTE.search(text)):
        return text
    try:
        inner = json.loads(text if quoted else f'"{text}"', strict=False)
    except ValueError:
        return text
    notes.append(_AS_TEXT)
    return str(inner).strip()


def _parse_whole(text: str, asked: WantedValue, notes: list[str]) -> Any:
    """Return the wanted value if the text is nothing but JSON, as it usually is."""
    if text[:1] in ("`", "~"):
        text = reply_json.strip_fence(text)
    if not text.startswith(("[", "{")):
        return None
    own: list[str] = []
    try:
        value = unwrap(reply_json.parse_strictly(text, own), asked, own)
    except (ValueError, reply_json.UncertainError):
        return None
    notes.extend(own if value is not None else ())
    return value


def _choose_best(text: str, scan: reply_json.Scan, asked: WantedValue, notes: list[str]) -> Any:
    """The best wanted value: fenced, then with objects, then last; `UncertainError` if others contradict it."""
    readings, loose = [], []
    for span in scan.spans:
        own: list[str] = []
        parsed = None if span.in_broken and not span.fenced else _parse_span(text, span, asked, own)
        value = unwrap(parsed, asked, own)
        if value is None:
            loose.append(parsed)
        elif not _is_form(value):
            readings.append((span.fenced, _rank(value), span.start, value, own))
    # JSON that breaks off after the last complete value may have been meant to replace it.
    if not readings or (scan.broken is not None and scan.broken > readings[-1][2]):
        return None
    rank = max(reading[:2] for reading in readings)
    alike = [reading[3:] for reading in readings if reading[:2] == rank]
    value, own = alike[-1]
    last = _list_entries(value)
    rivals = [reading[3] for reading in readings if reading[1] == rank[1]]
    if any(entry not in last for rival in rivals for entry in _list_entries(rival)):
        raise reply_json.UncertainError(f"the reply holds {len(rivals)} different lists; expected one")
    if isinstance(value, list):
        _check_entries(value, loose, asked.named, listed=False)
    notes.extend(own)
    if len(alike) > 1 and rank[1]:
        notes.append(f"the reply holds {len(alike)} such values; the last was taken")
    return value


def _check_entries(taken: list[Any], others: list[Any], named: str, *, listed: bool) -> None:
    """Raise an `UncertainError` if another entry contradicts a taken one; `listed` ones may have more fields."""
    known = {_find_name(entry, named): entry for entry in taken}
    for other in others:
        mine = known.get(name) if (name := _find_name(other, named)) else None
        if mine and any(mine.get(key, value if listed else None) != value for key, value in other.items()):
            raise reply_json.UncertainError(f"the reply holds two different entries for {name!r:.80}")


def _find_name(entry: Any, named: str) -> str:
    fields = fold_keys(entry) if named and isinstance(entry, dict) else {}
    return str(fields.get(named) or fields.get("id") or "")


def _is_form(value: Any) -> bool:
    """Return whether a value is the form shown in the prompt, with dots in place of answers."""
    entries = value if isinstance(value, list) else [value]
    fields = [inner for entry in entries for inner in (entry.values() if isinstance(entry, dict) else [entry])]
    return bool(fields) and all(inner is None or inner in ("...", "…", "") for inner in fields)


def _list_entries(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    return [entry for inner in lists for entry in inner if isinstance(entry, dict)]


def _rank(value: Any) -> int:
    """2 for a value with objects, 1 for any other content, 0 for an empty list."""
    return 2 if isinstance(value, dict) or any(isinstance(inner, dict) for inner in value) else int(bool(value))


def _parse_span(text: str, span: reply_json.JsonSpan, asked: WantedValue, notes: list[str]) -> Any:
    inside = text[span.start : span.end]
    try:
        return reply_json.parse_json(inside, notes)
    except ValueError as error:
        if asked.want == "object" and any(f'"{key}"' in inside for key in asked.keys):
            raise reply_json.UncertainError("the reply holds broken JSON") from error
        return None


def _collect_objects(text: str, scan: reply_json.Scan, notes: list[str]) -> list[Any] | None:
    """Return the list of objects that a model wrote one after the other, without brackets."""
    try:
        values = [reply_json.parse_json(text[span.start : span.end], notes) for span in scan.spans]
    except ValueError:
        return None
    if not values or not all(isinstance(value, dict) for value in values):
        return None
    notes.append("the objects came without a list around them")
    return values


def _explain_missing(scan: reply_json.Scan, want: Want) -> str:
    if scan.too_deep:
        return f"the reply nests brackets deeper than {reply_json.MOST_NESTED}"
    if scan.broken is not None:
        return "the reply holds JSON that is never closed"
    return f"the reply holds no JSON {want}"


def unwrap(value: Any, asked: WantedValue, notes: list[str], depth: int = 5) -> Any:
    """The wanted array or object inside `value`, or None, found in up to `depth` of the wrappers that models add.

    Wrappers are an object with one of the keys, a tool call, a list of one, and JSON inside a string.

    Example:
        >>> unwrap({"arguments": {"criteria": [{"title": "Dose"}]}}, WantedValue("array", ("criteria",)), [])
        [{'title': 'Dose'}]
        >>> entries = {"Dose": {"weight": 8}, "Tone": {"weight": 2}}
        >>> unwrap(entries, WantedValue("array", named="title"), [])
        [{'title': 'Dose', 'weight': 8}, {'title': 'Tone', 'weight': 2}]
    """
    if isinstance(value, str) and depth and reply_json.may_hold_data(value.lstrip()):
        try:
            inner = reply_json.parse_strictly(value, notes)
        except (ValueError, reply_json.UncertainError):
            return None
        notes.append(_AS_TEXT)
        return unwrap(inner, asked, notes, depth - 1)
    if isinstance(value, list):
        return _from_list(value, asked, notes, depth)
    if not isinstance(value, dict):
        return None
    if asked.want == "object" and (not asked.keys or not {*value, *fold_keys(value)}.isdisjoint(asked.keys)):
        return value
    return _from_object(value, asked, notes, depth) if depth else None


def _from_list(value: list[Any], asked: WantedValue, notes: list[str], depth: int) -> Any:
    alone = value[0] if len(value) == 1 and depth else None
    if asked.want == "array":
        taken = [key for key in asked.keys if _has_list(alone, key)] if isinstance(alone, dict) else []
        if isinstance(alone, dict) and taken:
            _note_fields(alone, taken, notes)
        elif not isinstance(alone, list) and not (isinstance(alone, dict) and _CALL.intersection(alone)):
            return _from_texts(value, notes) if value and isinstance(value[0], str) else value
        return unwrap(alone, asked, notes, depth - 1)
    inner = unwrap(alone, asked, notes, depth - 1) if isinstance(alone, dict | str) else None
    if inner is not None:
        notes.append("the object came in a list of one")
    return inner


def _note_fields(entry: dict[str, Any], taken: list[str], notes: list[str]) -> None:
    """Note the fields of an entry of which only the inner list is taken; `_note_others` notes its other lists."""
    fields = [key for key, inner in entry.items() if key not in taken and not isinstance(inner, list)]
    if fields:
        notes.append(f"the fields around the list were left out: {', '.join(fields)}")


def _from_texts(value: list[Any], notes: list[str]) -> list[Any]:
    """Return the entries of a list, parsed if all of them are texts with an object."""
    if not all(isinstance(entry, str) and entry.lstrip().startswith("{") for entry in value):
        return value
    try:
        parsed = [reply_json.parse_strictly(entry, notes) for entry in value]
    except ValueError:
        return value
    notes.append(_AS_TEXT)
    return parsed


def _from_object(value: dict[str, Any], asked: WantedValue, notes: list[str], depth: int) -> Any:
    by_name = fold_keys(value)
    for key in (*(asked.keys if asked.want == "array" else ()), *_ENVELOPES):
        if isinstance(by_name.get(key), (list, dict, str)):
            inner = unwrap(by_name[key], asked, notes, depth - 1)
            if inner is not None:
                if len(by_name) > 1:
                    _note_others(by_name, key, asked, notes)
                return inner
    if asked.want == "array":
        return _find_array(value, asked, notes)
    if len(value) != 1:
        return None
    ((key, alone),) = value.items()
    inner = unwrap(alone, asked, notes, depth - 1)
    if inner is not None:
        notes.append(f"the object was under {key!r}")
    return inner


def _note_others(by_name: dict[str, Any], taken: str, asked: WantedValue, notes: list[str]) -> None:
    """Note the lists of objects next to the one taken; an `UncertainError` if one is also under a known key."""
    for key, inner in by_name.items():
        if key == taken or not isinstance(inner, list) or not any(isinstance(entry, dict) for entry in inner):
            continue
        if key in asked.keys and inner != by_name[taken]:
            raise reply_json.UncertainError(f"the reply holds lists under {taken!r} and under {key!r}; expected one")
        if isinstance(by_name[taken], list):
            _check_entries(by_name[taken], inner, asked.named, listed=True)
        notes.append(f"the list under {key!r} was left out")


def _find_array(value: dict[str, Any], asked: WantedValue, notes: list[str]) -> list[Any] | None:
    """Return the array in an object without a known key, if it is unambiguous."""
    lists = [key for key, inner in value.items() if _has_list(value, key) and all(isinstance(i, dict) for i in inner)]
    if len(lists) == 1:
        notes.append(f"the array stood under {lists[0]!r}")
        found: list[Any] = value[lists[0]]
        return found
    if not value or not all(isinstance(inner, dict) for inner in value.values()):
        return None
    if asked.named and len(value) > 1:
        notes.append("an object of entries was taken as the array")
        return [inner if key.strip().isdigit() else {asked.named: key, **inner} for key, inner in value.items()]
    if all(_NUMBERED.match(key) for key in value):
        notes.append("an object with numbered keys was taken as the array")
        return list(value.values())
    return None


def fold_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with its keys in lower case, words joined by underscores (`criterionStatus` is `criterion_status`)."""
    return {_fold(key): inner for key, inner in value.items()}


_fold = lru_cache(maxsize=1024)(lambda key: _SEPARATORS.sub("_", key.strip()).lower())


def _has_list(value: dict[str, Any], key: str) -> bool:
    return isinstance(value.get(key), list) and bool(value[key])
