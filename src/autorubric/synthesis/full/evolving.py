"""Evolution in rounds: harder criteria from what separates the two best responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Failure, Request
from autorubric.llm.room import MOST_CRITERIA, room_for
from autorubric.prompts import Prompt
from autorubric.synthesis.aggregation import sameness_key
from autorubric.synthesis.candidate import Candidate
from autorubric.synthesis.full.consensus import best_pair, consensus
from autorubric.synthesis.full.evidence import EvidenceFields, slots_in
from autorubric.synthesis.full.filters import criterion_fault
from autorubric.synthesis.full.rows import criterion_row, holds_criteria, responses_in
from autorubric.synthesis.full.settings import FullSettings
from autorubric.synthesis.items import Item, read_additions, rubric_schema
from autorubric.synthesis.plan import Derivation, Fields, Inquiry, ModelAccess, Settled
from autorubric.synthesis.stages.asking import missing, query_in, request_from


@dataclass(frozen=True, slots=True)
class Round:
    """One round of evolution.

    Attributes:
        number: from 1.
        before: what is known when it starts.
        settings: the gates and filters.
        template: asks for the new criteria.
        follow_up: what to ask after a reply that could not be read.
    """

    number: int
    before: EvidenceFields
    settings: FullSettings
    template: Prompt
    follow_up: FollowUp

    def compared(self, fields: Fields) -> tuple[str, str] | Settled | Failure:
        """The slots of the responses that it compares, or why it compares none."""
        if not fields.get("pool") or any(not fields.get(name) for name in self.before.verdicts):
            return missing("verdicts on the pool")
        if self.number > 1 and not self._last_added(fields):
            return _nothing("skipped(the round before added nothing that passed the gates)")
        context = self.before.context(fields)
        scores = consensus(self._rubric(fields), context.pool).scores
        if all(score is None for score in scores):
            return missing("consensus: no judge has verdicts on every response")
        slots = slots_in(fields)
        used = [fields[name]["pair"] for name in self.before.criteria if "pair" in fields[name]]
        places = [(slots.index(one), slots.index(other)) for one, other in filter(None, used)]
        pair = best_pair(scores, context.pool.responses, places)
        if pair is None:
            return _nothing("skipped(no two responses left to compare)")
        return slots[pair[0]], slots[pair[1]]

    def request(self, fields: Fields, pair: tuple[str, str]) -> Request:
        """The question for criteria that tell two responses apart."""
        texts = responses_in(fields)
        inputs = {
            "query": query_in(fields),
            "rubrics": [_shown(one) for one in self._rubric(fields)],
            "responses": [texts[slot] for slot in pair],
        }
        # The same pair under the same rubric is another question in another round.
        draw, room = self.number - 1, room_for(entries=MOST_CRITERIA)
        return request_from(self.template, inputs, role="augment", draw=draw, schema=rubric_schema(), room=room)

    def value(self, fields: Fields, pair: tuple[str, str], items: Sequence[Item], model: str) -> dict[str, Any]:
        """The value of the round: what was compared, what is new, and what was dropped of it."""
        known = {sameness_key(one.description) for one in self.before.context(fields).candidates}
        criteria, dropped = list[Candidate](), list[dict[str, str]]()
        for number, item in enumerate(items, 1):
            one = Candidate(f"e{self.number}.{number}", **item, origin="evolved", round=self.number, models=(model,))
            key = sameness_key(one.description)
            fault = criterion_fault(one.description, one.weight, self.settings.filters)
            fault = fault or ("the rubric has it already" if key in known else None)
            if fault:
                dropped.append({"id": one.id, "description": one.description, "reason": fault})
            else:
                known.add(key)
                criteria.append(one)
        return {"pair": list(pair), "criteria": list(map(criterion_row, criteria)), "dropped": dropped}

    def _rubric(self, fields: Fields) -> tuple[Candidate, ...]:
        if self.number == 1:
            return self.before.context(fields).candidates
        return self.before.standing(fields, self.settings.gates)

    def _last_added(self, fields: Fields) -> bool:
        standing = self.before.standing(fields, self.settings.gates)
        return any(one.round == self.number - 1 for one in standing)


def round_stage(turn: Round, texts: Sequence[str]) -> Inquiry:
    """The stage that writes `round_<n>`: the `pair` compared, the new `criteria`, and those `dropped`."""

    async def work(fields: Fields, access: ModelAccess) -> Settled | Failure:
        pair = turn.compared(fields)
        if not isinstance(pair, tuple):
            return pair
        model = access.models["augment"]
        answer = await access.ask_as("augment")(model, turn.request(fields, pair), read_additions, turn.follow_up)
        if isinstance(answer, Failure):
            return answer
        value = turn.value(fields, pair, answer.value, model.name)
        dropped = tuple(f"an evolved criterion was dropped: {one['reason']}" for one in value["dropped"])
        return Settled(value, model.name, (*answer.notes, *dropped))

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        pair = turn.compared(fields)
        return [("augment", turn.request(fields, pair))] if isinstance(pair, tuple) else []

    reads = (
        ("question", "pool", *texts, *turn.before.reads)
        if turn.number > 1
        else (*("question", "pool"), *texts, *turn.before.criteria, *turn.before.verdicts)
    )
    only_if = "" if turn.number == 1 else f"round {turn.number - 1} adds a criterion that passes the gates"
    return Inquiry(f"round_{turn.number}", 4, reads, ("augment",), work, requests, _is_round, only_if=only_if)


def augmented_stage(rounds: Sequence[str]) -> Derivation:
    """The stage that writes `augmented_rubrics`, the seed's field: the new criteria of all rounds."""

    def derive(fields: Fields) -> Settled | Failure:
        absent = [name for name in rounds if not _is_round(fields.get(name))]
        if absent:
            return missing(absent[0])
        new = [row for name in rounds for row in fields[name]["criteria"]]
        return Settled(new, str(fields[f"{rounds[0]}_model"]) if rounds else "skipped(no rounds)")

    return Derivation("augmented_rubrics", 4, tuple(rounds), derive, holds_criteria, empty=[])


def _nothing(model: str) -> Settled:
    return Settled({"pair": None, "criteria": [], "dropped": []}, model)


def _shown(one: Candidate) -> dict[str, Any]:
    return {"title": one.title, "description": one.description, "weight": one.weight}


def _is_round(value: Any) -> bool:
    return isinstance(value, dict) and "pair" in value and holds_criteria(value.get("criteria"))
