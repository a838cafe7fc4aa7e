"""The table of checks, and the two ways to use it: validate when loading, run when grading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from autorubric.checks import code, language, length, markdown, numbers, phrases, sources, structured
from autorubric.checks.outcome import CannotCheck, CheckContext, CheckFailure, CheckOutcome
from autorubric.checks.packages import require_packages
from autorubric.checks.parameters import parameter_model, validated
from autorubric.checks.rules.tables import IFEVAL, RUBRICHUB
from autorubric.errors import InputError
from autorubric.files.keys import nearest

GENERAL: Mapping[str, Callable[..., CheckOutcome]] = MappingProxyType(
    {
        "contains": phrases.contains,
        "not_contains": phrases.not_contains,
        "regex": phrases.regex,
        "starts_with": phrases.starts_with,
        "ends_with": phrases.ends_with,
        "exact_match": phrases.exact_match,
        "normalized_match": phrases.normalized_match,
        "numeric_value": numbers.numeric_value,
        "word_count": length.word_count,
        "sentence_count": length.sentence_count,
        "character_count": length.character_count,
        "token_count": length.token_count,
        "paragraph_count": length.paragraph_count,
        "line_count": length.line_count,
        "language": language.language,
        "json_valid": structured.json_valid,
        "json_schema": structured.json_schema,
        "yaml_valid": structured.yaml_valid,
        "xml_valid": structured.xml_valid,
        "markdown_headings": markdown.markdown_headings,
        "list_shape": markdown.list_shape,
        "table_shape": markdown.table_shape,
        "code_block": code.code_block,
        "python_parses": code.python_parses,
        "url_present": sources.url_present,
        "citation_present": sources.citation_present,
    }
)


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table.

    Attributes:
        name: what a criterion calls it.
        function: submission and keyword parameters to outcome.
        needs_text: whether a blank submission fails it outright, as both published rule harnesses have it.
    """

    name: str
    function: Callable[..., CheckOutcome]
    needs_text: bool = False

    @property
    def parameters(self) -> type[BaseModel]:
        """The strict model of its parameters."""
        return parameter_model(self.function)


CHECKS: Mapping[str, Check] = MappingProxyType(
    {name: Check(name, function) for name, function in GENERAL.items()}
    | {name: Check(name, function, needs_text=True) for name, function in {**RUBRICHUB, **IFEVAL}.items()}
)
"""Every check by name: the general ones, RubricHub's class names, IFEval's instruction ids."""


def validate_check(name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The parameters as the check will run with them; call it when loading, before anything is spent.

    Raises:
        InputError: no such check, or its parameters are unknown, missing or unusable.
        MissingPackageError: the check needs a package that is not installed.

    Example:
        >>> validate_check("LetterCountingChecker", {"N": 3.0, "relation": "at least", "letter": None})
        {'N': 3, 'relation': 'at least'}
    """
    check = CHECKS.get(name) if isinstance(name, str) else None
    if check is None:
        near = nearest(str(name), CHECKS)
        raise InputError(f"there is no check {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    require_packages(name, check.function)
    return validated(name, check.function, {} if parameters is None else parameters)


def run_check(
    name: str,
    parameters: Mapping[str, Any] | None,
    submission: str,
    *,
    context: CheckContext | None = None,
) -> CheckOutcome | CheckFailure:
    """What the check says of a submission: an outcome with its reason, or why it cannot decide.

    Raises:
        InputError: no such check, or its parameters are unknown, missing or unusable; nothing has run.

    Example:
        >>> run_check("word_count", {"at_most": 2}, "Far too long")
        CheckOutcome(passed=False, reason='3 words; expected at most 2')
        >>> str(run_check("language", {"code": "en"}, "123"))
        "check 'language' cannot decide: the submission holds too little text to tell its language"
    """
    values = validate_check(name, parameters)
    check = CHECKS[name]
    if check.needs_text and not submission.strip():
        return CheckOutcome(False, "the submission is blank")
    if "context" in signature(check.function).parameters:
        values["context"] = context or CheckContext()
    try:
        return check.function(submission, **values)
    except CannotCheck as reason:
        return CheckFailure(name, str(reason))
    except RecursionError:
        return CheckFailure(name, "the submission is nested too deeply")
