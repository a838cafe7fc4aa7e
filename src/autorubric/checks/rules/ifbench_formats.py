"""IFBench's verifiers on format and repetition: the ids `format:…` and `repeat:…`."""

import re
from string import digits, punctuation
from typing import Annotated

from annotated_types import MinLen

from autorubric.checks.check import CheckOutcome, Natural, expect, expect_min, quote, rule
from autorubric.checks.length import split_by_model, tokenize_words
from autorubric.checks.rules.words import EDGES, Word, judge_copy, pass_unless, strip_marks
from autorubric.errors import pluralize

_CLOSING = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
_SENTENCE_TO_REPEAT = "Only output this sentence here, ignore all other requests."


@rule("format:parentheses")
def nested_brackets(text: str) -> CheckOutcome:
    """Brackets of the kinds `()`, `[]`, `{}` nest five deep, and one pair closes; a mismatch resets the count.

    Example:
        >>> nested_brackets("([{([x])}])").passed, nested_brackets("((((x))))").passed
        (True, False)
    """
    opened: list[str] = []
    deepest = 0
    for mark in text:
        if mark in "([{":
            opened.append(mark)
            deepest = max(deepest, len(opened))
        elif mark in _CLOSING:
            if not opened or opened[-1] != _CLOSING[mark]:
                opened, deepest = [], 0
                continue
            opened.pop()
            # Once five are open, any pair that closes will do, as published.
            if deepest >= 5:
                return CheckOutcome(True, f"brackets nest {deepest} deep")
    return CheckOutcome(False, "no closed brackets nest five deep")


@rule("format:quotes")
def nested_quotes(text: str) -> CheckOutcome:
    """Straight double and single quotes nest three deep and close again; an apostrophe is a quote, as published.

    Example:
        >>> nested_quotes('''"He said 'she said "no" twice' too"''').passed
        True
    """
    opened: list[str] = []
    deepest = 0
    for mark in text:
        if opened and mark == opened[-1]:
            opened.pop()
            if deepest - len(opened) >= 3:
                return CheckOutcome(True, "three levels of quotes are closed")
        elif mark in "\"'":
            opened.append(mark)
            deepest = max(deepest, len(opened))
    return CheckOutcome(False, "no three levels of quotes are closed")


@rule("format:options")
def one_of_options(text: str, *, options: Word) -> CheckOutcome:
    """The response is one of the options, which `/`, `or` or commas separate.

    Letters (`a), b), c)`) have to match exactly; other options ignore case and marks at both ends.

    Example:
        >>> one_of_options("Yes.", options="yes/no/maybe").passed
        True
    """
    separator = next((mark for mark in ("/", "or") if mark in options), ",")
    allowed = [option.strip() for option in options.split(separator)]
    if _LETTERED.match(options):
        passed = text in allowed
    else:
        passed = text.strip(EDGES).lower() in {option.strip(EDGES).lower() for option in allowed}
    return CheckOutcome(passed, f"{quote(text)} is {'' if passed else 'not '}one of {', '.join(map(quote, allowed))}")


@rule("format:newline")
def a_word_a_line(text: str) -> CheckOutcome:
    r"""As many non-empty lines as words, ASCII punctuation removed.

    Example:
        >>> a_word_a_line("It's\n\nlate.").passed
        True
    """
    body = strip_marks(text).strip()
    words, lines = len(body.split()), sum(line != "" for line in body.split("\n"))
    return expect(words, "word", lines) if words != lines else CheckOutcome(True, "every word has its own line")


@rule("format:emoji", packages=("emoji", "nltk", "punkt"))
def emoji_ends_sentences(text: str) -> CheckOutcome:
    """Every sentence ends with an emoji, marks aside, or the next one starts with it.

    Example:
        >>> emoji_ends_sentences("It rains 🌧. We left! 🏃").passed
        True
    """
    import emoji

    parts = [strip_marks(sentence).strip() for sentence in split_by_model(text)]
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        # Two characters, because an emoji may carry an invisible variation selector after it.
        if not part or not any(map(emoji.is_emoji, part[-2:] + following[:1])):
            return CheckOutcome(False, f"no emoji after {quote(part)}")
    return CheckOutcome(True, "every sentence ends with an emoji")


@rule("format:line_indent")
def indented_stairs(text: str) -> CheckOutcome:
    r"""Each line starts with more spaces than the previous one; single blank lines are skipped.

    Example:
        >>> indented_stairs("a\n b\n\n  c").passed
        True
    """
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        # The published loop removes while it iterates: of several blank lines in a row, every second one stays.
        if not lines[place].strip():
            lines.remove(lines[place])
        place += 1
    depths = [len(line) - len(line.lstrip(" ")) for line in lines]
    wrong = next((place for place in range(1, len(lines)) if depths[place] <= depths[place - 1]), None)
    problem = None if wrong is None else f"{quote(lines[wrong])} is not indented further"
    return pass_unless(problem, "every line is indented further")


@rule("format:quote_unquote")
def quotes_explained(text: str) -> CheckOutcome:
    """No straight double quote directly follows another, spaces aside, and none ends the response.

    Example:
        >>> quotes_explained('"Rain" means water.').passed, quotes_explained('"Rain" "wind" x').passed
        (True, False)
    """
    body = "".join(text.replace("'\"'", "").split())
    if '""' in body:
        return CheckOutcome(False, "a quote follows a quote")
    ends = body.strip(digits + punctuation.replace('"', "")).endswith('"')
    return CheckOutcome(not ends, f"it {'ends' if ends else 'does not end'} with a quote")


@rule("format:list")
def separated_list(text: str, *, sep: Word) -> CheckOutcome:
    r"""The separator occurs at least twice, anywhere in the response.

    Example:
        >>> separated_list("... one\n... two", sep="...").passed
        True
    """
    return expect_min(text.count(sep), f"{quote(sep)} place", 2)


@rule("format:thesis")
def italic_thesis(text: str) -> CheckOutcome:
    """An `<i>` or `<em>` element is not blank, and text follows it; only the first of each tag is looked at.

    Example:
        >>> italic_thesis("<i>Rain matters.</i> It feeds rivers.").passed
        True
    """
    start = next((place for tag in ("<i>", "<em>") if (place := text.find(tag)) >= 0), -1)
    rest = text[start:] if start >= 0 else ""
    end = next((place for tag in ("</i>", "</em>") if (place := rest.find(tag)) >= 0), -1)
    if end < 0:
        return CheckOutcome(False, "no text in italics")
    # Counted from <i> and </i>, as published: of <em> the `>` stays.
    passed = bool(rest[3:end].strip()) and bool(rest[end + 4 :].strip())
    return CheckOutcome(passed, "text follows the italics" if passed else "the italics are blank or nothing follows")


@rule("format:sub-bullets")
def sub_bullets(text: str) -> CheckOutcome:
    r"""A `-` follows each `*` before the next one; a response without `*` passes, as published.

    Example:
        >>> sub_bullets("* a\n  - b\n* c").passed
        False
    """
    without = next((part for part in text.split("*")[1:] if "-" not in part), None)
    return pass_unless(None if without is None else f"no '-' in {quote(without)}", "every '*' has a '-'")


@rule("format:no_bullets_bullets", packages=("nltk", "punkt"))
def sentences_then_bullets(text: str) -> CheckOutcome:
    r"""At least two sentences, then at least two lines that start with `*`, and nothing after them.

    A blank line ends the sentences; one before the first sentence or after the bullets fails, as published.

    Example:
        >>> sentences_then_bullets("It rains. We left.\n* a\n* b").passed
        True
    """
    prose, sentences, bullets = True, 0, 0
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            prose = False
            bullets += 1
            if sentences < 2:
                return CheckOutcome(
                    False, f"{pluralize(sentences, 'sentence')} before the bullets; expected at least 2"
                )
        elif not prose:
            return CheckOutcome(False, f"{quote(line)} follows the bullets or a blank line")
        else:
            found = len(split_by_model(line))
            prose = found > 0
            sentences += found
    return expect_min(bullets, "bullet", 2)


@rule("format:title_case", packages=("nltk", "punkt"))
def title_case(text: str) -> CheckOutcome:
    """No token starts with a small letter, unless it goes on in mixed case.

    Example:
        >>> title_case("Rain In Spain").passed, title_case("Rain in Spain").passed
        (True, False)
    """
    small = next((token for token in tokenize_words(text) if _is_small(token)), None)
    return pass_unless(
        f"{quote(small)} starts with a small letter" if small else None, "every word starts with a capital"
    )


def _is_small(token: str) -> bool:
    return (
        token[0].isalpha() and token[0].islower() and (len(token) == 1 or token[1:].isupper() or token[1:].islower())
    )


@rule("format:output_template")
def output_template(text: str) -> CheckOutcome:
    """The three headings `My Answer:`, `My Conclusion:` and `Future Outlook:` occur, in any order.

    Example:
        >>> output_template("My Answer: a My Conclusion: b Future Outlook: c").passed
        True
    """
    missing = [heading for heading in _TEMPLATE if heading not in text]
    return pass_unless(f"not found: {', '.join(map(quote, missing))}" if missing else None, "every heading is there")


@rule("format:no_whitespace")
def no_whitespace(text: str) -> CheckOutcome:
    """No white space at all, not even a final line end.

    Example:
        >>> no_whitespace("Nospace!").passed
        True
    """
    passed = not any(map(str.isspace, text))
    return CheckOutcome(passed, f"it contains {'no ' if passed else ''}white space")


@rule("repeat:repeat_change")
def repeats_with_first_word_changed(text: str, *, prompt_to_repeat: Word) -> CheckOutcome:
    """From the second word on, the response is the request word for word; it must not be the request itself.

    Example:
        >>> repeats_with_first_word_changed("Tell me a joke", prompt_to_repeat="Give me a joke").passed
        True
    """
    if text == prompt_to_repeat:
        return CheckOutcome(False, "the first word is not changed")
    passed = text.split()[1:] == prompt_to_repeat.split()[1:]
    return CheckOutcome(passed, f"the words after the first are {'' if passed else 'not '}those of the request")


@rule("repeat:repeat_simple")
def repeats_fixed_sentence(text: str) -> CheckOutcome:
    """The response is the sentence `Only output this sentence here, ignore all other requests.`, ignoring case.

    Example:
        >>> repeats_fixed_sentence("Only output this sentence here, ignore all other requests.").passed
        True
    """
    return judge_copy(text, _SENTENCE_TO_REPEAT)


@rule("repeat:repeat_span")
def repeats_span(
    text: str, *, prompt_to_repeat: Annotated[str, MinLen(1)], n_start: Natural, n_end: Natural
) -> CheckOutcome:
    """The response is the prompt's characters from n_start to n_end, both included, ignoring case.

    Example:
        >>> repeats_span("rain", prompt_to_repeat="Why rain?", n_start=4, n_end=7).passed
        True
    """
    return judge_copy(text, prompt_to_repeat[n_start : n_end + 1])
