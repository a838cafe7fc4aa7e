"""One synthesis run, from the input file to the final files."""

import asyncio
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast

from autorubric import __version__
from autorubric.errors import find_first_cause
from autorubric.llm.batches.setting import batching, widen_window
from autorubric.llm.executor import Executor
from autorubric.llm.models import collect_notes, find_stand_in_note
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model
from autorubric.rows import Record
from autorubric.runs.blocks import Room
from autorubric.runs.changes import FinishedRun
from autorubric.runs.manifest import read_manifest, write_manifest
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.shard import PART, Division, ShardPart
from autorubric.runs.stopping import StoppableRun
from autorubric.synthesis.final_files import FINAL_FILES, export_final, export_row, preload_export, publish
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import InputReport, QueryFile
from autorubric.synthesis.run_summary import UNFINISHED_FILE, Summary, write_unfinished
from autorubric.synthesis.slots import find_refreshed_slots, find_shape
from autorubric.synthesis.stage_runner import Row, StageRunner, count_refreshes, run_plan
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES, STEPS, Plan
from autorubric.synthesis.steps import RowStore, import_steps, list_step_paths, read_rows, write_steps
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.synthesis.templates import SynthesisPrompts, load_synthesis_prompts

_WHOLE = Division("synthesize")
_WITHOUT_EFFECT = {"input", "out", "concurrency", "retry", "timeout", "budget_usd", "budget_tokens", "refresh"}
"""Settings that do not affect the files of a finished run, or that another part of its digest covers."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can start: its input was read completely, and its plan and templates were checked."""

    settings: SynthesisSettings
    folder: Path
    source: QueryFile
    report: InputReport
    prompts: SynthesisPrompts
    plan: Plan
    notes: tuple[str, ...] = ()
    part: ShardPart | None = None


def prepare(
    settings: SynthesisSettings, division: Division = _WHOLE, rows: Sequence[Record] | None = None
) -> Prepared:
    """Check everything that can be checked without a model; `rows` are queries given in memory.

    Raises:
        InputError: the input file, its columns or rows, the templates or the plan are wrong.
    """
    notes: list[str] = []
    path = cast("Path", settings.input)
    columns = (settings.responses_column, settings.domain_column)
    asked = (settings.question_column, settings.id_column, settings.limit, settings.skip_bad_rows, *columns)
    source = QueryFile(path, *asked, shard=division.shard, rows=rows)
    source = source.with_guesses(notes, named="question_column" in settings.model_fields_set)
    full = settings.profile == "full"
    prompts = load_synthesis_prompts(settings.prompts, full=full, domain=settings.domain, protocol=settings.protocol)
    if settings.prompts:
        shape = find_shape(settings, 0)
        prompts.drafts.check(sets=1 if full else len(shape.rubrics), responses=2 if full else len(shape.responses))
    report = source.check()
    source = replace(source, limit=report.records)  # rows that are added meanwhile were not checked
    if report.answered:
        what = "conversation ends" if report.answered == 1 else "conversations end"
        notes.append(f"{path}: {report.answered:,} {what} with an answer; it is left out of the query")
    plan = build_plan(prompts, find_shape(settings, report.responses), settings.full_profile if full else None)
    plan = plan.cut_after(settings.until) if settings.until else plan
    if (how := batching.get()) is not None:
        how.stages = plan.waves
    part = None
    if division.shard is not None or division.parts is not None:
        part = division.build_part(lambda: report.whole, report.all_rows)
    return Prepared(settings, Path(settings.out), source, report, prompts, plan, tuple(notes), part)


@dataclass(kw_only=True)
class SynthesisRun(StoppableRun):
    """A run in its directory; the caller opens and closes the ledger.

    Attributes:
        again: the command line that resumes the run, for the manifest.
        summary: the counts so far.
        negotiated: parameters that endpoints turned out not to accept, earlier sessions included.
        ended_early: the reason why the merged shards ended early.
        seconds_before: seconds since its processes started on these shards.
    """

    prepared: Prepared
    models: Mapping[str, Model]
    ledger: Ledger
    executor: Executor
    again: str = ""
    ended_early: str = ""
    seconds_before: float = 0.0
    summary: Summary = field(init=False)
    runner: StageRunner = field(init=False)
    stand_ins: tuple[str, ...] = field(init=False)
    negotiated: list[str] = field(init=False)
    _steps: dict[int, Path] = field(init=False)
    _next_checkpoint: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        prepared, settings, ledger = self.prepared, self.prepared.settings, self.ledger
        self._steps = list_step_paths(prepared.folder, prepared.plan.last_step, settings.step_files)
        self.stand_ins = tuple(find_stand_in_note(model.name for model in self.models.values()))
        self.negotiated = collect_notes((), (read_manifest(prepared.folder) or {}).get("negotiated"))
        tallies = {name: make() for name, make in (stage.tally for stage in prepared.plan.stages if stage.tally)}
        self.summary = Summary(prepared.report.rows, skipped=prepared.report.skipped, tallies=tallies)
        imported = ledger.find_note("taken_over")
        if imported is None:
            imported = dict(import_steps(prepared.folder, prepared.plan, ledger))
            ledger.keep_note("taken_over", imported)
        self.runner = StageRunner(
            self.executor,
            self.models,
            ledger if imported else None,
            count_refreshes(ledger, self.models, find_refreshed_slots(settings) if settings.refresh else ()),
            follow_up=prepared.prompts.follow_up,
            on_end=self.end_with,
        )

    def state(self) -> RunState:
        """Return the progress of the run."""
        runner, summary = self.runner, self.summary
        stages = [
            StageState(s.name, runner.done[s.name], runner.open[s.name], runner.failed[s.name], "open")
            for s in self.prepared.plan.stages
            if s.slots
        ]
        return RunState.of(summary.rows, summary.finished + summary.failed, stages, self.activity, self.stand_ins)

    async def execute(self) -> None:
        """Run the plan over the input, count the results, and write the files."""
        started = time.monotonic() - self.seconds_before
        prepared, settings, summary, runner = self.prepared, self.prepared.settings, self.summary, self.runner
        self._save_manifest("running")
        finished = self._find_finished_run()
        counts = None if finished is None else finished.find()
        if counts is not None:
            summary.restore(counts)
            runner.done.update({stage.name: summary.rows for stage in prepared.plan.stages})
        else:
            try:
                await self._make_files()
            except BaseException as error:
                summary.stopped = self.stopped or str(find_first_cause(error)) or type(error).__name__
                self._save_manifest("stopped")
                raise
            summary.reused, summary.stale, summary.overwritten = runner.reused, runner.stale, runner.overwritten
        self.stopped = self.stopped or self.ended_early or None
        self.note_budget(self.state())
        summary.totals, summary.stopped = self.ledger.add_up(), self.stopped or ""
        summary.seconds = time.monotonic() - started
        if summary.complete:
            (prepared.folder / HIDDEN_STEP_FILES[prepared.plan.last_step]).unlink(missing_ok=True)
        self._save_manifest("completed" if summary.complete else "stopped" if summary.stopped else "incomplete")
        if settings.profile == "full" and summary.exported is not None:
            publish(prepared.folder, read_manifest(prepared.folder) or {}, settings.license)
        if finished is not None and counts is None and summary.complete and not summary.stopped:
            finished.keep(summary.as_dict() | {"exported": summary.exported and asdict(summary.exported)})

    async def _make_files(self) -> None:
        prepared, settings = self.prepared, self.prepared.settings
        full, last = settings.profile == "full", prepared.plan.last_step
        export = None
        if last == (5 if full else 4):
            export = partial(export_row, most=settings.max_criteria, full=full, domain=settings.domain or "")
        loading = asyncio.create_task(preload_export())
        with TemporaryFile("w+b", dir=prepared.folder) as file:
            store = RowStore(file, prepared.plan, export)
            await run_plan(
                prepared.plan,
                prepared.source,
                self.runner,
                room=self._build_room(),
                finished=partial(self._store_row, store),
                run=self,
            )
            await loading
            self.summary.replaced.update(write_steps(self._steps, prepared.source, store))
            if store.failed:
                write_unfinished(prepared.folder, prepared.plan, prepared.source, store)
            else:
                (prepared.folder / UNFINISHED_FILE).unlink(missing_ok=True)
            if export is not None:
                path = self._steps[last]  # with rows that this run does not have, it is read again
                made = store.read_exported() if path in store.owned else map(export, read_rows(path))
                self.summary.exported = export_final(prepared.folder, made, full=full)

    def _build_room(self) -> Room:
        window, budget = widen_window(2 * self.prepared.settings.concurrency), self.executor.budget
        first = next(iter(self.prepared.source), None)
        if budget is None or first is None or batching.get() is not None:  # a batch needs all queries at once
            return Room(window)
        from autorubric.synthesis.plan_estimate import compute_worst_case

        return Room(window, budget, compute_worst_case(self.prepared.plan, first, self.models))

    def _find_finished_run(self) -> FinishedRun | None:
        """Return the record of a finished run; None for shards, stopped runs, and summaries with stage counts."""
        prepared, settings = self.prepared, self.prepared.settings
        if self.summary.tallies or self.stopped or prepared.part is not None:
            return None
        made_of = {
            "input": prepared.report.whole.hex(),
            "rows": prepared.report.rows,
            "settings": {k: v for k, v in settings.to_manifest().items() if k not in _WITHOUT_EFFECT},
            "models": {slot: [model.name, model.identity()] for slot, model in self.models.items()},
            "templates": prepared.prompts.fingerprints(),
            "refreshes": dict(self.runner.refreshes),
        }
        names = (*STEP_FILES, *HIDDEN_STEP_FILES, *FINAL_FILES, UNFINISHED_FILE)
        return FinishedRun(self.ledger, made_of, tuple(prepared.folder / name for name in names))

    def _store_row(self, store: RowStore, row: Row) -> None:
        """Count a row that ended and store it; update the files from time to time."""
        store.add(row)
        summary = self.summary
        summary.add(row, self.prepared.plan, failed=row.query.index in store.failed)
        if (summary.finished + summary.failed) % self.prepared.settings.save_every == 0:
            self._save_manifest("running")
            started = time.monotonic()
            if started >= self._next_checkpoint:  # no call is sent meanwhile: at most a hundredth of the run's time
                summary.replaced.update(write_steps(self._steps, self.prepared.source, store))
                ended = time.monotonic()
                self._next_checkpoint = ended + 99 * (ended - started)

    def _save_manifest(self, status: str) -> None:
        prepared, ledger = self.prepared, self.ledger
        self.summary.calls = sum(role.paid for role in self.activity)
        self.negotiated = collect_notes(self.models.values(), self.negotiated)
        content: dict[str, Any] = {
            "kind": "synthesis",
            "status": status,
            "versions": {"autorubric": __version__, "python": platform.python_version()},
            "again": self.again,
            "settings": prepared.settings.to_manifest(),
            "stand_ins": list(self.stand_ins),
            "models": {slot: model.name for slot, model in self.models.items()},
            "negotiated": self.negotiated,
            "templates": prepared.prompts.fingerprints(),
            "steps": list(STEPS[: prepared.plan.last_step + 1]),
            "stages": {stage.name: {"step": stage.step, "slots": stage.slots} for stage in prepared.plan.stages},
            "counts": self.summary.as_dict(),
            "usage": [total.to_dict() for total in ledger.add_up()] if status != "running" else [],
            "calls": ledger.count,
            **({} if prepared.part is None else {PART: prepared.part.to_record()}),
        }
        write_manifest(prepared.folder, content)
