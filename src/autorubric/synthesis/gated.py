"""The end of the full profile: the rewrite of disputed criteria, the gates' decisions, and the remaining rubric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autorubric.llm.limits import estimate_room
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.llm.structured import fold_keys, read_json
from autorubric.prompts.library import GatePrompts
from autorubric.synthesis.candidate import (
    Candidate,
    GateContext,
    Pool,
    compute_consensus,
    dump_criterion,
    is_criteria_list,
    read_criteria,
    read_pool,
    read_relevance_rows,
    read_responses,
    replace_rewritten,
)
from autorubric.synthesis.gate_rules import GateDecision, compute_evolved_share, decide, find_final_decisions
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.run_summary import RubricCounts
from autorubric.synthesis.stages import Answers, Call, Fields, Models, Stage, StageOutcome, find_missing, query_in
from autorubric.synthesis.templates import build_request
from autorubric.synthesis.thresholds import GateSettings


@dataclass(frozen=True, slots=True)
class Evidence:
    """The fields that decisions on criteria are based on.

    Attributes:
        judges: the judge of each row of verdicts; one judge's draws share its name.
        criteria: the fields with criteria, the merged ones first.
        verdicts: the fields with verdicts.
        relevance: the field with relevance; empty if no gate needs it.
    """

    judges: tuple[str, ...]
    criteria: tuple[str, ...]
    verdicts: tuple[str, ...]
    relevance: str

    @property
    def reads(self) -> tuple[str, ...]:
        """All fields."""
        return (*self.criteria, *self.verdicts, *([self.relevance] if self.relevance else []))

    def build_context(self, fields: Fields) -> GateContext:
        """Collect the evidence of a row; rewritten criteria replace their originals."""
        return GateContext(
            query_in(fields),
            replace_rewritten(read_criteria(fields, self.criteria)),
            read_pool(fields, self.judges, self.verdicts),
            read_relevance_rows(fields.get(self.relevance)),
        )

    @staticmethod
    def find_kept(context: GateContext, settings: GateSettings) -> tuple[Candidate, ...]:
        """Return the criteria that no gate rejects."""
        final = find_final_decisions(decide(context, settings))
        return tuple(
            candidate
            for candidate in context.candidates
            if candidate.id not in final or final[candidate.id].outcome != "rejected"
        )


DISPUTED = "judges split on a criterion"
"""The condition of a rewrite."""

MOST_ANSWERS = 3
"""Maximum number of responses that the rewriter sees for one criterion."""

Reasons = Mapping[str, Sequence[Sequence[str | None]]]
"""The reasons for judges' verdicts by criterion id, in the shape of `Pool.votes`."""


def build_rewrite_stage(
    prompts: GatePrompts, before: Evidence, settings: GateSettings, texts: Sequence[str]
) -> Stage:
    """Return the stage that writes `rewriting`: the rewritten `criteria`, in one call for all of them."""

    def build(fields: Fields, models: Models) -> list[Call] | StageOutcome:
        if lost := find_missing(fields, before.reads):
            return lost
        context = before.build_context(fields)
        final = find_final_decisions(decide(context, settings))
        criteria = [
            candidate
            for candidate in context.candidates
            if candidate.id in final and final[candidate.id].outcome == "rewrite"
        ]
        if not criteria:
            return StageOutcome({"criteria": []}, "skipped(nothing is disputed)")
        held = (fields[name].get("reasons", {}) for name in before.verdicts)
        reasons = {name: reason for some in held for name, reason in some.items()}
        request = build_rewrite_request(prompts, context.query, criteria, context.pool, reasons)

        return [Call("rewrite", request, partial(read_rewrites, criteria))]

    def make_example(fields: Fields, tokens: float) -> dict[str, Any]:
        first = read_criteria(fields, before.criteria)[0]
        return {"criteria": [dump_criterion(reword(first, "", first.description))]}

    return Stage(
        "rewriting",
        5,
        ("question", "pool", *texts, *before.reads),
        build,
        _collect_rewrites,
        slots=("rewrite",),
        role="rewrite",
        reply_tokens=250,
        example=make_example,
        finished=lambda value: isinstance(value, dict) and is_criteria_list(value.get("criteria")),
        only_if=DISPUTED,
    )


def build_rewrite_request(
    prompts: GatePrompts,
    query: str | Sequence[Mapping[str, Any]],
    criteria: Sequence[Candidate],
    pool: Pool,
    reasons: Reasons,
) -> Request:
    """Build the request for unambiguous wordings of criteria on which judges disagree, one call for all of them.

    For each criterion, at most `MOST_ANSWERS` responses with differing verdicts are shown, with the judges' reasons.
    """
    splits = {
        candidate.id: _find_splits(candidate.id, pool, reasons.get(candidate.id))[:MOST_ANSWERS]
        for candidate in criteria
    }
    shown = sorted({number for some in splits.values() for number, _ in some})
    disputes = [
        {
            "id": candidate.id,
            "requirement": candidate.description,
            "pitfall": candidate.pitfall,
            "splits": [
                {"answer": 1 + shown.index(number), "said": reasons} for number, reasons in splits[candidate.id]
            ],
        }
        for candidate in criteria
    ]
    inputs = {"query": query, "answers": [pool.responses[number] for number in shown], "disputes": disputes}
    return build_request(prompts.rewrite, "rewrite", inputs, "rewrites", room=estimate_room(entries=len(disputes)))


def _collect_rewrites(fields: Fields, answers: Answers) -> StageOutcome:
    """Collect the rewrites; without a usable reply, nothing is rewritten and the row counts as unfinished."""
    (answer,) = answers
    if isinstance(answer, Failure):
        return StageOutcome({"criteria": []}, lost=(answer,))
    return StageOutcome(
        {"criteria": [dump_criterion(candidate) for candidate in answer.value.values()]}, notes=answer.notes
    )


def read_rewrites(candidates: Sequence[Candidate], reply: Reply) -> Answer[dict[str, Candidate]] | Unreadable:
    """Read the rewritten criteria by the ids of the originals; a missing one could not be rewritten."""
    found = read_json(reply, "array", ("rewrites",), named="criterion_id")
    if isinstance(found, Unreadable):
        return found
    said: dict[str, list[tuple[str, str]]] = {candidate.id: [] for candidate in candidates}
    for entry in found.value:
        fields = fold_keys(entry) if isinstance(entry, Mapping) else {}
        name = str(fields.get("criterion_id", "")).strip()
        if name in said:
            said[name].append((_read_text(fields, "title"), _read_text(fields, "description")))
    if candidates and not any(said.values()):
        return Unreadable("unreadable", f"the reply has no entry for criterion {candidates[0].id}")
    rewrites, notes = dict[str, Candidate](), list[str]()
    for old in candidates:
        wordings = dict.fromkeys(said[old.id])
        title, description = next(iter(wordings), ("", ""))
        if len(wordings) > 1:
            notes.append(f"{old.id}: not rewritten: has two entries that differ")
        elif description and description != old.description:
            rewrites[old.id] = reword(old, title, description)
        else:
            notes.append(f"{old.id}: not rewritten")
    return Answer(rewrites, reply, (*found.notes, *notes))


def reword(old: Candidate, title: str, description: str) -> Candidate:
    """Reword a criterion: weight, origin and round stay; the id gets the suffix `.r`, the old id is the parent."""
    return replace(
        old,
        id=f"{old.id}.r",
        title=title or old.title,
        description=description,
        parents=(old.id,),
        check=None,
        rewritten=True,
    )


def _read_text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _find_splits(
    candidate: str, pool: Pool, reasons: Sequence[Sequence[str | None]] | None
) -> list[tuple[int, list[dict[str, str]]]]:
    """Return the indices of responses on which judges differ, each with the verdicts and their reasons."""
    splits = []
    for number, column in enumerate(zip(*pool.votes.get(candidate, ()), strict=True)):
        if True in column and False in column:
            why = [row[number] or "" for row in reasons] if reasons is not None else [""] * len(column)
            votes = [(vote, reason) for vote, reason in zip(column, why, strict=True) if vote is not None]
            said = [{"verdict": "MET" if vote else "UNMET", "reason": reason} for vote, reason in votes]
            splits.append((number, said))
    return splits


def build_gated_stage(before: Evidence, after: Evidence, texts: Sequence[str], settings: FullSettings) -> Stage:
    """Build the stage that writes `gated`: the remaining rubric and its evidence.

    `criteria` and `rejected` have each criterion with its decisions, `rewritten` those that were replaced, and
    `left_out` pitfalls that passed but are dropped. A criterion that needed a rewrite and got none is rejected. A
    criterion that no gate could decide stays.
    """

    def build(fields: Fields, models: Models) -> StageOutcome:
        return find_missing(fields, after.reads) or _apply_gates(fields, before, after, settings)

    return Stage(
        "gated",
        5,
        ("question", "pool", *texts, *dict.fromkeys((*before.reads, *after.reads))),
        build,
        finished=lambda value: isinstance(value, dict) and bool(value.get("criteria")),
        tally=("gates", partial(RubricCounts, settings.gates.order)),
    )


def _apply_gates(fields: Fields, before: Evidence, after: Evidence, settings: FullSettings) -> StageOutcome:
    from autorubric.synthesis.compiling import apply_proposals, propose_checks
    from autorubric.synthesis.quality import measure_quality

    context = after.build_context(fields)
    decisions = decide(context, settings.gates)
    final = find_final_decisions(decisions)
    stopped = {name: decision for name, decision in final.items() if decision.outcome in ("rejected", "rewrite")}
    kept = [candidate for candidate in context.candidates if candidate.id not in stopped]
    if not any(candidate.weight > 0 for candidate in kept):
        return StageOutcome(
            failure=Failure("missing_input", "missing criteria: the gates kept none that gives points")
        )
    shown = [candidate for candidate in kept if not candidate.pitfall or settings.pitfalls == "keep"]
    found = propose_checks(context.query_text, shown, context.pool, settings.compile) if settings.compile.on else []
    rubric = apply_proposals(shown, found)
    ids, earlier = {candidate.id for candidate in context.candidates}, read_criteria(fields, before.criteria)
    old = [candidate for candidate in earlier if candidate.id not in ids]
    if old:  # criteria that were rewritten are shown with the decisions before the rewrite
        decisions += [
            decision
            for decision in decide(before.build_context(fields), settings.gates)
            if decision.candidate not in ids
        ]
    scored = compute_consensus(rubric, context.pool)
    value = {
        "criteria": [_describe(candidate, decisions) for candidate in rubric],
        "left_out": [_describe(candidate, decisions) for candidate in kept if candidate not in shown],
        "rejected": [
            _describe(candidate, decisions) | _explain(stopped[candidate.id])
            for candidate in context.candidates
            if candidate.id in stopped
        ],
        "rewritten": [_describe(candidate, decisions) for candidate in old],
        "checks": [proposal.to_dict() for proposal in found],
        "scores": dict(zip(read_responses(fields), scored.scores, strict=True)),
        "rank_agreement": scored.rank_agreement,
        "evolved_dropped": [entry for name in before.criteria for entry in fields[name].get("dropped", ())],
        "pairs": [fields[name]["pair"] for name in before.criteria if fields[name].get("pair")],
        "evolved_share": compute_evolved_share([candidate for candidate in rubric if not candidate.pitfall]),
        "evolved_share_before": compute_evolved_share(earlier),
        "quality": measure_quality(context.query, rubric, context.pool, context.relevance),
    }
    return StageOutcome(value, "gates")


def _describe(candidate: Candidate, decisions: Sequence[GateDecision]) -> dict[str, Any]:
    """Return a criterion with each gate's decision."""
    own = [decision for decision in decisions if decision.candidate == candidate.id]
    return dump_criterion(candidate) | {
        "gates": [{"gate": d.gate, "outcome": d.outcome, "figures": dict(d.figures), "reason": d.reason} for d in own]
    }


def _explain(last: GateDecision) -> dict[str, str]:
    reason = last.reason if last.outcome == "rejected" else f"{last.reason}; it was not rewritten"
    return {"gate": last.gate, "reason": reason}
