"""The gate of agreement: judges come to the same verdicts, or the criterion is rewritten, once."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision
from autorubric.synthesis.gates.verdicts import judge_error, split_chance, tallies


def judges_agree(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rewrite for criteria that judges split on, a rejection where the wording is a rewrite already.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> tone = Candidate("e1.1", "Tone", "Has a good tone.", 4, "evolved", 1)
        >>> pool = Pool(("a", "b", "c"), ("j1", "j2"), {"e1.1": ((True,) * 3, (False,) * 3)})
        >>> judges_agree([tone], GateContext("Write to Ann.", (tone,), pool), GateSettings())[0].outcome
        'rewrite'
    """
    error = judge_error(context.pool, settings.judge_error)
    return [_decision(one, context, settings.agreement.least_split, error) for one in candidates]


def _decision(one: Candidate, context: GateContext, least_split: float, error: float) -> GateDecision:
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
