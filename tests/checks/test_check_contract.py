from typing import Any

import pytest

from autorubric.checks import (
    CHECKS,
    IFBENCH,
    IFEVAL,
    MIFEVAL,
    RUBRICHUB,
    CheckContext,
    CheckFailure,
    CheckOutcome,
    run_check,
    validate_check,
)
from autorubric.errors import InputError
from tests.offenders import each


def problems(name: str, parameters: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        validate_check(name, parameters)
    return caught.value.problems


def test_the_table_holds_every_published_rule_and_instruction() -> None:
    assert len(RUBRICHUB) == 53
    assert len(IFEVAL) == 25
    assert len(IFBENCH) == 58
    assert len(MIFEVAL) == 52
    assert set(RUBRICHUB) | set(IFEVAL) | set(IFBENCH) < set(CHECKS)


def test_an_unknown_check_is_refused_with_the_nearest_name() -> None:
    assert problems("word_cuont", {}) == ("unknown check 'word_cuont'; did you mean 'word_count'?",)


def test_all_offending_parameters_are_named_at_once() -> None:
    assert problems("KeywordFrequencyChecker", {"keywrd": "x", "frequency": "two", "relation": "at most"}) == (
        "check 'KeywordFrequencyChecker': parameter 'keyword' is missing",
        "check 'KeywordFrequencyChecker': parameter 'frequency' is 'two'; expected a whole number",
        "check 'KeywordFrequencyChecker': parameter 'relation' is 'at most'; expected 'less than' or 'at least'",
        "check 'KeywordFrequencyChecker': unknown parameter 'keywrd'; did you mean 'keyword'?",
    )


def test_a_check_without_parameters_says_so() -> None:
    assert problems("CommaChecker", {"n": 1}) == (
        "check 'CommaChecker': unknown parameter 'n'; expected no parameters",
    )


@each("parameters", ["at_most=3", ["at_most"], 3])
def test_parameters_that_are_no_mapping_are_refused(parameters: Any) -> None:
    assert "expected a mapping" in problems("word_count", parameters)[0]


@each(
    ("name", "parameters", "said"),
    [
        ("word_count", {"at_least": 2.5}, "at_least"),
        ("word_count", {"at_least": True}, "at_least"),
        ("word_count", {"at_least": -1}, "at_least"),
        ("word_count", {"at_least": 3, "at_most": 2}, "nothing can pass"),
        ("word_count", {}, "nothing can fail"),
        ("character_count", {"spaces": False}, "nothing can fail"),
        ("contains", {"phrases": []}, "phrases"),
        ("contains", {"phrases": [1]}, "phrases"),
        ("regex", {"pattern": "("}, "is not a valid regular expression"),
        ("regex", {"pattern": "a" * 3_000}, "has 3000 characters"),
        ("language", {"code": "klingon"}, "not a language the detector knows"),
        ("json_schema", {"schema": {"type": 3}}, "is not a valid JSON Schema"),
        ("json_schema", {"schema": {"$ref": "https://example.com/s"}}, "only references inside the schema"),
        ("numeric_value", {"expected": float("nan")}, "expected"),
        ("numeric_value", {"expected": 1, "tolerance": -1}, "tolerance"),
        (
            "LetterFrequencyChecker",
            {"letter": "ab", "let_frequency": 1, "let_relation": "at least"},
            "letter",
        ),
        (
            "ParagraphFirstWordCheck",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "nothing can pass",
        ),
        ("CopySpanIdxChecker", {"prompt_to_repeat": "abc", "n_start": 2, "n_end": 1}, "the span is empty"),
        ("KeywordChecker", {"keywords": ["ok", " "]}, "blank"),
    ],
)
def test_a_value_that_cannot_work_is_refused_before_anything_runs(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    (problem,) = problems(name, parameters)
    assert problem.startswith(f"check {name!r}:")
    assert said in problem


def test_nulls_are_dropped_and_integral_doubles_become_integers() -> None:
    # The released rows carry one struct of all keys, unused ones null, whole numbers as doubles.
    struct = {"N": None, "num_words": 120.0, "relation": "at least", "keywords": None}
    assert validate_check("NumberOfWords", struct) == {"num_words": 120, "relation": "at least"}


def test_an_array_from_a_parquet_reader_counts_as_a_list() -> None:
    numpy = pytest.importorskip("numpy")
    assert validate_check("KeywordChecker", {"keywords": numpy.array(["a", "b"])}) == {"keywords": ["a", "b"]}


def test_run_check_refuses_bad_parameters_too() -> None:
    with pytest.raises(InputError):
        run_check("word_count", {"atleast": 2}, "text")


def test_no_parameters_may_be_none() -> None:
    assert run_check("CommaChecker", None, "no commas") == CheckOutcome(True, "0 ',' places; expected none")


@each("name", [*RUBRICHUB, *IFEVAL, *IFBENCH, *MIFEVAL])
def test_every_rule_declares_its_parameters(name: str) -> None:
    schema = CHECKS[name].parameters.model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema.get("required", [])) == set(schema["properties"])


def test_a_rule_fails_a_blank_submission_even_where_nothing_is_vacuously_true() -> None:
    # No comma, no unbracketed word, no repeated word: still not an answer.
    for name in ("CommaChecker", "SquareBracketChecker", "CountUniqueChecker", "punctuation:no_comma"):
        assert run_check(name, {}, " \r\n\t") == CheckOutcome(False, "the submission is blank")


def test_last_word_of_nothing_is_no_crash() -> None:
    assert run_check("LastWordAnswerChecker", {"last_word": "end"}, "") == CheckOutcome(
        False, "the submission is blank"
    )


def test_a_check_that_cannot_decide_is_a_failure_and_not_a_verdict() -> None:
    failure = run_check("token_count", {"at_most": 3}, "a b")
    assert failure == CheckFailure("token_count", "no tokenizer; pass CheckContext(tokenizer=...)")
    assert not hasattr(failure, "passed")


def test_tokens_are_counted_by_the_callers_tokenizer() -> None:
    # Two characters a token: "abcde" is ab, cd, e.
    context = CheckContext(tokenizer=lambda text: [text[i : i + 2] for i in range(0, len(text), 2)])
    assert run_check("token_count", {"at_most": 3}, "abcde", context=context) == CheckOutcome(
        True, "3 tokens; expected at most 3"
    )
