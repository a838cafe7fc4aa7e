"""From settings to the prompts and the plan of the full method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autorubric.synthesis.domains import domain_prompts
from autorubric.synthesis.full.plan import Shape, full_plan
from autorubric.synthesis.full.prompts import FullPrompts, load_full_prompts, package_full_prompts
from autorubric.synthesis.plan import Plan, letters
from autorubric.synthesis.settings import Slot, SynthesisSettings, slots_of


def full_prompts_of(settings: SynthesisSettings) -> FullPrompts:
    """The prompts of a run: the package's or a folder's, with what its domain adds.

    Raises:
        InputError: a template is wrong, or does not fit the plan.
    """
    prompts = load_full_prompts(settings.prompts) if settings.prompts else package_full_prompts()
    prompts.drafts.check(sets=1, responses=2)
    if settings.domain:
        prompts = replace(prompts, drafts=domain_prompts(prompts.drafts, settings.domain))
    return prompts


def full_plan_of(settings: SynthesisSettings, prompts: FullPrompts, given: int) -> Plan:
    """The plan of a run.

    Args:
        settings: of the run.
        prompts: its prompts.
        given: how many finished responses each row brings.
    """
    return full_plan(prompts, _shape(settings, given), settings.full)


def _shape(settings: SynthesisSettings, given: int) -> Shape:
    slots = slots_of(settings)
    judges = tuple(slot.name for slot in slots if slot.name.startswith("judge_"))
    finished = bool(settings.responses_column)
    responses = letters(given) if finished else tuple(_lettered(slots, "response_"))
    rubrics = _lettered(slots, "rubric_")
    if settings.full.grounding == "reference":
        return Shape(responses, finished, dict.fromkeys(rubrics, "reference"), judges)
    return Shape(responses, finished, _grounds(rubrics, _lettered(slots, "response_")), judges)


def _grounds(rubrics: Mapping[str, Slot], responses: Mapping[str, Slot]) -> dict[str, str]:
    """The field of the response that each candidate rubric is grounded in: one of its own model's.

    Draws of one model take its responses in turn. A model that responds to no query is asked for an answer.
    """
    own: dict[tuple[str, str | None], list[str]] = {}
    for slot in responses.values():
        own.setdefault(slot.address, []).append(slot.name)
    taken: Counter[tuple[str, str | None]] = Counter()
    grounds = {}
    for letter, slot in rubrics.items():
        held = own.get(slot.address, [f"own_{letter}"])
        grounds[letter] = held[taken[slot.address] % len(held)]
        taken[slot.address] += 1
    return grounds


def _lettered(slots: Sequence[Slot], part: str) -> dict[str, Slot]:
    return {slot.name.removeprefix(part): slot for slot in slots if slot.name.startswith(part)}
