"""A rubric as lint sees it: what was found, before anything is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from autorubric.linting.finding import Place
from autorubric.linting.languages import spoken
from autorubric.linting.wording import Wording

_LONGEST_NAME = 40


class Option(NamedTuple):
    """One answer to a multi-choice criterion."""

    label: str
    value: float
    na: bool = False


@dataclass(frozen=True)
class Draft:
    """One criterion.

    Attributes:
        text: what it asks for.
        weight: what it counts.
        name: its short name; empty where it has none.
        options: its answers, where it is multi-choice.
        scale: "ordinal" or "nominal".
        check: name and parameters of the check that decides it; a judge never reads such a criterion.
    """

    text: str
    weight: float = 10.0
    name: str = ""
    options: tuple[Option, ...] | None = None
    scale: str = "ordinal"
    check: Mapping[str, Any] | None = None

    @cached_property
    def wording(self) -> Wording:
        """Its words, counted once for all rules."""
        return Wording(self.text)

    @property
    def label(self) -> str:
        """What to call it in a message: its name, or its first words."""
        shown = " ".join((self.name or self.text).split())
        return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1].rstrip() + "…"


@dataclass(frozen=True)
class Sheet:
    """One rubric and what is known around it.

    Attributes:
        criteria: the criteria, in order.
        query: what is asked of the submissions; empty where it is not known.
        reference: whether a judge is shown a reference submission.
        place: where the rubric stands.
        refusals: why grading would refuse the rubric, each with the position of its criterion from 1.
    """

    criteria: Sequence[Draft]
    query: str = ""
    reference: bool = False
    place: Place = field(default_factory=Place)
    refusals: Sequence[tuple[int | None, str]] = ()

    @cached_property
    def query_language(self) -> str | None:
        """The language the query is written in; None where that is not clear."""
        return spoken(self.query)

    def read(self) -> list[tuple[int, Draft]]:
        """The criteria that a judge reads, with their positions from 1; those that a check decides are left out."""
        return [(n, c) for n, c in enumerate(self.criteria, 1) if c.check is None and not c.text.isspace() and c.text]
