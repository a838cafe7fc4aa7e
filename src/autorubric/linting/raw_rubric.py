"""A rubric as it was written, before validation: what lint rules read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from autorubric.linting.wording import Wording, detect_language

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rubric is.

    Attributes:
        file: the file, as it was named; empty for a rubric in memory.
        row: the line in a JSONL file or the row in a table (from 1), or the index of the item in a dataset (from 0,
            as in messages about datasets); None where the file holds one rubric.
        record: the row's id.
        part: the name of the rubric where a row or dataset has several, such as `rubrics_a`.
    """

    file: str = ""
    row: int | None = None
    record: str = ""
    part: str = ""


class RawOption(NamedTuple):
    """One option of a multi-choice criterion."""

    label: str
    value: float
    na: bool = False


@dataclass(frozen=True)
class RawCriterion:
    """One criterion; `check` is the name and parameters of the check that decides it instead of a judge."""

    text: str
    weight: float = 10.0
    name: str = ""
    options: tuple[RawOption, ...] | None = None
    scale: str = "ordinal"
    check: Mapping[str, Any] | None = None

    @cached_property
    def wording(self) -> Wording:
        """Its words, tokenized once for all rules."""
        return Wording(self.text)

    @property
    def label(self) -> str:
        """What messages call it: its name, or its first words."""
        shown = " ".join((self.name or self.text).split())
        return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1].rstrip() + "…"


@dataclass(frozen=True)
class RawRubric:
    """One rubric and its context.

    Attributes:
        criteria: the criteria, in order.
        query: the query of the submissions; empty where it is unknown.
        reference: whether a judge is shown a reference submission.
        place: where the rubric is.
        refusals: why grading would reject the rubric, each with the position of its criterion from 1.
    """

    criteria: Sequence[RawCriterion]
    query: str = ""
    reference: bool = False
    place: Place = field(default_factory=Place)
    refusals: Sequence[tuple[int | None, str]] = ()

    @cached_property
    def query_language(self) -> str | None:
        """The language of the query; None where it is unclear."""
        return detect_language(self.query)

    @cached_property
    def judged(self) -> list[tuple[int, RawCriterion]]:
        """The criteria that a judge reads, with their positions from 1; those that a check decides are left out."""
        return [(n, c) for n, c in enumerate(self.criteria, 1) if c.check is None and c.text.strip()]
