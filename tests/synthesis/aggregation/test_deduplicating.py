from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.synthesis.accounting import build_sameness_key, deduplicate_sets
from autorubric.synthesis.candidate import Candidate

TEXTS = ["Names the dose.", "names the DOSE", "Every 3 months", "every 6 months", "不提酒精", "提酒精", "Is calm!"]


def test_the_higher_weight_wins_in_the_place_of_the_first() -> None:
    sets = [
        [Candidate("a1", "Dose", "Names the dose.", 5, models=("x",)), Candidate("a2", "Tone", "Is calm.", 2)],
        [Candidate("b1", "The dose", "names the dose", 9, models=("y",))],
    ]
    found = deduplicate_sets(sets)
    assert [[c.id for c in one] for one in found.sets] == [["b1", "a2"], []]
    dose = found.criteria[0]
    assert (dose.title, dose.weight, dose.models, dose.parents) == ("The dose", 9, ("y", "x"), ("a1",))
    assert [(f.id, f.outcome, f.into) for f in found.fates] == [
        ("a1", "merged", "b1"),
        ("a2", "kept", "a2"),
        ("b1", "kept", "b1"),
    ]


def test_a_pitfall_never_joins_a_demand_of_the_same_words() -> None:
    found = deduplicate_sets([[Candidate("a", "", "Names the dose", 5)], [Candidate("p", "", "Names the dose", -5)]])
    assert [c.weight for c in found.criteria] == [5, -5]


def test_of_two_pitfalls_the_costlier_stays() -> None:
    found = deduplicate_sets([[Candidate("p", "", "Lies", -2)], [Candidate("q", "", "lies.", -8)]])
    assert [c.weight for c in found.criteria] == [-8]


def test_texts_of_marks_alone_are_not_all_the_same() -> None:
    assert len(deduplicate_sets([[Candidate("a", "", "!!!", 1), Candidate("b", "", "...", 1)]]).criteria) == 2


def test_an_id_taken_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a1"):
        deduplicate_sets([[Candidate("a1", "", "x", 1)], [Candidate("a1", "", "y", 1)]])


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(-10, 10)), max_size=5), min_size=1, max_size=4)
)
def test_every_criterion_is_kept_or_named_as_merged(drawn: list[list[tuple[str, int]]]) -> None:
    sets = [[Candidate(f"{s}.{i}", "", text, w) for i, (text, w) in enumerate(one)] for s, one in enumerate(drawn)]
    inputs = {c.id: c for one in sets for c in one}
    found = deduplicate_sets(sets)
    kept = {c.id: c for c in found.criteria}
    assert [fate.id for fate in found.fates] == list(inputs)
    assert len(found.sets) == len(sets)
    for fate in found.fates:
        source, target = inputs[fate.id], kept[fate.into]
        assert build_sameness_key(source.description) == build_sameness_key(target.description)
        assert source.pitfall is target.pitfall
        assert abs(target.weight) >= abs(source.weight)
        assert (fate.outcome == "kept") == (fate.id == fate.into)
    keys = [(c.pitfall, build_sameness_key(c.description)) for c in found.criteria]
    assert len(keys) == len(set(keys))
