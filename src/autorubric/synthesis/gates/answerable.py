"""The gate of answerability: the submission alone shows whether the criterion is met."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.linting.rules.unseen import unseen_texts
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision


def answerable(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that need more than the query and one submission to be decided.

    Besides the licence judges, a criterion's own words tell: one that speaks of a reference answer or of other
    responses asks for what no grader sees, unless the query speaks of them too.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> one = Candidate("e1.1", "Depth", "Goes deeper than the other response.", 5, "evolved", 1)
        >>> answerable([one], GateContext("Why?", (one,), Pool((), ())), GateSettings())[0].outcome
        'rejected'
    """
    return [_decision(one, context) for one in candidates]


def _decision(one: Candidate, context: GateContext) -> GateDecision:
    unseen = unseen_texts(one.description, context.query_text)
    if unseen:
        reason = f"it speaks of {unseen!r}, which a grader does not see"
        return GateDecision(one.id, "answerable", "rejected", {"words": unseen}, reason)
    licence = context.licence_of(one)
    if licence is None:
        return GateDecision(one.id, "answerable", "undecided", {}, "no licence judgment")
    if not licence.answerable:
        reason = licence.reason or "the submission alone does not show whether it is met"
        return GateDecision(one.id, "answerable", "rejected", {"draws": licence.draws}, reason)
    return GateDecision(one.id, "answerable", "kept", {"draws": licence.draws})
