"""From the words of a criterion to the check that decides it, where the words leave no room for judgment.

A pattern has to cover the whole criterion: one that also asks for something else stays with the judge, and so does
any bound that is only approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autorubric.checks import validate_check
from autorubric.errors import InputError, MissingPackageError
from autorubric.synthesis.compiling.formats import (
    keyword_check,
    language_check,
    layout_check,
    repetition_check,
    typography_check,
)
from autorubric.synthesis.compiling.quantities import Found, count_check, number_check

_READERS: tuple[tuple[str, Callable[[str, str], Found]], ...] = (
    ("length", count_check),
    ("format", layout_check),
    ("format", typography_check),
    ("keyword", repetition_check),
    ("keyword", keyword_check),
    ("language", language_check),
    ("number", number_check),
)
_LONGEST = 300  # characters: what is longer asks for more than a count or a phrase


@dataclass(frozen=True, slots=True)
class Recognised:
    """The check that a wording names.

    Attributes:
        name: of the check.
        parameters: valid for it.
        kind: of the wording: length, format, keyword, language or number.
    """

    name: str
    parameters: Mapping[str, Any]
    kind: str


def recognise(text: str, query: str = "") -> Recognised | None:
    """The check that decides a criterion, or None where its words need a judge.

    The check passes where what the words describe is there, whatever the sign of the criterion's weight.

    Args:
        text: the words of the criterion.
        query: what the submission answers, for "in the language of the question".

    Example:
        >>> recognise("The response is no more than 200 words long.")
        Recognised(name='word_count', parameters={'at_most': 200}, kind='length')
        >>> recognise("回答不超过三句话。").parameters
        {'at_most': 3}
        >>> recognise("Has at most 200 words and names the dose.") is None
        True
    """
    wording = " ".join(text.split()).rstrip(" .。!！;；")
    if len(wording) > _LONGEST:
        return None
    for kind, read in _READERS:
        found = read(wording, query)
        if found is None:
            continue
        name, parameters = found
        try:
            return Recognised(name, validate_check(name, parameters), kind)
        except MissingPackageError:
            raise
        except InputError:
            continue
    return None
