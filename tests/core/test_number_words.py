"""Numbers and negations, found in words."""

from __future__ import annotations

from autorubric.core.wording import NUMBER_WORDS, count_negations, find_numbers, narrow, parse_number
from tests.offenders import each


@each(
    ("text", "numbers"),
    [
        ("Gives three examples in 200 words", {"3", "200"}),
        ("At most 1,000 words", {"1000"}),
        ("Between 2 and 4.5 g", {"2", "4.5"}),
        ("Thirteen steps", {"13"}),
        ("Names one cause, once", set()),
        ("someone, tenfold, second", set()),
        ("至少列出三个原因，二十条以内", {"3", "20"}),
        ("第三方的说明", set()),
        ("１０ words, 10² cells", {"10"}),
    ],
)
def test_numbers_are_found_in_digits_words_and_chinese(text: str, numbers: set[str]) -> None:
    assert find_numbers(text) == numbers


@each(
    ("text", "value"),
    [("7", 7), ("1,250", 1250), ("Twenty", 20), ("a", 1), ("十", 10), ("二十三", 23), ("三千", 3000)],
)
def test_a_number_word_has_its_value(text: str, value: int) -> None:
    assert parse_number(text) == value
    assert NUMBER_WORDS.get(text.lower(), str(value)) == str(value)


@each(
    ("text", "count"),
    [
        ("Avoids jargon and doesn't guess", 2),
        ("Notes the nitrogen in another note", 0),
        ("未说明剂量，也没有频率", 2),
        ("非常清楚，非处方药", 1),  # 非常 is "very"
    ],
)
def test_words_that_negate_are_counted(text: str, count: int) -> None:
    assert count_negations(text) == count


def test_superscripts_stay_what_they_are() -> None:
    assert narrow("ｍ² ５ ①") == "m² 5 ①"
