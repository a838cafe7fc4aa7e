import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from autorubric.metrics.corrected_mean import ScoreRange, bounded_interval, correct_mean, plain_mean
from benchmarks.corrected_coverage import JUDGES, RARE, simulate_score

LABELS = np.array([0.2, 0.5, 0.6, 0.9, 0.4])
JUDGED = np.array([0.3, 0.5, 0.8, 1.0, 0.4])
REST = np.array([0.3, 0.6, 0.9, 1.0, 0.2, 0.5, 0.7, 0.8, 0.1, 0.9])


def test_the_corrected_means_are_those_of_the_papers() -> None:
    found = correct_mean(LABELS, JUDGED, REST)
    # PPI: mean(f rest) + mean(Y - f) = 0.6 + (2.6 - 3.0) / 5.
    assert found.ppi.value == pytest.approx(0.52)
    # PPI++: λ = Cov(Y, f) / ((1 + 5/10) Var(f)), both over the labelled items.
    weight = np.cov(LABELS, JUDGED)[0, 1] / (1.5 * JUDGED.var(ddof=1))
    assert found.ppi_tuned.value == pytest.approx(0.52 + weight * (0.6 - 0.6))
    assert found.raw.value == pytest.approx(9.0 / 15)
    assert found.labels_only.value == pytest.approx(0.52)


def test_wilsons_interval_for_a_mean_is_that_of_a_proportion() -> None:
    low, high = proportion_confint(30, 100, method="wilson")
    found = bounded_interval(0.3, 0.3 * 0.7 / 100, math.inf, ScoreRange(), 0.95)
    assert found[:2] == pytest.approx((low, high), rel=1e-9)


def test_a_scale_other_than_the_unit_only_stretches_the_interval() -> None:
    unit = correct_mean(LABELS, JUDGED, REST, ScoreRange(0, 1, 0.3)).ppi_tuned
    wide = correct_mean(LABELS * 50 - 10, JUDGED * 50 - 10, REST * 50 - 10, ScoreRange(-10, 40, 15)).ppi_tuned
    assert unit.interval is not None and unit.value is not None
    assert wide.value == pytest.approx(unit.value * 50 - 10)
    assert wide.interval is not None
    assert wide.interval[:2] == pytest.approx((unit.interval.low * 50 - 10, unit.interval.high * 50 - 10))


def test_a_perfect_judge_on_few_labels_is_not_taken_for_certain() -> None:
    judged = np.linspace(0, 1, 500)
    labelled = judged[::20]
    found = correct_mean(labelled, labelled, judged, ScoreRange(one_error=0.3)).ppi_tuned
    exact = correct_mean(labelled, labelled, judged, ScoreRange(one_error=0.0)).ppi_tuned
    assert found.interval is not None and exact.interval is not None
    assert found.interval.width > exact.interval.width


def test_the_interval_of_ppi_is_students_about_the_shifted_mean() -> None:
    found = correct_mean(LABELS, JUDGED, REST, ScoreRange(one_error=0.3)).ppi.interval
    # Labels less verdicts: -0.1, 0, -0.2, -0.1, 0, squares about their mean -0.08: 0.028, by HC2 times 5/4: 0.035.
    # With half a pseudo-label of 0.3: (0.035 + 0.045) / (6 · 5); the rest varies by 0.9/9.
    reach = stats.t.ppf(0.975, 4) * math.sqrt(0.08 / 30 + 0.9 / 9 / 10)
    assert found is not None
    assert found[:2] == pytest.approx((0.52 - reach, 0.52 + reach))


def test_errors_that_put_the_mean_beyond_its_scale_leave_no_interval() -> None:
    # The labels say 0 where the judge says 1, and the judge says 0 of the rest: 0 + 0 - 1.
    found = correct_mean([0.0] * 30, [1.0] * 30, [0.0] * 100, ScoreRange(one_error=0.3)).ppi
    assert (found.value, found.interval) == (0.0, None)
    assert found.reason == "the judge's errors put the mean beyond its scale"


def test_a_judge_that_never_varies_corrects_nothing() -> None:
    found = correct_mean(LABELS, np.full(5, 0.7), np.full(10, 0.7))
    assert found.ppi_tuned.value == pytest.approx(LABELS.mean())


def test_a_mean_of_nothing_is_none_and_says_why() -> None:
    assert plain_mean([]).value is None
    assert plain_mean([0.4]).reason == "1 scores; an interval needs 2"
    assert correct_mean([0.1, 0.2], [0.1, 0.2], [0.3]).ppi.reason == "2 labels; a correction needs 3"
    assert correct_mean(LABELS, JUDGED, []).ppi_tuned.value is None


@pytest.mark.parametrize("judge", JUDGES)
def test_intervals_of_the_corrected_score_hold_the_truth_as_often_as_they_say(judge: str) -> None:
    """A rubric of five criteria with a pitfall of 5 %, 30 labels beside 300 verdicts, 2,000 repetitions."""
    found = simulate_score(JUDGES[judge], 30, 300, 2000)
    for method in ("labels_only", "ppi", "ppi_tuned"):
        assert 0.935 <= found[method].covered <= 0.975, method
    assert found["ppi_tuned"].width < found["labels_only"].width


@pytest.mark.parametrize("judge", JUDGES)
def test_intervals_of_a_score_hold_where_every_criterion_is_rare(judge: str) -> None:
    """All five criteria of 5 %: an interval of PPI that leaned from the end held in 91 %, and was 0.35 wide."""
    found = simulate_score(JUDGES[judge], 30, 300, 2000, RARE)
    for method in ("labels_only", "ppi", "ppi_tuned"):
        assert 0.93 <= found[method].covered <= 0.98, method
    assert found["ppi"].width < 0.15
