"""The thirteen principles of good rubrics as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autorubric.synthesis.candidate import Candidate, Licence, Pool
from autorubric.synthesis.quality import grading, licensing, structure, wording
from autorubric.synthesis.quality.evidence import Evidence, Query

MEASURES: Mapping[str, Callable[[Evidence], float | None]] = {
    "consistency": grading.consistency,
    "stability": grading.stability,
    "alignment": licensing.alignment,
    "coverage": licensing.coverage,
    "number": wording.number,
    "independence": structure.independence,
    "atomicity": wording.atomicity,
    "clarity": wording.clarity,
    "conciseness": wording.conciseness,
    "language": wording.language,
    "distinguishability": grading.distinguishability,
    "weight_rationality": structure.weight_rationality,
    "verifiability": licensing.verifiability,
}
"""Each measure by name, in the order of the paper's Table 4."""


def measures(
    query: Query,
    candidates: Sequence[Candidate],
    pool: Pool | None = None,
    licences: Mapping[str, Licence | None] | None = None,
) -> dict[str, float | None]:
    """The thirteen measures of one rubric; None where there is no evidence.

    `number` is a count, every other measure lies in [0, 1], and more is better. Nothing is asked of a model: what
    needs judges uses the verdicts and licences that exist.

    Args:
        query: what the rubric is for: a text, or the messages of a conversation.
        candidates: its criteria.
        pool: the graded responses. Two rows with the same judge id are two runs of one judge.
        licences: what a judge said about each criterion's right to be asked, by criterion id; None where nobody
            could say.

    Example:
        >>> rubric = [Candidate("m1", "Dose", "Names the highest daily dose of 4 g.", 8)]
        >>> pool = Pool(("4 g a day.", "Ask a doctor."), ("j1", "j2"), {"m1": ((True, False), (True, False))})
        >>> found = measures("How much paracetamol is safe?", rubric, pool)
        >>> found["number"], found["consistency"], found["stability"], found["distinguishability"]
        (1.0, 1.0, None, 1.0)
    """
    ruled = {key: licence for key, licence in (licences or {}).items() if licence is not None}
    evidence = Evidence(query, candidates, pool, ruled)
    return {name: measure(evidence) for name, measure in MEASURES.items()}
