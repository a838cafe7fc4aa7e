"""The plan of the full method, from its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autorubric.checks import PACKAGES
from autorubric.extras import require
from autorubric.graders.asking import JudgeOptions
from autorubric.synthesis.full.drafting import own_response_stage, pitfall_stage, rubric_stage
from autorubric.synthesis.full.evidence import EvidenceFields
from autorubric.synthesis.full.evolving import Round, augmented_stage, round_stage
from autorubric.synthesis.full.gating import gated_stage
from autorubric.synthesis.full.licensing import Licensing, News, licence_stage
from autorubric.synthesis.full.merging import merge_stage, merged_stage
from autorubric.synthesis.full.pool import pool_stage
from autorubric.synthesis.full.prompts import FullPrompts
from autorubric.synthesis.full.rewriting import DISPUTED, Rewriting, rewrite_stage
from autorubric.synthesis.full.settings import FullSettings
from autorubric.synthesis.full.verdicts import Bench, verdict_stage
from autorubric.synthesis.plan import AnyStage, Plan
from autorubric.synthesis.stages.asking import follow_up_with
from autorubric.synthesis.stages.texts import reference_stage, response_stage

_LICENCE_GATES = frozenset({"answerable", "licensed", "surface"})


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers a plan is made from.

    Attributes:
        responses: the slot letters of the pool.
        given: whether the responses come with the input.
        rubrics: the slot letters of the rubric models, each with the field its rubric is grounded in.
        judges: the judges' slots, each with the judge it is a draw of.
    """

    responses: tuple[str, ...]
    given: bool
    rubrics: Mapping[str, str]
    judges: Mapping[str, str]

    @property
    def texts(self) -> tuple[str, ...]:
        """The fields of the responses."""
        return tuple(f"response_{letter}" for letter in self.responses)


def full_plan(prompts: FullPrompts, shape: Shape, settings: FullSettings) -> Plan:
    """The whole method as stages: responses, drafts, merge, graded pool, rounds of evolution, gates.

    Stages that share a prompt differ in their draw, so that one model playing several parts is asked each time.

    Raises:
        MissingPackageError: criteria are to become checks, and the extra `checks` is not installed.

    Example:
        >>> from autorubric.synthesis.full.prompts import package_full_prompts
        >>> shape = Shape(("a", "b"), False, {"a": "reference"}, {"judge_a": "judge_a"})
        >>> [stage.name for stage in full_plan(package_full_prompts(), shape, FullSettings()).stages]
        ['reference', 'response_a', 'response_b', 'pool', 'rubrics_a', 'pitfalls_a', 'merge', 'merged_rubrics',
        'merged_verdicts', 'round_1', 'verdicts_1', 'augmented_rubrics', 'licences_1', 'rewriting',
        'rewritten_verdicts', 'rewritten_licences', 'gated']
    """
    if settings.compile.on:
        require(PACKAGES, "checks", "turning criteria into checks (`compile: {on: false}` leaves it out)")
    texts = shape.texts
    drafts = _draft_stages(prompts, shape, settings)
    follow_up = follow_up_with(prompts.drafts.reask)
    merge_from = {f"rubrics_{letter}": letter for letter in shape.rubrics}
    if settings.pitfalls != "off":
        merge_from |= {f"pitfalls_{letter}": f"p{letter}" for letter in shape.rubrics}
    bench = Bench(tuple(shape.judges), settings.judging, JudgeOptions(prompts=prompts.judges))
    evolution, evidence = _evolution(prompts, shape, bench, settings)
    stages: list[AnyStage] = [
        *drafts,
        merge_stage(prompts.drafts.merge_sets, follow_up, merge_from, settings),
        merged_stage(),
        verdict_stage("merged_verdicts", bench, ("merge",), texts, step=4),
        *evolution,
        *_gates(prompts, bench, texts, evidence, settings),
    ]
    return Plan(tuple(stages), ("question", *(texts if shape.given else ())))


def _draft_stages(prompts: FullPrompts, shape: Shape, settings: FullSettings) -> list[AnyStage]:
    draft = prompts.drafts
    stages: list[AnyStage] = [reference_stage(draft)] if "reference" in shape.rubrics.values() else []
    if not shape.given:
        stages += [response_stage(draft, letter, draw=1 + i) for i, letter in enumerate(shape.responses)]
    own = [letter for letter, ground in shape.rubrics.items() if ground == f"own_{letter}"]
    stages += [own_response_stage(draft, letter, draw=100 + i) for i, letter in enumerate(own)]
    stages.append(pool_stage(shape.responses, settings.filters))
    grounds = list(shape.rubrics.items())
    stages += [rubric_stage(draft, letter, ground, draw=i) for i, (letter, ground) in enumerate(grounds)]
    if settings.pitfalls != "off":
        stages += [pitfall_stage(draft, letter, ground, draw=i) for i, (letter, ground) in enumerate(grounds)]
    return stages


def _evolution(
    prompts: FullPrompts, shape: Shape, bench: Bench, settings: FullSettings
) -> tuple[list[AnyStage], EvidenceFields]:
    """The rounds, each with verdicts and licences of its criteria, and all the evidence there is then."""
    texts = shape.texts
    follow_up = follow_up_with(prompts.drafts.reask)
    licensed = bool(_LICENCE_GATES & set(settings.gates.order))
    how = Licensing(prompts.gates, settings.gates.licence_draws, follow_up)
    evidence = EvidenceFields(tuple(shape.judges.values()), ("merge",), ("merged_verdicts",), "")
    stages: list[AnyStage] = []
    for number in range(1, settings.rounds + 1):
        name = f"round_{number}"
        adds = f"round {number} adds criteria"
        stages.append(round_stage(Round(number, evidence, settings, prompts.drafts.augment, follow_up), texts))
        stages.append(verdict_stage(f"verdicts_{number}", bench, (name,), texts, step=4, only_if=adds))
        evidence = replace(
            evidence,
            criteria=(*evidence.criteria, name),
            verdicts=(*evidence.verdicts, f"verdicts_{number}"),
        )
        if number == settings.rounds:
            stages.append(augmented_stage(evidence.criteria[1:]))
        if licensed and number == 1:
            stages.append(licence_stage("licences_1", how, evidence.criteria, step=4))
        elif licensed:
            earlier, field = evidence.licences, f"licences_{number}"
            stages.append(licence_stage(field, how, evidence.criteria, step=4, news=News(name, earlier, adds)))
        if licensed:
            evidence = replace(evidence, licences=f"licences_{number}")
    if not settings.rounds:
        stages.append(augmented_stage(()))
        if licensed:
            stages.append(licence_stage("licences_0", how, evidence.criteria, step=4))
            evidence = replace(evidence, licences="licences_0")
    return stages, evidence


def _gates(
    prompts: FullPrompts, bench: Bench, texts: Sequence[str], before: EvidenceFields, settings: FullSettings
) -> list[AnyStage]:
    follow_up = follow_up_with(prompts.drafts.reask)
    if "agreement" not in settings.gates.order:
        return [gated_stage(before, before, texts, settings)]
    after = replace(
        before,
        criteria=(*before.criteria, "rewriting"),
        verdicts=(*before.verdicts, "rewritten_verdicts"),
        licences="rewritten_licences" if before.licences else "",
    )
    stages: list[AnyStage] = [
        rewrite_stage(Rewriting(prompts.gates, before, settings.gates, follow_up), texts),
        verdict_stage("rewritten_verdicts", bench, ("rewriting",), texts, step=5, only_if=DISPUTED),
    ]
    if before.licences:
        how = Licensing(prompts.gates, settings.gates.licence_draws, follow_up)
        stages.append(
            licence_stage(
                "rewritten_licences", how, after.criteria, step=5, news=News("rewriting", before.licences, DISPUTED)
            )
        )
    return [*stages, gated_stage(before, after, texts, settings)]
