"""The method: the settings of the full profile, and the plan of stages that a profile makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from autorubric.checks import PACKAGES
from autorubric.extras import require
from autorubric.synthesis.thresholds import CompileSettings, Filters, GateSettings, Strict

if TYPE_CHECKING:
    from autorubric.synthesis.gated import Evidence
    from autorubric.synthesis.pool_grading import PoolJudges
    from autorubric.synthesis.stages import Plan, Stage
    from autorubric.synthesis.templates import SynthesisPrompts

_RELEVANCE_GATES = frozenset({"answerable", "licensed", "surface"})


def _read_off(value: Any) -> Any:
    return "off" if value is False else value  # a bare `off` is false in YAML


class FullSettings(Strict):
    """The settings of the full method.

    Attributes:
        pool: how many responses each query gets, from all response models in turn; `draws` on a role overrides
            it.
        grounding: what candidate rubrics are grounded in: each rubric model's `own` response (the paper), or
            one `reference` for all (the seed).
        pitfalls: `keep` them with their negative weights in `final_full` and the release, `drop` them there, or
            `off`: never ask for any. The `final` files hold no pitfall in any case.
        rounds: the most rounds of evolution, 0 to 4.
        judging: one call a judge and response for the whole `rubric`, or one for each `criterion`.
        merge_characters: the most that the candidate sets of one merge call may hold together; more are folded
            pairwise in an order drawn from the record's seed.
        seed: of that order.
        gates: which gates, in which order, with which thresholds; see `GateSettings`.
        filters: see `Filters`.
        compile: criteria that a check can decide become checks where it agrees with the judges; see
            `CompileSettings`.
    """

    pool: int = Field(6, ge=2, le=26)
    grounding: Literal["own", "reference"] = "own"
    pitfalls: Annotated[Literal["keep", "drop", "off"], BeforeValidator(_read_off)] = "drop"
    rounds: int = Field(1, ge=0, le=4)
    judging: Literal["rubric", "criterion"] = "rubric"
    merge_characters: int = Field(60_000, ge=1000)
    seed: int = 0
    gates: GateSettings = Field(default_factory=GateSettings)
    filters: Filters = Field(default_factory=Filters)
    compile: CompileSettings = Field(default_factory=CompileSettings)


@dataclass(frozen=True, slots=True)
class Shape:
    """The slots of a plan.

    Attributes:
        responses: the slot letters of the responses.
        rubrics: the slot letters of the rubric models, each with the field its rubric is grounded in.
        judges: the judges' slots, each with the judge it is a draw of; empty in the basic profile.
        given: whether the responses come with the input.
    """

    responses: tuple[str, ...]
    rubrics: Mapping[str, str]
    judges: Mapping[str, str]
    given: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The fields of the responses."""
        return tuple(f"response_{letter}" for letter in self.responses)


def build_plan(prompts: SynthesisPrompts, shape: Shape, settings: FullSettings | None = None) -> Plan:
    """The stages of a run: drafts, merge, evolution, and in the full profile a graded pool and gates.

    Stages that share a prompt differ in their draw, so that one model in several slots is asked each time.

    Args:
        prompts: the templates.
        shape: the slots.
        settings: of the full profile; None for the basic one, which has no pitfalls, verdicts, rounds and gates.

    Raises:
        MissingPackageError: criteria are to become checks, and the extra `checks` is not installed.

    Example:
        >>> from autorubric.synthesis.templates import load_synthesis_prompts
        >>> shape = Shape(("a", "b"), {"a": "reference"}, {"judge_a": "judge_a"})
        >>> [stage.name for stage in build_plan(load_synthesis_prompts(None, full=False), shape).stages]
        ['reference', 'response_a', 'response_b', 'rubrics_a', 'merged_rubrics', 'augmented_rubrics']
        >>> full = build_plan(load_synthesis_prompts(None, full=True), shape, FullSettings())
        >>> [stage.name for stage in full.stages]
        ['reference', 'response_a', 'response_b', 'pool', 'rubrics_a', 'pitfalls_a', 'merge', 'merged_rubrics',
        'merged_verdicts', 'round_1', 'verdicts_1', 'augmented_rubrics', 'licences_1', 'rewriting',
        'rewritten_verdicts', 'rewritten_licences', 'gated']
    """
    from autorubric.synthesis.evolution import plain_evolution_stage
    from autorubric.synthesis.rubric_merge import plain_merge_stage
    from autorubric.synthesis.stages import Plan

    stages = _draft_stages(prompts, shape, settings)
    if settings is None:
        stages += [
            plain_merge_stage(prompts.drafts.merge, tuple(shape.rubrics)),
            plain_evolution_stage(prompts.drafts.augment, shape.responses),
        ]
    else:
        stages += _full_stages(prompts, shape, settings)
    return Plan(tuple(stages), ("question", *(shape.texts if shape.given else ())))


def _draft_stages(prompts: SynthesisPrompts, shape: Shape, settings: FullSettings | None) -> list[Stage]:
    from autorubric.synthesis.drafts import answer_stage, pitfall_stage, pool_stage, rubric_stage

    draft, grounds = prompts.drafts, list(shape.rubrics.items())
    stages: list[Stage] = []
    if "reference" in shape.rubrics.values():
        stages.append(answer_stage(draft, "reference", "reference", step=0, draw=0))
    if not shape.given:
        stages += [answer_stage(draft, name, "response", step=1, draw=1 + i) for i, name in enumerate(shape.texts)]
    own = [ground for letter, ground in grounds if ground == f"own_{letter}"]
    stages += [answer_stage(draft, name, "reference", step=1, draw=100 + i) for i, name in enumerate(own)]
    if settings is not None:
        stages.append(pool_stage(shape.responses, settings.filters))
    lowest = 0 if settings is None else -10
    stages += [rubric_stage(draft, x, ground, draw=i, lowest=lowest) for i, (x, ground) in enumerate(grounds)]
    if settings is not None and settings.pitfalls != "off":
        stages += [pitfall_stage(draft, x, ground, draw=i) for i, (x, ground) in enumerate(grounds)]
    return stages


def _full_stages(prompts: SynthesisPrompts, shape: Shape, settings: FullSettings) -> list[Stage]:
    from autorubric.graders.asking import JudgeOptions
    from autorubric.synthesis.pool_grading import PoolJudges, verdict_stage
    from autorubric.synthesis.rubric_merge import merge_stage, merged_stage

    if settings.compile.on:
        require(PACKAGES, "checks", "turning criteria into checks (`compile: {on: false}` leaves it out)")
    if prompts.judges is None or prompts.gates is None:
        raise ValueError("the full profile needs the prompts of judges and gates")
    merged = {f"rubrics_{letter}": letter for letter in shape.rubrics}
    if settings.pitfalls != "off":
        merged |= {f"pitfalls_{letter}": f"p{letter}" for letter in shape.rubrics}
    judges = PoolJudges(tuple(shape.judges), settings.judging, JudgeOptions(prompts=prompts.judges))
    evolution, evidence = _evolution_stages(prompts, shape, judges, settings)
    return [
        merge_stage(prompts.drafts.merge_sets, merged, settings),
        merged_stage(),
        verdict_stage("merged_verdicts", judges, "merge", shape.texts, step=4),
        *evolution,
        *_gate_stages(prompts, judges, shape.texts, evidence, settings),
    ]


def _evolution_stages(
    prompts: SynthesisPrompts, shape: Shape, judges: PoolJudges, settings: FullSettings
) -> tuple[list[Stage], Evidence]:
    """The rounds, each with verdicts and relevance of its criteria, and the evidence after them."""
    from autorubric.synthesis.evolution import Round, augmented_stage, round_stage
    from autorubric.synthesis.gated import Evidence
    from autorubric.synthesis.pool_grading import verdict_stage
    from autorubric.synthesis.relevance import NewCriteria, relevance_stage

    texts, gates, draws = shape.texts, prompts.gates, settings.gates.licence_draws
    needed = bool(_RELEVANCE_GATES & set(settings.gates.order))
    evidence = Evidence(tuple(shape.judges.values()), ("merge",), ("merged_verdicts",), "")
    stages: list[Stage] = []
    for number in range(1, settings.rounds + 1):
        name, verdicts, adds = f"round_{number}", f"verdicts_{number}", f"round {number} adds criteria"
        stages.append(round_stage(Round(number, evidence, settings, prompts.drafts.augment), texts))
        stages.append(verdict_stage(verdicts, judges, name, texts, step=4, only_if=adds))
        criteria = (*evidence.criteria, name)
        evidence = replace(evidence, criteria=criteria, verdicts=(*evidence.verdicts, verdicts))
        if number == settings.rounds:
            stages.append(augmented_stage(criteria[1:]))
        if needed and gates:
            new = NewCriteria(name, evidence.relevance, adds) if number > 1 else None
            stages.append(relevance_stage(f"licences_{number}", gates, draws, criteria, step=4, new=new))
            evidence = replace(evidence, relevance=f"licences_{number}")
    if not settings.rounds:
        stages.append(augmented_stage(()))
        if needed and gates:
            stages.append(relevance_stage("licences_0", gates, draws, evidence.criteria, step=4))
            evidence = replace(evidence, relevance="licences_0")
    return stages, evidence


def _gate_stages(
    prompts: SynthesisPrompts, judges: PoolJudges, texts: Sequence[str], before: Evidence, settings: FullSettings
) -> list[Stage]:
    from autorubric.synthesis.gated import gated_stage
    from autorubric.synthesis.pool_grading import verdict_stage
    from autorubric.synthesis.relevance import NewCriteria, relevance_stage
    from autorubric.synthesis.rewriting import DISPUTED, rewrite_stage

    gates = prompts.gates
    if "agreement" not in settings.gates.order or gates is None:
        return [gated_stage(before, before, texts, settings)]
    after = replace(
        before,
        criteria=(*before.criteria, "rewriting"),
        verdicts=(*before.verdicts, "rewritten_verdicts"),
        relevance="rewritten_licences" if before.relevance else "",
    )
    stages = [
        rewrite_stage(gates, before, settings.gates, texts),
        verdict_stage("rewritten_verdicts", judges, "rewriting", texts, step=5, only_if=DISPUTED),
    ]
    if before.relevance:
        new = NewCriteria("rewriting", before.relevance, DISPUTED)
        draws = settings.gates.licence_draws
        stages.append(relevance_stage("rewritten_licences", gates, draws, after.criteria, step=5, new=new))
    return [*stages, gated_stage(before, after, texts, settings)]
