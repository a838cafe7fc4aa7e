from typing import Any

import pytest

from autorubric.checks import RuleCall, rule_of_tags, run_check
from autorubric.errors import InputError
from tests.offenders import each

# The released struct: every key there is, the unused ones null, whole numbers as doubles.
KEYS = """
    N capital_frequency capital_relation end_phrase first_word forbidden_words frequency keyword
    keyword1 keyword2 keywords language last_word let_frequency let_relation letter m n n_end n_sent
    n_start n_words nth_paragraph num_bullets num_highlights num_paragraphs num_placeholders
    num_sections num_sentences num_words phrase postscript_marker prompt_to_repeat relation
    section_spliter small_n
""".split()  # noqa: SIM905


def struct(**used: Any) -> dict[str, Any]:
    assert len(KEYS) == 36
    return dict.fromkeys(KEYS) | used


def test_the_union_struct_of_the_released_rows_is_read() -> None:
    tags = {
        "function": "NumberOfWords",
        "parameters": struct(num_words=3.0, relation="at least"),
        "verifier": "rule",
    }
    call = rule_of_tags(tags)
    assert call == RuleCall("NumberOfWords", {"num_words": 3, "relation": "at least"})
    assert run_check(*call, "one two three").passed  # type: ignore[union-attr]


def test_the_struct_holds_the_parameters_of_every_rule() -> None:
    from autorubric.checks import CHECKS, RUBRICHUB

    asked = {name for rule in RUBRICHUB for name in CHECKS[rule].parameters.model_json_schema()["properties"]}
    assert asked == set(KEYS)


def test_the_whole_struct_may_be_given_to_the_check_itself() -> None:
    assert run_check("CommaChecker", struct(), "no commas").passed  # type: ignore[union-attr]


@each(
    ("written", "parameters"),
    [
        ('parameters:{"keyword": "a:b", "frequency": 2.0}', {"keyword": "a:b", "frequency": 2}),
        ("parameters:{'keyword': 'x', 'm': None}", {"keyword": "x"}),
        ("parameters:", {}),
        ("parameters: {}", {}),
    ],
)
def test_the_legacy_list_of_strings_is_read(written: str, parameters: dict[str, Any]) -> None:
    tags = ["verifier:rule", "function:KeywordFrequencyChecker", written, "axis:accuracy", "no colon"]
    assert rule_of_tags(tags) == RuleCall("KeywordFrequencyChecker", parameters)


@each(
    "tags",
    [
        None,
        [],
        {},
        ["verifier:llm"],
        ["axis:accuracy", "level:example"],
        {"function": "", "parameters": struct(), "verifier": "llm"},
        {"function": None, "parameters": None, "verifier": None},
    ],
)
def test_without_a_function_a_judge_decides(tags: Any) -> None:
    assert rule_of_tags(tags) is None


@each(
    ("tags", "said"),
    [
        ({"function": "CommaChecker", "verifier": "llm"}, "expected none"),
        ({"function": "", "verifier": "rule"}, "no function is named"),
        ({"function": "CommaChecker", "verifier": "human"}, "expected 'rule' or 'llm'"),
        (["function:CommaChecker", "parameters:__import__('os')"], "expected a mapping"),
        (["function:CommaChecker", "parameters:[1]"], "expected a mapping"),
        ("function:CommaChecker", "expected a mapping or a list"),
    ],
)
def test_tags_that_contradict_themselves_are_refused(tags: Any, said: str) -> None:
    with pytest.raises(InputError, match="tags") as caught:
        rule_of_tags(tags)
    assert said in str(caught.value)
