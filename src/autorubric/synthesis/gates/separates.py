"""The gate of separation: a criterion tells responses apart, and not the wrong way round."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import Figures, GateContext, GateDecision
from autorubric.synthesis.gates.direction import reversed_chance, scores_without
from autorubric.synthesis.gates.verdicts import judge_error, opposite, separating_chance, tallies


def separates(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that all responses meet or none does, and for those that better responses miss.

    Merged criteria are looked at only where the settings say so; they carry the score in any case.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> polite = Candidate("e1.1", "Polite", "Is polite.", 3, "evolved", 1)
        >>> pool = Pool(("a", "b", "c", "d"), ("j1", "j2"), {"e1.1": ((True,) * 4,) * 2})
        >>> separates([polite], GateContext("Why?", (polite,), pool), GateSettings())[0].reason
        'nearly all responses meet it, so it tells none apart'
    """
    error = judge_error(context.pool, settings.judge_error)
    looked_at = [one for one in candidates if one.origin == "evolved" or settings.separates.merged]
    return [_decision(one, candidates, context, settings, error) for one in looked_at]


def _decision(
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
    """The chance that a criterion points the wrong way, a pitfall's sign taken into account.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> wanted, fault = Candidate("m1", "", "Names it.", 5), Candidate("m2", "", "Invents it.", -5)
        >>> votes = {"m1": ((True, True, False, False),), "m2": ((False, False, True, True),)}
        >>> pool = Pool(("a",) * 4, ("j1",), votes)
        >>> wrong_way_chance(fault, [wanted, fault], GateContext("Why?", (), pool), 0.05) < 0.1
        True
    """
    votes = context.pool.votes
    if one.id not in votes:
        return None
    scores = scores_without(one, others, votes, len(context.pool.responses))
    return reversed_chance(opposite(votes[one.id]) if one.pitfall else votes[one.id], scores, error)
