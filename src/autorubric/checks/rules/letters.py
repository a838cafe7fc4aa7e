"""Verifiers on letters, case, marks and language."""

import re
from itertools import pairwise
from typing import Annotated

from annotated_types import Len

from autorubric.checks.check import CheckOutcome, Natural, Positive, Relation, compare, expect, quote, rule
from autorubric.checks.language import LanguageCode, detect_language, is_language
from autorubric.checks.length import split_by_model, split_by_rules, tokenize_words
from autorubric.checks.rules.words import Word
from autorubric.errors import pluralize


@rule("LetterFrequencyChecker", "keywords:letter_frequency")
def letter_frequency(
    text: str, *, letter: Annotated[str, Len(1, 1)], let_frequency: Natural, let_relation: Relation
) -> CheckOutcome:
    """LetterFrequencyChecker: the letter, in either case, occurs less often than, or at least as often as, given.

    Example:
        >>> letter_frequency("Anna", letter="a", let_frequency=2, let_relation="at least").passed
        True
    """
    return compare(text.lower().count(letter.lower()), f"{letter.lower()!r}", let_relation, let_frequency)


@rule("LetterCountingChecker")
def letter_count(text: str, *, N: Natural, relation: Relation) -> CheckOutcome:
    """LetterCountingChecker: the number of ASCII letters is less than, or at least, N.

    Example:
        >>> letter_count("né 42", N=2, relation="less than").passed
        True
    """
    return compare(len(re.findall("[a-zA-Z]", text)), "ASCII letter", relation, N)


@rule("LowercaseCountingChecker")
def lowercase_words(text: str, *, N: Natural) -> CheckOutcome:
    """LowercaseCountingChecker: at most N words of ASCII small letters only.

    Example:
        >>> lowercase_words("Only two here", N=1)
        CheckOutcome(passed=False, reason='2 lowercase words; expected at most 1')
    """
    count = len(re.findall(r"\b[a-z]+\b", text))
    return CheckOutcome(count <= N, f"{pluralize(count, 'lowercase word')}; expected at most {N}")


@rule("CapitalWordFrequencyChecker", "change_case:capital_word_frequency", packages=("nltk", "punkt"))
def capital_words(text: str, *, capital_frequency: Natural, capital_relation: Relation) -> CheckOutcome:
    """CapitalWordFrequencyChecker: the number of tokens in capitals is less than, or at least, the given one.

    Tokens are NLTK's: `WELL-KNOWN` is one, and `I` and `B2` count too.

    Example:
        >>> capital_words("STOP now", capital_frequency=1, capital_relation="at least").passed
        True
    """
    count = sum(token.isupper() for token in tokenize_words(text))
    return compare(count, "capital word", capital_relation, capital_frequency)


@rule("CapitalLettersEnglishChecker", "change_case:english_capital", packages=("langdetect",))
def english_capitals(text: str) -> CheckOutcome:
    """CapitalLettersEnglishChecker: no small letter, and English.

    Example:
        >>> english_capitals("THE WEATHER IS LOVELY TODAY.").passed
        True
    """
    return _judge_english(text) if text.isupper() else CheckOutcome(False, "it is not all in capitals")


@rule("LowercaseLettersEnglishChecker", "change_case:english_lowercase", packages=("langdetect",))
def english_lowercase(text: str) -> CheckOutcome:
    """LowercaseLettersEnglishChecker: no capital, and English.

    Example:
        >>> english_lowercase("The train leaves at nine.").passed
        False
    """
    return _judge_english(text) if text.islower() else CheckOutcome(False, "it is not all in lowercase")


@rule("ResponseLanguageChecker", "language:response_language", packages=("langdetect",))
def response_language(text: str, *, language: LanguageCode) -> CheckOutcome:
    """ResponseLanguageChecker: the text as a whole is in the language; passed if none can be detected.

    Example:
        >>> response_language("Le train part à neuf heures du matin.", language="fr").passed
        True
    """
    spoken = detect_language(text)
    if spoken is None:
        return CheckOutcome(True, "no language can be detected, which counts as followed")
    return CheckOutcome(is_language(spoken, language), f"the language is {spoken}; expected {language}")


@rule("CommaChecker", "punctuation:no_comma")
def no_comma(text: str) -> CheckOutcome:
    """CommaChecker: no comma; the marks of other scripts are other marks.

    Example:
        >>> no_comma("one, two").passed
        False
    """
    return _judge_absent(",", text)


@rule("PunctuationDotChecker")
def no_dot(text: str) -> CheckOutcome:
    """PunctuationDotChecker: no full stop anywhere.

    Example:
        >>> no_dot("no end").passed
        True
    """
    return _judge_absent(".", text)


@rule("PunctuationExclamationChecker")
def no_exclamation(text: str) -> CheckOutcome:
    """PunctuationExclamationChecker: no exclamation mark anywhere.

    Example:
        >>> no_exclamation("Wow!").passed
        False
    """
    return _judge_absent("!", text)


@rule("AdjacentLetterChecker")
def no_adjacent_letters(text: str) -> CheckOutcome:
    """AdjacentLetterChecker: no word's first letter directly follows the previous word's in the alphabet.

    First characters are compared by their code in lower case, so `1 2` counts as well.

    Example:
        >>> no_adjacent_letters("any bird")
        CheckOutcome(passed=False, reason="'any' is followed by 'bird'")
    """
    words = text.split()
    for before, after in pairwise(words):
        first, second = before[0].lower(), after[0].lower()
        # A few capitals become two characters in lower case; the published verifier refuses those.
        if len(first) != 1 or len(second) != 1 or ord(second) - ord(first) == 1:
            return CheckOutcome(False, f"{quote(before)} is followed by {quote(after)}")
    return CheckOutcome(True, "no two neighbours start with consecutive letters")


def _judge_english(text: str) -> CheckOutcome:
    return response_language(text, language="en")


def _judge_absent(mark: str, text: str) -> CheckOutcome:
    count = text.count(mark)
    return CheckOutcome(count == 0, f"{pluralize(count, f'{mark!r} place')}; expected none")


@rule("NumberOfWords", "length_constraints:number_words")
def number_of_words(text: str, *, num_words: Natural, relation: Relation) -> CheckOutcome:
    r"""NumberOfWords: the number of runs of word characters (`\w+`) is less than, or at least, the given one.

    Example:
        >>> number_of_words("It's late", num_words=3, relation="at least").passed
        True
    """
    return compare(len(re.findall(r"\w+", text)), "word", relation, num_words)


@rule("NumberOfSentences", "length_constraints:number_sentences", packages=("nltk", "punkt"))
def number_of_sentences(text: str, *, num_sentences: Natural, relation: Relation) -> CheckOutcome:
    """NumberOfSentences: the number of sentences, as Punkt finds them, is less than, or at least, the given one.

    Example:
        >>> number_of_sentences("Mr. Fox ran. He fell.", num_sentences=3, relation="less than").passed
        True
    """
    return compare(len(split_by_model(text)), "sentence", relation, num_sentences)


@rule("ParagraphChecker", "length_constraints:number_paragraphs")
def divided_paragraphs(text: str, *, num_paragraphs: Natural) -> CheckOutcome:
    r"""ParagraphChecker: exactly the given number of paragraphs between `***`, none empty except at the edges.

    Example:
        >>> divided_paragraphs("One.\n***\nTwo.", num_paragraphs=2).passed
        True
    """
    return _judge_paragraphs(_split_paragraphs(text), num_paragraphs)


@rule("ParagraphBasicChecker")
def two_divided_paragraphs(text: str) -> CheckOutcome:
    """ParagraphBasicChecker: exactly two paragraphs between `***` dividers.

    Example:
        >>> two_divided_paragraphs("One. *** Two. *** Three.").passed
        False
    """
    return _judge_paragraphs(_split_paragraphs(text), 2)


@rule("ParagraphBasicChecker2")
def two_spaced_paragraphs(text: str) -> CheckOutcome:
    r"""ParagraphBasicChecker2: exactly two paragraphs between blank lines (`\n\n`).

    Example:
        >>> two_spaced_paragraphs("One.\n\nTwo.").passed
        True
    """
    return _judge_paragraphs(text.split("\n\n"), 2)


@rule("ParagraphFirstWordCheck", "length_constraints:nth_paragraph_first_word")
def paragraph_first_word(
    text: str, *, num_paragraphs: Natural, nth_paragraph: Positive, first_word: Word
) -> CheckOutcome:
    r"""ParagraphFirstWordCheck: exactly the given number of spaced paragraphs, the n-th opening with the word.

    As published, the count leaves out empty paragraphs, the numbering does not. The word is compared without case,
    opening quotes, and whatever follows its first mark.

    Example:
        >>> two = "One.\n\nWell, two."
        >>> paragraph_first_word(two, num_paragraphs=2, nth_paragraph=2, first_word="well").passed
        True
    """
    paragraphs = text.split("\n\n")
    number = sum(1 for paragraph in paragraphs if paragraph.strip())
    words = paragraphs[nth_paragraph - 1].split() if nth_paragraph <= number else []
    if not words:
        return CheckOutcome(False, f"{pluralize(number, 'paragraph')}; number {nth_paragraph} is empty or not there")
    opening = re.split(r"[.,?!'\"]", words[0].lstrip("'").lstrip('"'))[0].lower()
    passed = number == num_paragraphs and opening == first_word.lower()
    return CheckOutcome(
        passed,
        f"{pluralize(number, 'paragraph')}, number {nth_paragraph} opens with {quote(opening)}; "
        f"expected {num_paragraphs} and {quote(first_word.lower())}",
    )


@rule("CountingCompositionChecker", packages=("nltk", "punkt"))
def composition(text: str, *, n_sent: Natural, n_words: Natural) -> CheckOutcome:
    """CountingCompositionChecker: three `***` paragraphs with the given numbers of sentences and tokens per sentence.

    A mark is a token: `We left.` has three.

    Example:
        >>> composition("We left. *** It rained. *** All slept.", n_sent=1, n_words=3).passed
        True
    """
    paragraphs = _split_paragraphs(text)
    for number, paragraph in enumerate(paragraphs, 1):
        parts = split_by_rules(paragraph) if paragraph.strip() else ()
        if len(parts) != n_sent:
            return CheckOutcome(False, f"paragraph {number}: {expect(len(parts), 'sentence', n_sent).reason}")
        for part in parts:
            outcome = expect(len(tokenize_words(part)), "token", n_words)
            if not outcome.passed:
                return CheckOutcome(False, f"{quote(part)}: {outcome.reason}")
    return expect(len(paragraphs), "paragraph", 3)


@rule("CountUniqueChecker", packages=("nltk", "punkt"))
def words_unique(text: str) -> CheckOutcome:
    """CountUniqueChecker: no token twice, case and punctuation included.

    Example:
        >>> words_unique("The cat saw the dog.").passed
        True
    """
    seen: set[str] = set()
    for token in tokenize_words(text):
        if token in seen:
            return CheckOutcome(False, f"{quote(token)} occurs twice")
        seen.add(token)
    return CheckOutcome(True, f"{pluralize(len(seen), 'token')}, none twice")


def _split_paragraphs(text: str) -> list[str]:
    return re.split(r"\s?\*\*\*\s?", text)


def _judge_paragraphs(parts: list[str], expected: int) -> CheckOutcome:
    if any(not part.strip() for part in parts[1:-1]):
        return CheckOutcome(False, "a paragraph is empty")
    number = len(parts) - sum(1 for place in {0, len(parts) - 1} if not parts[place].strip())
    return expect(number, "paragraph", expected)
