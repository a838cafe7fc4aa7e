from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.llm.request import Answer, Reply, Unreadable
from autorubric.synthesis.final_files import build_final_row
from autorubric.synthesis.items import (
    Dropped,
    FinalItem,
    cap_criteria,
    dedup_final_rubrics,
    read_additions,
    read_items,
    read_rubric,
)
from autorubric.synthesis.templates import load_reply_schema
from tests.offenders import each

UNTIMED = settings(deadline=None)


def entry(weight: Any) -> dict[str, Any]:
    return {"title": "Dose", "description": "Names 4 g.", "weight": weight}


def final(*pairs: tuple[str, int]) -> list[FinalItem]:
    return [{"criterion": criterion, "points": points} for criterion, points in pairs]


@each(
    ("written", "weight"),
    [
        (7, 7),
        (7.9, 8),  # to the nearest, where the public code cuts off
        (7.5, 8),  # halves up
        (6.5, 7),
        (0, 0),
        (0.4, 0),
        ("7", 7),
        ("7.5", 8),
        ("7,5", 8),
        (" +7 ", 7),
        ("8/10", 8),
        ("4 / 5", 8),  # 4/5 of 10
        ("3/20", 2),  # 1.5, halves up
        ("7 points", 7),
        ("1 point", 1),
        ("7pts", 7),
        ("7分", 7),
    ],
)
def test_a_weight_is_read_as_it_was_meant(written: Any, weight: int) -> None:
    reading = read_items([entry(written)])
    assert reading.items == [entry(weight)]
    assert type(reading.items[0]["weight"]) is int
    assert (reading.dropped, reading.notes) == ([], [])


@each(
    ("written", "weight", "shown"),
    [(-5, 0, "-5"), (11, 10, "11"), ("15/10", 10, "15"), (-0.2, 0, "-0.2"), (10**400, 10, "1000")],
)
def test_a_weight_out_of_range_is_held_to_it_and_noted(written: Any, weight: int, shown: str) -> None:
    reading = read_items([entry(3), entry(written)])
    assert [item["weight"] for item in reading.items] == [3, weight]
    assert reading.notes == [f"criterion 2 has weight {shown}; {weight} was taken"]


@each(
    "written",
    [True, False, None, "high", "", "7 of", "7/0", "1e3", float("nan"), float("inf"), [7], {"value": 7}, "9" * 50],
)
def test_what_is_no_number_is_no_weight_and_drops_the_item(written: Any) -> None:
    reading = read_items([entry(written), entry(5)])
    assert reading.items == [entry(5)]
    assert [dropped.entry for dropped in reading.dropped] == [1]
    assert reading.dropped[0].reason.startswith("weight is ")


@each("description", [None, "", " \n", 7, ["a"]])
def test_an_item_without_a_description_is_dropped(description: Any) -> None:
    reading = read_items([{**entry(5), "description": description}])
    assert reading.items == []
    assert reading.dropped[0].reason.startswith("description is ")


def test_entries_that_are_no_objects_are_dropped_with_their_place() -> None:
    reading = read_items([entry(5), "Names 4 g.", None])
    assert reading.dropped == [Dropped(2, "'Names 4 g.' is not an object"), Dropped(3, "None is not an object")]


def test_what_is_no_list_holds_no_items() -> None:
    assert read_items({"criteria": []}).dropped == [Dropped(1, "a list was expected; got {'criteria': []}")]


def test_texts_are_stripped_and_a_missing_title_is_empty() -> None:
    reading = read_items([{"description": "\n Names 4 g. ", "weight": 5}, {**entry(5), "title": " Dose "}])
    assert [(item["title"], item["description"]) for item in reading.items] == [
        ("", "Names 4 g."),
        ("Dose", "Names 4 g."),
    ]


@each(
    "written",
    [
        {"Title": "Dose", "Description": "Names 4 g.", "Weight": 5},
        {"name": "Dose", "criterion": "Names 4 g.", "points": 5},
        {"title": "Dose", "requirement": "Names 4 g.", "score": 5, "rationale": "safety"},
        {"标题": "Dose", "描述": "Names 4 g.", "权重": 5},
    ],
)
def test_other_names_of_the_fields_are_understood(written: dict[str, Any]) -> None:
    assert read_items([written]).items == [entry(5)]


def test_a_reply_becomes_a_rubric_and_keeps_what_was_overlooked() -> None:
    text = json.dumps({"criteria": [entry("7.5"), entry("high"), entry(12)]})
    answer = read_rubric(Reply(text))
    assert isinstance(answer, Answer)
    assert answer.value == [entry(8), entry(10)]
    assert answer.notes == (
        "criterion 2 was dropped: weight is 'high'; expected a number",
        "criterion 3 has weight 12; 10 was taken",
    )


@each(
    ("value", "message"),
    [
        ([], "the reply holds no criterion"),
        ([entry(0), entry(-3)], "every criterion in the reply has weight 0"),
        ([entry("high")], "entry 1: weight is 'high'"),
        (["a", "b"], "entry 1: 'a' is not an object"),
        ({"tags": ["a"]}, "entry 1: description is None"),
    ],
)
def test_a_rubric_without_a_usable_criterion_is_unreadable(value: Any, message: str) -> None:
    problem = read_rubric(Reply(json.dumps(value)))
    assert isinstance(problem, Unreadable)
    assert message in problem.message
    assert (problem.kind, problem.again) == ("unreadable", True)


def test_nothing_to_add_is_an_answer_but_nothing_usable_is_not() -> None:
    nothing = read_additions(Reply('```json\n{"criteria": []}\n```'))
    assert isinstance(nothing, Answer)
    assert nothing.value == []
    assert isinstance(read_additions(Reply('[{"description": ""}]')), Unreadable)
    assert isinstance(read_additions(Reply("I would add nothing.")), Unreadable)


def test_what_is_wrong_with_the_reply_itself_is_passed_on() -> None:
    problem = read_rubric(Reply('[{"title": "Do', finish_reason="length"))
    assert isinstance(problem, Unreadable)
    assert problem.kind == "truncated"


def test_the_schema_is_named() -> None:
    assert load_reply_schema("rubric_items").name == "rubric_items"
    assert load_reply_schema("rubric_items").body["type"] == "object"


def test_the_final_format_keeps_description_and_weight() -> None:
    items = [entry(9), {"title": "Tone", "description": "Is calm.", "weight": "3"}, {"title": "None"}]
    row = build_final_row({"question": "q", "merged_rubrics": items})
    assert row is not None
    assert row["rubrics"] == final(("Names 4 g.", 9), ("Is calm.", 3))


def test_the_same_words_are_one_criterion_whatever_their_spacing_and_case() -> None:
    rubrics = final(
        ("Mentions  the dose", 4), ("Is calm", 5), ("mentions\nthe DOSE ", 4), ("Größe", 1), ("GRÖSSE", 2)
    )
    assert dedup_final_rubrics(rubrics) == final(("Mentions  the dose", 4), ("Is calm", 5), ("GRÖSSE", 2))


def test_backslashes_and_letters_do_not_collapse() -> None:
    rubrics = final((r"C:\ssx", 4), ("C: x", 4))
    assert dedup_final_rubrics(rubrics) == rubrics


def test_the_cap_keeps_evolved_criteria_that_are_worth_more() -> None:
    # 20 base criteria of 5 points, then 5 evolved ones of 8: the evolved stay, the last 5 base ones go.
    rubrics = final(*((f"base {n}", 5) for n in range(20)), *((f"evolved {n}", 8) for n in range(5)))
    assert cap_criteria(rubrics, 20) == rubrics[:15] + rubrics[20:]


@each("most", [None, 0, -1, 3, 99])
def test_without_a_cap_or_below_it_all_stay(most: int | None) -> None:
    rubrics = final(("a", 1), ("b", 3), ("c", 2))
    assert cap_criteria(rubrics, most) == rubrics


rubric_lists = st.lists(st.tuples(st.text(max_size=4), st.integers(0, 10)), max_size=15).map(
    lambda pairs: final(*pairs)
)


@UNTIMED
@given(rubric_lists, st.integers(1, 12))
def test_what_the_cap_drops_is_worth_no_more_than_what_it_keeps(rubrics: list[FinalItem], most: int) -> None:
    kept = cap_criteria(rubrics, most)
    assert len(kept) == min(most, len(rubrics))
    points = sorted((item["points"] for item in rubrics), reverse=True)
    assert sorted((item["points"] for item in kept), reverse=True) == points[:most]


@UNTIMED
@given(rubric_lists)
def test_dropping_repetitions_twice_changes_nothing_more(rubrics: list[FinalItem]) -> None:
    once = dedup_final_rubrics(rubrics)
    assert dedup_final_rubrics(once) == once


@each(
    ("weights", "message"),
    [
        ((10, 10), ""),
        ((1, 1), ""),
        ((0.5, 2), ""),
        ((0.5, 1), "the weights are fractions; expected whole numbers from 0 to 10"),
        ((11, 30, 5), "most weights are above 10; expected whole numbers from 0 to 10"),
    ],
)
def test_weights_on_another_scale_are_refused_as_a_whole(weights: tuple[float, ...], message: str) -> None:
    found = read_rubric(Reply(json.dumps([entry(weight) for weight in weights])))
    assert getattr(found, "message", "") == message
    assert isinstance(found, Unreadable if message else Answer)


def test_criteria_in_groups_are_refused_with_the_place_of_the_first_group() -> None:
    for key, group in (
        ("criteria", {"title": "Penalties", "criteria": [entry(3)]}),
        ("sub_criteria", {**entry(3), "sub_criteria": ["Names the dose.", "Names the hour."]}),
    ):
        found = read_rubric(Reply(json.dumps([entry(5), group])))
        assert isinstance(found, Unreadable)
        assert found.message == f"entry 2 holds criteria of its own under {key!r}; expected one flat list"


def test_an_item_with_two_weights_that_differ_is_dropped() -> None:
    reading = read_items([{**entry(5), "points": 7}, {**entry(5), "points": "5"}])
    assert reading.items == [entry(5)]
    assert [one.reason for one in reading.dropped] == ["its weights differ: 5, 7"]
