"""The check of a criterion in its tags, as RubricHub and verl write it."""

import ast
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from autorubric.errors import InputError


class RuleCall(NamedTuple):
    """A rule's class name and its parameters, nulls dropped."""

    function: str
    parameters: dict[str, Any]


def rule_of_tags(tags: object) -> RuleCall | None:
    """Return the rule that the tags of a criterion name, or None if a judge decides it.

    Reads both layouts in use: a mapping `{"function", "parameters", "verifier"}`, whose parameters may be
    the full union of keys with nulls, and a list of `"key:value"` strings. Other tags are left alone.

    Raises:
        InputError: the tags contradict themselves or cannot be read.

    Example:
        >>> tags = ["verifier:rule", "function:NumberOfWords", 'parameters:{"num_words": 9.0, "m": null}']
        >>> rule_of_tags(tags)
        RuleCall(function='NumberOfWords', parameters={'num_words': 9})
        >>> rule_of_tags({"function": "", "parameters": None, "verifier": "llm"}) is None
        True
    """
    entries = _read_tag_values(tags)
    verifier, function = entries.get("verifier") or "", entries.get("function") or ""
    if verifier not in ("", "llm", "rule"):
        raise InputError(f"tags: verifier is {verifier!r}; expected 'rule' or 'llm'")
    if verifier == "rule" and not function:
        raise InputError("tags: verifier is 'rule' but no function is named")
    if verifier == "llm" and function:
        raise InputError(f"tags: verifier is 'llm' but the function is {function!r}; expected none")
    if not function:
        return None
    parameters = _parse_parameters(entries.get("parameters"))
    return RuleCall(function, {name: with_integers(value) for name, value in parameters.items() if value is not None})


def read_check_tags(tags: object) -> dict[str, Any] | None:
    """Return the rule that tags name as a criterion's `check`, or None if a judge decides it.

    Raises:
        InputError: as `rule_of_tags` does.

    Example:
        >>> read_check_tags(["verifier:rule", "function:CommaChecker", "parameters:{}"])
        {'name': 'CommaChecker', 'parameters': {}}
    """
    rule = rule_of_tags(tags)
    return None if rule is None else {"name": rule.function, "parameters": rule.parameters}


def with_integers(value: Any) -> Any:
    """Return a value as JSON has it: integral doubles become integers, tuples and arrays lists.

    Example:
        >>> with_integers((2.0, 2.5, "2.0"))
        [2, 2.5, '2.0']
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: with_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_integers(item) for item in value]
    return with_integers(value.tolist()) if hasattr(value, "tolist") else value


def _read_tag_values(tags: object) -> Mapping[str, Any]:
    if tags is None:
        return {}
    if isinstance(tags, Mapping):
        return tags
    listed = tags.tolist() if hasattr(tags, "tolist") else tags
    if not isinstance(listed, list | tuple):
        raise InputError(f"tags are {tags!r}; expected a mapping or a list of 'key:value' strings")
    pairs = [tag.partition(":") for tag in listed if isinstance(tag, str)]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _parse_parameters(written: object) -> Mapping[str, Any]:
    """Return the parameters of either layout; text is read as JSON, or else as a Python literal."""
    if written is None or written == "":
        return {}
    value = written
    if isinstance(written, str):
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(written)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                value = None
    if not isinstance(value, Mapping):
        raise InputError(f"tags: parameters are {written!r}; expected a mapping of names to values")
    return value
