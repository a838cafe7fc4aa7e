"""The rule that accepts a change, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from autorubric.improvement.acceptance import (
    Pairs,
    compute_interval,
    compute_p_value,
    compute_permutation_p_value,
    count_least_changed,
    decide_all,
    estimate_groups_needed,
    estimate_items_needed,
    share,
)
from autorubric.improvement.measures import ac1, compute_scores, sum_ac1, sum_agreement
from autorubric.metrics.confusion import gwet_ac
from autorubric.metrics.table import ABSTAINED, FAILED
from benchmarks.wrong_acceptance import simulate
from tests.offenders import each
from tests.oracles import stats


def pairs(old: list[float], new: list[float], groups: list[int] | None = None) -> Pairs:
    first, second = (np.column_stack([np.ones(len(old)), one]) for one in (np.array(old), np.array(new)))
    return Pairs.from_items(first, second, np.array(groups or range(len(old))), share)


def test_the_interval_of_single_items_is_that_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    old, new = rng.random(40), rng.random(40) + 0.1
    oracle = stats.ttest_rel(new, old).confidence_interval(0.95)
    found = compute_interval(pairs(old.tolist(), new.tolist()), 0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


def test_the_exchange_test_of_right_and_wrong_is_mcnemars_exact_test() -> None:
    # 9 items become right, 2 become wrong, 20 stay: two-sided binomial test of 9 in 11.
    old, new = [0.0] * 9 + [1.0] * 2 + [1.0] * 20, [1.0] * 9 + [0.0] * 2 + [1.0] * 20
    assert compute_permutation_p_value(pairs(old, new)) == pytest.approx(stats.binomtest(9, 11).pvalue)
    # 22 in 29 is drawn, not enumerated; the standard error of 4,999 draws at p = 0.008 is 0.0013.
    old, new = [0.0] * 22 + [1.0] * 7, [1.0] * 22 + [0.0] * 7
    assert compute_permutation_p_value(pairs(old, new)) == pytest.approx(stats.binomtest(22, 29).pvalue, abs=0.006)


def test_items_of_one_group_count_as_one_piece_of_evidence() -> None:
    old, new = [0.0] * 8, [1.0] * 8
    assert decide_all({"a": pairs(old, new)})["a"].accepted
    [decision] = decide_all({"a": pairs(old, new, [0, 0, 0, 1, 1, 1, 2, 2])}).values()
    assert not decision.accepted
    assert (len(decision.pairs), decision.p_value) == (3, 0.25)  # 2 of 2^3 exchanges are as extreme


def test_holm_divides_the_error_by_the_candidates_that_are_left() -> None:
    # p of 6 changes of 40, all right: 2 / 2^6 = 0.031, which alone suffices and among two does not.
    one = pairs([0.0] * 6 + [1.0] * 34, [1.0] * 40)
    none = pairs([0.0, 1.0] * 20, [1.0, 0.0] * 20)
    assert decide_all({"a": one})["a"].accepted
    found = decide_all({"a": one, "b": none})
    assert not found["a"].accepted
    assert found["a"].p_holm == pytest.approx(2 * found["a"].p_value)
    assert found["a"].interval is not None and found["a"].interval.confidence == pytest.approx(0.975)
    assert "adjusted p-value" in found["a"].reason
    assert found["b"].missed_by is not None and found["b"].missed_by > 0


def test_neither_a_worse_nor_an_equal_version_is_ever_accepted() -> None:
    worse = pairs([1.0] * 30, [0.0] * 30)
    same = pairs([1.0] * 30, [1.0] * 30)
    found = decide_all({"worse": worse, "same": same})
    assert [one.accepted for one in found.values()] == [False, False]
    assert compute_p_value(same) == 1.0


def test_failures_and_abstentions_agree_with_no_label() -> None:
    truth = np.array([0, 1, 0, 1])
    for code in (FAILED, ABSTAINED):
        judged = np.full(4, code)
        assert sum_agreement(truth, judged, np.eye(2))[:, 1].sum() == 0
        assert float(ac1(sum_ac1(truth, judged, 2).sum(axis=0))) <= 0


def test_ac1_is_that_of_the_agreement_tables() -> None:
    rng = np.random.default_rng(2)
    for size in (2, 3, 5):
        truth, judged = rng.integers(0, size, 60), rng.integers(0, size, 60)
        oracle = gwet_ac(np.eye(size)[truth] + np.eye(size)[judged])
        assert float(ac1(sum_ac1(truth, judged, size).sum(axis=0))) == pytest.approx(oracle)


def test_scores_are_those_of_a_rubric() -> None:
    # 3 of 4 points; 3 of 4 less a pitfall of 2; a rubric of pitfalls loses 2 of 3.
    assert compute_scores(np.array([[1.0, 0.0, 0.0]]), np.array([3.0, 1.0, -2.0]))[0] == pytest.approx(0.75)
    assert compute_scores(np.array([[1.0, 0.0, 1.0]]), np.array([3.0, 1.0, -2.0]))[0] == pytest.approx(0.25)
    assert compute_scores(np.array([[1.0, 0.0]]), np.array([-2.0, -1.0]))[0] == pytest.approx(1 / 3)
    assert np.isnan(compute_scores(np.array([[np.nan, 0.0]]), np.array([2.0, -1.0]))[0])


def test_the_items_that_are_said_to_suffice_do() -> None:
    # Simulated power of the rule itself, at the number that the formula gives for 80 %.
    needed, rng = estimate_items_needed(0.2, 0.3), np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        moves = rng.choice([1.0, -1.0, 0.0], size=needed, p=[0.25, 0.05, 0.7])
        hits += decide_all({"a": pairs(np.maximum(-moves, 0).tolist(), np.maximum(moves, 0).tolist())})["a"].accepted
    assert 0.68 <= hits / 200 <= 0.92
    assert count_least_changed() == 6


def test_the_groups_that_would_decide_are_counted_from_the_measured_spread() -> None:
    # Errors of scores differ on nearly every item by a little, so a formula for right and wrong verdicts is far off.
    rng = np.random.default_rng(5)
    moves = rng.normal(0.0, 0.1, 60)
    moves += 0.02 - moves.mean()
    decision = decide_all({"a": pairs([0.0] * 60, moves.tolist())})["a"]
    needed = estimate_groups_needed(decision)
    # (1.960 + 0.842)^2 * (s / 0.02)^2, s the standard deviation of the moves.
    assert needed == pytest.approx(7.849 * (moves.std(ddof=1) / 0.02) ** 2, abs=1)
    assert needed is not None
    hits = 0
    for _ in range(80):
        drawn = rng.normal(0.02, moves.std(ddof=1), needed)
        hits += decide_all({"a": pairs([0.0] * needed, drawn.tolist())})["a"].accepted
    # The standard error of 80 runs at 80 % is 4.5 %.
    assert 0.68 <= hits / 80 <= 0.92
    assert estimate_groups_needed(decide_all({"a": pairs([1.0] * 9, [0.0] * 9)})["a"]) is None
    # Nine of nine items gained: a candidate that another rule refuses needs no more items.
    assert estimate_groups_needed(decide_all({"a": pairs([0.0] * 9, [1.0] * 9)})["a"]) is None


@each("labels", [60, 400])
def test_the_simulated_writer_gets_no_more_wrong_wordings_through_than_the_level_allows(labels: int) -> None:
    # 12 runs of the benchmark; with a true rate of 5 %, more than 3 wrong ones have a probability of 0.2 %.
    assert simulate(labels, (0.3, 0.12), 12, has_better=False, measure="agreement").wrong <= 3
    found = simulate(labels, (0.3, 0.12), 12, has_better=True, measure="agreement")
    assert found.wrong <= 3
    assert found.better >= {60: 1, 400: 10}[labels]
