import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from autorubric.errors import InputError
from autorubric.metrics.corrected_rate import correct_rate, labelled_cells
from autorubric.metrics.jeffreys import (
    LabelledCells,
    misjudged_rate_interval,
    rate_interval,
    shifted_rate_interval,
    split_rate_interval,
)
from autorubric.metrics.rogan_gladen import delta_variance, rogan_gladen
from benchmarks.corrected_coverage import JUDGES, simulate_by_class, simulate_rate


@pytest.mark.parametrize(("successes", "trials"), [(1, 30), (7, 30), (29, 30), (400, 1000)])
def test_jeffreys_interval_is_that_of_statsmodels(successes: int, trials: int) -> None:
    low, high = proportion_confint(successes, trials, method="jeffreys")
    assert rate_interval(successes, trials)[:2] == pytest.approx((low, high), rel=1e-9)


def test_nothing_met_leaves_the_interval_open_to_zero() -> None:
    # 1 - alpha/2 quantile of Beta(1/2, 30.5), from scipy.
    assert rate_interval(0, 30)[:2] == pytest.approx((0.0, stats.beta.ppf(0.975, 0.5, 30.5)))
    assert rate_interval(30, 30).high == 1.0


TABLES = [
    (LabelledCells(2, 1, 0, 27), 60, 600),
    (LabelledCells(0, 0, 1, 29), 5, 300),
    (LabelledCells(30, 3, 2, 20), 20, 30),
    (LabelledCells(50, 10, 20, 120), 900, 2000),
    (LabelledCells(4000, 1000, 700, 4300), 100_000, 200_000),
]


@pytest.mark.parametrize(("cells", "rest_met", "rest"), [*TABLES, (LabelledCells(30, 0, 0, 0), 300, 300)])
def test_the_interval_of_a_split_rate_holds_the_middle_of_its_posterior(
    cells: LabelledCells, rest_met: int, rest: int
) -> None:
    rng, draws = np.random.default_rng(1), 1_000_000
    judged = rest_met + cells.judged_met
    share = rng.beta(judged + 0.5, rest + cells.labels - judged + 0.5, draws)
    of_met = rng.beta(cells.true_met + 0.5, cells.false_met + 0.5, draws)
    of_unmet = rng.beta(cells.false_unmet + 0.5, cells.true_unmet + 0.5, draws)
    low, high = np.quantile(share * of_met + (1 - share) * of_unmet, [0.025, 0.975])
    found = split_rate_interval(cells, rest_met, rest)
    # A million draws place a quantile within about 0.3 % of the interval's width.
    assert found[:2] == pytest.approx((low, high), abs=0.01 * (high - low))


@pytest.mark.parametrize(("cells", "rest_met", "rest"), TABLES)
def test_the_interval_of_a_shifted_rate_holds_the_middle_of_its_posterior(
    cells: LabelledCells, rest_met: int, rest: int
) -> None:
    rng, draws = np.random.default_rng(1), 1_000_000
    judged = rng.beta(rest_met + 0.5, rest - rest_met + 0.5, draws)
    right = cells.true_met + cells.true_unmet
    errors = rng.dirichlet([cells.false_met + 0.5, cells.false_unmet + 0.5, right + 0.5], draws)
    low, high = np.clip(np.quantile(judged - errors[:, 0] + errors[:, 1], [0.025, 0.975]), 0.0, 1.0)
    found = shifted_rate_interval(cells, rest_met, rest)
    assert found is not None
    assert found[:2] == pytest.approx((low, high), abs=0.01 * (high - low))


@pytest.mark.parametrize(("cells", "rest_met", "rest"), TABLES)
def test_the_interval_of_a_misjudged_rate_holds_the_rates_that_fit(
    cells: LabelledCells, rest_met: int, rest: int
) -> None:
    rng, draws, few = np.random.default_rng(1), 1_000_000, 2.0 / 3.0
    judged = rng.beta(rest_met + 0.5, rest - rest_met + 0.5, draws)
    sensitivity = rng.beta(cells.true_met + few, cells.false_unmet + few, draws)
    false_rate = rng.beta(cells.false_met + few, cells.true_unmet + few, draws)

    def below(rate: float) -> float:
        return float(np.mean(judged <= rate * sensitivity + (1.0 - rate) * false_rate))

    found = misjudged_rate_interval(cells, rest_met, rest)
    assert found is not None
    # An end within (0, 1) leaves 2.5 % beyond it; an end at 0 or 1 is one that no test refuses.
    for end, tail in ((found.low, below(found.low)), (found.high, 1.0 - below(found.high))):
        if 0.0 < end < 1.0:
            assert tail == pytest.approx(0.025, abs=0.001)
        else:
            assert tail >= 0.025


def test_rogan_gladen_gives_an_interval_for_few_labels_of_a_class_and_says_nothing_of_a_judge_that_guesses() -> None:
    few = rogan_gladen(LabelledCells(1, 1, 0, 28), 20, 300)
    assert few.interval is not None and few.interval.holds(0.03) and few.interval.width < 0.4
    guesses = rogan_gladen(LabelledCells(9, 7, 8, 9), 50, 100).interval
    assert guesses is not None and guesses[:2] == (0.0, 1.0)


def test_the_rate_of_the_labels_has_wilsons_interval() -> None:
    found = correct_rate([1] * 4 + [0] * 26, [1] * 4 + [0] * 26, [0, 1]).labels_only.interval
    assert found is not None
    assert found[:2] == pytest.approx(proportion_confint(4, 30, method="wilson"), rel=1e-9)


def test_labels_alone_hold_the_truth_as_often_as_the_guide_says() -> None:
    for labels, shares in ((30, {0.05: 93.9, 0.2: 96.4, 0.5: 95.7}), (100, {0.05: 96.6, 0.2: 94.1, 0.5: 94.3})):
        found = [correct_rate([1] * k + [0] * (labels - k), [0] * labels, [0]).labels_only for k in range(labels + 1)]
        for rate, share in shares.items():
            held = [k for k, f in enumerate(found) if f.interval is not None and f.interval.holds(rate)]
            assert 100 * stats.binom.pmf(held, labels, rate).sum() == pytest.approx(share, abs=0.06)


def test_errors_that_leave_no_rate_possible_leave_no_interval() -> None:
    # The judge calls half of the labels MET in error and nothing of the rest: 0 - 15/30 is no rate.
    labels, judged = [0] * 30, [1] * 15 + [0] * 15
    too_few, too_many = "less often than its errors allow", "more often than its errors allow"
    assert correct_rate(labels, judged, [0] * 100).ppi.interval is None
    assert str(correct_rate(labels, judged, [0] * 100).ppi.reason).endswith(too_few)
    flipped = correct_rate([1] * 30, judged, [1] * 100).ppi
    assert (flipped.value, flipped.interval) == (1.0, None) and str(flipped.reason).endswith(too_many)


def test_the_tuned_rate_is_power_tuned_prediction_powered_inference() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(1100) < 0.3
    judged = np.where(rng.random(1100) < 0.15, ~truth, truth).astype(float)
    labels, seen, rest = truth[:100].astype(float), judged[:100], judged[100:]
    # Angelopoulos, Duchi and Zrnic: λ = Cov(Y, f) / ((1 + n/N) Var(f)).
    weight = np.cov(labels, seen)[0, 1] / (1.1 * seen.var(ddof=1))
    found = correct_rate(labels, seen, rest)
    assert found.ppi_tuned.value == pytest.approx(labels.mean() + weight * (rest.mean() - seen.mean()))
    assert found.ppi.value == pytest.approx(rest.mean() - (seen - labels).mean())


def test_rogan_gladen_inverts_what_an_imperfect_judge_does() -> None:
    # A rate of 0.25 seen through Se = Sp = 0.9: 0.25·0.9 + 0.75·0.1 = 0.3.
    cells = LabelledCells(45, 5, 5, 45)
    assert rogan_gladen(cells, 300, 1000).value == pytest.approx(0.25)
    # (0.3·0.7/1000 + 0.0625·0.09/50 + 0.5625·0.09/50) / 0.64 = (0.00021 + 0.0001125 + 0.0010125) / 0.64
    assert delta_variance(cells, 300, 1000) == pytest.approx(0.001335 / 0.64)


@pytest.mark.parametrize(
    ("cells", "rest_met", "rest", "reason"),
    [
        (LabelledCells(0, 3, 0, 27), 10, 100, "no label is MET"),
        (LabelledCells(10, 0, 2, 0), 10, 100, "no label is UNMET"),
        (LabelledCells(5, 5, 5, 5), 50, 100, "the judge is no better than chance on the labels"),
        (LabelledCells(20, 20, 0, 20), 0, 100, "the judge says MET less often than its errors allow"),
        (LabelledCells(20, 0, 20, 20), 100, 100, "the judge says MET more often than its errors allow"),
        (LabelledCells(10, 1, 1, 10), 0, 0, "every item is labelled"),
    ],
)
def test_rogan_gladen_says_why_it_gives_no_interval(
    cells: LabelledCells, rest_met: int, rest: int, reason: str
) -> None:
    estimate = rogan_gladen(cells, rest_met, rest)
    assert (estimate.interval, estimate.reason) == (None, reason)


def test_a_correction_without_labels_or_without_a_rest_is_none_and_says_so() -> None:
    alone = correct_rate([], [], [1, 0])
    assert alone.ppi_tuned.reason == "0 labels; a correction needs 2"
    assert alone.labels_only.reason == "there are no labels"
    assert correct_rate([1, 0], [1, 0], []).ppi.reason == "every item is labelled, so there is nothing to correct"


def test_a_figure_lies_within_its_interval_whatever_the_table() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labels, judged = rng.random(8) < 0.2, rng.random(8) < 0.2
        found = correct_rate(labels, judged, rng.random(40) < 0.2)
        for estimate in (found.raw, found.labels_only, found.ppi, found.ppi_tuned, found.rogan_gladen):
            assert estimate is not None
            if estimate.interval is None:
                assert estimate.reason
                continue
            assert estimate.value is not None
            assert estimate.interval.holds(estimate.value)
            assert 0.0 <= estimate.interval.low <= estimate.interval.high <= 1.0


def test_a_rate_of_one_is_no_more_than_one_and_within_its_interval() -> None:
    # Rounding: Wilson's end for 3 of 3 is 1 - 2e-16, and the shares 1/5 and 4/5 of a rate of 1 add up to 1 + 2e-16.
    found = correct_rate([1] * 4, [1, 0, 0, 0], [0], confidence=0.5)
    for estimate in (correct_rate([1] * 3, [0] * 3, [0], confidence=0.5).labels_only, found.ppi_tuned):
        assert estimate.value == 1.0
        assert estimate.interval is not None and estimate.interval.low <= 1.0 == estimate.interval.high


def test_the_two_by_two_table_counts_each_side() -> None:
    assert labelled_cells([1, 0, 1, 0, 0], [1, 1, 0, 0, 0]) == LabelledCells(1, 1, 1, 2)


def test_a_confidence_in_percent_is_refused() -> None:
    with pytest.raises(InputError, match="confidence=95"):
        correct_rate([1, 0], [1, 0], [1], confidence=95)


@pytest.mark.parametrize("rate", (0.05, 0.5))
@pytest.mark.parametrize("judge", JUDGES)
def test_intervals_of_the_corrected_rate_hold_the_truth_as_often_as_they_say(rate: float, judge: str) -> None:
    """30 labels beside 300 verdicts, 2,000 repetitions: a share of 95 % has a standard error of 0.5 %."""
    found = simulate_rate(rate, JUDGES[judge], 30, 300, 2000)
    assert 0.935 <= found["labels_only"].covered <= 0.97
    # Up to 98 %: a judge that hardly errs shows few errors in 30 labels, and the interval must allow for more.
    assert 0.935 <= found["ppi_tuned"].covered <= 0.98
    assert 0.935 <= found["ppi"].covered <= 0.995
    assert 0.935 <= found["rogan_gladen"].covered <= 0.99
    # A random draw of 30 has no label of a class of 5 % in 21 % of cases, and then no sensitivity.
    assert found["rogan_gladen"].given >= 0.6
    assert found["ppi_tuned"].width < found["labels_only"].width + 0.005


@pytest.mark.parametrize("judge", JUDGES)
def test_rogan_gladens_interval_holds_for_labels_chosen_by_class(judge: str) -> None:
    """15 labels MET and 15 UNMET of a criterion of 20 %, 300 verdicts, 2,000 repetitions."""
    found = simulate_by_class(0.2, JUDGES[judge], 30, 300, 2000)["rogan_gladen"]
    assert 0.92 <= found.covered <= 0.985
    assert found.given >= 0.99
