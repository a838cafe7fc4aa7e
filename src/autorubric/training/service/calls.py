"""Strict parsing of the body of a reward call; all problems are reported together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from autorubric.errors import InputError
from autorubric.files import parse_json, suggest_name
from autorubric.rows.messages import read_message
from autorubric.training.adapters.openrlhf import remote_samples
from autorubric.training.queries import read_rubric
from autorubric.training.rewarder import Sample

Shape: TypeAlias = Literal["single", "batch", "openrlhf"]

_MOST_NUMBER = 2**53 - 1  # the largest integer that every JSON parser reads exactly
_MOST_PROBLEMS = 100  # reading a call stops there, so that no caller holds up the others
_ITEM_KEYS = ("query", "submission", "rubric", "reference", "id", "length", "step", "split")
_CALL_KEYS = ("items", "deadline_seconds")
_OPENRLHF_KEYS = ("query", "prompts", "labels")


@dataclass(frozen=True, slots=True)
class RewardCall:
    """A parsed call."""

    shape: Shape
    samples: tuple[Sample, ...]
    deadline: float | None = None


def read_call(body: bytes) -> RewardCall:
    """Parse the call in a request's body.

    One submission is `{"query", "submission", "rubric"}`; several are `{"items": [...]}` of such objects. OpenRLHF
    sends `{"query": [...], "prompts": [...], "labels": [...]}`, where an entry of `query` is the prompt followed by
    the response, and a label is the text of a rubric. A submission may also have `reference`, `id`, `length`
    (tokens, for an overlong penalty), `step` and `split`.

    Raises:
        InputError: one problem for each invalid key or item.

    Example:
        >>> body = b'{"query": "Why?", "submission": "So.", "rubric": [{"requirement": "x"}]}'
        >>> call = read_call(body)
        >>> call.shape, call.samples[0].submission
        ('single', 'So.')
        >>> read_call(b'{"submision": "So.", "rubric": [{"requirement": "x"}]}')
        Traceback (most recent call last):
        autorubric.errors.InputError: 2 problems:
          unknown key 'submision'; did you mean 'submission'?
          submission is missing; expected a string
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    value = parse_json(text, "the body")
    if not isinstance(value, dict):
        raise InputError(f"the body is a JSON {_describe_kind(value)}; expected an object")
    if "labels" in value or (isinstance(value.get("query"), list) and "submission" not in value):
        return _read_openrlhf(value)
    if "items" in value:
        return _read_batch(value)
    deadline = _read_deadline(value)
    sample = _read_sample({k: v for k, v in value.items() if k != "deadline_seconds"}, "")
    return RewardCall("single", (sample,), deadline)


def _read_batch(value: Mapping[str, Any]) -> RewardCall:
    problems = _find_unknown_keys(value, _CALL_KEYS, "")
    items = value["items"]
    if not isinstance(items, list) or not items:
        raise InputError([*problems, "items is empty or not a list; expected one object per submission"])
    samples = []
    for number, item in enumerate(items):
        try:
            samples.append(_read_sample(item, f"items[{number}]"))
        except InputError as error:
            problems += error.problems
        if len(problems) >= _MOST_PROBLEMS:
            raise InputError(problems, f"reading stopped after {_MOST_PROBLEMS} problems")
    if problems:
        raise InputError(problems)
    return RewardCall("batch", tuple(samples), _read_deadline(value))


def _read_sample(item: Any, where: str) -> Sample:
    head = f"{where}: " if where else ""
    if not isinstance(item, dict):
        raise InputError(f"{head}is a JSON {_describe_kind(item)}; expected an object")
    problems = _find_unknown_keys(item, _ITEM_KEYS, head)
    submission, query = item.get("submission"), item.get("query")
    query = [*map(read_message, query)] if isinstance(query, list) else query
    if not isinstance(submission, str):
        problems.append(f"{head}submission is {_describe(item, 'submission')}; expected a string")
    if not _is_query(query):
        problems.append(f"{head}query is {_describe(item, 'query')}; expected a string, or turns of role and content")
    for key, kind in (("reference", str), ("id", str), ("length", int), ("step", int), ("split", str)):
        given = item.get(key)
        if given is not None and (isinstance(given, bool) or not isinstance(given, kind)):
            expected = "a string" if kind is str else "a whole number"
            problems.append(f"{head}{key} is {_describe(item, key)}; expected {expected}")
    problems += (
        f"{head}{key} is out of range; expected 0 to {_MOST_NUMBER:,}"
        for key in ("length", "step")
        if isinstance(item.get(key), int) and not 0 <= item[key] <= _MOST_NUMBER
    )
    rubric = None
    try:
        rubric = read_rubric(item.get("rubric"), f"{head}rubric")
    except InputError as error:
        problems += error.problems
    if problems or rubric is None or not isinstance(submission, str):
        raise InputError(problems)
    values = {key: item.get(key) for key in ("reference", "length", "step", "split")}
    return Sample(submission, rubric, query, item=item.get("id") or "", **values)


def _read_openrlhf(value: Mapping[str, Any]) -> RewardCall:
    """Parse a call of OpenRLHF, which sends samples only to the first of several addresses, else empty calls."""
    problems = _find_unknown_keys(value, _OPENRLHF_KEYS, "")
    columns = []
    for key in _OPENRLHF_KEYS:
        column = value.get(key)
        if not isinstance(column, list) or not all(isinstance(text, str) for text in column):
            problems.append(f"{key} is {_describe(value, key)}; expected a list of strings")
        else:
            columns.append(column)
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(str(len(column)) for column in columns)
        problems.append(f"query, prompts and labels have {counts} entries; expected the same number of each")
    if problems:
        raise InputError(problems)
    return RewardCall("openrlhf", tuple(remote_samples(*columns)))


def _read_deadline(value: Mapping[str, Any]) -> float | None:
    given = value.get("deadline_seconds")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= _MOST_NUMBER:
        raise InputError(f"deadline_seconds is {given!r:.60}; expected a number of seconds above 0")
    return float(given)


def _find_unknown_keys(value: Mapping[str, Any], known: tuple[str, ...], head: str) -> list[str]:
    unknown = [key[:60] for key in value if key not in known and not (not head and key == "deadline_seconds")]
    return [f"{head}unknown key {key!r}; {suggest_name(key, known)}" for key in unknown[:_MOST_PROBLEMS]]


def _is_query(query: Any) -> bool:
    if query is None or isinstance(query, str):
        return True
    return (
        isinstance(query, list)
        and bool(query)
        and all(
            isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)
            for turn in query
        )
    )


def _describe(value: Mapping[str, Any], key: str) -> str:
    return "missing" if key not in value else f"a JSON {_describe_kind(value[key])}"


def _describe_kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
