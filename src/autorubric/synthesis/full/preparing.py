"""From settings to the prompts and the plan of the full method."""

from __future__ import annotations

from dataclasses import replace

from autorubric.synthesis.domains import domain_prompts
from autorubric.synthesis.full.plan import Shape, full_plan
from autorubric.synthesis.full.prompts import FullPrompts, load_full_prompts, package_full_prompts
from autorubric.synthesis.plan import Plan, letters
from autorubric.synthesis.settings import SynthesisSettings, slots_of


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
    """The slots of the full method, and what each candidate rubric is grounded in.

    A rubric model that responds to the queries anyway is grounded in its response; another one is asked for one.
    """
    slots = slots_of(settings)
    responders: dict[tuple[str, str | None], str] = {}
    for slot in slots:
        if slot.name.startswith("response_"):
            responders.setdefault((slot.role.model, slot.role.base_url), slot.name)
    grounds = {}
    for slot in slots:
        if slot.name.startswith("rubric_"):
            letter = slot.name.removeprefix("rubric_")
            own = responders.get((slot.role.model, slot.role.base_url), f"own_{letter}")
            grounds[letter] = "reference" if settings.full.grounding == "reference" else own
    judges = tuple(slot.name for slot in slots if slot.name.startswith("judge_"))
    responses = (
        letters(given)
        if settings.responses_column
        else tuple(slot.name.removeprefix("response_") for slot in slots if slot.name.startswith("response_"))
    )
    return Shape(responses, bool(settings.responses_column), grounds, judges)
