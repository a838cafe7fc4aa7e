from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from autorubric.synthesis.accounting import Account, DroppedSource, Merged, build_account, find_lost_numbers
from autorubric.synthesis.candidate import Candidate

DOSE = Candidate("a1", "Dose", "Names the dose.", 5, models=("x",))
AMOUNT = Candidate("b1", "Amount", "Gives the amount to take.", 9, models=("y",))
THREE = Candidate("a2", "Check", "Advises a check every 3 months.", 4)
SIX = Candidate("b2", "Check", "Advises a check every 6 months.", 6)
LIES = Candidate("p1", "Lies", "Invents a source.", -7)


def outcomes(found: Account) -> list[tuple[str, str, str]]:
    return [(fate.id, fate.outcome, fate.into) for fate in found.fates]


def test_what_is_merged_takes_the_highest_weight_whatever_the_reply_says() -> None:
    found = build_account([DOSE, AMOUNT], [Merged("Dose", "Names the dose to take.", 1, ("a1", "b1"))])
    assert [(c.id, c.title, c.weight, c.models, c.parents) for c in found.criteria] == [
        ("m1", "Dose", 9, ("x", "y"), ("a1", "b1"))
    ]
    assert outcomes(found) == [("a1", "merged", "m1"), ("b1", "merged", "m1")]


def test_what_the_reply_forgets_is_put_back() -> None:
    found = build_account([DOSE, AMOUNT], [Merged("Dose", "Names the dose.", 5, ("a1",))])
    assert outcomes(found) == [("a1", "kept", "m1"), ("b1", "restored", "m2")]
    assert found.criteria[1].description == AMOUNT.description


def test_what_the_reply_repeats_without_naming_it_is_found_by_its_words() -> None:
    found = build_account(
        [DOSE, AMOUNT], [Merged("", "names the dose", 5), Merged("", "Gives the amount to take", 9)]
    )
    assert outcomes(found) == [("a1", "kept", "m1"), ("b1", "kept", "m2")]
    assert found.criteria[0].title == "Dose"


def test_two_thresholds_are_never_one() -> None:
    found = build_account([THREE, SIX], [Merged("Check", "Advises a check every 6 months.", 6, ("a2", "b2"))])
    assert [c.description for c in found.criteria] == [SIX.description, THREE.description]
    assert found.fates[0].reason == "the merged wording lacks its 3"


def test_a_wording_that_loses_its_number_gives_way_to_the_old_one() -> None:
    found = build_account([THREE], [Merged("Check", "Advises regular checks.", 4, ("a2",))])
    assert [c.description for c in found.criteria] == [THREE.description]
    assert found.notes == ("a merged criterion has no source of its own and was left out",)


def test_a_pitfall_merged_into_a_demand_is_put_back() -> None:
    found = build_account([DOSE, LIES], [Merged("Dose", "Names the dose and no source.", 5, ("a1", "p1"))])
    assert [(c.weight, c.description) for c in found.criteria] == [
        (5, "Names the dose and no source."),
        (-7, "Invents a source."),
    ]
    assert found.fates[1].reason == "it was merged with criteria of the other sign"


def test_a_pitfall_keeps_its_sign_where_the_reply_turns_it() -> None:
    found = build_account([LIES], [Merged("Lies", "Invents a source.", 7, ("p1",))])
    assert found.criteria[0].weight == -7


def test_words_are_looked_for_under_the_sign_of_what_an_output_names() -> None:
    pitfall = Candidate("p2", "", DOSE.description, -4)
    # The reply turns the sign; the output stays what its source is, and the pitfall of the same words stays apart.
    found = build_account([DOSE, pitfall], [Merged("Dose", DOSE.description, -1, ("a1",))])
    assert [(c.weight, c.parents) for c in found.criteria] == [(5, ("a1",)), (-4, ("p2",))]


def test_a_demand_that_nobody_made_is_left_out_with_a_note() -> None:
    found = build_account([DOSE], [Merged("", "Names the dose.", 5, ("a1",)), Merged("", "Rhymes.", 5, ("z9",))])
    assert len(found.criteria) == 1
    assert found.notes == (
        "a merged criterion names an unknown id, 'z9'",
        "a merged criterion has no source of its own and was left out",
    )


def test_dropping_takes_a_reason() -> None:
    found = build_account([DOSE, AMOUNT, SIX], [], [DroppedSource("a1", "off topic"), DroppedSource("b1", "  ")])
    assert outcomes(found) == [("a1", "dropped", ""), ("b1", "restored", "m1"), ("b2", "restored", "m2")]
    assert [fate.reason for fate in found.fates] == [
        "off topic",
        "it was dropped without a reason",
        "the reply names it nowhere",
    ]


def test_what_is_used_and_dropped_is_used() -> None:
    found = build_account([DOSE], [Merged("", "Names the dose.", 5, ("a1",))], [DroppedSource("a1", "off topic")])
    assert outcomes(found) == [("a1", "kept", "m1")]
    assert found.notes == ("the reply drops 'a1', but the result contains it",)


def test_a_source_named_twice_counts_once() -> None:
    found = build_account(
        [DOSE], [Merged("", "Names a dose.", 5, ("a1", "a1")), Merged("", "States a dose.", 5, ("a1",))]
    )
    assert [c.description for c in found.criteria] == ["Names a dose."]


IDS = st.sampled_from(["a1", "b1", "a2", "b2", "p1", "p2", "zz"])
OUTPUTS = st.builds(
    Merged,
    st.just("t"),
    st.sampled_from(
        [DOSE.description, AMOUNT.description, "Checks every 3 months", "Every 3 or 6 months", "Lies", "x"]
    ),
    st.integers(-10, 10),
    st.lists(IDS, max_size=4).map(tuple),
)


@given(
    st.lists(OUTPUTS, max_size=6), st.lists(st.builds(DroppedSource, IDS, st.sampled_from(["", "why"])), max_size=3)
)
def test_nothing_disappears_unseen_whatever_the_reply(
    merged: Sequence[Merged], dropped: Sequence[DroppedSource]
) -> None:
    # The last one has the words of the first, under the other sign.
    inputs = [DOSE, AMOUNT, THREE, SIX, LIES, Candidate("p2", "", DOSE.description, -4)]
    found = build_account(inputs, merged, dropped)
    result = {c.id: c for c in found.criteria}
    assert len(result) == len(found.criteria)
    assert [fate.id for fate in found.fates] == [c.id for c in inputs]
    carried: set[str] = set()
    for source, fate in zip(inputs, found.fates, strict=True):
        if fate.outcome == "dropped":
            assert fate.reason == "why"
            continue
        target = result[fate.into]
        carried.add(fate.into)
        assert source.id in target.parents
        assert source.pitfall is target.pitfall
        assert abs(target.weight) >= abs(source.weight)
        assert not find_lost_numbers(source.description, target.description)
    assert carried == set(result)
