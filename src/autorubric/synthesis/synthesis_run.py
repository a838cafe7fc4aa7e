"""One synthesis run, from the input file to the final files; and its estimate."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast

from autorubric import __version__
from autorubric.background import rare_collections
from autorubric.errors import InputError
from autorubric.llm.batches.setting import batching, widened
from autorubric.llm.budget import Budget, check_priced
from autorubric.llm.executor import Executor
from autorubric.llm.models import load_ahead, negotiated, open_models, stand_ins
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model
from autorubric.runs.another_run import Opening, locked_ledger, note_another_run
from autorubric.runs.changes import FinishedRun
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest, write_manifest
from autorubric.runs.progress import Progress, RunState, StageState, reported
from autorubric.runs.run_folder import LEDGER_FOLDER, run_folder
from autorubric.runs.shard import PART, Division, Part, measure_seconds
from autorubric.runs.stopping import Stop, StoppableRun
from autorubric.synthesis.final_files import (
    FINAL_FILES,
    FULL_FILES,
    export_final,
    export_row,
    find_other_queries,
    load_export,
    publish,
)
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import InputReport, QueryFile
from autorubric.synthesis.run_summary import UNFINISHED_FILE, Summary, SynthesisResult, write_unfinished
from autorubric.synthesis.slots import configs, find_shape, find_slots, refreshed_slots
from autorubric.synthesis.stage_runner import Row, StageRunner, count_refreshes, run_plan
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES, STEPS, Plan
from autorubric.synthesis.steps import RowStore, import_steps, keep_steps, read_rows, step_paths, write_steps
from autorubric.synthesis.synthesis_settings import SynthesisSettings, resolve_protocol
from autorubric.synthesis.templates import SynthesisPrompts, load_synthesis_prompts

_WHOLE = Division("synthesize")
_WITHOUT_EFFECT = {"input", "out", "concurrency", "retry", "timeout", "budget_usd", "budget_tokens", "refresh"}
"""Settings that do not change the files of a finished run, or of which another part of its digest says more."""


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
    part: Part | None = None


def prepare(settings: SynthesisSettings, division: Division = _WHOLE) -> Prepared:
    """Check everything that can be checked without a model.

    Raises:
        InputError: the input file, its columns or rows, the templates or the plan are wrong.
    """
    notes: list[str] = []
    path = cast("Path", settings.input)
    source = QueryFile(
        path,
        settings.question_column,
        settings.id_column,
        settings.limit,
        settings.skip_bad_rows,
        settings.responses_column,
        settings.domain_column,
        shard=division.shard,
    ).with_guesses(notes, named="question_column" in settings.model_fields_set)
    full = settings.profile == "full"
    prompts = load_synthesis_prompts(settings.prompts, full=full, domain=settings.domain, protocol=settings.protocol)
    if settings.prompts:
        shape = find_shape(settings, 0)
        prompts.drafts.check(sets=1 if full else len(shape.rubrics), responses=2 if full else len(shape.responses))
    report = source.check()
    if report.answered:
        what = "conversation ends" if report.answered == 1 else "conversations end"
        notes.append(f"{path}: {report.answered:,} {what} with an answer; it is left out of the query")
    plan = build_plan(prompts, find_shape(settings, report.responses), settings.full_profile if full else None)
    plan = plan.until(settings.until) if settings.until else plan
    if (how := batching.get()) is not None:
        how.stages = plan.waves
    part = None
    if division.shard is not None or division.parts is not None:
        part = division.part(lambda: report.whole, report.all_rows)
    return Prepared(settings, Path(settings.out), source, report, prompts, plan, tuple(notes), part)


@dataclass(kw_only=True)
class SynthesisRun(StoppableRun):
    """A run in its directory; the caller opens and closes the ledger.

    Attributes:
        again: the command line that resumes the run, for the manifest.
        summary: the counts so far.
        negotiated: parameters that endpoints turned out not to accept, earlier sessions included.
        ended_early: why the shards that it unites ended early.
        seconds_before: since its processes started on these shards.
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
        self._steps = step_paths(prepared.folder, prepared.plan.last_step, settings.step_files)
        self.stand_ins = tuple(stand_ins(model.name for model in self.models.values()))
        self.negotiated = negotiated((), (read_manifest(prepared.folder) or {}).get("negotiated"))
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
            count_refreshes(ledger, self.models, refreshed_slots(settings) if settings.refresh else ()),
            follow_up=prepared.prompts.follow_up,
            on_end=self.end_with,
        )

    def state(self) -> RunState:
        """The progress of the run."""
        runner, summary = self.runner, self.summary
        stages = [
            StageState(s.name, runner.done[s.name], runner.open[s.name], runner.failed[s.name], "open")
            for s in self.prepared.plan.stages
            if s.slots
        ]
        return RunState.of(summary.rows, summary.finished + summary.failed, stages, self.activity, self.stand_ins)

    async def execute(self) -> None:
        """Run the plan over the input, count what comes out, and write the files."""
        started = time.monotonic() - self.seconds_before
        prepared, settings, summary, runner = self.prepared, self.prepared.settings, self.summary, self.runner
        self._save("running")
        finished = self._finished_run()
        counts = None if finished is None else finished.find()
        if counts is not None:
            summary.restore(counts)
            runner.done.update({stage.name: summary.rows for stage in prepared.plan.stages})
        else:
            await self._make_files()
            summary.reused, summary.stale, summary.overwritten = runner.reused, runner.stale, runner.overwritten
        summary.totals, summary.stopped = self.ledger.totals(), self.stopped or self.ended_early
        summary.seconds = time.monotonic() - started
        if summary.complete:
            (prepared.folder / HIDDEN_STEP_FILES[prepared.plan.last_step]).unlink(missing_ok=True)
        self._save("completed" if summary.complete else "stopped" if summary.stopped else "incomplete")
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
        loading = asyncio.create_task(load_export())
        with TemporaryFile("w+b", dir=prepared.folder) as file:
            store = RowStore(file, prepared.plan, export)
            await run_plan(
                prepared.plan,
                prepared.source,
                self.runner,
                window=widened(2 * settings.concurrency),
                finished=lambda row: self._keep(store, row),
                stopping=lambda: bool(self.stopped),
            )
            await loading
            self.summary.replaced.update(write_steps(self._steps, prepared.source, store))
            write_unfinished(prepared.folder, prepared.plan, prepared.source, store)
            if export is not None:
                path = self._steps[last]  # with rows that this run does not have, it is read again
                made = store.exported() if path in store.owned else map(export, read_rows(path))
                self.summary.exported = export_final(prepared.folder, made, full=full)

    def _finished_run(self) -> FinishedRun | None:
        """What shows that the run has finished before; None for shards, and where a summary has counts of stages."""
        prepared, settings = self.prepared, self.prepared.settings
        if self.summary.tallies or self.stopped or prepared.part is not None:
            return None
        made_of = {
            "input": prepared.report.whole.hex(),
            "rows": prepared.report.rows,
            "settings": {k: v for k, v in settings.recorded().items() if k not in _WITHOUT_EFFECT},
            "models": {slot: [model.name, model.identity()] for slot, model in self.models.items()},
            "templates": prepared.prompts.fingerprints(),
            "refreshes": dict(self.runner.refreshes),
        }
        names = (*STEP_FILES, *HIDDEN_STEP_FILES, *FINAL_FILES, UNFINISHED_FILE)
        return FinishedRun(self.ledger, made_of, tuple(prepared.folder / name for name in names))

    def _keep(self, store: RowStore, row: Row) -> None:
        """Count a row that ended and store it; from time to time bring the files up to date."""
        store.add(row)
        summary = self.summary
        summary.add(row, self.prepared.plan, failed=row.query.index in store.failed)
        if (summary.finished + summary.failed) % self.prepared.settings.save_every == 0:
            self._save("running")
            started = time.monotonic()
            if started >= self._next_checkpoint:  # no call is sent meanwhile: at most a hundredth of the run's time
                summary.replaced.update(write_steps(self._steps, self.prepared.source, store))
                ended = time.monotonic()
                self._next_checkpoint = ended + 99 * (ended - started)

    def _save(self, status: str) -> None:
        prepared, ledger = self.prepared, self.ledger
        self.summary.calls = sum(role.paid for role in self.activity)
        self.negotiated = negotiated(self.models.values(), self.negotiated)
        content: dict[str, Any] = {
            "kind": "synthesis",
            "status": status,
            "versions": {"autorubric": __version__, "python": platform.python_version()},
            "again": self.again,
            "settings": prepared.settings.recorded(),
            "stand_ins": list(self.stand_ins),
            "models": {slot: model.name for slot, model in self.models.items()},
            "negotiated": self.negotiated,
            "templates": prepared.prompts.fingerprints(),
            "steps": list(STEPS[: prepared.plan.last_step + 1]),
            "stages": {stage.name: {"step": stage.step, "slots": stage.slots} for stage in prepared.plan.stages},
            "counts": self.summary.as_dict(),
            "usage": [asdict(total) for total in ledger.totals()] if status != "running" else [],
            "calls": ledger.count,
            **({} if prepared.part is None else {PART: prepared.part.recorded()}),
        }
        write_manifest(prepared.folder, content)


@dataclass(frozen=True, slots=True)
class Session:
    """Runs or estimates one synthesis: models, lock, ledger and budget around the run.

    Attributes:
        settings: of the run.
        progress: called with the state of the run.
        stop: ends the run early.
        notice: called with each note on the input, and on what changed since the last run.
        division: whether it is a shard, or unites shards.
    """

    settings: SynthesisSettings
    progress: Progress | None
    stop: Stop | None
    notice: Callable[[str], object] | None
    division: Division

    async def run(
        self,
        *,
        opening: Opening,
        export_only: bool,
        again: str,
        sources: Iterable[Path],
    ) -> SynthesisResult:
        """Run the plan and write the files.

        Raises:
            InputError: the input, a key or a model is wrong; nothing was spent.
        """
        settings = resolve_protocol(self.settings, start_over=opening.start_over)
        if opening.start_over:
            settings = settings.model_copy(update={"refresh": tuple(slot.name for slot in find_slots(settings))})
        prepared, made = prepare(settings, self.division), configs(settings)
        async with AsyncExitStack() as stack:
            stack.enter_context(rare_collections())
            models = await stack.enter_async_context(open_models(made, settings.concurrency))
            if settings.budget_usd is not None:
                check_priced(models)
            load_ahead(models.values() if opening.parts is None and not export_only else ())
            self._announce(prepared, models)
            full = (*FULL_FILES, "README.md") if settings.profile == "full" else ()
            files = (*STEP_FILES[:5], *FINAL_FILES, UNFINISHED_FILE, MANIFEST_FILE, *full)
            start_over, parts = opening.start_over, opening.parts
            stack.enter_context(run_folder(prepared.folder, files, sources, start_over=start_over, parts=parts))
            ledger = await stack.enter_async_context(
                locked_ledger(
                    prepared.folder,
                    "synthesis",
                    lambda _: find_other_queries(prepared.folder, prepared.source),
                    opening,
                )
            )
            workers = None if parts is None else parts.workers
            if workers is not None:
                workers.clear()
            elif parts is not None and parts.is_partial:
                keep_steps(prepared.folder, parts.folders.values())
            ledger.price(models.values())
            usd, tokens = settings.budget_usd, settings.budget_tokens
            budget = None if usd is None and tokens is None else Budget(usd=usd, tokens=tokens, spent=ledger.spent())
            executor = Executor(ledger, budget, detached=False)
            run = SynthesisRun(prepared=prepared, models=models, ledger=ledger, executor=executor, again=again)
            if parts is not None:
                run.seconds_before = measure_seconds(parts)
                run.ended_early = (workers and workers.stopped) or ""
                run.interrupted = workers is not None and workers.interrupted
            if export_only or parts is not None:
                executor.replay("export only", ledger.failures())
            # Workers have been stopped already; what they have recorded becomes files.
            stack.enter_context(((self.stop if workers is None else None) or Stop()).bound(run))
            async with reported(self.progress, run.state):
                await run.execute()
            if run.refused and not run.has_paid:
                raise InputError(run.summary.stopped)
        return SynthesisResult(prepared.folder, run.summary, negotiated=run.negotiated, interrupted=run.interrupted)

    async def estimate(self) -> SynthesisResult:
        """Requests, tokens and cost of the run; sends no request and writes nothing."""
        from autorubric.synthesis.plan_estimate import estimate_run

        settings = resolve_protocol(self.settings)
        prepared = prepare(settings, self.division)
        ledgers = prepared.folder / LEDGER_FOLDER
        async with AsyncExitStack() as stack:
            models = await stack.enter_async_context(open_models(configs(settings), 1))
            if self.progress is not None:
                labels = stand_ins(model.name for model in models.values())
                self.progress(RunState(prepared.report.rows, 0, [], 0, 0, 0, 0.0, stand_ins=labels))
            self._announce(prepared, models)
            note_another_run(
                prepared.folder, "synthesis", lambda _: find_other_queries(prepared.folder, prepared.source)
            )
            found = ledgers.exists()
            ledger = stack.enter_context(Ledger.open(ledgers) if found else Ledger.in_memory())
            if not found:
                import_steps(prepared.folder, prepared.plan, ledger)
            estimate = await estimate_run(prepared, models, ledger)
        return SynthesisResult(prepared.folder, estimate=estimate)

    def _announce(self, prepared: Prepared, models: Mapping[str, Model]) -> None:
        if self.notice is None:
            return
        for note in prepared.notes:
            self.notice(f"note: {note}")
        for problem in prepared.report.skipped:
            self.notice(f"left out: {problem}")
        manifest = read_manifest(prepared.folder) or {}
        before, templates = manifest.get("models", {}), manifest.get("templates", {})
        changes = [
            f"the model of {slot} changed from {before[slot]} to {model.name}"
            for slot, model in models.items()
            if slot in before and before[slot] != model.name
        ] + [
            f"template {name} has changed"
            for name, mark in prepared.prompts.fingerprints().items()
            if name in templates and templates[name] != mark
        ]
        for change in changes:
            self.notice(f"since the last run here, {change}: its requests will be sent again")
