"""What a check says: passed or not with a reason, or why it cannot say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.core.counted import counted
from autorubric.errors import AutorubricError


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
    """What a check may need beside the submission.

    Attributes:
        tokenizer: text to tokens, for `token_count`; only the number of tokens is used.
    """

    tokenizer: Callable[[str], Sequence[Any]] | None = None


def judged_count(count: int, noun: str, *, at_least: int | None, at_most: int | None) -> CheckOutcome:
    """Whether a count lies within its bounds, both inclusive; None leaves a side open.

    Example:
        >>> judged_count(1, "word", at_least=2, at_most=None)
        CheckOutcome(passed=False, reason='1 word; expected at least 2')
    """
    passed = (at_least is None or count >= at_least) and (at_most is None or count <= at_most)
    return CheckOutcome(passed, f"{counted(count, noun)}; expected {_bounds(at_least, at_most)}")


def quoted(text: str, longest: int = 60) -> str:
    """The text as a reason shows it: quoted, and cut in the middle where it is long.

    Example:
        >>> quoted("abcdefgh", longest=5)
        "'ab…gh'"
    """
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}…{text[-half:]}"
    return repr(text)


def _bounds(at_least: int | None, at_most: int | None) -> str:
    if at_least is not None and at_least == at_most:
        return f"exactly {at_least}"
    if at_least is not None and at_most is not None:
        return f"{at_least} to {at_most}"
    if at_least is not None:
        return f"at least {at_least}"
    return "any number" if at_most is None else f"at most {at_most}"
