"""What a comparison of two judges rests on: one rule of scores, and the pairs that both decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autorubric import Criterion
from autorubric.core.judgment import CannotAssessConfig
from autorubric.metrics.compare import JudgeComparison, compare_judges

Make = Callable[..., Any]

BRIEF = Criterion(name="Brief", weight=30, requirement="Is brief")
KIND = Criterion(name="Kind", weight=10, requirement="Is kind")
STYLE = Criterion(
    name="Style",
    requirement="Which style is it?",
    options=[{"label": "Plain", "value": 0.0}, {"label": "Rich", "value": 1.0}],
    scale_type="nominal",
)
ROWS = [
    (["MET", "MET"], ["MET", "MET"]),
    (["UNMET", "MET"], ["UNMET", "UNMET"]),
    (["MET", "UNMET"], ["MET", "UNMET"]),
    (["UNMET", "UNMET"], ["UNMET", "UNMET"]),
]


def graded_by(graded: Make, normalize: bool = True, strategy: str = "skip", rows: Any = ROWS) -> Any:
    made = graded([BRIEF, KIND], normalize, CannotAssessConfig(strategy=strategy))
    for labels, said in rows:
        made.add(labels, said)
    return made


def recorded(made: Any, **settings: Any) -> Any:
    run = made.run
    run.grader_config = {
        "normalize": made.normalize,
        "cannot_assess": made.abstentions.model_dump(),
        **settings,
    }
    return run


def test_scores_of_two_rules_are_not_compared(graded: Make) -> None:
    sums, shares = graded_by(graded, normalize=False), graded_by(graded)
    found = compare_judges(recorded(sums), recorded(shares), sums.dataset, n_replicates=20, seed=1)
    for figure in (found.score_error, found.score_bias):
        assert (figure.a, figure.b, figure.difference, figure.ci, figure.p_value, figure.n) == (None,) * 5 + (0,)
    assert found.warnings == [
        "scores are not compared, because the runs use different scoring rules: a: skip, bare sums; "
        "b: skip, normalized"
    ]
    assert (found.accuracy.a, found.accuracy.difference) == (7 / 8, 0.0)
    assert "score error    a –, b –" in found.summary()


def test_bare_sums_of_one_rule_are_compared(graded: Make) -> None:
    a, b = graded_by(graded, normalize=False), graded_by(graded, False, rows=[(label, label) for label, _ in ROWS])
    found = compare_judges(recorded(a), recorded(b), a.dataset, n_replicates=20, seed=1)
    # One of four scores of a misses 10 points.
    assert (found.score_error.a, found.score_error.b, found.score_bias.a) == (2.5, 0.0, -2.5)
    assert found.warnings == []


def test_what_partial_credit_is_belongs_to_the_rule(graded: Make) -> None:
    runs = []
    for credit in (0.25, 0.75):
        made = graded([BRIEF, KIND], True, CannotAssessConfig(strategy="partial", partial_credit=credit))
        for labels, said in ROWS:
            made.add(labels, said)
        runs.append(recorded(made))
    found = compare_judges(runs[0], runs[1], graded_by(graded).dataset, n_replicates=20, seed=1)
    assert "a: partial 0.25, normalized; b: partial 0.75, normalized" in found.warnings[0]


def test_a_run_without_a_record_takes_the_rule_of_the_other_where_it_fits(graded: Make) -> None:
    # Without abstentions every strategy makes the same scores, so a may have been graded as b was.
    unsure = [*ROWS, (["MET", "MET"], ["MET", "CANNOT_ASSESS"])]
    a, b = graded_by(graded, rows=[*ROWS, ROWS[0]]), graded_by(graded, strategy="zero", rows=unsure)
    for second in (recorded(b), b.run):
        found = compare_judges(a.run, second, a.dataset, n_replicates=20, seed=1)
        # Scores 1, 0, 3/4, 0, 1 to labels 1, 1/4, 3/4, 0, 1; the abstention of b costs it a quarter of the last.
        assert (found.score_error.a, found.score_error.b) == pytest.approx((0.05, 0.1))
    with_sums = graded_by(graded, normalize=False, rows=[*ROWS, ROWS[0]])
    found = compare_judges(with_sums.run, b.run, a.dataset, n_replicates=20, seed=1)
    assert found.score_error.a is None and "b: zero, normalized" in found.warnings[-1]


def test_the_notes_on_scores_say_whose_they_are(graded: Make) -> None:
    made = graded_by(graded)
    penalized, strange = recorded(made, length_penalty={"points": 0.1}), recorded(made)
    penalized.item_results[0].report = penalized.item_results[0].report.model_copy(update={"score": 0.9})
    for place in (0, 2):
        report = strange.item_results[place].report
        strange.item_results[place].report = report.model_copy(update={"score": 0.5})
    found = compare_judges(penalized, strange, made.dataset, n_replicates=20, seed=1)
    assert found.warnings == [
        "run a: 1 score has a length penalty; the true scores were lowered equally",
        "run a: 1 of the scores are 0, so their true scores may have a smaller length penalty",
        "run b: no known scoring rule gives 2 scores from the verdicts",
    ]


def compared_kinds(graded: Make, missed: int = 0) -> JudgeComparison:
    a, b = graded([BRIEF, STYLE]), graded([BRIEF, STYLE])
    for number in range(12):
        labels = [("MET", "UNMET")[number % 2], ("Plain", "Rich")[number // 2 % 2]]
        a.add(labels, ["MET", labels[1]] if number == 1 else labels)
        b.add(labels, ["failed" if number < missed else labels[0], labels[1]])
    b.said[3] = [b.said[3][0], "failed"] if missed else b.said[3]
    a.said[5] = ["CANNOT_ASSESS", a.said[5][1]] if missed else a.said[5]
    return compare_judges(a.run, b.run, a.dataset, n_replicates=20, seed=1)


def test_a_kappa_says_how_many_pairs_it_rests_on(graded: Make) -> None:
    found = compared_kinds(graded)
    # Twelve items, each with a binary criterion and one of options.
    assert (found.accuracy.n, found.micro_kappa.n, found.mean_kappa.n) == (24, 12, 24)


def test_a_mean_kappa_counts_the_pairs_of_its_criteria(graded: Make) -> None:
    a, b = graded([BRIEF, KIND]), graded([BRIEF, KIND])
    for number in range(6):
        label = ("MET", "UNMET")[number % 2]
        a.add(["MET", label], ["MET", label])
        b.add(["MET", label], ["MET", "MET"])
    found = compare_judges(a.run, b.run, a.dataset, n_replicates=20, seed=1)
    # All is MET on "Brief", so that its κ is undefined and the mean is that of "Kind".
    assert (found.mean_kappa.a, found.mean_kappa.b, found.mean_kappa.n, found.micro_kappa.n) == (1.0, 0.0, 6, 12)


def test_pairs_that_one_judge_did_not_decide_are_counted_out_loud(graded: Make) -> None:
    found = compared_kinds(graded, missed=2)
    # b failed on two binary pairs and one of options, a abstained on another pair.
    assert found.accuracy.n == 20
    assert found.warnings[-1] == (
        "4 of 24 labelled pairs are left out: run a has no verdict on 1 of them, run b on 3"
    )
    assert compared_kinds(graded).warnings == []


def test_a_criterion_that_a_rubric_has_twice_is_compared_as_two(graded: Make) -> None:
    same = Criterion(requirement="Is brief")
    a, b = graded([same, same]), graded([same, same])
    for label in ("MET", "UNMET"):
        a.add([label, "MET"], [label, "MET"])
        b.add([label, "MET"], [label, "UNMET"])
    found = compare_judges(a.run, b.run, a.dataset, n_replicates=20, seed=1)
    # b is right on the first of the two and wrong on the second.
    assert (found.accuracy.a, found.accuracy.b, found.accuracy.n) == (1.0, 0.5, 4)
    assert [one.b for one in found.per_criterion] == [1.0, 0.0]
