import time

import pytest

from autorubric.checks import CheckFailure, CheckOutcome, run_check
from autorubric.checks.patterns import SECONDS, as_pattern, find_problem
from tests.offenders import each

CATASTROPHIC = [
    (r"(a|aa)+$", "a" * 60 + "!"),
    (r"(a+)+$", "a" * 60 + "!"),
    (r"(a|a?)+\b!$", "a" * 60),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 80),
    (r"(.*a){25}$", "a" * 80 + "!"),
    (r"(?:(?:a{0,50}){0,50}){0,50}b", "a" * 3_000),
    (r"(\w+)\1+(\w+)\2+!", "ab" * 2_000),
    (r"(?<=(a|aa)+)b!", "a" * 60 + "b"),
    (r"(?:aaa){e<=9}b{e<=9}c$", "a" * 5_000),
]


@each(("pattern", "text"), CATASTROPHIC)
def test_no_pattern_of_a_user_can_hang_a_check(pattern: str, text: str) -> None:
    started = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autorubric.checks.patterns.SECONDS", 0.1)
        said = run_check("regex", {"pattern": pattern}, text)
    assert isinstance(said, CheckOutcome | CheckFailure)
    # Far above the deadline: the point is that it ends.
    assert time.process_time() - started < 20 * SECONDS


def test_a_pattern_out_of_time_is_a_failure_and_not_a_verdict() -> None:
    said = run_check("regex", {"pattern": r"(a|aa)+$"}, "a" * 60 + "!")
    assert said == CheckFailure("regex", "the pattern '(a|aa)+$' took longer than 1 s")


def test_keywords_of_rules_and_patterns_of_schemas_have_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autorubric.checks.patterns.SECONDS", 0.1)
    text = "a" * 60 + "!"
    schema = {"pattern": "(a|aa)+$"}
    for name, parameters, of in (
        ("KeywordChecker", {"keywords": ["(a|aa)+$"]}, text),
        ("json_schema", {"schema": schema}, f'"{text}"'),
    ):
        said = run_check(name, parameters, of)
        assert isinstance(said, CheckFailure)
        assert "took longer than 0.1 s" in said.reason


@each("keyword", ["C++", "a(b", "*", "[x", "what??+", "\\"])
def test_a_keyword_that_is_no_pattern_is_looked_for_as_it_is_written(keyword: str) -> None:
    assert run_check("KeywordChecker", {"keywords": [keyword]}, f"see {keyword} here") == CheckOutcome(
        True, "all found"
    )
    assert run_check("KeywordChecker", {"keywords": [keyword]}, "see nothing here") == CheckOutcome(
        False, f"not found: {keyword!r}"
    )


def test_a_forbidden_word_of_signs_is_found_as_a_word() -> None:
    assert run_check("ForbiddenWords", {"forbidden_words": ["C++"]}, "I like C++.") == CheckOutcome(
        False, "found: 'C++'"
    )
    assert run_check("ForbiddenWords", {"forbidden_words": ["C++"]}, "I like BasiC++ a lot").passed  # type: ignore[union-attr]


def test_look_behind_and_back_references_are_supported() -> None:
    assert run_check("regex", {"pattern": r"(?<=\$)(\d)\1"}, "it costs $55").passed  # type: ignore[union-attr]


@each("pattern", ["(", "a{2,1}", "(?P<x", r"\L<words>", "(?P=unknown)", "(" * 900 + ")" * 900])
def test_a_broken_pattern_is_told_before_it_runs(pattern: str) -> None:
    assert find_problem(pattern) is not None


def test_a_plain_keyword_stays_what_it_is() -> None:
    assert as_pattern("colou?r") == "colou?r"
