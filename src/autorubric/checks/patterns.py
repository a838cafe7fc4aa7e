"""Regular expressions that cannot hang: every search has a deadline.

Patterns come from data. The `regex` package searches with a timeout and understands what `re` does;
docs/design/checks.md says why neither `re` nor a linear-time engine is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator

from autorubric.checks.check import CannotCheck, quote

if TYPE_CHECKING:
    import regex

SECONDS = 1.0
LONGEST_PATTERN = 2_000
T = TypeVar("T")


def has_match(pattern: str, text: str, flags: int = 0) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises:
        CannotCheck: the search did not end in time.

    Example:
        >>> has_match(r"colou?r", "Two COLORS", re.IGNORECASE)
        True
    """
    return _run_search(pattern, lambda: _compile(pattern, flags).search(text, timeout=SECONDS) is not None)


def find_all(pattern: str, text: str, flags: int = 0) -> list[str]:
    r"""Return every match that does not overlap an earlier one, whole, whatever groups the pattern has.

    Raises:
        CannotCheck: the search did not end in time.

    Example:
        >>> find_all(r"(\d)\d", "12 3 45")
        ['12', '45']
    """
    search = _compile(pattern, flags).finditer
    return _run_search(pattern, lambda: [match.group() for match in search(text, timeout=SECONDS)])


def has_full_match(pattern: str, text: str, flags: int = 0) -> bool:
    """Return whether the pattern matches the text from its first character to its last.

    Raises:
        CannotCheck: the search did not end in time.

    Example:
        >>> has_full_match("[a-z]+", "abc1")
        False
    """
    return _run_search(pattern, lambda: _compile(pattern, flags).fullmatch(text, timeout=SECONDS) is not None)


def as_pattern(keyword: str) -> str:
    r"""Return a rule's keyword as a pattern: unchanged if it is a valid pattern, else with its characters escaped.

    The rule verifiers read keywords as patterns. `C++` and `a(b` are not valid in the Python they were written for,
    and crash there; here they match literally.

    Example:
        >>> as_pattern("colou?r"), as_pattern("C++")
        ('colou?r', 'C\\+\\+')
    """
    possessive = any(twice in keyword for twice in ("++", "*+", "?+", "}+"))
    if possessive or find_problem(keyword) is not None:
        return re.escape(keyword)
    return keyword


def find_problem(pattern: str) -> str | None:
    """Return why the pattern cannot be used; None if it can.

    Example:
        >>> find_problem("(")
        'is not a valid regular expression: missing ) at position 1'
    """
    if len(pattern) > LONGEST_PATTERN:
        return f"has {len(pattern)} characters; expected at most {LONGEST_PATTERN}"
    try:
        _compile(pattern, 0)
    except RecursionError:
        return "is nested too deeply"
    except Exception as error:  # the engine leaks KeyError and OverflowError for broken patterns
        return f"is not a valid regular expression: {error}"
    return None


def _check_usable(pattern: str) -> str:
    problem = find_problem(pattern)
    if problem is not None:
        raise ValueError(problem)
    return pattern


Pattern = Annotated[str, AfterValidator(_check_usable)]
"""A parameter that must be a usable regular expression."""


@lru_cache(maxsize=1024)
def _compile(pattern: str, flags: int) -> regex.Pattern[str]:
    import regex

    # `re` and `regex` have the same bits for the three flags used here.
    return regex.compile(pattern, regex.VERSION0 | int(flags))


def _run_search(pattern: str, search: Callable[[], T]) -> T:
    try:
        return search()
    except TimeoutError:
        raise CannotCheck(f"the pattern {quote(pattern)} took longer than {SECONDS:g} s") from None
    except MemoryError:
        raise CannotCheck(f"the pattern {quote(pattern)} needs too much memory") from None
