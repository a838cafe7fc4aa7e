"""Which way a criterion points: whether better responses meet it more, or less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, sqrt

from autorubric.synthesis.candidate import Candidate, Votes
from autorubric.synthesis.gates.verdicts import likelihoods, sums_by_count, tallies

# Per standard deviation of the score; the scale that Gelman et al. 2008 recommend for logistic regression.
_SCALE = 1.25
_GRID = [step / 2 for step in range(-16, 17)]
_PRIOR = [1 / (1 + (slope / _SCALE) ** 2) for slope in _GRID]
_PRIOR_SIDE = sum(_PRIOR[: len(_GRID) // 2])
_UNRELATED = 0.5


def reversed_chance(votes: Votes, scores: Sequence[float | None], error: float) -> float | None:
    """The chance that better responses meet the criterion less; None where nothing can be said.

    Before the verdicts, a criterion has nothing to do with the score with a chance of one half; else it points
    either way as likely as the other. The verdicts move this by a conditional logistic regression of the truth
    behind them on the score: if k of the responses meet the criterion, the chance that it is just these is
    e^(b * their scores) over the sum of the same for every choice of k (at b = 0: the exact permutation
    distribution). No intercept has to be estimated, so it holds for a pool of four as for one of forty. Which
    responses meet it is not known but judged; all possible truths are summed, each as likely as the verdicts make
    it. The slope b, where it is not 0, has a Cauchy prior of scale 1.25 a standard deviation of the score. Some
    responses are taken to meet the criterion, and some not.

    Args:
        votes: the verdicts on the criterion.
        scores: of each response by the other criteria; None where there is none.
        error: how often a verdict is wrong.

    Example:
        >>> met_by_the_best = ((False, False, False, True, True, True),)
        >>> met_by_the_worst = ((True, True, True, False, False, False),)
        >>> met_by_the_worst_alone = ((True, False, False, False, False, False),)
        >>> rows = met_by_the_best, met_by_the_worst, met_by_the_worst_alone
        >>> [round(reversed_chance(row, [0.1, 0.2, 0.3, 0.6, 0.7, 0.8], 0.05), 2) for row in rows]
        [0.01, 0.8, 0.57]
    """
    judged = [
        (likelihoods(tally, error), score)
        for tally, score in zip(tallies(votes), scores, strict=True)
        if sum(tally) and score is not None
    ]
    standard = _standardised([score for _, score in judged])
    if not standard:
        return None
    weights = []
    for prior, slope in zip(_PRIOR, _GRID, strict=True):
        factors = [exp(slope * score) for score in standard]
        said = sums_by_count((unmet, met * f) for ((met, unmet), _), f in zip(judged, factors, strict=True))
        possible = sums_by_count((1.0, factor) for factor in factors)
        inner = zip(said[1:-1], possible[1:-1], strict=True)
        weights.append(prior * sum(mine / every for mine, every in inner))
    middle = len(_GRID) // 2
    unrelated = weights[middle] / _PRIOR[middle]
    wrong, right = (sum(side) / _PRIOR_SIDE for side in (weights[:middle], weights[middle + 1 :]))
    related = (1 - _UNRELATED) / 2
    return related * wrong / (related * (wrong + right) + _UNRELATED * unrelated)


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


def _standardised(scores: Sequence[float]) -> list[float]:
    """The scores with mean 0 and deviation 1; empty where they do not differ."""
    if len(scores) < 2:
        return []
    mean = sum(scores) / len(scores)
    deviation = sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / deviation for score in scores] if deviation > 1e-9 else []
