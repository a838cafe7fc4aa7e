"""One table a rule: text, parameters, verdict; derived by hand from the published semantics."""

from typing import Any

from autorubric.checks import IFEVAL, RUBRICHUB, CheckOutcome, run_check
from tests.offenders import each

LESS, LEAST = "less than", "at least"

CASES: dict[str, list[tuple[str, dict[str, Any], bool]]] = {
    "AdjacentLetterChecker": [
        ("a cat", {}, True),
        ("a bird", {}, False),
        ("Any big cat", {}, False),  # case does not matter
        ("bird a", {}, True),  # descending is fine
        ("zebra ant", {}, True),  # the alphabet does not wrap
        ("1 2", {}, False),  # any characters are compared by code
        ("İ j", {}, False),  # İ is two characters in lower case
    ],
    "BiGramWrappingChecker": [
        ("<<I am>> <<at home>>", {}, True),
        ("<<I am>> <<at home>> now", {}, True),  # the last word has no partner
        ("<<I am>> at home", {}, False),
        ("<<I>> <<am>>", {}, True),  # starts and ends where a pair has to
        ("I am", {}, False),
    ],
    "BulletListChecker": [
        ("* a\n* b", {"num_bullets": 2}, True),
        ("- a\r\n* b", {"num_bullets": 2}, True),
        ("* a\n  - b", {"num_bullets": 2}, True),
        ("**bold**", {"num_bullets": 1}, False),
        ("1. a", {"num_bullets": 0}, True),
        ("a\n---\nb", {"num_bullets": 1}, True),  # a line of dashes opens with a dash
        ("+ a", {"num_bullets": 1}, False),
    ],
    "CapitalLettersEnglishChecker": [
        ("THE WEATHER IS LOVELY TODAY.", {}, True),
        ("The WEATHER IS LOVELY TODAY.", {}, False),
        ("LE TRAIN PART CE MATIN À NEUF HEURES POUR LA FRANCE.", {}, False),
        ("123", {}, False),  # nothing is in capitals
    ],
    "CapitalWordFrequencyChecker": [
        ("STOP it NOW", {"capital_frequency": 2, "capital_relation": LEAST}, True),
        ("STOP it NOW", {"capital_frequency": 2, "capital_relation": LESS}, False),
        ("I AM", {"capital_frequency": 2, "capital_relation": LEAST}, True),
        ("WELL-KNOWN", {"capital_frequency": 2, "capital_relation": LEAST}, False),  # one token
        ("ÉTÉ", {"capital_frequency": 1, "capital_relation": LEAST}, True),
    ],
    "CommaChecker": [("a, b", {}, False), ("a; b", {}, True), ("a，b、c", {}, True)],
    "ConstrainedResponseChecker": [
        ("My answer is yes.", {}, True),
        ("Well. My answer is maybe.\r\n", {}, True),
        ("My answer is yes", {}, False),
        ("my answer is no.", {}, False),
    ],
    "CopyChecker": [
        (" WHY? \n", {"prompt_to_repeat": "Why?"}, True),
        ("Why? Because.", {"prompt_to_repeat": "Why?"}, False),
    ],
    "CopyingSimpleChecker": [
        ("Why?", {"prompt_to_repeat": " why? "}, True),
        ("Why", {"prompt_to_repeat": "Why?"}, False),
    ],
    "CopyingMultipleChecker": [
        ("Why?\n******\nwhy?", {"prompt_to_repeat": "Why?", "N": 2}, True),
        ("Why?\n******\nwhy?", {"prompt_to_repeat": "Why?", "N": 3}, False),
        ("Why?\n******\nHow?", {"prompt_to_repeat": "Why?", "N": 2}, False),
        ("Why?\n******\nWhy?\n******", {"prompt_to_repeat": "Why?", "N": 2}, False),  # a third, empty part
    ],
    "CopySpanIdxChecker": [
        ("rain", {"prompt_to_repeat": "Why rain?", "n_start": 4, "n_end": 8}, True),
        ("Why", {"prompt_to_repeat": "Why rain?", "n_start": 0, "n_end": 4}, True),  # the slice is trimmed
        ("rain?", {"prompt_to_repeat": "Why rain?", "n_start": 4, "n_end": 8}, False),
        ("Why rain?", {"prompt_to_repeat": "Why rain?", "n_start": 0, "n_end": 900}, True),
    ],
    "CountIncrementWordChecker": [
        ("red blue blue", {"keyword1": "red", "keyword2": "blue"}, True),
        ("red blue", {"keyword1": "red", "keyword2": "blue"}, False),
        ("Red RED blue blue", {"keyword1": "red", "keyword2": "blue"}, False),
        ("hundred blue bluebell", {"keyword1": "red", "keyword2": "blue"}, True),  # inside words too
    ],
    "CountUniqueChecker": [
        ("The cat saw the dog.", {}, True),  # The and the differ
        ("a cat saw a dog", {}, False),
        ("one, two, three", {}, False),  # the comma stands twice
    ],
    "CountingCompositionChecker": [
        ("We ran. We fell.\n***\nI ran. I fell.\n***\nHe ran. He fell.", {"n_sent": 2, "n_words": 3}, True),
        ("We ran.\n***\nI ran.", {"n_sent": 1, "n_words": 3}, False),  # two paragraphs
        ("We ran.\n***\nI ran.\n***\nHe ran.", {"n_sent": 1, "n_words": 2}, False),  # the mark is a token
        ("We ran.\n***\nI ran.\n***\nHe ran.\n***", {"n_sent": 1, "n_words": 3}, False),  # an empty fourth
    ],
    "EndChecker": [
        ("So it goes.", {"end_phrase": "it goes."}, True),
        ('"So it GOES."\n', {"end_phrase": " it goes. "}, True),
        ("So it goes. Bye", {"end_phrase": "it goes."}, False),
        ("So it goes", {"end_phrase": "it goes."}, False),
    ],
    "ExcludeWordHarderChecker": [
        ("a red fox", {"keyword": "red"}, False),
        ("a Red fox", {"keyword": "red"}, True),
        ("red fox", {"keyword": "red"}, True),  # no space before
        ("a red, fox", {"keyword": " red "}, True),
    ],
    "FirstWordAnswerChecker": [
        ("YES sir", {"first_word": "yes"}, True),
        ("Yes, sir", {"first_word": "yes"}, False),
        ("\r\n yes", {"first_word": "Yes"}, True),
    ],
    "FirstWordSentChecker": [
        ("We ran. we fell!", {"first_word": "We"}, True),
        ("We ran. They fell.", {"first_word": "we"}, False),
        ("We ran at 5.30 sharp.", {"first_word": "we"}, True),
        ("...", {"first_word": "we"}, False),
    ],
    "ForbiddenWords": [
        ("a cat", {"forbidden_words": ["dog", "cow"]}, True),
        ("a COW.", {"forbidden_words": ["dog", "cow"]}, False),
        ("a cowboy", {"forbidden_words": ["cow"]}, True),
        ("a bat", {"forbidden_words": ["b.t"]}, False),  # a pattern
    ],
    "HighlightSectionChecker": [
        ("*a* *b*", {"num_highlights": 2}, True),
        ("**a** and *b*", {"num_highlights": 2}, True),
        ("**", {"num_highlights": 1}, False),
        ("* *", {"num_highlights": 1}, False),
        ("*a\nb*", {"num_highlights": 1}, False),  # not across lines
        ("plain", {"num_highlights": 0}, True),
    ],
    "JsonFormat": [
        ('{"a": 1}', {}, True),
        ("```JSON\n[1]\n```", {}, True),
        ("```\r\n[1]\r\n```", {}, True),
        ("Sure: [1]", {}, False),
        ("NaN", {}, True),  # Python's reader takes it
        ("```json\n```", {}, False),
    ],
    "KeywordChecker": [
        ("Sunny Paris", {"keywords": ["paris", "SUN"]}, True),
        ("Sunny Paris", {"keywords": ["paris", "rain"]}, False),
        ("colour", {"keywords": ["colou?r"]}, True),
        ("日本の首都", {"keywords": ["首都"]}, True),
    ],
    "KeywordFrequencyChecker": [
        ("a rose is a Rose", {"keyword": "rose", "frequency": 2, "relation": LEAST}, True),
        ("a rose is a Rose", {"keyword": "rose", "frequency": 2, "relation": LESS}, False),
        ("none", {"keyword": " rose ", "frequency": 1, "relation": LESS}, True),
    ],
    "KeywordFrequencyCheckerDifferent": [
        ("rose rose", {"keyword": "rose", "frequency": 3, "relation": LEAST}, False),
        ("rose rose", {"keyword": "rose", "frequency": 3, "relation": LESS}, True),
    ],
    "KeywordFrequencyOnceChecker": [
        ("a rose", {"keyword": "rose"}, True),
        ("a rose, a rosebud", {"keyword": "rose"}, False),
        ("a lily", {"keyword": "rose"}, False),
    ],
    "KeywordSpecificPositionChecker": [
        ("It rained. We left early.", {"keyword": "left", "n": 2, "m": 2}, True),
        ("It rained. We Left early.", {"keyword": "left", "n": 2, "m": 2}, False),
        ("It rained.", {"keyword": "left", "n": 2, "m": 1}, False),
        ("Don't go.", {"keyword": "go", "n": 1, "m": 3}, True),  # Do, n't, go
        ("Stop.", {"keyword": "Stop", "n": 1, "m": 9}, False),
    ],
    "LastWordAnswerChecker": [
        ("This is the End!", {"last_word": "end"}, True),
        ("This is the end game", {"last_word": "end"}, False),
        ("Well-known", {"last_word": "wellknown"}, True),  # marks inside go too
    ],
    "LastWordSentChecker": [
        ("I sing. You SING!", {"last_word": "sing"}, True),
        ("I sing. You dance.", {"last_word": "sing"}, False),
        ('I said "sing."', {"last_word": "sing"}, True),
    ],
    "LetterCountingChecker": [
        ("abc def", {"N": 6, "relation": LEAST}, True),
        ("abc déf", {"N": 6, "relation": LEAST}, False),  # é is no ASCII letter
        ("abc", {"N": 3, "relation": LESS}, False),
    ],
    "LetterFrequencyChecker": [
        ("Anna", {"letter": "A", "let_frequency": 2, "let_relation": LEAST}, True),
        ("Anna", {"letter": "n", "let_frequency": 2, "let_relation": LESS}, False),
        ("#hash #tag", {"letter": "#", "let_frequency": 2, "let_relation": LEAST}, True),
    ],
    "LowercaseCountingChecker": [
        ("The old CAT", {"N": 1}, True),
        ("the old cat", {"N": 2}, False),
        ("don't", {"N": 1}, False),  # don and t
        ("1st", {"N": 0}, True),  # a word with a digit is none
    ],
    "LowercaseLettersEnglishChecker": [
        ("the train leaves at nine in the morning.", {}, True),
        ("The train leaves at nine in the morning.", {}, False),
        ("le train part à neuf heures du matin.", {}, False),
    ],
    "NumberOfSentences": [
        ("One. Two.", {"num_sentences": 2, "relation": LEAST}, True),
        ("Mr. Fox ran.", {"num_sentences": 2, "relation": LESS}, True),
        ("One. Two. Three.", {"num_sentences": 3, "relation": LESS}, False),
    ],
    "NumberOfWords": [
        ("It's late", {"num_words": 3, "relation": LEAST}, True),  # It, s, late
        ("one two", {"num_words": 2, "relation": LESS}, False),
        ("日本の首都", {"num_words": 2, "relation": LESS}, True),  # one run of word characters
    ],
    "PalindromeBasicChecker": [
        ("At noon", {}, True),
        ("Noon came", {}, False),  # case counts
        ("I came", {}, True),  # one letter
        ("noon,", {}, False),  # the comma belongs to the word
    ],
    "ParagraphBasicChecker": [
        ("a\n***\nb", {}, True),
        ("a", {}, False),
        ("***\na\n***\nb\n***", {}, True),  # empty edges are dropped
        ("a\n***\n***\nb", {}, False),  # an empty middle is not
    ],
    "ParagraphBasicChecker2": [
        ("a\n\nb", {}, True),
        ("a\nb", {}, False),
        ("a\n\nb\n\n", {}, True),
        ("a\n\n\n\nb", {}, False),
        ("a\r\n\r\nb", {}, False),  # the published splitter knows bare line feeds only
    ],
    "ParagraphChecker": [
        ("a\n***\nb", {"num_paragraphs": 2}, True),
        ("a *** b *** c", {"num_paragraphs": 2}, False),
        ("***", {"num_paragraphs": 0}, True),  # both edges are empty
    ],
    "ParagraphFirstWordCheck": [
        ("a\n\n'Well', b", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "WELL"}, True),
        ("a\n\nwell", {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "well"}, False),
        ("a\n\nswell", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "well"}, False),
        # The empty third part is not counted but numbered: number 2 is "b", number 3 would be "".
        ("a\n\nb\n\n \n\nc", {"num_paragraphs": 3, "nth_paragraph": 3, "first_word": "c"}, False),
    ],
    "PlaceholderChecker": [
        ("[name] [date]", {"num_placeholders": 2}, True),
        ("[name", {"num_placeholders": 1}, False),
        ("[]", {"num_placeholders": 1}, True),
        ("[a[b] c]", {"num_placeholders": 2}, False),  # the first ] closes both
        ("[a\nb]", {"num_placeholders": 1}, False),
    ],
    "PostscriptChecker": [
        ("Bye\n\nP.S. tea", {"postscript_marker": "P.S."}, True),
        ("bye p. s. tea", {"postscript_marker": "P.S."}, True),
        ("bye p.p.s tea", {"postscript_marker": "P.P.S"}, True),
        ("bye ps tea", {"postscript_marker": "P.S."}, False),
        ("bye note: tea", {"postscript_marker": " NOTE: "}, True),
    ],
    "PunctuationDotChecker": [("a.", {}, False), ("3.5", {}, False), ("a!", {}, True)],
    "PunctuationExclamationChecker": [("a!", {}, False), ("a.", {}, True), ("a！", {}, True)],
    "QuotationChecker": [
        ('"all"', {}, True),
        (' "all"\r\n', {}, True),
        ("“all”", {}, False),
        ('"', {}, False),
        ('"a" b', {}, False),
    ],
    "RepeatPhraseChecker": [
        ("a red fox ran. a shy fox ran.", {"phrase": "a big fox ran", "small_n": 2}, True),
        ("a red fox ran.", {"phrase": "a big fox ran", "small_n": 2}, False),
        ("a big fox ran. a shy fox ran.", {"phrase": "a big fox ran", "small_n": 2}, False),  # one unchanged
        ("a red cat ran. a shy fox ran.", {"phrase": "a big fox ran", "small_n": 2}, False),  # two changed
        ("a very red fox ran", {"phrase": "a big fox ran", "small_n": 1}, False),  # a word too many
        ("is it (a) then", {"phrase": "is it (b) then", "small_n": 1}, True),
    ],
    "RepeatPromptThenAnswer": [
        ("Why? Because.", {"prompt_to_repeat": " why? "}, True),
        ("So: why?", {"prompt_to_repeat": "Why?"}, False),
    ],
    "ResponseLanguageChecker": [
        ("Le train part à neuf heures du matin.", {"language": "fr"}, True),
        ("The train leaves at nine in the morning.", {"language": "fr"}, False),
        ("12345", {"language": "fr"}, True),  # nothing to tell it by
    ],
    "SectionChecker": [
        ("SECTION 1\na\nSECTION 2\nb", {"section_spliter": "SECTION", "num_sections": 2}, True),
        ("SECTION 1\na", {"section_spliter": "SECTION", "num_sections": 2}, False),
        ("Section 1", {"section_spliter": "SECTION", "num_sections": 1}, False),
        ("Day1 Day 22", {"section_spliter": " Day ", "num_sections": 2}, True),
        ("Section one", {"section_spliter": "Section", "num_sections": 1}, False),
    ],
    "SentenceHyphenChecker": [
        ("It rained.-We left.", {}, True),
        ("It rained.- We left.", {}, False),
        ("It rained. We left.", {}, False),
        ("Only one.", {}, True),
        ("A well-known fact.", {}, False),
    ],
    "SquareBracketChecker": [
        ("[all] [of] [it]", {}, True),
        ("[all] of [it]", {}, False),
        ("[all of it]", {}, False),
    ],
    "StartEndChecker": [
        ("Rain brings rain", {}, True),
        ("Rain brings rain.", {}, False),
        ("Rain", {}, False),
        (". a .", {}, True),
    ],
    "TitleChecker": [
        ("<<Ode>>\nDrip", {}, True),
        ("<<>>", {}, False),
        ("<< >>", {}, False),
        ("<<a\nb>>", {}, False),
        ("<Ode>", {}, False),
        (">><<", {}, False),
        ("<<>>>", {}, False),  # a single > between, and all of them come off
        ("<<><>>", {}, True),  # only < comes off in front and > behind: >< is left
        ("a >> b <<Ode>> c", {}, True),
    ],
    "TwoResponsesChecker": [
        ("a\n******\nb", {}, True),
        ("a\n******\n a ", {}, False),
        ("a", {}, False),
        ("******a******b******", {}, True),
        ("a************b", {}, False),  # an empty one between
        ("a******b******c", {}, False),
    ],
}


def verdict(name: str, text: str, parameters: dict[str, Any]) -> bool:
    said = run_check(name, parameters, text)
    assert isinstance(said, CheckOutcome), said
    assert said.reason
    return said.passed


def test_every_rule_has_its_table() -> None:
    assert set(CASES) == set(RUBRICHUB)


@each(("name", "text", "parameters", "expected"), [(name, *case) for name, cases in CASES.items() for case in cases])
def test_rule(name: str, text: str, parameters: dict[str, Any], expected: bool) -> None:
    assert verdict(name, text, parameters) is expected


BY_FUNCTION = {function: name for name, function in RUBRICHUB.items()}


@each("instruction", IFEVAL)
def test_an_instruction_of_ifeval_decides_as_the_rule_it_shares(instruction: str) -> None:
    for text, parameters, expected in CASES[BY_FUNCTION[IFEVAL[instruction]]]:
        assert verdict(instruction, text, parameters) is expected
