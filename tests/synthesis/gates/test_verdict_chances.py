from __future__ import annotations

from itertools import product
from math import comb, exp, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.synthesis.candidate import Candidate, Pool, Votes
from autorubric.synthesis.likelihood import (
    JudgeNoise,
    compute_bayes_factor,
    compute_reversed_chance,
    compute_separating_chance,
    compute_split_chance,
    estimate_agreement_rate,
    estimate_judge_error,
    invert_votes,
    score_without,
)

VERDICTS = st.sampled_from([True, False, None])
POOLS = st.tuples(st.integers(1, 3), st.integers(2, 6)).flatmap(
    lambda size: st.lists(
        st.lists(VERDICTS, min_size=size[1], max_size=size[1]).map(tuple), min_size=size[0], max_size=size[0]
    ).map(tuple)
)


def chance_of(votes: Votes, truth: tuple[bool, ...], error: float) -> float:
    """The chance of all verdicts under one truth, verdict by verdict."""
    chance = 1.0
    for row in votes:
        for vote, met in zip(row, truth, strict=True):
            chance *= 1 if vote is None else (1 - error if vote == met else error)
    return chance


@settings(max_examples=60, deadline=None)
@given(POOLS)
def test_the_chance_to_separate_is_that_of_all_truths_summed_one_by_one(votes: Votes) -> None:
    judged = [number for number, column in enumerate(zip(*votes, strict=True)) if set(column) != {None}]
    votes = tuple(tuple(row[number] for number in judged) for row in votes)
    size = len(judged)
    both = {True: 0.0, False: 0.0}
    for truth in product((True, False), repeat=size):
        met = sum(truth)
        both[0 < met < size] += chance_of(votes, truth, 0.1) / (comb(size, met) * (size + 1))
    expected = both[True] / (both[True] + both[False]) if size > 1 else 0.0
    assert compute_separating_chance(votes, 0.1) == pytest.approx(expected)


def test_one_failed_judge_does_not_make_a_criterion_separate() -> None:
    silent: Votes = ((True,) * 6, (None,) * 6)
    assert compute_separating_chance(silent, 0.1) < 0.5
    assert compute_separating_chance(((None,) * 6,), 0.1) == 0.0


def test_one_doubt_among_twelve_verdicts_is_an_error_and_two_on_one_response_are_not() -> None:
    # Derived with error 0.1: one doubt: (1 + 5/81) / 6 against 1 for "all met", both times 1/7, the rest is
    # smaller by another 1/81; two: (81 + 5/81) / 6.
    assert compute_separating_chance(((False, *(True,) * 5), (True,) * 6), 0.1) == pytest.approx(
        0.177 / 1.177, abs=0.01
    )
    assert compute_separating_chance(((False, *(True,) * 5),) * 2, 0.1) == pytest.approx(13.5 / 14.5, abs=0.01)


def test_judges_that_disagree_on_half_of_the_responses_are_said_to_split() -> None:
    # With error 0.1, agreement weighs 0.41 against 0.25, disagreement 0.09 against 0.25.
    votes: Votes = ((True,) * 6, (True, True, True, False, False, False))
    clear, split = 0.41**3 * 0.09**3, 0.25**6
    assert compute_split_chance(votes, 0.1) == pytest.approx(split / (clear + split))


def test_without_two_verdicts_on_a_response_nothing_is_said_of_agreement() -> None:
    assert compute_split_chance(((True, None), (None, False)), 0.1) is None
    assert compute_split_chance((), 0.1) is None


def test_the_error_of_judges_is_found_from_their_disagreements() -> None:
    # 400 pairs of verdicts, one in ten a disagreement: 2 e (1 - e) = 0.1, so e is about 0.053.
    clear: Votes = ((True,) * 20, (False, False, *(True,) * 18))
    pool = Pool(("",) * 20, ("j1", "j2"), {f"m{number}": clear for number in range(20)})
    assert estimate_judge_error(pool, 0.1) == pytest.approx(0.053, abs=0.006)


def test_criteria_that_judges_split_on_do_not_count_as_errors() -> None:
    clear: Votes = ((True, False) * 4,) * 2
    split: Votes = ((True,) * 8, (True, False) * 4)
    votes = {f"m{number}": clear for number in range(12)} | {f"s{number}": split for number in range(4)}
    assert estimate_judge_error(Pool(("",) * 8, ("j1", "j2"), votes), 0.1) < 0.05


def test_two_criteria_of_one_truth_are_told_from_two_of_two_truths() -> None:
    votes: Votes = ((True, False, True, False, True, True),) * 2
    other: Votes = ((True, False, True, False, False, False),) * 2
    assert compute_bayes_factor(votes, votes, JudgeNoise(0.1), 0.7) > 5
    assert compute_bayes_factor(votes, other, JudgeNoise(0.1), 0.7) < 0.2
    assert compute_bayes_factor(votes, ((None,) * 6,) * 2, JudgeNoise(0.1), 0.7) == pytest.approx(1.0)


def test_the_rate_of_agreement_counts_pairs_of_criteria() -> None:
    # Three criteria on one response, met, met, unmet: one of three pairs agrees. With seven of ten added: 8 of 13.
    assert estimate_agreement_rate([((True,),), ((True,),), ((False,),)]) == pytest.approx(8 / 13)


@settings(max_examples=40, deadline=None)
@given(POOLS, st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_turning_every_verdict_round_turns_the_direction_round(votes: Votes, scores: list[float]) -> None:
    own = scores[: len(votes[0])]
    chance = compute_reversed_chance(invert_votes(votes), own, 0.1)
    other = compute_reversed_chance(votes, [-score for score in own], 0.1)
    assert chance is other is None or chance == pytest.approx(other)
    if chance is not None:
        assert chance + (compute_reversed_chance(votes, own, 0.1) or 0) < 1


def test_the_direction_of_few_responses_is_less_sure_than_that_of_many() -> None:
    def worst_half(size: int) -> float:
        votes = ((True,) * (size // 2) + (False,) * (size // 2),) * 2
        chance = compute_reversed_chance(votes, [float(number) for number in range(size)], 0.1)
        assert chance is not None
        return chance

    assert worst_half(2) < 0.5 < worst_half(4) < worst_half(6) < worst_half(8) < worst_half(12)
    assert worst_half(12) > 0.95


def test_the_likelihood_of_the_direction_is_that_of_all_truths_summed_one_by_one() -> None:
    votes: Votes = ((True, True, False, None), (True, False, False, True))
    scores = [0.1, 0.4, 0.5, 0.9]
    mean = sum(scores) / 4
    deviation = sqrt(sum((score - mean) ** 2 for score in scores) / 4)
    z = [(score - mean) / deviation for score in scores]
    sides = {-1: 0.0, 0: 0.0, 1: 0.0}
    priors = {-1: 0.0, 0: 0.0, 1: 0.0}
    for step in range(-16, 17):
        slope = step / 2
        weight = 0.0
        for met in (1, 2, 3):
            truths = [truth for truth in product((True, False), repeat=4) if sum(truth) == met]
            lifts = [exp(slope * sum(s for s, is_met in zip(z, truth, strict=True) if is_met)) for truth in truths]
            weight += sum(
                lift * chance_of(votes, truth, 0.1) for lift, truth in zip(lifts, truths, strict=True)
            ) / sum(lifts)
        side = (slope > 0) - (slope < 0)
        sides[side] += weight / (1 + (slope / 1.25) ** 2)
        priors[side] += 1 / (1 + (slope / 1.25) ** 2)
    likelihood = {side: sides[side] / priors[side] for side in sides}
    expected = 0.25 * likelihood[-1] / (0.25 * likelihood[-1] + 0.5 * likelihood[0] + 0.25 * likelihood[1])
    assert compute_reversed_chance(votes, scores, 0.1) == pytest.approx(expected)


def test_nothing_is_said_of_the_direction_where_the_score_does_not_differ() -> None:
    assert compute_reversed_chance(((True, False),), [0.5, 0.5], 0.1) is None
    assert compute_reversed_chance(((True, False),), [None, 0.5], 0.1) is None


def test_the_score_leaves_out_what_was_not_judged() -> None:
    rubric = [Candidate("a", "", "", 5), Candidate("b", "", "", 5), Candidate("c", "", "", 10)]
    votes: dict[str, Votes] = {"b": ((True, None),), "c": ((True, True), (False, None))}
    # First response: (5 + 10/2) / 15; second: 10 / 10, since b has no verdict there.
    assert score_without(rubric[0], rubric, votes, 2) == [pytest.approx(2 / 3), pytest.approx(1.0)]
