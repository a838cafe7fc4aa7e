"""The one rewrite: criteria that judges split on get another wording, with their disagreement as feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.prompts.gating import GatePrompts
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.evidence import EvidenceFields
from autorubric.synthesis.full.rows import criterion_row, holds_criteria
from autorubric.synthesis.gates import GateSettings, disputes_in, fates, read_rewrites, rewrite_request
from autorubric.synthesis.plan import Fields, Inquiry, ModelAccess, Settled
from autorubric.synthesis.stages.asking import missing

DISPUTED = "judges split on a criterion"
"""When a rewrite is asked for."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How disputed criteria are rewritten.

    Attributes:
        prompts: the templates.
        before: what is known before the rewrite.
        settings: the gates, of which that of agreement asks for it.
        follow_up: what to ask after a reply that could not be read.
    """

    prompts: GatePrompts
    before: EvidenceFields
    settings: GateSettings
    follow_up: FollowUp

    def missing(self, fields: Fields) -> Failure | None:
        """What it rests on and is not there."""
        absent = [name for name in self.before.reads if fields.get(name) is None]
        return missing(absent[0]) if absent else None

    def disputed(self, fields: Fields) -> list[Candidate]:
        """The criteria that judges split on."""
        settled = fates(self.before.decisions(fields, self.settings))
        wanted = {one for one, decision in settled.items() if decision.outcome == "rewrite"}
        return [one for one in self.before.context(fields).candidates if one.id in wanted]

    def request(self, fields: Fields, criteria: Sequence[Candidate]) -> Request:
        """The question for clearer wordings of all of them."""
        context = self.before.context(fields)
        held = (fields[name].get("reasons", {}) for name in self.before.verdicts)
        reasons = {one: said for some in held for one, said in some.items()}
        disputes = disputes_in(criteria, context.pool, reasons)
        return rewrite_request(self.prompts, context.query, disputes, context.pool.responses)


def rewrite_stage(how: Rewriting, texts: Sequence[str]) -> Inquiry:
    """The stage that writes `rewriting`: the rewritten `criteria`, in one call for all of them."""

    async def work(fields: Fields, access: ModelAccess) -> Settled | Failure:
        if (absent := how.missing(fields)) is not None:
            return absent
        criteria = how.disputed(fields)
        if not criteria:
            return Settled({"criteria": []}, "skipped(nothing is disputed)")

        def read(reply: Reply) -> Answer[dict[str, Candidate]] | Unreadable:
            return read_rewrites(criteria, reply)

        model = access.models["rewrite"]
        answer = await access.ask_as("rewrite")(model, how.request(fields, criteria), read, how.follow_up)
        if isinstance(answer, Failure):
            return answer
        rows = [criterion_row(one) for one in answer.value.values()]
        return Settled({"criteria": rows}, model.name, answer.notes)

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        criteria = [] if how.missing(fields) else how.disputed(fields)
        return [("rewrite", how.request(fields, criteria))] if criteria else []

    reads = ("question", "pool", *texts, *how.before.reads)
    return Inquiry("rewriting", 5, reads, ("rewrite",), work, requests, _is_rewriting, only_if=DISPUTED)


def _is_rewriting(value: Any) -> bool:
    return isinstance(value, dict) and holds_criteria(value.get("criteria"))
