from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset
from autorubric.core.report import CriterionReport, EvaluationReport, Report
from autorubric.errors import InputError
from autorubric.metrics.example_run import example_run
from autorubric.metrics.label_choice import (
    CellLabel,
    apply_labels,
    choose_pairs,
    compute_inclusion_probabilities,
    correct_sums,
    draw_systematically,
    label_next,
    rate_doubt,
    read_pairs,
    sampled_score,
    score_from_labels,
)
from benchmarks.label_choice import EQUAL, JUDGES, Setting, measure
from tests.offenders import each


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.integers(1, 40))
def test_probabilities_sum_to_the_labels_asked_for_and_none_is_zero(sizes: list[float], k: int) -> None:
    chances = compute_inclusion_probabilities(sizes, k)
    assert chances.sum() == pytest.approx(min(k, len(sizes)))
    assert chances.min() > 0 and chances.max() <= 1


def test_larger_pairs_are_drawn_in_proportion_to_their_size() -> None:
    # A tenth is shared evenly: 0.9·(1, 3)/4 + 0.1/2.
    assert compute_inclusion_probabilities([1.0, 3.0], 1) == pytest.approx([0.275, 0.725])


def test_a_systematic_draw_takes_each_pair_with_its_probability() -> None:
    chances = np.array([0.1, 0.9, 0.5, 0.25, 0.25, 1.0])
    rng, rounds = np.random.default_rng(4), 20_000
    counts = np.zeros(6)
    for _ in range(rounds):
        drawn = draw_systematically(chances, rng)
        assert len(drawn) == 3
        counts[drawn] += 1
    # The standard error of a share of 20,000 is at most 0.0035.
    assert counts / rounds == pytest.approx(chances, abs=0.012)


def test_a_run_says_itself_what_its_labels_are_asked_for() -> None:
    dataset, reports = example_run()
    results = [
        SimpleNamespace(item_idx=n, item=item, report=report)
        for n, (item, report) in enumerate(zip(dataset, reports, strict=True))
    ]
    run = cast("Any", SimpleNamespace(item_results=results))
    assert label_next(run, 4, seed=1) == label_next(reports, 4, dataset, seed=1)
    with pytest.raises(InputError, match="do not identify their items; pass the dataset"):
        label_next(reports, 4)


def test_labelled_pairs_are_not_asked_for_again() -> None:
    dataset, reports = example_run()
    first = label_next(reports, 4, dataset, seed=1)
    labels = [CellLabel(r.item, r.criterion, "MET", r.probability) for r in first]
    second = label_next(reports, 9, dataset, labels=labels, seed=2)
    # Items 4 and 5 have no ground truth: six pairs, four of them labelled now.
    assert {(r.item, r.criterion) for r in [*first, *second]} == {(i, c) for i in (4, 5) for c in range(3)}
    assert [r.probability for r in second] == [1.0, 1.0]
    everything = [*labels, *(CellLabel(r.item, r.criterion, "MET", 1.0, batch=1) for r in second)]
    with pytest.raises(InputError, match="nothing is left to label"):
        label_next(reports, 1, dataset, labels=everything)


def test_with_every_label_the_score_is_the_mean_of_the_truth() -> None:
    dataset, reports = example_run()
    labels = [CellLabel(item, c, "UNMET", 1.0) for item in (4, 5) for c in range(3)]
    # Points over 40 (30 + 10), not clamped: (40 + 40 + 0 - 10 + 0 + 0) / 40 / 6.
    assert sampled_score(reports, dataset, labels).value == pytest.approx(70 / 240)


def test_the_sampled_score_is_unbiased_over_draws_and_batches() -> None:
    dataset, reports = example_run()
    truth = {(4, 0): "UNMET", (4, 1): "MET", (4, 2): "UNMET", (5, 0): "MET", (5, 1): "MET", (5, 2): "UNMET"}
    pairs, figures = read_pairs(reports, dataset), []
    for seed in range(800):
        labels: list[CellLabel] = []
        for batch in (0, 1):
            asked = choose_pairs(pairs, 2, labels, 2 * seed + batch)
            labels += [
                CellLabel(r.item, r.criterion, truth[r.item, r.criterion], r.probability, batch) for r in asked
            ]
        value = score_from_labels(pairs, labels, 0.95).value
        assert value is not None
        figures.append(value)
    # (40 + 40 + 0 - 10 + 10 + 40) / 40 / 6, if no figure was clamped.
    assert min(figures) > 0.0 and max(figures) < 1.0
    assert np.mean(figures) == pytest.approx(120 / 240, abs=4 * np.std(figures) / len(figures) ** 0.5)


def test_doubt_follows_what_labels_show_of_each_criterion() -> None:
    dataset, reports = example_run()
    pairs = read_pairs(reports, dataset)
    found = rate_doubt(pairs, pairs.truth).reshape(6, 3)
    # Style, judged MET on items 1 and 2 with labels MET, UNMET: (1 + 1) / (0.25·2 + 1) · 0.25 = 1/3.
    assert found[4, 1] == pytest.approx(1 / 3)
    # Errors, judged UNMET on items 0 to 2, all right: 1 / (0.25·3 + 1) · 0.25 = 1/7.
    assert found[4, 2] == pytest.approx(1 / 7)


def run_with_rubrics_of_its_own() -> tuple[RubricDataset, list[Report | None]]:
    """Three items of 2, 3 and 1 criteria, the last a pitfall alone; nothing is labelled."""
    dataset, reports = RubricDataset(), cast("list[Report | None]", [])
    for number, (weights, said) in enumerate((((3, 1), "10"), ((2, 2, -1), "111"), ((-5,), "0"))):
        rubric = Rubric([Criterion(weight=w, requirement=f"r{number}.{n}") for n, w in enumerate(weights)])
        dataset.add_item(f"Answer {number}", f"answer {number}", prompt=f"Question {number}", rubric=rubric)
        words = ["MET" if x == "1" else "UNMET" for x in said]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=CriterionVerdict(word), reason=None)
            for criterion, word in zip(rubric, words, strict=True)
        ]
        reports.append(EvaluationReport(score=0.5, report=entries))
    return dataset, reports


def test_items_with_rubrics_of_their_own_are_asked_for_by_their_own_criteria() -> None:
    dataset, reports = run_with_rubrics_of_its_own()
    asked = label_next(reports, 6, dataset)
    assert [(r.item, r.criterion, r.name) for r in asked] == [
        *((0, 0, "C1"), (0, 1, "C2")),
        *((1, 0, "C1"), (1, 1, "C2"), (1, 2, "C3")),
        (2, 0, "C1"),
    ]
    with pytest.raises(InputError, match="item 2, criterion 1: the run has no such pair"):
        label_next(reports, 1, dataset, labels=[CellLabel(2, 1, "MET", 1.0)])
    # All of the score of item 2, a quarter of item 0's: drawn so often for the same doubt.
    drawn = [request for seed in range(60) for request in label_next(reports, 1, dataset, seed=seed)]
    chances = {(request.item, request.criterion): request.probability for request in drawn}
    assert chances[2, 0] > 3 * chances[0, 1]


def test_the_sampled_score_of_rubrics_of_their_own_is_unbiased() -> None:
    dataset, reports = run_with_rubrics_of_its_own()
    truth = {(0, 0): "UNMET", (0, 1): "MET", (1, 0): "MET", (1, 1): "UNMET", (1, 2): "MET", (2, 0): "UNMET"}
    everything = [CellLabel(item, place, word, 1.0) for (item, place), word in truth.items()]
    # 1/4 of item 0; (2 - 1)/4 of item 1; item 2 falls into no pitfall and has it all.
    assert sampled_score(reports, dataset, everything).value == pytest.approx((0.25 + 0.25 + 1.0) / 3)
    pairs, figures = read_pairs(reports, dataset), []
    for seed in range(800):
        asked = choose_pairs(pairs, 5, (), seed)
        labels = [CellLabel(r.item, r.criterion, truth[r.item, r.criterion], r.probability) for r in asked]
        figures.append(score_from_labels(pairs, labels, 0.95).value or 0.0)
    assert min(figures) > 0.0 and max(figures) < 1.0
    assert np.mean(figures) == pytest.approx(0.5, abs=4 * np.std(figures) / len(figures) ** 0.5)


def test_labels_of_rubrics_of_their_own_tell_of_criteria_and_of_pitfalls_apart() -> None:
    dataset, reports = run_with_rubrics_of_its_own()
    pairs = read_pairs(reports, dataset)
    truth = apply_labels(pairs, [CellLabel(0, 0, "UNMET", 1.0), CellLabel(1, 2, "MET", 1.0)])
    found = rate_doubt(pairs, truth)
    # Judged MET: of criteria one label, an error, (1 + 1)/(0.25 + 1)·0.25; of pitfalls one, right, 1/1.25·0.25.
    assert found[[0, 2, 3, 4]] == pytest.approx([0.4, 0.4, 0.4, 0.2])
    # Judged UNMET: no labels.
    assert found[[1, 5]] == pytest.approx([0.25, 0.25])


def test_items_without_a_score_and_criteria_without_a_verdict_are_left_out() -> None:
    rubric = Rubric([Criterion(weight=2, requirement="a"), Criterion(weight=1, requirement="b")])
    dataset, reports = RubricDataset("Explain.", rubric), cast("list[Report | None]", [])
    for number, (first, second, score) in enumerate(
        (("MET", "CANNOT_ASSESS", 1.0), (None, "MET", None), *[("MET", "MET", 1.0)])
    ):
        dataset.add_item(f"Text {number}", "")
        entries = [
            CriterionReport(
                **criterion.model_dump(), verdict=word, reason=None, error=None if word else "timeout: slow"
            )
            for criterion, word in zip(rubric, (first, second), strict=True)
        ]
        reports.append(EvaluationReport(score=score, report=entries))
    pairs = read_pairs(reports, dataset)
    # An abstention is left out, so that the other criterion is all of the score; a failed judgment has no score.
    assert pairs.items == (0, 2)
    assert pairs.shares == pytest.approx([1.0, 0.0, 2 / 3, 1 / 3])
    assert pairs.sums.tolist() == [1.0, 1.0]
    labels = [CellLabel(0, 0, "MET", 1.0), CellLabel(2, 0, "UNMET", 1.0), CellLabel(2, 1, "MET", 1.0)]
    assert sampled_score(reports, dataset, iter(labels)).value == pytest.approx((1.0 + 1 / 3) / 2)
    zeros = cast(
        "Any",
        SimpleNamespace(item_results=[], grader_config={"normalize": True, "cannot_assess": {"strategy": "zero"}}),
    )
    zeros.item_results = [
        SimpleNamespace(item_idx=n, item=dataset[n], report=report) for n, report in enumerate(reports)
    ]
    counted = read_pairs(zeros, dataset)
    assert counted.shares == pytest.approx([2 / 3, 1 / 3, 2 / 3, 1 / 3])
    assert counted.sums.tolist() == pytest.approx([2 / 3, 1.0])


def test_a_mean_before_clamping_may_lie_below_0() -> None:
    rubric = Rubric([Criterion(weight=2, requirement="a"), Criterion(weight=-6, requirement="b")])
    dataset, reports = RubricDataset("Explain.", rubric), cast("list[Report | None]", [])
    for number in range(4):
        dataset.add_item(f"Text {number}", "")
        entries = [CriterionReport(**c.model_dump(), verdict="MET", reason=None) for c in rubric]
        reports.append(EvaluationReport(score=0.0, report=entries))
    pairs = read_pairs(reports, dataset)
    assert (pairs.clamped, pairs.range) == (4, (-3.0, 1.0))
    labels = [CellLabel(item, 0, "MET", 1.0) for item in range(4)]
    found = sampled_score(reports, dataset, labels)
    assert found.value == -2.0
    assert found.interval is not None and found.interval.contains(-2.0)


@each(("k", "seed"), [(2.5, 0), ("3", 0), (True, 0), (float("nan"), 0), (1, -1), (1, 0.5)])
def test_numbers_that_are_none_are_refused(k: Any, seed: Any) -> None:
    dataset, reports = example_run()
    with pytest.raises(InputError, match=r"expected a whole number"):
        label_next(reports, k, dataset, seed=seed)


def test_labels_that_fit_no_pair_are_named() -> None:
    dataset, reports = example_run()
    pairs = read_pairs(reports, dataset)
    labels = [
        CellLabel(9, 0, "MET", 0.5),
        CellLabel(4, 0, "PARTLY", 0.5),
        CellLabel(4, 1, "MET", 0.0),
        CellLabel(0, 1, "MET", 0.5),
    ]
    with pytest.raises(InputError) as caught:
        apply_labels(pairs, labels)
    assert len(caught.value.problems) == 4
    assert caught.value.problems[-1].endswith("the item has ground truth; expected labels of items without it")
    with pytest.raises(InputError, match="k=0"):
        label_next(reports, 0, dataset)
    with pytest.raises(InputError, match="no labels yet"):
        sampled_score(reports, dataset, [])


@each(
    ("setting", "most"),
    [(Setting(1), 0.95), (Setting(3, EQUAL), 0.95), (Setting(1, EQUAL, errors=JUDGES["easy"]), 1.07)],
)
def test_chosen_labels_give_intervals_hardly_wider_than_whole_random_items(setting: Setting, most: float) -> None:
    chosen, whole = measure(setting, 300, 25)
    assert chosen.width <= most * whole.width
    # 25 repetitions: 95 % less three standard errors of 4.4 %.
    assert chosen.covered >= 80.0


def test_the_mean_error_that_labels_show_is_taken_off_all_pairs_of_the_group() -> None:
    dataset, reports = example_run()
    pairs = read_pairs(reports, dataset)
    places = np.flatnonzero(~np.isnan(pairs.values) & ~pairs.labelled)
    errors = np.where(np.isnan(pairs.values), 0.0, 1.0 - 2.0 * np.nan_to_num(pairs.values))
    # With one label, of weight 2: half of its error is expected on each other pair of the group, nothing on its own.
    one = places[0]
    alone = np.zeros(len(pairs))
    alone[one] = 2.0
    group = (pairs.kinds == pairs.kinds[one]) & ((pairs.values >= 0.5) == (pairs.values[one] >= 0.5))
    mean = 0.5 * errors[one]
    added = np.where(group & (alone == 0.0), pairs.shares * mean, 0.0) + alone * pairs.shares * errors
    assert correct_sums(pairs, errors, alone) == pytest.approx(pairs.sums + pairs.sum_by_item(added))
