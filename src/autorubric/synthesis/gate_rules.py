"""The gates that a criterion must pass; each decision keeps its evidence."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from autorubric.linting.criterion_words import Phrasing
from autorubric.linting.rules.undecidable import find_forced_verdict
from autorubric.linting.rules.unseen import find_unseen_text
from autorubric.synthesis import likelihood
from autorubric.synthesis.candidate import Candidate, GateContext, Relevance
from autorubric.synthesis.surface_forms import find_forms, has_quote, rate_similarity
from autorubric.synthesis.thresholds import GateName, GateSettings, RedundantSettings

__all__ = ["GATES", "GateContext", "GateDecision", "GateName", "GateSettings", "decide", "find_final_decisions"]

Figures: TypeAlias = Mapping[str, float | str | None]


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The decision of one gate on one criterion.

    Attributes:
        candidate: the id of the criterion.
        gate: the name of the gate.
        outcome: `kept`, `rewrite` (another wording may pass), `rejected`, or `undecided` (the gate had no evidence),
            which is never a rejection.
        figures: the evidence: numbers and names.
        reason: one sentence for the reader.
    """

    candidate: str
    gate: GateName
    outcome: Literal["kept", "rewrite", "rejected", "undecided"]
    figures: Figures = field(default_factory=dict)
    reason: str = ""


Decisions: TypeAlias = list[GateDecision]

_RANK = {"kept": 0, "undecided": 0, "rewrite": 1, "rejected": 2}


def decide(context: GateContext, settings: GateSettings) -> Decisions:
    """Return the decision of each gate on each criterion that reaches it, in the order of the settings.

    A criterion that a gate rejects or wants rewritten does not reach the next gate, because verdicts on which judges
    split are not evidence for other gates. `find_passed` returns the remaining criteria, `find_final_decisions` the
    decision that counts for each.

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
        found = GATES[name](reaching, context, settings)
        reaching = find_passed(reaching, found)
        decisions.extend(found)
    return decisions


def find_final_decisions(decisions: Iterable[GateDecision]) -> dict[str, GateDecision]:
    """Return the decision that counts for each criterion: a rejection, else a rewrite, else the last one.

    Example:
        >>> said = [GateDecision("e1", "licensed", "kept"), GateDecision("e1", "separates", "rejected")]
        >>> find_final_decisions(said)["e1"].gate
        'separates'
    """
    final: dict[str, GateDecision] = {}
    for decision in decisions:
        before = final.get(decision.candidate)
        if before is None or _RANK[decision.outcome] >= _RANK[before.outcome]:
            final[decision.candidate] = decision
    return final


def find_passed(candidates: Iterable[Candidate], decisions: Iterable[GateDecision]) -> tuple[Candidate, ...]:
    """Return the criteria that no gate rejected or wants rewritten, in their order.

    Example:
        >>> one, two = Candidate("m1", "", "Names it.", 5), Candidate("m2", "", "Is polite.", 5)
        >>> [left.id for left in find_passed([one, two], [GateDecision("m2", "licensed", "rejected")])]
        ['m1']
    """
    stopped = {decision.candidate for decision in decisions if _RANK[decision.outcome]}
    return tuple(candidate for candidate in candidates if candidate.id not in stopped)


def check_answerable(candidate: Candidate, context: GateContext, settings: GateSettings) -> GateDecision:
    """Reject a criterion that cannot be decided from the query and one submission alone.

    The relevance judges or the criterion's own words may reject it: a grader does not see a reference answer, another
    response or the response time, unless the query mentions it, and a criterion must not dictate its verdict.
    """
    unseen = find_unseen_text(candidate.description, context.query_text)
    forced = find_forced_verdict(Phrasing(candidate.description))
    if unseen or forced:
        reason = f"it refers to {unseen!r}, which a grader does not see"
        reason = f"{forced!r} tells the grader its verdict" if forced else reason
        return GateDecision(candidate.id, "answerable", "rejected", {"words": forced or unseen}, reason)
    relevance = context.find_relevance(candidate)
    if relevance is None:
        return GateDecision(candidate.id, "answerable", "undecided", {}, _NOT_ASSESSED)
    figures = _count_votes(relevance)
    if "answerable" in relevance.unsure:
        return GateDecision(candidate.id, "answerable", "undecided", figures, _TOO_FEW.format(relevance.votes))
    if not relevance.answerable:
        reason = relevance.reason or "the submission alone does not show whether it is met"
        return GateDecision(candidate.id, "answerable", "rejected", figures, reason)
    return GateDecision(candidate.id, "answerable", "kept", figures)


_NOT_ASSESSED = "no relevance judgment"
_TOO_FEW = "most relevance judgments speak against it, but they are worth only {:.1f} independent votes"


def _count_votes(relevance: Relevance) -> dict[str, float | str | None]:
    """Return the number of judgments, and the number of votes that they are worth if that was measured."""
    return {"draws": relevance.draws} | ({} if relevance.votes is None else {"votes": relevance.votes})


def check_licensed(candidate: Candidate, context: GateContext, settings: GateSettings) -> GateDecision:
    """Reject a criterion that the query neither asks for nor implies, according to the relevance judges.

    Words that a judge quotes must be in the query; otherwise the gate is undecided.
    """
    relevance = context.find_relevance(candidate)
    if relevance is None:
        return GateDecision(candidate.id, "licensed", "undecided", {}, _NOT_ASSESSED)
    figures: Figures = {"need": relevance.need, "quote": relevance.quote, **_count_votes(relevance)}
    if "need" in relevance.unsure:
        return GateDecision(candidate.id, "licensed", "undecided", figures, _TOO_FEW.format(relevance.votes))
    if relevance.need == "none":
        reason = relevance.reason or "the query does not ask for it"
        return GateDecision(candidate.id, "licensed", "rejected", figures, reason)
    if relevance.need == "explicit" and not has_quote(context.query_text, relevance.quote):
        reason = "the words quoted for it are not in the query"
        return GateDecision(candidate.id, "licensed", "undecided", figures, reason)
    return GateDecision(candidate.id, "licensed", "kept", figures, relevance.reason)


def check_surface(candidate: Candidate, context: GateContext, settings: GateSettings) -> GateDecision:
    """Reject a criterion that demands a form that the query does not ask for.

    Either the relevance judges find such a form, or the criterion's own words show it. Judges overrule the words only
    if they say that the query asks for the form and quote words of the query.
    """
    kinds, relevance = settings.surface.kinds, context.find_relevance(candidate)
    forms = [form for form in find_forms(candidate.description, context.query_text) if form.kind in kinds]
    unasked = next((form for form in forms if not form.asked), None)
    words = unasked.words if unasked else None
    if relevance is None:
        reason = _NOT_ASSESSED + (f"; its words {words!r} look like an unasked form" if words else "")
        return GateDecision(candidate.id, "surface", "undecided", {"words": words}, reason)
    form = relevance.surface or (unasked.kind if unasked else None)
    figures = {"form": form, "words": words, **_count_votes(relevance)}
    unsure = "surface" in relevance.unsure
    if relevance.surface in kinds and not relevance.surface_asked and not unsure:
        reason = relevance.reason or f"it demands a {relevance.surface} that the query does not ask for"
        return GateDecision(candidate.id, "surface", "rejected", figures, reason)
    asked = relevance.surface and relevance.surface_asked and has_quote(context.query_text, relevance.quote)
    if unasked and not asked:
        reason = f"its words {words!r} demand a {unasked.kind} that the query does not ask for"
        return GateDecision(candidate.id, "surface", "rejected", figures, reason)
    if unsure:
        return GateDecision(candidate.id, "surface", "undecided", figures, _TOO_FEW.format(relevance.votes))
    return GateDecision(candidate.id, "surface", "kept", figures)


def _estimate_noise(context: GateContext, settings: GateSettings) -> likelihood.JudgeNoise:
    """Return the error rate of the pool's verdicts, and the correlation of the judges' errors."""
    return likelihood.estimate_judge_noise(context.pool, settings.judge_error, settings.least_error)


def _show_noise(noise: likelihood.JudgeNoise, context: GateContext) -> dict[str, float | str | None]:
    """Return the error rate of a verdict and, if judges share errors, the number of independent judges."""
    count = len(context.pool.judges)
    worth = {"judges": count / (1 + (count - 1) * noise.correlation)} if noise.correlation else {}
    return {"judge_error": noise.error, **worth}


def check_separation(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> Decisions:
    """Reject criteria that all or no responses meet, and criteria that better responses meet less often.

    Merged criteria are tested only if `merged` is set; they always count in the score.
    """
    noise = _estimate_noise(context, settings)
    tested = [candidate for candidate in candidates if candidate.origin == "evolved" or settings.separates.merged]
    return [_decide_separation(candidate, candidates, context, settings, noise) for candidate in tested]


def _decide_separation(
    candidate: Candidate,
    others: Sequence[Candidate],
    context: GateContext,
    settings: GateSettings,
    noise: likelihood.JudgeNoise,
) -> GateDecision:
    limits, votes = settings.separates, context.pool.votes.get(candidate.id, ())
    judged = [tally for tally in likelihood.tally_votes(votes) if sum(tally)]
    if len(judged) < limits.least_responses:
        reason = f"{len(judged)} graded responses; {limits.least_responses} are needed to tell"
        return GateDecision(candidate.id, "separates", "undecided", {"responses": len(judged)}, reason)
    met = sum(tally.met for tally in judged) / sum(map(sum, judged))
    chance = likelihood.compute_separating_chance(votes, *noise)
    figures = {"met": met, "separating": chance, **_show_noise(noise, context)}
    if chance < limits.least_separating:
        nearly = "nearly all responses meet it" if met > 0.5 else "hardly any response meets it"
        return GateDecision(candidate.id, "separates", "rejected", figures, f"{nearly}, so it separates none")
    figures["reversed"] = _estimate_reversed_chance(candidate, others, context, noise)
    if len(judged) < limits.least_for_direction and figures["reversed"] is not None:
        reason = f"{len(judged)} graded responses are too few to tell its direction"
        return GateDecision(candidate.id, "separates", "undecided", figures, reason)
    return _decide_direction(candidate, figures, settings)


def _decide_direction(candidate: Candidate, figures: Figures, settings: GateSettings) -> GateDecision:
    """Decide on a criterion on which responses differ, by the chance that it points in the wrong direction."""
    separating, reversed_ = cast("float", figures["separating"]), cast("float | None", figures["reversed"])
    if reversed_ is None:
        reason = "the other criteria do not separate the responses, so its direction is unknown"
        return GateDecision(candidate.id, "separates", "undecided", figures, reason)
    if reversed_ >= settings.separates.least_reversed:
        shown = "better responses show this fault" if candidate.pitfall else "worse responses meet it"
        return GateDecision(candidate.id, "separates", "rejected", figures, shown)
    if "judges" in figures and separating < settings.least_sure:
        reason = "the judges share errors, so that a few of these may be all that separates the responses"
        return GateDecision(candidate.id, "separates", "undecided", figures, reason)
    return GateDecision(candidate.id, "separates", "kept", figures)


def _estimate_reversed_chance(
    candidate: Candidate, others: Sequence[Candidate], context: GateContext, noise: likelihood.JudgeNoise
) -> float | None:
    """Estimate the chance that a criterion points in the wrong direction, considering a pitfall's sign."""
    votes = context.pool.votes
    if candidate.id not in votes:
        return None
    scores = likelihood.score_without(candidate, others, votes, len(context.pool.responses))
    return likelihood.compute_reversed_chance(
        likelihood.invert_votes(votes[candidate.id]) if candidate.pitfall else votes[candidate.id], scores, *noise
    )


def check_agreement(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> Decisions:
    """Request a rewrite of criteria on which judges split; reject those that were already rewritten."""
    noise = _estimate_noise(context, settings)
    return [_decide_agreement(candidate, context, settings.agreement.least_split, noise) for candidate in candidates]


def _decide_agreement(
    candidate: Candidate, context: GateContext, least_split: float, noise: likelihood.JudgeNoise
) -> GateDecision:
    votes = context.pool.votes.get(candidate.id, ())
    chance = likelihood.compute_split_chance(votes, noise.error)
    if chance is None:
        return GateDecision(candidate.id, "agreement", "undecided", {}, "no response was judged by two judges")
    both = [tally for tally in likelihood.tally_votes(votes) if sum(tally) > 1]
    split = sum(min(tally) > 0 for tally in both)
    figures = {"split": chance, "disputed": split, "compared": len(both), **_show_noise(noise, context)}
    if chance < least_split:
        return GateDecision(candidate.id, "agreement", "kept", figures)
    reason = f"judges disagree on {split} of {len(both)} responses"
    if candidate.rewritten:
        return GateDecision(candidate.id, "agreement", "rejected", figures, f"{reason}, after a rewrite")
    return GateDecision(candidate.id, "agreement", "rewrite", figures, reason)


def check_redundancy(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> Decisions:
    """Reject each criterion that makes the same demand as one of higher weight.

    Equal verdicts are not enough: the same responses may name two remedies for one complaint. The relevance judges
    must call the criteria the same, or their words must be similar. The verdicts then update that chance by the Bayes
    factor of one common truth against two truths that agree as often as any two criteria of this pool. Of two
    criteria, the one with the higher weight stays, then the merged one, then the earlier one.
    """
    votes = context.pool.votes
    graded = [votes[candidate.id] for candidate in candidates if candidate.id in votes]
    noise = _estimate_noise(context, settings), likelihood.estimate_agreement_rate(graded)
    ranked = sorted(candidates, key=lambda candidate: (-abs(candidate.weight), candidate.origin != "merged"))
    staying, found = list[Candidate](), dict[str, GateDecision]()
    for candidate in ranked:
        pairs = [
            (_estimate_same_chance(candidate, other, context, settings.redundant, noise), other) for other in staying
        ]
        chance, other = max(pairs, key=lambda pair: pair[0], default=(0.0, None))
        figures = {"same": chance, "as": other.id if other else None}
        if other is not None and chance >= settings.redundant.least_same:
            reason = f"it demands the same as {other.id}: {other.description}"
            found[candidate.id] = GateDecision(candidate.id, "redundant", "rejected", figures, reason)
        else:
            staying.append(candidate)
            found[candidate.id] = GateDecision(candidate.id, "redundant", "kept", figures)
    return [found[candidate.id] for candidate in candidates]


def _estimate_same_chance(
    candidate: Candidate,
    other: Candidate,
    context: GateContext,
    settings: RedundantSettings,
    noise: tuple[likelihood.JudgeNoise, float],
) -> float:
    """Estimate the chance that two criteria make the same demand, from their relevance, words and verdicts."""
    prior = settings.prior_other
    if (
        candidate.pitfall == other.pitfall
        and rate_similarity(candidate.description, other.description) >= settings.least_alike
    ):
        prior = settings.prior_alike
    for left, right in ((candidate, other), (other, candidate)):
        relevance = context.find_relevance(left)
        if relevance and relevance.same_as and relevance.same_as in (right.id, right.first_id):
            prior = max(prior, settings.prior_said_same)
    factor = 1.0
    votes, others = context.pool.votes.get(candidate.id), context.pool.votes.get(other.id)
    if votes and others:
        factor = likelihood.compute_bayes_factor(
            votes, likelihood.invert_votes(others) if candidate.pitfall != other.pitfall else others, *noise
        )
    odds = prior / (1 - prior) * factor
    return odds / (1 + odds)


def compute_evolved_share(candidates: Sequence[Candidate]) -> float | None:
    """Return evolved criteria's share of the absolute points; None without points."""
    evolved = sum(abs(candidate.weight) for candidate in candidates if candidate.origin == "evolved")
    total = sum(abs(candidate.weight) for candidate in candidates)
    return evolved / total if total else None


def check_share(candidates: Sequence[Candidate], context: GateContext, settings: GateSettings) -> Decisions:
    """Reject the evolved criteria with the least evidence until the rest are within the cap.

    Pitfalls have no points, so they are neither counted nor rejected. Least evidence means the largest chance of the
    wrong direction; of equals, the lower weight, then the later criterion. Without merged criteria or a cap, nothing
    is decided.
    """
    most = settings.share.most
    points = [candidate for candidate in candidates if candidate.weight > 0]
    merged = [candidate for candidate in points if candidate.origin == "merged"]
    if most is None or not merged:
        return []
    evolved = [candidate for candidate in points if candidate.origin == "evolved"]
    noise, share = _estimate_noise(context, settings), compute_evolved_share(points)
    doubts = {candidate.id: _estimate_reversed_chance(candidate, candidates, context, noise) for candidate in evolved}
    unknown = {name: 0.5 if doubt is None else doubt for name, doubt in doubts.items()}
    staying = sorted(evolved, key=lambda candidate: (unknown[candidate.id], -candidate.weight))
    while staying and (compute_evolved_share([*merged, *staying]) or 0) > most:
        staying.pop()
    reason = f"evolved criteria held more than {most:.0%} of the points, and this one has the least evidence"
    decisions = []
    for candidate in evolved:
        figures = {"reversed": doubts[candidate.id], "share": share, "most": most}
        if candidate in staying:
            decisions.append(GateDecision(candidate.id, "share", "kept", figures))
        else:
            decisions.append(GateDecision(candidate.id, "share", "rejected", figures, reason))
    return decisions


Gate: TypeAlias = Callable[[Sequence[Candidate], GateContext, GateSettings], Decisions]
"""Decides on the criteria that reach the gate; returns no decision on criteria that it does not test."""


def _apply_to_each(decide_one: Callable[[Candidate, GateContext, GateSettings], GateDecision]) -> Gate:
    return lambda candidates, context, settings: [
        decide_one(candidate, context, settings) for candidate in candidates
    ]


GATES: dict[GateName, Gate] = {
    "answerable": _apply_to_each(check_answerable),
    "licensed": _apply_to_each(check_licensed),
    "surface": _apply_to_each(check_surface),
    "separates": check_separation,
    "agreement": check_agreement,
    "redundant": check_redundancy,
    "share": check_share,
}
"""Every gate by its name."""
