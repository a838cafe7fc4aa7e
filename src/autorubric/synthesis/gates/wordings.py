"""How alike two criteria are worded, and whether a query holds certain words; English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from autorubric.wording import NUMBER_WORDS, negations_in, numbers_in

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?|[\u3400-\u9fff]+")
_STOP = frozenset(
    re.findall(
        "[a-z]+",
        "a an and any are as at be by does each every for from has have in include includes including into is it "
        "its mention mentions must of on or should state states such than that the their this to which with "
        "response answer",
    )
)
_ENDINGS = re.compile(r"(?:ies|ing|ed|es|s|ly)$")


def alikeness(left: str, right: str) -> float:
    """How much of the words of the shorter of two criteria the other has, from 0 to 1.

    Chinese counts by pairs of characters. Two criteria with different numbers, or of which one alone is worded as
    a negation, are not alike at all: "every 3 months" is not "every 6 months".
    """
    if numbers_in(left) != numbers_in(right) or bool(negations_in(left)) != bool(negations_in(right)):
        return 0.0
    mine, others = _parts(left), _parts(right)
    return len(mine & others) / min(len(mine), len(others)) if mine and others else 0.0


def holds(text: str, quote: str) -> bool:
    """Whether a text has the quoted words, whatever the case, spaces and punctuation."""
    bare = _bare(quote)
    return bool(bare) and bare in _bare(text)


def _bare(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


@lru_cache(4096)
def _parts(text: str) -> frozenset[str]:
    parts = set[str]()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).lower()):
        if token[0] >= "\u3400":
            parts.update(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        elif token not in _STOP and token not in NUMBER_WORDS and not token[0].isdigit():
            parts.add(_ENDINGS.sub("", token) if len(token) > 4 else token)
    return frozenset(parts)
