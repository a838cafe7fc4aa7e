import numpy as np
import numpy.typing as npt
import pytest

from autorubric.errors import InputError
from autorubric.metrics.corrected_rate import (
    _compute_credible_interval,
    correct_rate,
    count_cells,
    estimate_rate,
    post_stratified_interval,
    ppi_plus_plus,
    rogan_gladen,
    rogan_gladen_interval,
)
from autorubric.metrics.intervals import LabelledCells
from benchmarks.corrected_coverage import JUDGES, simulate_rate, simulate_stratified
from benchmarks.exact_coverage import at_random, covered, labels_alone, ppi, rogan
from tests.offenders import each, offenders
from tests.oracles import proportion_confint, stats

TABLES = [
    (LabelledCells(2, 1, 0, 27), 60, 600),
    (LabelledCells(0, 0, 1, 29), 5, 300),
    (LabelledCells(30, 3, 2, 20), 20, 30),
    (LabelledCells(50, 10, 20, 120), 900, 2000),
    (LabelledCells(4000, 1000, 700, 4300), 100_000, 200_000),
]


def rates(hits: float, misses: float, parts: int = 60) -> npt.NDArray[np.float64]:
    """A rate's posterior with Jeffreys' prior, as quantiles at the middles of equal parts."""
    return np.asarray(stats.beta.ppf((np.arange(parts) + 0.5) / parts, hits + 0.5, misses + 0.5))


@each(("cells", "rest_met", "rest"), [*TABLES, (LabelledCells(30, 0, 0, 0), 300, 300)])
def test_the_intervals_of_corrected_rates_are_those_of_jeffreys_posteriors(
    cells: LabelledCells, rest_met: int, rest: int
) -> None:
    # Summed over a grid of 60³ or 40⁴ points of equal probability, where the package draws.
    judged = rest_met + cells.judged_met
    share, met, unmet = np.meshgrid(
        rates(judged, cells.labels + rest - judged),
        rates(cells.true_met, cells.false_met),
        rates(cells.false_unmet, cells.true_unmet),
        copy=False,
    )
    low, high = np.quantile(share * met + (1 - share) * unmet, [0.025, 0.975])
    found = post_stratified_interval(cells, rest_met, rest)
    # 20,000 draws place a quantile within about 1.5 % of the interval's width (three standard errors).
    assert found[:2] == pytest.approx((low, high), abs=0.02 * (high - low))
    said, sensitivity, false_rate, labelled = np.meshgrid(
        rates(rest_met, rest - rest_met, 40),
        rates(cells.true_met, cells.false_unmet, 40),
        rates(cells.false_met, cells.true_unmet, 40),
        rates(cells.met, cells.labels - cells.met, 40),
        copy=False,
    )
    informed = sensitivity > false_rate
    of_rest = (said - false_rate) / np.where(informed, sensitivity - false_rate, 1.0)
    found_at = np.clip((cells.labels * labelled + rest * of_rest) / (cells.labels + rest), 0.0, 1.0)[informed]
    uninformed = (~informed).sum() / 2
    points = np.concatenate([found_at.ravel(), [0.0, 1.0]])
    weights = np.concatenate([np.ones(found_at.size), [uninformed, uninformed]])
    order = np.argsort(points)
    below = np.cumsum(weights[order]) / weights.sum()
    low, high = (float(points[order][np.searchsorted(below, tail)]) for tail in (0.025, 0.975))
    misjudged = rogan_gladen_interval(cells, rest_met, rest)
    assert misjudged is not None
    assert misjudged[:2] == pytest.approx((low, high), abs=0.05 * (high - low))


def test_the_ends_of_an_interval_are_the_quantiles_of_numpy() -> None:
    rng = np.random.default_rng(5)
    for size, confidence in ((2, 0.5), (3, 0.95), (1000, 0.9), (20_000, 0.95), (20_000, 0.123)):
        draws = rng.beta(0.5, 3.0, size).round(3)  # some are equal
        assert _compute_credible_interval(draws, confidence)[:2] == tuple(
            np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
        )


def test_more_met_labels_and_more_met_verdicts_move_no_end_down() -> None:
    with_labels = [post_stratified_interval(LabelledCells(k, 10 - k, 1, 19), 100, 300) for k in range(11)]
    misjudged = [rogan_gladen_interval(LabelledCells(12, 2, 3, 13), 40 + 20 * k, 300) for k in range(10)]
    for found in (with_labels, misjudged):
        for ends in zip(*((i.low, i.high) for i in found if i is not None), strict=True):
            assert (np.diff(ends) > -0.005).all()  # but for the draws


def test_rogan_gladen_gives_an_interval_for_few_labels_of_a_class_and_says_nothing_of_a_judge_that_guesses() -> None:
    few = rogan_gladen(LabelledCells(1, 1, 0, 28), 20, 300)
    assert few.interval is not None and few.interval.contains(0.03) and few.interval.width < 0.4
    guesses = rogan_gladen(LabelledCells(9, 7, 8, 9), 50, 100).interval
    assert guesses is not None and guesses.width > 0.9


def test_the_rate_of_the_labels_has_wilsons_interval() -> None:
    found = correct_rate([1] * 4 + [0] * 26, [1] * 4 + [0] * 26, [0, 1]).labels_only.interval
    assert found is not None
    assert found[:2] == pytest.approx(proportion_confint(4, 30, method="wilson"), rel=1e-9)


def test_labels_alone_hold_the_truth_as_often_as_the_guide_says() -> None:
    found = [labels_alone(rate, labels) for labels in (30, 100) for rate in (0.05, 0.2, 0.5)]
    assert found == pytest.approx([93.9, 96.4, 95.7, 96.6, 94.1, 94.3], abs=0.06)


def test_ppi_is_the_rate_of_labels_within_each_verdict() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(1100) < 0.3
    judged = np.where(rng.random(1100) < 0.15, ~truth, truth).astype(float)
    labels, seen, rest = truth[:100].astype(float), judged[:100], judged[100:]
    # Post-stratified; equal to λ = Cov(Y, f) / ((1 + n/N) Var(f)) over the labelled items.
    weight = np.cov(labels, seen)[0, 1] / (1.1 * seen.var(ddof=1))
    found = correct_rate(labels, seen, rest)
    assert found.ppi.value == pytest.approx(labels.mean() + weight * (rest.mean() - seen.mean()))


def test_a_plain_rate_has_wilsons_interval_of_95_percent_unless_told_otherwise() -> None:
    verdicts = [1, 1, 0, 1]
    for found, alpha in ((estimate_rate(verdicts), 0.05), (estimate_rate(verdicts, 0.8), 0.2)):
        assert (found.value, found.n) == (0.75, 4) and found.interval is not None
        assert found.interval[:2] == pytest.approx(proportion_confint(3, 4, alpha, "wilson"))


def test_ppi_plus_plus_is_that_of_ppi_python() -> None:
    # ppi_mean_pointestimate and ppi_mean_ci (alpha=0.05) of ppi-python 0.2.3 on these draws, one after the other.
    rng = np.random.default_rng(4)
    for n, others, rate, error, expected in (
        (30, 300, 0.3, 0.15, (0.15733492171545269, 0.05102279425634891, 0.26364704917455645)),
        (30, 300, 0.05, 0.1, (0.12956912503304252, 0.05176973225327636, 0.20736851781280868)),
        (12, 50, 0.5, 0.5, (0.4505787037037038, 0.18181230430494738, 0.7193451031024602)),
        (60, 600, 0.2, 0.0, (0.18730861819932595, 0.15723485681642071, 0.2173823795822312)),
    ):
        truth = rng.random(n + others) < rate
        judged = np.where(rng.random(n + others) < error, ~truth, truth).astype(float)
        found = correct_rate(truth[:n], judged[:n], judged[n:]).ppi_plus_plus
        assert found.interval is not None
        assert (found.value, *found.interval[:2]) == pytest.approx(expected, abs=1e-12)


def test_ppi_plus_plus_has_no_interval_where_the_estimated_variance_is_zero() -> None:
    # ppi-python gives an interval of width 0 here.
    for labels, judged, rest, value in (
        ([1.0] * 30, [1.0] * 30, [1.0] * 100, 1.0),
        ([0.7] * 30, [0.9, 0.4] * 15, [0.9] * 100, 0.7),
        ([0.0, 1.0] * 15, [0.0, 1.0] * 15, [1.0] * 100, 1.0),
        ([1e9 / 3] * 30, [0.9, 0.4] * 15, [0.9] * 100, 1e9 / 3),  # whose mean is off by a rounding error
    ):
        found = ppi_plus_plus(labels, judged, rest)
        assert found.value == pytest.approx(value)
        assert found.interval is None and "variance is 0" in (found.reason or "")


def test_rogan_gladen_inverts_what_an_imperfect_judge_does() -> None:
    # A rate of 0.25 among the rest, seen through Se = Sp = 0.9: 0.25·0.9 + 0.75·0.1 = 0.3. With the 50 labels that
    # are MET: (50 + 250) / 1100.
    cells = LabelledCells(45, 5, 5, 45)
    assert rogan_gladen(cells, 300, 1000).value == pytest.approx(300 / 1100)
    # (0.3·0.7/1000 + 0.0625·0.09/50 + 0.5625·0.09/50) / 0.64 = (0.00021 + 0.0001125 + 0.0010125) / 0.64 for the rest,
    # and 0.5·0.5/100 for the labels.
    expected = (1000**2 * 0.001335 / 0.64 + 100**2 * 0.0025) / 1100**2
    assert rogan_gladen(cells, 300, 1000).variance == pytest.approx(expected)


def test_rogan_gladen_gives_the_prevalence_of_a_published_example() -> None:
    # The example of `epi.prev` of the R package epiR: 23 of 150 cows are positive in a test for brucellosis with
    # Se = 0.96 and Sp = 0.89, so the true prevalence is (23/150 + 0.89 - 1) / 0.85 = 0.051. Here ten times as many.
    cells = LabelledCells(24, 11, 1, 89)
    estimate = rogan_gladen(cells, 230 - cells.judged_met, 1500 - cells.labels)
    assert (estimate.n, round(estimate.value or 0.0, 4)) == (1500, 0.051)


@each(
    ("cells", "rest_met", "rest", "reason"),
    [
        (LabelledCells(0, 3, 0, 27), 10, 100, "no label is MET"),
        (LabelledCells(10, 0, 2, 0), 10, 100, "no label is UNMET"),
        (LabelledCells(5, 5, 5, 5), 50, 100, "the judge is no better than chance on the labels"),
        (LabelledCells(20, 20, 0, 20), 0, 100, "the judge says MET less often than its errors allow"),
        (LabelledCells(20, 0, 20, 20), 100, 100, "the judge says MET more often than its errors allow"),
        (LabelledCells(10, 1, 1, 10), 0, 0, "every item is labelled, so there is nothing to correct"),
    ],
)
def test_rogan_gladen_says_why_it_gives_no_interval(
    cells: LabelledCells, rest_met: int, rest: int, reason: str
) -> None:
    estimate = rogan_gladen(cells, rest_met, rest)
    assert (estimate.interval, estimate.reason) == (None, reason)
    assert (estimate.variance is None) == (estimate.value is None)


def test_a_correction_without_labels_or_without_a_rest_is_none_and_says_so() -> None:
    alone = correct_rate([], [], [1, 0])
    assert alone.rogan_gladen is not None
    for estimate in (alone.labels_only, alone.ppi, alone.rogan_gladen):
        assert (estimate.value, estimate.reason) == (None, "no label can be used")
    assert correct_rate([1], [1], [1, 0]).ppi.reason == "1 label; a correction needs 2"
    assert correct_rate([1, 0], [1, 0], []).ppi.reason == "every item is labelled, so there is nothing to correct"


def test_a_figure_lies_within_its_interval_whatever_the_table() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labels, judged = rng.random(8) < 0.2, rng.random(8) < 0.2
        found = correct_rate(labels, judged, rng.random(40) < 0.2)
        for estimate in (found.raw, found.labels_only, found.ppi, found.rogan_gladen):
            assert estimate is not None
            if estimate.interval is None:
                assert estimate.reason
                continue
            assert estimate.value is not None
            assert estimate.interval.contains(estimate.value)
            assert 0.0 <= estimate.interval.low <= estimate.interval.high <= 1.0


def test_a_rate_of_one_is_no_more_than_one_and_within_its_interval() -> None:
    # Rounding: Wilson's end for 3 of 3 is 1 - 2e-16, and the shares 1/5 and 4/5 of a rate of 1 add up to 1 + 2e-16.
    found = correct_rate([1] * 4, [1, 0, 0, 0], [0], confidence=0.5)
    for estimate in (correct_rate([1] * 3, [0] * 3, [0], confidence=0.5).labels_only, found.ppi):
        assert estimate.value == 1.0
        assert estimate.interval is not None and estimate.interval.low <= 1.0 == estimate.interval.high


def test_the_two_by_two_table_counts_each_side() -> None:
    assert count_cells([1, 0, 1, 0, 0], [1, 1, 0, 0, 0]) == LabelledCells(1, 1, 1, 2)


def test_a_confidence_in_percent_is_refused() -> None:
    with pytest.raises(InputError, match="confidence=95"):
        correct_rate([1, 0], [1, 0], [1], confidence=95)


def test_intervals_of_the_corrected_rate_hold_the_truth_as_often_as_they_say() -> None:
    """30 labels and 300 verdicts, 500 repetitions: a share of 95 % has a standard error of 1 %."""
    found = simulate_rate(0.5, JUDGES["strict"], 30, 300, 500)
    for method in ("labels_only", "ppi", "rogan_gladen"):
        assert 0.93 <= found[method].covered <= 0.98, method
    assert found["rogan_gladen"].given >= 0.99
    assert found["ppi"].width < found["labels_only"].width + 0.005


def test_prediction_powered_rates_hold_the_truth_by_enumeration() -> None:
    with offenders() as case:
        for rate, judge, rest in (
            *((0.05, "strict", 2000), (0.05, "lenient", 300), (0.05, "good", 300)),
            *((0.2, "good", 300), (0.5, "good", 300)),
        ):
            with case(f"{judge} at {rate}"):
                tables = list(at_random(rate, JUDGES[judge]))
                assert sum(chance for _, chance in tables) > 0.97
                found = covered(ppi, tables, rate, JUDGES[judge], rest, quantiles=3)
                assert 94.0 <= found.held <= 98.0 and found.given == 100.0


def test_rogan_gladens_interval_holds_the_truth_by_enumeration() -> None:
    # A random draw of 30 has no label of a class of 5 % in 21 % of cases, and then no sensitivity.
    with offenders() as case:
        for rate, judge, given in ((0.05, "strict", 60.0), (0.2, "good", 99.0)):
            with case(f"{judge} at {rate}"):
                found = covered(rogan, at_random(rate, JUDGES[judge]), rate, JUDGES[judge], 300, quantiles=3)
                assert found.held >= 93.0 and found.given >= given


@each(
    ("by", "method", "labels", "rest"),
    [("class", "rogan_gladen", 30, 300), ("class", "rogan_gladen", 60, 140), ("verdict", "ppi", 60, 140)],
)
def test_stratified_labels_have_a_valid_estimate(by: str, method: str, labels: int, rest: int) -> None:
    """500 repetitions: a share of 95 % has a standard error of 1 %. The labels alone are biased to one half."""
    found = simulate_stratified(by, 0.2, (0.9, 0.9), labels, rest, 500)
    assert 0.92 <= found[method].covered <= 0.98 and found[method].given >= 0.99
    assert found["labels_only"].covered < 0.6


@each("verdict", [1, 0])
def test_where_the_judge_gave_all_labelled_items_one_verdict_the_labels_stand_alone(verdict: int) -> None:
    # 10 labels, 7 of them MET, all judged alike: the verdicts say nothing, so the rate is 7 / 10.
    found = correct_rate([1] * 7 + [0] * 3, [verdict] * 10, [1] * 30 + [0] * 60)
    assert found.ppi.value == pytest.approx(0.7)
    assert found.ppi.interval is not None and found.ppi.interval.low < 0.7 < found.ppi.interval.high
    assert found.labels_only.value == pytest.approx(0.7)
    # As judged: 30 of the rest, and all or none of the 10.
    assert found.raw.value == pytest.approx((30 + 10 * verdict) / 100)
    assert (found.ppi.n, found.labelled, found.unlabelled) == (100, 10, 90)


def test_labels_of_all_items_or_of_one_are_no_correction() -> None:
    everything = correct_rate([1, 1, 0], [1, 1, 1], [])
    assert (
        everything.ppi.value is None
        and everything.ppi.reason
        and everything.labels_only.value == pytest.approx(2 / 3)
    )
    one = correct_rate([1], [1], [1, 0])
    assert one.ppi.value is None and one.ppi.reason == "1 label; a correction needs 2"
    two = correct_rate([1, 0], [1, 0], [1, 0])
    # Half of the verdicts are MET, and each verdict was right: 1/2 · 1 + 1/2 · 0.
    assert two.ppi.value == pytest.approx(0.5)


@each(
    ("labels", "judged", "rest", "told"),
    [
        ([1, 2, 0], [1, 0, 0], [1], r"labels: value 2 is 2; expected 0 or 1"),
        ([1, 0], [1, float("nan")], [1], r"judged: value 2 is nan"),
        ([1, 0], [1, 0], [1, None], r"judged_rest: value 2 is None"),
        ([1, 0, 1], [1, 0], [1], r"3 labels, but 2 verdicts"),
    ],
)
def test_values_that_are_no_verdict_are_refused(
    labels: list[float], judged: list[float], rest: list[float], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        correct_rate(labels, judged, rest)


def test_published_ppi_refuses_what_is_no_number() -> None:
    with pytest.raises(InputError, match="must be finite numbers"):
        ppi_plus_plus([1.0, float("nan")], [1.0, 0.0], [1.0, 0.0])
