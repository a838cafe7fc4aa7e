"""Verifiers on keywords: there, not there, so often, at that place."""

from __future__ import annotations

import re
from typing import Annotated

from annotated_types import MinLen
from pydantic import AfterValidator

from autorubric.checks.outcome import CheckOutcome, quoted
from autorubric.checks.patterns import IGNORECASE, find_all, found, keyword_pattern
from autorubric.checks.rules.relation import Natural, Positive, Relation, exactly, related
from autorubric.checks.sentences import rule_sentences, word_tokens


def _not_blank(word: str) -> str:
    if not word.strip():
        raise ValueError("is blank; expected a word")
    return word


Word = Annotated[str, AfterValidator(_not_blank)]
"""A parameter that has to hold more than space."""
Words = Annotated[list[Word], MinLen(1)]


def keywords_exist(text: str, *, keywords: Words) -> CheckOutcome:
    """KeywordChecker: every keyword, read as a pattern, is found, whatever its case.

    Example:
        >>> keywords_exist("Sunny Paris", keywords=["paris", "rain"])
        CheckOutcome(passed=False, reason="not found: 'rain'")
    """
    missing = [word for word in keywords if not found(keyword_pattern(word), text, IGNORECASE)]
    return CheckOutcome(not missing, f"not found: {', '.join(map(quoted, missing))}" if missing else "all found")


def keyword_frequency(text: str, *, keyword: Word, frequency: Natural, relation: Relation) -> CheckOutcome:
    """KeywordFrequencyChecker: the keyword, read as a pattern, is found less than or at least so often.

    Example:
        >>> keyword_frequency("A rose is a rose.", keyword="rose", frequency=2, relation="at least").passed
        True
    """
    return related(_occurrences(keyword, text), f"{quoted(keyword.strip())} place", relation, frequency)


def keyword_once(text: str, *, keyword: Word) -> CheckOutcome:
    """KeywordFrequencyOnceChecker: the keyword is found exactly once.

    Example:
        >>> keyword_once("A rose is a rose.", keyword="rose").passed
        False
    """
    return exactly(_occurrences(keyword, text), f"{quoted(keyword.strip())} place", 1)


def keywords_once_and_twice(text: str, *, keyword1: Word, keyword2: Word) -> CheckOutcome:
    """CountIncrementWordChecker: the first keyword is found exactly once and the second exactly twice.

    Example:
        >>> keywords_once_and_twice("A rose is a rose.", keyword1="is", keyword2="rose").passed
        True
    """
    first = exactly(_occurrences(keyword1, text), f"{quoted(keyword1.strip())} place", 1)
    second = exactly(_occurrences(keyword2, text), f"{quoted(keyword2.strip())} place", 2)
    return CheckOutcome(first.passed and second.passed, f"{first.reason}; {second.reason}")


def words_forbidden(text: str, *, forbidden_words: Words) -> CheckOutcome:
    """ForbiddenWords: none of the words, read as patterns, is found as a word, whatever its case.

    Example:
        >>> words_forbidden("The cat sat.", forbidden_words=["at"]).passed
        True
    """
    there = sorted({word for word in forbidden_words if found(_as_word(word), text, IGNORECASE)})
    return CheckOutcome(not there, f"found: {', '.join(map(quoted, there))}" if there else "none found")


def word_excluded(text: str, *, keyword: Word) -> CheckOutcome:
    """ExcludeWordHarderChecker: the keyword does not stand between two spaces, case counting.

    At a line's end, or before a comma, it stays unseen, as published.

    Example:
        >>> word_excluded("a red fox", keyword="red").passed
        False
    """
    there = f" {keyword.strip()} " in text
    return CheckOutcome(not there, f"{quoted(keyword.strip())} is {'' if there else 'not '}there")


def keyword_at_position(text: str, *, keyword: Word, n: Positive, m: Positive) -> CheckOutcome:
    """KeywordSpecificPositionChecker: the m-th token of the n-th sentence is the keyword, case counting.

    Example:
        >>> keyword_at_position("It rained. We left early.", keyword="left", n=2, m=2).passed
        True
    """
    sentences = rule_sentences(text)
    tokens = word_tokens(sentences[n - 1]) if n <= len(sentences) else ()
    if m > len(tokens):
        return CheckOutcome(False, f"there is no token {m} in sentence {n}")
    return CheckOutcome(tokens[m - 1] == keyword.strip(), f"token {m} of sentence {n} is {quoted(tokens[m - 1])}")


def _occurrences(keyword: str, text: str) -> int:
    return len(find_all(keyword_pattern(keyword.strip()), text, IGNORECASE))


def _as_word(word: str) -> str:
    pattern = keyword_pattern(word)
    if pattern == word:
        return rf"\b{pattern}\b"
    return rf"(?<!\w){re.escape(word)}(?!\w)"
