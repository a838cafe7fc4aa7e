"""Verifiers on the first, last and special words of a response or of its sentences."""

from __future__ import annotations

import re

from autorubric.checks.outcome import CheckOutcome, quoted
from autorubric.checks.rules.keywords import Word
from autorubric.checks.sentences import rule_sentences, word_tokens


def first_word_of_sentences(text: str, *, first_word: Word) -> CheckOutcome:
    """FirstWordSentChecker: every sentence opens with the word, whatever its case; marks on it count.

    Example:
        >>> first_word_of_sentences("We ran. We fell.", first_word="we").passed
        True
    """
    return _every(rule_sentences(text), 0, first_word, _as_is)


def last_word_of_sentences(text: str, *, last_word: Word) -> CheckOutcome:
    """LastWordSentChecker: every sentence closes with the word, marks taken off, whatever its case.

    Example:
        >>> last_word_of_sentences("I sing. You SING!", last_word="sing").passed
        True
    """
    return _every(rule_sentences(text), -1, last_word, _bare)


def first_word_of_answer(text: str, *, first_word: Word) -> CheckOutcome:
    """FirstWordAnswerChecker: the response opens with the word, whatever its case; marks on it count.

    Example:
        >>> first_word_of_answer("Yes, sir.", first_word="yes").passed
        False
    """
    return _every((text,), 0, first_word, _as_is)


def last_word_of_answer(text: str, *, last_word: Word) -> CheckOutcome:
    """LastWordAnswerChecker: the response closes with the word, marks taken off, whatever its case.

    Example:
        >>> last_word_of_answer("That is the End.", last_word="end").passed
        True
    """
    return _every((text,), -1, last_word, _bare)


def starts_as_it_ends(text: str) -> CheckOutcome:
    """StartEndChecker: the first token is the last token, whatever their case; a final mark is a token.

    Example:
        >>> starts_as_it_ends("Rain brings rain").passed, starts_as_it_ends("Rain brings rain.").passed
        (True, False)
    """
    tokens = word_tokens(text)
    if len(tokens) < 2:
        return CheckOutcome(False, "it has less than two tokens")
    passed = tokens[0].lower() == tokens[-1].lower()
    return CheckOutcome(passed, f"it starts with {quoted(tokens[0])} and ends with {quoted(tokens[-1])}")


def palindrome(text: str) -> CheckOutcome:
    """PalindromeBasicChecker: some word between spaces reads the same backwards; one letter is enough.

    Example:
        >>> palindrome("At noon we ate")
        CheckOutcome(passed=True, reason="found 'noon'")
    """
    word = next((word for word in text.split() if word == word[::-1]), None)
    return CheckOutcome(word is not None, "no palindrome" if word is None else f"found {quoted(word)}")


def _every(parts: tuple[str, ...], place: int, expected: str, cleaned: re.Pattern[str] | None) -> CheckOutcome:
    for part in parts:
        words = part.split()
        if not words:
            return CheckOutcome(False, "a sentence is empty")
        word = cleaned.sub("", words[place]) if cleaned is not None else words[place]
        if word.lower() != expected.strip().lower():
            return CheckOutcome(False, f"found {quoted(word)}; expected {quoted(expected.strip())}")
    return CheckOutcome(True, f"{quoted(expected.strip())} stands where it should")


_as_is = None
_bare = re.compile(r"[^\w\s]")
