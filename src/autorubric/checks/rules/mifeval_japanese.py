"""M-IFEval's Japanese verifiers that a rule decides: the ids `ja:…`."""

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import Field

from autorubric.checks.check import CheckOutcome, Natural, Positive, compare, expect, expect_min, quote, rule
from autorubric.checks.patterns import find_all
from autorubric.checks.rules.formats import json_format, placeholders, postscript
from autorubric.checks.rules.letters import divided_paragraphs, response_language
from autorubric.checks.rules.words import Word, pass_unless, two_responses

Bound = Literal["未満", "以上"]
"""Less than, at least."""

_ANSWERS = ("はい、そうです。", "いいえ、違います。", "どちらとも言えません。")
_KANJI = "[\u4e00-\u9faf]"

rule("ja:combination:two_responses")(two_responses)
rule("ja:detectable_content:number_placeholders")(placeholders)
rule("ja:detectable_content:postscript", packages=("regex",))(postscript)
rule("ja:detectable_format:json_format")(json_format)
rule("ja:language:response_language", packages=("langdetect",))(response_language)
rule("ja:length_constraints:number_paragraphs")(divided_paragraphs)


@rule("ja:combination:repeat_prompt")
def repeats_prompt_exactly(text: str, *, prompt_to_repeat: Word) -> CheckOutcome:
    """The response starts with the prompt.

    Example:
        >>> repeats_prompt_exactly("雨とは？水です。", prompt_to_repeat="雨とは？").passed
        True
    """
    passed = text.strip().startswith(prompt_to_repeat.strip())
    return CheckOutcome(passed, f"it starts with {quote(text.strip()[: len(prompt_to_repeat)])}")


@rule("ja:detectable_format:constrained_response")
def japanese_answer(text: str) -> CheckOutcome:
    """It contains one of the three fixed answers.

    Example:
        >>> japanese_answer("はい、そうです。").passed
        True
    """
    answer = next((answer for answer in _ANSWERS if answer in text), None)
    return CheckOutcome(answer is not None, f"found {quote(answer)}" if answer else "none of the fixed answers")


@rule("ja:detectable_format:multiple_sections")
def japanese_sections(text: str, *, section_spliter: Word, num_sections: Natural) -> CheckOutcome:
    r"""At least the given number of headings such as `第1章`, with the given last character.

    Example:
        >>> japanese_sections("第1章 雨\n第２章 風", section_spliter="章", num_sections=2).passed
        True
    """
    return expect_min(len(re.findall(rf"第\d+{re.escape(section_spliter.strip())}", text)), "section", num_sections)


@rule("ja:detectable_format:number_bullet_lists", packages=("regex",))
def japanese_bullets(text: str, *, num_bullets: Natural) -> CheckOutcome:
    r"""Exactly the given number of lines start with `・` but not `・・`.

    Example:
        >>> japanese_bullets("・雨\n・風", num_bullets=2).passed
        True
    """
    return expect(len(find_all(r"^\s*・[^・].*$", text, re.MULTILINE)), "bullet", num_bullets)


@rule("ja:detectable_format:number_numbered_lists", packages=("regex",))
def numbered_lines(text: str, *, num_items: Natural) -> CheckOutcome:
    r"""Exactly the given number of lines start with a number, a full stop and white space.

    Example:
        >>> numbered_lines("1. 雨\n2. 風", num_items=2).passed
        True
    """
    return expect(len(find_all(r"^\s*\d+\.\s.*$", text, re.MULTILINE)), "item", num_items)


@rule("ja:detectable_format:number_highlighted_sections")
def japanese_highlights(text: str, *, num_highlights: Natural) -> CheckOutcome:
    """At least the given number of `《…》` within lines, none of them blank.

    Example:
        >>> japanese_highlights("《雨》と《 》", num_highlights=1).passed
        True
    """
    found = [part for part in re.findall("《([^\n《》]*)》", text) if part.strip()]
    return expect_min(len(found), "highlight", num_highlights)


@rule("ja:detectable_format:title")
def japanese_title(text: str) -> CheckOutcome:
    """A line contains a `『…』` whose content is not blank.

    Example:
        >>> japanese_title("『雨の歌』").passed
        True
    """
    places = ((line, line.find("『"), line.rfind("』")) for line in text.split("\n"))
    titles = (line[start : end + 1] for line, start, end in places if start >= 0 and end >= start + 2)
    there = any(wrapped.lstrip("『").rstrip("』").strip() for wrapped in titles)
    return CheckOutcome(there, f"{'a' if there else 'no'} title in 『 』")


@rule("ja:keywords:letter_frequency")
def hiragana_frequency(
    text: str, *, letter: Annotated[str, Field(pattern="^[ぁ-ん]$")], let_frequency: Natural, let_relation: Bound
) -> CheckOutcome:
    """The hiragana, or its katakana, occurs less than (未満), or at least (以上), the given number of times.

    Example:
        >>> hiragana_frequency("あめアメ", letter="あ", let_frequency=2, let_relation="以上").passed
        True
    """
    number = text.count(letter) + text.count(chr(ord(letter) + 96))
    return _judge_bound(number, quote(letter), let_relation, let_frequency)


@rule("ja:length_constraints:number_letters")
def character_bound(text: str, *, num_letters: Natural, relation: Bound) -> CheckOutcome:
    """The number of characters, spaces and line ends included, is less than (未満), or at least (以上), the bound.

    Example:
        >>> character_bound("雨が降る。", num_letters=5, relation="以上").passed
        True
    """
    return _judge_bound(len(text), "character", relation, num_letters)


@rule("ja:length_constraints:nth_paragraph_first_word")
def japanese_paragraph_start(
    text: str, *, num_paragraphs: Positive, nth_paragraph: Positive, first_word: Word
) -> CheckOutcome:
    r"""Exactly the given number of spaced paragraphs, the n-th opening with the word, perhaps in 「 or 『.

    Example:
        >>> japanese_paragraph_start("雨。\n\n「風」も。", num_paragraphs=2, nth_paragraph=2, first_word="風").passed
        True
    """
    parts = text.split("\n\n")
    number = sum(bool(part.strip()) for part in parts)
    if number != num_paragraphs or nth_paragraph > number:
        return expect(number, "paragraph", num_paragraphs)
    start = parts[nth_paragraph - 1].strip().lstrip("「").lstrip("『")[: len(first_word)]
    return CheckOutcome(start == first_word.lower(), f"paragraph {nth_paragraph} starts with {quote(start)}")


@rule("ja:letters:furigana")
def furigana(text: str) -> CheckOutcome:
    """Every run of kanji has its reading in hiragana after it, in wide brackets.

    Example:
        >>> furigana("雨（あめ）が降（ふ）る").passed
        True
    """
    runs, read = (len(re.findall(pattern, text)) for pattern in (rf"{_KANJI}+", rf"{_KANJI}（[ぁ-ん]+）"))
    return CheckOutcome(runs == read, f"{read} of {runs} runs of kanji have their reading")


@rule("ja:letters:kanji")
def kanji_bound(text: str, *, kanji_limit: Natural, relation: Bound) -> CheckOutcome:
    """The number of kanji is less than (未満), or at least (以上), the bound.

    Example:
        >>> kanji_bound("雨が降る", kanji_limit=3, relation="未満").passed
        True
    """
    return _judge_bound(len(re.findall(_KANJI, text)), "kanji", relation, kanji_limit)


@rule("ja:letters:kansuuji")
def no_digits(text: str) -> CheckOutcome:
    """No digit of any script: numbers must be in kanji.

    Example:
        >>> no_digits("三時").passed, no_digits("3時").passed
        (True, False)
    """
    return _check_absent(text, r"\d")


@rule("ja:letters:no_hiragana")
def no_hiragana(text: str) -> CheckOutcome:
    """No hiragana.

    Example:
        >>> no_hiragana("雨ガ降ル").passed
        True
    """
    return _check_absent(text, "[ぁ-ゖ]")


@rule("ja:letters:no_katakana")
def no_katakana(text: str) -> CheckOutcome:
    """No katakana, narrow ones included; the long mark `ー` is allowed.

    Example:
        >>> no_katakana("らーめん").passed
        True
    """
    return _check_absent(text, "[ァ-ヺｦ-ﾟ]")


@rule("ja:letters:hiragana_only")
def hiragana_only(text: str) -> CheckOutcome:
    """Every letter is hiragana or `ー`.

    Example:
        >>> hiragana_only("あめ、らーめん。").passed
        True
    """
    return _check_only(text, "[ぁ-んー]")


@rule("ja:letters:katakana_only")
def katakana_only(text: str) -> CheckOutcome:
    """Every letter is katakana, narrow ones included, or `ー`.

    Example:
        >>> katakana_only("アメ、ラーメン。").passed
        True
    """
    return _check_only(text, "[ァ-ンー・ｦ-ﾟ]")


@rule("ja:punctuation:no_comma")
def no_japanese_comma(text: str) -> CheckOutcome:
    """No `、`.

    Example:
        >>> no_japanese_comma("雨、風").passed
        False
    """
    return _check_absent(text, "、")


@rule("ja:punctuation:no_period")
def no_japanese_period(text: str) -> CheckOutcome:
    """No `。`.

    Example:
        >>> no_japanese_period("雨。").passed
        False
    """
    return _check_absent(text, "。")


@rule("ja:startend:end_checker")
def japanese_end(text: str, *, end_phrase: Word) -> CheckOutcome:
    """The response ends with the phrase; closing 」 and 』 are ignored.

    Example:
        >>> japanese_end("「以上です。」", end_phrase="以上です。").passed
        True
    """
    body, expected = text.strip().strip("」』"), end_phrase.strip().strip("」』")
    return CheckOutcome(body.endswith(expected), f"it ends with {quote(body[-len(expected) :])}")


@rule("ja:startend:quotation")
def japanese_quotation(text: str) -> CheckOutcome:
    """The response is in 「 and 」.

    Example:
        >>> japanese_quotation("「雨」").passed
        True
    """
    body = text.strip()
    passed = len(body) > 1 and body.startswith("「") and body.endswith("」")
    return CheckOutcome(passed, f"it is {'' if passed else 'not '}in 「」")


@rule("ja:startend:sentence_unified_end")
def unified_sentence_ends(text: str, *, ending: Word) -> CheckOutcome:
    """Every sentence before `。`, `！` or `？` ends with the given characters; quotes are left out.

    What follows the last of these marks counts as a sentence, a line end as well, as published.

    Example:
        >>> unified_sentence_ends("雨です。「風だ。」風です。", ending="です").passed
        True
    """
    text = _strip_quoted(_strip_quoted(text, "「", "」"), "『", "』")
    wrong = next((part for part in re.split("[。！？]", text) if part and not part.endswith(ending)), None)
    problem = None if wrong is None else f"{quote(wrong)} does not end with {ending!r}"
    return pass_unless(problem, f"every sentence ends with {ending!r}")


def _judge_bound(number: int, noun: str, bound: Bound, threshold: int) -> CheckOutcome:
    return compare(number, noun, "less than" if bound == "未満" else "at least", threshold)


def _check_absent(text: str, pattern: str) -> CheckOutcome:
    there = re.search(pattern, text)
    return pass_unless(None if there is None else f"found {quote(there.group())}", "none found")


def _check_only(text: str, pattern: str) -> CheckOutcome:
    letters = (letter for letter in text if unicodedata.category(letter).startswith("L"))
    other = next((letter for letter in letters if not re.match(pattern, letter)), None)
    return pass_unless(f"found {quote(other)}" if other else None, "no other letters")


def _strip_quoted(text: str, opening: str, closing: str) -> str:
    """Return the text without what is quoted within one line."""
    kept = []
    for line in text.split("\n"):
        start = 0
        while (first := line.find(opening, start)) >= 0 and (last := line.find(closing, first)) >= 0:
            kept.append(line[start:first])
            start = last + 1
        kept.append(line[start:] + "\n")
    return "".join(kept)[:-1]
