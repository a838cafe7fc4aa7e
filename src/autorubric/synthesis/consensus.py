"""The scores of a pool by all judges together, and which two responses evolution compares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean, median

from autorubric.synthesis.candidate import Candidate, Pool


@dataclass(frozen=True, slots=True)
class Consensus:
    """The judges' scores of a pool.

    Attributes:
        scores: the median over the judges' scores of each response; None where no judge has one.
        rank_agreement: mean Kendall's τ-b over pairs of judges, in [-1, 1]; None where it is not defined.
    """

    scores: tuple[float | None, ...]
    rank_agreement: float | None


def consensus(criteria: Sequence[Candidate], pool: Pool) -> Consensus:
    """The scores of the responses under a rubric, and the judges' agreement on their ranks.

    A judge's score of a response is the points it finds met (a pitfall subtracts points) over the positive points.
    Only criteria on which that judge has a verdict for every response count, so that a failed judgment does not move
    one response against another.
    """
    rows = [_score(criteria, pool, judge) for judge in range(len(pool.judges))]
    columns = [[row[i] for row in rows if row is not None] for i in range(len(pool.responses))]
    pairs = combinations([row for row in rows if row is not None], 2)
    agreements = [tau for one, other in pairs if (tau := _rank_agreement(one, other)) is not None]
    scores = tuple(median(column) if column else None for column in columns)
    return Consensus(scores, mean(agreements) if agreements else None)


def find_best_pair(
    scores: Sequence[float | None], texts: Sequence[str], used: Collection[tuple[int, int]] = ()
) -> tuple[int, int] | None:
    """The two best responses that differ and were not compared before, by index; None if there are none.

    The pair with the highest sum of scores; on a tie the one with the best first response, then the earlier one.
    """
    rank = {place: score for place, score in enumerate(scores) if score is not None}
    order = sorted(rank, key=lambda place: (-rank[place], place))
    done = {frozenset(pair) for pair in used}
    plain = [" ".join(text.split()).casefold() for text in texts]
    pairs = [
        (one, other)
        for one, other in combinations(order, 2)
        if frozenset((one, other)) not in done and plain[one] != plain[other]
    ]
    return max(pairs, key=lambda pair: rank[pair[0]] + rank[pair[1]], default=None)


def _score(criteria: Sequence[Candidate], pool: Pool, judge: int) -> list[float] | None:
    rows = [(one.weight, pool.votes[one.id][judge]) for one in criteria if one.id in pool.votes]
    whole = [(weight, row) for weight, row in rows if None not in row]
    positive = sum(weight for weight, _ in whole if weight > 0)
    if not positive:
        return None
    return [sum(weight for weight, row in whole if row[place]) / positive for place in range(len(pool.responses))]


def _rank_agreement(one: Sequence[float], other: Sequence[float]) -> float | None:
    from autorubric.metrics.kendall import kendall

    found = kendall(one, other)
    return None if found is None else found[0]
