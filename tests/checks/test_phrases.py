from typing import Any

from autorubric.checks import CheckOutcome, run_check
from tests.offenders import each


def passes(name: str, text: str, **parameters: Any) -> bool:
    said = run_check(name, parameters, text)
    assert isinstance(said, CheckOutcome), said
    assert said.reason
    return said.passed


@each(
    ("text", "parameters", "expected"),
    [
        ("Take the metro", {"phrases": "metro"}, True),
        ("Take the Metro", {"phrases": "metro"}, False),
        ("Take the Metro", {"phrases": "metro", "ignore_case": True}, True),
        ("STRASSE", {"phrases": "straße", "ignore_case": True}, True),  # ß folds to ss
        ("metrology", {"phrases": "metro", "whole_words": True}, False),
        ("(metro)", {"phrases": "metro", "whole_words": True}, True),
        ("C++, of course", {"phrases": "C++", "whole_words": True}, True),
        ("C++11, of course", {"phrases": "C++", "whole_words": True}, False),
        ("bus", {"phrases": ["metro", "bus"]}, False),
        ("bus", {"phrases": ["metro", "bus"], "match": "any"}, True),
        ("", {"phrases": "metro"}, False),
        ("a\r\nb", {"phrases": "a\nb"}, False),  # line ends are characters like any other
        ("東京へ", {"phrases": "東京"}, True),
        ("私は東京に住む", {"phrases": "東京", "whole_words": True}, True),  # no spaces to go by
        ("用car驾驶", {"phrases": "car", "whole_words": True}, True),
        ("用carpet", {"phrases": "car", "whole_words": True}, False),
        ("हिन्दी", {"phrases": "हिन", "whole_words": True}, False),  # a vowel sign goes on with the word
        ("हिन्दी", {"phrases": "दी", "whole_words": True}, False),
        ("ที่นี่", {"phrases": "นี่", "whole_words": True}, True),
        ("xa a a", {"phrases": "a a", "whole_words": True}, True),
        ("un cafe\u0301", {"phrases": "cafe"}, False),  # é in two code points
        ("un cafe\u0301", {"phrases": "café"}, True),
        ("İSTANBUL", {"phrases": "istanbul", "ignore_case": True}, True),
        ("IŞIK", {"phrases": "ışık", "ignore_case": True}, True),
    ],
)
def test_contains(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("contains", text, **parameters) is expected


@each(("text", "expected"), [("by car", False), ("by Car", True), ("", True), ("carpet", False)])
def test_not_contains(text: str, expected: bool) -> None:
    assert passes("not_contains", text, phrases=["car", "lorry"]) is expected


def test_a_reason_names_what_is_there_and_what_is_not() -> None:
    assert run_check("contains", {"phrases": ["a", "z"]}, "abc") == CheckOutcome(False, "found 'a'; not found 'z'")
    assert run_check("not_contains", {"phrases": ["z"]}, "abc") == CheckOutcome(True, "not found 'z'")


@each(
    ("text", "expected"), [("Dear Ada", True), ("\r\n Dear", True), ("dear", False), ("My Dear", False), ("", False)]
)
def test_starts_with(text: str, expected: bool) -> None:
    assert passes("starts_with", text, prefix="Dear") is expected


@each(("text", "expected"), [("Love, Ada", True), ("Ada\r\n", True), ("Ada.", False), ("ada", False), ("", False)])
def test_ends_with(text: str, expected: bool) -> None:
    assert passes("ends_with", text, suffix="Ada") is expected


@each(("text", "expected"), [("42", True), ("42\n", False), ("", False), ("forty-two", True)])
def test_exact_match(text: str, expected: bool) -> None:
    assert passes("exact_match", text, expected=["42", "forty-two"]) is expected


def test_the_empty_text_matches_the_empty_expectation() -> None:
    assert passes("exact_match", "", expected="")
    assert passes("normalized_match", " the! ", expected="")


@each(
    ("text", "expected"),
    [
        ("the eiffel tower", True),
        ("EIFFEL TOWER.", True),
        ("Eiffel\r\n\tTower", True),
        ("Ｅｉｆｆｅｌ Tower", True),  # full-width letters
        ("Eiffel Towers", False),
        ("", False),
    ],
)
def test_normalized_match(text: str, expected: bool) -> None:
    assert passes("normalized_match", text, expected="Eiffel-Tower") is expected


def test_two_spellings_of_an_accent_are_one_text() -> None:
    assert passes("normalized_match", "cafe\u0301", expected="café")
    assert passes("exact_match", "cafe\u0301", expected="café")
    assert passes("starts_with", "E\u0301te\u0301 chaud", prefix="Été")
    assert passes("regex", "un e\u0301te\u0301", pattern="^un été$")
    assert not passes("not_contains", "un e\u0301te\u0301", phrases="été")


@each(
    ("text", "parameters", "expected"),
    [
        ("room 12", {"pattern": r"\d+"}, True),
        ("room", {"pattern": r"\d+"}, False),
        ("1 2 3", {"pattern": r"\d", "at_least": 4}, False),
        ("1 2 3", {"pattern": r"\d", "at_most": 2}, False),
        ("", {"pattern": r"\d", "at_least": 0, "at_most": 0}, True),
        ("abc", {"pattern": "b", "whole": True}, False),
        ("abc", {"pattern": "A.C", "whole": True, "ignore_case": True}, True),
        ("a\nb", {"pattern": "^b$"}, False),
        ("a\nb", {"pattern": "^b$", "multiline": True}, True),
        ("a\nb", {"pattern": "a.b"}, False),
        ("a\nb", {"pattern": "a.b", "dotall": True}, True),
        ("été", {"pattern": r"^\w+$"}, True),
    ],
)
def test_regex(text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert passes("regex", text, **parameters) is expected
