"""M-IFEval's Spanish verifiers that a rule decides: the ids `es:…`."""

import re
import unicodedata
from string import punctuation
from typing import Annotated, Literal

from pydantic import Field

from autorubric.checks.check import CheckOutcome, Natural, Positive, expect, judge_count, quote, rule
from autorubric.checks.language import detect_language
from autorubric.checks.patterns import as_pattern, find_all, has_match
from autorubric.checks.rules.formats import highlights, json_format, placeholders, quotation, sections, title
from autorubric.checks.rules.letters import divided_paragraphs, no_comma, response_language
from autorubric.checks.rules.words import Word, keywords_exist, repeats_prompt_first, two_responses, words_forbidden

Bound = Literal["al menos", "como máximo"]
"""At least, at most."""
AtLeast = Literal["al menos"]

_ANSWERS = ("Sí.", "No.", "Quizás.")

rule("es:combination:repeat_prompt")(repeats_prompt_first)
rule("es:combination:two_responses")(two_responses)
rule("es:detectable_format:json_format")(json_format)
rule("es:detectable_format:title")(title)
rule("es:keywords:existence", packages=("regex",))(keywords_exist)
rule("es:keywords:forbidden_words", packages=("regex",))(words_forbidden)
rule("es:language:response_language", packages=("langdetect",))(response_language)
rule("es:length_constraints:number_paragraphs")(divided_paragraphs)
rule("es:punctuation:no_comma")(no_comma)
rule("es:startend:quotation")(quotation)


@rule("es:change_case:spanish_capital", packages=("langdetect",))
def spanish_capitals(text: str) -> CheckOutcome:
    """No small letter, and Spanish.

    Example:
        >>> spanish_capitals("EL TREN SALE A LAS NUEVE DE LA MAÑANA.").passed
        True
    """
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if letter.isalpha())
    small = next((letter for letter in letters if not letter.isupper() and not unicodedata.combining(letter)), None)
    return _judge_spanish(text.lower()) if small is None else CheckOutcome(False, f"{small!r} is not a capital")


@rule("es:change_case:spanish_lowercase", packages=("langdetect",))
def spanish_lowercase(text: str) -> CheckOutcome:
    """No capital, and Spanish.

    Example:
        >>> spanish_lowercase("el tren sale a las nueve de la mañana.").passed
        True
    """
    return _judge_spanish(text) if text.islower() else CheckOutcome(False, "it is not all in lowercase")


@rule("es:detectable_content:number_placeholders")
def spanish_placeholders(text: str, *, num_placeholders: Natural, relation: AtLeast) -> CheckOutcome:
    """At least (al menos) the given number of `[…]` within lines.

    Example:
        >>> spanish_placeholders("[nombre], [fecha]", num_placeholders=2, relation="al menos").passed
        True
    """
    return placeholders(text, num_placeholders=num_placeholders)


@rule("es:detectable_content:postscript", packages=("regex",))
def spanish_postscript(text: str, *, postscript_marker: Word) -> CheckOutcome:
    """The marker, read as a pattern, is found, ignoring case; `P.D.` may contain a space.

    Example:
        >>> spanish_postscript("Adiós. P. D. Trae té.", postscript_marker="P.D.").passed
        True
    """
    marker = postscript_marker.strip()
    pattern = r"p\.\s?d\." if marker == "P.D." else as_pattern(marker.lower())
    there = has_match(pattern, text.lower())
    return CheckOutcome(there, f"the postscript {quote(marker)} is {'' if there else 'not '}there")


@rule("es:detectable_format:constrained_response")
def spanish_answer(text: str) -> CheckOutcome:
    """It contains `Sí.`, `No.` or `Quizás.`.

    Example:
        >>> spanish_answer("Quizás.").passed
        True
    """
    answer = next((answer for answer in _ANSWERS if answer in text), None)
    return CheckOutcome(answer is not None, f"found {quote(answer)}" if answer else "none of the fixed answers")


@rule("es:detectable_format:multiple_sections", packages=("regex",))
def spanish_sections(text: str, *, section_spliter: Word, num_sections: Natural, relation: AtLeast) -> CheckOutcome:
    """The splitter, read as a pattern, precedes a number at least (al menos) the given number of times.

    Example:
        >>> told = {"section_spliter": "SECCIÓN", "num_sections": 2, "relation": "al menos"}
        >>> spanish_sections("SECCIÓN 1: a. SECCIÓN 2: b.", **told).passed
        True
    """
    return sections(text, section_spliter=section_spliter, num_sections=num_sections)


@rule("es:detectable_format:number_bullet_lists", packages=("regex",))
def spanish_bullets(text: str, *, num_bullets: Natural) -> CheckOutcome:
    """Exactly the given number of lines start with `*` but not `**`; dashes do not count.

    Example:
        >>> spanish_bullets("* a", num_bullets=1).passed
        True
    """
    return expect(len(find_all(r"^\s*\*[^\*].*$", text, re.MULTILINE)), "bullet", num_bullets)


@rule("es:detectable_format:number_highlighted_sections", packages=("regex",))
def spanish_highlights(text: str, *, num_highlights: Natural, relation: AtLeast) -> CheckOutcome:
    """At least (al menos) the given number of non-empty `*…*` and `**…**` within lines.

    Example:
        >>> spanish_highlights("*uno* y **dos**", num_highlights=2, relation="al menos").passed
        True
    """
    return highlights(text, num_highlights=num_highlights)


@rule("es:keywords:frequency", packages=("regex",))
def spanish_keyword_frequency(text: str, *, keyword: Word, frequency: Natural, relation: Bound) -> CheckOutcome:
    """The keyword, a pattern, occurs at least (al menos), or at most (como máximo), the given number of times.

    Example:
        >>> spanish_keyword_frequency("Sol y sol", keyword="sol", frequency=1, relation="como máximo").passed
        False
    """
    number = len(find_all(as_pattern(keyword.strip()), text, re.IGNORECASE))
    return _judge_bound(number, f"{quote(keyword.strip())} place", relation, frequency)


@rule("es:keywords:letter_frequency")
def spanish_letter_frequency(
    text: str, *, letter: Annotated[str, Field(pattern="^[A-Za-z]$")], let_frequency: Natural, let_relation: Bound
) -> CheckOutcome:
    """The letter, in either case, occurs at least (al menos), or at most (como máximo), the given number of times.

    Example:
        >>> spanish_letter_frequency("Ana", letter="a", let_frequency=2, let_relation="al menos").passed
        True
    """
    return _judge_bound(text.lower().count(letter.lower()), quote(letter.lower()), let_relation, let_frequency)


@rule("es:length_constraints:nth_paragraph_first_word")
def spanish_paragraph_start(
    text: str, *, num_paragraphs: Positive, nth_paragraph: Positive, first_word: Word
) -> CheckOutcome:
    r"""Exactly the given number of spaced paragraphs, the n-th opening with the words, ignoring marks and case.

    Example:
        >>> spanish_paragraph_start("Sol.\n\nLa mar.", num_paragraphs=2, nth_paragraph=2, first_word="la mar").passed
        True
    """
    parts = text.split("\n\n")
    number = sum(bool(part.strip()) for part in parts)
    if number != num_paragraphs or nth_paragraph > number:
        return expect(number, "paragraph", num_paragraphs)
    expected, bare = first_word.lower().split(), str.maketrans("", "", punctuation)
    start = [word.translate(bare).lower() for word in parts[nth_paragraph - 1].split()[: len(expected)]]
    return CheckOutcome(start == expected, f"paragraph {nth_paragraph} starts with {quote(' '.join(start))}")


@rule("es:punctuation:question_marks")
def spanish_question(text: str) -> CheckOutcome:
    """It contains a `¿…?` whose content is not blank.

    Example:
        >>> spanish_question("¿Qué?").passed
        True
    """
    return _judge_wrapped(text, "¿", "?")


@rule("es:punctuation:exclamation_marks")
def spanish_exclamation(text: str) -> CheckOutcome:
    """It contains a `¡…!` whose content is not blank.

    Example:
        >>> spanish_exclamation("¡Sol!").passed
        True
    """
    return _judge_wrapped(text, "¡", "!")


@rule("es:startend:end_checker")
def spanish_end(text: str, *, end_phrase: Word) -> CheckOutcome:
    """The response ends with the phrase, ignoring case, quotes around it all and one final full stop.

    Example:
        >>> spanish_end("Eso es todo.", end_phrase="eso es todo").passed
        True
    """
    body = text.strip().strip('"').lower().removesuffix(".")
    return CheckOutcome(body.endswith(end_phrase.strip().lower()), f"it ends with {quote(body[-40:])}")


def _judge_bound(number: int, noun: str, bound: Bound, threshold: int) -> CheckOutcome:
    low, high = (threshold, None) if bound == "al menos" else (None, threshold)
    return judge_count(number, noun, at_least=low, at_most=high)


def _judge_spanish(text: str) -> CheckOutcome:
    spoken = detect_language(text)
    return CheckOutcome(spoken in ("es", None), f"the language is {spoken or 'unknown'}; expected es")


def _judge_wrapped(text: str, opening: str, closing: str) -> CheckOutcome:
    # Each closing mark ends what the first opening mark since the last one began.
    parts = (part.partition(opening) for part in text.split(closing)[:-1])
    there = any(mark and inside.strip(opening).strip() for _, mark, inside in parts)
    return CheckOutcome(there, f"{opening}…{closing} is {'' if there else 'not '}there")
