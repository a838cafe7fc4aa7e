"""Verifiers on the format of a response: lists, sections, titles, wrappings."""

import json
import re

from autorubric.checks.check import CannotCheck, CheckOutcome, Natural, expect, expect_min, quote, rule
from autorubric.checks.length import split_by_rules
from autorubric.checks.patterns import as_pattern, find_all, has_match
from autorubric.checks.rules.words import Word

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}


@rule("BulletListChecker", "detectable_format:number_bullet_lists", packages=("regex",))
def bullet_list(text: str, *, num_bullets: Natural) -> CheckOutcome:
    r"""BulletListChecker: exactly the given number of lines start with `-`, or with `*` but not `**`.

    Nested bullets count, and so do dividers of dashes, as published.

    Example:
        >>> bullet_list("* one\n* two\n**bold**", num_bullets=2).passed
        True
    """
    stars = find_all(r"^\s*\*[^\*].*$", text, re.MULTILINE)
    dashes = find_all(r"^\s*-.*$", text, re.MULTILINE)
    return expect(len(stars) + len(dashes), "bullet", num_bullets)


@rule("HighlightSectionChecker", "detectable_format:number_highlighted_sections", packages=("regex",))
def highlights(text: str, *, num_highlights: Natural) -> CheckOutcome:
    """HighlightSectionChecker: at least the given number of non-empty `*…*` and `**…**` within lines.

    Example:
        >>> highlights("*one* and **two** and ** **", num_highlights=2).passed
        True
    """
    single = [part for part in find_all(r"\*[^\n*]*\*", text) if part.strip("*").strip()]
    double = [part for part in find_all(r"\*\*[^\n*]*\*\*", text) if part[2:-2].strip()]
    return expect_min(len(single) + len(double), "highlight", num_highlights)


@rule("SectionChecker", "detectable_format:multiple_sections", packages=("regex",))
def sections(text: str, *, section_spliter: Word, num_sections: Natural) -> CheckOutcome:
    r"""SectionChecker: the splitter, read as a pattern, precedes a number at least the given number of times.

    Example:
        >>> sections("SECTION 1\nA\nSECTION 2\nB", section_spliter="SECTION", num_sections=2).passed
        True
    """
    return expect_min(len(find_all(rf"{as_pattern(section_spliter.strip())}\s?\d+", text)), "section", num_sections)


@rule("TitleChecker", "detectable_format:title")
def title(text: str) -> CheckOutcome:
    r"""TitleChecker: a line contains a `<<…>>` whose content is not blank.

    Example:
        >>> title("<<Ode to rain>>\nDrip.").passed, title("<< >>").passed
        (True, False)
    """
    # From the first << of a line to its last >>, with something in between, as in the published pattern.
    places = ((line, line.find("<<"), line.rfind(">>")) for line in text.split("\n"))
    titles = (line[start : end + 2] for line, start, end in places if start >= 0 and end >= start + 3)
    there = next((bare for wrapped in titles if (bare := wrapped.lstrip("<").rstrip(">").strip())), None)
    return CheckOutcome(there is not None, "no title in << >>" if there is None else f"the title is {quote(there)}")


@rule("PlaceholderChecker", "detectable_content:number_placeholders")
def placeholders(text: str, *, num_placeholders: Natural) -> CheckOutcome:
    """PlaceholderChecker: at least the given number of `[…]` within lines; links and footnotes count too.

    Example:
        >>> placeholders("Dear [name], [date]", num_placeholders=2).passed
        True
    """
    # Each ] closes what was opened since the last one. Counting is linear; a pattern would not be.
    count = sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1])
    return expect_min(count, "placeholder", num_placeholders)


@rule("PostscriptChecker", "detectable_content:postscript", packages=("regex",))
def postscript(text: str, *, postscript_marker: Word) -> CheckOutcome:
    r"""PostscriptChecker: the marker is found, ignoring case; `P.S.` and `P.P.S` may contain spaces.

    Example:
        >>> postscript("Yours, Ada\n\nP. S. Bring tea.", postscript_marker="P.S.").passed
        True
    """
    marker = postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker) or as_pattern(marker.lower())
    there = has_match(pattern, text.lower(), re.MULTILINE)
    return CheckOutcome(there, f"the postscript {quote(marker)} is {'' if there else 'not '}there")


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
    return _judge_wrapped([(word, word) for word in text.split()], "[", "]")


@rule("BiGramWrappingChecker")
def bigram_wrapping(text: str) -> CheckOutcome:
    """BiGramWrappingChecker: words pair up as `<<one two>>`; a last word without a partner is allowed.

    Example:
        >>> bigram_wrapping("<<I am>> <<at home>>").passed
        True
    """
    words = text.split()
    return _judge_wrapped(list(zip(words[::2], words[1::2], strict=False)), "<<", ">>")


@rule("SentenceHyphenChecker")
def hyphenated_sentences(text: str) -> CheckOutcome:
    """SentenceHyphenChecker: sentences are joined by `-` without spaces; a hyphen inside one breaks it.

    Example:
        >>> hyphenated_sentences("It rained.-We left.").passed
        True
    """
    # Compared pair by pair up to the shorter list, as published.
    for piece, sentence in zip(text.split("-"), split_by_rules(text.replace("-", " ")), strict=False):
        if piece != sentence:
            return CheckOutcome(False, f"found {quote(piece)}; expected {quote(sentence)}")
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
    return CheckOutcome(answer is not None, f"found {quote(answer)}" if answer else "none of the fixed answers")


def _judge_wrapped(pairs: list[tuple[str, str]], opening: str, closing: str) -> CheckOutcome:
    for first, last in pairs:
        if not (first.startswith(opening) and last.endswith(closing)):
            shown = first if first == last else f"{first} {last}"
            return CheckOutcome(False, f"{quote(shown)} is not in {opening}{closing}")
    return CheckOutcome(True, f"everything is in {opening}{closing}")
