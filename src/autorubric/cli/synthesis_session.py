"""One `synthesize` command: lock, ledger and models around the run, signals into it, figures out of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from autorubric.background import rare_collections
from autorubric.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.cli.long_runs import interruptible
from autorubric.cli.progress import shown
from autorubric.cli.synthesis_report import print_calls, print_estimates, print_rubrics, print_summary
from autorubric.llm.budget import Budget, check_priced
from autorubric.llm.executor import Executor
from autorubric.llm.model import Model
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import run_lock
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.run_folder import run_folder
from autorubric.runs.run_ledger import LEDGER_FOLDER, open_ledger
from autorubric.synthesis.estimate import count_calls, count_needed, estimate_slots
from autorubric.synthesis.export import FINAL_FILES
from autorubric.synthesis.plan import STEP_FILES
from autorubric.synthesis.running import StageRunner, count_refreshes
from autorubric.synthesis.settings import SynthesisSettings
from autorubric.synthesis.slots import configs, refreshed_slots, slots_of
from autorubric.synthesis.steps import import_steps
from autorubric.synthesis.summary import UNFINISHED_FILE
from autorubric.synthesis.synthesize import Prepared, SynthesisRun, find_changes, prepare

_FILES = (*STEP_FILES, *FINAL_FILES, UNFINISHED_FILE, MANIFEST_FILE)
_FULL_FILES = ("final_full.jsonl", "final_full.parquet", "README.md")


@dataclass(frozen=True, slots=True)
class Session:
    """A `synthesize` command.

    Attributes:
        settings: the run's settings.
        wait: wait for another process to leave the directory.
        export_only: make no call.
        show: how many finished rubrics to print.
        again: the command line that goes on with this run.
        start_over: go on where the ledger is lost; the settings refresh every role.
    """

    settings: SynthesisSettings
    wait: bool
    export_only: bool
    show: int
    again: str
    start_over: bool = False

    async def run(self) -> int:
        """Carry the command out and return its exit status."""
        prepared = prepare(self.settings)
        made = configs(self.settings)
        settings = self.settings
        async with AsyncExitStack() as stack:
            stack.enter_context(rare_collections())
            models = await stack.enter_async_context(open_models(made, settings.concurrency))
            if settings.budget_usd is not None:
                check_priced(models)
            self._announce(prepared, models)
            sources = (settings.input, settings.prices, settings.prompts)
            files = _FILES + (_FULL_FILES if settings.profile == "full" else ())
            folder = stack.enter_context(run_folder(settings.out, files, filter(None, sources)))
            stack.enter_context(run_lock(settings.out / LEDGER_FOLDER, wait=self.wait))
            ledger = stack.enter_context(open_ledger(settings.out, start_over=self.start_over))
            limited = settings.budget_usd is not None or settings.budget_tokens is not None
            budget = (
                Budget(usd=settings.budget_usd, tokens=settings.budget_tokens, spent=ledger.spent())
                if limited
                else None
            )
            run = SynthesisRun(prepared, models, ledger, Executor(ledger, budget), again=self.again)
            if self.export_only:
                run.executor.stop("export only")
            with interruptible(run):
                async with shown(lambda: _state(run)):
                    summary = await run.execute()
            if run.refused and not any(activity.paid for activity in run.executor.snapshot().values()):
                folder.refused = True
                print(f"autorubric: {summary.stopped}", file=sys.stderr)
                return EXIT_INPUT
        print_summary(summary, settings.out)
        for note in run.negotiated:
            print(f"  note: {note}")
        print_rubrics(settings.out, self.show)
        if run.interrupted:
            print(f"interrupted; go on with:\n  {self.again}")
            return EXIT_INTERRUPTED
        if summary.stopped and not self.export_only:
            print(f"stopped: {summary.stopped}\ngo on with:\n  {self.again}")
        elif not summary.complete:
            what = "ask for what is missing" if self.export_only else "try what failed again"
            print(f"{what} with:\n  {self.again}")
        return 0 if summary.complete else EXIT_UNFINISHED

    async def estimate(self) -> int:
        """Print what the run would ask and cost; make no call and write nothing."""
        prepared = prepare(self.settings)
        plan, out = prepared.plan, self.settings.out
        async with AsyncExitStack() as stack:
            models = await stack.enter_async_context(open_models(configs(self.settings), 1))
            self._announce(prepared, models)
            there = (out / LEDGER_FOLDER).exists()
            ledger = stack.enter_context(Ledger.open(out / LEDGER_FOLDER) if there else Ledger.in_memory())
            if not there:
                import_steps(out, plan, ledger)
            executor = Executor(ledger)
            executor.stop("dry run")
            slots = [slot.name for slot in slots_of(self.settings)]
            generations = count_refreshes(ledger, slots, refreshed_slots(self.settings), keep=False)
            answer = StageRunner(executor, models, ledger, generations)
            needed = await count_needed(plan, prepared.source.queries(), answer)
            each = count_calls(plan, models, next(prepared.source.queries()))
            measured = {t.role: t.usage.completion_tokens / t.calls for t in ledger.totals() if t.calls}
            rows = estimate_slots(plan, prepared.source.queries(), models, needed, measured.get)
        print_estimates(rows, prepared.report.rows)
        print_calls(each, needed, self.settings.full.judging if self.settings.profile == "full" else "")
        return 0

    def _announce(self, prepared: Prepared, models: Mapping[str, Model]) -> None:
        for sentence in stand_ins(model.name for model in models.values()):
            print(sentence, flush=True)
        for note in prepared.notes:
            print(f"note: {note}", file=sys.stderr)
        for problem in prepared.report.skipped:
            print(f"left out: {problem}", file=sys.stderr)
        for change in find_changes(prepared, models):
            print(f"since the last run here, {change}: its calls are asked anew", file=sys.stderr)


def _state(run: SynthesisRun) -> RunState:
    answer, summary = run.stages, run.summary
    activity = run.executor.snapshot()
    stages = [
        StageState(s.name, answer.done[s.name], answer.open[s.name], answer.failed[s.name], "open")
        for s in run.prepared.plan.stages
        if s.slots
    ]
    return RunState.of(summary.rows, summary.finished + summary.failed, stages, activity.values())
