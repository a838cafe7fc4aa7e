"""The measures that need only the words: number, atomicity, clarity, conciseness, language."""

from __future__ import annotations

from autorubric.linting.rules.comparatives import COMPARATIVE
from autorubric.linting.rules.demands import SEVERAL_DEMANDS
from autorubric.linting.rules.languages import LANGUAGE
from autorubric.linting.rules.length import LENGTH
from autorubric.linting.rules.vague import VAGUE_WORDS
from autorubric.synthesis.quality.evidence import Evidence


def number(evidence: Evidence) -> float | None:
    """How many criteria there are: a count; 3 to 25 are expected."""
    return float(len(evidence.candidates))


def atomicity(evidence: Evidence) -> float | None:
    """The share of criteria that ask for one thing (rule `several-demands`)."""
    return evidence.share_without(SEVERAL_DEMANDS)


def clarity(evidence: Evidence) -> float | None:
    """The share of criteria without vague words and open comparisons (rules `vague-words`, `comparative`)."""
    return evidence.share_without(VAGUE_WORDS, COMPARATIVE)


def conciseness(evidence: Evidence) -> float | None:
    """The share of criteria of 5 to 40 words and at most 4 sentences (rule `length`)."""
    return evidence.share_without(LENGTH)


def language(evidence: Evidence) -> float | None:
    """The share of criteria in the language of the query; None where that language is not clear."""
    if evidence.sheet.query_language is None or not evidence.candidates:
        return None
    return 0.0 if None in evidence.broken(LANGUAGE) else evidence.share_without(LANGUAGE)
