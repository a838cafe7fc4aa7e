"""`autorubric.evolve`: rubrics that discriminate between the rollouts of a run, version by version."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from autorubric.errors import ConfigError, InputError, pluralize
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.demands import ROLE as DEMANDS
from autorubric.graders.demands import assume_demands
from autorubric.graders.judge import Read
from autorubric.jobs.evolution_settings import EvolutionSettings
from autorubric.jobs.job import ReplaceableSettings, RunSource, blocking, run_job
from autorubric.jobs.judges import JudgeSettings, make_grader
from autorubric.jobs.recorded_run import RecordedRun, open_estimate_ledger, run_ledger
from autorubric.llm.executor import Executor
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.llm.http.endpoints import share_slots
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import check_priced, open_models
from autorubric.llm.records.accounts import UsageTotals
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.llm.request import Answer, Reply, Request
from autorubric.rows.record import as_text
from autorubric.runs.blocks import Room, feed_records, work_through
from autorubric.runs.manifest import find_ledger_folder, read_manifest, require_manifest
from autorubric.runs.plan import describe_grader
from autorubric.runs.run import REPLY_TOKENS, CallCounter
from autorubric.settings import NewDirectory, setting
from autorubric.training.evolution import versions
from autorubric.training.evolution.evolver import Evolver, UndecidedError, digest_rollouts
from autorubric.training.evolution.live import read_service_rollouts
from autorubric.training.evolution.proposals import ROLE as EVOLVE
from autorubric.training.evolution.proposals import CriterionProposal, EvolutionRule, load_evolve_prompt
from autorubric.training.evolution.rollouts import RolloutGroup, read_graded_rollouts
from autorubric.training.observations import RUBRIC

_AT_ONCE = 16
"""Maximum queries in progress; each requests several verdicts at once."""
_TOKENS_AN_ENTRY = 80
_UNMET = (
    '{"explanation": "", "criterion_status": "UNMET"}',
    json.dumps(
        {"judgments": [{"criterion_id": f"c{n}", "explanation": "", "criterion_status": "UNMET"} for n in range(200)]}
    ),
)


class EvolveSettings(EvolutionSettings, JudgeSettings, ReplaceableSettings):
    """The settings of `autorubric.evolve` and `autorubric evolve`.

    Example:
        >>> EvolveSettings(run="graded", judge="builtin/offline", writer="builtin/offline").judge
        ['builtin/offline']
    """

    run: RunSource | None = setting(
        None, "Run directory of grade, select or serve --evolve.", argument=True, group="Input", reads=True
    )
    writer: str | None = setting(
        None, "Model that proposes criteria: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Evolution"
    )
    out: NewDirectory = setting("evolved", "Run directory; the same command resumes.", short="-o", group="Run")

    dry_run: bool = setting(False, "Estimate requests, tokens and cost; send nothing.", group="Budget")

    @property
    def splits(self) -> bool:
        """True, because the writer splits criteria."""
        return True

    @model_validator(mode="after")
    def _check_evolution(self) -> Self:
        wrong = {
            "no judge; pass --judge MODEL": not self.judge,
            "no model that proposes criteria; pass --writer MODEL": self.writer is None,
            "the examples of --few-shot have labels of other criteria; evolve cannot use it": self.few_shot,
        }
        if any(wrong.values()):
            raise ConfigError(problem for problem, is_found in wrong.items() if is_found)
        self.build_evolution_rule()
        return self


@dataclass
class EvolveResult:
    """What `autorubric.evolve` returns.

    Attributes:
        lineages: all versions of the rubric of each query, with the decisions.
        out: the run directory.
        undecided: queries whose rubric was not changed because a call failed, by reason.
        totals: calls, tokens and cost of all sessions.
        stopped: why the run ended early; None if it did not.
        interrupted: whether it was interrupted.
        estimate: of a dry run.

    Example:
        >>> print(EvolveResult([], Path("evolved")))
        0 of 0 rubrics have a new version
    """

    lineages: list[versions.Lineage]
    out: Path
    undecided: dict[str, int] = field(default_factory=dict)
    totals: list[UsageTotals] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False
    estimate: list[ModelEstimate] | None = None

    @property
    def file(self) -> Path:
        """The dataset of the final rubrics."""
        return self.out / versions.EVOLVED_FILE

    def count(self, what: str) -> int:
        """Count the criteria `added`, `returned`, `retired`, `rejected` or `split`, or the rubrics `changed`."""
        return versions.count_changes(self.lineages)[what]

    def __str__(self) -> str:
        return f"{self.count('changed')} of {len(self.lineages)} rubrics have a new version"


@run_job(EvolveSettings)
async def evolve_async(run: Path | None, settings: EvolveSettings) -> EvolveResult:
    """Evolve rubrics: add criteria that discriminate between rollouts, and retire those that do not.

    For each query, a model proposes criteria and pitfalls. Judges grade them on the rollouts; those that pass the
    gates of `synthesize` are added, at most `most_added`. Every change is a version in `rubric_versions.jsonl`.
    Calling it again resumes: recorded versions stay, and saved replies are never paid for twice. Another run of the
    same queries under their newest rubrics continues the versions.

    Args:
        run: a run directory of `grade`, `select` or `serve --evolve`.
        settings: the keyword arguments, as a settings object.

    Raises:
        InputError: a setting or the run is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import tempfile
        >>> from autorubric import Rubric, grade
        >>> folder = Path(tempfile.mkdtemp())
        >>> rubric = Rubric.from_dict([{"name": "Brief", "requirement": "Contains at most 9 words."}])
        >>> answers = ["The moon pulls.", "The sun.", "The moon pulls the water of the seas more than the sun does."]
        >>> judge, asked = "builtin/offline", "Why are there tides?"
        >>> _ = grade(answers, rubric=rubric, prompt=asked, judge=judge, out=folder / "graded")
        >>> print(evolve(folder / "graded", judge=judge, writer="builtin/offline", out=folder / "evolved"))
        0 of 1 rubrics have a new version
    """
    if run is None:
        raise InputError("no run; pass RUN, a run directory of grade, select or serve (Python: the first argument)")
    if settings.dry_run:
        return EvolveResult([], Path(settings.out), estimate=await _estimate_calls(Path(run), settings))
    return await _run_evolution(Path(run), settings)


evolve = blocking(evolve_async)


@dataclass
class EvolutionRun(RecordedRun):
    """The evolution of the rubrics of a run to their next version.

    Attributes:
        evolver: evolves one rubric.
        log: the log of the versions.
        groups: the rollouts of each query.
        done: queries decided in this or an earlier session.
        undecided: queries whose rubric was not changed because a call failed, by reason.
    """

    kind = "evolution"
    stage = "evolved"
    evolver: Evolver
    log: versions.VersionLog
    groups: Sequence[RolloutGroup]
    done: int = 0
    undecided: Counter[str] = field(default_factory=Counter)

    async def execute(self) -> None:
        """Evolve the rubric of every query that is not decided yet."""
        lineages = [
            self.log.find(group.query, group.rubric) or self.log.begin(group.query, group.rubric)
            for group in self.groups
        ]
        places = feed_records(range(len(lineages)), int, lambda: ())
        await work_through(
            places, lambda place: self._evolve(place, self.groups[place], lineages[place]), Room(_AT_ONCE), self
        )

    async def _evolve(self, number: int, group: RolloutGroup, lineage: versions.Lineage) -> None:
        if lineage.has_decided(digest_rollouts(group.rollouts)):
            self.done += 1
            return
        try:
            version, change = await self.evolver.evolve(
                lineage.newest, lineage.versions[0].rubric, group.rollouts, str(number)
            )
        except UndecidedError as error:
            if error.failure.kind not in NOT_MADE:
                self.undecided[str(error)] += 1
            self.end_with(error.failure)
            return
        self.log.add(lineage, version, change)
        self.done += 1

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of all, decided and undecided queries."""
        return len(self.groups), self.done, self.undecided.total()

    def build_entries(self) -> dict[str, Any]:
        """Return the fingerprint of the prompt."""
        return {"templates": {"evolve": load_evolve_prompt().fingerprint}}


async def _run_evolution(source: Path, settings: EvolveSettings) -> EvolveResult:
    groups, grader = _read_rollouts(source), make_grader(settings)
    made_of = _identify_evolution(grader, settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        stack.enter_context(settings.attempts_logged())
        stack.enter_context(share_slots(settings.concurrency))
        config = settings.build_writer_config(str(settings.writer))
        writers = await stack.enter_async_context(open_models(config, settings.concurrency))
        models = {**(await grader.open_session()).models, **writers}
        files = (versions.VERSIONS_FILE, versions.EVOLVED_FILE)
        ledger = await stack.enter_async_context(run_ledger(settings, EvolutionRun, files, made_of, models))
        log = stack.enter_context(closing(versions.VersionLog(Path(settings.out) / versions.VERSIONS_FILE)))
        _check_newest(groups, log, source)
        executor = grader.executor_on(ledger, detached=False)
        run = EvolutionRun(
            Evolver(_build_rule(source, settings), writers["writer"], grader, executor.ask_for),
            log,
            groups,
            executor=executor,
            settings=settings,
            ledger=ledger,
            models=models,
            made_of=made_of,
        )
        await run.carry_out()
        lineages = list(log.lineages.values())
        versions.write_evolved(run.out, lineages)
        run.save("stopped" if run.stopped else "failed" if run.undecided else "completed")
        return EvolveResult(lineages, run.out, dict(run.undecided), ledger.add_up(), run.stopped, run.interrupted)


def _build_rule(source: Path, settings: EvolveSettings) -> EvolutionRule:
    """Return the rule for what may change; the gates of a reward never change."""
    rule, gates = settings.build_evolution_rule(), list((read_manifest(source) or {}).get("gates") or ())
    if folder := find_ledger_folder(source):
        with ledger_view(folder) as view:
            notes = {note["rubric"]: note for _, note in view.list_observations(RUBRIC)}.values()
        held = [({each["name"] for each in note["criteria"]}, {*note["gates"]}) for note in notes if "gates" in note]
        free = set[str]().union(*(names - closed for names, closed in held))  # a tag makes a gate in one rubric only
        gates += sorted(set[str]().union(*(closed for _, closed in held)) - free)
    return replace(rule, persistent=(*rule.persistent, *dict.fromkeys(gates)))


def _read_rollouts(source: Path) -> list[RolloutGroup]:
    """Return the rollouts of a run, by query and rubric.

    Raises:
        InputError: it has no rollouts, or it is damaged.
    """
    manifest = read_manifest(source)
    kind = str((manifest or {}).get("kind") or "evaluation")
    if kind == "service" or (manifest is None and (source / versions.VERSIONS_FILE).exists()):
        return read_service_rollouts(source)
    require_manifest(source)
    if kind not in ("evaluation", "selection"):
        raise InputError(f"{source} is a run of {kind}; expected a run of grade, select or serve")
    return read_graded_rollouts(source)


def _check_newest(groups: Iterable[RolloutGroup], log: versions.VersionLog, source: Path) -> None:
    """Raise an error for rollouts that were not graded by the newest version of their rubric.

    Raises:
        InputError: some undecided queries have such rollouts.
    """
    old = []
    for group in groups:
        lineage = log.find(group.query, group.rubric)
        if lineage is None or lineage.has_decided(digest_rollouts(group.rollouts)):
            continue
        version = next(version for version in reversed(lineage.versions) if version.rubric == group.rubric)
        if version.digest != lineage.newest.digest:
            old.append((as_text(group.query or "")[:60], version.number, lineage.newest.number))
    if old:
        text, number, newest = old[0]
        raise InputError(
            f"{source}: the rollouts of {pluralize(len(old), 'query')} were graded by an older version of their "
            f"rubric, such as {text!r}: version {number}, but {newest} is the newest; grade them with "
            f"{versions.EVOLVED_FILE}, or pass another --out"
        )


def _identify_evolution(grader: CriterionGrader, settings: EvolveSettings) -> dict[str, Any]:
    """Return the entries that identify this evolution in its directory; a new source run continues the versions."""
    own = ("writer", "writer_temperature", "most_added", "retire_after", "most_rollouts", "retire_original")
    return {
        "judges": sorted(grader.judge_ids),
        "grader": {**describe_grader(grader), "stand_ins": None, "judges": None},
        "persistent": list(settings.persistent),
        **({"compound": "split"} if settings.compound == "split" else {}),
        **{name: getattr(settings, name) for name in own},
    }


async def _estimate_calls(source: Path, settings: EvolveSettings) -> list[ModelEstimate]:
    """Return the calls that the evolution would make, per model; sends no request and writes nothing.

    The writer is assumed to propose as many criteria as it may, after a split that the gates rejected.
    """
    groups, out, grader = _read_rollouts(source), Path(settings.out), make_grader(settings)
    rule, log = _build_rule(source, settings), versions.read_log(out / versions.VERSIONS_FILE)
    _check_newest(groups, log, source)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        ledger = stack.enter_context(open_estimate_ledger(out))
        writers = await stack.enter_async_context(open_models(settings.build_writer_config(str(settings.writer)), 1))
        models = {**(await grader.open_session()).models, **writers}
        check_priced(models, settings.budget_usd)
        settings.show_stand_ins(len(groups), [model.name for model in models.values()])

        def assume(request: Request, read: Read) -> Answer[Any] | None:
            if request.role == EVOLVE:
                texts = [f"{request.messages[-1].content[:120]} ({n})" for n in range(2 * rule.most_added)]
                return Answer([CriterionProposal("", text, 5) for text in texts], Reply(""))
            return assume_demands(request) or _assume_verdict(request, read)

        def expected(request: Request) -> float:
            entries = {EVOLVE: 2 * rule.most_added, DEMANDS: 2, "licence": 2 * rule.most_added + 4}
            return entries[request.role] * _TOKENS_AN_ENTRY if request.role in entries else REPLY_TOKENS

        counter = CallCounter(Executor(ledger), expected, assume=assume)
        evolver = Evolver(rule, writers["writer"], grader, counter)
        for number, group in enumerate(groups):
            await _count_calls(evolver, number, group, log.find(group.query, group.rubric))
        return list(counter.found.values())


async def _count_calls(evolver: Evolver, number: int, group: RolloutGroup, lineage: Any) -> None:
    if lineage is not None and lineage.has_decided(digest_rollouts(group.rollouts)):
        return
    newest = versions.RubricVersion(group.query, 0, group.rubric) if lineage is None else lineage.newest
    first = group.rubric if lineage is None else lineage.versions[0].rubric
    with suppress(UndecidedError):
        await evolver.evolve(newest, first, group.rollouts, str(number))


def _assume_verdict(request: Request, read: Read) -> Answer[Any] | None:
    """Return UNMET for a judge's request and an empty answer for a relevance request."""
    if request.role == "licence":
        return Answer({}, Reply(""))
    found: Sequence[Any] = [read(Reply(text)) for text in _UNMET]
    return next((answer for answer in found if isinstance(answer, Answer)), None)
