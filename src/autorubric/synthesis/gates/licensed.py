"""The gate of licence: the query asks for what the criterion demands, in words or by an implicit need."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision
from autorubric.synthesis.gates.words import holds


def licensed(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that judges find no need for in the query.

    Words that a judge quotes have to stand in the query; where they do not, nothing is decided.

    Example:
        >>> from autorubric.synthesis.candidate import Licence, Pool
        >>> one = Candidate("m1", "Dose", "States the largest daily dose.", 9)
        >>> said = {"m1": Licence("explicit", "how much")}
        >>> context = GateContext("How much ibuprofen may I take?", (one,), Pool((), ()), said)
        >>> licensed([one], context, GateSettings())[0].outcome
        'kept'
    """
    return [_decision(one, context) for one in candidates]


def _decision(one: Candidate, context: GateContext) -> GateDecision:
    licence = context.licence_of(one)
    if licence is None:
        return GateDecision(one.id, "licensed", "undecided", {}, "no licence judgment")
    figures: dict[str, float | str | None] = {"need": licence.need, "quote": licence.quote, "draws": licence.draws}
    if licence.need == "none":
        return GateDecision(
            one.id, "licensed", "rejected", figures, licence.reason or "the query does not ask for it"
        )
    if licence.need == "explicit" and not holds(context.query_text, licence.quote):
        reason = "the words it is said to rest on are not in the query"
        return GateDecision(one.id, "licensed", "undecided", figures, reason)
    return GateDecision(one.id, "licensed", "kept", figures, licence.reason)
