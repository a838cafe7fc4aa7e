"""Which checks need a package of the extra `checks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autorubric.checks import language, length, phrases, structured
from autorubric.checks.outcome import CheckOutcome
from autorubric.checks.rules import copying, formats, keywords, lengths, letters, words
from autorubric.extras import require

_REGEX = ("regex",)
_NLTK = ("nltk",)
_LANGDETECT = ("langdetect",)

_PACKAGES: Mapping[Callable[..., CheckOutcome], tuple[str, ...]] = MappingProxyType(
    {
        phrases.regex: _REGEX,
        keywords.keywords_exist: _REGEX,
        keywords.keyword_frequency: _REGEX,
        keywords.keyword_once: _REGEX,
        keywords.keywords_once_and_twice: _REGEX,
        keywords.words_forbidden: _REGEX,
        keywords.keyword_at_position: _NLTK,
        copying.repeats_phrase: _REGEX,
        formats.bullet_list: _REGEX,
        formats.highlights: _REGEX,
        formats.sections: _REGEX,
        formats.postscript: _REGEX,
        length.sentence_count: _NLTK,
        lengths.number_of_sentences: _NLTK,
        lengths.composition: _NLTK,
        lengths.words_unique: _NLTK,
        words.starts_as_it_ends: _NLTK,
        letters.capital_words: _NLTK,
        letters.english_capitals: _LANGDETECT,
        letters.english_lowercase: _LANGDETECT,
        letters.response_language: _LANGDETECT,
        language.language: _LANGDETECT,
        structured.json_schema: ("jsonschema", "regex"),
        structured.xml_valid: ("defusedxml",),
    }
)

PACKAGES = ("defusedxml", "jsonschema", "langdetect", "nltk", "regex")
"""Every package of the extra."""


def require_packages(check: str, function: Callable[..., CheckOutcome]) -> None:
    """Refuse a check whose packages are not installed.

    Raises:
        MissingPackageError: the message names the packages and the extra.

    Example:
        >>> require_packages("language", language.language)
    """
    require(_PACKAGES.get(function, ()), "checks", f"check {check!r}")
