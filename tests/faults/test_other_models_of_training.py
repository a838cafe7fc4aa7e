"""The fault matrix at the models that training asks besides its judge: a reward that the judge gave is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import CriterionGrader, LLMConfig, Rubric
from autorubric.training import AuditPlan, EvolutionPlan, Rewarder, RewardFailed, Sample
from autorubric.training.evolution.versions import VERSIONS_FILE, read_log
from tests.faults.scene import Scene
from tests.offenders import offenders

EACH_KIND = ("429", "500", "hang", "413", "401", "402", "wrong-schema", "prose", "refusal", "length")
RUBRIC = Rubric.from_dict([{"requirement": "States the dose and warns about liver damage."}])
TEXTS = ("One.", "Two.", "Three.")


def each_kind(scene: Scene, meets: Callable[[dict[str, Any]], bool], check: Callable[[Path, Scene], None]) -> None:
    """Check each fault at the requests that meet it, in a folder of its own."""
    with offenders() as case:
        for fault in EACH_KIND:
            with case(fault):
                scene.meets = lambda body, fault=fault: fault if meets(body) else None  # type: ignore[misc]
                scene.timeout = 0.4 if fault == "hang" else 30.0
                check(scene.folder / fault, scene)


def config(scene: Scene, name: str) -> LLMConfig:
    address = scene.endpoint.base_url
    return LLMConfig(name, api_base=address, api_key_env="OPENAI_API_KEY", max_retries=0, timeout=scene.timeout)


def grader(scene: Scene, folder: Path, **more: Any) -> CriterionGrader:
    return CriterionGrader(judge_model_config=config(scene, "judge"), run_dir=folder, **more)


def rewards(source: Rewarder, *steps: int) -> list[tuple[float | None, int | None]]:
    """Reward and version of the same rollouts in each step; then all work behind them has ended."""

    async def give() -> list[tuple[float | None, int | None]]:
        found = []
        try:
            for step in steps:
                samples = [Sample(text, RUBRIC, "How much?", step=step) for text in TEXTS]
                found += [(one.value, one.version) for one in await source.rewards(samples)]
        finally:
            await source.finish()
            assert isinstance(source.grader, CriterionGrader)
            await source.grader.aclose()
        return found

    return asyncio.run(give())


def test_an_audit_judge_that_fails_blinds_the_audit_and_is_asked_again(scene: Scene) -> None:
    def check(folder: Path, scene: Scene) -> None:
        for audits in (0, 3):
            plan = AuditPlan(CriterionGrader(judge_model_config=config(scene, "second")), share=1.0)
            source = Rewarder(grader(scene, folder), audit=plan)
            assert rewards(source, 1) == [(1.0, None)] * 3
            assert source.auditor is not None
            found = source.auditor.found
            assert (found.audits, found.blind_since is None) == (audits, audits == 3)
            assert found.failures.total() >= 3
            scene.meets = lambda body: None

    each_kind(scene, lambda body: body["model"] == "second", check)


def test_a_writer_that_fails_leaves_the_rubric_as_it_is_and_is_asked_again(scene: Scene) -> None:
    def check(folder: Path, scene: Scene) -> None:
        for steps, changes in (((1, 2), 0), ((3,), 1)):
            source = Rewarder(grader(scene, folder), evolution=EvolutionPlan(config(scene, "writer")))
            assert rewards(source, *steps) == [(1.0, 0)] * 3 * len(steps)
            [lineage] = read_log(folder / VERSIONS_FILE).lineages.values()
            assert (lineage.newest.number, len(lineage.changes)) == (0, changes)
            scene.meets = lambda body: None

    each_kind(scene, lambda body: body["model"] == "writer", check)


def test_a_list_of_demands_that_cannot_be_had_is_a_missing_reward_and_no_zero(scene: Scene) -> None:
    def check(folder: Path, scene: Scene) -> None:
        if folder.name in ("401", "402"):  # they last, so a training ends
            with pytest.raises(RewardFailed, match=f"the judge cannot give one: .*HTTP {folder.name}"):
                rewards(Rewarder(grader(scene, folder, compound="all")), 1)
        else:
            assert rewards(Rewarder(grader(scene, folder, compound="all")), 1) == [(None, None)] * 3
        scene.meets = lambda body: None
        # The endpoint lists what is not in the criterion, which is then judged as a whole.
        assert rewards(Rewarder(grader(scene, folder, compound="all")), 1) == [(1.0, None)] * 3

    each_kind(scene, lambda body: "demands" in str(body.get("response_format")), check)
