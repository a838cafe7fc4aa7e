"""Augment: harder criteria, evolved from what separates good responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autorubric.llm.request import Failure, Request
from autorubric.llm.room import MOST_CRITERIA, room_for
from autorubric.prompts import PromptSet
from autorubric.synthesis.items import read_additions, rubric_schema
from autorubric.synthesis.plan import NO_RESPONSES, Fields, Settled, Stage
from autorubric.synthesis.stages.asking import has_items, has_text, missing, query_in, request_from


def augment_stage(prompts: PromptSet, letters: Sequence[str]) -> Stage:
    """The stage that writes `augmented_rubrics`: new criteria only, possibly none.

    With fewer than two responses there is nothing to compare: an empty list, and the model is called
    `skipped(no responses)`.
    """
    names = tuple(f"response_{letter}" for letter in letters)

    def build(fields: Fields) -> Request | Settled | Failure:
        if not has_items(fields.get("merged_rubrics")):
            return missing("merged_rubrics")
        responses = [fields[name] for name in names if has_text(fields.get(name))]
        if len(responses) < 2:
            return Settled([], NO_RESPONSES)
        inputs = {
            "query": query_in(fields),
            "rubrics": fields["merged_rubrics"],
            "responses": responses,
        }
        room = room_for(entries=MOST_CRITERIA)
        return request_from(prompts.augment, inputs, role="augment", schema=rubric_schema(), room=room)

    reads = ("question", "merged_rubrics", *names)
    return Stage("augmented_rubrics", "augment", 4, reads, build, read_additions, _is_list, empty=[])


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
