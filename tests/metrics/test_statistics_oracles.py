"""Correlations, tests and distributions against scipy and statsmodels."""

from __future__ import annotations

import sys
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from autorubric import extras
from autorubric.errors import MissingPackageError
from autorubric.metrics.correlation import (
    compute_correlation,
    count_orders,
    kendall,
    measure_errors,
    pearson,
    spearman,
)
from autorubric.metrics.distribution import (
    earth_movers_distance,
    ks_test,
    ks_test_uniform,
    score_distance,
    score_distribution,
    systematic_bias,
    wasserstein_distance,
)
from autorubric.metrics.intervals import adjust_p_values, bounded_interval, mean_interval, wilson_interval
from autorubric.metrics.statistic_results import CorrelationMethod, CorrelationResult
from tests.offenders import each
from tests.oracles import OLS, multipletests, proportion_confint, stats


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


Samples = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def samples(seed: int, n: int, ties: bool) -> Samples:
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    y = x + rng.normal(0, 0.5, n)
    return (np.round(x, 1), np.round(y, 1)) if ties else (x, y)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("n", [3, 4, 10, 33, 34, 200])
@pytest.mark.parametrize("seed", [0, 1])
def test_correlations_and_p_values_are_those_of_scipy(seed: int, n: int, ties: bool) -> None:
    x, y = samples(seed, n, ties)
    for ours, theirs in ((pearson, stats.pearsonr), (spearman, stats.spearmanr), (kendall, stats.kendalltau)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy warns of constant series, which small rounded samples are
            expected = theirs(x, y)
        found = ours(x, y)
        if np.isnan(expected[0]):
            assert found is None
        else:
            assert found == close((expected[0], expected[1]))


def test_a_perfect_order_has_the_exact_p_value() -> None:
    # 2 of 5! orders are as extreme.
    assert kendall([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) == close((1.0, 2 / 120))


def test_orders_are_what_counting_pairs_gives_in_each_group() -> None:
    rng = np.random.default_rng(3)
    x, y, group = rng.integers(0, 9, 60), rng.integers(0, 7, 60), rng.integers(0, 4, 60)
    found = count_orders(x, y, group)
    for place in range(4):
        rows = np.flatnonzero(group == place)
        pairs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in combinations(rows, 2)]
        products = [one * other for one, other in pairs]
        ties = sum(one == 0 for one, _ in pairs), sum(other == 0 for _, other in pairs)
        expected = len(rows), len(pairs), *ties, products.count(1), products.count(-1)
        assert tuple(int(counts[place]) for counts in found) == expected


def test_too_little_or_constant_data_has_no_correlation() -> None:
    assert compute_correlation([1, 2], [1, 2]).interpretation == "insufficient data"
    # 0.1 + 0.2 and 0.3 differ by rounding alone.
    constant = compute_correlation([0.1 + 0.2, 0.3, 0.3], [1, 2, 3], "pearson")
    assert (constant.coefficient, constant.p_value, constant.interpretation) == (None, None, "undefined")


@each("way", ["pearson", "spearman", "kendall"])
def test_the_interval_of_a_correlation_is_the_jackknife_of_scipys_coefficient(way: CorrelationMethod) -> None:
    correlate = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[way]
    for n, groups in ((15, 15), (120, 20)):
        x, y = samples(5, n, True)
        order = np.lexsort((y, x))
        x, y, place = x[order], y[order], np.random.default_rng(0).permutation(n) % groups
        kept = [place != group for group in range(groups)]
        z = np.arctanh([correlate(x[rows], y[rows])[0] for rows in kept])
        error = np.sqrt((groups - 1) / groups * np.sum((z - z.mean()) ** 2))
        tau, p_value = stats.kendalltau(x, y, method="asymptotic")
        least = abs(tau) / stats.norm.isf(p_value / 2) if way == "kendall" else 1 / np.sqrt(n - 1)
        error = max(error, least)  # of independent series
        centre, reach = np.arctanh(correlate(x, y)[0]), stats.t.ppf(0.95, groups - 1) * error
        found = compute_correlation(x, y, way, 0.9).ci
        assert found is not None
        assert found.method == "jackknife"
        assert (found.lower, found.upper) == close((np.tanh(centre - reach), np.tanh(centre + reach)))


def test_intervals_of_correlations_cover_the_true_one_although_most_values_are_tied() -> None:
    # Nine in ten labels are the best option. Fisher's z covers in 41 to 69 % of these samples.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 1))
    population = np.digitize(np.hstack([x, 0.8 * x + 0.6 * rng.normal(size=x.shape)]), [-2.5, -2.0, -1.6, -1.2])
    ways: list[tuple[CorrelationMethod, Any]] = [("pearson", stats.pearsonr), ("kendall", stats.kendalltau)]
    for way, correlate in ways:
        true, covered = correlate(*population.T)[0], 0
        for rows in rng.integers(len(population), size=(60, 150)):
            found = compute_correlation(population[rows, 0], population[rows, 1], way).ci
            covered += found is not None and found.lower <= true <= found.upper
        assert covered >= 50, (way, covered)
    # Of 30 independent labels and verdicts with nine in ten alike, the jackknife alone covers 55 to 60 %.
    for way in ("pearson", "spearman", "kendall"):
        series = [np.digitize(rng.normal(size=(2, 30)), [-2.5, -2.0, -1.6, -1.2]) for _ in range(100)]
        every = [compute_correlation(x, y, way).ci for x, y in series]
        known = [found for found in every if found is not None]
        covered = sum(found.lower <= 0.0 <= found.upper for found in known)
        assert len(known) > 50 and covered >= 0.9 * len(known), (way, covered, len(known))


def test_words_for_correlations_are_the_published_ones() -> None:
    words = [CorrelationResult.interpret_correlation(r) for r in (0.9, 0.7, -0.5, 0.3, 0.1, 0.0)]
    # As AutoRubric 1.6.1 prints them.
    assert words == [
        "very strong positive",
        "strong positive",
        "moderate negative",
        "weak positive",
        "very weak positive",
        "very weak positive",
    ]


@each("n", [2, 5, 80])
def test_bias_is_the_paired_t_test(n: int) -> None:
    x, y = samples(n, n, False)
    found, expected = systematic_bias(x, y, confidence=0.9), stats.ttest_rel(x, y)
    difference = x - y
    interval = expected.confidence_interval(0.9)
    assert found.p_value == close(expected.pvalue)
    assert found.effect_size == close(difference.mean() / difference.std(ddof=1))
    assert found.ci is not None
    assert (found.ci.lower, found.ci.upper) == close((interval.low, interval.high))


def test_independent_bias_is_welchs_t_test() -> None:
    x, y = samples(2, 30, False)
    found, expected = systematic_bias(x, y[:20], paired=False), stats.ttest_ind(x, y[:20], equal_var=False)
    assert found.p_value == close(expected.pvalue)


def test_a_constant_shift_has_no_effect_size() -> None:
    found = systematic_bias([0.3, 0.4, 0.8], [0.2, 0.3, 0.7])
    assert found.mean_bias == close(0.1)
    assert (found.effect_size, found.direction, found.is_significant) == (None, "positive", True)


def test_wilsons_interval_holds_its_share_also_at_the_ends() -> None:
    # All of 10 is 1 on paper, where the upper end is (1 + z²/n) / (1 + z²/n), of which rounding left less.
    ends = {n: wilson_interval(n, n) for n in range(1, 400)}
    assert all(interval is not None and interval.high == 1.0 for interval in ends.values())
    assert all((none := wilson_interval(0, n)) is not None and none.low == 0.0 for n in range(1, 400))


def test_differences_that_do_not_vary_give_no_interval() -> None:
    # The differences are 0.1 three times but for their last digits, 0.5 twice, 0 twice, and of means without spread.
    assert systematic_bias([0.3, 0.4, 0.8], [0.2, 0.3, 0.7]).ci is None
    assert systematic_bias([1.0, 0.5], [0.5, 0.0]).ci is None
    assert systematic_bias([0.5, 0.7], [0.5, 0.7]).ci is None
    assert systematic_bias([0.5, 0.5], [0.2, 0.2, 0.2], paired=False).ci is None


def test_bias_of_nothing_and_of_one_pair() -> None:
    assert systematic_bias([], []).mean_bias is None
    single = systematic_bias([0.5], [0.25])
    assert (single.mean_bias, single.std_bias, single.p_value, single.n_samples) == (0.25, None, None, 1)
    same = systematic_bias([0.5, 0.5], [0.5, 0.5])
    assert (same.mean_bias, same.p_value, same.is_significant, same.direction) == (0.0, None, False, "none")


@each("seed", range(4))
def test_the_earth_movers_distance_is_that_of_scipy(seed: int) -> None:
    x, y = samples(seed, 40, False)
    assert wasserstein_distance(x, y[:25], normalize=False) == pytest.approx(stats.wasserstein_distance(x, y[:25]))


def test_the_distance_of_scores_is_on_their_scale_and_not_on_that_of_the_sample() -> None:
    # All three scores move by 0.1 on a scale of length 1.
    found = score_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8])
    assert found.emd == close(0.1)
    assert (found.bias_direction, found.interpretation) == ("lower", "moderate differences")
    assert score_distance([0.5] * 3, [0.501] * 3).emd == pytest.approx(0.001)
    # The scale of raw sums from 0 to 50 is 50 long, and all move by 10.
    assert score_distance([0, 20, 40], [10, 30, 50]).emd == pytest.approx(0.2)
    assert score_distance([], [0.5]).emd is None


def test_kolmogorov_smirnov_tests_are_exact_for_small_samples() -> None:
    # 2 of the 70 orders of four and four values separate the samples; 3 of 4 apart: 2·8/70 (Hodges 1958).
    two = ks_test([0.1, 0.2, 0.3, 0.4], [0.6, 0.7, 0.8, 0.9])
    assert (two.statistic, two.p_value, two.is_significant) == (1.0, close(2 / 70), True)
    part = ks_test([0.1, 0.2, 0.3, 0.7], [0.6, 0.8, 0.9, 1.0])
    assert (part.statistic, part.p_value) == (close(0.75), close(16 / 70))
    # One uniform value lies as far as 0.3 from an end with a probability of 2·0.3.
    one = ks_test_uniform([0.3])
    assert (one.statistic, one.p_value, one.is_significant) == (close(0.7), close(0.6), False)
    # Φ(1) - 1/2 is how far the steps at -1 and 1 lie from the normal distribution with mean 0 and deviation 1.
    fitted = ks_test([-1.0, 1.0])
    assert (fitted.statistic, fitted.is_significant) == (close(stats.norm.cdf(1.0) - 0.5), False)


def test_kolmogorov_smirnov_tests_without_scipy_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    extras._is_installed.cache_clear()
    try:
        with pytest.raises(MissingPackageError, match=r"pip install 'autorubric-hub\[stats\]'"):
            ks_test([0.5], [0.7])
    finally:
        monkeypatch.undo()
        extras._is_installed.cache_clear()


def test_the_normalized_earth_movers_distance_is_a_share_of_the_range_of_both_samples() -> None:
    # Both samples span 0.5 to 0.8; all scores move by 0.1, a third of that.
    assert earth_movers_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8]).emd == pytest.approx(1 / 3)
    assert wasserstein_distance([0.5, 0.6, 0.7], [0.6, 0.7, 0.8]) == pytest.approx(1 / 3)
    assert earth_movers_distance([0.5] * 3, [0.501] * 3).emd == pytest.approx(1.0)
    assert earth_movers_distance([0.5] * 3, [0.5] * 3).emd == 0.0
    assert earth_movers_distance([], [0.5]).emd is None


def test_the_ks_test_of_nothing_is_undefined() -> None:
    assert ks_test([]).statistic is None
    assert ks_test([0.5, 0.5]).p_value is None  # no spread, so no normal distribution to fit
    assert ks_test_uniform([]).statistic is None
    assert ks_test([0.5], []).p_value is None


@each("n", [4, 30])
def test_the_shape_of_scores_is_that_of_scipy(n: int) -> None:
    x, _ = samples(n, n, False)
    found = score_distribution(x)
    assert found.skewness == close(stats.skew(x))
    assert found.kurtosis == close(stats.kurtosis(x))
    assert found.variance == close(np.var(x, ddof=1))


def test_too_few_or_equal_scores_leave_the_shape_undefined() -> None:
    assert score_distribution([]).mean is None
    one = score_distribution([0.5])
    assert (one.mean, one.std, one.skewness) == (0.5, None, None)
    assert score_distribution([0.5] * 5).skewness is None
    assert score_distribution([0.5, 0.6], include_histogram=False).histogram is None


@each(("hits", "n"), [(0, 5), (5, 5), (8, 10), (1, 1000)])
def test_the_wilson_interval_is_that_of_statsmodels(hits: int, n: int) -> None:
    found = wilson_interval(hits, n, 0.9)
    assert found is not None
    expected = proportion_confint(hits, n, alpha=0.1, method="wilson")
    assert (found.low, found.high) == close(expected)
    assert wilson_interval(0, 0) is None


def test_the_interval_of_a_mean_of_clusters_is_the_cluster_robust_one_of_statsmodels() -> None:
    rng = np.random.default_rng(5)
    queries = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 6] * 2)
    values = 2.0 + rng.normal(size=12)[queries] + 0.5 * rng.normal(size=len(queries))

    def estimate(numbers: Any, clusters: Any, ends: tuple[float, float] | None = None) -> Any:
        sums = [(int((clusters == c).sum()), float(numbers[clusters == c].sum())) for c in np.unique(clusters)]
        total, squares = float(numbers.sum()), float((numbers**2).sum())
        return mean_interval(len(numbers), total, squares, ends, clusters=sums)

    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": queries}, use_t=True)
    assert estimate(values, queries)[:2] == close(tuple(fit.conf_int()[0]))
    # One value in each cluster, and values that are repeated within clusters, give the interval of single values.
    for ends, numbers in ((None, values), ((0.0, 1.0), 1.0 / (1.0 + np.exp(-values)))):
        plain = mean_interval(len(numbers), float(numbers.sum()), float((numbers**2).sum()), ends)
        assert plain is not None
        places = np.arange(len(numbers))
        assert estimate(numbers, places, ends)[:2] == close(plain[:2])
        assert estimate(np.repeat(numbers, 3), np.repeat(places, 3), ends)[:2] == close(plain[:2])
    # By hand: a quarter of two pseudo-values at each end, and the factor of 2 1/2 clusters.
    numbers = np.array([0.5, 0.5, 1.0, 1.0])
    found = estimate(numbers, np.array([0, 0, 1, 1]), (0.0, 1.0))
    mean = (3.0 + 0.5) / 5.0
    spread = (1 - 2 * mean) ** 2 + (2 - 2 * mean) ** 2 + (2 * mean) ** 2 / 4 + (2 - 2 * mean) ** 2 / 4
    assert found[:2] == close(bounded_interval(mean, spread * 2.5 / 1.5 / 25.0, (0.0, 1.0))[:2])


def test_intervals_of_a_mean_of_similar_answers_to_each_query_cover_it_as_often_as_they_say() -> None:
    rng, covered, narrow = np.random.default_rng(3), 0, 0

    def draw(queries: int, answers: int) -> Any:
        logits = 4.0 + 1.5 * rng.normal(size=(queries, 1)) + rng.normal(size=(queries, answers))
        return np.round(5.0 / (1.0 + np.exp(-logits))) / 5.0

    truth = float(draw(200_000, 1).mean())
    for _ in range(400):
        scores = draw(20, 4)
        sums = 80, float(scores.sum()), float((scores**2).sum()), (0.0, 1.0)
        found = mean_interval(*sums, clusters=[(4, float(row.sum())) for row in scores])
        single = mean_interval(*sums)
        assert found is not None and single is not None
        covered += found.contains(truth)
        narrow += single.contains(truth)
    assert covered >= 0.93 * 400 > narrow


def test_holm_is_that_of_statsmodels() -> None:
    p_values = [0.01, 0.2, 0.03, 0.04, 0.005]
    assert adjust_p_values(p_values) == close(multipletests(p_values, method="holm")[1].tolist())


def test_errors_of_values() -> None:
    # Differences 0.5 and −1: √((0.25 + 1)/2) and 1.5/2.
    assert measure_errors([1.0, 0.0], [0.5, 1.0]) == pytest.approx(((1.25 / 2) ** 0.5, 0.75))
    assert measure_errors([], []) == (None, None)


@each("seed", range(20))
def test_one_order_on_both_sides_is_a_correlation_of_one_and_not_nearly_one(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, 3 + seed) / 3.0
    if len(set(values)) > 1:
        assert spearman(values, values**3) == (1.0, 0.0)
        assert spearman(values, -values) == (-1.0, 0.0)
        assert [compute_correlation(values, sign * values, "kendall").coefficient for sign in (1.0, -1.0)] == [
            1.0,
            -1.0,
        ]
        # No spread is left that could make an interval, also where Pearson's r ends a rounding below 1.
        ways: tuple[CorrelationMethod, ...] = ("pearson", "spearman", "kendall")
        assert [compute_correlation(values, 3.0 * values + 0.1, way).ci for way in ways] == [None] * 3


@each("hole", [None, float("nan"), float("inf")])
def test_a_value_that_is_missing_is_named_and_not_counted(hole: Any) -> None:
    holed = [0.25, hole, 0.5]
    for figure in (
        lambda: earth_movers_distance(holed, [0.5]),
        lambda: ks_test([0.5], holed),
        lambda: systematic_bias(holed, [0.5, 0.5, 0.5]),
        lambda: score_distribution(holed),
        lambda: kendall([0.0, 0.5, 1.0], holed),
        lambda: spearman(holed, [0.0, 0.5, 1.0]),
    ):
        with pytest.raises(ValueError, match=r"value 1 of 3 is (nan|inf); leave out missing values"):
            figure()


@each("values", [[10**400], ["good"], [[0.5], [0.5, 0.25]], [{}]])
def test_what_is_no_series_of_numbers_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="the values are not a series of numbers"):
        score_distribution(values)


def test_series_that_belong_together_have_one_length() -> None:
    for figure in (systematic_bias, pearson, spearman, kendall, compute_correlation):
        with pytest.raises(ValueError, match="there are 3 and 1 values"):
            figure([0.0, 0.5, 1.0], [0.5])


def test_a_correlation_of_nothing_but_rounding_is_0() -> None:
    # Σ (x − x̄)(y − ȳ) = 0 on paper: y is the same at equal distances from the middle of x.
    x, y = [0.1, 0.2, 0.3, 0.4, 0.5], [0.7, 0.3, 0.1, 0.3, 0.7]
    for one, other in ((x, y), (y, x), (x[::-1], y)):
        found = compute_correlation(one, other, "pearson")
        assert (found.coefficient, found.p_value, found.interpretation) == (0.0, 1.0, "very weak positive")
