"""The gates that a criterion passes before it enters the data; each keeps its evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gates.decision import GateContext, GateDecision, Outcome, find_final_decisions, find_passed
from autorubric.synthesis.gates.pool_gates import evolved_share, judges_agree, redundant, separates, within_share
from autorubric.synthesis.gates.query_gates import answerable, asks_substance, licensed
from autorubric.synthesis.thresholds import GateName, GateSettings

__all__ = [
    "GATES",
    "Gate",
    "GateContext",
    "GateDecision",
    "GateName",
    "GateSettings",
    "Outcome",
    "decide",
    "evolved_share",
    "find_final_decisions",
    "find_passed",
]

Gate: TypeAlias = Callable[[Sequence[Candidate], GateContext, GateSettings], list[GateDecision]]
"""What a gate says about the criteria that reached it; it is silent about those it does not judge."""

GATES: dict[GateName, Gate] = {
    "answerable": answerable,
    "licensed": licensed,
    "surface": asks_substance,
    "separates": separates,
    "agreement": judges_agree,
    "redundant": redundant,
    "share": within_share,
}
"""Every gate by its name."""


def decide(context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """What each gate says about each criterion that reaches it, in the order of the settings.

    A criterion that a gate rejects or wants rewritten does not reach the next: verdicts that judges split on
    tell the others nothing. `find_passed` gives the criteria that are left, `find_final_decisions` the decision that
    settles each.

    Example:
        >>> from autorubric.synthesis.candidate import Relevance, Pool
        >>> trivia = Candidate("e1.1", "Phrase", 'Contains the exact phrase "dependent rubor".', 6, "evolved", 1)
        >>> said = {"e1.1": Relevance("none", surface="phrase", surface_asked=False)}
        >>> [last] = decide(GateContext("Why are my feet red?", (trivia,), Pool((), ()), said), GateSettings())[-1:]
        >>> last.gate, last.outcome
        ('licensed', 'rejected')
    """
    decisions: list[GateDecision] = []
    reaching = context.candidates
    for name in settings.order:
        said = GATES[name](reaching, context, settings)
        reaching = find_passed(reaching, said)
        decisions.extend(said)
    return decisions
