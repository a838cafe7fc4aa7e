"""Scores of a pool, agreement of ranks, and the pair that evolution compares."""

from __future__ import annotations

from collections.abc import Mapping

from autorubric.synthesis.candidate import Candidate, Pool, compute_consensus, find_best_pair
from tests.oracles import kendalltau

RUBRIC = [Candidate("m1", "", "x", 6), Candidate("m2", "", "y", 4), Candidate("p1", "", "z", -5)]


def pool(*judges: Mapping[str, tuple[bool | None, ...]], responses: int = 3) -> Pool:
    names = tuple(f"j{n}" for n in range(len(judges)))
    votes = {one: tuple(judge[one] for judge in judges) for one in judges[0]}
    return Pool(("r",) * responses, names, votes)


def test_a_pitfall_that_is_met_takes_points_away() -> None:
    found = compute_consensus(
        RUBRIC, pool({"m1": (True,) * 3, "m2": (True, False, False), "p1": (False, False, True)})
    )
    # (6 + 4) / 10, 6 / 10, (6 - 5) / 10
    assert found.scores == (1.0, 0.6, 0.1)


def test_the_median_over_judges_counts() -> None:
    one = {"m1": (True, False, False), "m2": (False,) * 3, "p1": (False,) * 3}
    two = {"m1": (True, True, False), "m2": (True, False, False), "p1": (False,) * 3}
    three = {"m1": (True, True, True), "m2": (True, True, True), "p1": (False,) * 3}
    # Judge by judge: 0.6 0 0; 1 0.6 0; 1 1 1.
    assert compute_consensus(RUBRIC, pool(one, two, three)).scores == (1.0, 0.6, 0.0)


def test_a_failed_judgment_moves_no_response_against_another() -> None:
    votes: dict[str, tuple[bool | None, ...]] = {"m1": (True, False, True), "m2": (True, None, False)}
    found = compute_consensus(RUBRIC[:2], pool(votes))
    # m2 has no verdict for the second response, so it counts for none of them.
    assert found.scores == (1.0, 0.0, 1.0)


def test_a_judge_without_a_whole_row_has_no_scores() -> None:
    lost: dict[str, tuple[bool | None, ...]] = {"m1": (None, None, None), "m2": (None, True, True)}
    sound: dict[str, tuple[bool | None, ...]] = {"m1": (True, False, True), "m2": (False, False, True)}
    assert compute_consensus(RUBRIC[:2], pool(lost)).scores == (None, None, None)
    found = compute_consensus(RUBRIC[:2], pool(lost, sound))
    assert found.scores == (0.6, 0.0, 1.0)
    assert found.rank_agreement is None


def test_agreement_of_ranks_is_kendalls_tau_b() -> None:
    one = {"m1": (True, False, True), "m2": (True, False, False), "p1": (False,) * 3}
    two = {"m1": (False, True, True), "m2": (True, True, False), "p1": (False,) * 3}
    expected = kendalltau([1.0, 0.0, 0.6], [0.4, 1.0, 0.6]).statistic
    found = compute_consensus(RUBRIC, pool(one, two)).rank_agreement
    assert found is not None
    assert abs(found - expected) < 1e-12


def test_the_pair_is_the_best_of_what_differs_and_was_not_compared() -> None:
    texts = ["a", "b", "B ", "c"]
    scores = [0.2, 0.9, 0.9, 0.5]
    assert find_best_pair(scores, texts) == (1, 3)
    assert find_best_pair(scores, texts, used=[(3, 1)]) == (2, 3)
    assert find_best_pair([None, 0.9, None, None], texts) is None
    assert find_best_pair([0.5, 0.5], ["Same text", "same  TEXT"]) is None
