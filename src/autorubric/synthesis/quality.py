"""The thirteen principles of good rubrics as numbers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

from autorubric.linting.criterion_words import Phrasing, detect_language
from autorubric.linting.finding import RawCriterion, RawRubric, Rule
from autorubric.linting.records import read_query
from autorubric.linting.rules.comparative import COMPARATIVE
from autorubric.linting.rules.compound_demands import SEVERAL_DEMANDS
from autorubric.linting.rules.duplicates import DUPLICATE, NEAR_DUPLICATE, Gist
from autorubric.linting.rules.form import DOMINANT_WEIGHT, EQUAL_WEIGHTS, LANGUAGE, LENGTH, SIGN
from autorubric.linting.rules.unseen import UNSEEN_REFERENCE, has_criterion_reference
from autorubric.linting.rules.vague import VAGUE_WORDS
from autorubric.synthesis.candidate import Candidate, GateContext, Pool, Relevance

Query: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A query: a text, or the messages of a conversation."""


@dataclass(frozen=True)
class _RubricEvidence(GateContext):
    """One rubric and all evidence on it; relevance only where judges could assess it."""

    relevance: Mapping[str, Relevance] = field(default_factory=dict)

    @cached_property
    def rubric(self) -> RawRubric:
        """The rubric as the lint rules read it."""
        criteria = [RawCriterion(c.description, float(c.weight), c.title, check=c.check) for c in self.candidates]
        return RawRubric(criteria, read_query(self.query))

    def list_graded(self) -> Iterator[tuple[Candidate, tuple[bool | None, ...]]]:
        """Yield each criterion that was graded, with the majority verdict on each response."""
        for candidate in self.candidates:
            if candidate.id in self.pool.votes:
                yield candidate, self.pool.find_majority(candidate.id)

    def find_broken(self, *rules: Rule) -> frozenset[int | None]:
        """Return the positions (from 1) of criteria that violate one of the rules; None for the whole rubric."""
        return frozenset(hit.criterion for rule in rules for hit in rule.find(self.rubric))

    def compute_share_without(self, *rules: Rule) -> float | None:
        """Return the share of criteria that violate none of the rules; None without criteria."""
        broken = self.find_broken(*rules)
        return compute_share([n not in broken for n in range(1, len(self.candidates) + 1)])


def compute_share(hits: Sequence[bool]) -> float | None:
    """Return the share of True in `hits`; None if it is empty."""
    return sum(hits) / len(hits) if hits else None


def _find_agreement(evidence: _RubricEvidence, same_judge: bool) -> float | None:
    """Return how often two verdicts on one response agree: the mean over the criteria with such pairs."""
    found = [_find_pair_agreement(evidence.pool, candidate.id, same_judge) for candidate, _ in evidence.list_graded()]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else None


def _find_pair_agreement(pool: Pool, criterion: str, same_judge: bool) -> float | None:
    rows = zip(pool.judges, pool.votes[criterion], strict=True)
    agreed = [
        one is other
        for (judge, first), (peer, second) in combinations(rows, 2)
        if (judge == peer) is same_judge
        for one, other in zip(first, second, strict=True)
        if one is not None and other is not None
    ]
    return compute_share(agreed)


def measure_distinguishability(evidence: _RubricEvidence) -> float | None:
    """Return the share of graded criteria that some responses meet and some do not; needs two verdicts."""
    rows = [[verdict for verdict in row if verdict is not None] for _, row in evidence.list_graded()]
    return compute_share([any(row) and not all(row) for row in rows if len(row) >= 2])


def measure_alignment(evidence: _RubricEvidence) -> float | None:
    """Return the share of assessed criteria that the query asks for or implies, without an unrequested form."""
    found = [evidence.relevance[c.id] for c in evidence.candidates if c.id in evidence.relevance]
    return compute_share(
        [relevance.need != "none" and (not relevance.surface or relevance.surface_asked) for relevance in found]
    )


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


def measure_coverage(evidence: _RubricEvidence) -> float | None:
    """Return the share of the query's demands that a criterion covers.

    A demand is a sentence or line of the query that asks for something (any sentence if none does). It is covered if
    it contains the words quoted for a criterion, or if one criterion shares a third of its content words. This is a
    lower bound. None without a demand, or if the criteria are in another language and so share no words.
    """
    pieces = [piece.strip() for piece in _PIECES.split(evidence.rubric.query)]
    whole = [piece for piece in pieces if Gist(Phrasing(piece), False).content]
    demands = [piece for piece in whole if _ASKING.search(piece)] or whole
    explicit = [relevance.quote for relevance in evidence.relevance.values() if relevance.need == "explicit"]
    quotes = [_normalize(quote) for quote in explicit if quote.strip()]
    if not demands or (None in evidence.find_broken(LANGUAGE) and not quotes):
        return None
    criteria = [Gist(criterion.wording, False).content for criterion in evidence.rubric.criteria]
    return compute_share([_is_covered(demand, quotes, criteria) for demand in demands])


def _is_covered(demand: str, quotes: list[str], criteria: list[frozenset[str]]) -> bool:
    text = _normalize(demand)
    if any(quote in text or text in quote for quote in quotes):
        return True
    wanted = Gist(Phrasing(demand), False).content
    return any(len(wanted & content) >= _ENOUGH * len(wanted) for content in criteria)


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .。!！?？")


def measure_verifiability(evidence: _RubricEvidence) -> float | None:
    """Return the share of criteria decidable from the submission alone, by their words and any assessments."""
    unseen = evidence.find_broken(UNSEEN_REFERENCE)
    refused = {key for key, relevance in evidence.relevance.items() if not relevance.answerable}
    return compute_share([n not in unseen and c.id not in refused for n, c in enumerate(evidence.candidates, 1)])


_LOWEST, _HIGHEST = -10, 10
# With fewer responses, or without a common word, equal verdicts are too often a coincidence.
_FEWEST_RESPONSES = 4
_SHARED_WORDS = 1 / 3


def measure_independence(evidence: _RubricEvidence) -> float | None:
    """Return the share of criteria that neither repeat an earlier criterion nor refer to another one.

    A criterion repeats another if it says nearly the same (rules `duplicate`, `near-duplicate`), or if every judge
    gave both the same verdicts, met and unmet, on at least 4 responses and they share a third of their content words.
    """
    repeats = evidence.find_broken(DUPLICATE, NEAR_DUPLICATE) | _find_same_verdicts(evidence)
    criteria = enumerate(evidence.rubric.criteria, 1)
    return compute_share(
        [n not in repeats and not has_criterion_reference(criterion.wording) for n, criterion in criteria]
    )


def _find_same_verdicts(evidence: _RubricEvidence) -> frozenset[int | None]:
    """Return the positions of criteria that share all judges' verdicts and some words with an earlier one."""
    places = {candidate.id: n for n, candidate in enumerate(evidence.candidates, 1)}
    gists = {
        candidate.id: Gist(evidence.rubric.criteria[places[candidate.id] - 1].wording, candidate.pitfall)
        for candidate, row in evidence.list_graded()
        if len(row) >= _FEWEST_RESPONSES and True in row and False in row
    }
    votes = evidence.pool.votes
    return frozenset(
        places[later]
        for earlier, later in combinations(gists, 2)
        if votes[earlier] == votes[later] and _has_shared_words(gists[earlier], gists[later])
    )


def _has_shared_words(gist: Gist, other: Gist) -> bool:
    shared, union = gist.content & other.content, gist.content | other.content
    return gist.guards == other.guards and bool(union) and len(shared) >= _SHARED_WORDS * len(union)


def measure_weight_rationality(evidence: _RubricEvidence) -> float | None:
    """Return the share of criteria with a plausible weight, halved if the weights as a whole are uninformative.

    A weight is plausible if it is between -10 and 10, not 0, and has the sign of the wording (`sign-contradiction`).
    The weights are uninformative if all are equal (`equal-weights`) or one has most points (`dominant-weight`).
    """
    wrong = evidence.find_broken(SIGN)
    places = enumerate(evidence.candidates, 1)
    sound = compute_share([c.weight != 0 and _LOWEST <= c.weight <= _HIGHEST and n not in wrong for n, c in places])
    flat = bool(evidence.find_broken(EQUAL_WEIGHTS, DOMINANT_WEIGHT))
    return sound if sound is None or not flat else sound / 2


def measure_language(evidence: _RubricEvidence) -> float | None:
    """Return the share of criteria in the language of the query; None if that language is unclear."""
    if detect_language(evidence.rubric.query) is None or not evidence.candidates:
        return None
    return 0.0 if None in evidence.find_broken(LANGUAGE) else evidence.compute_share_without(LANGUAGE)


MEASURES: Mapping[str, Callable[[_RubricEvidence], float | None]] = {
    "consistency": lambda evidence: _find_agreement(evidence, same_judge=False),
    "stability": lambda evidence: _find_agreement(evidence, same_judge=True),
    "alignment": measure_alignment,
    "coverage": measure_coverage,
    "number": lambda evidence: float(len(evidence.candidates)),
    "independence": measure_independence,
    "atomicity": lambda evidence: evidence.compute_share_without(SEVERAL_DEMANDS),
    "clarity": lambda evidence: evidence.compute_share_without(VAGUE_WORDS, COMPARATIVE),
    "conciseness": lambda evidence: evidence.compute_share_without(LENGTH),
    "language": measure_language,
    "distinguishability": measure_distinguishability,
    "weight_rationality": measure_weight_rationality,
    "verifiability": measure_verifiability,
}
"""Each measure by name, in the order of the paper's Table 4; `docs/quality.md` defines them."""


def measure_quality(
    query: Query,
    candidates: Sequence[Candidate],
    pool: Pool | None = None,
    relevance: Mapping[str, Relevance | None] | None = None,
) -> dict[str, float | None]:
    """Compute the thirteen measures of one rubric; None for a measure without evidence.

    `number` is a count, every other measure lies in [0, 1], and more is better. No request is sent: measures that
    need judges use the verdicts and relevance that exist.

    Args:
        query: the query of the rubric: a text, or the messages of a conversation.
        candidates: the criteria of the rubric.
        pool: the graded responses. Two rows with the same judge id are two runs of one judge.
        relevance: whether the query asks for each criterion, by criterion id; None if no judge could assess it.

    Example:
        >>> rubric = [Candidate("m1", "Dose", "Names the highest daily dose of 4 g.", 8)]
        >>> pool = Pool(("4 g a day.", "Ask a doctor."), ("j1", "j2"), {"m1": ((True, False), (True, False))})
        >>> found = measure_quality("How much paracetamol is safe?", rubric, pool)
        >>> found["number"], found["consistency"], found["stability"], found["distinguishability"]
        (1.0, 1.0, None, 1.0)
    """
    assessed = {key: found for key, found in (relevance or {}).items() if found is not None}
    evidence = _RubricEvidence(query, tuple(candidates), pool or Pool((), ()), assessed)
    return {name: measure(evidence) for name, measure in MEASURES.items()}
