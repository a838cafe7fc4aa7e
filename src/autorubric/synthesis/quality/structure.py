"""The measures of how criteria stand to each other: independence, weight rationality."""

from __future__ import annotations

from itertools import combinations

from autorubric.linting.rules.duplicates import DUPLICATE, NEAR_DUPLICATE
from autorubric.linting.rules.signs import SIGN
from autorubric.linting.rules.unseen import points_at_criteria
from autorubric.linting.rules.weights import DOMINANT_WEIGHT, EQUAL_WEIGHTS
from autorubric.linting.sameness import Gist
from autorubric.synthesis.quality.evidence import Evidence, share

_LOWEST, _HIGHEST = -10, 10
# On fewer responses, or without a word in common, equal verdicts are too often a coincidence.
_FEWEST_RESPONSES = 4
_SHARED_WORDS = 1 / 3


def independence(evidence: Evidence) -> float | None:
    """The share of criteria that repeat none before them and speak of no other.

    One repeats another when it says nearly the same (rules `duplicate`, `near-duplicate`), or when every judge gave
    both the same verdicts, met and unmet, on 4 responses or more and they share a third of their content words.
    """
    repeats = evidence.broken(DUPLICATE, NEAR_DUPLICATE) | _same_verdicts(evidence)
    drafts = enumerate(evidence.sheet.criteria, 1)
    return share([n not in repeats and not points_at_criteria(draft.wording) for n, draft in drafts])


def weight_rationality(evidence: Evidence) -> float | None:
    """The share of criteria whose weight can be right, halved where the weights as a whole say nothing.

    It can be right when it lies between -10 and 10, is not 0, and has the sign of the wording (`sign-contradiction`).
    The weights say nothing when all are equal (`equal-weights`) or one holds most points (`dominant-weight`).
    """
    wrong = evidence.broken(SIGN)
    sound = share(
        [
            c.weight != 0 and _LOWEST <= c.weight <= _HIGHEST and n not in wrong
            for n, c in enumerate(evidence.candidates, 1)
        ]
    )
    flat = bool(evidence.broken(EQUAL_WEIGHTS, DOMINANT_WEIGHT))
    return sound if sound is None or not flat else sound / 2


def _same_verdicts(evidence: Evidence) -> frozenset[int | None]:
    """The positions of criteria that every judge treats as one before them, in partly the same words."""
    pool = evidence.pool
    if pool is None:
        return frozenset()
    places = {candidate.id: n for n, candidate in enumerate(evidence.candidates, 1)}
    telling = {
        candidate.id: Gist.of(evidence.sheet.criteria[places[candidate.id] - 1].wording, candidate.pitfall)
        for candidate, row in evidence.graded()
        if len(row) >= _FEWEST_RESPONSES and True in row and False in row
    }
    return frozenset(
        places[later]
        for earlier, later in combinations(telling, 2)
        if pool.votes[earlier] == pool.votes[later] and _share_words(telling[earlier], telling[later])
    )


def _share_words(one: Gist, other: Gist) -> bool:
    union = one.content | other.content
    return (
        one.guards == other.guards and bool(union) and len(one.content & other.content) >= _SHARED_WORDS * len(union)
    )
