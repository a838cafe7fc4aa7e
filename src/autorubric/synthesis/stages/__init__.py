"""The stages of synthesis: each a pure `build` of a request and a pure `read` of its reply."""

from __future__ import annotations

from autorubric.prompts import PromptSet
from autorubric.synthesis.plan import Plan, letters
from autorubric.synthesis.stages.augment import augment_stage
from autorubric.synthesis.stages.candidates import candidate_stage
from autorubric.synthesis.stages.merge import merge_stage
from autorubric.synthesis.stages.texts import reference_stage, response_stage

__all__ = ["basic_plan"]


def basic_plan(prompts: PromptSet, *, responses: int = 2, rubrics: int = 2) -> Plan:
    """The seed's plan: one reference, parallel responses and candidate rubrics, merge, augment.

    Stages that share a prompt differ in their draw, so that one model playing several roles is asked each time.

    Args:
        prompts: the templates.
        responses: how many models respond, 2 to 26.
        rubrics: how many models write a candidate rubric, 1 to 26.

    Example:
        >>> from autorubric.prompts import package_prompts
        >>> [stage.name for stage in basic_plan(package_prompts(), rubrics=1).stages]
        ['reference', 'response_a', 'response_b', 'rubrics_a', 'merged_rubrics', 'augmented_rubrics']
    """
    response_slots, rubric_slots = letters(responses), letters(rubrics)
    return Plan(
        (
            reference_stage(prompts),
            *(response_stage(prompts, slot, draw=1 + i) for i, slot in enumerate(response_slots)),
            *(candidate_stage(prompts, slot, draw=i) for i, slot in enumerate(rubric_slots)),
            merge_stage(prompts, rubric_slots),
            augment_stage(prompts, response_slots),
        )
    )
