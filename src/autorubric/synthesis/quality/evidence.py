"""What a rubric is measured by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from autorubric.synthesis.candidate import Candidate, Licence, Pool

Query: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A query: a text, or the messages of a conversation."""


@dataclass(frozen=True, slots=True)
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

    def majorities(self) -> Iterator[tuple[Candidate, tuple[bool, ...]]]:
        """Each criterion that was graded, with the verdicts of most judges; responses without one are left out."""
        for candidate in self.candidates:
            if self.pool is not None and candidate.id in self.pool.votes:
                yield candidate, tuple(v for v in self.pool.majority(candidate.id) if v is not None)


def share(hits: Sequence[bool]) -> float | None:
    """The part of `hits` that is True; None of nothing.

    Example:
        >>> share([True, False, True, True]), share([])
        (0.75, None)
    """
    return sum(hits) / len(hits) if hits else None


def pair_agreement(pool: Pool, criterion: str, *, same_judge: bool) -> float | None:
    """How often two verdicts on one response agree; None where no response has two.

    Args:
        pool: the graded responses.
        criterion: id of a criterion.
        same_judge: compare rows of one judge with each other, instead of rows of different judges.

    Example:
        >>> pool = Pool(("x", "y"), ("j1", "j2"), {"m1": ((True, False), (True, True))})
        >>> pair_agreement(pool, "m1", same_judge=False)
        0.5
    """
    rows = zip(pool.judges, pool.votes[criterion], strict=True)
    agreed = [
        one is other
        for (judge, first), (peer, second) in combinations(rows, 2)
        if (judge == peer) is same_judge
        for one, other in zip(first, second, strict=True)
        if one is not None and other is not None
    ]
    return share(agreed)
