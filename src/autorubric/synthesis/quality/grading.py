"""The measures that need verdicts: consistency, stability, distinguishability."""

from __future__ import annotations

from autorubric.synthesis.quality.evidence import Evidence, pair_agreement, share


def consistency(evidence: Evidence) -> float | None:
    """How often two judges give one verdict on the same response, as a mean over the criteria.

    None unless two judges graded something.
    """
    return _agreement(evidence, same_judge=False)


def stability(evidence: Evidence) -> float | None:
    """How often a judge repeats its own verdict, as a mean over the criteria.

    Runs of one judge are rows of the pool with the same judge id. None unless one graded something twice.
    """
    return _agreement(evidence, same_judge=True)


def distinguishability(evidence: Evidence) -> float | None:
    """The share of graded criteria that separate the responses: neither all meet them nor all miss them.

    None unless two responses have a verdict.
    """
    return share([any(row) and not all(row) for _, row in evidence.majorities() if len(row) >= 2])


def _agreement(evidence: Evidence, *, same_judge: bool) -> float | None:
    if evidence.pool is None:
        return None
    graded = [c.id for c in evidence.candidates if c.id in evidence.pool.votes]
    found = [pair_agreement(evidence.pool, one, same_judge=same_judge) for one in graded]
    known = [one for one in found if one is not None]
    return sum(known) / len(known) if known else None
