from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, Rubric
from autorubric.metrics import compare_judges, compute_metrics

Make = Callable[..., Any]

WORD = {"M": "MET", "U": "UNMET"}
A = Criterion(name="a", requirement="r1", tags=["form"])
B = Criterion(name="b", requirement="r2", tags=["form", "facts"])
C = Criterion(name="c", requirement="r3")


def words(text: str) -> list[str]:
    return [WORD[letter] for letter in text]


def test_a_tag_pools_the_criteria_that_carry_it(graded: Make) -> None:
    made = graded([A, B, C])
    for labels, said in (("MMM", "MMU"), ("UMM", "MMU"), ("UUM", "UUU"), ("MUM", "MMU")):
        made.add(words(labels), words(said))
    found = compute_metrics(made.run, made.dataset)
    facts, form = found.per_tag
    # b: truth M M U U, judged M M U M: 3 of 4; p_e = 1/2·3/4 + 1/2·1/4 = 1/2, κ = 1/2.
    assert (facts.tag, facts.n_criteria, facts.n_samples, facts.accuracy) == ("facts", 1, 4, 0.75)
    assert facts.mean_kappa == pytest.approx(0.5) and facts.accuracy_ci is None
    # a: truth M U U M, judged M M U M: 3 of 4 and κ 1/2 too.
    assert (form.tag, form.n_criteria, form.n_samples, form.accuracy) == ("form", 2, 8, 0.75)
    assert form.mean_kappa == pytest.approx(0.5)


def test_the_interval_of_a_tag_is_that_of_its_criteria_alone(graded: Make) -> None:
    rng = np.random.default_rng(0)
    both, alone = graded([A, C]), graded([A])
    for truth, hit, other in (rng.random((60, 3)) < [0.5, 0.8, 0.5]).tolist():
        label, said = "UM"[truth], "UM"[truth == hit]
        both.add(words(label + "M"), words(said + "UM"[other]))
        alone.add(words(label), words(said))
    [form] = compute_metrics(both.run, both.dataset, bootstrap=True, n_bootstrap=200, seed=3).per_tag
    whole = compute_metrics(alone.run, alone.dataset, bootstrap=True, n_bootstrap=200, seed=3)
    assert form.accuracy_ci is not None and whole.accuracy_ci is not None
    assert (form.accuracy_ci.lower, form.accuracy_ci.upper) == (whole.accuracy_ci.lower, whole.accuracy_ci.upper)
    assert form.mean_kappa_ci is not None and whole.bootstrap is not None
    assert (form.mean_kappa_ci.lower, form.mean_kappa_ci.upper) == whole.bootstrap.kappa_ci


def test_kinds_that_are_pooled_have_intervals(graded: Make) -> None:
    rng = np.random.default_rng(1)
    made = graded([A], shared=False)
    for number in range(40):
        own = Rubric([Criterion(requirement=f"own {number}", tags=["form"])])
        truth, hit = rng.random() < 0.5, rng.random() < 0.9
        made.add(words("UM"[truth]), words("UM"[truth == hit]), own)
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=200, seed=3)
    assert found.pooled_by_scale is not None
    [binary] = found.pooled_by_scale
    assert binary.accuracy_ci == found.accuracy_ci
    assert binary.kappa_ci is not None and binary.kappa is not None
    assert binary.kappa_ci.lower < binary.kappa < binary.kappa_ci.upper
    [form] = found.per_tag
    assert (form.n_criteria, form.n_samples, form.mean_kappa) == (40, 40, None)
    assert form.accuracy_ci == found.accuracy_ci


def test_pooled_criteria_with_options_leave_the_kappa_of_binary_pairs_as_it_is(graded: Make) -> None:
    rng = np.random.default_rng(2)
    alone, mixed = graded([A], shared=False), graded([A], shared=False)
    for number in range(40):
        own = Criterion(requirement=f"own {number}")
        options: list[Any] = [{"label": "Low", "value": 0.0}, {"label": "High", "value": 1.0}]
        other = Criterion(requirement=f"other {number}", options=options, scale_type="nominal")
        truth, hit = rng.random() < 0.5, rng.random() < 0.8
        label, said = words("UM"[truth]), words("UM"[truth == hit])
        alone.add(label, said, Rubric([own]))
        mixed.add([*label, "Low"], [*said, "High" if rng.random() < 0.6 else "Low"], Rubric([own, other]))
    without, found = (
        compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=200, seed=3) for made in (alone, mixed)
    )
    assert without.bootstrap is not None and found.bootstrap is not None
    assert found.bootstrap.micro_kappa_ci == without.bootstrap.micro_kappa_ci
    compared = compare_judges(mixed.run, mixed.run, mixed.dataset, n_replicates=2, seed=3).micro_kappa
    assert compared.a == pytest.approx(without.micro_kappa)
    assert compared.n == 40
