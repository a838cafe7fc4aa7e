from typing import Any

import pytest
from pydantic import ValidationError

from autorubric.core.scoring import LengthPenalty, compute_length_penalty
from autorubric.core.submission import normalize_to_grade_input, word_count
from autorubric.errors import InputError
from tests.offenders import each


@each(
    ("given_value", "message"),
    [
        ({"ouput": "Yes."}, "unknown key 'ouput' in the submission; did you mean 'output'"),
        ({"answer": "Yes."}, "unknown key 'answer' in the submission; expected one of thinking, output"),
        ({"output": 3}, "'output' of the submission is of type int; expected a string"),
        ({}, "empty dict"),
        (None, "of type NoneType"),
        (["Yes."], "of type list"),
    ],
)
def test_a_submission_of_the_wrong_shape_is_refused(given_value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        normalize_to_grade_input(given_value)


def test_a_part_that_is_not_there_is_empty() -> None:
    assert normalize_to_grade_input({"thinking": "Hm."}) == {"thinking": "Hm.", "output": ""}
    assert normalize_to_grade_input("Yes.") == {"thinking": "", "output": "Yes."}


# penalty = 0.5 · ((length − 10) / 10) ** 2
@each(("words", "expected"), [(0, 0.0), (10, 0.0), (15, 0.125), (19, 0.405), (20, 0.5), (999, 0.5)])
def test_the_penalty_grows_from_the_budget_to_the_cap(words: int, expected: float) -> None:
    penalty = LengthPenalty(free_budget=10, max_cap=20, penalty_at_cap=0.5, exponent=2.0)
    assert compute_length_penalty("w " * words, penalty) == pytest.approx(expected)


def test_the_penalty_is_a_step_where_budget_and_cap_are_one() -> None:
    penalty = LengthPenalty(free_budget=3, max_cap=3, penalty_at_cap=0.5)
    assert [compute_length_penalty("w " * n, penalty) for n in (3, 4)] == [0.0, 0.5]
    nothing = LengthPenalty(free_budget=0, max_cap=0, penalty_at_cap=0.5)
    assert [compute_length_penalty("w " * n, nothing) for n in (0, 1)] == [0.0, 0.5]


@each(("kind", "expected"), [("ALL", 0.8), ("OUTPUT_ONLY", 0.5), ("THINKING_ONLY", 0.3)])
def test_each_part_is_measured_by_itself_and_nothing_is_added_between(kind: Any, expected: float) -> None:
    # 3 and 5 characters; joined with a space they would be 9.
    penalty = LengthPenalty(
        free_budget=0, max_cap=10, penalty_at_cap=1.0, exponent=1.0, count_fn=len, penalty_type=kind
    )
    assert compute_length_penalty({"thinking": "abc", "output": "defgh"}, penalty) == pytest.approx(expected)


@each(
    "fields",
    [
        {"exponent": -2},
        {"exponent": float("nan")},
        {"exponent": float("inf")},
        {"penalty_at_cap": -0.5},
        {"penalty_at_cap": float("inf")},
        {"free_budget": -1},
        {"max_cap": 100},
        {"penalty_type": "OUTPUT"},
    ],
)
def test_a_penalty_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LengthPenalty.model_validate(fields)


@each("length", [-1, None, float("nan"), True, "7"])
def test_a_count_that_is_no_length_is_refused(length: Any) -> None:
    penalty = LengthPenalty(count_fn=lambda text: length)
    with pytest.raises(InputError, match="count_fn returned"):
        compute_length_penalty("Yes.", penalty)


def test_the_published_defaults_of_a_length_penalty() -> None:
    penalty = LengthPenalty()
    assert (penalty.free_budget, penalty.max_cap, penalty.penalty_at_cap, penalty.exponent) == (6000, 8000, 0.5, 1.6)
    assert penalty.penalty_type == "ALL"
    with pytest.raises(ValidationError):
        penalty.exponent = 2.0  # type: ignore[misc]


def test_words_of_scripts_without_spaces_are_characters() -> None:
    texts = {
        "See e.g. https://a.b/c 好": 4,
        "很好。" * 25: 50,
        "ラーメン": 4,
        "ที่นี่": 2,
        "用Python 3写": 4,
        "a – b": 3,
        "हिन्दी में": 2,
    }
    assert {text: word_count(text) for text in texts} == texts
    assert compute_length_penalty("好" * 60, LengthPenalty(free_budget=40, max_cap=60, penalty_at_cap=0.5)) == 0.5
