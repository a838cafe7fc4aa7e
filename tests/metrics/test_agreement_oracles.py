"""Coefficients of agreement against scikit-learn, statsmodels and krippendorff."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from autorubric.metrics.agreement_statistics import Part, measure
from autorubric.metrics.confusion import (
    Level,
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    compute_agreement_weights,
    count_pairs,
    count_ratings,
    fleiss_kappa,
    gwet_ac,
    icc,
    kappas,
    krippendorff_alpha,
    mcc,
    precision_recall,
)
from tests.offenders import each
from tests.oracles import inter_rater, krippendorff, sk


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def pairs(seed: int, categories: int, n: int = 60) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Codes of two raters who agree on two items of three."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, categories, n)
    return truth, np.where(rng.random(n) < 0.65, truth, rng.integers(0, categories, n))


@each(("seed", "categories", "ours"), itertools.product(range(4), (2, 3, 5), ("nominal", "linear", "quadratic")))
def test_kappa_is_that_of_scikit_learn(seed: int, categories: int, ours: Any) -> None:
    truth, judged = pairs(seed, categories)
    theirs = None if ours == "nominal" else ours
    expected = sk.cohen_kappa_score(truth, judged, labels=range(categories), weights=theirs)
    assert cohen_kappa(truth, judged, range(categories), ours) == close(expected)


@each("weights", ["nominal", "linear", "quadratic"])
def test_kappa_counts_an_option_that_nobody_chose(weights: Any) -> None:
    truth, judged = np.array([0, 0, 3, 3, 1, 1]), np.array([0, 1, 3, 3, 1, 0])
    expected = sk.cohen_kappa_score(truth, judged, labels=range(4), weights=None if weights == "nominal" else weights)
    assert cohen_kappa(truth, judged, range(4), weights) == close(expected)


def test_weighted_kappa_goes_by_the_options_values_and_not_by_where_they_are_declared() -> None:
    # The same judgments on options declared Low, Mid, High and High, Low, Mid.
    in_order = cohen_kappa([0, 1, 2, 2], [0, 2, 2, 1], [0.0, 0.5, 1.0], "quadratic")
    declared = cohen_kappa([1, 2, 0, 0], [1, 0, 0, 2], [1.0, 0.0, 0.5], "quadratic")
    assert in_order == close(declared)


def test_kappa_is_undefined_where_both_sides_are_one_and_the_same_category() -> None:
    assert cohen_kappa([1, 1, 1], [1, 1, 1], [0, 1]) is None
    assert cohen_kappa([], [], [0, 1]) is None
    # One side varies: agreement is what chance gives, so 0 and not undefined.
    assert cohen_kappa([1, 1, 1], [1, 0, 1], [0, 1]) == pytest.approx(0.0, abs=1e-12)


def test_many_tables_at_once_give_what_each_gives_alone() -> None:
    tables = np.stack([count_pairs(*pairs(seed, 3), 3) for seed in range(5)])
    assert kappas(tables).tolist() == [float(kappas(table)) for table in tables]


@each(("seed", "categories"), itertools.product(range(6), (2, 4)))
def test_accuracies_and_mcc_are_those_of_scikit_learn(seed: int, categories: int) -> None:
    truth, judged = pairs(seed, categories)
    counts = count_pairs(truth, judged, categories)
    assert counts.tolist() == sk.confusion_matrix(truth, judged, labels=range(categories)).tolist()
    assert accuracy(counts) == pytest.approx(sk.accuracy_score(truth, judged))
    assert balanced_accuracy(counts) == close(sk.balanced_accuracy_score(truth, judged))
    assert mcc(counts) == close(sk.matthews_corrcoef(truth, judged))
    found = precision_recall(counts, 1)
    expected = sk.precision_recall_fscore_support(truth, judged, labels=[1], zero_division=0)
    assert found == close(tuple(float(value[0]) for value in expected[:3]))


def test_adjacent_goes_by_rank_of_value() -> None:
    # Options High, Low, Mid: taking High for Low is two places off, and High for Mid one.
    high_for_low = count_pairs([1], [0], 3)
    high_for_mid = count_pairs([2], [0], 3)
    ranks = [2, 0, 1]
    assert accuracy(high_for_low, ranks, within=1) == 0.0
    assert accuracy(high_for_mid, ranks, within=1) == 1.0


def test_what_was_never_given_has_no_precision_and_what_was_never_true_no_recall() -> None:
    assert precision_recall([[0, 3], [0, 2]]) == (None, 0.0, 0.0)
    assert precision_recall([[0, 0], [3, 2]]) == (0.0, None, 0.0)
    assert precision_recall([[0, 0], [0, 2]]) == (None, None, None)
    assert mcc([[3, 0], [2, 0]]) is None
    assert balanced_accuracy([[3, 1], [0, 0]]) is None
    # A category without truth has no recall: (1 + 5/10) / 2.
    assert balanced_accuracy([[90, 0, 0], [5, 5, 0], [0, 0, 0]]) == 0.75
    assert accuracy([[0, 0], [0, 0]]) is None


def votes(seed: int, judges: int, categories: int, missing: float) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, categories, 40)
    said = np.where(rng.random((judges, 40)) < 0.7, truth, rng.integers(0, categories, (judges, 40)))
    return np.where(rng.random((judges, 40)) < missing, -1, said)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize(("judges", "categories", "missing"), [(2, 2, 0.0), (3, 4, 0.3), (6, 3, 0.6)])
def test_alpha_is_that_of_the_krippendorff_package(
    level: Level, judges: int, categories: int, missing: float
) -> None:
    codes = votes(judges, judges, categories, missing)
    with_gaps = np.where(codes < 0, np.nan, codes)
    expected = krippendorff.alpha(with_gaps, level_of_measurement=level, value_domain=list(range(categories)))
    found = krippendorff_alpha(count_ratings(codes, categories), level)
    assert found == close(expected)


def test_alpha_of_options_declared_out_of_order_is_that_of_the_ordered_ones() -> None:
    codes = votes(1, 3, 3, 0.2)
    swapped = np.where(codes < 0, -1, np.array([2, 0, 1])[codes])
    in_order = krippendorff_alpha(count_ratings(codes, 3), "ordinal")
    declared = krippendorff_alpha(count_ratings(swapped, 3), "ordinal", [0.5, 1.0, 0.0])
    assert declared == close(in_order)


def test_alpha_is_undefined_where_all_votes_are_alike_or_no_item_has_two() -> None:
    assert krippendorff_alpha([[3, 0], [2, 0]]) is None
    assert krippendorff_alpha([[1, 0], [0, 1]]) is None


@each(("judges", "categories"), [(2, 2), (3, 4), (5, 3)])
def test_fleiss_is_that_of_statsmodels_on_complete_items(judges: int, categories: int) -> None:
    counts = count_ratings(votes(judges, judges, categories, 0.0), categories)
    assert fleiss_kappa(counts, judges) == close(inter_rater.fleiss_kappa(counts))
    with_gap = np.vstack([counts, [1] + [0] * (categories - 1)])
    assert fleiss_kappa(with_gap, judges) == close(inter_rater.fleiss_kappa(counts))


def test_fleiss_is_undefined_where_all_votes_are_alike() -> None:
    assert fleiss_kappa([[3, 0], [3, 0]], 3) is None
    assert fleiss_kappa([[1, 0]], 1) is None


def test_ac1_of_two_raters_by_hand() -> None:
    # 125 items: p_o = 118/125 = 0.944; mean share of the first category (123 + 120)/250 = 0.972;
    # p_e = 2 · 0.972 · 0.028 = 0.054432; AC1 = (0.944 − 0.054432)/(1 − 0.054432) = 0.940776…
    expected = (0.944 - 0.054432) / (1 - 0.054432)
    counts = [[2, 0]] * 118 + [[1, 1]] * 7
    assert gwet_ac(counts) == close(expected)
    truth = np.array([0] * 123 + [1] * 2)
    pairs = Part("binary", truth, np.array([0] * 118 + [1] * 5 + [0] * 2), ("MET", "UNMET"))
    assert measure(pairs)["gwet"] == close(expected)


def test_ac2_with_quadratic_weights_by_hand() -> None:
    # Values 0, 1, 2; pairs (0,0), (1,2), (2,0). w = 1, 0.75, 0 → p_o = 1.75/3.
    # Shares: 0: 3/6, 1: 1/6, 2: 2/6. Σπ(1−π) = 1/4 + 5/36 + 2/9 = 22/36.
    # Σw = 3 + 4·0.75 + 0 = 6; p_e = 6/(3·2)·22/36 = 22/36.
    expected = (1.75 / 3 - 22 / 36) / (1 - 22 / 36)
    weights = compute_agreement_weights(range(3), "quadratic")
    assert gwet_ac([[2, 0, 0], [0, 1, 1], [1, 0, 1]], weights) == close(expected)


def test_votes_on_options_with_an_order_agree_in_part_and_others_do_not() -> None:
    # Votes (0, 1) and (2, 2) on options 0, 0.5, 1. Shares 1/4, 1/4, 1/2: Σπ(1−π) = 3/16 + 3/16 + 1/4 = 5/8.
    # Ordered: w(0, 1) = 0.5, so p_o = (1/2 + 1)/2 = 3/4; Σw = 3 + 4 · 0.5 = 5, p_e = 5/6 · 5/8 = 25/48;
    # AC2 = (36 − 25)/(48 − 25). Without an order p_o = 1/2, p_e = 3/6 · 5/8 = 5/16; AC1 = (8 − 5)/(16 − 5).
    none, votes = np.empty(0, np.int64), np.array([[0, 2], [1, 2]])
    values = np.array([0.0, 0.5, 1.0])
    weights = compute_agreement_weights(values, "linear")
    ordered = Part("ordinal", none, none, ("a", "b", "c"), weights, votes=votes, vote_values=values)
    unordered = Part("nominal", none, none, ("a", "b", "c"), weights, votes=votes)
    assert measure(ordered)["judge_gwet"] == close(11 / 23)
    assert measure(unordered)["judge_gwet"] == close(3 / 11)
    # Mean squares of items (0, 0.5) and (1, 1): items 0.5625, judges 0.0625, rest 0.0625; ICC(2,1) = 0.5/0.625.
    assert measure(ordered)["icc"] == close(0.8)
    assert "icc" not in measure(unordered)
    # There are no labels, so there is nothing of them to measure.
    assert not {"accuracy", "rmse", "mae"} & measure(ordered).keys()


def test_near_misses_are_measured_against_the_widest_distance_of_the_values() -> None:
    # 0, 0.25 and 0.5: half of the widest distance is 0.25, wherever it ends.
    assert compute_agreement_weights([0.0, 0.25, 0.5], "linear")[0].tolist() == [1.0, 0.5, 0.0]
    assert compute_agreement_weights([0.0, 0.25, 0.5], "quadratic")[0].tolist() == [1.0, 0.75, 0.0]
    assert compute_agreement_weights([0.5, 0.5], "linear").tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert compute_agreement_weights([0.5, 0.75]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_ac1_of_three_raters_by_hand() -> None:
    # Votes 3:0, 2:1, 0:3: p_o = (1 + 2/6 + 1)/3 = 7/9. Shares (1 + 2/3 + 0)/3 = 5/9 and 4/9;
    # p_e = 2/(2·1) · 2·20/81 = 40/81; AC1 = (63 − 40)/(81 − 40).
    assert gwet_ac([[3, 0], [2, 1], [0, 3]]) == close(23 / 41)


def test_ac1_without_a_pair_of_votes_is_undefined() -> None:
    assert gwet_ac([[1, 0], [0, 1]]) is None


def test_icc_is_the_published_example() -> None:
    # Shrout and Fleiss 1979, table 2 and table 4: four judges, six targets.
    scores: list[list[float]] = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert round(icc(scores) or 0, 2) == 0.29


def test_icc_without_spread_is_undefined() -> None:
    assert icc([[1, 1], [1, 1]]) is None
    assert icc([[1, 2]]) is None
    # Differences that are small next to the scores are still differences.
    near = [[1 + step * 2**-24 for step in row] for row in ([0, 1], [2, 2], [4, 3])]
    assert icc(near) == pytest.approx(icc([[0, 1], [2, 2], [4, 3]]))
    assert icc([[1.0, np.nan], [1.0, 2.0], [2.0, 2.0]]) is not None


def test_no_statistic_warns_on_an_empty_table() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cohen_kappa([], [], [0, 1]) is None
        assert fleiss_kappa(np.zeros((0, 2)), 2) is None
        assert krippendorff_alpha(np.zeros((0, 2))) is None
        assert gwet_ac(np.zeros((0, 2))) is None
