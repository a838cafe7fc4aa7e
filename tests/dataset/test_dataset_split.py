from collections import Counter
from typing import Any

import pytest

from autorubric import Criterion, DataItem, Rubric, RubricDataset
from tests.offenders import each


def labelled(truths: list[list[Any]], **fields: Any) -> RubricDataset:
    rubric = Rubric([Criterion(requirement=f"r{n}") for n in range(len(truths[0]))])
    items = [DataItem(f"s{n}", "d", truth) for n, truth in enumerate(truths)]
    return RubricDataset("P", rubric, items, **fields)


def submissions(dataset: RubricDataset) -> list[str]:
    return [item.submission for item in dataset]


UNIQUE = labelled([["MET" if n >> bit & 1 else "UNMET" for bit in range(7)] for n in range(100)], name="n")


@pytest.mark.parametrize("stratify", [True, False])
@pytest.mark.parametrize("n_train", [0, 1, 37, 99, 100])
def test_the_parts_have_the_size_asked_for_and_share_everything_out(n_train: int, stratify: bool) -> None:
    train, test = UNIQUE.split_train_test(n_train, stratify=stratify, seed=1)
    assert (len(train), len(test)) == (n_train, 100 - n_train)
    assert sorted(submissions(train) + submissions(test)) == sorted(submissions(UNIQUE))
    assert (train.prompt, train.rubric, train.name) == (UNIQUE.prompt, UNIQUE.rubric, UNIQUE.name)


@each("stratify", [True, False])
def test_a_seed_gives_the_same_split_again_and_another_seed_another(stratify: bool) -> None:
    def train(seed: int) -> list[str]:
        return submissions(UNIQUE.split_train_test(20, stratify=stratify, seed=seed)[0])

    assert train(1) == train(1)
    assert len({frozenset(train(seed)) for seed in range(20)}) == 20


def test_every_criterion_keeps_its_proportions_though_all_combinations_are_unique() -> None:
    train, _ = UNIQUE.split_train_test(20, seed=0)
    for position in range(7):
        total = Counter(item.ground_truth[position] for item in UNIQUE if item.ground_truth)
        found = Counter(item.ground_truth[position] for item in train if item.ground_truth)
        for verdict, count in total.items():
            assert abs(found[verdict] - count * 0.2) < 1


def test_a_verdict_of_two_items_is_in_both_parts() -> None:
    truths = [["UNMET"], ["UNMET"]] + [["MET"]] * 98
    for seed in range(5):
        train, test = labelled(truths).split_train_test(5, seed=seed)
        for part in (train, test):
            assert sum(item.ground_truth == ["UNMET"] for item in part) == 1


def test_labels_that_differ_by_case_and_spaces_only_are_one_stratum() -> None:
    options = [{"label": "Yes", "value": 1}, {"label": "No", "value": 0}]
    rubric = Rubric.from_dict([{"requirement": "q", "options": options}])
    labels = ["Yes", "yes ", "YES", " yes"] + ["No"] * 4
    items = [DataItem(str(n), "d", [label]) for n, label in enumerate(labels)]
    for seed in range(5):
        train, _ = RubricDataset("P", rubric, items).split_train_test(4, seed=seed)
        assert sum(item.ground_truth != ["No"] for item in train) == 2


def test_labels_with_dashes_do_not_run_together() -> None:
    options = [{"label": label, "value": 0.5} for label in ("A-B", "C", "A", "B-C")]
    rubric = Rubric.from_dict([{"requirement": f"q{n}", "options": options} for n in range(2)])
    truths = [["A-B", "C"]] * 4 + [["A", "B-C"]] * 4
    items = [DataItem(str(n), "d", list(truth)) for n, truth in enumerate(truths)]
    train, _ = RubricDataset("P", rubric, items).split_train_test(4, seed=0)
    assert sum(item.ground_truth == ["A", "B-C"] for item in train) == 2


def test_criteria_of_own_rubrics_are_matched_by_name() -> None:
    first = Rubric([Criterion(name="A", requirement="a"), Criterion(name="B", requirement="b")])
    second = Rubric([Criterion(name="B", requirement="b")])
    items = [DataItem(f"{n}", "d", ["MET", "UNMET"], first) for n in range(10)]
    items += [DataItem(f"x{n}", "d", ["UNMET"], second) for n in range(10)]
    train, _ = RubricDataset("P", None, items).split_train_test(10, seed=0)
    # A=MET has 10 of the 20 items and B=UNMET all of them: half of the first kind is wanted.
    assert sum(item.rubric is first for item in train) == 5


def test_a_criterion_of_an_own_rubric_is_that_of_the_dataset_with_its_name() -> None:
    named = [Criterion(name="A", requirement="a")]
    items = [DataItem(f"{n}", "d", [verdict]) for n, verdict in enumerate(["MET", "UNMET"] * 5)]
    items += [DataItem(f"x{n}", "d", [verdict], Rubric(named)) for n, verdict in enumerate(["MET", "UNMET"] * 5)]
    for seed in range(20):
        train, _ = RubricDataset("P", Rubric(named), items).split_train_test(2, seed=seed)
        # A=MET has 10 of all 20 items, wherever their rubric stands: one of two is wanted.
        assert sorted(item.ground_truth or [] for item in train) == [["MET"], ["UNMET"]]


def test_the_published_messages() -> None:
    with pytest.raises(ValueError, match="n_train must be non-negative, got -1"):
        UNIQUE.split_train_test(-1)
    with pytest.raises(ValueError, match=r"n_train \(101\) exceeds dataset size \(100\)"):
        UNIQUE.split_train_test(101)
    without = RubricDataset("P", Rubric([Criterion(requirement="r")]), [DataItem("s", "d")])
    with pytest.raises(ValueError, match="Stratified split requires ground_truth on all items"):
        without.split_train_test(1)
    assert len(without.split_train_test(1, stratify=False)[0]) == 1
