"""How the best score grows with the number of candidates, from one run's own data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

_EVERY_K = 64


@dataclass(frozen=True, slots=True)
class BestOfK:
    """A point of the curve.

    Attributes:
        k: how many candidates a query has.
        score: the mean over queries of the expected best score.
        kept: the mean over queries of the chance that one is above the threshold.
        queries: those with at least k judged candidates; the mean is over them.
    """

    k: int
    score: float
    kept: float
    queries: int


def expected_best(scores: Sequence[float], k: int) -> float:
    """The mean, over all subsets of k scores, of the best one: unbiased for fresh samples of k.

    With the scores sorted upwards, the i-th (from 1) is the best of C(i − 1, k − 1) of the C(n, k) subsets. The
    shares are computed from the largest down, since the binomials of a thousand scores are beyond every float.

    Example:
        >>> round(expected_best([0.0, 0.5, 1.0], 2), 6)
        0.833333
    """
    share, mean = k / len(scores), 0.0
    for below, score in reversed(list(enumerate(sorted(scores)))):
        mean += share * score
        share *= (below - k + 1) / below if below else 0.0
    return mean


def expected_kept(scores: Sequence[float], threshold: float, k: int) -> float:
    """The share of subsets of k scores that hold one strictly above the threshold: 1 − C(n − a, k) / C(n, k).

    Example:
        >>> expected_kept([0.2, 0.7, 0.6], 0.6, 2)
        0.6666666666666667
    """
    below = sum(score <= threshold for score in scores)
    return 1.0 - comb(below, k) / comb(len(scores), k)


def best_of_k(scores: Sequence[Sequence[float]], threshold: float) -> list[BestOfK]:
    """The curve of K against the best score (RubricHub, figure 9), up to the largest K that some query reaches.

    It has every K up to 64, and beyond that the powers of two and the largest.

    Args:
        scores: of the judged candidates of each query.
        threshold: what has to be surpassed to be kept.

    Example:
        >>> [(point.k, point.score, point.queries) for point in best_of_k([[0.0, 1.0], [0.5]], 0.6)]
        [(1, 0.5, 2), (2, 1.0, 1)]
    """
    curve = []
    most = max(map(len, scores), default=0)
    for k in (k for k in range(1, most + 1) if k <= _EVERY_K or k & (k - 1) == 0 or k == most):
        enough = [own for own in scores if len(own) >= k]
        best = sum(expected_best(own, k) for own in enough) / len(enough)
        kept = sum(expected_kept(own, threshold, k) for own in enough) / len(enough)
        curve.append(BestOfK(k, best, kept, len(enough)))
    return curve
