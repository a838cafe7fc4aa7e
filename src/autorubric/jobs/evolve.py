"""`autorubric.evolve`: the rollouts of a run in, rubrics that tell them apart out, version by version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from autorubric.errors import ConfigError, InputError
from autorubric.graders.demands import ROLE as DEMANDS
from autorubric.graders.demands import assumed_demands
from autorubric.graders.judge import Read
from autorubric.jobs.evolution_settings import EvolutionSettings
from autorubric.jobs.evolve_run import check_newest, evolved, read_rollouts
from autorubric.jobs.job import ReplaceableSettings, RunSource, blocking, job
from autorubric.jobs.judges import JudgeSettings, make_grader
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.accounts import Totals
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.llm.request import Answer, Failure, Model, Reply, Request
from autorubric.runs.progress import RunState
from autorubric.runs.run import REPLY_TOKENS, CallCounter
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.settings import NewDirectory, setting
from autorubric.training.evolution.evolver import Evolver, UndecidedError, digest_rollouts
from autorubric.training.evolution.proposals import ROLE as EVOLVE
from autorubric.training.evolution.proposals import Proposal
from autorubric.training.evolution.rollouts import RolloutGroup
from autorubric.training.evolution.versions import EVOLVED_FILE, VERSIONS_FILE, Lineage, RubricVersion, read_log


class EvolveSettings(EvolutionSettings, JudgeSettings, ReplaceableSettings):
    """The settings of `autorubric.evolve` and `autorubric evolve`."""

    run: RunSource | None = setting(
        None, "Run directory of grade, select or serve --evolve.", argument=True, group="Input", reads=True
    )
    writer: str | None = setting(
        None, "Model that proposes criteria: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Evolution"
    )
    out: NewDirectory = setting(
        "evolved", "Run directory; the same command again resumes the run.", short="-o", group="Run"
    )

    dry_run: bool = setting(False, "Print requests, tokens and cost; spend nothing.", group="Budget")

    @property
    def splits(self) -> bool:
        """The writer splits criteria."""
        return True

    @model_validator(mode="after")
    def _check_evolution(self) -> Self:
        problems = []
        if not self.judge:
            problems.append("no judge; pass --judge MODEL (Python: judge=)")
        if self.writer is None:
            problems.append("no model that proposes criteria; pass --writer MODEL (Python: writer=)")
        if self.few_shot:
            problems.append("--few-shot (Python: few_shot=) shows labels of other criteria; leave it out of evolve")
        if problems:
            raise ConfigError(problems)
        self.evolution()
        return self


@dataclass
class EvolveResult:
    """What `autorubric.evolve` returns.

    Attributes:
        lineages: the rubrics of each query, all versions, with what was decided.
        out: the run directory.
        undecided: queries whose rubric stays because a call failed, by reason.
        totals: calls, tokens and cost of all sessions.
        stopped: why the run ended early; None where it did not.
        interrupted: whether a person stopped it.
        estimate: of a dry run.
    """

    lineages: list[Lineage]
    out: Path
    undecided: dict[str, int] = field(default_factory=dict)
    totals: list[Totals] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False
    estimate: list[ModelEstimate] | None = None

    @property
    def file(self) -> Path:
        """The dataset of the final rubrics."""
        return self.out / EVOLVED_FILE

    def count(self, what: str) -> int:
        """The number of criteria `added`, `returned`, `retired`, `rejected` or `split` in all changes."""
        return sum(len(change.get(what, ())) for one in self.lineages for change in one.changes)

    def __str__(self) -> str:
        changed = sum(one.newest.number > 0 for one in self.lineages)
        return f"{changed} of {len(self.lineages)} rubrics have a new version"


@job(EvolveSettings)
async def evolve_async(run: Path | None, settings: EvolveSettings) -> EvolveResult:
    """Evolve rubrics from the rollouts of a run: add criteria that tell them apart, retire those that do not.

    For each query, a model proposes criteria and pitfalls. They are graded on the rollouts and pass the gates of
    `synthesize`; at most `most_added` enter. Every change is a version in `rubric_versions.jsonl`. Calling it again
    resumes: recorded versions stay, and saved replies are never paid for twice. Another run of the same queries
    under their newest rubrics continues the versions.

    Args:
        run: a run directory of `grade`, `select` or `serve --evolve`.
        settings: the keyword arguments, as one model.

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
        return EvolveResult([], Path(settings.out), estimate=await estimated(Path(run), settings))
    found: Any = await evolved(Path(run), settings)
    return EvolveResult(**found)


evolve = blocking(evolve_async)


if TYPE_CHECKING:
    from autorubric.jobs.evolve import EvolveSettings

_TOKENS_AN_ENTRY = 80
_UNMET = (
    '{"explanation": "", "criterion_status": "UNMET"}',
    json.dumps(
        {"judgments": [{"criterion_id": f"c{n}", "explanation": "", "criterion_status": "UNMET"} for n in range(200)]}
    ),
)


@dataclass
class _Counting:
    """Stands where an executor does, and counts instead of asking."""

    counter: CallCounter

    async def ask_for(self, model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answer[Any] | Failure:
        return await self.counter(model, request, read, follow_up)


async def estimated(source: Path, settings: EvolveSettings) -> list[ModelEstimate]:
    """The calls that the evolution would make, model by model; nothing is asked and nothing is written.

    The writer is taken to propose as many criteria as it may, after a split that the gates have rejected.
    """
    groups, out, grader = read_rollouts(source), Path(settings.out), make_grader(settings)
    rule, folder = settings.evolution(), out / LEDGER_FOLDER
    log = read_log(out / VERSIONS_FILE)
    check_newest(groups, log, source)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        ledger = stack.enter_context(Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory())
        writers = await stack.enter_async_context(open_models(settings.writer_config(str(settings.writer)), 1))
        if settings.progress is not None:
            models = [*(await grader.open_session()).models.values(), *writers.values()]
            notes = stand_ins(model.name for model in models)
            settings.progress(RunState(len(groups), 0, [], 0, 0, 0, 0.0, stand_ins=notes))

        def assume(request: Request, read: Read) -> Answer[Any] | None:
            if request.role == EVOLVE:
                texts = [f"{request.messages[-1].content[:120]} ({n})" for n in range(2 * rule.most_added)]
                return Answer([Proposal("", text, 5) for text in texts], Reply(""))
            return assumed_demands(request) or _assumed_verdict(request, read)

        def expected(request: Request) -> float:
            entries = {EVOLVE: 2 * rule.most_added, DEMANDS: 2, "licence": 2 * rule.most_added + 4}
            return entries[request.role] * _TOKENS_AN_ENTRY if request.role in entries else REPLY_TOKENS

        counter = CallCounter(Executor(ledger), expected, assume=assume)
        evolver = Evolver(rule, writers["writer"], grader, _Counting(counter))
        for number, group in enumerate(groups):
            await _count(evolver, number, group, log.find(group.query, group.rubric))
        return list(counter.found.values())


async def _count(evolver: Evolver, number: int, group: RolloutGroup, lineage: Any) -> None:
    if lineage is not None and lineage.has_decided(digest_rollouts(group.rollouts)):
        return
    newest = RubricVersion(group.query, 0, group.rubric) if lineage is None else lineage.newest
    first = group.rubric if lineage is None else lineage.versions[0].rubric
    with suppress(UndecidedError):
        await evolver.evolve(newest, first, group.rollouts, str(number))


def _assumed_verdict(request: Request, read: Read) -> Answer[Any] | None:
    """A verdict where a judge is asked; of relevance, that nothing is said."""
    if request.role == "licence":
        return Answer({}, Reply(""))
    found: Sequence[Any] = [read(Reply(text)) for text in _UNMET]
    return next((one for one in found if isinstance(one, Answer)), None)
