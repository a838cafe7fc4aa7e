"""A check and its outcome: passed or failed with a reason, or why it cannot decide; and the table of all checks."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, Field, create_model

from autorubric.errors import AutorubricError, ConfigError, pluralize

Relation = Literal["less than", "at least"]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A decision and the sentence that explains it.

    Example:
        >>> CheckOutcome(True, "found 'Paris'").passed
        True
    """

    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """Why a check could not decide; never a verdict."""

    check: str
    reason: str

    def __str__(self) -> str:
        return f"check {self.check!r} cannot decide: {self.reason}"


class CannotCheck(AutorubricError):
    """Raised inside a check that cannot decide; `run_check` turns it into a `CheckFailure`."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check may need in addition to the submission.

    Attributes:
        tokenizer: text to tokens, for `token_count`; only the number of tokens is used.
    """

    tokenizer: Callable[[str], Sequence[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check in the table of checks.

    Attributes:
        name: its name in criteria.
        function: submission and keyword parameters to outcome.
        packages: optional packages that it imports.
        needs_text: whether a blank submission fails it outright, as in both published rule harnesses.
    """

    name: str
    function: Callable[..., CheckOutcome]
    packages: tuple[str, ...] = ()
    needs_text: bool = False

    @property
    def parameters(self) -> type[BaseModel]:
        """The strict model of its parameters; its JSON Schema documents them."""
        return build_parameter_model(self.function)


OWN = "parameter_"


@lru_cache(maxsize=256)
def build_parameter_model(function: Callable[..., Any]) -> type[BaseModel]:
    """Return the strict pydantic model of a check's keyword parameters; its JSON Schema documents them.

    Example:
        >>> from autorubric.checks.phrases import starts_with
        >>> sorted(build_parameter_model(starts_with).model_json_schema()["properties"])
        ['ignore_case', 'prefix']
    """
    hints = get_type_hints(function, include_extras=True)
    # With a prefix, because a parameter may have the name of a BaseModel attribute, such as `schema`.
    fields: dict[str, Any] = {
        f"{OWN}{name}": (
            hints[name],
            Field(... if parameter.default is parameter.empty else parameter.default, alias=name),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and hints[name] is not CheckContext
    }
    return create_model(function.__name__, __config__=ConfigDict(strict=True, extra="forbid"), **fields)


_CHECKS: dict[str, Check] = {}
CHECKS: Mapping[str, Check] = MappingProxyType(_CHECKS)
"""Every check by name: general ones, RubricHub's class names, ids of IFEval and IFBench, and registered ones."""

F = TypeVar("F", bound=Callable[..., CheckOutcome])


def check(name: str, *, packages: Sequence[str] = ()) -> Callable[[F], F]:
    """Decorator that adds a function to the table of checks.

    The function takes the submission and keyword-only parameters with type hints, which become the strict model
    that validates them. An installed package registers its own with an entry point in the group
    `autorubric.checks`, with the name of the check and the decorated function.

    Args:
        name: its name in criteria.
        packages: optional packages of the extra `checks` that it imports.

    Raises:
        ConfigError: another function has this name.

    Example:
        >>> @check("is_polite")
        ... def is_polite(text: str, *, word: str = "please") -> CheckOutcome:
        ...     return CheckOutcome(word in text.lower(), f"looked for {word!r}")
        >>> from autorubric.checks import run_check
        >>> run_check("is_polite", {}, "Please sit.").passed
        True
    """
    return _register((name,), packages, needs_text=False)


def rule(*names: str, packages: Sequence[str] = ()) -> Callable[[F], F]:
    """Decorator for a published verifier: class names of RubricHub, ids of benchmarks, which contain a colon."""
    return _register(names, packages, needs_text=True)


def _register(names: Sequence[str], packages: Sequence[str], *, needs_text: bool) -> Callable[[F], F]:
    def add(function: F) -> F:
        for name in names:
            known = _CHECKS.get(name)
            if known is not None and known.function.__module__ != function.__module__:
                raise ConfigError(f"check {name!r} of {function.__module__} is already registered")
            _CHECKS[name] = Check(name, function, tuple(packages), needs_text)
        return function

    return add


def judge_count(count: int, noun: str, *, at_least: int | None, at_most: int | None) -> CheckOutcome:
    """Return whether a count lies within its bounds, both inclusive; None leaves a side open.

    Example:
        >>> judge_count(1, "word", at_least=2, at_most=None)
        CheckOutcome(passed=False, reason='1 word; expected at least 2')
    """
    passed = (at_least is None or count >= at_least) and (at_most is None or count <= at_most)
    return CheckOutcome(passed, f"{pluralize(count, noun)}; expected {_describe_bounds(at_least, at_most)}")


def quote(text: str, longest: int = 60) -> str:
    """Return the text as a reason shows it: in quotes, and with its middle cut out if it is long.

    Example:
        >>> quote("abcdefgh", longest=5)
        "'ab…gh'"
    """
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}…{text[-half:]}"
    return repr(text)


def compare(count: int, noun: str, relation: Relation, threshold: int) -> CheckOutcome:
    """Return whether a count is less than, or at least, its threshold.

    Example:
        >>> compare(3, "word", "less than", 3)
        CheckOutcome(passed=False, reason='3 words; expected less than 3')
    """
    passed = count < threshold if relation == "less than" else count >= threshold
    return CheckOutcome(passed, f"{pluralize(count, noun)}; expected {relation} {threshold}")


def expect(count: int, noun: str, expected: int) -> CheckOutcome:
    """Return whether a count is the expected one.

    Example:
        >>> expect(2, "paragraph", 2).passed
        True
    """
    return CheckOutcome(count == expected, f"{pluralize(count, noun)}; expected exactly {expected}")


def expect_min(count: int, noun: str, expected: int) -> CheckOutcome:
    """Return whether a count reaches the expected one.

    Example:
        >>> expect_min(1, "placeholder", 2).passed
        False
    """
    return compare(count, noun, "at least", expected)


def _describe_bounds(at_least: int | None, at_most: int | None) -> str:
    if at_least is not None and at_least == at_most:
        return f"exactly {at_least}"
    if at_least is not None and at_most is not None:
        return f"{at_least} to {at_most}"
    if at_least is not None:
        return f"at least {at_least}"
    return "any number" if at_most is None else f"at most {at_most}"
