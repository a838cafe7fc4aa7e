"""Candidate rubrics and pitfalls: each rubric model writes its own, grounded in a response."""

from __future__ import annotations

from typing import Any

from autorubric.llm.request import Answer, Failure, Reply, ReplySchema, Request, Unreadable
from autorubric.llm.room import MOST_CRITERIA, room_for
from autorubric.prompts import PromptSet
from autorubric.prompts.library import load_schema
from autorubric.synthesis.full.pool import read_answer
from autorubric.synthesis.items import Item, read_additions, read_rubric, rubric_schema
from autorubric.synthesis.plan import Fields, Stage
from autorubric.synthesis.stages.asking import has_items, has_text, missing, query_in, request_from

LOWEST = -10
"""The weight of the gravest pitfall."""


def own_response_stage(prompts: PromptSet, letter: str, *, draw: int) -> Stage:
    """The stage that writes `own_<letter>`: the answer a rubric model gives itself, to ground its rubric in."""

    def build(fields: Fields) -> Request:
        return request_from(prompts.reference, {"query": query_in(fields)}, role="reference", draw=draw)

    return Stage(f"own_{letter}", f"own_{letter}", 1, ("question",), build, read_answer, has_text, empty="")


def rubric_stage(prompts: PromptSet, letter: str, ground: str, *, draw: int) -> Stage:
    """The stage that writes `rubrics_<letter>` from the query and the field `ground`; negative weights stay."""

    def build(fields: Fields) -> Request | Failure:
        if not has_text(fields.get(ground)):
            return missing(ground)
        inputs = {"query": query_in(fields), "reference": fields[ground]}
        room = room_for(entries=MOST_CRITERIA)
        return request_from(prompts.rubric, inputs, role="rubric", draw=draw, schema=rubric_schema(), room=room)

    def read(reply: Reply) -> Answer[list[Item]] | Unreadable:
        return read_rubric(reply, LOWEST)

    return Stage(f"rubrics_{letter}", f"rubric_{letter}", 2, ("question", ground), build, read, has_items, empty=[])


def pitfall_stage(prompts: PromptSet, letter: str, ground: str, *, draw: int) -> Stage:
    """The stage that writes `pitfalls_<letter>`: faults with weights from -10 to -1, possibly none."""

    def build(fields: Fields) -> Request | Failure:
        if not has_text(fields.get(ground)):
            return missing(ground)
        inputs = {"query": query_in(fields), "reference": fields[ground]}
        schema = ReplySchema("pitfall_items", load_schema("pitfall_items"))
        room = room_for(entries=MOST_CRITERIA)
        return request_from(prompts.pitfalls, inputs, role="pitfall", draw=draw, schema=schema, room=room)

    reads = ("question", ground)
    return Stage(f"pitfalls_{letter}", f"rubric_{letter}", 2, reads, build, read_pitfalls, _is_list, empty=[])


def read_pitfalls(reply: Reply) -> Answer[list[Item]] | Unreadable:
    """The faults that a reply names. A model that leaves the sign out means a fault all the same.

    Example:
        >>> said = '{"criteria": [{"title": "Dose", "description": "Allows 8 g a day.", "weight": 9}]}'
        >>> read_pitfalls(Reply(said)).value[0]["weight"]
        -9
    """
    answer = read_additions(reply, LOWEST)
    if isinstance(answer, Unreadable):
        return answer
    unsigned = sum(item["weight"] > 0 for item in answer.value)
    items: list[Item] = [{**item, "weight": -abs(item["weight"])} for item in answer.value]
    notes = ("pitfalls came without their sign",) if unsigned else ()
    return Answer(items, reply, (*answer.notes, *notes))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
