"""The measures that need verdicts: consistency, stability, distinguishability."""

from __future__ import annotations

from itertools import combinations

from autorubric.synthesis.candidate import Pool
from autorubric.synthesis.quality.evidence import Evidence, share


def consistency(evidence: Evidence) -> float | None:
    """How often two judges give one verdict on the same response, as a mean over the criteria.

    None unless two judges have a verdict on one response.
    """
    return _agreement(evidence, same_judge=False)


def stability(evidence: Evidence) -> float | None:
    """How often a judge repeats its own verdict, as a mean over the criteria.

    Runs of one judge are rows of the pool with the same judge id. None unless one has two verdicts on one response.
    """
    return _agreement(evidence, same_judge=True)


def distinguishability(evidence: Evidence) -> float | None:
    """The share of graded criteria that separate the responses: neither all meet them nor all miss them.

    None unless two responses have a verdict on one criterion.
    """
    rows = [[verdict for verdict in row if verdict is not None] for _, row in evidence.graded()]
    return share([any(row) and not all(row) for row in rows if len(row) >= 2])


def _agreement(evidence: Evidence, *, same_judge: bool) -> float | None:
    pool = evidence.pool
    if pool is None:
        return None
    found = [_pair_agreement(pool, candidate.id, same_judge) for candidate, _ in evidence.graded()]
    known = [one for one in found if one is not None]
    return sum(known) / len(known) if known else None


def _pair_agreement(pool: Pool, criterion: str, same_judge: bool) -> float | None:
    """How often two verdicts on one response agree; None where no response has two."""
    rows = zip(pool.judges, pool.votes[criterion], strict=True)
    agreed = [
        one is other
        for (judge, first), (peer, second) in combinations(rows, 2)
        if (judge == peer) is same_judge
        for one, other in zip(first, second, strict=True)
        if one is not None and other is not None
    ]
    return share(agreed)
