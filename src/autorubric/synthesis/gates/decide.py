"""All gates, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateName, GateSettings
from autorubric.synthesis.gates.agreement import judges_agree
from autorubric.synthesis.gates.answerable import answerable
from autorubric.synthesis.gates.decision import GateContext, GateDecision, standing
from autorubric.synthesis.gates.licensed import licensed
from autorubric.synthesis.gates.redundant import redundant
from autorubric.synthesis.gates.separates import separates
from autorubric.synthesis.gates.share import within_share
from autorubric.synthesis.gates.surface import asks_substance

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
    tell the others nothing. `standing` gives the criteria that are left, `fates` the decision that
    settles each.

    Example:
        >>> from autorubric.synthesis.candidate import Licence, Pool
        >>> trivia = Candidate("e1.1", "Phrase", 'Contains the exact phrase "dependent rubor".', 6, "evolved", 1)
        >>> said = {"e1.1": Licence("none", surface="phrase", surface_asked=False)}
        >>> [last] = decide(GateContext("Why are my feet red?", (trivia,), Pool((), ()), said), GateSettings())[-1:]
        >>> last.gate, last.outcome
        ('licensed', 'rejected')
    """
    decisions: list[GateDecision] = []
    reaching = context.candidates
    for name in settings.order:
        said = GATES[name](reaching, context, settings)
        reaching = standing(reaching, said)
        decisions.extend(said)
    return decisions
