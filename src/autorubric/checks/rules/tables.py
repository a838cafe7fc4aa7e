"""Which verifier answers to which published name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autorubric.checks.outcome import CheckOutcome
from autorubric.checks.rules import copying, formats, keywords, lengths, letters, words

RUBRICHUB: Mapping[str, Callable[..., CheckOutcome]] = MappingProxyType(
    {
        "AdjacentLetterChecker": letters.no_adjacent_letters,
        "BiGramWrappingChecker": formats.bigram_wrapping,
        "BulletListChecker": formats.bullet_list,
        "CapitalLettersEnglishChecker": letters.english_capitals,
        "CapitalWordFrequencyChecker": letters.capital_words,
        "CommaChecker": letters.no_comma,
        "ConstrainedResponseChecker": formats.constrained_response,
        "CopyChecker": copying.copies_prompt,
        "CopySpanIdxChecker": copying.copies_span,
        "CopyingMultipleChecker": copying.copies_prompt_often,
        "CopyingSimpleChecker": copying.copies_prompt,
        "CountIncrementWordChecker": keywords.keywords_once_and_twice,
        "CountUniqueChecker": lengths.words_unique,
        "CountingCompositionChecker": lengths.composition,
        "EndChecker": copying.end_phrase,
        "ExcludeWordHarderChecker": keywords.word_excluded,
        "FirstWordAnswerChecker": words.first_word_of_answer,
        "FirstWordSentChecker": words.first_word_of_sentences,
        "ForbiddenWords": keywords.words_forbidden,
        "HighlightSectionChecker": formats.highlights,
        "JsonFormat": formats.json_format,
        "KeywordChecker": keywords.keywords_exist,
        "KeywordFrequencyChecker": keywords.keyword_frequency,
        "KeywordFrequencyCheckerDifferent": keywords.keyword_frequency,
        "KeywordFrequencyOnceChecker": keywords.keyword_once,
        "KeywordSpecificPositionChecker": keywords.keyword_at_position,
        "LastWordAnswerChecker": words.last_word_of_answer,
        "LastWordSentChecker": words.last_word_of_sentences,
        "LetterCountingChecker": letters.letter_count,
        "LetterFrequencyChecker": letters.letter_frequency,
        "LowercaseCountingChecker": letters.lowercase_words,
        "LowercaseLettersEnglishChecker": letters.english_lowercase,
        "NumberOfSentences": lengths.number_of_sentences,
        "NumberOfWords": lengths.number_of_words,
        "PalindromeBasicChecker": words.palindrome,
        "ParagraphBasicChecker": lengths.two_divided_paragraphs,
        "ParagraphBasicChecker2": lengths.two_spaced_paragraphs,
        "ParagraphChecker": lengths.divided_paragraphs,
        "ParagraphFirstWordCheck": lengths.paragraph_first_word,
        "PlaceholderChecker": formats.placeholders,
        "PostscriptChecker": formats.postscript,
        "PunctuationDotChecker": letters.no_dot,
        "PunctuationExclamationChecker": letters.no_exclamation,
        "QuotationChecker": formats.quotation,
        "RepeatPhraseChecker": copying.repeats_phrase,
        "RepeatPromptThenAnswer": copying.repeats_prompt_first,
        "ResponseLanguageChecker": letters.response_language,
        "SectionChecker": formats.sections,
        "SentenceHyphenChecker": formats.hyphenated_sentences,
        "SquareBracketChecker": formats.square_brackets,
        "StartEndChecker": words.starts_as_it_ends,
        "TitleChecker": formats.title,
        "TwoResponsesChecker": copying.two_responses,
    }
)
"""The 53 verifiers of RubricHub's instruction-following rows, by class name."""

IFEVAL: Mapping[str, Callable[..., CheckOutcome]] = MappingProxyType(
    {
        "change_case:capital_word_frequency": letters.capital_words,
        "change_case:english_capital": letters.english_capitals,
        "change_case:english_lowercase": letters.english_lowercase,
        "combination:repeat_prompt": copying.repeats_prompt_first,
        "combination:two_responses": copying.two_responses,
        "detectable_content:number_placeholders": formats.placeholders,
        "detectable_content:postscript": formats.postscript,
        "detectable_format:constrained_response": formats.constrained_response,
        "detectable_format:json_format": formats.json_format,
        "detectable_format:multiple_sections": formats.sections,
        "detectable_format:number_bullet_lists": formats.bullet_list,
        "detectable_format:number_highlighted_sections": formats.highlights,
        "detectable_format:title": formats.title,
        "keywords:existence": keywords.keywords_exist,
        "keywords:forbidden_words": keywords.words_forbidden,
        "keywords:frequency": keywords.keyword_frequency,
        "keywords:letter_frequency": letters.letter_frequency,
        "language:response_language": letters.response_language,
        "length_constraints:nth_paragraph_first_word": lengths.paragraph_first_word,
        "length_constraints:number_paragraphs": lengths.divided_paragraphs,
        "length_constraints:number_sentences": lengths.number_of_sentences,
        "length_constraints:number_words": lengths.number_of_words,
        "punctuation:no_comma": letters.no_comma,
        "startend:end_checker": copying.end_phrase,
        "startend:quotation": formats.quotation,
    }
)
"""The 25 instructions of IFEval, by id."""
