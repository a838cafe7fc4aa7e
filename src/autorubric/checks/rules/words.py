"""Verifiers on words: present, absent, how often, where; and what IFBench calls a word, a mark and a stop word."""

import re
import string
import unicodedata
from typing import Annotated

from annotated_types import MinLen
from pydantic import AfterValidator

from autorubric.checks.check import CheckOutcome, Natural, Positive, Relation, compare, expect, quote, rule
from autorubric.checks.length import split_by_rules, tokenize_words
from autorubric.checks.patterns import as_pattern, find_all, has_match
from autorubric.errors import pluralize

EDGES = string.punctuation + " "
"""What the verifiers strip from both ends of a word; other white space stays."""

STOP_WORDS = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until while of at by for with
    about against between into through during before after above below to from up down in out on off over under
    again further then once here there when where why how all any both each few more most other some such no nor not
    only own same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn doesn hadn
    hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""NLTK's English stop words that are one run of word characters; the others are never counted."""

_MARKS = str.maketrans("", "", string.punctuation)


def strip_marks(text: str) -> str:
    """Return the text without ASCII punctuation; `well-known` becomes one word.

    Example:
        >>> strip_marks("It's a well-known fact.")
        'Its a wellknown fact'
    """
    return text.translate(_MARKS)


def to_ascii(text: str) -> str:
    """Return the text in ASCII: accents dropped, and every other character that has no ASCII form.

    Example:
        >>> to_ascii("São Tomé, Łódź")
        'Sao Tome, odz'
    """
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def pass_unless(problem: str | None, accepted: str) -> CheckOutcome:
    """Passed for the reason `accepted`, unless there is a problem.

    Example:
        >>> pass_unless(None, "every line is indented")
        CheckOutcome(passed=True, reason='every line is indented')
    """
    return CheckOutcome(problem is None, accepted if problem is None else problem)


def _check_not_blank(word: str) -> str:
    if not word.strip():
        raise ValueError("is blank; expected a word")
    return word


Word = Annotated[str, AfterValidator(_check_not_blank)]
"""A parameter that is not blank."""
Words = Annotated[list[Word], MinLen(1)]


@rule("KeywordChecker", "keywords:existence", packages=("regex",))
def keywords_exist(text: str, *, keywords: Words) -> CheckOutcome:
    """KeywordChecker: every keyword, read as a pattern, is found, ignoring case.

    Example:
        >>> keywords_exist("Sunny Paris", keywords=["paris", "rain"])
        CheckOutcome(passed=False, reason="not found: 'rain'")
    """
    missing = [word for word in keywords if not has_match(as_pattern(word), text, re.IGNORECASE)]
    return CheckOutcome(not missing, f"not found: {', '.join(map(quote, missing))}" if missing else "all found")


@rule("KeywordFrequencyChecker", "KeywordFrequencyCheckerDifferent", "keywords:frequency", packages=("regex",))
def keyword_frequency(text: str, *, keyword: Word, frequency: Natural, relation: Relation) -> CheckOutcome:
    """KeywordFrequencyChecker: the keyword, a pattern, is found less often than, or at least as often as, given.

    Example:
        >>> keyword_frequency("A rose is a rose.", keyword="rose", frequency=2, relation="at least").passed
        True
    """
    return compare(_count_occurrences(keyword, text), f"{quote(keyword.strip())} place", relation, frequency)


@rule("KeywordFrequencyOnceChecker", packages=("regex",))
def keyword_once(text: str, *, keyword: Word) -> CheckOutcome:
    """KeywordFrequencyOnceChecker: the keyword is found exactly once.

    Example:
        >>> keyword_once("A rose is a rose.", keyword="rose").passed
        False
    """
    return expect(_count_occurrences(keyword, text), f"{quote(keyword.strip())} place", 1)


@rule("CountIncrementWordChecker", packages=("regex",))
def keywords_once_and_twice(text: str, *, keyword1: Word, keyword2: Word) -> CheckOutcome:
    """CountIncrementWordChecker: the first keyword is found exactly once and the second exactly twice.

    Example:
        >>> keywords_once_and_twice("A rose is a rose.", keyword1="is", keyword2="rose").passed
        True
    """
    first = expect(_count_occurrences(keyword1, text), f"{quote(keyword1.strip())} place", 1)
    second = expect(_count_occurrences(keyword2, text), f"{quote(keyword2.strip())} place", 2)
    return CheckOutcome(first.passed and second.passed, f"{first.reason}; {second.reason}")


@rule("ForbiddenWords", "keywords:forbidden_words", packages=("regex",))
def words_forbidden(text: str, *, forbidden_words: Words) -> CheckOutcome:
    """ForbiddenWords: none of the words, read as patterns, is found as a word, ignoring case.

    Example:
        >>> words_forbidden("The cat sat.", forbidden_words=["at"]).passed
        True
    """
    there = sorted({word for word in forbidden_words if has_match(_as_word(word), text, re.IGNORECASE)})
    return CheckOutcome(not there, f"found: {', '.join(map(quote, there))}" if there else "none found")


@rule("ExcludeWordHarderChecker")
def word_excluded(text: str, *, keyword: Word) -> CheckOutcome:
    """ExcludeWordHarderChecker: the keyword does not occur between two spaces, case-sensitive.

    At the end of a line or before a comma it is not seen, as published.

    Example:
        >>> word_excluded("a red fox", keyword="red").passed
        False
    """
    there = f" {keyword.strip()} " in text
    return CheckOutcome(not there, f"{quote(keyword.strip())} is {'' if there else 'not '}there")


@rule("KeywordSpecificPositionChecker", packages=("nltk", "punkt"))
def keyword_at_position(text: str, *, keyword: Word, n: Positive, m: Positive) -> CheckOutcome:
    """KeywordSpecificPositionChecker: the m-th token of the n-th sentence is the keyword, case-sensitive.

    Example:
        >>> keyword_at_position("It rained. We left early.", keyword="left", n=2, m=2).passed
        True
    """
    sentences = split_by_rules(text)
    tokens = tokenize_words(sentences[n - 1]) if n <= len(sentences) else ()
    if m > len(tokens):
        return CheckOutcome(False, f"sentence {n} has no token {m}")
    return CheckOutcome(tokens[m - 1] == keyword.strip(), f"token {m} of sentence {n} is {quote(tokens[m - 1])}")


@rule("FirstWordSentChecker")
def first_word_of_sentences(text: str, *, first_word: Word) -> CheckOutcome:
    """FirstWordSentChecker: every sentence starts with the word, ignoring case; punctuation attached to it counts.

    Example:
        >>> first_word_of_sentences("We ran. We fell.", first_word="we").passed
        True
    """
    return _judge_words(split_by_rules(text), 0, first_word, _as_is)


@rule("LastWordSentChecker")
def last_word_of_sentences(text: str, *, last_word: Word) -> CheckOutcome:
    """LastWordSentChecker: every sentence ends with the word, without punctuation, ignoring case.

    Example:
        >>> last_word_of_sentences("I sing. You SING!", last_word="sing").passed
        True
    """
    return _judge_words(split_by_rules(text), -1, last_word, _bare)


@rule("FirstWordAnswerChecker")
def first_word_of_answer(text: str, *, first_word: Word) -> CheckOutcome:
    """FirstWordAnswerChecker: the response starts with the word, ignoring case; punctuation attached to it counts.

    Example:
        >>> first_word_of_answer("Yes, sir.", first_word="yes").passed
        False
    """
    return _judge_words((text,), 0, first_word, _as_is)


@rule("LastWordAnswerChecker")
def last_word_of_answer(text: str, *, last_word: Word) -> CheckOutcome:
    """LastWordAnswerChecker: the response ends with the word, without punctuation, ignoring case.

    Example:
        >>> last_word_of_answer("That is the End.", last_word="end").passed
        True
    """
    return _judge_words((text,), -1, last_word, _bare)


@rule("StartEndChecker", packages=("nltk", "punkt"))
def starts_as_it_ends(text: str) -> CheckOutcome:
    """StartEndChecker: the first token is the last token, ignoring case; a final mark is a token.

    Example:
        >>> starts_as_it_ends("Rain brings rain").passed, starts_as_it_ends("Rain brings rain.").passed
        (True, False)
    """
    tokens = tokenize_words(text)
    if len(tokens) < 2:
        return CheckOutcome(False, "it has fewer than two tokens")
    passed = tokens[0].lower() == tokens[-1].lower()
    return CheckOutcome(passed, f"it starts with {quote(tokens[0])} and ends with {quote(tokens[-1])}")


@rule("PalindromeBasicChecker")
def palindrome(text: str) -> CheckOutcome:
    """PalindromeBasicChecker: some word between spaces reads the same backwards; one letter is enough.

    Example:
        >>> palindrome("At noon we ate")
        CheckOutcome(passed=True, reason="found 'noon'")
    """
    word = next((word for word in text.split() if word == word[::-1]), None)
    return CheckOutcome(word is not None, "no palindrome" if word is None else f"found {quote(word)}")


def _count_occurrences(keyword: str, text: str) -> int:
    return len(find_all(as_pattern(keyword.strip()), text, re.IGNORECASE))


def _as_word(word: str) -> str:
    pattern = as_pattern(word)
    if pattern == word:
        return rf"\b{pattern}\b"
    return rf"(?<!\w){re.escape(word)}(?!\w)"


def _judge_words(parts: tuple[str, ...], place: int, expected: str, cleaned: re.Pattern[str] | None) -> CheckOutcome:
    for part in parts:
        words = part.split()
        if not words:
            return CheckOutcome(False, "a sentence is empty")
        word = cleaned.sub("", words[place]) if cleaned is not None else words[place]
        if word.lower() != expected.strip().lower():
            return CheckOutcome(False, f"found {quote(word)}; expected {quote(expected.strip())}")
    return CheckOutcome(True, f"{quote(expected.strip())} is in its place")


_as_is = None
_bare = re.compile(r"[^\w\s]")


@rule("RepeatPromptThenAnswer", "combination:repeat_prompt")
def repeats_prompt_first(text: str, *, prompt_to_repeat: Word) -> CheckOutcome:
    """RepeatPromptThenAnswer: the response starts with the prompt, ignoring case.

    Example:
        >>> repeats_prompt_first("Why rain? Because.", prompt_to_repeat="why rain?").passed
        True
    """
    passed = _normalize(text).startswith(_normalize(prompt_to_repeat))
    return CheckOutcome(passed, f"it starts with {quote(text.strip()[: len(prompt_to_repeat)])}")


@rule("CopyChecker", "CopyingSimpleChecker")
def copies_prompt(text: str, *, prompt_to_repeat: Word) -> CheckOutcome:
    r"""CopyChecker and CopyingSimpleChecker: the response is the prompt and nothing else, ignoring case.

    Example:
        >>> copies_prompt(" WHY RAIN?\n", prompt_to_repeat="Why rain?").passed
        True
    """
    return judge_copy(text, prompt_to_repeat)


@rule("CopyingMultipleChecker")
def copies_prompt_often(text: str, *, prompt_to_repeat: Word, N: Positive) -> CheckOutcome:
    r"""CopyingMultipleChecker: the response is N copies of the prompt separated by `******`.

    Example:
        >>> copies_prompt_often("Why?\n******\nWhy?", prompt_to_repeat="Why?", N=2).passed
        True
    """
    copies = text.split("******")
    if len(copies) != N:
        return expect(len(copies), "copied part", N)
    return next(
        (outcome for copy in copies if not (outcome := judge_copy(copy, prompt_to_repeat)).passed), judge_copy("", "")
    )


@rule("CopySpanIdxChecker")
def copies_span(text: str, *, prompt_to_repeat: Word, n_start: Natural, n_end: Natural) -> CheckOutcome:
    """CopySpanIdxChecker: the response is the prompt's characters from n_start up to n_end, exclusive.

    Example:
        >>> copies_span("rain", prompt_to_repeat="Why rain?", n_start=4, n_end=8).passed
        True
    """
    return judge_copy(text, prompt_to_repeat[n_start:n_end])


@rule("RepeatPhraseChecker", packages=("regex",))
def repeats_phrase(text: str, *, phrase: Word, small_n: Positive) -> CheckOutcome:
    """RepeatPhraseChecker: exactly the given number of variants of the phrase, each with exactly one word changed.

    A variant runs from the phrase's first word to the nearest last word on the same line.

    Example:
        >>> repeats_phrase("a red fox ran; a shy fox ran", phrase="a big fox ran", small_n=2).passed
        True
    """
    words = phrase.split()
    variants = find_all(rf"{re.escape(words[0])} .*? {re.escape(words[-1])}", text)
    if len(variants) != small_n:
        return expect(len(variants), "variant", small_n)
    for variant in map(str.split, variants):
        changed = sum(ours != theirs for ours, theirs in zip(variant, words, strict=False))
        if len(variant) != len(words) or changed != 1:
            return CheckOutcome(False, f"{quote(' '.join(variant))} does not change exactly one word")
    return CheckOutcome(True, f"{pluralize(len(variants), 'variant')}, each with one word changed")


@rule("EndChecker", "startend:end_checker")
def end_phrase(text: str, *, end_phrase: Word) -> CheckOutcome:
    """EndChecker: the response ends with the phrase, ignoring case; quotes around it all are allowed.

    Example:
        >>> end_phrase('"That is all."', end_phrase="that is all.").passed
        True
    """
    body = text.strip().strip('"').lower()
    passed = body.endswith(end_phrase.strip().lower())
    return CheckOutcome(passed, f"it ends with {quote(body[-len(end_phrase.strip()) :])}")


@rule("TwoResponsesChecker", "combination:two_responses")
def two_responses(text: str) -> CheckOutcome:
    r"""TwoResponsesChecker: exactly two different parts between `******`, none empty except at the edges.

    Example:
        >>> two_responses("Yes.\n******\nNo.").passed
        True
    """
    parts = [part.strip() for part in text.split("******")]
    if not all(parts[1:-1]):
        return CheckOutcome(False, "a response is empty")
    given = [part for part in parts if part]
    if len(given) != 2:
        return expect(len(given), "response", 2)
    return CheckOutcome(given[0] != given[1], f"the two are {'the same' if given[0] == given[1] else 'different'}")


def _normalize(text: str) -> str:
    return text.strip().lower()


def judge_copy(text: str, expected: str) -> CheckOutcome:
    """Return whether a text is a copy of the expected one, ignoring case and space around it.

    Example:
        >>> judge_copy(" WHY? ", "Why?").passed
        True
    """
    passed = _normalize(text) == _normalize(expected)
    return CheckOutcome(passed, "it is copied" if passed else f"{quote(text.strip())} is not a copy")
