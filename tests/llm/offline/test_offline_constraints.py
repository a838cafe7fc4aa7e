from __future__ import annotations

import pytest

from autorubric.llm.offline.constraints import Constraint, find_constraints, holds


def found(text: str) -> list[tuple[str, str, int | None, int | None]]:
    return [(c.kind, c.value, c.low, c.high) for c in find_constraints(text)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("Answer in at most 50 words.", None, 50),
        ("Answer in under 50 words.", None, 49),
        ("Answer in fewer than 50 words.", None, 49),
        ("Use 50 words or less.", None, 50),
        ("Use at least 50 words.", 50, None),
        ("Use more than 50 words.", 51, None),
        ("Use exactly 50 words.", 50, 50),
        ("Use between 50 and 80 words.", 50, 80),
        ("Use 50-80 words.", 50, 80),
        # "about" and a bare number of words allow a fifth to either side.
        ("Write a story of about 50 words.", 40, 60),
        ("Write a 1,000 word essay.", 800, 1200),
    ],
)
def test_a_word_limit_is_read_with_its_direction(text: str, low: int | None, high: int | None) -> None:
    assert found(text) == [("count", "words", low, high)]


@pytest.mark.parametrize(
    ("text", "value", "low", "high"),
    [
        ("Give me three tips.", "tips", 3, 3),
        ("List exactly six vegetarian lunches.", "lunches", 6, 6),
        ("Explain it in two paragraphs.", "paragraphs", 2, 2),
        ("写一篇作文，不超过200字。", "字", None, 200),
        ("写300字左右的散文。", "字", 240, 360),
        ("用恰好四句话介绍长城。", "句话", 4, 4),
        ("给我三条建议。", "建议", 3, 3),
    ],
)
def test_items_and_chinese_counts_are_read(text: str, value: str, low: int | None, high: int | None) -> None:
    assert found(text) == [("count", value, low, high)]


@pytest.mark.parametrize(
    "text",
    [
        "I have three ideas and no money.",
        "I type 35 words a minute.",
        "我有两个孩子。",
        "It is 30 degrees in two rooms.",
    ],
)
def test_a_count_that_is_told_is_no_constraint(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text", ["Name five cities with 15 words each.", "每条不超过20字。", "Then add one sentence."]
)
def test_a_count_for_a_part_is_not_one_for_the_whole(text: str) -> None:
    assert [kind for kind, *_ in found(text) if kind == "count"] == []
    assert [kind for kind, *_ in found(text)] == ["part"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Return a JSON object.", "format", "JSON"),
        ("用JSON回答。", "format", "JSON"),
        ("Show it in a table.", "format", "table"),
        ("请用表格比较。", "format", "table"),
        ("Translate it into French.", "language", "French"),
        ("用英文回答。", "language", "英文"),
        ('Begin the letter with "Dear Ana".', "start", "Dear Ana"),
        ("以“再见。”结尾", "end", "再见。"),
        ("Write it in a calm, dry tone.", "tone", "calm, dry"),
        ("Explain tides to a ten-year-old.", "audience", "a ten-year-old"),
        ("请给小学生讲讲闪电。", "audience", "小学生"),
        ('Do not use the word "very".', "avoid", "very"),
        ("不要使用比喻。", "avoid", "比喻"),
        ("Mention the opening hours.", "include", "the opening hours"),
    ],
)
def test_other_demands_are_read_with_their_value(text: str, kind: str, value: str) -> None:
    assert (kind, value) in [(k, v) for k, v, *_ in found(text)]


def test_a_topic_is_no_format() -> None:
    assert found("How do I parse JSON in Python? My dining table is full.") == []


def test_a_list_of_things_to_include_ends_where_the_next_demand_begins() -> None:
    text = "Include a map, a price and two photos, and avoid the word cheap."
    assert [value for kind, value, *_ in found(text) if kind == "include"] == [
        "a map",
        "a price",
        "two photos",
    ]


@pytest.mark.parametrize(
    ("constraint", "text", "kept"),
    [
        (Constraint("count", "words", None, 3, "words"), "One two three.", True),
        (Constraint("count", "words", None, 3, "words"), "One two three four.", False),
        (Constraint("count", "字", 2, None, "characters"), "好", False),
        (Constraint("count", "paragraphs", 2, 2, "paragraphs"), "One.\n\nTwo.", True),
        (Constraint("count", "rows", 1, 1, "rows"), "| a |\n| - |\n| 1 |", True),
        (Constraint("avoid", "cheap"), "Not CHEAP at all.", False),
        (Constraint("avoid", "commas"), "One, two.", False),
        (Constraint("start", "Dear"), "Dear Ana", True),
        (Constraint("end", "Bye."), "So long. Bye.", True),
        (Constraint("format", "JSON"), '```json\n{"a": 1}\n```', True),
        (Constraint("format", "JSON"), "a: 1", False),
        (Constraint("format", "bullets"), "- one", True),
        (Constraint("tone", "calm"), "Calm.", None),
        (Constraint("part", "words", None, 3, "words"), "One two three four.", None),
    ],
)
def test_what_can_be_counted_or_matched_is_checked_and_the_rest_left_open(
    constraint: Constraint, text: str, kept: bool | None
) -> None:
    assert holds(constraint, text) is kept
