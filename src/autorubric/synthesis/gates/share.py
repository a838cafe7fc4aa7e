"""The gate of share: evolved criteria do not take a rubric over."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision
from autorubric.synthesis.gates.separates import wrong_way_chance
from autorubric.synthesis.gates.verdicts import judge_error


def evolved_share(candidates: Sequence[Candidate]) -> float | None:
    """The share of points, whatever their sign, that evolved criteria hold; None where there are none.

    Example:
        >>> evolved_share([Candidate("m1", "", "x", 9), Candidate("e1.1", "", "y", -3, "evolved", 1)])
        0.25
    """
    total = sum(abs(one.weight) for one in candidates)
    return sum(abs(one.weight) for one in candidates if one.origin == "evolved") / total if total else None


def within_share(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for the evolved criteria with the least evidence, until the rest keep to the cap.

    Least evidence: the largest chance to point the wrong way; of equals the lower weight, then the later one.
    Without merged criteria there is nothing to take over, and without a cap nothing is decided.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> rubric = (Candidate("m1", "", "x", 6), Candidate("e1.1", "", "y", 6, "evolved", 1))
        >>> settings = GateSettings(share={"most": 0.3})
        >>> within_share(rubric, GateContext("Why?", rubric, Pool((), ())), settings)[0].outcome
        'rejected'
    """
    most = settings.share.most
    merged = [one for one in candidates if one.origin == "merged"]
    if most is None or not any(one.weight for one in merged):
        return []
    evolved = [one for one in candidates if one.origin == "evolved"]
    error = judge_error(context.pool, settings.judge_error)
    doubts = {one.id: wrong_way_chance(one, candidates, context, error) for one in evolved}
    ranked = sorted(evolved, key=lambda one: (_doubt(doubts[one.id]), -abs(one.weight)))
    staying = list(ranked)
    while staying and (evolved_share([*merged, *staying]) or 0) > most:
        staying.pop()
    kept = {one.id for one in staying}
    return [_decision(one, one.id in kept, doubts[one.id], evolved_share(candidates), most) for one in evolved]


def _doubt(chance: float | None) -> float:
    return 0.5 if chance is None else chance


def _decision(one: Candidate, kept: bool, doubt: float | None, share: float | None, most: float) -> GateDecision:
    figures = {"reversed": doubt, "share": share, "most": most}
    if kept:
        return GateDecision(one.id, "share", "kept", figures)
    reason = f"evolved criteria held more than {most:.0%} of the points, and this one has the least evidence"
    return GateDecision(one.id, "share", "rejected", figures, reason)
