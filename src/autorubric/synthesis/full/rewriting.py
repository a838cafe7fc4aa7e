"""The one rewrite: criteria that judges split on get another wording, with their disagreement as feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.prompts.gating import GatePrompts
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.evidence import Evidence
from autorubric.synthesis.full.rows import criterion_row, holds_criteria
from autorubric.synthesis.gates import GateSettings, disputes_in, fates, read_rewrites, rewrite_request
from autorubric.synthesis.plan import Desk, Fields, Inquiry, Settled
from autorubric.synthesis.stages.asking import missing

DISPUTED = "judges split on a criterion"
"""When a rewrite is asked for."""


def rewrite_stage(
    prompts: GatePrompts, before: Evidence, texts: Sequence[str], settings: GateSettings, follow_up: FollowUp
) -> Inquiry:
    """The stage that writes `rewriting`: the rewritten `criteria`, in one call for all of them."""

    def disputed(fields: Fields) -> list[Candidate]:
        settled = fates(before.decisions(fields, settings))
        wanted = {one for one, decision in settled.items() if decision.outcome == "rewrite"}
        return [one for one in before.context(fields).candidates if one.id in wanted]

    def request(fields: Fields, criteria: Sequence[Candidate]) -> Request:
        context = before.context(fields)
        reasons = {one: said for name in before.verdicts for one, said in fields[name].get("reasons", {}).items()}
        disputes = disputes_in(criteria, context.pool, reasons)
        return rewrite_request(prompts, context.query, disputes, context.pool.responses)

    async def work(fields: Fields, desk: Desk) -> Settled | Failure:
        absent = [name for name in before.reads if fields.get(name) is None]
        if absent:
            return missing(absent[0])
        criteria = disputed(fields)
        if not criteria:
            return Settled({"criteria": []}, "skipped(nothing is disputed)")

        def read(reply: Reply) -> Answer[dict[str, Candidate]] | Unreadable:
            return read_rewrites(criteria, reply)

        model = desk.models["rewrite"]
        answer = await desk.ask_as("rewrite")(model, request(fields, criteria), read, follow_up)
        if isinstance(answer, Failure):
            return answer
        rows = [criterion_row(one) for one in answer.value.values()]
        return Settled({"criteria": rows}, model.name, answer.notes)

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        if any(fields.get(name) is None for name in before.reads):
            return []
        criteria = disputed(fields)
        return [("rewrite", request(fields, criteria))] if criteria else []

    reads = ("question", "pool", *texts, *before.reads)
    return Inquiry(
        "rewriting", "rewrite", 5, reads, ("rewrite",), work, requests, _is_rewriting, only_if=DISPUTED
    )


def _is_rewriting(value: Any) -> bool:
    return isinstance(value, dict) and holds_criteria(value.get("criteria"))
