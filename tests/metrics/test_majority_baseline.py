"""The majority-class baseline of every accuracy, over the same pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, Rubric
from autorubric.metrics import MetricsResult, compute_metrics
from autorubric.metrics.agreement_sums import compute_majority_baseline
from autorubric.metrics.table import CannotAssessMode, Column, Points

Make = Callable[..., Any]

PLAIN = [{"label": "Plain", "value": 0.0}, {"label": "Rich", "value": 1.0}]
BRIEF = Criterion(name="Brief", requirement="Is brief", tags=["form"])
KIND = Criterion(name="Kind", requirement="Is kind")
STYLE = Criterion(
    name="Style", requirement="Which style is it?", options=PLAIN, scale_type="nominal", tags=["form", "style"]
)


def mixed(graded: Make) -> MetricsResult:
    made = graded([BRIEF, KIND, STYLE])
    rows = [
        ("MET", "UNMET", "Plain"),
        ("MET", "UNMET", "Plain"),
        ("MET", "UNMET", "Rich"),
        ("UNMET", "CANNOT_ASSESS", "Plain"),
    ]
    for place, row in enumerate(rows):
        said = ["MET", "MET", "Plain"]
        second = ["CANNOT_ASSESS" if place < 2 else "MET", "UNMET", "Rich"]
        made.add(list(row), {"a": said, "b": second, "c": said})
    found: MetricsResult = compute_metrics(made.run, made.dataset, per_judge=True)
    return found


def test_the_whole_is_guessed_criterion_by_criterion_over_all_its_pairs(graded: Make) -> None:
    found = mixed(graded)
    # Brief: MET, 3 of 4; Kind: UNMET, 3 of 3; Style: Plain, 3 of 4.
    assert (found.n_samples, found.majority_baseline) == pytest.approx((11, 9 / 11))
    assert [figures.majority_baseline for figures in found.per_criterion] == [0.75, 1.0, 0.75]


def test_a_judge_and_a_tag_are_guessed_over_their_own_pairs(graded: Make) -> None:
    found = mixed(graded)
    assert found.per_judge is not None
    # b says nothing of the first two: of the labels left on "Brief", MET and UNMET, guessing gets one.
    assert (found.per_judge["b"].n_pairs, found.per_judge["b"].majority_baseline) == pytest.approx((9, 7 / 9))
    assert found.per_judge["a"].majority_baseline == pytest.approx(9 / 11)
    assert [(tag.tag, tag.n_samples, tag.majority_baseline) for tag in found.per_tag] == [
        ("form", 8, 0.75),
        ("style", 4, 0.75),
    ]


def test_options_alone_have_a_majority_baseline(graded: Make) -> None:
    made = graded([STYLE]).add(["Plain"], ["Plain"]).add(["Rich"], ["Rich"]).add(["Rich"], ["Plain"])
    found = compute_metrics(made.run, made.dataset)
    assert found.majority_baseline == pytest.approx(2 / 3)
    assert "accuracy        0.667 [0.208, 0.939]; majority-class baseline 0.667" in str(found)


def test_an_abstention_that_is_a_category_may_be_the_commonest(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    made.add(["CANNOT_ASSESS"], ["MET"]).add(["CANNOT_ASSESS"], ["CANNOT_ASSESS"])
    expected: dict[CannotAssessMode, float] = {"exclude": 1.0, "as_unmet": 2 / 3, "as_category": 2 / 3}
    for mode, share in expected.items():
        found = compute_metrics(made.run, made.dataset, cannot_assess=mode)
        assert found.majority_baseline == pytest.approx(share)


def own(number: int, options: Any = None, kind: Any = "nominal") -> Criterion:
    return Criterion(requirement=f"Own {number}", options=options, scale_type=kind, tags=["form"])


def test_pooled_criteria_of_the_same_categories_have_one_guess(graded: Make) -> None:
    made = graded([], shared=False)
    three = [{"label": name, "value": value} for name, value in (("Low", 0.0), ("Mid", 0.5), ("High", 1.0))]
    rows = [("MET", None), ("UNMET", None), ("MET", None), ("Plain", PLAIN), ("Rich", PLAIN), ("Low", three)]
    for number, (label, options) in enumerate(rows):
        made.add([label], {judge: [label] for judge in "abc"}, Rubric([own(number, options)]))
    found = compute_metrics(made.run, made.dataset, per_judge=True)
    assert found.pooled_by_scale is not None and found.per_judge is not None
    # MET 2 of 3; Plain or Rich 1 of 2 and Low 1 of 1.
    assert [scale.majority_baseline for scale in found.pooled_by_scale] == pytest.approx([2 / 3, 2 / 3])
    assert (found.majority_baseline, found.per_judge["a"].majority_baseline) == pytest.approx((4 / 6, 4 / 6))
    assert found.per_tag[0].majority_baseline == pytest.approx(4 / 6)
    none = np.empty(0, np.int64)
    assert (
        compute_majority_baseline([Column.from_criterion(own(0), 0)], Points(none, none, none, none, none[None]))
        is None
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcd")), min_size=1))
def test_the_guess_is_the_best_constant_word_of_each_criterion(pairs: list[tuple[int, str]]) -> None:
    options = [{"label": label, "value": value / 3} for value, label in enumerate("abcd")]
    columns = [Column.from_criterion(own(number, options), number) for number in range(3)]
    column = np.array([place for place, _ in pairs])
    truth = np.array(["abcd".index(label) for _, label in pairs])
    hits = sum(max(sum(pair == (place, label) for pair in pairs) for label in "abcd") for place in range(3))
    points = Points(column, column, truth, truth, truth[None])
    assert compute_majority_baseline(columns, points) == pytest.approx(hits / len(pairs))
    alike = max(sum(label == other for _, label in pairs) for other in "abcd")
    assert compute_majority_baseline(columns, points, pooled=True) == pytest.approx(alike / len(pairs))


def test_every_accuracy_of_the_summary_stands_beside_its_guess(graded: Make) -> None:
    lines = mixed(graded).summary(verbose=True).splitlines()
    assert [line for line in lines if "accuracy" in line and "baseline" not in line] == [
        line for line in lines if "balanced accuracy" in line or "panel without" in line
    ]
    assert any("Style" in line and "(baseline 0.750)" in line for line in lines)
    assert any("judge b" in line and "(baseline 0.778)" in line for line in lines)
