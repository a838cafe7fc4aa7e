"""Criteria dropout: which criteria a group of rollouts is graded on, and what that costs."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, InputError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.training.rewarder import Rewarder, Sample
from autorubric.training.rewards import RewardRule, keep_criteria

WORDS = ["sun", "moon", "tide", "rock", "wave", "salt", "fish", "crab", "sand", "wind"]


def contains(word: str, weight: float = 1.0, *, gate: bool = False) -> Criterion:
    check = {"name": "contains", "parameters": {"phrases": [word]}}
    return Criterion(requirement=f"Contains {word}", weight=weight, check=check, tags=["gate"] if gate else [])


RUBRIC = Rubric([contains("sea", gate=True), *map(contains, WORDS)])


def kept(rule: RewardRule, group: str = "a", step: int | None = None, rubric: Rubric = RUBRIC) -> tuple[int, ...]:
    return tuple(keep_criteria(rubric, rule, group, step).kept)


def test_a_subset_has_its_size_keeps_the_gate_and_depends_on_seed_group_and_step_alone() -> None:
    rule = RewardRule(dropout=0.3)
    subsets = [kept(rule, group, step) for group in "abcdef" for step in range(10)]
    assert {len(subset) for subset in subsets} == {8}  # the gate and 7 of 10
    assert all(subset[0] == 0 for subset in subsets)
    assert subsets == [kept(rule, group, step) for group in "abcdef" for step in range(10)]
    assert len(set(subsets)) > 30
    assert kept(rule) != kept(RewardRule(dropout=0.3, dropout_seed=1))
    # Each of ten is dropped 180 times in 600 on average; 56 away is five standard deviations.
    subsets = [kept(rule, group, step) for group in "abcdef" for step in range(100)]
    dropped = [sum(index not in subset for subset in subsets) for index in range(1, 11)]
    assert sum(dropped) == 1800
    assert 124 <= min(dropped) <= max(dropped) <= 236


def test_by_step_all_groups_of_a_step_share_a_subset() -> None:
    rule = RewardRule(dropout=0.3, dropout_by="step")
    steps = [{kept(rule, group, step) for group in "abcd"} for step in range(6)]
    assert all(len(subsets) == 1 for subsets in steps)
    assert any(before != after for before, after in pairwise(steps))


def test_a_subset_can_always_be_scored() -> None:
    one = Rubric([contains("sun"), *(contains(word, -1.0) for word in WORDS)])
    only = Rubric([contains("sun")])
    pitfalls = Rubric([contains(word, -1.0) for word in WORDS[:2]])
    for seed in range(30):
        rule = RewardRule(dropout=0.99, dropout_seed=seed)
        assert 0 in kept(rule, rubric=one)
        assert kept(rule, rubric=only) == (0,)
        assert len(kept(rule, rubric=pitfalls)) == 1


def test_a_reward_is_renormalised_and_names_what_was_dropped() -> None:
    rule = RewardRule(dropout=0.5)
    text = "The sea: sun, moon, tide, rock and wave."
    rewarder = Rewarder(CriterionGrader.of_checks(), rule)
    first, again = asyncio.run(rewarder.rewards([Sample(text, RUBRIC, "Why?", step=step) for step in (1, 1)]))
    assert (first.value, first.criteria, first.dropped) == (again.value, again.criteria, again.dropped)
    assert list(first.criteria) == [f"C{number}" for number in range(1, 12)]
    assert len(first.dropped) == 5
    assert all((first.criteria[name] is None) == (name in first.dropped) for name in first.criteria)
    values = [value for value in first.criteria.values() if value is not None]
    assert first.value == pytest.approx(sum(values) / 6)
    whole, *_ = asyncio.run(Rewarder(CriterionGrader.of_checks()).rewards([Sample(text, RUBRIC, "Why?")]))
    assert whole.value == pytest.approx(6 / 11)
    assert whole.dropped == ()
    closed, *_ = asyncio.run(rewarder.rewards([Sample("sun moon", RUBRIC, "Why?", step=1)]))
    assert (closed.value, closed.closed) == (0.0, ("C1",))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dropout=1.0; expected a share from 0 to below 1"):
        RewardRule(dropout=1.0)
    with pytest.raises(ConfigError, match="dropout_by='epoch' is not one of group, step"):
        RewardRule(dropout_by="epoch")  # type: ignore[arg-type]
    rewarder = Rewarder(CriterionGrader.of_checks(), RewardRule(dropout=0.5, dropout_by="step"))
    with pytest.raises(InputError, match="dropout_by='step' needs the training step of each sample"):
        asyncio.run(rewarder.rewards([Sample("sea", RUBRIC)]))
