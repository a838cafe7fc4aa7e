"""The gate of redundancy: no two criteria that demand the same."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings, RedundantSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision
from autorubric.synthesis.gates.verdicts import agreement_rate, judge_error, opposite, same_factor
from autorubric.synthesis.gates.words import alikeness


def redundant(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for each criterion that demands what a weightier one does.

    In a pool of six, equal verdicts are often chance. So the chance that two criteria are one starts low, or
    higher where the licence judges call them the same or their words are alike, and moves with the verdicts: by
    Bayes' factor for one truth behind both against two that agree as often as any two criteria of this pool.
    Of two, the higher weight stays, then the merged one, then the earlier one.

    Example:
        >>> from autorubric.synthesis.candidate import Licence, Pool
        >>> dose = Candidate("m1", "Dose", "States the largest daily dose.", 9)
        >>> limit = Candidate("e1.1", "Limit", "Says how much is too much in 24 hours.", 6, "evolved", 1)
        >>> votes = ((True, False, True, True, False, True),) * 2
        >>> pool = Pool(("",) * 6, ("j1", "j2"), {"m1": votes, "e1.1": votes})
        >>> said = {"m1": Licence("explicit"), "e1.1": Licence("implicit", same_as="m1")}
        >>> context = GateContext("How much ibuprofen may I take a day?", (dose, limit), pool, said)
        >>> [(one.candidate, one.outcome) for one in redundant([dose, limit], context, GateSettings())]
        [('m1', 'kept'), ('e1.1', 'rejected')]
    """
    votes = context.pool.votes
    graded = [votes[one.id] for one in candidates if one.id in votes]
    error, alike = judge_error(context.pool, settings.judge_error), agreement_rate(graded)
    ranked = sorted(candidates, key=lambda one: (-abs(one.weight), one.origin != "merged"))
    staying, said = list[Candidate](), dict[str, GateDecision]()
    for one in ranked:
        pairs = [(_same_chance(one, other, context, settings.redundant, (error, alike)), other) for other in staying]
        chance, other = max(pairs, key=lambda pair: pair[0], default=(0.0, None))
        if other is not None and chance >= settings.redundant.least_same:
            reason = f"it demands what {other.id} does: {other.description}"
            said[one.id] = GateDecision(one.id, "redundant", "rejected", {"same": chance, "as": other.id}, reason)
        else:
            staying.append(one)
            figures = {"same": chance, "as": other.id if other else None}
            said[one.id] = GateDecision(one.id, "redundant", "kept", figures)
    return [said[one.id] for one in candidates]


def _same_chance(
    one: Candidate, other: Candidate, context: GateContext, settings: RedundantSettings, noise: tuple[float, float]
) -> float:
    """The chance that two criteria demand the same, by what is said of them and by their verdicts."""
    prior = settings.prior_other
    if one.pitfall == other.pitfall and alikeness(one.description, other.description) >= settings.least_alike:
        prior = settings.prior_alike
    if _said_same(one, other, context) or _said_same(other, one, context):
        prior = max(prior, settings.prior_said_same)
    factor = 1.0
    votes, others = context.pool.votes.get(one.id), context.pool.votes.get(other.id)
    if votes and others:
        factor = same_factor(votes, opposite(others) if one.pitfall != other.pitfall else others, *noise)
    odds = prior / (1 - prior) * factor
    return odds / (1 + odds)


def _said_same(one: Candidate, other: Candidate, context: GateContext) -> bool:
    licence = context.licence_of(one)
    return licence is not None and bool(licence.same_as) and licence.same_as in (other.id, _earlier(other))


def _earlier(one: Candidate) -> str:
    """The id that a rewritten criterion had when licences were asked."""
    return one.parents[0] if one.rewritten and one.parents else one.id
