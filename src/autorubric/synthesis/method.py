"""The settings of the full method, and the plan of stages for each profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from autorubric.extras import require
from autorubric.settings import Settings
from autorubric.synthesis.drafts import build_answer_stage, build_criteria_stage, build_pool_stage
from autorubric.synthesis.stages import Plan, Stage
from autorubric.synthesis.templates import SynthesisPrompts
from autorubric.synthesis.thresholds import CompileSettings, Filters, GateSettings

if TYPE_CHECKING:
    from autorubric.prompts import Prompt
    from autorubric.synthesis.gated import Evidence
    from autorubric.synthesis.relevance import PoolJudges, RelevanceJudges

_RELEVANCE_GATES = frozenset({"answerable", "licensed", "surface"})


class FullSettings(Settings):
    """The settings of the full method.

    Attributes:
        pool: the number of responses per query, from all response models in turn; `draws` of a role overrides it.
        grounding: the text on which candidate rubrics are based: each rubric model's `own` response (the paper), or
            one `reference` for all (the seed).
        pitfalls: `keep` them with their negative weights in `final_full` and the release, or `drop` them, in which
            case none are requested (`off` is a synonym). The `final` files never contain pitfalls.
        rounds: maximum rounds of evolution, 0 to 4.
        judging: one call per judge and response for each `criterion` or, cheaper, for the whole `rubric`.
        merge_characters: maximum characters of the candidate sets in one merge call; larger sets are merged two at a
            time, in an order drawn from the record's seed.
        seed: the seed of that order.
        gates: the gates with their order and thresholds; see `GateSettings`.
        filters: see `Filters`.
        compile: criteria that a check can decide become checks if it agrees with the judges; see `CompileSettings`.
    """

    pool: int = Field(6, ge=2, le=26)
    grounding: Literal["own", "reference"] = "own"
    # YAML reads a bare `off` as false.
    pitfalls: Annotated[
        Literal["keep", "drop", "off"], BeforeValidator(lambda value: "off" if value is False else value)
    ] = "drop"
    rounds: int = Field(1, ge=0, le=4)
    judging: Literal["rubric", "criterion"] = "criterion"
    merge_characters: int = Field(60_000, ge=1000)
    seed: int = 0
    gates: GateSettings = Field(default_factory=GateSettings)
    filters: Filters = Field(default_factory=Filters)
    compile: CompileSettings = Field(default_factory=CompileSettings)


@dataclass(frozen=True, slots=True)
class Shape:
    """The slots of a plan.

    Attributes:
        responses: the fields of the responses.
        rubrics: the slot letters of the rubric models, each with the field on which its rubric is based.
        judges: the judges' slots, each with the judge that it is a draw of; empty in the basic profile.
        given: whether the responses come with the input.
        licence: the slots of the relevance draws, each with the model it is a draw of.
    """

    responses: tuple[str, ...]
    rubrics: Mapping[str, str]
    judges: Mapping[str, str]
    given: bool = False
    licence: Mapping[str, str] = field(default_factory=lambda: {"licence": "licence"})


def build_plan(prompts: SynthesisPrompts, shape: Shape, settings: FullSettings | None = None) -> Plan:
    """Return the stages of a run: drafts, merge, evolution, and in the full profile a graded pool and gates.

    Stages with the same prompt differ in their draw, so that one model in several slots gets separate requests.

    Args:
        prompts: the templates.
        shape: the slots.
        settings: the settings of the full profile; None for the basic one, which has no pitfalls, verdicts, rounds
            and gates.

    Raises:
        MissingPackageError: criteria may become checks, and the extra `checks` is not installed.

    Example:
        >>> from autorubric.synthesis.templates import load_synthesis_prompts
        >>> shape = Shape(("response_a", "response_b"), {"a": "reference"}, {"judge_a": "judge_a"})
        >>> [stage.name for stage in build_plan(load_synthesis_prompts(None, full=False), shape).stages]
        ['reference', 'response_a', 'response_b', 'rubrics_a', 'merged_rubrics', 'augmented_rubrics']
        >>> full = build_plan(load_synthesis_prompts(None, full=True), shape, FullSettings())
        >>> [stage.name for stage in full.stages]
        ['reference', 'response_a', 'response_b', 'pool', 'rubrics_a', 'pitfalls_a', 'merge', 'merged_rubrics',
        'merged_verdicts', 'round_1', 'verdicts_1', 'augmented_rubrics', 'licences_1', 'rewriting',
        'rewritten_verdicts', 'rewritten_licences', 'gated']
    """
    draft, grounds = prompts.drafts, list(shape.rubrics.items())
    stages: list[Stage] = []
    if "reference" in shape.rubrics.values():
        stages.append(build_answer_stage(draft, "reference", "reference", step=0, draw=0))
    if not shape.given:
        names = enumerate(shape.responses, 1)
        stages += [build_answer_stage(draft, name, "response", step=1, draw=draw) for draw, name in names]
    own = [ground for letter, ground in grounds if ground == f"own_{letter}"]
    stages += [build_answer_stage(draft, name, "reference", step=1, draw=100 + i) for i, name in enumerate(own)]
    if settings is not None:
        stages.append(build_pool_stage(shape.responses, settings.filters))
    lowest = 0 if settings is None else -10
    kinds = ("rubrics",) if settings is None or settings.pitfalls == "off" else ("rubrics", "pitfalls")
    for kind in kinds:
        for i, (letter, ground) in enumerate(grounds):
            stages.append(build_criteria_stage(draft, f"{kind}_{letter}", ground, draw=i, lowest=lowest))
    if settings is None:
        from autorubric.synthesis.evolution import build_plain_evolution_stage
        from autorubric.synthesis.rubric_merge import build_plain_merge_stage

        stages.append(build_plain_merge_stage(draft.merge, tuple(shape.rubrics)))
        stages.append(build_plain_evolution_stage(draft.augment, shape.responses))
    else:
        stages += _build_full_stages(prompts, shape, settings)
    return Plan(tuple(stages), ("question", *(shape.responses if shape.given else ())))


def _build_full_stages(prompts: SynthesisPrompts, shape: Shape, settings: FullSettings) -> list[Stage]:
    from autorubric.graders.asking import JudgeOptions
    from autorubric.synthesis.gated import Evidence
    from autorubric.synthesis.relevance import PoolJudges, RelevanceJudges
    from autorubric.synthesis.rubric_merge import build_merge_stage, build_merged_stage

    if settings.compile.on:
        from autorubric.checks import PACKAGES

        require(PACKAGES, "checks", "turning criteria into checks (`compile: {on: false}` leaves it out)")
    assert prompts.judges is not None and prompts.gates is not None  # prompts of the full profile
    merged = {f"rubrics_{letter}": letter for letter in shape.rubrics}
    if settings.pitfalls != "off":
        merged |= {f"pitfalls_{letter}": f"p{letter}" for letter in shape.rubrics}
    judges = PoolJudges(tuple(shape.judges), settings.judging, JudgeOptions(prompts=prompts.judges))
    evidence = Evidence(tuple(shape.judges.values()), (), (), "")
    assessing = RelevanceJudges(prompts.gates, shape.licence, settings.gates)
    full = _FullStageBuilder(assessing, prompts.drafts.augment, judges, shape.responses, settings, evidence)
    full.stages += [build_merge_stage(prompts.drafts.merge_sets, merged, settings), build_merged_stage()]
    full.add_verdicts("merge", "merged_verdicts", 4)
    full.add_rounds()
    full.add_gates()
    return full.stages


@dataclass(slots=True)
class _FullStageBuilder:
    """Builds the stages after the drafts, and collects the evidence fields that they write."""

    assessing: RelevanceJudges
    augment: Prompt
    judges: PoolJudges
    texts: Sequence[str]
    settings: FullSettings
    evidence: Evidence
    stages: list[Stage] = field(default_factory=list)

    def add_verdicts(self, criteria: str, verdicts: str, step: int, only_if: str = "") -> None:
        """Add the verdicts on the criteria of a field."""
        from autorubric.synthesis.relevance import build_verdict_stage

        self.stages += [build_verdict_stage(verdicts, self.judges, criteria, self.texts, step=step, only_if=only_if)]
        evidence = self.evidence
        self.evidence = replace(
            evidence, criteria=(*evidence.criteria, criteria), verdicts=(*evidence.verdicts, verdicts)
        )

    def add_relevance(self, name: str, step: int, new: str = "", only_if: str = "") -> None:
        """Add the relevance of all criteria; `new` is the field of those added since the last time."""
        from autorubric.synthesis.relevance import NewCriteria, build_relevance_stage

        gates = self.settings.gates
        if _RELEVANCE_GATES & set(gates.order):
            before = NewCriteria(new, self.evidence.relevance, only_if) if new else None
            criteria = self.evidence.criteria
            self.stages.append(build_relevance_stage(name, self.assessing, criteria, step=step, new=before))
            self.evidence = replace(self.evidence, relevance=name)

    def add_rounds(self) -> None:
        """Add the rounds of evolution, each with verdicts and relevance of its criteria."""
        from autorubric.synthesis.evolution import Round, build_augmented_stage, build_round_stage

        last = self.settings.rounds
        for number in range(1, last + 1):
            name, adds = f"round_{number}", f"round {number} adds criteria"
            self.stages += [build_round_stage(Round(number, self.evidence, self.settings, self.augment), self.texts)]
            self.add_verdicts(name, f"verdicts_{number}", 4, adds)
            if number < last:
                self.add_relevance(f"licences_{number}", 4, name if number > 1 else "", adds)
        self.stages.append(build_augmented_stage(self.evidence.criteria[1:]))
        self.add_relevance(f"licences_{last}", 4, f"round_{last}" if last > 1 else "", f"round {last} adds criteria")

    def add_gates(self) -> None:
        """Add the gates, with a rewrite before them if judges must agree."""
        from autorubric.synthesis.gated import DISPUTED, build_gated_stage, build_rewrite_stage

        before = self.evidence
        if "agreement" in self.settings.gates.order:
            self.stages.append(build_rewrite_stage(self.assessing.prompts, before, self.settings.gates, self.texts))
            self.add_verdicts("rewriting", "rewritten_verdicts", 5, DISPUTED)
            self.add_relevance("rewritten_licences", 5, "rewriting", DISPUTED)
        self.stages.append(build_gated_stage(before, self.evidence, self.texts, self.settings))
