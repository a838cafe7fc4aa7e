"""Merge: the candidate rubrics become one."""

from __future__ import annotations

from collections.abc import Sequence

from autorubric.llm.request import Failure, Request
from autorubric.llm.room import room_for
from autorubric.prompts import PromptSet
from autorubric.synthesis.items import read_rubric, rubric_schema
from autorubric.synthesis.plan import PASSTHROUGH, Fields, Settled, Stage
from autorubric.synthesis.stages.asking import has_items, missing, query_in, request_from


def merge_stage(prompts: PromptSet, letters: Sequence[str]) -> Stage:
    """The stage that writes `merged_rubrics`.

    The first candidate rubric is required. Where it is the only one, it stands as it is, and the model is
    called `passthrough`.
    """
    names = tuple(f"rubrics_{letter}" for letter in letters)

    def build(fields: Fields) -> Request | Settled | Failure:
        sets = [fields[name] for name in names if has_items(fields.get(name))]
        if not has_items(fields.get(names[0])):
            return missing(names[0])
        if len(sets) == 1:
            return Settled(sets[0], PASSTHROUGH)
        inputs = {"query": query_in(fields), "sets": sets}
        room = room_for(copied=[str(item.get("description")) for items in sets for item in items])
        return request_from(prompts.merge, inputs, role="merge", schema=rubric_schema(), room=room)

    return Stage("merged_rubrics", "merge", 3, ("question", *names), build, read_rubric, has_items, empty=[])
