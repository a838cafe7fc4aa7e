"""Candidate rubrics: each rubric model writes its own from the query and the reference."""

from __future__ import annotations

from autorubric.llm.request import Failure, Request
from autorubric.llm.room import MOST_CRITERIA, room_for
from autorubric.prompts import PromptSet
from autorubric.synthesis.items import read_rubric, rubric_schema
from autorubric.synthesis.plan import Fields, Stage
from autorubric.synthesis.stages.asking import has_items, has_text, missing, query_in, request_from


def candidate_stage(prompts: PromptSet, letter: str, *, draw: int) -> Stage:
    """The stage that writes `rubrics_<letter>`: a list of {title, description, weight}."""

    def build(fields: Fields) -> Request | Failure:
        if not has_text(fields.get("reference")):
            return missing("reference")
        inputs = {"query": query_in(fields), "reference": fields["reference"]}
        room = room_for(entries=MOST_CRITERIA)
        return request_from(prompts.rubric, inputs, role="rubric", draw=draw, schema=rubric_schema(), room=room)

    reads = ("question", "reference")
    return Stage(f"rubrics_{letter}", f"rubric_{letter}", 2, reads, build, read_rubric, has_items, empty=[])
