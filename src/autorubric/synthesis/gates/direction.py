"""Which way a criterion points: whether better responses meet it more, or less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, sqrt

from autorubric.synthesis.candidate import Candidate, Votes

# Per standard deviation of the score; the scale that Gelman et al. 2008 recommend for logistic regression.
_SCALE = 1.25
_GRID = [step / 4 for step in range(-32, 33)]
_PRIOR = [1 / (1 + (slope / _SCALE) ** 2) for slope in _GRID]


def reversed_chance(votes: Votes, scores: Sequence[float | None]) -> float | None:
    """The chance that better responses meet the criterion less; None where nothing can be said.

    The model is a conditional logistic regression of each judge's verdicts on the score: given how many
    responses a judge finds to meet the criterion, the chance that it is just these is e^(b * their scores) over
    the sum of the same for every choice of as many (at b = 0: the exact permutation distribution). No intercept
    has to be estimated, so it holds for a pool of four as for one of forty. The slope b has a Cauchy prior around
    0 (scale 1.25 a standard deviation); judges see the same responses, so they count together as one sample.

    Args:
        votes: the verdicts on the criterion.
        scores: of each response by the other criteria; None where there is none.

    Example:
        >>> met_by_the_best = ((False, False, False, True, True, True),)
        >>> met_by_the_worst = ((True, True, True, False, False, False),)
        >>> met_by_the_worst_alone = ((True, False, False, False, False, False),)
        >>> rows = met_by_the_best, met_by_the_worst, met_by_the_worst_alone
        >>> [round(reversed_chance(row, [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]), 2) for row in rows]
        [0.02, 0.98, 0.91]
    """
    product, informed = [1.0] * len(_GRID), 0
    for row in votes:
        seen = [(v, s) for v, s in zip(row, scores, strict=True) if v is not None and s is not None]
        likelihood = _conditional([vote for vote, _ in seen], [score for _, score in seen])
        if likelihood:
            informed += 1
            product = [before * value for before, value in zip(product, likelihood, strict=True)]
    if not informed:
        return None
    power = 1 / informed
    weights: list[float] = [prior * value**power for prior, value in zip(_PRIOR, product, strict=True)]
    middle = len(_GRID) // 2
    return (sum(weights[:middle]) + weights[middle] / 2) / sum(weights)


def scores_without(
    candidate: Candidate, others: Sequence[Candidate], votes: Mapping[str, Votes], responses: int
) -> list[float | None]:
    """The score of each response by the other criteria: the weighted share of verdicts that they are met.

    Example:
        >>> one, two = Candidate("m1", "", "Names it.", 5), Candidate("m2", "", "Invents it.", -5)
        >>> given = {"m1": ((True, False),), "m2": ((True, True),)}
        >>> scores_without(one, [one, two], given, 2), scores_without(two, [one, two], given, 2)
        ([-1.0, -1.0], [1.0, 0.0])
    """
    points, totals = [0.0] * responses, [0.0] * responses
    for other in others:
        if other.id == candidate.id:
            continue
        for number, column in enumerate(zip(*votes.get(other.id, ()), strict=True)):
            met, unmet = column.count(True), column.count(False)
            if met + unmet:
                points[number] += other.weight * met / (met + unmet)
                totals[number] += abs(other.weight)
    return [point / total if total else None for point, total in zip(points, totals, strict=True)]


def _conditional(met: Sequence[bool], scores: Sequence[float]) -> list[float]:
    """The likelihood of the verdicts at each slope, given how many are met; empty where it is flat."""
    count, size = sum(met), len(met)
    if count in (0, size):
        return []
    mean = sum(scores) / size
    deviation = sqrt(sum((score - mean) ** 2 for score in scores) / size)
    if deviation < 1e-9:
        return []
    standard = [(score - mean) / deviation for score in scores]
    mine = sum(score for score, vote in zip(standard, met, strict=True) if vote)
    return [exp(slope * mine) / _choices([exp(slope * score) for score in standard], count) for slope in _GRID]


def _choices(factors: Sequence[float], count: int) -> float:
    """The sum over all choices of `count` factors of their product (an elementary symmetric polynomial)."""
    sums = [1.0] + [0.0] * count
    for factor in factors:
        for size in range(count, 0, -1):
            sums[size] += factor * sums[size - 1]
    return sums[count]
