"""What a rubric is measured by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from autorubric.linting.records import query_of
from autorubric.linting.rules import Rule
from autorubric.linting.sheet import Draft, Sheet
from autorubric.synthesis.candidate import Candidate, Licence, Pool

Query: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A query: a text, or the messages of a conversation."""


@dataclass(frozen=True)
class Evidence:
    """One rubric and all that is known about it.

    Attributes:
        query: what it is for.
        candidates: its criteria.
        pool: the graded responses; None where nothing has been graded.
        licences: what a judge said about each criterion's right to be asked, by criterion id.
    """

    query: Query
    candidates: Sequence[Candidate]
    pool: Pool | None = None
    licences: Mapping[str, Licence] = field(default_factory=dict)

    @cached_property
    def sheet(self) -> Sheet:
        """The rubric as the lint rules read it."""
        drafts = [Draft(c.description, float(c.weight), c.title, check=c.check) for c in self.candidates]
        return Sheet(drafts, query_of({"prompt": self.query}))

    def graded(self) -> Iterator[tuple[Candidate, tuple[bool | None, ...]]]:
        """Each criterion that was graded, with the verdict of most judges on each response."""
        for candidate in self.candidates:
            if self.pool is not None and candidate.id in self.pool.votes:
                yield candidate, self.pool.majority(candidate.id)

    def broken(self, *rules: Rule) -> frozenset[int | None]:
        """The positions (from 1) of criteria that break one of the rules; None for the rubric as a whole."""
        return frozenset(hit.criterion for rule in rules for hit in rule.find(self.sheet))

    def share_without(self, *rules: Rule) -> float | None:
        """The share of criteria that break none of the rules; None of no criteria."""
        broken = self.broken(*rules)
        return share([n not in broken for n in range(1, len(self.candidates) + 1)])


def share(hits: Sequence[bool]) -> float | None:
    """The part of `hits` that is True; None of nothing.

    Example:
        >>> share([True, False, True, True]), share([])
        (0.75, None)
    """
    return sum(hits) / len(hits) if hits else None
