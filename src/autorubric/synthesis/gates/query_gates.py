"""The gates that need the query alone: answerable, licensed, surface."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.linting.rules.unseen import unseen_texts
from autorubric.synthesis.candidate import Candidate, Relevance
from autorubric.synthesis.gates.decision import Figures, GateContext, GateDecision
from autorubric.synthesis.gates.wordings import find_forms, holds
from autorubric.synthesis.thresholds import GateSettings


def answerable(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that need more than the query and one submission to be decided.

    Besides the licence judges, a criterion's own words tell: one that speaks of a reference answer or of other
    responses asks for what no grader sees, unless the query speaks of them too.
    """
    return [_decide_answerable(one, context) for one in candidates]


def _decide_answerable(one: Candidate, context: GateContext) -> GateDecision:
    unseen = unseen_texts(one.description, context.query_text)
    if unseen:
        reason = f"it speaks of {unseen!r}, which a grader does not see"
        return GateDecision(one.id, "answerable", "rejected", {"words": unseen}, reason)
    relevance = context.find_relevance(one)
    if relevance is None:
        return GateDecision(one.id, "answerable", "undecided", {}, "no licence judgment")
    if not relevance.answerable:
        reason = relevance.reason or "the submission alone does not show whether it is met"
        return GateDecision(one.id, "answerable", "rejected", {"draws": relevance.draws}, reason)
    return GateDecision(one.id, "answerable", "kept", {"draws": relevance.draws})


def licensed(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> list[GateDecision]:
    """A rejection for criteria that judges find no need for in the query.

    Words that a judge quotes have to stand in the query; where they do not, nothing is decided.
    """
    return [_decide_licensed(one, context) for one in candidates]


def _decide_licensed(one: Candidate, context: GateContext) -> GateDecision:
    relevance = context.find_relevance(one)
    if relevance is None:
        return GateDecision(one.id, "licensed", "undecided", {}, "no licence judgment")
    figures: Figures = {
        "need": relevance.need,
        "quote": relevance.quote,
        "draws": relevance.draws,
    }
    if relevance.need == "none":
        return GateDecision(
            one.id, "licensed", "rejected", figures, relevance.reason or "the query does not ask for it"
        )
    if relevance.need == "explicit" and not holds(context.query_text, relevance.quote):
        reason = "the words it is said to rest on are not in the query"
        return GateDecision(one.id, "licensed", "undecided", figures, reason)
    return GateDecision(one.id, "licensed", "kept", figures, relevance.reason)


def asks_substance(
    candidates: Sequence[Candidate], context: GateContext, settings: GateSettings
) -> list[GateDecision]:
    """A rejection for criteria that demand a form the query does not ask for.

    The licence judges see such a form, or the criterion's own words tell. Judges overrule the words only where
    they call the form asked for and quote words that are in the query.
    """
    return [_decide_surface(one, context, settings) for one in candidates]


def _decide_surface(one: Candidate, context: GateContext, settings: GateSettings) -> GateDecision:
    kinds, relevance = settings.surface.kinds, context.find_relevance(one)
    demands = [demand for demand in find_forms(one.description, context.query_text) if demand.kind in kinds]
    unasked = next((demand for demand in demands if not demand.asked), None)
    words = unasked.words if unasked else None
    if relevance is None:
        reason = "no licence judgment" + (f"; its words {words!r} look like an unasked form" if words else "")
        return GateDecision(one.id, "surface", "undecided", {"words": words}, reason)
    figures = {
        "form": relevance.surface or (unasked.kind if unasked else None),
        "words": words,
        "draws": relevance.draws,
    }
    if relevance.surface in kinds and not relevance.surface_asked:
        reason = relevance.reason or f"it demands a {relevance.surface} that the query does not ask for"
        return GateDecision(one.id, "surface", "rejected", figures, reason)
    if unasked and not _vouched(relevance, context):
        reason = f"its words {words!r} demand a {unasked.kind} that the query does not ask for"
        return GateDecision(one.id, "surface", "rejected", figures, reason)
    return GateDecision(one.id, "surface", "kept", figures)


def _vouched(relevance: Relevance, context: GateContext) -> bool:
    asked = bool(relevance.surface) and relevance.surface_asked
    return asked and holds(context.query_text, relevance.quote)
