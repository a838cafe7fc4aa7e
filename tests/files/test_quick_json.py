"""Quick JSON agrees with the standard library wherever both have a say."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.files.json_values import is_finite
from autorubric.files.strict_json import decode_json, encode_json
from tests.offenders import each

TEXTS = st.text(st.characters(exclude_categories=()))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def values(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | integers | FLOATS | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


VALUES = values(st.integers())


@given(VALUES)
def test_every_json_value_comes_back_equal_half_characters_and_huge_numbers_included(value: Any) -> None:
    assert decode_json(encode_json(value)) == value


@given(values(st.integers(-(2**63), 2**64 - 1)))
def test_both_read_what_the_other_wrote(value: Any) -> None:
    assert json.loads(encode_json(value)) == value
    assert decode_json(json.dumps(value).encode()) == value


def test_integers_beyond_64_bits_stay_exact() -> None:
    assert decode_json(b"-9223372036854775809") == -(2**63) - 1
    assert encode_json(2**64) == b"18446744073709551616"


def test_not_finite_numbers_are_written_as_null() -> None:
    assert encode_json([float("nan"), float("inf")]) == b"[null,null]"


def test_half_characters_are_written_as_three_bytes_after_a_space() -> None:
    assert encode_json(["\ud800", "é"]) == b' ["\xed\xa0\x80","\xc3\xa9"]'


@each(
    ("value", "finite"),
    [(sys.float_info.max, True), (-sys.float_info.max, True), (int(sys.float_info.max), True), (2**1024, False)],
)
def test_the_largest_float_is_finite_and_no_whole_number_beyond_it(value: float, finite: bool) -> None:
    assert is_finite(value) == finite


def test_what_is_no_json_value_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_json({"a": object()})
    with pytest.raises(ValueError, match="Expecting"):
        decode_json(b"{broken")
