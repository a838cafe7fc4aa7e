"""Quick JSON agrees with the standard library wherever both have a say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.files.quick_json import json_bytes, json_value

TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_json_value_comes_back_equal_half_characters_and_huge_numbers_included(value: Any) -> None:
    assert json_value(json_bytes(value)) == value


@given(VALUES)
def test_both_read_what_the_other_wrote(value: Any) -> None:
    assert json.loads(json_bytes(value)) == value
    assert json_value(json.dumps(value).encode()) == value


def test_what_is_no_json_value_is_refused() -> None:
    with pytest.raises(TypeError):
        json_bytes({"a": object()})
    with pytest.raises(ValueError, match="Expecting"):
        json_value(b"{broken")
