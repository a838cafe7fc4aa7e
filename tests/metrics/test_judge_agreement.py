"""Agreement among judges without labels: counts by hand, other implementations, and what must not count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, InputError
from autorubric.graders.without_model import CHECK, EMPTY
from autorubric.metrics.judge_agreement import measure_judge_agreement
from autorubric.metrics.self_consistency import NO_JUDGE
from tests.oracles import cohen_kappa_score

from .conftest import FAILED, Graded

KIND, MOON = Criterion(name="Kind", requirement="Is kind"), Criterion(name="Moon", requirement="Names the moon")


def near(value: Any, abs: float | None = None) -> Any:
    """`pytest.approx`, which has no type that compares with numbers."""
    return pytest.approx(value, abs=abs)


def panel(*items: dict[str, list[str]]) -> Graded:
    made = Graded([KIND, MOON])
    for votes in items:
        made.add(None, votes)
    return made


THREE = panel(
    {"a": ["MET", "MET"], "b": ["MET", "UNMET"], "c": ["MET", "UNMET"]},
    {"a": ["UNMET", "MET"], "b": ["MET", "MET"], "c": ["UNMET", "MET"]},
    {"a": ["MET", "UNMET"], "b": ["MET", "MET"], "c": ["MET", "CANNOT_ASSESS"]},
)


def test_shares_of_equal_verdicts_are_those_counted_by_hand() -> None:
    found = measure_judge_agreement(THREE.run, THREE.dataset, n_replicates=50, seed=1)
    # Kind: 3 + 1 + 3 of 9 pairs. Moon: b-c of the first item, all of the second, and a-b of the third differs
    # (c abstains): 1 + 3 + 0 of 7 pairs.
    assert {one.name: (one.n, one.agreement) for one in found.criteria} == {
        "Kind": (9, near(7 / 9)),
        "Moon": (7, near(4 / 7)),
    }
    assert (found.overall.n, found.overall.agreement) == (16, near(11 / 16))
    # a-b: Kind 2 of 3, Moon 1 of 3; a-c: Kind 3 of 3, Moon 1 of 2; b-c: Kind 2 of 3, Moon 2 of 2.
    pairs = {(pair.name, pair.other): (pair.n, pair.agreement) for pair in found.pairs}
    assert pairs == {
        ("a", "b"): (6, near(3 / 6)),
        ("a", "c"): (5, near(4 / 5)),
        ("b", "c"): (5, near(4 / 5)),
    }
    assert [(one.name, one.agreement) for one in found.each_judge] == [
        ("a", near(7 / 11)),
        ("b", near(7 / 11)),
        ("c", near(8 / 10)),
    ]
    # Item 0: 2 of 6 pairs differ, item 1: 2 of 6, item 2: 1 of 4.
    assert [(one.item, one.n, one.differing, one.criteria) for one in found.disputed] == [
        (0, 6, near(2 / 6), ["Moon"]),
        (1, 6, near(2 / 6), ["Kind"]),
        (2, 4, near(1 / 4), ["Moon"]),
    ]


def test_an_abstention_counts_where_it_is_a_category() -> None:
    found = measure_judge_agreement(THREE.run, THREE.dataset, n_replicates=50, cannot_assess="as_category")
    # The third item has two more pairs on Moon, both of which differ.
    assert (found.overall.n, found.overall.agreement) == (18, near(11 / 18))


def test_kappa_and_its_interval_of_two_judges_are_those_of_scikit_learn_and_of_labels() -> None:
    rng = np.random.default_rng(7)
    words = np.array(["MET", "UNMET"])
    first = rng.integers(0, 2, (60, 2))
    second = np.where(rng.random((60, 2)) < 0.8, first, 1 - first)
    made = panel(*({"a": list(words[one]), "b": list(words[two])} for one, two in zip(first, second, strict=True)))
    found = measure_judge_agreement(made.run, made.dataset, n_replicates=200, seed=3)
    [pair] = found.pairs
    assert pair.kappa == near(cohen_kappa_score(first.ravel(), second.ravel()))
    each = [cohen_kappa_score(first[:, place], second[:, place]) for place in (0, 1)]
    assert pair.mean_kappa == near(np.mean(each))
    assert pair.agreement == near((first == second).mean())
    for interval, value in ((pair.kappa_ci, pair.kappa), (pair.agreement_ci, pair.agreement)):
        assert interval is not None
        assert value is not None
        assert interval.lower < value < interval.upper
    # The same verdicts as labels and judge give the same κ and the same interval.
    labelled = Graded([KIND, MOON])
    for one, two in zip(first, second, strict=True):
        labelled.add(list(words[one]), list(words[two]))
    from autorubric import compute_metrics

    with_labels = compute_metrics(labelled.run, labelled.dataset, bootstrap=True, n_bootstrap=200, seed=3)
    assert with_labels.bootstrap is not None
    assert pair.kappa_ci is not None
    assert with_labels.bootstrap.micro_kappa_ci == near((pair.kappa_ci.lower, pair.kappa_ci.upper))


def test_judges_that_always_agree_have_an_interval_that_allows_for_what_was_not_seen() -> None:
    made = panel(*({"a": ["MET", "UNMET"], "b": ["MET", "UNMET"]} for _ in range(10)))
    found = measure_judge_agreement(made.run, made.dataset, n_replicates=50)
    interval = found.overall.agreement_ci
    assert found.overall.agreement == 1.0
    assert interval is not None
    # Wilson with 10 items: 1 / (1 + 1.96² / 10).
    assert (interval.method, interval.lower) == ("wilson", near(0.7225, abs=1e-4))
    assert found.disputed == []


def test_verdicts_of_checks_and_of_a_single_judge_are_never_compared_with_themselves() -> None:
    assert {CHECK, EMPTY} == NO_JUDGE
    checked = panel(*({"check": ["MET", "MET"], "a": [FAILED, FAILED]} for _ in range(3)))
    alone = panel(*({"a": ["MET", "MET"]} for _ in range(3)))
    for made in (checked, alone):
        with pytest.raises(InputError, match="one judge, and no labels"):
            measure_judge_agreement(made.run, made.dataset)


def test_two_runs_are_compared_on_the_verdicts_that_both_judges_gave() -> None:
    one = panel({"a": ["MET", "UNMET"]}, {"a": ["MET", "MET"]}, {"check": ["MET", "MET"]})
    two = panel({"b": ["MET", "MET"]}, {"b": ["MET", FAILED]}, {"check": ["MET", "MET"]})
    found = measure_judge_agreement(one.run, one.dataset, two.run, names=("x", "y"), n_replicates=50)
    # The third item was decided by a check in both runs, and Moon failed on the second in run y.
    assert (found.judges, found.overall.n, found.overall.agreement) == (["x", "y"], 3, near(2 / 3))
    assert [(one.item, one.criteria) for one in found.disputed] == [(0, ["Moon"])]


def test_runs_on_other_items_cannot_be_compared() -> None:
    other = Graded([KIND, MOON])
    other.add(None, ["MET", "MET"])
    run: Any = SimpleNamespace(item_results=[])
    with pytest.raises(InputError):
        measure_judge_agreement(run, other.dataset, other.run)
