"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from autorubric.linting.finding import Severity
from autorubric.linting.sheet import Sheet


class Hit(NamedTuple):
    """What a rule found: the position of the criterion (from 1, None for the rubric), what is wrong, what to do."""

    criterion: int | None
    message: str
    suggestion: str


Find: TypeAlias = Callable[[Sheet], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: its name on the command line, in findings and in the docs.
        severity: how grave its findings are.
        summary: what it says of a rubric, in a sentence.
        find: everything in a rubric that breaks it.
    """

    id: str
    severity: Severity
    summary: str
    find: Find
