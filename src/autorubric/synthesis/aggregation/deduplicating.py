"""What needs no model to be merged: criteria that say the same to the letter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autorubric.synthesis.aggregation.sameness import sameness_key
from autorubric.synthesis.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one criterion that went into a merge.

    Attributes:
        id: of the criterion that went in.
        outcome: `kept` alone, `merged` with others, `restored` where the merge had lost it, or `dropped`.
        into: id of the criterion that carries it on; empty where it was dropped.
        reason: why it was dropped, restored or merged.
    """

    id: str
    outcome: Literal["kept", "merged", "restored", "dropped"]
    into: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """Candidate rubrics without repetitions.

    Attributes:
        sets: as many as went in, in their order; a set that only repeated others is empty.
        fates: what became of each criterion, in order.
    """

    sets: tuple[tuple[Candidate, ...], ...]
    fates: tuple[Fate, ...]

    @property
    def criteria(self) -> tuple[Candidate, ...]:
        """All criteria that are left."""
        return tuple(criterion for one in self.sets for criterion in one)


def pre_deduplicate(sets: Sequence[Sequence[Candidate]]) -> Deduplicated:
    """The sets with each demand once, whichever case, space and punctuation it was written in.

    Of equals the one with the higher weight stays (for pitfalls: the one that costs more), in the place of the
    first, and names the others as parents. Pitfalls are compared with pitfalls only.

    Example:
        >>> a = Candidate("a1", "Dose", "Names the dose.", 5)
        >>> b = Candidate("b1", "The dose", "names the dose", 9)
        >>> found = pre_deduplicate([[a], [b]])
        >>> [c.id for c in found.criteria], [(f.id, f.outcome, f.into) for f in found.fates]
        (['b1'], [('a1', 'merged', 'b1'), ('b1', 'kept', 'b1')])
    """
    groups: dict[tuple[bool, str], list[Candidate]] = {}
    for criterion in _all(sets):
        groups.setdefault(_key(criterion), []).append(criterion)
    winners = {key: heaviest(group) for key, group in groups.items()}
    seen: set[tuple[bool, str]] = set()
    left: list[tuple[Candidate, ...]] = []
    fates: list[Fate] = []
    for one in sets:
        row: list[Candidate] = []
        for criterion in one:
            key = _key(criterion)
            winner = winners[key]
            alone = criterion.id == winner.id
            reason = "" if alone else "the same words"
            fates.append(Fate(criterion.id, "kept" if alone else "merged", winner.id, reason))
            if key not in seen:
                seen.add(key)
                row.append(_joined(winner, groups[key]))
        left.append(tuple(row))
    return Deduplicated(tuple(left), tuple(fates))


def heaviest(group: Sequence[Candidate]) -> Candidate:
    """The criterion whose weight is highest, whatever its sign; of equals the first.

    Example:
        >>> heaviest([Candidate("a", "", "Lies.", -3), Candidate("b", "", "Lies.", -8)]).id
        'b'
    """
    return max(group, key=lambda criterion: abs(criterion.weight))


def ordered_union(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All names once, in order of first appearance.

    Example:
        >>> ordered_union([("a", "b"), ("b", "c")])
        ('a', 'b', 'c')
    """
    return tuple(dict.fromkeys(name for some in names for name in some))


def _all(sets: Iterable[Iterable[Candidate]]) -> list[Candidate]:
    found = [criterion for one in sets for criterion in one]
    repeated = sorted({c.id for c in found if sum(other.id == c.id for other in found) > 1})
    if repeated:
        raise ValueError(f"ids of candidates are taken twice: {', '.join(repeated)}")
    return found


def _key(criterion: Candidate) -> tuple[bool, str]:
    # A text of marks alone has an empty key: it is its own, or all such texts would be one.
    return criterion.pitfall, sameness_key(criterion.description) or f"\x00{criterion.description}"


def _joined(winner: Candidate, group: Sequence[Candidate]) -> Candidate:
    if len(group) == 1:
        return winner
    others = [criterion.id for criterion in group if criterion.id != winner.id]
    return replace(
        winner,
        models=ordered_union([winner.models, *(criterion.models for criterion in group)]),
        parents=ordered_union([winner.parents, others, *(criterion.parents for criterion in group)]),
    )
