"""IFBench's verifiers on words and sentences: the ids `words:…` and `sentence:…`."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import groupby, pairwise
from string import ascii_lowercase, punctuation
from typing import TYPE_CHECKING

from autorubric.checks.check import CannotCheck, CheckOutcome, Natural, Positive, expect_min, quote, rule
from autorubric.checks.length import split_by_model, tokenize_words
from autorubric.checks.rules.words import EDGES, Word, pass_unless, strip_marks
from autorubric.errors import pluralize

if TYPE_CHECKING:
    from nltk.tag.perceptron import PerceptronTagger

_TAGGER_MODEL = "averaged_perceptron_tagger_eng"
_CONSONANTS = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_PRIMES = frozenset(number for number in range(2, 98) if all(number % part for part in range(2, number)))


@rule("words:alphabet")
def alphabet_loop(text: str) -> CheckOutcome:
    """Each word starts with the letter after the previous word's, `a` after `z`; the first letter is free.

    Example:
        >>> alphabet_loop("Yaks zigzag across bogs.").passed
        True
    """
    words = strip_marks(text).split()
    first = ascii_lowercase.find(words[0][0].lower()) if words else -1
    if first < 0:
        return CheckOutcome(False, "it does not start with a letter from a to z")
    for place, word in enumerate(words[1:], first + 1):
        letter = ascii_lowercase[place % 26]
        if word.lower()[0] != letter:
            return CheckOutcome(False, f"{quote(word)} does not start with {letter!r}")
    return CheckOutcome(True, "every word starts with the next letter")


@rule("words:vowel")
def three_vowels(text: str) -> CheckOutcome:
    """One paragraph (no line end inside) with at most three of the vowels a, e, i, o, u.

    Example:
        >>> three_vowels("A cat sat on a mat in Spain.").passed
        True
    """
    if "\n" in text.strip():
        return CheckOutcome(False, "more than one paragraph")
    vowels = sorted(set("aeiou") & set(text.lower()))
    return CheckOutcome(len(vowels) <= 3, f"the vowels are {', '.join(vowels) or 'none'}; expected at most 3")


@rule("words:consonants")
def consonant_clusters(text: str) -> CheckOutcome:
    """Every word between spaces has two of the consonants b to z side by side, `y` among them.

    Example:
        >>> consonant_clusters("Strong winds").passed, consonant_clusters("a storm").passed
        (True, False)
    """
    without = next((word for word in text.lower().split() if not _CONSONANTS.search(word)), None)
    return pass_unless(f"{quote(without)} has no consonant cluster" if without else None, "every word has a cluster")


@rule("words:palindrome")
def ten_palindromes(text: str) -> CheckOutcome:
    """At least 10 words of five or more characters read the same backwards, ignoring case and ASCII punctuation.

    Example:
        >>> ten_palindromes("Level, radar, civic. " * 3 + "kayak").passed
        True
    """
    words = strip_marks(text).lower().split()
    return expect_min(sum(len(word) >= 5 and word == word[::-1] for word in words), "palindrome", 10)


@rule("words:prime_lengths")
def prime_lengths(text: str) -> CheckOutcome:
    """Every word, ASCII punctuation removed, has a prime number of characters, at most 97.

    Example:
        >>> prime_lengths("It was the first.").passed
        True
    """
    word = next((word for word in strip_marks(text).split() if len(word) not in _PRIMES), "")
    return pass_unless(
        f"{quote(word)} has {pluralize(len(word), 'character')}" if word else None, "every length is prime"
    )


@rule("words:start_verb", packages=("nltk", "punkt"))
def starts_with_verb(text: str) -> CheckOutcome:
    """The first token is a verb by NLTK's part-of-speech tagger, whose model must be downloaded once.

    Raises:
        CannotCheck: NLTK's model of English parts of speech is not on this machine.

    Example:
        >>> starts_with_verb.__name__
        'starts_with_verb'
    """
    tokens = tokenize_words(text)
    if not tokens:
        return CheckOutcome(False, "it has no tokens")
    # A sentence of the whole response, as published: what follows may change the tag of the first token.
    tag = _load_tagger(_find_model_folders()).tag(list(tokens))[0][1]
    return CheckOutcome("VB" in tag, f"{quote(tokens[0])} is tagged {tag}")


def _find_model_folders() -> tuple[str, ...]:
    import nltk

    return tuple(map(str, nltk.data.path))


@lru_cache(maxsize=1)
def _load_tagger(folders: tuple[str, ...]) -> PerceptronTagger:
    from nltk.tag.perceptron import PerceptronTagger

    try:
        return PerceptronTagger()
    except LookupError:
        raise CannotCheck(f"NLTK's tagger has no model; run: python -m nltk.downloader {_TAGGER_MODEL}") from None


@rule("words:repeats")
def limited_repeats(text: str, *, small_n: Natural) -> CheckOutcome:
    """No word occurs more often than the given number, ignoring case and ASCII punctuation.

    Example:
        >>> limited_repeats("Rain, rain, go away.", small_n=1).passed
        False
    """
    most = Counter(strip_marks(text.lower()).split()).most_common(1)
    word, count = most[0] if most else ("", 0)
    return CheckOutcome(
        count <= small_n, f"{quote(word)} occurs {pluralize(count, 'time')}; expected at most {small_n}"
    )


@rule("words:odd_even_syllables", packages=("syllapy",))
def alternating_syllables(text: str) -> CheckOutcome:
    """Words with odd and even numbers of syllables alternate, as syllapy counts them.

    Example:
        >>> alternating_syllables("The river was under clouds again.").passed
        True
    """
    import syllapy

    words = strip_marks(text).lower().split()
    counts = [syllapy.count(word) for word in words]
    for (word, count), (following, next_count) in pairwise(zip(words, counts, strict=True)):
        if count % 2 == next_count % 2:
            return CheckOutcome(False, f"{quote(word)} has {count} and {quote(following)} {next_count} syllables")
    return CheckOutcome(True, "odd and even numbers of syllables alternate")


@rule("words:last_first", packages=("nltk", "punkt"))
def chained_sentences(text: str) -> CheckOutcome:
    """Each sentence starts with the word that ended the previous one, ignoring case.

    Example:
        >>> chained_sentences("We saw rain. Rain fell.").passed
        True
    """
    for sentence, following in pairwise(split_by_model(text)):
        last, first = sentence.rstrip(EDGES).split(), following.lstrip(EDGES).split()
        if not last or not first or last[-1].lower() != first[0].lower():
            shown = quote(last[-1] if last else sentence), quote(first[0] if first else following)
            return CheckOutcome(False, f"a sentence ends with {shown[0]} and the next starts with {shown[1]}")
    return CheckOutcome(True, "every sentence starts with the last word before it")


@rule("words:paragraph_last_first")
def framed_paragraphs(text: str) -> CheckOutcome:
    """Each line ends with the word it starts with, ignoring case and ASCII punctuation at both ends of the line.

    Example:
        >>> framed_paragraphs("Rain is rain.").passed
        True
    """
    for line in text.split("\n"):
        words = line.strip().lower().strip(EDGES).split()
        if words and words[0] != words[-1]:
            return CheckOutcome(False, f"a line starts with {quote(words[0])} and ends with {quote(words[-1])}")
    return CheckOutcome(True, "every line ends with its first word")


@rule("words:no_consecutive")
def no_shared_first_letters(text: str) -> CheckOutcome:
    """No word starts with the same character as the previous one, ignoring case and ASCII punctuation.

    Example:
        >>> no_shared_first_letters("A cat is an animal").passed
        False
    """
    pairs = pairwise(strip_marks(text.lower()).split())
    same = next((f"{quote(word)} and {quote(other)}" for word, other in pairs if word[0] == other[0]), None)
    return pass_unless(f"{same} start alike" if same else None, "no two consecutive words start alike")


@rule("words:keywords_specific_position", packages=("nltk", "punkt"))
def keyword_as_nth_word(text: str, *, keyword: Word, n: Positive, m: Positive) -> CheckOutcome:
    """The m-th token with a letter or digit of the n-th sentence is the keyword, ignoring case.

    Example:
        >>> keyword_as_nth_word("It rained. Well, we left.", keyword="left", n=2, m=3).passed
        True
    """
    parts = split_by_model(text)
    sentence = parts[n - 1] if n <= len(parts) else ""
    words = [token for token in tokenize_words(sentence) if any(map(str.isalnum, token))]
    if m > len(words):
        return CheckOutcome(False, f"sentence {n} has no word {m}")
    passed = words[m - 1].lower() == keyword.strip().lower()
    return CheckOutcome(passed, f"word {m} of sentence {n} is {quote(words[m - 1])}")


@rule("words:words_position", packages=("nltk", "punkt"))
def keyword_second_from_both_ends(text: str, *, keyword: Word) -> CheckOutcome:
    """The second token and the second to last are the keyword, ignoring case and one final mark.

    Example:
        >>> keyword_second_from_both_ends("The rain is like rain today.", keyword="rain").passed
        True
    """
    tokens = tokenize_words(text)
    words = tokens[:-1] if tokens and tokens[-1] in punctuation else tokens
    if len(words) < 2:
        return CheckOutcome(False, "fewer than two words")
    second, last = words[1], words[-2]
    passed = second.lower() == last.lower() == keyword.strip().lower()
    return CheckOutcome(passed, f"the second word is {quote(second)}, the second to last {quote(last)}")


@rule("sentence:alliteration_increment", packages=("nltk", "punkt"))
def rising_alliteration(text: str) -> CheckOutcome:
    """Each sentence has more words in runs with one first letter than the previous one; the first may have none.

    Example:
        >>> rising_alliteration("We left. Big bears ran. Cold cats came.").passed
        True
    """
    before = -1
    for sentence in split_by_model(text):
        words = [bare for word in sentence.lower().split() if (bare := word.lstrip(EDGES))]
        runs = (len(list(run)) for _, run in groupby(words, key=lambda word: word[0]))
        alliterative = sum(length for length in runs if length > 1)
        if alliterative <= before:
            return CheckOutcome(False, f"{quote(sentence)} has {alliterative} alliterative words after {before}")
        before = alliterative
    return CheckOutcome(True, "every sentence has more alliterative words")


@rule("sentence:keyword", packages=("nltk", "punkt"))
def keyword_in_nth_sentence(text: str, *, word: Word, N: Positive) -> CheckOutcome:
    """The N-th sentence contains the keyword as a whole word, ignoring case.

    Example:
        >>> keyword_in_nth_sentence("It rained. We left.", word="LEFT", N=2).passed
        True
    """
    parts = split_by_model(text)
    if len(parts) < N:
        return CheckOutcome(False, f"there is no sentence {N}")
    there = re.search(rf"\b{re.escape(word)}\b", parts[N - 1], re.IGNORECASE) is not None
    return CheckOutcome(there, f"sentence {N} {'contains' if there else 'does not contain'} {quote(word)}")


@rule("sentence:increment", packages=("nltk", "punkt"))
def growing_sentences(text: str, *, small_n: Natural) -> CheckOutcome:
    """Each sentence has exactly the given number of words more than the previous one.

    Example:
        >>> growing_sentences("We left. It was late then.", small_n=2).passed
        True
    """
    lengths = [len(strip_marks(sentence).split()) for sentence in split_by_model(text)]
    wrong = next((pair for pair in pairwise(lengths) if pair[1] != pair[0] + small_n), None)
    problem = f"a sentence of {wrong[1]} words follows one of {wrong[0]}" if wrong else None
    return pass_unless(problem, f"every sentence has {pluralize(small_n, 'word')} more")
