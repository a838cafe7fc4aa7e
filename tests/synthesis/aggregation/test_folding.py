from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.rubric_merge import can_fit, plan_fold


@given(st.integers(1, 40), st.integers())
def test_a_fold_takes_every_set_once_in_the_fewest_rounds(n: int, seed: int) -> None:
    fold = plan_fold(n, seed)
    assert sorted(fold.order) == list(range(n))
    used = [slot for pair in fold.merges for slot in pair]
    # n - 1 merges use every slot but the last, which is the result, once.
    assert len(fold.merges) == n - 1
    assert sorted(used) == list(range(2 * n - 2))
    depth = [0] * (2 * n - 1)
    for number, (left, right) in enumerate(fold.merges):
        assert max(left, right) < n + number
        depth[n + number] = 1 + max(depth[left], depth[right])
    assert depth[-1] == math.ceil(math.log2(n))


def test_the_order_is_the_records_own_and_the_merges_are_not() -> None:
    folds = [plan_fold(6, f"q{i}") for i in range(20)]
    assert len({fold.order for fold in folds}) > 10
    assert len({fold.merges for fold in folds}) == 1
    assert plan_fold(6, "q1") == plan_fold(6, "q1")


def test_no_set_is_always_first() -> None:
    firsts = {plan_fold(3, f"q{i}").order[0] for i in range(30)}
    assert firsts == {0, 1, 2}


def test_no_sets_are_no_fold() -> None:
    with pytest.raises(ValueError, match="at least one"):
        plan_fold(0, 1)


def test_what_fits_is_counted_in_characters() -> None:
    # id 2 + title 4 + description 15 + 60 for the JSON around it.
    one = [Candidate("a1", "Dose", "Names the dose.", 5)]
    assert can_fit([one, one], 162)
    assert not can_fit([one, one], 161)
