"""The gate of substance: no set phrase, heading, count or layout that the query does not ask for."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.synthesis.candidate import Candidate, Licence
from autorubric.synthesis.gate_settings import GateSettings
from autorubric.synthesis.gates.decision import GateContext, GateDecision
from autorubric.synthesis.gates.demands import demands_in
from autorubric.synthesis.gates.words import holds


def asks_substance(
    candidates: Sequence[Candidate], context: GateContext, settings: GateSettings
) -> list[GateDecision]:
    """A rejection for criteria that demand a form the query does not ask for.

    The licence judges see such a form, or the criterion's own words tell. Judges overrule the words only where
    they call the form asked for and quote words that are in the query.

    Example:
        >>> from autorubric.synthesis.candidate import Pool
        >>> one = Candidate("e1.1", "Heading", 'Has a heading titled "What to Expect Next".', 5, "evolved", 1)
        >>> said = {"e1.1": Licence("implicit")}
        >>> context = GateContext("Why are my feet red?", (one,), Pool((), ()), said)
        >>> asks_substance([one], context, GateSettings())[0].figures["form"]
        'heading'
    """
    return [_decision(one, context, settings) for one in candidates]


def _decision(one: Candidate, context: GateContext, settings: GateSettings) -> GateDecision:
    kinds, licence = settings.surface.kinds, context.licence_of(one)
    demands = [demand for demand in demands_in(one.description, context.query_text) if demand.kind in kinds]
    unasked = next((demand for demand in demands if not demand.asked), None)
    words = unasked.words if unasked else None
    if licence is None:
        reason = "no licence judgment" + (f"; its words {words!r} look like an unasked form" if words else "")
        return GateDecision(one.id, "surface", "undecided", {"words": words}, reason)
    figures = {"form": licence.surface or (unasked.kind if unasked else None), "words": words, "draws": licence.draws}
    if licence.surface in kinds and not licence.surface_asked:
        reason = licence.reason or f"it demands a {licence.surface} that the query does not ask for"
        return GateDecision(one.id, "surface", "rejected", figures, reason)
    if unasked and not _vouched(licence, context):
        reason = f"its words {words!r} demand a {unasked.kind} that the query does not ask for"
        return GateDecision(one.id, "surface", "rejected", figures, reason)
    return GateDecision(one.id, "surface", "kept", figures)


def _vouched(licence: Licence, context: GateContext) -> bool:
    asked = bool(licence.surface) and licence.surface_asked
    return asked and holds(context.query_text, licence.quote)
