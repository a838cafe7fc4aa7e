"""The measures that ask whether the query wants it: alignment, coverage, verifiability."""

from __future__ import annotations

import re

from autorubric.linting.rules.languages import LANGUAGE
from autorubric.linting.rules.unseen import UNSEEN_REFERENCE
from autorubric.linting.sameness import Gist
from autorubric.linting.wording import Wording
from autorubric.synthesis.candidate import Licence
from autorubric.synthesis.quality.evidence import Evidence, share

_PIECES = re.compile(r"(?<=[.!?。！？；;])\s*|\n+")
_ASKING = re.compile(
    r"[?？]\s*$|^\W*(?:please|can|could|would|what|why|how|who|when|where|which|is|are|do|does|should|must|write|explain|"
    r"describe|list|give|name|compare|summari[sz]e|create|make|find|show|tell|help|design|propose|compute|calculate|"
    r"include|use|avoid|analy[sz]e|discuss|generate|provide|suggest|outline|solve|prove|implement|translate|rewrite)\b"
    r"|\b(?:must|should|need to|make sure|i want|i'd like)\b"
    r"|请|帮|写|需要|必须|不要|应该|应当|如何|什么|为什么|怎么|哪|吗",
    re.IGNORECASE,
)
_ENOUGH = 1 / 3


def alignment(evidence: Evidence) -> float | None:
    """The share of criteria that the query asks for or implies, and that demand no form it does not ask for.

    Of the criteria a judge has ruled on; None where it ruled on none.
    """
    return share([_aligned(evidence.licences[c.id]) for c in evidence.candidates if c.id in evidence.licences])


def coverage(evidence: Evidence) -> float | None:
    """The share of the query's demands that a criterion takes up.

    A demand is a sentence or line of the query that asks for something (any sentence, where none does). It is taken
    up when the words that license a criterion stand in it, or when one criterion shares a third of its content
    words: the explicit demands, from below. None without a demand, or where the criteria
    are in another language, so that they share no words.
    """
    demands = _demands(evidence.sheet.query)
    explicit = [one.quote for one in evidence.licences.values() if one.need == "explicit"]
    quotes = [_plain(quote) for quote in explicit if quote.strip()]
    if not demands or (None in evidence.broken(LANGUAGE) and not quotes):
        return None
    criteria = [Gist.of(draft.wording, False).content for draft in evidence.sheet.criteria]
    return share([_taken_up(demand, quotes, criteria) for demand in demands])


def verifiability(evidence: Evidence) -> float | None:
    """The share of criteria that the submission alone decides.

    None of them points at a reference, another response, a picture or other criteria, and where a judge ruled on it,
    it said so. A criterion that a check decides is verifiable.
    """
    unseen = evidence.broken(UNSEEN_REFERENCE)
    ruled = {key for key, licence in evidence.licences.items() if not licence.answerable}
    return share([n not in unseen and c.id not in ruled for n, c in enumerate(evidence.candidates, 1)])


def _aligned(licence: Licence) -> bool:
    return licence.need != "none" and (not licence.surface or licence.surface_asked)


def _demands(query: str) -> list[str]:
    pieces = [piece.strip() for piece in _PIECES.split(query)]
    whole = [piece for piece in pieces if Gist.of(Wording(piece), False).content]
    return [piece for piece in whole if _ASKING.search(piece)] or whole


def _taken_up(demand: str, quotes: list[str], criteria: list[frozenset[str]]) -> bool:
    text = _plain(demand)
    if any(quote in text or text in quote for quote in quotes):
        return True
    wanted = Gist.of(Wording(demand), False).content
    return any(len(wanted & content) >= _ENOUGH * len(wanted) for content in criteria)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .。!！?？")
