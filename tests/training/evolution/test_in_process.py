"""Evolution in the trainer's own process: versions by step, resumed without a call, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from autorubric import ConfigError, CriterionGrader, InputError, Rubric, evolve, evolve_async
from autorubric.errors import RunLockedError
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.runs.manifest import find_ledger_folder, write_manifest
from autorubric.testing import LoopbackEndpoint
from autorubric.training import EvolutionPlan, EvolutionRule, Rewarder, RewardRule, Sample, make_rewarder
from autorubric.training.observations import RUBRIC as NOTED
from autorubric.training.observations import describe_rubric
from autorubric.training.rewarder import judge_config, rewards_now
from tests.training.evolution.scripted import QUERY, ROLLOUTS, RUBRIC, models, scripted

VERSION_0 = Rubric.from_dict(RUBRIC)
BOTH = Rubric.from_dict([{"name": "Dose", "requirement": "States the dose and warns about liver damage."}])


def rewarder(endpoint: LoopbackEndpoint, folder: Path, rule: RewardRule | None = None, **more: Any) -> Rewarder:
    judge, writer = (judge_config(f"{name}@{endpoint.base_url}") for name in ("judge", "writer"))
    plan = EvolutionPlan(writer, EvolutionRule(most_added=4, **more))
    return make_rewarder(judge, rule or RewardRule(), run_dir=folder, evolution=plan)


def samples(step: int | None, rubric: Rubric = VERSION_0) -> list[Sample]:
    return [Sample(text, rubric, QUERY, step=step) for text in ROLLOUTS]


async def test_a_new_step_is_graded_by_a_new_version_and_a_restarted_trainer_by_the_same(tmp_path: Path) -> None:
    with scripted().in_thread() as endpoint:
        source = rewarder(endpoint, tmp_path / "run")
        first = await source.rewards(samples(1))
        again = await source.rewards(samples(2))
        with pytest.raises(RunLockedError):
            await rewarder(endpoint, tmp_path / "run").rewards(samples(2))
        await source.finish()
        after = await source.rewards(samples(3))
        await source.finish()
        assert [{one.version for one in some} for some in (first, again, after)] == [{0}, {0}, {1}]
        assert [*after[0].criteria] == ["Limit", "Doctor", "Ulcers", "Doubling"]
        assert after[2].value == pytest.approx(12 / 17.6)  # see test_serve_evolve
        paid = endpoint.counts.requests
        restarted = rewarder(endpoint, tmp_path / "run")
        assert await restarted.rewards(samples(2)) == again
        assert await restarted.rewards(samples(3)) == after
        await restarted.finish()
        assert endpoint.counts.requests == paid
        [lineage] = evolve(tmp_path / "run", **models(endpoint), out=tmp_path / "offline").lineages
        assert [one.name for one in lineage.versions[0].rubric][2:] == ["Ulcers", "Doubling"]
    with ledger_view(tmp_path / "run") as view:
        rows = [value for _, value in view.list_observations("reward")]
    assert {(row["step"], row["version"]) for row in rows} == {(1, 0), (2, 0), (3, 1)}


def test_a_script_without_event_loop_ends_a_training_and_begins_another(tmp_path: Path) -> None:
    with scripted().in_thread() as endpoint:
        source = rewarder(endpoint, tmp_path)
        for steps in ((1, 2), (3,)):
            found = [rewards_now(source, samples(step)) for step in steps]
            asyncio.run(source.finish())
        assert {one.version for one in found[-1]} == {1}
        assert (tmp_path / "evolved.json").exists()


async def test_a_history_that_has_lost_a_version_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with scripted().in_thread() as endpoint:
        source = rewarder(endpoint, out)
        for step in (1, 2, 3):
            await source.rewards(samples(step))
            await source.finish()
        paid, log = endpoint.counts.requests, out / "rubric_versions.jsonl"
        whole = log.read_bytes()
        for left in (b"", whole[: whole.index(b'{"event":"version"')]):
            log.write_bytes(left)
            with pytest.raises(InputError, match=r"lacks version \d of a rubric, by which rollouts .* were graded"):
                await rewarder(endpoint, out).rewards(samples(3))
            with pytest.raises(InputError, match=r"lacks version|no rollouts are recorded"):
                evolve(out, **models(endpoint), out=tmp_path / "offline")
        assert endpoint.counts.requests == paid


async def test_what_would_mix_versions_or_lose_them_is_refused(tmp_path: Path) -> None:
    with scripted().in_thread() as endpoint:
        source = rewarder(endpoint, tmp_path)
        with pytest.raises(InputError, match="give each submission its 'step'"):
            await source.rewards(samples(None))
        await source.finish()
        judge = CriterionGrader(
            judge_model_config=judge_config(f"judge@{endpoint.base_url}"), run_dir=tmp_path / "b", budget_tokens=10**6
        )
        with pytest.raises(ConfigError, match="'writer' puts no bound on the length of its replies"):
            await Rewarder(judge, evolution=EvolutionPlan(f"writer@{endpoint.base_url}")).rewards(samples(1))
        assert endpoint.counts.requests == 0
    with pytest.raises(ConfigError, match="run_dir"):
        make_rewarder("builtin/offline", evolution=EvolutionPlan("builtin/offline"))


async def test_a_gate_of_the_reward_is_never_split(tmp_path: Path) -> None:
    for name, rule, left in (("free", RewardRule(), 2), ("gate", RewardRule(gates=("Dose",)), 1)):
        plan = EvolutionPlan("builtin/offline", EvolutionRule(split=True))
        source = make_rewarder("builtin/offline", rule, run_dir=tmp_path / name, evolution=plan)
        for step in (1, 2):
            await source.rewards(samples(step, BOTH))
        await source.finish()
        [found] = await source.rewards(samples(3, BOTH)[:1])
        await source.finish()
        assert len(found.criteria) == left, name


async def test_a_gate_of_a_reward_never_retires_from_its_rollouts_either(tmp_path: Path) -> None:
    pair = [{"name": "Short", "requirement": "Contains at most 50 words.", "weight": 3}]
    rubric = Rubric.from_dict([*pair, {"name": "Long", "requirement": "Contains at least 3 words."}])
    # The manifest is that of an older `serve --gate Short`; a trainer's process writes none.
    cases = {"none": ((), [], ["Short"]), "manifest": ((), ["Short"], []), "recorded": (("Short",), None, [])}
    for name, (gates, noted, retired) in cases.items():
        run, plan = tmp_path / name, EvolutionPlan("builtin/offline")
        source = make_rewarder("builtin/offline", RewardRule(gates=gates), run_dir=run, evolution=plan)
        await source.rewards([Sample("So. " * number, rubric, QUERY, step=1) for number in range(1, 9)])
        if name == "none":  # a tagged gate of another rubric has the same name
            await source.rewards([Sample("So.", Rubric.from_dict([{**pair[0], "tags": ["gate"]}]), "Who?", step=1)])
        await source.finish()
        if name == "recorded":  # an older version recorded a rubric without its gates
            with Ledger.open(find_ledger_folder(run) or run) as ledger:
                ledger.observe(NOTED, describe_rubric(Rubric.from_dict(pair)))
        if noted is not None:
            write_manifest(run, {"kind": "service", "gates": noted})
        offline = {"judge": "builtin/offline", "writer": "builtin/offline", "out": tmp_path / f"{name}.out"}
        lineage, *_ = (await evolve_async(run, retire_original=True, **offline)).lineages
        assert lineage.changes[0]["retired"] == retired, name
