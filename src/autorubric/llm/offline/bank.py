"""The sentences the offline model has to say, from `phrases.yaml`."""

from __future__ import annotations

from functools import cache
from typing import Any

from autorubric.llm.offline.reading import Reading
from autorubric.llm.offline.tables import table
from autorubric.llm.offline.words import Language, terms


def bank(language: Language) -> dict[str, Any]:
    """Everything there is to say in a language.

    Example:
        >>> bank("en")["fallback"]
        'the question'
    """
    part: dict[str, Any] = table("phrases")[language]
    return part


@cache
def own_words(language: Language) -> frozenset[str]:
    """The terms of the bank's answers: what they say is no finding about a query.

    Example:
        >>> "mistak" in own_words("en")
        True
    """
    return terms(str(bank(language)["answers"]))


@cache
def criteria_words() -> frozenset[str]:
    """The terms that the bank's criteria are made of, in all languages.

    Example:
        >>> "respon" in criteria_words()
        True
    """
    return terms(str(bank("en")["criteria"]) + str(bank("zh")["criteria"]))


def phrases_of(reading: Reading) -> tuple[str, ...]:
    """The phrases of a query, or the bank's word for a query without any.

    Example:
        >>> from autorubric.llm.offline.reading import read_query
        >>> phrases_of(read_query(""))
        ('the question',)
    """
    return reading.phrases or (bank(reading.language)["fallback"],)


def filled(template: str, a: str = "", b: str = "", **values: object) -> str:
    """A sentence of the bank with its gaps filled in one pass; braces inside values stay text.

    Example:
        >>> filled("{A} and {b}.", a="cold air", b="{a}")
        'Cold air and {a}.'
    """
    return template.format(a=a, b=b, A=a[:1].upper() + a[1:], **values)
