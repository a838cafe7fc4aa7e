"""IFBench's verifiers on counts and ratios: the ids `count:…` and `ratio:…`."""

import re
from typing import Annotated

from annotated_types import Ge, Le, MinLen

from autorubric.checks.check import CheckOutcome, Natural, Positive, expect, expect_min, judge_count, quote, rule
from autorubric.checks.length import split_by_model, tokenize_words
from autorubric.checks.rules.words import EDGES, STOP_WORDS, Word, pass_unless, strip_marks
from autorubric.errors import pluralize

Percentage = Annotated[float, Ge(0), Le(100)]

_CONJUNCTIONS = frozenset(("and", "but", "for", "nor", "or", "so", "yet"))
_NAMES = """
    Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper
    Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah
    Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan
""".split()  # noqa: SIM905 - a list of words reads best as words
_PRONOUNS = frozenset(
    """
    i me we us you he him she her it they them my mine our ours your yours his hers its their theirs myself ourselves
    yourself yourselves himself herself itself themselves this that these those who whom whose which what whoever
    whomever whatever whichever anybody anyone anything everybody everyone everything nobody nothing somebody someone
    something each either neither both all some any none
    """.split()  # noqa: SIM905
)
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")


@rule("count:word_count_range")
def words_in_range(text: str, *, min_words: Natural, max_words: Natural) -> CheckOutcome:
    r"""The number of runs of word characters (`\w+`) is in the range, bounds included.

    Example:
        >>> words_in_range("It's late", min_words=3, max_words=4).passed
        True
    """
    return judge_count(len(re.findall(r"\w+", text)), "word", at_least=min_words, at_most=max_words)


@rule("count:unique_word_count")
def unique_words(text: str, *, N: Natural) -> CheckOutcome:
    """At least N different words between spaces, ignoring case and ASCII punctuation around them.

    Example:
        >>> unique_words("Rain, rain, go away.", N=3).passed
        True
    """
    return expect_min(len({word.strip(EDGES) for word in text.lower().split()}), "different word", N)


@rule("count:conjunctions")
def conjunctions(text: str, *, small_n: Natural) -> CheckOutcome:
    """At least the given number of different coordinating conjunctions; `And` and `and,` differ, as published.

    Example:
        >>> conjunctions("Rain and wind, but no snow.", small_n=2).passed
        True
    """
    written = {word for word in text.split() if word.strip(EDGES).lower() in _CONJUNCTIONS}
    return expect_min(len(written), "different conjunction", small_n)


@rule("count:person_names")
def person_names(text: str, *, N: Natural) -> CheckOutcome:
    """At least N different names of the list of 50 that the instruction gives, as whole words.

    Example:
        >>> person_names("Emma met Liam and Emma.", N=2).passed
        True
    """
    named = [name for name in _NAMES if re.search(rf"\b{name}\b", text)]
    return expect_min(len(named), "different name", N)


@rule("count:numbers")
def numbers(text: str, *, N: Natural) -> CheckOutcome:
    """Exactly N runs of digits once ASCII punctuation is removed; `3.14` is one number.

    Example:
        >>> numbers("Pi is 3.14, about 22/7.", N=2).passed
        True
    """
    return expect(len(re.findall(r"\d+", strip_marks(text))), "number", N)


@rule("count:punctuation")
def every_mark(text: str) -> CheckOutcome:
    """Each of `. , ! ? ; :` occurs, apart from one interrobang (`?!`, `!?` or `‽`), which occurs too.

    Example:
        >>> every_mark("What?! No; yes: well, stop! Why? So.").passed
        True
    """
    interrobang = next((mark for mark in ("?!", "!?", "‽") if mark in text), None)
    if interrobang is None:
        return CheckOutcome(False, "no interrobang")
    rest = text if interrobang == "‽" else text.replace(interrobang, "", 1)
    missing = [mark for mark in ".,!?;:" if mark not in rest]
    return pass_unless(f"not found: {' '.join(missing)}" if missing else None, "every mark is there")


@rule("count:words_japanese")
def japanese_every_nth(text: str, *, N: Positive) -> CheckOutcome:
    """Every N-th word between spaces has a Japanese character; one of digits or marks only is skipped.

    Example:
        >>> japanese_every_nth("one 二 three 四", N=2).passed
        True
    """
    words = [word.strip(EDGES) for word in text.split()[N - 1 :: N]]
    foreign = next((word for word in words if word and not word.isdigit() and not _JAPANESE.search(word)), None)
    return pass_unless(f"{quote(foreign)} is not Japanese" if foreign else None, "these words are all Japanese")


@rule("count:pronouns", packages=("nltk", "punkt"))
def pronouns(text: str, *, N: Natural) -> CheckOutcome:
    """At least N pronouns of the verifier's list, repetitions counted; `she/her` is two.

    Example:
        >>> pronouns("She gave it to them.", N=3).passed
        True
    """
    tokens = tokenize_words(text.replace("/", " ").lower())
    return expect_min(sum(token in _PRONOUNS for token in tokens), "pronoun", N)


@rule("count:keywords_multiple")
def keywords_one_to_seven(
    text: str, *, keyword1: Word, keyword2: Word, keyword3: Word, keyword4: Word, keyword5: Word
) -> CheckOutcome:
    """The keywords occur 1, 2, 3, 5 and 7 times, ignoring case; inside longer words too.

    Example:
        >>> five = dict(keyword1="a", keyword2="b", keyword3="c", keyword4="d", keyword5="e")
        >>> keywords_one_to_seven("a bb ccc ddddd eeeeeee", **five).passed
        True
    """
    asked = zip((keyword1, keyword2, keyword3, keyword4, keyword5), (1, 2, 3, 5, 7), strict=True)
    for keyword, expected in asked:
        outcome = expect(text.lower().count(keyword.strip().lower()), f"{quote(keyword.strip())} place", expected)
        if not outcome.passed:
            return outcome
    return CheckOutcome(True, "every keyword occurs as often as required")


@rule("ratio:stop_words")
def stop_words(text: str, *, percentage: Percentage) -> CheckOutcome:
    r"""Of the words (`\w+`), at most the given percentage are English stop words.

    Example:
        >>> stop_words("The cat sat on a mat", percentage=50).passed
        True
    """
    words = re.findall(r"\w+", text)
    if not words:
        return CheckOutcome(False, "no words")
    share = sum(word.lower() in STOP_WORDS for word in words) / len(words) * 100
    return CheckOutcome(share <= percentage, f"{share:.1f} % stop words; expected at most {percentage:g} %")


@rule("ratio:sentence_type", packages=("nltk", "punkt"))
def two_statements_a_question(text: str) -> CheckOutcome:
    """Exactly twice as many sentences end with `.` as with `?`.

    Example:
        >>> two_statements_a_question("It rains. Is it late? We go.").passed
        True
    """
    stated, asked, _ = _count_endings(text)
    return CheckOutcome(stated == 2 * asked, f"{pluralize(stated, 'statement')}, {pluralize(asked, 'question')}")


@rule("ratio:sentence_balance", packages=("nltk", "punkt"))
def balanced_sentences(text: str) -> CheckOutcome:
    """As many sentences end with `.` as with `?` and with `!`; none of each counts as balanced, as published.

    Example:
        >>> balanced_sentences("It rains. Is it late? Go!").passed
        True
    """
    stated, asked, called = _count_endings(text)
    counts = f"{pluralize(stated, 'statement')}, {pluralize(asked, 'question')}, {pluralize(called, 'exclamation')}"
    return CheckOutcome(stated == asked == called, counts)


@rule("ratio:overlap")
def trigram_overlap(text: str, *, reference_text: Annotated[str, MinLen(1)], percentage: Percentage) -> CheckOutcome:
    """Of the distinct character trigrams, the given percentage, plus or minus 2, is in the reference.

    Example:
        >>> trigram_overlap("abcd", reference_text="abcz", percentage=50).passed
        True
    """
    ours, theirs = ({part[i : i + 3] for i in range(len(part) - 2)} for part in (text, reference_text))
    if not ours:
        return CheckOutcome(False, "fewer than three characters")
    share = len(ours & theirs) / len(ours) * 100
    passed = percentage - 2 <= share <= percentage + 2
    return CheckOutcome(passed, f"{share:.1f} % of the trigrams are shared; expected {percentage:g} % ± 2 %")


@rule("ratio:sentence_words", packages=("nltk", "punkt"))
def three_equal_sentences(text: str) -> CheckOutcome:
    """Exactly three sentences of the same length in characters; repeated words are not looked for, as published.

    Example:
        >>> three_equal_sentences("We ran. He sat. It fell.").passed
        False
    """
    lengths = [len(sentence.strip()) for sentence in split_by_model(text)]
    if len(lengths) != 3:
        return expect(len(lengths), "sentence", 3)
    return CheckOutcome(len(set(lengths)) == 1, f"the sentences have {', '.join(map(str, lengths))} characters")


def _count_endings(text: str) -> tuple[int, int, int]:
    parts = split_by_model(text)
    stated, asked, called = (sum(part.endswith(mark) for part in parts) for mark in ".?!")
    return stated, asked, called
