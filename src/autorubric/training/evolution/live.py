"""Evolution during training: the version that grades a rollout, and the time of the next evolution."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.core.rubric import Rubric
from autorubric.errors import AutorubricError, InputError
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.models import open_models
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.llm.request import Message, Model, Request
from autorubric.llm.sharing import turn, turns
from autorubric.runs.manifest import find_ledger_folder
from autorubric.training.evolution.evolver import Evolver, UndecidedError, digest_rollouts
from autorubric.training.evolution.proposals import ROLE, EvolutionRule
from autorubric.training.evolution.rollouts import Rollout, RolloutGroup, map_verdicts
from autorubric.training.evolution.versions import VERSIONS_FILE, Lineage, VersionLog, read_log, write_evolved
from autorubric.training.observations import Replays, digest_group, is_training
from autorubric.training.rewards import Reward, RewardRule

if TYPE_CHECKING:
    from autorubric.training.rewarder import Sample

ROLLOUT = "rollout"
"""The kind of observation that records a rollout: its lineage, version, step, text, reward and values."""

EVOLUTION_LOCK = "evolution"
"""A folder in the run directory; only the process that holds its lock writes versions of rubrics."""

_log = logging.getLogger("autorubric.training")
_AT_ONCE = 4
"""Maximum concurrent evolutions; they share the judge with the trainer."""


@dataclass(frozen=True, slots=True)
class EvolutionPlan:
    """How rubrics evolve during training.

    Attributes:
        writer: the model that proposes criteria: its name, its configuration, or an open model.
        rule: what an evolution may change.
        assessor: an open model that assesses relevance, for a custom judge; by default the judge's models do.

    Example:
        >>> EvolutionPlan("openai/gpt-5.1", EvolutionRule(most_added=1)).rule.retire_after
        8
    """

    writer: str | LLMConfig | Model
    rule: EvolutionRule = field(default_factory=EvolutionRule)
    assessor: Model | None = None

    @asynccontextmanager
    async def opened(self, most: int) -> AsyncIterator[Model]:
        """Open the writer within the `with` block, with at most `most` concurrent calls."""
        if not isinstance(self.writer, str | LLMConfig):
            yield self.writer
            return
        config = LLMConfig(self.writer) if isinstance(self.writer, str) else self.writer
        async with open_models({"writer": config}, most) as models:
            yield models["writer"]


class LiveEvolution:
    """Assigns one version to all rollouts of a group, and evolves rubrics between training steps.

    The first submission of a query in a new step ends the earlier steps, and the rubric evolves from their rollouts
    in the background. A new version applies from the step after the last one that has begun, so all rollouts of one
    query and step have the same version. Steps and versions are on disk before a rollout is graded by them.

    Args:
        log: the versions.
        ledger: keeps the rollouts.
        evolver: evolves rubrics.
    """

    def __init__(self, log: VersionLog, ledger: Ledger, evolver: Evolver) -> None:
        self.log = log
        self._ledger = ledger
        self._evolver = evolver
        self._rollouts: dict[str, deque[tuple[int, Rollout]]] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.outcomes: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()
        self._replays = Replays()

    def recall(self, kept: Iterable[Mapping[str, Any]]) -> None:
        """Load the rollouts that earlier sessions recorded."""
        self._replays = Replays(map(self._recall_rollout, kept))

    def assign_versions(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples, each with the version of its rubric that grades its step.

        Raises:
            InputError: a sample has no step, or its rubric is a later version instead of version 0.
        """
        problems = dict.fromkeys(filter(None, map(self._find_problem, samples)))
        if problems:
            raise InputError(problems)
        begun = self.log.record_steps([(sample.query, sample.rubric, sample.step or 0) for sample in samples])
        for lineage in begun:
            self._start(lineage)
        return [self._assign_version(sample) for sample in samples]

    def note(self, sample: Sample, reward: Reward) -> None:
        """Record a graded rollout once, unless it has no reward or belongs to an evaluation."""
        lineage = self.log.find(sample.query, sample.rubric)
        is_used = reward.failure is None and is_training(sample.split)
        if not is_used or reward.value is None or lineage is None:
            return
        values, version = list(reward.criteria.values()), sample.version or 0
        row = {"group": lineage.group, "version": version, "step": sample.step, "submission": sample.submission}
        if self._replays.is_new(_build_key(row), sample.step):
            self._keep(lineage, version, _to_rollout(sample.rubric, sample.submission, reward.value, values))
            self._ledger.observe(ROLLOUT, {**row, "reward": reward.value, "values": values})

    async def finish(self, seconds: float) -> None:
        """Wait for running evolutions, then cancel them; their replies stay recorded."""
        tasks = tuple(self._working.values())
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _find_problem(self, sample: Sample) -> str | None:
        if sample.step is None:
            return "rubrics evolve between training steps; give each submission its 'step'"
        lineage = self.log.find(sample.query, sample.rubric)
        if lineage is None or lineage.group == digest_group(sample.query, sample.rubric):
            return None
        digest, newest = digest_group(sample.query, sample.rubric), lineage.newest.number
        number = next(v.number for v in lineage.versions if digest_group(v.query, v.rubric) == digest)
        return (
            f"the rubric is version {number} of one that evolves here (the newest is {newest}); send version 0, the "
            "rubric that training began with, or use another service or run directory"
        )

    def _recall_rollout(self, row: Mapping[str, Any]) -> Hashable:
        lineage = _find_lineage(row, self.log.lineages, self.log.path)
        rubric = lineage.versions[row["version"]].rubric
        self._keep(lineage, row["version"], _to_rollout(rubric, row["submission"], row["reward"], row["values"]))
        return _build_key(row)

    def _assign_version(self, sample: Sample) -> Sample:
        lineage = self.log.lineages[digest_group(sample.query, sample.rubric)]
        version = lineage.find_version(sample.step or 0)
        return replace(sample, rubric=version.rubric, version=version.number)

    def _keep(self, lineage: Lineage, version: int, rollout: Rollout) -> None:
        rule = self._evolver.rule
        room = max(rule.retire_after, rule.most_rollouts)
        self._rollouts.setdefault(lineage.group, deque(maxlen=room)).append((version, rollout))

    def _start(self, lineage: Lineage) -> None:
        """Evolve a rubric in the background, if its newest version has enough rollouts and none is running."""
        kept = self._rollouts.get(lineage.group, ())
        fresh = sum(version == lineage.newest.number for version, _ in kept)
        if lineage.group in self._working or fresh < self._evolver.rule.gates.separates.least_responses:
            return
        rollouts = [rollout for _, rollout in kept]
        if not lineage.has_decided(digest_rollouts(rollouts)):
            task = asyncio.create_task(self._evolve(lineage, rollouts))
            self._working[lineage.group] = task
            task.add_done_callback(lambda _: self._working.pop(lineage.group, None))

    async def _evolve(self, lineage: Lineage, rollouts: Sequence[Rollout]) -> None:
        try:
            turn.set(next(turns))  # rewards that wait go first
            async with self._room:
                version, change = await self._evolver.evolve(
                    lineage.newest, lineage.versions[0].rubric, rollouts, lineage.group
                )
            if version is not None:
                version = replace(version, from_step=lineage.last_step + 1)
            self.log.add(lineage, version, change)
            self.outcomes["same" if version is None else "version"] += 1
        except UndecidedError as error:
            self._note_undecided(error.failure.kind, str(error))
        except (AutorubricError, OSError) as error:  # the rubric stays; training goes on
            self._note_undecided(type(error).__name__, str(error))

    def _note_undecided(self, kind: str, message: str) -> None:
        self.outcomes["undecided"] += 1
        self._problems[kind] += 1
        if self._problems[kind] == 1:
            _log.warning("a rubric was not evolved and stays as it is (further ones are only counted): %s", message)


@asynccontextmanager
async def open_evolution(
    out: Path, plan: EvolutionPlan, grader: CriterionGrader, executor: Executor, ledger: Ledger, rule: RewardRule
) -> AsyncIterator[LiveEvolution]:
    """Open the evolution in a run directory that the caller has locked, with the state of earlier sessions.

    On exit it writes the newest rubrics and their history to `evolved.json`.

    Args:
        out: the run directory.
        plan: the writer, and what may change; gates of the reward never change.
        grader: judges proposals.
        executor: makes the calls.
        ledger: keeps replies and rollouts.
        rule: how a report becomes a reward.
    """
    fixed = replace(plan.rule, persistent=(*plan.rule.persistent, *rule.gates))
    async with plan.opened(grader.max_in_flight) as writer:
        if executor.budget is not None:  # refuses a writer that the budget cannot hold
            executor.budget.compute_worst_case(writer, Request((Message("user", ""),), ROLE))
        ledger.set_costs([writer])
        with closing(VersionLog(out / VERSIONS_FILE)) as log:
            evolver = Evolver(fixed, writer, grader, executor.ask_for, assessor=plan.assessor)
            live = LiveEvolution(log, ledger, evolver)
            live.recall(value for _, value in ledger.list_observations(ROLLOUT))
            try:
                yield live
            finally:
                if log.lineages:
                    write_evolved(out, log.lineages.values())


def read_service_rollouts(out: Path) -> list[RolloutGroup]:
    """Read the rollouts that a service with evolution recorded under the newest version of each rubric.

    Raises:
        InputError: there are none, or a file is damaged.
    """
    lineages = read_log(out / VERSIONS_FILE).lineages
    if not lineages:
        raise InputError(
            f"{out}: no rollouts are recorded; only `autorubric serve --evolve MODEL` and make_rewarder(evolution=…) "
            "record them"
        )
    found: dict[str, list[Rollout]] = {group: [] for group in lineages}
    with ledger_view(find_ledger_folder(out) or out) as view:
        for _, row in view.list_observations(ROLLOUT):
            newest = _find_lineage(row, lineages, out / VERSIONS_FILE).newest
            if row["version"] == newest.number:
                rollout = _to_rollout(newest.rubric, row["submission"], row["reward"], row["values"])
                found[row["group"]].append(rollout)
    return [
        RolloutGroup(lineage.newest.query, lineage.newest.rubric, tuple(found[group]))
        for group, lineage in lineages.items()
    ]


def _find_lineage(row: Mapping[str, Any], lineages: Mapping[str, Lineage], log: Path) -> Lineage:
    """Return the lineage of a recorded rollout; the version that graded it must be in the log."""
    lineage = lineages.get(row["group"])
    if lineage is None or row["version"] >= len(lineage.versions):
        raise InputError(
            f"{log} lacks version {row['version']} of a rubric, by which rollouts in the ledger were graded; restore "
            "the file from a copy, or pass another --out"
        )
    return lineage


def _build_key(row: Mapping[str, Any]) -> Hashable:
    return row["group"], row["version"], row["step"], row["submission"]


def _to_rollout(rubric: Rubric, submission: str, reward: float | None, values: Sequence[float | None]) -> Rollout:
    return Rollout(submission, reward, map_verdicts((criterion.requirement for criterion in rubric), values))
