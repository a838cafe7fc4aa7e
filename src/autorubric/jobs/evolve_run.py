"""An evolution in its run directory: rollouts, lock, ledger, version log, and the final rubrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import InputError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.jobs.judges import make_grader
from autorubric.llm.attempts import attempt_log
from autorubric.llm.budget import check_priced
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.ledger import Ledger
from autorubric.rows.record import as_text
from autorubric.runs.another_run import Opening, locked_ledger
from autorubric.runs.changes import changed_since_paid
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest, write_manifest
from autorubric.runs.plan import describe_grader
from autorubric.runs.progress import RunState, StageState, reported
from autorubric.runs.run_folder import run_folder
from autorubric.runs.stopping import Stop, StoppableRun
from autorubric.training.evolution.evolver import Evolver, UndecidedError, digest_rollouts
from autorubric.training.evolution.live import read_service_rollouts
from autorubric.training.evolution.proposals import evolve_prompt
from autorubric.training.evolution.rollouts import RolloutGroup, read_graded_rollouts
from autorubric.training.evolution.versions import EVOLVED_FILE, VERSIONS_FILE, Lineage, VersionLog, write_evolved

if TYPE_CHECKING:
    from autorubric.jobs.evolve import EvolveSettings

KIND = "evolution"
_AT_ONCE = 16
"""Queries in work at a time; each asks for several verdicts at once."""


@dataclass
class EvolutionRun(StoppableRun):
    """The rubrics of a run on their way to their next version.

    Attributes:
        evolver: evolves one.
        log: the versions.
        groups: the rollouts of each query.
        done: queries decided, now or in an earlier session.
        undecided: queries whose rubric stays because a call failed, by reason.
        notes: names of built-in models that stand in for real ones.
    """

    evolver: Evolver
    log: VersionLog
    groups: Sequence[RolloutGroup]
    done: int = 0
    undecided: Counter[str] = field(default_factory=Counter)
    notes: Sequence[str] = ()

    async def execute(self) -> None:
        """Evolve the rubric of every query whose rollouts are not decided on yet."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int, group: RolloutGroup, lineage: Lineage) -> None:
            async with room:
                if self.stopped is None:
                    await self._evolve(number, group, lineage)

        async with asyncio.TaskGroup() as tasks:
            for number, group in enumerate(self.groups):
                tasks.create_task(one(number, group, self.lineage(group)))

    def lineage(self, group: RolloutGroup) -> Lineage:
        """The versions of a query's rubric."""
        return self.log.find(group.query, group.rubric) or self.log.begin(group.query, group.rubric)

    async def _evolve(self, number: int, group: RolloutGroup, lineage: Lineage) -> None:
        if lineage.has_decided(digest_rollouts(group.rollouts)):
            self.done += 1
            return
        try:
            version, change = await self.evolver.evolve(
                lineage.newest, lineage.versions[0].rubric, group.rollouts, str(number)
            )
        except UndecidedError as error:
            self.undecided[str(error)] += 1
            self.end_with(error.failure)
            return
        self.log.add(lineage, version, change)
        self.done += 1

    def state(self) -> RunState:
        """How far it is."""
        activity = [] if self.executor is None else list(self.executor.snapshot().values())
        failed = sum(self.undecided.values())
        stage = StageState("evolved", self.done, sum(one.in_flight for one in activity), failed)
        return RunState.of(len(self.groups), self.done + failed, [stage], activity, self.notes)


async def evolved(source: Path, settings: EvolveSettings) -> dict[str, Any]:
    """Evolve the rubrics of a run in a directory of their own, or resume; the fields of `EvolveResult`."""
    groups = read_rollouts(source)
    out, grader = Path(settings.out), make_grader(settings)
    log = None if settings.log_json is None else Path(settings.log_json)
    described = _described(grader, settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        stack.enter_context(attempt_log(log, str(out), prompts=settings.log_prompts))
        writers = await stack.enter_async_context(
            open_models(settings.writer_config(str(settings.writer)), settings.concurrency)
        )
        models = {**(await grader.open_session()).models, **writers}
        if settings.budget_usd is not None:
            check_priced(models)
        files = (VERSIONS_FILE, EVOLVED_FILE, MANIFEST_FILE)
        folder = stack.enter_context(run_folder(out, files, settings.sources()))
        opening = Opening(settings.wait, replace=settings.replace)
        ledger = await stack.enter_async_context(
            locked_ledger(out, KIND, lambda manifest: changed_since_paid(manifest, described), opening)
        )
        ledger.price(models.values())
        versions = stack.enter_context(VersionLog(out / VERSIONS_FILE))
        check_newest(groups, versions, source)
        executor = grader.executor_on(ledger, detached=False)
        evolver = Evolver(settings.evolution(), writers["writer"], grader, executor)
        notes = stand_ins(model.name for model in models.values())
        run = EvolutionRun(evolver, versions, groups, notes=notes, executor=executor)
        result = await _run(run, settings, ledger, described)
        folder.refused = False
        return result


async def _run(
    run: EvolutionRun, settings: EvolveSettings, ledger: Ledger, described: Mapping[str, Any]
) -> dict[str, Any]:
    out = Path(settings.out)
    _save("running", run, settings, ledger, described)
    try:
        with (settings.stop or Stop()).bound(run):
            async with reported(settings.progress, run.state):
                await run.to_the_end()
    except BaseException:
        _save("stopped", run, settings, ledger, described)
        raise
    assert run.executor is not None
    if run.refused and not any(one.paid for one in run.executor.snapshot().values()):
        raise InputError(run.stopped or "the endpoint refused the run")
    lineages = list(run.log.lineages.values())
    write_evolved(out, lineages)
    _save("stopped" if run.stopped else "failed" if run.undecided else "completed", run, settings, ledger, described)
    return {
        "lineages": lineages,
        "out": out,
        "undecided": dict(run.undecided),
        "totals": ledger.totals(),
        "stopped": run.stopped,
        "interrupted": run.interrupted,
    }


def read_rollouts(source: Path) -> list[RolloutGroup]:
    """The rollouts of a run, by query and rubric.

    Raises:
        InputError: it has no rollouts, or it is damaged.
    """
    manifest = read_manifest(source)
    kind = str((manifest or {}).get("kind") or "evaluation")
    if kind == "service" or (manifest is None and (source / VERSIONS_FILE).exists()):
        return read_service_rollouts(source)
    if manifest is None or kind not in ("evaluation", "selection"):
        what = "no run directory" if manifest is None else f"a run of the kind {kind!r}"
        raise InputError(f"{source}: {what}; expected a run directory of grade, select or serve")
    return read_graded_rollouts(source)


def check_newest(groups: Iterable[RolloutGroup], log: VersionLog, source: Path) -> None:
    """Refuse rollouts that were graded by a version that is not the newest.

    Raises:
        InputError: for some queries; those whose rollouts were decided on before are not among them.
    """
    old = []
    for group in groups:
        lineage = log.find(group.query, group.rubric)
        if lineage is None or any(
            change["rollouts"] == digest_rollouts(group.rollouts) for change in lineage.changes
        ):
            continue
        version = next(one for one in reversed(lineage.versions) if one.rubric == group.rubric)
        if version.digest != lineage.newest.digest:
            old.append((as_text(group.query or "")[:60], version.number, lineage.newest.number))
    if old:
        text, number, newest = old[0]
        raise InputError(
            f"{source}: the rollouts of {len(old)} queries were graded by an older version of their rubric, such as "
            f"{text!r}: version {number}, but {newest} is the newest; grade them with {EVOLVED_FILE}, or pass "
            "another --out"
        )


def _described(grader: CriterionGrader, settings: EvolveSettings) -> dict[str, Any]:
    """What tells this evolution from another one in its directory; another run continues the versions."""
    own = ("writer", "writer_temperature", "most_added", "retire_after", "most_rollouts", "retire_original")
    return {
        "judges": sorted(grader.judge_ids),
        "grader": {**describe_grader(grader), "stand_ins": None, "judges": None},
        "persistent": list(settings.persistent),
        **({"compound": "split"} if settings.compound == "split" else {}),
        **{name: getattr(settings, name) for name in own},
    }


def _save(
    status: str, run: EvolutionRun, settings: EvolveSettings, ledger: Ledger, described: Mapping[str, Any]
) -> None:
    failed = sum(run.undecided.values())
    write_manifest(
        Path(settings.out),
        {
            "kind": KIND,
            "status": status,
            "made_of": described,
            "settings": {**settings.recorded(), "again": settings.again},
            "stand_ins": list(run.notes),
            "counts": {"rows": len(run.groups), "finished": run.done, "failed": failed},
            "error": run.stopped,
            "calls": ledger.count,
            "templates": {"evolve": evolve_prompt().fingerprint},
        },
    )
