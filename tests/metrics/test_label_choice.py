from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.errors import InputError
from autorubric.metrics.judged_table import example_run, judged_table
from autorubric.metrics.label_choice import (
    CellLabel,
    doubt,
    inclusion_probabilities,
    label_next,
    sampled_score,
    systematic_draw,
    with_labels,
)
from benchmarks.label_choice import coverage, labels_needed


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.integers(1, 40))
def test_probabilities_sum_to_the_labels_asked_for_and_none_is_zero(sizes: list[float], k: int) -> None:
    chances = inclusion_probabilities(sizes, k)
    assert chances.sum() == pytest.approx(min(k, len(sizes)))
    assert chances.min() > 0 and chances.max() <= 1


def test_larger_pairs_are_drawn_in_proportion_to_their_size() -> None:
    # A tenth is shared evenly: 0.9·(1, 3)/4 + 0.1/2.
    assert inclusion_probabilities([1.0, 3.0], 1) == pytest.approx([0.275, 0.725])


def test_a_systematic_draw_takes_each_pair_with_its_probability() -> None:
    chances = np.array([0.1, 0.9, 0.5, 0.25, 0.25, 1.0])
    rng, rounds = np.random.default_rng(4), 20_000
    counts = np.zeros(6)
    for _ in range(rounds):
        drawn = systematic_draw(chances, rng)
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
    with pytest.raises(InputError, match="do not say what items they are about; give the dataset"):
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
    with pytest.raises(InputError, match="nothing left to ask for"):
        label_next(reports, 1, dataset, labels=everything)


def test_with_every_label_the_score_is_the_mean_of_the_truth() -> None:
    dataset, reports = example_run()
    labels = [CellLabel(item, c, "UNMET", 1.0) for item in (4, 5) for c in range(3)]
    # Points over 40 (30 + 10), not clamped: (40 + 40 + 0 - 10 + 0 + 0) / 40 / 6.
    assert sampled_score(reports, dataset, labels).value == pytest.approx(70 / 240)


def test_the_sampled_score_is_unbiased_over_draws_and_batches() -> None:
    dataset, reports = example_run()
    truth = {(4, 0): "UNMET", (4, 1): "MET", (4, 2): "UNMET", (5, 0): "MET", (5, 1): "MET", (5, 2): "UNMET"}
    figures = []
    for seed in range(1500):
        labels: list[CellLabel] = []
        for batch in (0, 1):
            asked = label_next(reports, 2, dataset, labels=labels, seed=2 * seed + batch)
            labels += [
                CellLabel(r.item, r.criterion, truth[r.item, r.criterion], r.probability, batch) for r in asked
            ]
        value = sampled_score(reports, dataset, labels).value
        assert value is not None
        figures.append(value)
    # (40 + 40 + 0 - 10 + 10 + 40) / 40 / 6, if no figure was clamped.
    assert min(figures) > 0.0 and max(figures) < 1.0
    assert np.mean(figures) == pytest.approx(120 / 240, abs=4 * np.std(figures) / len(figures) ** 0.5)


def test_doubt_follows_what_labels_show_of_each_criterion() -> None:
    dataset, reports = example_run()
    table = judged_table(reports, dataset)
    found = doubt(table, table.truth)
    # Style, judged MET on items 1 and 2 with labels MET, UNMET: (1 + 1) / (0.25·2 + 1) · 0.25 = 1/3.
    assert found[4, 1] == pytest.approx(1 / 3)
    # Errors, judged UNMET on items 0 to 2, all right: 1 / (0.25·3 + 1) · 0.25 = 1/7.
    assert found[4, 2] == pytest.approx(1 / 7)


def test_labels_that_fit_no_pair_are_named() -> None:
    dataset, reports = example_run()
    table = judged_table(reports, dataset)
    labels = [
        CellLabel(9, 0, "MET", 0.5),
        CellLabel(4, 0, "PARTLY", 0.5),
        CellLabel(4, 1, "MET", 0.0),
    ]
    with pytest.raises(InputError) as caught:
        with_labels(table, labels)
    assert len(caught.value.problems) == 3
    with pytest.raises(InputError, match="k=0"):
        label_next(reports, 0, dataset)
    with pytest.raises(InputError, match="there are no labels"):
        sampled_score(reports, dataset, [])


@pytest.mark.parametrize("judges", (1, 3))
def test_chosen_labels_reach_a_width_with_seven_tenths_of_what_an_even_draw_needs(judges: int) -> None:
    assert labels_needed(judges) <= 0.7


def test_intervals_of_chosen_labels_hold_the_truth() -> None:
    assert coverage(3, 150, 600, chosen=True) >= 0.935
