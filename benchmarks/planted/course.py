"""The processing of one query by the gates: grading, relevance, decisions, one rewrite, decisions again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from autorubric.core.criterion import Criterion
from autorubric.core.judgment import CriterionVerdict
from autorubric.graders.judge import JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.request import Answer, Unreadable
from autorubric.prompts.library import package_gate_prompts
from autorubric.synthesis.candidate import Candidate, Pool, Relevance, Votes
from autorubric.synthesis.gate_rules import (
    GateContext,
    GateDecision,
    GateSettings,
    decide,
    find_final_decisions,
    find_passed,
)
from autorubric.synthesis.gated import build_rewrite_request, read_rewrites
from autorubric.synthesis.relevance import build_relevance_request, combine_relevance, read_relevance
from benchmarks.planted.corpus import Kind, Planted, Scene
from benchmarks.planted.judges import Noise, Script

_VERDICTS = {CriterionVerdict.MET: True, CriterionVerdict.UNMET: False}


@dataclass(frozen=True, slots=True)
class Fate:
    """The result of one planted criterion.

    Attributes:
        language: of its query.
        kind: good, or its fault.
        kept: whether it is in the finished rubric with its fault, if it had one. A good one counts as kept where a
            repetition of it is in the rubric in its place, and a repetition only where both are.
        decided: whether every gate decided; a rejection is a decision.
        decision: the one that settled it; None where every gate was off.
    """

    language: str
    kind: Kind
    kept: bool
    decided: bool
    decision: GateDecision | None


def course(scene: Scene, seed: int, judges: int, settings: GateSettings, noise: Noise | None = None) -> list[Fate]:
    """The results of every planted criterion of a query."""
    return asyncio.run(_course(scene, Script(scene, seed, noise or Noise()), judges, settings))


async def _course(scene: Scene, script: Script, judges: int, settings: GateSettings) -> list[Fate]:
    candidates = tuple(one.candidate for one in scene.planted)
    pool = await graded(scene, candidates, script, judges)
    context = GateContext(scene.query, candidates, pool, await assess(scene, candidates, script, settings))
    decisions = decide(context, settings)
    left = find_passed(candidates, decisions)
    split = [
        one
        for one in candidates
        if (fate := find_final_decisions(decisions).get(one.id)) and fate.outcome == "rewrite"
    ]
    rewrites = await rewritten(scene, split, pool, script)
    if rewrites:
        more = await graded(scene, tuple(rewrites.values()), script, judges)
        pool = replace(pool, votes={**pool.votes, **more.votes})
        again = replace(context, candidates=(*left, *rewrites.values()), pool=pool)
        later = decide(again, settings)
        left, decisions = find_passed(again.candidates, later), [*decisions, *later]
    settled = find_final_decisions(decisions)
    settled |= {old: settled[new.id] for old, new in rewrites.items()}
    faultless = {one.mended for one in scene.planted}
    inside = {one.parents[0] if one.rewritten else one.id for one in left if one.description not in faultless}
    unsure = {one.candidate for one in decisions if one.outcome == "undecided"}
    twins = {one.relevance.same_as: one.candidate.id for one in scene.planted if one.kind == "twice"}
    return [
        Fate(
            scene.language,
            one.kind,
            _stands(one, inside, twins),
            not (one.candidate.id in inside and one.candidate.id in unsure),
            settled.get(one.candidate.id),
        )
        for one in scene.planted
    ]


def _stands(one: Planted, inside: Collection[str], twins: Mapping[str, str]) -> bool:
    """Whether what a criterion demands is in the rubric; for a repetition, whether it is there twice."""
    own = one.candidate.id
    if one.kind == "twice":
        return own in inside and one.relevance.same_as in inside
    return own in inside or (one.kind == "good" and twins.get(own) in inside)


async def graded(scene: Scene, candidates: Sequence[Candidate], script: Script, judges: int) -> Pool:
    """The pool, with every judge's verdicts on these criteria; None where a reply had no entry."""
    criteria = tuple(Criterion(weight=one.weight, requirement=one.description) for one in candidates)
    panel = [RubricJudge(script.judge(number), f"j{number}") for number in range(judges)]
    rows = [
        [await _row(judge, JudgeInput(text, criteria, scene.query)) for text in scene.responses] for judge in panel
    ]
    votes: dict[str, Votes] = {
        one.id: tuple(tuple(column[index] for column in row) for row in rows) for index, one in enumerate(candidates)
    }
    return Pool(scene.responses, tuple(judge.judge_id for judge in panel), votes)


async def _row(judge: RubricJudge, case: JudgeInput) -> list[bool | None]:
    wanted = range(len(case.criteria))
    answer = judge.read(case, wanted, await judge.model.complete(judge.build(case, wanted)))
    if isinstance(answer, Unreadable):
        return [None] * len(wanted)
    verdicts = (answer.value[index].verdict for index in wanted)
    return [None if verdict is None else _VERDICTS.get(verdict) for verdict in verdicts]


async def assess(
    scene: Scene, candidates: Sequence[Candidate], script: Script, settings: GateSettings
) -> dict[str, Relevance]:
    """The combined relevance judgments of a query."""
    model, draws = script.relevance_judge(), []
    for draw in range(settings.licence_draws):
        request = build_relevance_request(package_gate_prompts(), scene.query, candidates, draw)
        answer = read_relevance(candidates, await model.complete(request))
        assert isinstance(answer, Answer)
        draws.append(answer.value)
    models = [f"model {draw % script.noise.models}" for draw in range(settings.licence_draws)]
    return combine_relevance(draws, models, settings)


async def rewritten(scene: Scene, split: Sequence[Candidate], pool: Pool, script: Script) -> dict[str, Candidate]:
    """The new wordings of criteria that judges split on."""
    if not split:
        return {}
    request = build_rewrite_request(package_gate_prompts(), scene.query, split, pool, {})
    answer = read_rewrites(split, await script.rewriter().complete(request))
    assert isinstance(answer, Answer)
    return answer.value
