import numpy as np
import pytest

from autorubric.metrics.corrected import ScoreRange, correct_mean, estimate_mean
from autorubric.metrics.intervals import bounded_interval
from benchmarks.corrected_coverage import JUDGES, RARE, simulate_score
from tests.offenders import each
from tests.oracles import OLS, add_constant, proportion_confint, stats

LABELS = np.array([0.2, 0.5, 0.6, 0.9, 0.4])
JUDGED = np.array([0.3, 0.5, 0.8, 1.0, 0.4])
REST = np.array([0.3, 0.6, 0.9, 1.0, 0.2, 0.5, 0.7, 0.8, 0.1, 0.9])


def test_the_corrected_means_are_those_of_the_papers() -> None:
    found = correct_mean(LABELS, JUDGED, REST)
    # PPI++: λ = Cov(Y, f) / ((1 + 5/10) Var(f)), both over the labelled items.
    weight = np.cov(LABELS, JUDGED)[0, 1] / (1.5 * JUDGED.var(ddof=1))
    assert found.ppi.value == pytest.approx(0.52 + weight * (0.6 - 0.6))
    assert found.raw.value == pytest.approx(9.0 / 15)
    assert found.labels_only.value == pytest.approx(0.52)


def test_wilsons_interval_for_a_mean_is_that_of_a_proportion() -> None:
    low, high = proportion_confint(30, 100, method="wilson")
    found = bounded_interval(0.3, 0.3 * 0.7 / 100, (0.0, 1.0), 0.95)
    assert found[:2] == pytest.approx((low, high), rel=1e-9)


def test_a_scale_other_than_the_unit_only_stretches_the_interval() -> None:
    unit = correct_mean(LABELS, JUDGED, REST, ScoreRange(0, 1, 0.3)).ppi
    wide = correct_mean(LABELS * 50 - 10, JUDGED * 50 - 10, REST * 50 - 10, ScoreRange(-10, 40, 15)).ppi
    assert unit.interval is not None and unit.value is not None
    assert wide.value == pytest.approx(unit.value * 50 - 10)
    assert wide.interval is not None
    assert wide.interval[:2] == pytest.approx((unit.interval.low * 50 - 10, unit.interval.high * 50 - 10))


def test_a_perfect_judge_on_few_labels_is_not_taken_for_certain() -> None:
    judged = np.linspace(0, 1, 500)
    labelled = judged[::20]
    found = correct_mean(labelled, labelled, judged, ScoreRange(one_error=0.3)).ppi
    exact = correct_mean(labelled, labelled, judged, ScoreRange(one_error=0.0)).ppi
    assert found.interval is not None and exact.interval is not None
    assert found.interval.width > exact.interval.width


def test_the_interval_of_ppi_is_wilsons_of_the_variance_of_the_regression() -> None:
    found = correct_mean(LABELS, JUDGED, REST, ScoreRange(one_error=0.3)).ppi.interval
    fitted = OLS(LABELS, add_constant(JUDGED)).fit()
    # HC2 scales squared residuals by 1 / (1 - leverage); one pseudo-label errs by 0.3.
    squares = (fitted.resid**2 / (1 - fitted.get_influence().hat_matrix_diag)).sum() + 0.09
    variance = squares / 30 + fitted.params[1] ** 2 * np.concatenate([JUDGED, REST]).var(ddof=1) / 15
    trials = 0.52 * 0.48 / variance
    assert found is not None
    assert found[:2] == pytest.approx(proportion_confint(0.52 * trials, trials, method="wilson"))


def test_the_interval_of_a_plain_mean_has_a_quarter_of_a_score_at_either_end() -> None:
    found = estimate_mean([0.0, 0.0, 1.0]).interval
    # Mean (1 + 0.25) / 3.5 = 5/14; for verdicts the variance is that of 3.5 trials over 2.5.
    assert found is not None
    assert found[:2] == pytest.approx(proportion_confint(2.5 * 5 / 14, 2.5, method="wilson"))


def test_a_judge_that_never_varies_corrects_nothing() -> None:
    found = correct_mean(LABELS, np.full(5, 0.7), np.full(10, 0.7))
    assert found.ppi.value == pytest.approx(LABELS.mean())


def test_a_mean_of_nothing_is_none_and_says_why() -> None:
    assert estimate_mean([]).value is None
    assert estimate_mean([0.4]).reason == "1 score; an interval needs 2"
    assert correct_mean([0.1, 0.2], [0.1, 0.2], [0.3]).ppi.reason == "2 labels; a correction needs 3"
    assert correct_mean(LABELS, JUDGED, []).ppi.value is None


@each("judge", JUDGES)
def test_intervals_of_the_corrected_score_hold_the_truth_as_often_as_they_say(judge: str) -> None:
    """A rubric of five criteria with a pitfall of 5 %, 30 labels beside 300 verdicts, 700 repetitions."""
    found = simulate_score(JUDGES[judge], 30, 300, 700)
    for method in ("labels_only", "ppi"):
        # 95 % of 700 has a standard error of 0.8 %: three of them, and an interval that covers 90 % fails.
        assert 0.925 <= found[method].covered <= 0.975, method
    assert found["ppi"].width < found["labels_only"].width


@each("judge", JUDGES)
def test_intervals_of_a_score_hold_where_every_criterion_is_rare(judge: str) -> None:
    """All five criteria of 5 %, so that most labels score 0."""
    found = simulate_score(JUDGES[judge], 30, 300, 700, RARE)
    for method in ("labels_only", "ppi"):
        assert 0.925 <= found[method].covered <= 0.98, method
    assert found["ppi"].width < 0.15


def test_a_mean_of_mostly_perfect_scores_is_covered_where_students_t_is_too_narrow() -> None:
    rng, covered = np.random.default_rng(8), dict.fromkeys(("plain", "t"), 0)
    for _ in range(500):
        # Nineteen items in twenty score 1, the others anything: a mean of 0.975.
        scores = np.where(rng.random(30) < 0.95, 1.0, rng.random(30))
        found = estimate_mean(scores).interval
        covered["plain"] += found is not None and found.contains(0.975)
        reach = stats.t.ppf(0.975, 29) * stats.sem(scores)
        covered["t"] += abs(scores.mean() - 0.975) <= reach
    # 95 % of 500 has a standard error of 1.0 %. Equal scores have no spread, so that Student's t has width 0.
    assert covered["plain"] / 500 >= 0.93
    assert covered["t"] / 500 <= 0.85
