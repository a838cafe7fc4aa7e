"""Whatever the text and whatever the parameters: an outcome, a failure, or an InputError."""

import os
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.checks import CHECKS, CheckContext, CheckFailure, CheckOutcome, run_check
from autorubric.errors import InputError

USABLE: dict[str, Any] = {
    "phrases": ["a", "."], "pattern": "a|b", "prefix": "a", "suffix": "a", "expected": "a", "code": "en",
    "schema": {"type": "object"}, "N": 2, "relation": "at least", "letter": "a", "let_frequency": 1,
    "let_relation": "less than", "capital_frequency": 1, "capital_relation": "at least", "language": "en",
    "keywords": ["a"], "keyword": "a", "keyword1": "a", "keyword2": "b", "forbidden_words": ["a"],
    "frequency": 1, "n": 1, "m": 1, "n_start": 0, "n_end": 2, "n_sent": 1, "n_words": 2, "nth_paragraph": 1,
    "num_bullets": 1, "num_highlights": 1, "num_paragraphs": 1, "num_placeholders": 1, "num_sections": 1,
    "num_sentences": 1, "num_words": 1, "phrase": "a b c", "postscript_marker": "P.S.",
    "prompt_to_repeat": "ab", "section_spliter": "S", "small_n": 1, "first_word": "a", "last_word": "a",
    "end_phrase": "a", "min_words": 1, "max_words": 2, "percentage": 50, "reference_text": "abc", "word": "a",
    "keyword3": "c", "keyword4": "d", "keyword5": "e", "options": "a/b", "sep": "-",
    "num_items": 1, "num_letters": 3, "kanji_limit": 1, "ending": "a",
}  # fmt: skip
CONTEXT = CheckContext(tokenizer=str.split)
MARKS = st.text(
    st.sampled_from("aB1 \t\r\n\x00.,!?*#-_|[]{}<>()\"'`“”~:;%$&/\\İßé日😀\u2028\u202e\ue000"), max_size=60
)
TEXTS = st.one_of(st.text(max_size=60), MARKS)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.text(max_size=4), max_size=3),
)


PACKAGED = tuple(CHECKS)  # other tests register checks of their own later


@cache
def usable(name: str) -> dict[str, Any]:
    if name == "numeric_value":
        return {"expected": 1.5, "unit": "a"}
    if name.endswith("_count") and ":" not in name:
        return {"at_most": 3}
    if name == "ja:keywords:letter_frequency":
        return {"letter": "あ", "let_frequency": 1, "let_relation": "以上"}
    schema = CHECKS[name].parameters.model_json_schema()
    words = {key: (*one.get("enum", ()), one.get("const"))[0] for key, one in schema["properties"].items()}
    return {key: words[key] or USABLE[key] for key in schema.get("required", [])}


@given(text=TEXTS)
def test_no_text_crashes_a_check(text: str) -> None:
    for name in PACKAGED:
        said = run_check(name, usable(name), text, context=CONTEXT)
        assert isinstance(said, CheckOutcome | CheckFailure), name
        assert said.reason, name
        assert run_check(name, usable(name), text, context=CONTEXT) == said, name


@cache
def changes(name: str) -> st.SearchStrategy[dict[str, Any]]:
    known = CHECKS[name].parameters.model_json_schema()["properties"]
    return st.dictionaries(st.sampled_from([*known, "other"]), VALUES, max_size=2)


@pytest.mark.parametrize("name", PACKAGED)
@settings(max_examples=int(os.environ.get("AUTORUBRIC_EXAMPLES", "8")), deadline=None)
@given(data=st.data())
def test_no_parameters_crash_a_check(name: str, data: st.DataObject) -> None:
    changed = usable(name) | data.draw(changes(name))
    try:
        said = run_check(name, changed, "Some text, with 1 number. *And* more.", context=CONTEXT)
    except InputError as refused:
        assert all(problem.startswith(f"check {name!r}:") for problem in refused.problems)
    else:
        assert isinstance(said, CheckOutcome | CheckFailure)
