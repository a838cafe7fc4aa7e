"""An improvement in its run directory: inputs, lock, ledger, budget, and the files at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.background import rare_collections
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.files import read_text, write_atomically
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.improvement.judging import LedgerJudging, Progressing
from autorubric.improvement.labelled import Labelled
from autorubric.improvement.record import after_undo, improvement_record, undo
from autorubric.improvement.refusals import Guard
from autorubric.improvement.run_files import (
    FILES,
    FINALISTS_FILE,
    LOG_FILE,
    ORIGINAL_FILE,
    RECORD_FILE,
    RUBRIC_FILE,
    SPLIT_FILE,
    Drawn,
    TestDoor,
    events_of,
    read_record,
    undone_names,
    write_page,
    write_results,
)
from autorubric.improvement.search import Rules
from autorubric.improvement.study import Aims, Improvement, Study
from autorubric.improvement.writing import NoWriter, Stopped, Writer, package_writer_prompt
from autorubric.jobs.improve_inputs import WRITER, Inputs, Result, second_grader, writer_config
from autorubric.jobs.judges import make_grader
from autorubric.jobs.submissions import rubric_in
from autorubric.llm.attempts import attempt_log
from autorubric.llm.budget import check_priced
from autorubric.llm.executor import Executor
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model
from autorubric.runs.another_run import Opening, locked_ledger
from autorubric.runs.changes import changed_since_paid
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest, write_manifest
from autorubric.runs.plan import coming_generation
from autorubric.runs.progress import RunState, StageState, reported
from autorubric.runs.run import DRAWS_A_GENERATION
from autorubric.runs.run_folder import run_folder
from autorubric.runs.stopping import Stop, StoppableRun

if TYPE_CHECKING:
    from autorubric.jobs.improve import ImproveSettings

KIND = "improvement"


@dataclass
class ImprovementRun(StoppableRun):
    """A study on its way.

    Attributes:
        study: what is done.
        counts: gradings done.
        found: what came of it; None where it was stopped.
        stand_ins: notes on models that only stand in for real ones.
    """

    study: Study
    counts: Progressing
    stand_ins: Sequence[str] = ()
    found: Improvement | None = None

    async def execute(self) -> None:
        """Carry the study out, or stop where no call can succeed or too many failed."""
        try:
            self.found = await self.study.run()
        except Stopped as stopped:
            self._end(stopped)
        except ExceptionGroup as several:
            stops, others = several.split(Stopped)
            if others is not None or stops is None:
                raise
            self._end(_first(stops))

    def _end(self, stopped: Stopped) -> None:
        self.end_with(stopped.failure)
        self.stop(stopped.failure.message)

    def state(self) -> RunState:
        """How far it is."""
        activity = [] if self.executor is None else list(self.executor.snapshot().values())
        done, failed = self.counts.done - self.counts.failed, self.counts.failed
        stage = StageState("judged", done, sum(one.in_flight for one in activity), failed)
        return RunState.of(self.counts.wanted, self.counts.done, [stage], activity, self.stand_ins)


def _first(error: BaseException) -> Stopped:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Stopped)
    return error


async def improved(inputs: Inputs, settings: ImproveSettings) -> Result:
    """Run the improvement in its directory, or resume it; a finished one is read, not run again."""
    out, grader = Path(settings.out), make_grader(settings)
    second, log = second_grader(settings), None if settings.log_json is None else Path(settings.log_json)
    described = inputs.described(grader, settings)
    async with AsyncExitStack() as stack:
        for one in (grader, second):
            if one is not None:
                await stack.enter_async_context(aclosing(one))
        stack.enter_context(rare_collections())
        stack.enter_context(attempt_log(log, str(out), prompts=settings.log_prompts))
        writers = await stack.enter_async_context(open_models(writer_config(settings), settings.concurrency))
        models = {**(await grader.open_session()).models, **writers}
        if second is not None:
            models |= {f"second {name}": model for name, model in (await second.open_session()).models.items()}
        if settings.budget_usd is not None:
            check_priced(models)
        inputs.drawn(settings)  # too few labels are refused before the directory is made
        if inputs.used.path.parent != out:
            inputs.used.check()
        files = (*FILES, MANIFEST_FILE)
        folder = stack.enter_context(run_folder(out, files, settings.sources(), start_over=settings.start_over))
        ledger = await stack.enter_async_context(
            locked_ledger(
                out,
                KIND,
                lambda manifest: changed_since_paid(manifest, described, _may_differ(manifest)),
                Opening(settings.wait, settings.start_over, settings.replace),
            )
        )
        ledger.price(models.values())
        made = _Made(inputs, settings, grader, second, ledger, models, described)
        result = await made.run(stack)
        folder.refused = False
        return result


@dataclass
class _Made:
    """An improvement with everything that it needs, in its locked directory."""

    inputs: Inputs
    settings: ImproveSettings
    grader: CriterionGrader
    second: CriterionGrader | None
    ledger: Ledger
    models: Mapping[str, Model]
    described: Mapping[str, Any]
    notes: list[dict[str, Any]] = field(default_factory=list)
    written: int | None = 0

    async def run(self, stack: ExitStack | AsyncExitStack) -> Result:
        out, settings = Path(self.settings.out), self.settings
        if (before := read_manifest(out)) is not None and before.get("calls"):
            self.written = before.get("written")  # None: an earlier version did not count
        if settings.start_over:
            for name in (SPLIT_FILE, FINALISTS_FILE, RECORD_FILE):
                (out / name).unlink(missing_ok=True)
        finished = read_record(out, RECORD_FILE)
        if finished is not None:
            return self._finished(out, finished)
        drawn = self.inputs.drawn(settings)
        drawn.write(out)
        self.inputs.labelled.rubric.to_file(out / ORIGINAL_FILE)
        run = self._study(drawn)
        self._save("running", run)
        try:
            with (settings.stop or Stop()).bound(run):
                async with reported(settings.progress, run.state):
                    await run.to_the_end()
        except BaseException:
            self._save("stopped", run)
            raise
        if run.refused and not any(one.paid for one in _activity(run.executor)):
            raise InputError(run.stopped or "the endpoint refused the run")
        if run.found is None:
            self._save("stopped", run)
            rubric = self.inputs.labelled.rubric
            totals = self.ledger.totals()
            return Result(rubric, {}, out, totals, None, run.stopped or "", run.interrupted)
        record = improvement_record(
            self.inputs.labelled, drawn.split, run.study.aims, run.found, self._about(run.stand_ins)
        )
        made = write_results(out, self.inputs.labelled.rubric, record, events_of(record, self.notes))
        self._save("completed", run)
        return Result(made, record, out, self.ledger.totals())

    def _finished(self, out: Path, record: dict[str, Any]) -> Result:
        """The decisions of an earlier session stand: the test set is not looked at again."""
        rubric = self.inputs.labelled.rubric
        made, record = after_undo(rubric, record, undone_names(out))
        if not (out / RUBRIC_FILE).exists():
            made.to_file(out / RUBRIC_FILE)
        return Result(made, record, out, self.ledger.totals(), again=True)

    def _study(self, drawn: Drawn) -> ImprovementRun:
        settings, inputs, labelled = self.settings, self.inputs, self.inputs.labelled
        generation = coming_generation(self.ledger, start_over=settings.start_over)
        self.ledger.keep_note("generation", generation)
        draws, counts = generation * DRAWS_A_GENERATION, Progressing()
        executor = self.grader.executor_on(self.ledger, detached=False)
        judging = [
            None if grader is None else LedgerJudging(grader, executor, labelled, draws, settings.concurrency, counts)
            for grader in (self.grader, self.second)
        ]
        writer = self.models.get(WRITER)
        template = package_writer_prompt()
        assert judging[0] is not None
        study = Study(
            labelled,
            drawn.split,
            judging[0],
            NoWriter() if writer is None else Writer(writer, executor, labelled, self._note, template, draws),
            _guard(labelled),
            Aims(
                settings.measure,
                settings.confidence_level,
                inputs.places,
                settings.most_criteria,
                settings.weights,
                settings.seed,
            ),
            Rules(settings.candidates, settings.rounds),
            judging[1],
            inputs.proposals,
            TestDoor(
                Path(settings.out),
                drawn.run_id,
                inputs.used,
                inputs.text_digests(),
                str(self.described["rubric"]),
            ),
            self._note,
        )
        notes = stand_ins(model.name for model in self.models.values())
        return ImprovementRun(study, counts, notes, executor=executor)

    def _written(self) -> int | None:
        """How often the writer brought alternatives, in the session that came furthest."""
        now = sum(note["event"] == "written" for note in self.notes)
        return None if self.written is None else max(self.written, now)

    def _note(self, kind: str, **values: Any) -> None:
        self.notes.append({"event": kind, **values})

    def _about(self, notes: Sequence[str]) -> dict[str, Any]:
        return {
            "autorubric": version("autorubric-hub"),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "judges": list(self.grader.judge_ids),
            "second_judges": [] if self.second is None else list(self.second.judge_ids),
            "writer": self.models[WRITER].name if WRITER in self.models else "",
            "measure": self.settings.measure,
            "stand_ins": list(notes),
        }

    def _save(self, status: str, run: ImprovementRun) -> None:
        counts = run.counts
        write_manifest(
            Path(self.settings.out),
            {
                "kind": KIND,
                "status": status,
                "made_of": self.described,
                "settings": {**self.settings.recorded(), "again": self.settings.again},
                "stand_ins": list(run.stand_ins),
                "counts": {"rows": counts.wanted, "finished": counts.done - counts.failed, "failed": counts.failed},
                "error": run.stopped,
                "calls": self.ledger.count,
                "written": self._written(),
                "templates": {"improve": package_writer_prompt().fingerprint},
            },
        )


def _may_differ(manifest: Mapping[str, Any]) -> list[str]:
    """A writer that brought nothing may be exchanged; after a kill it is not known what it brought."""
    return ["writer"] if manifest.get("written") == 0 and manifest.get("status") != "running" else []


def _activity(executor: Executor | None) -> Iterable[Any]:
    return () if executor is None else executor.snapshot().values()


def _guard(labelled: Labelled) -> Guard:
    dataset = labelled.dataset
    known = [dataset.get_item_prompt(item) for item in range(len(dataset))]
    known += filter(None, (dataset.get_item_reference_submission(item) for item in range(len(dataset))))
    known += [criterion.requirement for criterion in labelled.rubric]
    return Guard.of((item.submission for item in dataset), known, (item.id for item in dataset))


def undone(source: Rubric | Path | str, names: Sequence[str], out: Path) -> Result:
    """Take changes back; the rubric is written to the directory, and its log says so."""
    rubric = undo(source if isinstance(source, Rubric) else rubric_in(Path(source)), names)
    try:
        out.mkdir(parents=True, exist_ok=True)
        rubric.to_file(out / RUBRIC_FILE)
        events = read_text(out / LOG_FILE) if (out / LOG_FILE).exists() else ""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomically(
            out / LOG_FILE, [events, json.dumps({"event": "undone", "criteria": list(names), "at": now}), "\n"]
        )
        record = read_record(out, RECORD_FILE)
        if record is not None and (out / ORIGINAL_FILE).exists():
            original = Rubric.from_file(out / ORIGINAL_FILE)
            write_page(out, after_undo(original, record, undone_names(out))[1])
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; pass another --out") from error
    return Result(rubric, {}, out)
