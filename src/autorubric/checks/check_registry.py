"""Validate a check's parameters when loading, run it when grading."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from autorubric.checks import language, length, markdown, phrases, structured_data
from autorubric.checks.check import (
    CHECKS,
    OWN,
    CannotCheck,
    Check,
    CheckContext,
    CheckFailure,
    CheckOutcome,
    build_parameter_model,
)
from autorubric.checks.rules import (
    formats,
    ifbench_counts,
    ifbench_custom,
    ifbench_formats,
    ifbench_words,
    letters,
    mifeval_japanese,
    mifeval_spanish,
    words,
)
from autorubric.core.rule_tags import with_integers
from autorubric.errors import InputError
from autorubric.expectations import describe_expectation
from autorubric.extras import require
from autorubric.files.keys import find_nearest_key
from autorubric.plugins import find_plugins, load_plugin

_RULES = (formats, letters, words)
_IFBENCH = (ifbench_counts, ifbench_custom, ifbench_formats, ifbench_words)
_MIFEVAL = (mifeval_japanese, mifeval_spanish)
BUILT_IN = (language, length, markdown, phrases, structured_data, *_RULES, *_IFBENCH, *_MIFEVAL)
"""The modules that fill the table; importing them registers their checks."""


def _select_checks(modules: tuple[ModuleType, ...], *, colons: int) -> dict[str, Callable[..., CheckOutcome]]:
    """Return the checks of these modules by name: class names, or ids, whose parts colons separate."""
    names = {module.__name__ for module in modules}
    mine = {name: check.function for name, check in CHECKS.items() if check.function.__module__ in names}
    return {name: function for name, function in mine.items() if name.count(":") == colons}


RUBRICHUB = _select_checks(_RULES, colons=0)
"""The 53 verifiers of RubricHub's instruction-following rows, by class name."""

IFEVAL = _select_checks(_RULES, colons=1)
"""The 25 instructions of IFEval, by id."""

IFBENCH = _select_checks(_IFBENCH, colons=1)
"""The 58 instructions of IFBench, by id."""

MIFEVAL = _select_checks((*_RULES, *_MIFEVAL), colons=2)
"""The instructions of M-IFEval that a rule decides, by id; the first part is the language."""

PACKAGES = tuple(sorted({package for check in CHECKS.values() for package in check.packages}))
"""Every optional package that a built-in check needs; the extra `checks` installs them."""

Parameters = Mapping[str, Any]
_BOUNDS = {"at_least", "at_most"}


def find_check(name: str) -> Check:
    """Return the check of this name: built in, registered by `check`, or provided by an installed package.

    Raises:
        InputError: there is none; the message suggests the nearest name.

    Example:
        >>> find_check("word_count").function.__name__
        'word_count'
    """
    if isinstance(name, str) and name not in CHECKS:
        load_plugin("checks", name)
    if isinstance(name, str) and name in CHECKS:
        return CHECKS[name]
    near = find_nearest_key(str(name), [*CHECKS, *find_plugins("checks")])
    raise InputError(f"unknown check {name!r}" + (f"; did you mean {near!r}?" if near else ""))


def validate_check(name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the parameters that the check will run with; call this when loading, before anything is spent.

    Raises:
        InputError: unknown check, or its parameters are unknown, missing or unusable.
        MissingPackageError: the check needs a package that is not installed.

    Example:
        >>> validate_check("LetterCountingChecker", {"N": 3.0, "relation": "at least", "letter": None})
        {'N': 3, 'relation': 'at least'}
    """
    check = find_check(name)
    require(check.packages, "checks", f"check {name!r}")
    return validate_parameters(name, check.function, {} if parameters is None else parameters)


@cache
def _needs_context(function: Callable[..., object]) -> bool:
    return "context" in inspect.signature(function).parameters


def run_check(
    name: str,
    parameters: Mapping[str, Any] | None,
    submission: str,
    *,
    context: CheckContext | None = None,
) -> CheckOutcome | CheckFailure:
    """Return the outcome of a check on a submission with its reason, or why it cannot decide.

    Raises:
        InputError: unknown check, or its parameters are unknown, missing or unusable; nothing has run.
        TypeError: a check of another package returned something other than an outcome.

    Example:
        >>> run_check("word_count", {"at_most": 2}, "Far too long")
        CheckOutcome(passed=False, reason='3 words; expected at most 2')
        >>> str(run_check("language", {"code": "en"}, "123"))
        "check 'language' cannot decide: the submission has too little text to detect its language"
    """
    values = validate_check(name, parameters)
    check = CHECKS[name]
    if check.needs_text and not submission.strip():
        return CheckOutcome(False, "the submission is blank")
    if _needs_context(check.function):
        values["context"] = context or CheckContext()
    try:
        found = check.function(submission, **values)
    except CannotCheck as reason:
        return CheckFailure(name, str(reason))
    except RecursionError:
        return CheckFailure(name, "the submission is nested too deeply")
    if not isinstance(found, CheckOutcome):
        raise TypeError(f"it returned {found!r:.60}; expected a CheckOutcome")
    return found


def validate_parameters(check: str, function: Callable[..., Any], parameters: object) -> dict[str, Any]:
    """Return the parameters a check runs with: nulls dropped, integral doubles as integers, types as declared.

    Raises:
        InputError: every unknown, missing or unusable parameter, with the check's name.

    Example:
        >>> from autorubric.checks.length import word_count
        >>> validate_parameters("word_count", word_count, {"at_least": 2.0, "at_most": None})
        {'at_least': 2}
    """
    if not isinstance(parameters, Mapping):
        raise InputError(f"check {check!r}: parameters are {parameters!r}; expected a mapping of names to values")
    given = {name: with_integers(value) for name, value in parameters.items() if value is not None}
    known = [name.removeprefix(OWN) for name in build_parameter_model(function).model_fields]
    try:
        model = build_parameter_model(function).model_validate(given)
    except ValidationError as error:
        raise InputError(_describe_problems(check, error, given, known)) from None
    values = {name: getattr(model, f"{OWN}{name}") for name in known if name in given}
    problems = [f"check {check!r}: {problem}" for problem in _find_misordered(values)]
    if _is_open(model) and not _BOUNDS & set(values):
        problems.append(f"check {check!r}: neither at_least nor at_most is given; nothing can fail")
    if problems:
        raise InputError(problems)
    return values


def _describe_problems(check: str, error: ValidationError, given: Parameters, known: list[str]) -> list[str]:
    problems: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0])
        if detail["type"] == "missing":
            problem = f"parameter {name!r} is missing"
        elif detail["type"] == "extra_forbidden":
            near = find_nearest_key(name, known)
            advice = f"did you mean {near!r}?" if near else f"expected {', '.join(known) or 'no parameters'}"
            problem = f"unknown parameter {name!r}; {advice}"
        elif detail["type"] == "value_error":
            problem = f"parameter {name!r} {detail['ctx']['error']}"
        else:
            problem = f"parameter {name!r} is {given.get(name)!r}; {describe_expectation(detail)}"
        problems.setdefault(name, f"check {check!r}: {problem}")
    return list(problems.values())


def _is_open(model: BaseModel) -> bool:
    """Return whether a check only compares a count with its bounds, and has none by default."""
    fields = {name.removeprefix(OWN): field for name, field in type(model).model_fields.items()}
    return _BOUNDS <= set(fields) <= _BOUNDS | {"spaces"} and fields["at_least"].default is None


_ORDERED = (
    ("at_least", "at_most", "nothing can pass"),
    ("min_words", "max_words", "nothing can pass"),
    ("nth_paragraph", "num_paragraphs", "nothing can pass"),
    ("n_start", "n_end", "the span is empty"),
)
"""Pairs of parameters of any check: the first must not exceed the second; and what it means if it does."""


def _find_misordered(values: Parameters) -> Iterator[str]:
    for first, second, meaning in _ORDERED:
        low, high = values.get(first), values.get(second)
        if low is not None and high is not None and low > high:
            yield f"{first}={low} is above {second}={high}; {meaning}"
