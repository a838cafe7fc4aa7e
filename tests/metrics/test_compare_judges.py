"""Two judges against the same labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, InputError, Rubric
from autorubric.metrics.agreement_sums import SUMMED, Layout
from autorubric.metrics.compare import Difference, compare_judges, describe_winner
from autorubric.metrics.statistic_results import ConfidenceInterval
from tests.oracles import stats

CRITERIA = [Criterion(name="Brief", requirement="Is brief"), Criterion(name="Kind", requirement="Is kind")]
WORDS = np.array(["MET", "UNMET"])


def run(graded: Callable[..., Any], error: float, seed: int, n: int = 80) -> Any:
    """A judge that errs with this probability, on the same items whatever the seed."""
    truth = np.random.default_rng(0).integers(0, 2, (n, 2))
    said = np.where(np.random.default_rng(seed).random((n, 2)) < error, 1 - truth, truth)
    made = graded(CRITERIA)
    for labels, words in zip(truth, said, strict=True):
        made.add(WORDS[labels].tolist(), WORDS[words].tolist())
    return made


def test_a_better_judge_is_found_out(graded: Callable[..., Any]) -> None:
    good, bad = run(graded, 0.05, 1), run(graded, 0.35, 2)
    found = compare_judges(good.run, bad.run, good.dataset, n_replicates=500, seed=1)
    assert found.accuracy.ci is not None
    assert found.accuracy.ci.lower > 0
    assert found.accuracy.p_value == pytest.approx(1 / 501)
    assert found.score_error.difference is not None and found.score_error.difference < 0
    assert "a agrees more with the labels." in found.summary()
    assert found.n_items == 80


def test_two_judges_alike_are_not_told_apart(graded: Callable[..., Any]) -> None:
    one, other = run(graded, 0.2, 1), run(graded, 0.2, 5)
    found = compare_judges(one.run, other.run, one.dataset, n_replicates=300, seed=1)
    assert found.accuracy.p_value is not None and found.accuracy.p_value > 0.05
    assert "is not significant" in found.summary()
    same = compare_judges(one.run, one.run, one.dataset, n_replicates=50, seed=1)
    assert (same.accuracy.difference, same.accuracy.p_value) == (0.0, 1.0)


def test_a_winner_is_named_at_the_level_of_the_interval() -> None:
    for confidence, p_value, found in ((0.95, 0.04, "a"), (0.95, 0.06, None), (0.99, 0.04, None), (0.9, 0.06, "a")):
        ends = ConfidenceInterval(lower=0.01, upper=0.2, confidence=confidence)
        gap = Difference(name="accuracy", a=0.9, b=0.8, difference=0.1, ci=ends, p_value=p_value)
        assert describe_winner(gap).startswith(f"{found} agrees more" if found else "On these items"), confidence


def test_the_p_value_of_the_accuracy_is_the_sign_flip_test_of_scipy(graded: Callable[..., Any]) -> None:
    one, other = run(graded, 0.1, 1, n=30), run(graded, 0.3, 2, n=30)
    found = compare_judges(one.run, other.run, one.dataset, n_replicates=4000, seed=1)

    def right(made: Any) -> np.ndarray[Any, Any]:
        return np.array([np.mean(np.array(a) == np.array(b)) for a, b in zip(made.labels, made.said, strict=True)])

    expected = stats.permutation_test(
        (right(one), right(other)),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        n_resamples=4000,
        random_state=0,
    )
    assert found.accuracy.p_value == pytest.approx(expected.pvalue, abs=0.03)


def test_criteria_have_the_p_value_of_holm(graded: Callable[..., Any]) -> None:
    one, other = run(graded, 0.1, 1), run(graded, 0.25, 2)
    found = compare_judges(one.run, other.run, one.dataset, n_replicates=200, seed=1)
    raw = [figure.p_value or 0 for figure in found.per_criterion]
    adjusted = [figure.p_holm for figure in found.per_criterion]
    assert adjusted == [pytest.approx(min(1, 2 * p) if p == min(raw) else max(p, 2 * min(raw))) for p in raw]


def test_the_mean_kappa_of_both_is_over_the_same_criteria(graded: Callable[..., Any]) -> None:
    clear, hard = (Criterion(name=name, requirement=name) for name in ("clear", "hard"))
    a, b = graded([clear, hard]), graded([clear, hard])
    for number in range(24):
        label, other = ("MET", "UNMET") if number % 2 else ("UNMET", "MET")
        # All labels on "clear" are MET: the κ of a, who always says so, is undefined, and that of b is 0.
        # On "hard" a misses a quarter and b none.
        a.add(["MET", label], ["MET", other if number % 4 == 0 else label])
        b.add(["MET", label], ["UNMET" if number % 5 == 0 else "MET", label])
    found = compare_judges(a.run, b.run, a.dataset, seed=1)
    hard_one = next(each for each in found.per_criterion if each.name == "hard")
    # 18 of 24 agree; labels 12 and 12, a says UNMET 6 times: p_e = 0.5, κ = (0.75 - 0.5) / 0.5.
    assert [hard_one.a, hard_one.b] == pytest.approx([0.5, 1.0])
    assert found.mean_kappa.model_dump(exclude={"name", "n", "p_holm"}) == hard_one.model_dump(
        exclude={"name", "n", "p_holm"}
    )


def test_only_what_both_judged_is_compared(graded: Callable[..., Any]) -> None:
    one, other = run(graded, 0.1, 1), run(graded, 0.1, 2)
    other.said[0] = ["failed", "MET"]
    found = compare_judges(one.run, other.run, one.dataset, n_replicates=50, seed=1)
    assert (found.accuracy.n, found.per_criterion[0].n, found.score_error.n) == (159, 79, 79)


def test_runs_without_an_item_in_common_are_refused(graded: Callable[..., Any]) -> None:
    one = run(graded, 0.1, 1, n=4)
    first, second = one.run, one.run
    first.item_results, second.item_results = first.item_results[:2], second.item_results[2:]
    with pytest.raises(InputError, match="no labelled criterion in common"):
        compare_judges(first, second, one.dataset)
    strange = one.run
    for result in strange.item_results:
        result.item = replace(result.item, submission=f"Another {result.item.submission}")
    with pytest.raises(InputError, match="run b: none of the 4 graded items is in the dataset"):
        compare_judges(first, strange, one.dataset)


def test_items_with_rubrics_of_their_own_are_compared_point_by_point(graded: Callable[..., Any]) -> None:
    made = []
    for wrong in (0, 5):
        one = graded([], shared=False)
        for n in range(10):
            rubric = Rubric([Criterion(name=f"A{n}", requirement=f"Has {n}"), CRITERIA[0]])
            one.add(["MET", "UNMET"], ["UNMET" if n < wrong else "MET", "UNMET"], rubric)
        made.append(one)
    found = compare_judges(made[0].run, made[1].run, made[0].dataset, n_replicates=200, seed=1)
    # Five of the second judge's twenty verdicts are wrong.
    assert (found.accuracy.a, found.accuracy.b, found.per_criterion) == (1.0, 0.75, [])
    assert (found.mean_kappa.a, found.mean_kappa.difference, found.mean_kappa.p_value) == (None, None, None)


def test_squares_that_are_zero_but_for_rounding_give_an_rmse_of_zero() -> None:
    layout = Layout((0, 4), (2,), (np.eye(2),), (True,))
    # One right pair, and a score whose squared error is what exchanging items back and forth leaves of 0.
    sums = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1e-17, 0.0, 0.0, 0.0])
    assert layout.summarize(sums)[SUMMED.index("rmse")] == 0.0
