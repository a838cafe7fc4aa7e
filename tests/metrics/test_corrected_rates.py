import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from autorubric.errors import InputError
from autorubric.metrics.corrected_rate import correct_rate, labelled_cells
from autorubric.metrics.jeffreys import LabelledCells, rate_interval, split_rate_interval
from autorubric.metrics.rogan_gladen import delta_variance, rogan_gladen
from benchmarks.corrected_coverage import JUDGES, simulate_rate


@pytest.mark.parametrize(("successes", "trials"), [(1, 30), (7, 30), (29, 30), (400, 1000)])
def test_jeffreys_interval_is_that_of_statsmodels(successes: int, trials: int) -> None:
    low, high = proportion_confint(successes, trials, method="jeffreys")
    assert rate_interval(successes, trials)[:2] == pytest.approx((low, high), rel=1e-9)


def test_nothing_met_leaves_the_interval_open_to_zero() -> None:
    # 1 - alpha/2 quantile of Beta(1/2, 30.5), from scipy.
    assert rate_interval(0, 30)[:2] == pytest.approx((0.0, stats.beta.ppf(0.975, 0.5, 30.5)))
    assert rate_interval(30, 30).high == 1.0


@pytest.mark.parametrize(
    ("cells", "rest_met", "rest"),
    [
        (LabelledCells(2, 1, 0, 27), 60, 600),
        (LabelledCells(0, 0, 1, 29), 5, 300),
        (LabelledCells(50, 10, 20, 120), 900, 2000),
        (LabelledCells(30, 0, 0, 0), 300, 300),
        (LabelledCells(4000, 1000, 700, 4300), 100_000, 200_000),
    ],
)
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
        (LabelledCells(9, 7, 8, 9), 50, 100, "the judge is hardly better than chance on the labels"),
        (LabelledCells(3, 1, 1, 25), 10, 100, "only 4 labels are MET; the interval needs 5 of each class"),
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
        for estimate in (found.raw, found.labels_only, found.ppi, found.ppi_tuned):
            assert estimate.interval is not None and estimate.value is not None
            assert estimate.interval.holds(estimate.value)
            assert 0.0 <= estimate.interval.low <= estimate.interval.high <= 1.0


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
    # Up to 98 %: a judge that hardly errs shows few errors in 30 labels, and the interval must allow for more.
    assert 0.935 <= found["ppi_tuned"].covered <= 0.98
    assert found["ppi"].covered >= 0.935
    assert found["ppi_tuned"].width < found["labels_only"].width + 0.005
    if found["rogan_gladen"].given > 0.5:
        assert found["rogan_gladen"].covered >= 0.935
