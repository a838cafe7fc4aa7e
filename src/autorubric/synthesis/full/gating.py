"""The end of the method: what each gate decided, and the rubric that is left with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric.llm.request import Failure
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.compiling import CompileSettings, Proposal, compiled, proposals
from autorubric.synthesis.full.consensus import consensus
from autorubric.synthesis.full.evidence import EvidenceFields, slots_in
from autorubric.synthesis.full.rows import criteria_in, criterion_row
from autorubric.synthesis.full.settings import Compiling, FullSettings
from autorubric.synthesis.gates import GateContext, GateDecision, decide, evolved_share, fates
from autorubric.synthesis.plan import Derivation, Fields, Settled
from autorubric.synthesis.quality import measures
from autorubric.synthesis.stages.asking import missing


def gated_stage(
    before: EvidenceFields, after: EvidenceFields, texts: Sequence[str], settings: FullSettings
) -> Derivation:
    """The stage that writes `gated`: the rubric that is left, and everything it rests on.

    `criteria` and `rejected` hold each criterion with its decisions, `rewritten` those that were replaced, and
    `left_out` pitfalls that passed where they are dropped. A criterion that should have been rewritten and was not
    is rejected. What no gate could decide stays.

    Args:
        before: the evidence before the rewrite.
        after: the evidence after it.
        texts: the fields that hold responses.
        settings: the gates, and what else is set.
    """

    def derive(fields: Fields) -> Settled | Failure:
        absent = [name for name in after.reads if fields.get(name) is None]
        if absent:
            return missing(absent[0])
        context = after.context(fields)
        decisions = decide(context, settings.gates)
        settled = fates(decisions)
        kept = [one for one in context.candidates if _stays(settled.get(one.id))]
        if not any(one.weight > 0 for one in kept):
            return Failure("missing_input", "missing criteria: the gates kept none that gives points")
        shown = [one for one in kept if not one.pitfall or settings.pitfalls == "keep"]
        proposed = _proposed(context, shown, settings.compile)
        rubric = compiled(shown, proposed)
        ids = {one.id for one in context.candidates}
        old = [one for one in criteria_in(fields, before.criteria) if one.id not in ids]
        # Where nothing was rewritten, what was known before is what is known now.
        earlier = before.decisions(fields, settings.gates) if old else []
        said = [*decisions, *(one for one in earlier if one.candidate not in ids)]
        standings = consensus(rubric, context.pool)
        scores = dict(zip(slots_in(fields), standings.scores, strict=True))
        return Settled(
            {
                "criteria": [_with_gates(one, said) for one in rubric],
                "left_out": [_with_gates(one, said) for one in kept if one not in shown],
                "rejected": [_rejected(one, said, settled[one.id]) for one in context.candidates if one not in kept],
                "rewritten": [_with_gates(one, said) for one in old],
                "checks": [one.record() for one in proposed],
                "scores": scores,
                "rank_agreement": standings.rank_agreement,
                "evolved_dropped": [one for name in before.criteria for one in fields[name].get("dropped", ())],
                "pairs": [fields[name]["pair"] for name in before.criteria if fields[name].get("pair")],
                "evolved_share": evolved_share(rubric),
                "evolved_share_before": evolved_share(criteria_in(fields, before.criteria)),
                "quality": dict(measures(context.query, rubric, context.pool, _known(context.licences))),
            },
            "gates",
        )

    reads = ("question", "pool", *texts, *dict.fromkeys((*before.reads, *after.reads)))
    return Derivation("gated", 5, reads, derive, _is_gated)


def _proposed(context: GateContext, criteria: Sequence[Candidate], settings: Compiling) -> list[Proposal]:
    """The checks that criteria could become, each tried on the pool."""
    if not settings.on:
        return []
    bounds = CompileSettings(settings.min_decided, settings.min_agreement, settings.both_verdicts)
    return proposals(context.query_text, criteria, context.pool, bounds)


def _stays(decision: GateDecision | None) -> bool:
    return decision is None or decision.outcome in ("kept", "undecided")


def _with_gates(one: Candidate, decisions: Sequence[GateDecision]) -> dict[str, Any]:
    """A criterion with what each gate said about it."""
    said = [
        {"gate": d.gate, "outcome": d.outcome, "figures": dict(d.figures), "reason": d.reason}
        for d in decisions
        if d.candidate == one.id
    ]
    return criterion_row(one) | {"gates": said}


def _rejected(one: Candidate, decisions: Sequence[GateDecision], last: GateDecision) -> dict[str, Any]:
    reason = last.reason if last.outcome == "rejected" else f"{last.reason}; no rewrite of it came"
    return _with_gates(one, decisions) | {"gate": last.gate, "reason": reason}


def _known(licences: Mapping[str, Any]) -> dict[str, Any]:
    return {one: licence for one, licence in licences.items() if licence is not None}


def _is_gated(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("criteria"))
