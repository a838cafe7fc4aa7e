"""Licences: whether the query asks for each criterion, by several judgments put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.prompts.gating import GatePrompts
from autorubric.synthesis.candidate import Candidate, Licence
from autorubric.synthesis.full.evidence import in_place
from autorubric.synthesis.full.rows import criteria_in
from autorubric.synthesis.gates import agreed_licences, licence_request, read_licences
from autorubric.synthesis.plan import Fields, Inquiry, ModelAccess, Settled
from autorubric.synthesis.stages.asking import missing, query_in


@dataclass(frozen=True, slots=True)
class Licensing:
    """How licences are asked for.

    Attributes:
        prompts: the templates.
        draws: how many judgments are put together.
        follow_up: what to ask after a reply that could not be read.
    """

    prompts: GatePrompts
    draws: int
    follow_up: FollowUp

    def requests(self, query: Any, criteria: Sequence[Candidate]) -> list[Request]:
        """One request a judgment; none where there is nothing to license."""
        if not criteria:
            return []
        return [licence_request(self.prompts, query, criteria, draw) for draw in range(self.draws)]


@dataclass(frozen=True, slots=True)
class News:
    """Criteria that came after a licence judgment.

    Attributes:
        field: where they stand; when there are none, the earlier licences stand.
        before: the field of the earlier licences.
        only_if: under which condition there are any.
    """

    field: str
    before: str
    only_if: str


def licence_stage(
    name: str, how: Licensing, criteria: Sequence[str], *, step: int, news: News | None = None
) -> Inquiry:
    """The stage that writes licences by criterion id.

    All criteria are judged together, since a new one may demand what an old one does.

    Args:
        name: the field it writes.
        how: the templates and the number of judgments.
        criteria: the fields that hold the criteria.
        step: the step it belongs to.
        news: what came since the last judgment; None for the first.
    """

    def asked(fields: Fields) -> list[Request]:
        if news and not criteria_in(fields, [news.field]):
            return []
        return how.requests(query_in(fields), in_place(criteria_in(fields, criteria)))

    async def work(fields: Fields, access: ModelAccess) -> Settled | Failure:
        absent = [field for field in criteria if not fields.get(field)]
        if absent:
            return missing(absent[0])
        if news and not criteria_in(fields, [news.field]):
            held = fields.get(news.before)
            return missing(news.before) if held is None else Settled(held, "passthrough")
        read = _reader(in_place(criteria_in(fields, criteria)))
        ask, model = access.ask_as("licence"), access.models["licence"]
        answers = await asyncio.gather(*(ask(model, request, read, how.follow_up) for request in asked(fields)))
        said = [answer for answer in answers if isinstance(answer, Answer)]
        lost = tuple(answer for answer in answers if isinstance(answer, Failure))
        if not said:
            return lost[0]
        agreed = agreed_licences([answer.value for answer in said])
        notes = tuple(note for answer in said for note in answer.notes)
        return Settled({one: asdict(licence) for one, licence in agreed.items()}, model.name, notes, lost)

    def requests(fields: Fields, models: Mapping[str, Model]) -> list[tuple[str, Request]]:
        return [("licence", request) for request in asked(fields)]

    reads = ("question", *criteria, *([news.before] if news else []))
    only_if = news.only_if if news else ""
    return Inquiry(name, step, reads, ("licence",), work, requests, _are_licences, only_if=only_if)


def _reader(criteria: Sequence[Candidate]) -> Callable[[Reply], Answer[dict[str, Licence]] | Unreadable]:
    return lambda reply: read_licences(criteria, reply)


def _are_licences(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(said, dict) and "need" in said for said in value.values())
