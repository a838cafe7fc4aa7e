"""Inference from noisy verdicts to the truth, and the number of independent votes that several draws are worth.

Every judge is assumed to be wrong about one response with the same small probability, independently. The
probabilities that the gates use follow by Bayes' rule, without any threshold on counts.

Draws that share their errors agree more than independent ones. By Kish's design effect (Survey Sampling, 1965, §5.4),
`n` votes with a mean correlation `r` of their errors are worth `n / (1 + (n - 1) r)`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, exp, log, prod, sqrt
from typing import NamedTuple

from autorubric.synthesis.candidate import Candidate, Pool, Votes

_MOST_ROUNDS = 30
_CLOSE = 1e-5
_PRIOR_VERDICTS = 20.0
_PRIOR_SPLIT = 0.1
_LEAST_ERROR, _MOST_ERROR = 0.01, 0.3


class VoteTally(NamedTuple):
    """The number of judges that find that a response meets a criterion, and of those that do not."""

    met: float
    unmet: float


class JudgeNoise(NamedTuple):
    """The error rate of verdicts, and the mean correlation of the errors of two judges."""

    error: float
    correlation: float = 0.0


def tally_votes(votes: Votes, correlation: float = 0) -> list[VoteTally]:
    """Return the tally of each response; votes with correlated errors count for less than one each."""
    counts = [(column.count(True), column.count(False)) for column in zip(*votes, strict=True)]
    if not correlation:
        return [VoteTally(met, unmet) for met, unmet in counts]
    worth = [1 + max(met + unmet - 1, 0) * correlation for met, unmet in counts]
    return [VoteTally(met / each, unmet / each) for (met, unmet), each in zip(counts, worth, strict=True)]


def invert_votes(votes: Votes) -> Votes:
    """Return the inverted verdicts."""
    return tuple(tuple(None if vote is None else not vote for vote in row) for row in votes)


def compute_likelihoods(tally: VoteTally, error: float) -> tuple[float, float]:
    """Return the chance of a tally if the response meets the criterion, and if it does not."""
    right = 1 - error
    return right**tally.met * error**tally.unmet, error**tally.met * right**tally.unmet


def compute_separating_chance(votes: Votes, error: float, correlation: float = 0) -> float:
    """Compute the chance that some responses truly meet the criterion and others do not.

    A priori, any number of responses that meet it is equally likely, and so is any choice of that number of
    responses. Responses without a verdict are left out.

    Example:
        >>> all_met = ((True,) * 6, (True,) * 6)
        >>> one_doubt = ((True,) * 6, (False, *(True,) * 5))
        >>> one_miss = ((False, *(True,) * 5),) * 2
        >>> [round(compute_separating_chance(votes, 0.1), 2) for votes in (all_met, one_doubt, one_miss)]
        [0.01, 0.15, 0.93]
    """
    judged = [compute_likelihoods(tally, error) for tally in tally_votes(votes, correlation) if sum(tally)]
    size = len(judged)
    sums = sum_by_count((unmet, met) for met, unmet in judged)
    by_count = [total / comb(size, count) for count, total in enumerate(sums)]
    return sum(by_count[1:-1]) / sum(by_count) if size > 1 else 0.0


def sum_by_count(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """Sum the products over all choices of one element per pair, grouped by how often the second was chosen."""
    sums = [1.0]
    for first, second in pairs:
        sums = [first * stay + second * step for stay, step in zip([*sums, 0.0], [0.0, *sums], strict=True)]
    return sums


def compute_split_chance(votes: Votes, error: float) -> float | None:
    """Compute the chance that judges split on a criterion (coin-flip verdicts); None if no two judged a response.

    Example:
        >>> agree, split = ((True, False, True, False),) * 2, ((True,) * 4, (False,) * 4)
        >>> [round(compute_split_chance(votes, 0.1), 2) for votes in (agree, split)]
        [0.12, 0.98]
        >>> compute_split_chance(((True, False),), 0.1) is None
        True
    """
    compared = Counter(tally for tally in tally_votes(votes) if sum(tally) > 1)
    return _compute_split_chance(compared, error, 0.5) if compared else None


def compute_bayes_factor(left: Votes, right: Votes, noise: JudgeNoise, alike: float) -> float:
    """Compute the Bayes factor of one truth behind two rows of verdicts against two that agree with chance `alike`.

    Example:
        >>> votes, other = ((True, False, True),), ((False, True, True),)
        >>> [round(compute_bayes_factor(votes, row, JudgeNoise(0.1), 0.5), 2) for row in (votes, other)]
        [4.41, 0.21]
    """
    factor = 1.0
    for mine, others in zip(tally_votes(left, noise.correlation), tally_votes(right, noise.correlation), strict=True):
        met, unmet = compute_likelihoods(mine, noise.error)
        other_met, other_unmet = compute_likelihoods(others, noise.error)
        same, cross = met * other_met + unmet * other_unmet, met * other_unmet + unmet * other_met
        factor *= same / (alike * same + (1 - alike) * cross)
    return factor


def estimate_judge_error(pool: Pool, prior: float) -> float:
    """Estimate the error rate of verdicts from the judges' disagreements on all criteria of a pool.

    Expectation maximization attributes the disagreements to criteria on which judges split and to plain errors;
    `prior` counts as twenty verdicts, and is the estimate without two judges.

    Example:
        >>> clean = ((True, False, True, True),) * 2
        >>> pool = Pool(("",) * 4, ("j1", "j2"), {f"m{n}": clean for n in range(10)})
        >>> estimate_judge_error(pool, 0.1) < 0.05
        True
        >>> estimate_judge_error(Pool(("",) * 4, ("j1",), {"m1": (clean[0],)}), 0.1)
        0.1
    """
    rows = [Counter(tally for tally in tally_votes(votes) if sum(tally) > 1) for votes in pool.votes.values()]
    rows = [row for row in rows if row]
    if not rows:
        return prior
    seen = [sum(sum(tally) * count for tally, count in row.items()) for row in rows]
    wrong = [sum(min(tally) * count for tally, count in row.items()) for row in rows]
    error, split, before = prior, _PRIOR_SPLIT, 0.0
    for _ in range(_MOST_ROUNDS):
        if abs(error - before) < _CLOSE:
            break
        before, clear = error, [1 - _compute_split_chance(row, error, split) for row in rows]
        errors = sum(chance * count for chance, count in zip(clear, wrong, strict=True))
        verdicts = sum(chance * count for chance, count in zip(clear, seen, strict=True))
        error = (errors + prior * _PRIOR_VERDICTS) / (verdicts + _PRIOR_VERDICTS)
        split = (len(rows) - sum(clear) + 1) / (len(rows) + 10)
    return min(max(error, _LEAST_ERROR), _MOST_ERROR)


def estimate_judge_noise(pool: Pool, prior: float, least_error: float) -> JudgeNoise:
    """Estimate the noise of a pool's verdicts: their error rate, and the correlation of the judges' errors.

    Criteria on which judges split are left out, because they disagree there for another reason.

    Example:
        >>> clean, doubt = ((True,) * 4,) * 3, ((True,) * 4, (True,) * 4, (False, True, True, True))
        >>> same = Pool(("",) * 4, ("a", "b", "c"), {f"m{n}": clean for n in range(9)})
        >>> apart = Pool(("",) * 4, ("a", "b", "c"), {f"m{n}": doubt for n in range(9)})
        >>> [round(estimate_judge_noise(pool, 0.1, 0.05).correlation, 1) for pool in (same, apart)]
        [1.0, 0.0]
    """
    error = estimate_judge_error(pool, prior)
    if not least_error or len(pool.judges) < 2:
        return JudgeNoise(error)
    clear = (votes for votes in pool.votes.values() if (compute_split_chance(votes, error) or 0.0) < 0.5)
    columns = (column for votes in clear for column in zip(*votes, strict=True))
    return JudgeNoise(max(error, least_error), measure_worth(columns, pool.judges, least_error).correlation)


def estimate_agreement_rate(all_votes: Sequence[Votes]) -> float:
    """Estimate how often two criteria of a pool have the same verdict on a response, from 0.5 to 0.95.

    Ten pairs at 0.7 are added as a prior.

    Example:
        >>> estimate_agreement_rate([])
        0.7
    """
    agreeing, pairs = 7.0, 10.0
    for tallied in zip(*map(tally_votes, all_votes), strict=True):
        met, judged = sum(t.met > t.unmet for t in tallied), sum(t.met != t.unmet for t in tallied)
        pairs += comb(judged, 2)
        agreeing += comb(met, 2) + comb(judged - met, 2)
    return min(max(agreeing / pairs, 0.5), 0.95)


def _compute_split_chance(row: Mapping[VoteTally, int], error: float, prior: float) -> float:
    """Compute the chance that judges split on a criterion, from the count of each tally."""
    clear = prod((sum(compute_likelihoods(tally, error)) / 2) ** count for tally, count in row.items()) * (1 - prior)
    split = prod(0.5 ** (sum(tally) * count) for tally, count in row.items()) * prior
    return split / (clear + split)


# Per standard deviation of the score; the scale that Gelman et al. 2008 recommend for logistic regression.
_SCALE = 1.25
_GRID = [step / 2 for step in range(-16, 17)]
_PRIOR = [1 / (1 + (slope / _SCALE) ** 2) for slope in _GRID]
_PRIOR_SIDE = sum(_PRIOR[: len(_GRID) // 2])
_UNRELATED = 0.5


def compute_reversed_chance(
    votes: Votes, scores: Sequence[float | None], error: float, correlation: float = 0
) -> float | None:
    """Compute the chance that better responses meet the criterion less often; None if scores do not differ.

    A priori, a criterion is unrelated to the score with a chance of one half; else it points in either direction with
    equal chance. The likelihood is a conditional logistic regression of the truth behind the verdicts on the score:
    if k responses meet the criterion, the chance that it is just these is e^(b * their scores) over the sum of the
    same for every choice of k (at b = 0: the exact permutation distribution). There is no intercept to estimate, so
    it is valid for small pools. It sums over all possible truths in which some responses meet it and some do not,
    weighted by the verdicts. The slope b, where it is not 0, has a Cauchy prior of scale 1.25 per standard deviation.

    Args:
        votes: the verdicts on the criterion.
        scores: the score of each response by the other criteria; None if there is none.
        error: the error rate of verdicts.
        correlation: the correlation of the errors of two judges.

    Example:
        >>> met_by_the_best = ((False, False, False, True, True, True),)
        >>> met_by_the_worst = ((True, True, True, False, False, False),)
        >>> met_by_the_worst_alone = ((True, False, False, False, False, False),)
        >>> rows = met_by_the_best, met_by_the_worst, met_by_the_worst_alone
        >>> [round(compute_reversed_chance(row, [0.1, 0.2, 0.3, 0.6, 0.7, 0.8], 0.05), 2) for row in rows]
        [0.01, 0.8, 0.57]
    """
    judged = [
        (compute_likelihoods(tally, error), score)
        for tally, score in zip(tally_votes(votes, correlation), scores, strict=True)
        if sum(tally) and score is not None
    ]
    standard = _standardize([score for _, score in judged])
    if not standard:
        return None
    weights = []
    for prior, slope in zip(_PRIOR, _GRID, strict=True):
        factors = [exp(slope * score) for score in standard]
        sums = sum_by_count((unmet, met * f) for ((met, unmet), _), f in zip(judged, factors, strict=True))
        possible = sum_by_count((1.0, factor) for factor in factors)
        inner = zip(sums[1:-1], possible[1:-1], strict=True)
        weights.append(prior * sum(mine / every for mine, every in inner))
    middle = len(_GRID) // 2
    unrelated = weights[middle] / _PRIOR[middle]
    wrong, right = (sum(side) / _PRIOR_SIDE for side in (weights[:middle], weights[middle + 1 :]))
    related = (1 - _UNRELATED) / 2
    return related * wrong / (related * (wrong + right) + _UNRELATED * unrelated)


def score_without(
    candidate: Candidate, others: Sequence[Candidate], votes: Mapping[str, Votes], responses: int
) -> list[float | None]:
    """Compute each response's score by the other criteria: the weighted share of verdicts that they are met."""
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


def _standardize(scores: Sequence[float]) -> list[float]:
    """Return the scores with mean 0 and standard deviation 1; empty if they do not differ."""
    if len(scores) < 2:
        return []
    mean = sum(scores) / len(scores)
    deviation = sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / deviation for score in scores] if deviation > 1e-9 else []


_LEAST_PAIRS = 10
"""The minimum number of pairs of votes of different models for using their disagreement."""

_MOST_ASSUMED = 0.45


class EffectiveVotes(NamedTuple):
    """The worth of votes: the `error` of one, the mean `correlation` of two votes' errors, the number of `votes`."""

    error: float
    correlation: float
    votes: float

    def compute_worth(self, count: int) -> float:
        """Return the number of independent votes that `count` votes are worth.

        Example:
            >>> EffectiveVotes(0.05, 0.7, 5).compute_worth(5), EffectiveVotes(0.05, 0.0, 5).compute_worth(5)
            (1.3157894736842106, 5.0)
        """
        return count / (1 + (count - 1) * self.correlation) if count else 0.0


def measure_worth(
    votes: Iterable[Sequence[bool | None]], models: Sequence[str], least_error: float
) -> EffectiveVotes:
    """Measure the worth of votes from their disagreements.

    Two independent votes that are each wrong with probability `e` disagree with probability `2e(1-e)`. Fewer
    disagreements mean that errors are rarer or shared; without labels, this cannot be decided. So `least_error` is an
    assumption: no vote is taken to be wrong less often. If votes of different models disagree more often than that,
    their disagreement is used instead, which measures the errors that draws of one model share.

    Args:
        votes: a row for each question, with one entry for each draw; None if a draw has no vote.
        models: the model of each draw.
        least_error: the assumed minimum error rate; 0 treats all votes as independent.

    Example:
        >>> unanimous, doubt = (True,) * 5, (True, True, True, True, False)
        >>> measure_worth([unanimous] * 20, ["a"] * 5, 0.05).votes
        1.0
        >>> round(measure_worth([unanimous, doubt] * 10, ["a"] * 5, 0.05).votes, 1)
        5.0
        >>> measure_worth([unanimous] * 20, ["a"] * 5, 0).votes
        5.0
    """
    same, other = [0, 0], [0, 0]  # pairs, and those that disagree
    for row in votes:
        given = [(vote, model) for vote, model in zip(row, models, strict=True) if vote is not None]
        for (mine, model), (another, whose) in combinations(given, 2):
            counted = same if model == whose else other
            counted[0] += 1
            counted[1] += mine != another
    pairs, disagreeing = same[0] + other[0], same[1] + other[1]
    apart = other[1] / other[0] if other[0] >= _LEAST_PAIRS else 0.0
    if not pairs:
        return EffectiveVotes(least_error, 0.0, float(len(models)))
    overall = disagreeing / pairs
    independent = max(2 * least_error * (1 - least_error), apart, overall if not other[0] else 0.0)
    correlation = max(0.0, 1 - overall / independent) if independent else 0.0
    error = min((1 - sqrt(max(0.0, 1 - 2 * independent))) / 2, _MOST_ASSUMED)
    worth = EffectiveVotes(error, correlation, 0.0)
    return worth._replace(votes=worth.compute_worth(len(models)))


def compute_refusal_chance(against: int, count: int, worth: EffectiveVotes, prior: float) -> float:
    """Compute the probability that a point counts against a criterion, given the number of `count` votes that do.

    Example:
        >>> independent, shared = EffectiveVotes(0.06, 0.0, 5), EffectiveVotes(0.06, 0.7, 1.3)
        >>> [round(compute_refusal_chance(against, 5, independent, 0.2), 3) for against in (5, 4, 3, 2)]
        [1.0, 0.999, 0.797, 0.016]
        >>> round(compute_refusal_chance(5, 5, shared, 0.2), 2)
        0.9
    """
    error = max(worth.error, 1e-6)
    margin = worth.compute_worth(count) * (2 * against - count) / count
    odds = log(prior / (1 - prior)) + margin * log((1 - error) / error)
    return 1 / (1 + exp(min(-odds, 700.0)))
