"""Verifiers on the format of a response: lists, sections, titles, wrappings."""

from __future__ import annotations

import json
import re

from autorubric.checks.check import CannotCheck, CheckOutcome, Natural, at_least, exactly, quoted, rule
from autorubric.checks.length import rule_sentences
from autorubric.checks.patterns import find_all, found, keyword_pattern
from autorubric.checks.rules.words import Word

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}


@rule("BulletListChecker", "detectable_format:number_bullet_lists", packages=("regex",))
def bullet_list(text: str, *, num_bullets: Natural) -> CheckOutcome:
    r"""BulletListChecker: exactly that many lines open with `-`, or with `*` that no second `*` follows.

    Nested bullets count, and so do dividers of dashes, as published.

    Example:
        >>> bullet_list("* one\n* two\n**bold**", num_bullets=2).passed
        True
    """
    stars = find_all(r"^\s*\*[^\*].*$", text, re.MULTILINE)
    dashes = find_all(r"^\s*-.*$", text, re.MULTILINE)
    return exactly(len(stars) + len(dashes), "bullet", num_bullets)


@rule("HighlightSectionChecker", "detectable_format:number_highlighted_sections", packages=("regex",))
def highlights(text: str, *, num_highlights: Natural) -> CheckOutcome:
    """HighlightSectionChecker: at least that many non-empty `*…*` and `**…**` within lines.

    Example:
        >>> highlights("*one* and **two** and ** **", num_highlights=2).passed
        True
    """
    single = [part for part in find_all(r"\*[^\n*]*\*", text) if part.strip("*").strip()]
    double = [part for part in find_all(r"\*\*[^\n*]*\*\*", text) if part[2:-2].strip()]
    return at_least(len(single) + len(double), "highlight", num_highlights)


@rule("SectionChecker", "detectable_format:multiple_sections", packages=("regex",))
def sections(text: str, *, section_spliter: Word, num_sections: Natural) -> CheckOutcome:
    r"""SectionChecker: the splitter, read as a pattern, occurs before a number at least that often.

    Example:
        >>> sections("SECTION 1\nA\nSECTION 2\nB", section_spliter="SECTION", num_sections=2).passed
        True
    """
    return at_least(
        len(find_all(rf"{keyword_pattern(section_spliter.strip())}\s?\d+", text)), "section", num_sections
    )


@rule("TitleChecker", "detectable_format:title")
def title(text: str) -> CheckOutcome:
    r"""TitleChecker: some `<<…>>` within a line contains more than space.

    Example:
        >>> title("<<Ode to rain>>\nDrip.").passed, title("<< >>").passed
        (True, False)
    """
    # From the first << of a line to its last >>, something between, as the published pattern takes it.
    places = ((line, line.find("<<"), line.rfind(">>")) for line in text.split("\n"))
    titles = (line[start : end + 2] for line, start, end in places if start >= 0 and end >= start + 3)
    there = next((bare for wrapped in titles if (bare := wrapped.lstrip("<").rstrip(">").strip())), None)
    return CheckOutcome(there is not None, "no title in << >>" if there is None else f"the title is {quoted(there)}")


@rule("PlaceholderChecker", "detectable_content:number_placeholders")
def placeholders(text: str, *, num_placeholders: Natural) -> CheckOutcome:
    """PlaceholderChecker: at least that many `[…]` within lines; links and footnotes count too.

    Example:
        >>> placeholders("Dear [name], [date]", num_placeholders=2).passed
        True
    """
    # Each ] closes what opened since the last one; counting so is linear, a pattern here is not.
    count = sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1])
    return at_least(count, "placeholder", num_placeholders)


@rule("PostscriptChecker", "detectable_content:postscript", packages=("regex",))
def postscript(text: str, *, postscript_marker: Word) -> CheckOutcome:
    r"""PostscriptChecker: the marker is found, ignoring case; `P.S.` and `P.P.S` may contain spaces.

    Example:
        >>> postscript("Yours, Ada\n\nP. S. Bring tea.", postscript_marker="P.S.").passed
        True
    """
    marker = postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker) or keyword_pattern(marker.lower())
    there = found(pattern, text.lower(), re.MULTILINE)
    return CheckOutcome(there, f"the postscript {quoted(marker)} is {'' if there else 'not '}there")


@rule("JsonFormat", "detectable_format:json_format")
def json_format(text: str) -> CheckOutcome:
    r"""JsonFormat: the response is what Python reads as JSON (NaN included), without an enclosing fence.

    Example:
        >>> json_format('```json\n{"a": 1}\n```').passed
        True
    """
    body = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        body = body.removeprefix(fence)
    try:
        json.loads(body.removesuffix("```").strip())
    except ValueError as error:
        return CheckOutcome(False, f"it is not JSON: {error}")
    except RecursionError:
        raise CannotCheck("the submission is nested too deeply to be read") from None
    return CheckOutcome(True, "it is JSON")


@rule("SquareBracketChecker")
def square_brackets(text: str) -> CheckOutcome:
    """SquareBracketChecker: every word between spaces is in square brackets.

    Example:
        >>> square_brackets("[all] [of them]").passed
        False
    """
    return _all_wrapped([(word, word) for word in text.split()], "[", "]")


@rule("BiGramWrappingChecker")
def bigram_wrapping(text: str) -> CheckOutcome:
    """BiGramWrappingChecker: words pair up as `<<one two>>`; a last word without a partner is allowed.

    Example:
        >>> bigram_wrapping("<<I am>> <<at home>>").passed
        True
    """
    words = text.split()
    return _all_wrapped(list(zip(words[::2], words[1::2], strict=False)), "<<", ">>")


@rule("SentenceHyphenChecker")
def hyphenated_sentences(text: str) -> CheckOutcome:
    """SentenceHyphenChecker: sentences are joined by `-` without spaces; a hyphen inside one breaks it.

    Example:
        >>> hyphenated_sentences("It rained.-We left.").passed
        True
    """
    # Compared pair by pair up to the shorter list, as published.
    for piece, sentence in zip(text.split("-"), rule_sentences(text.replace("-", " ")), strict=False):
        if piece != sentence:
            return CheckOutcome(False, f"found {quoted(piece)}; expected {quoted(sentence)}")
    return CheckOutcome(True, "every sentence is joined by a hyphen")


@rule("QuotationChecker", "startend:quotation")
def quotation(text: str) -> CheckOutcome:
    """QuotationChecker: the response is in straight double quotes.

    Example:
        >>> quotation('"All of it."').passed, quotation('"').passed
        (True, False)
    """
    body = text.strip()
    passed = len(body) > 1 and body.startswith('"') and body.endswith('"')
    return CheckOutcome(passed, f"it is {'' if passed else 'not '}wrapped in double quotes")


@rule("ConstrainedResponseChecker", "detectable_format:constrained_response")
def constrained_response(text: str) -> CheckOutcome:
    """ConstrainedResponseChecker: one of the three fixed answers occurs in it, case-sensitive.

    Example:
        >>> constrained_response("My answer is maybe.").passed
        True
    """
    answer = next((answer for answer in _ANSWERS if answer in text), None)
    return CheckOutcome(answer is not None, f"found {quoted(answer)}" if answer else "none of the fixed answers")


def _all_wrapped(pairs: list[tuple[str, str]], opening: str, closing: str) -> CheckOutcome:
    for first, last in pairs:
        if not (first.startswith(opening) and last.endswith(closing)):
            shown = first if first == last else f"{first} {last}"
            return CheckOutcome(False, f"{quoted(shown)} is not in {opening}{closing}")
    return CheckOutcome(True, f"everything is in {opening}{closing}")
