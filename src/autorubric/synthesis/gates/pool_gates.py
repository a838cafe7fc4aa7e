"""The gates that need verdicts on the pool: separates, agreement, redundant, share."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gates.decision import Figures, GateContext, GateDecision
from autorubric.synthesis.gates.likelihood import (
    agreement_rate,
    judge_error,
    opposite,
    reversed_chance,
    same_factor,
    scores_without,
    separating_chance,
    split_chance,
    tallies,
)
from autorubric.synthesis.gates.wordings import alikeness
from autorubric.synthesis.thresholds import GateSettings, RedundantSettings


def separates(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that all responses meet or none does, and for those that better responses miss.

    Merged criteria are looked at only where the settings say so; they carry the score in any case.
    """
    error = judge_error(context.pool, settings.judge_error)
    looked_at = [one for one in candidates if one.origin == "evolved" or settings.separates.merged]
    return [_decide_separates(one, candidates, context, settings, error) for one in looked_at]


def _decide_separates(
    one: Candidate, others: Sequence[Candidate], context: GateContext, settings: GateSettings, error: float
) -> GateDecision:
    limits, votes = settings.separates, context.pool.votes.get(one.id, ())
    judged = [tally for tally in tallies(votes) if sum(tally)]
    if len(judged) < limits.least_responses:
        reason = f"{len(judged)} graded responses; {limits.least_responses} are needed to tell"
        return GateDecision(one.id, "separates", "undecided", {"responses": len(judged)}, reason)
    met = sum(tally.met for tally in judged) / sum(map(sum, judged))
    chance = separating_chance(votes, error)
    figures: dict[str, float | str | None] = {"met": met, "separating": chance, "judge_error": error}
    if chance < limits.least_separating:
        nearly = "nearly all responses meet it" if met > 0.5 else "hardly any response meets it"
        return GateDecision(one.id, "separates", "rejected", figures, f"{nearly}, so it tells none apart")
    figures["reversed"] = wrong_way = wrong_way_chance(one, others, context, error)
    if wrong_way is None:
        reason = "the other criteria tell the responses not apart, so its direction cannot be seen"
        return GateDecision(one.id, "separates", "undecided", figures, reason)
    if len(judged) < limits.least_for_direction:
        reason = f"{len(judged)} graded responses are too few to see its direction"
        return GateDecision(one.id, "separates", "undecided", figures, reason)
    return _by_direction(one, wrong_way >= limits.least_reversed, figures)


def _by_direction(one: Candidate, wrong: bool, figures: Figures) -> GateDecision:
    if not wrong:
        return GateDecision(one.id, "separates", "kept", figures)
    shown = "better responses that show this fault" if one.pitfall else "worse responses that meet it"
    return GateDecision(one.id, "separates", "rejected", figures, f"it is the {shown}")


def wrong_way_chance(one: Candidate, others: Sequence[Candidate], context: GateContext, error: float) -> float | None:
    """The chance that a criterion points the wrong way, a pitfall's sign taken into account."""
    votes = context.pool.votes
    if one.id not in votes:
        return None
    scores = scores_without(one, others, votes, len(context.pool.responses))
    return reversed_chance(opposite(votes[one.id]) if one.pitfall else votes[one.id], scores, error)


def judges_agree(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rewrite for criteria that judges split on, a rejection where the wording is a rewrite already."""
    error = judge_error(context.pool, settings.judge_error)
    return [_decide_agreement(one, context, settings.agreement.least_split, error) for one in candidates]


def _decide_agreement(one: Candidate, context: GateContext, least_split: float, error: float) -> GateDecision:
    votes = context.pool.votes.get(one.id, ())
    chance = split_chance(votes, error)
    if chance is None:
        return GateDecision(one.id, "agreement", "undecided", {}, "no response was judged by two judges")
    both = [tally for tally in tallies(votes) if sum(tally) > 1]
    split = sum(min(tally) > 0 for tally in both)
    figures = {"split": chance, "disputed": split, "compared": len(both), "judge_error": error}
    if chance < least_split:
        return GateDecision(one.id, "agreement", "kept", figures)
    said = f"judges disagree on {split} of {len(both)} responses"
    if one.rewritten:
        return GateDecision(one.id, "agreement", "rejected", figures, f"{said}, after a rewrite")
    return GateDecision(one.id, "agreement", "rewrite", figures, said)


def redundant(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for each criterion that demands what a weightier one does.

    In a pool of six, equal verdicts are often chance. So the chance that two criteria are one starts low, or
    higher where the licence judges call them the same or their words are alike, and moves with the verdicts: by
    Bayes' factor for one truth behind both against two that agree as often as any two criteria of this pool.
    Of two, the higher weight stays, then the merged one, then the earlier one.
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
    relevance = context.find_relevance(one)
    return relevance is not None and bool(relevance.same_as) and relevance.same_as in (other.id, _earlier(other))


def _earlier(one: Candidate) -> str:
    """The id that a rewritten criterion had when licences were asked."""
    return one.parents[0] if one.rewritten and one.parents else one.id


def evolved_share(candidates: Sequence[Candidate]) -> float | None:
    """The share of points, whatever their sign, that evolved criteria hold; None where there are none."""
    total = sum(abs(one.weight) for one in candidates)
    return sum(abs(one.weight) for one in candidates if one.origin == "evolved") / total if total else None


def within_share(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for the evolved criteria with the least evidence, until the rest keep to the cap.

    Least evidence: the largest chance to point the wrong way; of equals the lower weight, then the later one.
    Without merged criteria there is nothing to take over, and without a cap nothing is decided.
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
    return [_decide_share(one, one.id in kept, doubts[one.id], evolved_share(candidates), most) for one in evolved]


def _doubt(chance: float | None) -> float:
    return 0.5 if chance is None else chance


def _decide_share(one: Candidate, kept: bool, doubt: float | None, share: float | None, most: float) -> GateDecision:
    figures = {"reversed": doubt, "share": share, "most": most}
    if kept:
        return GateDecision(one.id, "share", "kept", figures)
    reason = f"evolved criteria held more than {most:.0%} of the points, and this one has the least evidence"
    return GateDecision(one.id, "share", "rejected", figures, reason)
