"""Disjoint sets by group, and items that never decide twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import RubricDataset
from autorubric.errors import InputError
from autorubric.improvement.samples import UsedItems, group_items, split_items
from tests.improvement.essays import RUBRIC, answers


@given(
    groups=st.lists(st.integers(0, 40), min_size=30, max_size=300),
    kind=st.sampled_from(["three", "nested", "auto"]),
    seed=st.integers(0, 5),
    closed=st.sets(st.integers(0, 3)),
)
def test_every_item_is_in_one_set_and_no_group_in_two(
    groups: list[int], kind: str, seed: int, closed: set[int]
) -> None:
    used = [item for item, group in enumerate(groups) if group in closed]
    strata = [[item % 2] for item in range(len(groups))]
    try:
        split = split_items(groups, strata, kind=kind, seed=seed, used=used)  # type: ignore[arg-type]
    except InputError:
        return
    sets = [split.teach, split.choose, split.test]
    assert sorted(item for one in sets for item in one) == list(range(len(groups)))
    of = [{groups[item] for item in one} for one in sets]
    assert not (of[0] & of[1] or of[0] & of[2] or of[1] & of[2])
    assert not {groups[item] for item in used} & of[2]
    if split.is_nested:
        folds = [{groups[item] for item in fold} for fold in split.folds]
        assert sorted(item for fold in split.folds for item in fold) == sorted(split.test)
        assert sum(map(len, folds)) == len(of[2])
    assert split == split_items(groups, strata, kind=kind, seed=seed, used=used)  # type: ignore[arg-type]


def test_three_sets_need_as_many_groups_as_make_them_no_weaker_than_a_nested_split() -> None:
    kinds = {
        count: split_items(range(count), [[item % 2] for item in range(count)]).is_nested for count in (399, 400)
    }
    assert kinds == {399: True, 400: False}


def test_labels_keep_their_share_in_every_set() -> None:
    split = split_items(range(400), [["MET"] if item % 4 == 0 else ["UNMET"] for item in range(400)])
    for one in (split.teach, split.choose, split.test):
        assert sum(item % 4 == 0 for item in one) / len(one) == pytest.approx(0.25, abs=0.02)


def test_too_few_groups_are_refused_with_the_number_that_suffices() -> None:
    with pytest.raises(
        InputError, match=r"no result on fewer than 6 can be significant\. Label at least 2 more; 114 in all"
    ):
        split_items(range(7), [[item % 2] for item in range(7)])
    with pytest.raises(InputError, match="12 of 16 groups were used by an earlier run"):
        split_items(range(16), [[item % 2] for item in range(16)], used=range(12))


def test_equal_submissions_and_equal_prompts_are_one_group() -> None:
    data = RubricDataset(None, RUBRIC)
    for text, prompt in (("a", "p"), ("<think>x</think>b", "q"), ("<think>y</think> b", "r"), ("c", "p")):
        data.add_item(text, "", prompt=prompt)
    assert group_items(data) == [0, 1, 1, 0]
    with pytest.raises(InputError, match="all 10 items are in one group by 'prompt'"):
        group_items(answers(10), "prompt")
    with pytest.raises(InputError, match="--group-by 'paper' is not in the metadata of answer-0, answer-1"):
        group_items(answers(10), "paper")


def test_used_items_are_kept_with_the_run_that_used_them(tmp_path: Path) -> None:
    file = UsedItems(tmp_path / "labels.json.used.jsonl")
    assert file.read() == set()
    file.add(["a", "b"], "test", "first", tmp_path / "run", "r")
    file.add(["a", "b"], "test", "first", tmp_path / "run", "r")
    assert len(file.path.read_text().splitlines()) == 2
    assert file.read() == {"a", "b"}
    file.path.write_text('{"item": 3}\n')
    with pytest.raises(InputError, match="a line has no 'item'"):
        file.read()
