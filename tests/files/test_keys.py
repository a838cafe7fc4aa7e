"""Misspelt keys."""

from __future__ import annotations

from itertools import product

from rapidfuzz.distance import OSA

from autorubric.files.keys import count_slips


def test_slips_are_those_of_rapidfuzz() -> None:
    words = ["".join(letters) for length in range(5) for letters in product("abc", repeat=length)]
    assert [(a, b) for a, b in product(words, words) if count_slips(a, b) != OSA.distance(a, b)] == []
