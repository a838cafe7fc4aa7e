"""Criteria on their way through the full method, and the evidence on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Origin: TypeAlias = Literal["merged", "evolved"]
"""How a criterion came about: out of the candidate rubrics, or by evolution from two good responses."""

Votes: TypeAlias = tuple[tuple[bool | None, ...], ...]
"""Verdicts on one criterion: a row a judge, a column a response; None where a judge has no verdict.

True says that what the criterion describes is there: for a pitfall (negative weight) that the fault is.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One criterion on its way.

    Attributes:
        id: unique within its record and stable over a resume, such as `m3` or `e1.2` (round 1, second).
        title: two to five words.
        description: what is asked for, in a form a judge can decide.
        weight: -10 to 10; negative for a pitfall.
        origin: where it came about.
        round: the round of evolution, from 1; 0 for the merged rubric.
        models: who wrote it, or the criteria it was merged from.
        parents: ids of the criteria it was merged or rewritten from.
        check: name and parameters of the check that decides it, where it was compiled to one.
        rewritten: whether this wording was made after judges had split on another.
    """

    id: str
    title: str
    description: str
    weight: int
    origin: Origin = "merged"
    round: int = 0
    models: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    check: Mapping[str, Any] | None = None
    rewritten: bool = False

    @property
    def pitfall(self) -> bool:
        """Whether meeting it is a fault."""
        return self.weight < 0


@dataclass(frozen=True, slots=True)
class Pool:
    """The responses to one query and what the judges found in them.

    Attributes:
        responses: the texts.
        judges: ids of the judges, in the order of the votes' rows.
        votes: verdicts by criterion id.
    """

    responses: tuple[str, ...]
    judges: tuple[str, ...]
    votes: Mapping[str, Votes] = field(default_factory=dict)

    def majority(self, criterion: str) -> tuple[bool | None, ...]:
        """The verdict of most judges on each response; None on a tie or where no judge has one.

        Example:
            >>> Pool(("x", "y"), ("j1", "j2"), {"m1": ((True, False), (True, True))}).majority("m1")
            (True, None)
        """
        return tuple(_most(column) for column in zip(*self.votes[criterion], strict=True))


@dataclass(frozen=True, slots=True)
class Licence:
    """What a judge said about a criterion's right to be asked, given the query alone.

    Attributes:
        need: whether the query asks for it in words, implies it, or neither.
        quote: the words of the query that ask for it; empty where it is implied or not asked.
        surface: the kind of surface form it demands: a fixed phrase, heading, count or layout; empty for none.
        surface_asked: whether the query asks for that form.
        answerable: whether the submission alone shows if it is met.
        reason: the judge's words.
        same_as: the id of another criterion of the query that demands the same in other words; empty for none.
        draws: how many judgments this one was put together from.
    """

    need: Literal["explicit", "implicit", "none"]
    quote: str = ""
    surface: Literal["", "phrase", "heading", "count", "layout"] = ""
    surface_asked: bool = True
    answerable: bool = True
    reason: str = ""
    same_as: str = ""
    draws: int = 1


def _most(votes: tuple[bool | None, ...]) -> bool | None:
    met, unmet = votes.count(True), votes.count(False)
    return None if met == unmet else met > unmet
