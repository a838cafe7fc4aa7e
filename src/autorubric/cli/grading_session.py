"""One `grade` command: a run in its directory, signals into it, figures out of it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autorubric.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_SCORE, EXIT_UNFINISHED
from autorubric.cli.grading_report import print_estimate, print_grades
from autorubric.cli.progress import RunState, StageState, shown
from autorubric.cli.run_folder import run_folder
from autorubric.dataset import RubricDataset
from autorubric.evaluation.estimate import REPLY_TOKENS, estimate
from autorubric.evaluation.experiment import DATASET_FILE, ITEMS_FILE
from autorubric.evaluation.plan import ExperimentPlan, coming_generation, experiment
from autorubric.evaluation.run import EvaluationRun
from autorubric.evaluation.summary import EvaluationSummary
from autorubric.evaluation.tables import columns_with, result_rows, write_table
from autorubric.evaluation.vote_columns import VoteColumns
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.llm.ending import interruptible
from autorubric.llm.executor import Executor
from autorubric.llm.models import stand_ins
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.run_ledger import LEDGER_FOLDER


@dataclass(frozen=True, slots=True)
class GradingSession:
    """A `grade` command.

    Attributes:
        dataset: what is graded.
        grader: who grades.
        out: the run's directory.
        again: the command line that goes on with this run.
        resume: False requests everything again.
        wait: wait for another process to leave the directory.
        formats: files of results to write.
        fail_under: the least mean score, or None.
        window: the most items open at a time; None takes as many as calls in flight.
        prefix_first: let the first call of an item go ahead alone.
        share_equal: let equal items share their replies.
        settings: what the manifest says of the command.
        sources: the files that are read, which the run must not write over.
    """

    dataset: RubricDataset
    grader: CriterionGrader
    out: Path
    again: str
    resume: bool = True
    wait: bool = False
    formats: tuple[str, ...] = ()
    fail_under: float | None = None
    window: int | None = None
    prefix_first: bool = True
    share_equal: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()

    async def run(self) -> int:
        """Carry the command out and return its exit status."""
        labels = await self._announced()
        files = (DATASET_FILE, ITEMS_FILE, MANIFEST_FILE, *(f"results.{kind}" for kind in self.formats))
        with run_folder(self.out, files, self.sources, start_over=not self.resume) as folder:
            status = await self._graded(labels)
            folder.refused = status == EXIT_INPUT
        return status

    async def _graded(self, labels: tuple[str, ...]) -> int:
        summary = EvaluationSummary(len(self.dataset))
        content = self.dataset.to_json().encode()
        settings = {**self.settings, "stand_ins": labels, "again": self.again}
        plan = ExperimentPlan(
            self.dataset,
            self.grader,
            self.out,
            self.window,
            self.prefix_first,
            self.resume,
            settings,
            self.wait,
            self.share_equal,
        )
        async with experiment(plan, content) as (run, manifest):
            del content
            run.on_result = summary.add
            with interruptible(run):
                async with shown(lambda: _state(run, summary)):
                    await run.to_the_end()
            totals = run.totals()
        if _was_refused(run):
            print(f"autorubric: {run.stopped}", file=sys.stderr)
            return EXIT_INPUT
        self._write_results()
        print_grades(summary, totals, manifest.negotiated)
        print(f"  everything is in {self.out}")
        return self._status(run, summary)

    async def estimate(self) -> int:
        """Print what the run would ask and cost; make no call and write nothing."""
        await self._announced()
        folder = self.out / LEDGER_FOLDER
        with Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory() as ledger:
            replies = [row for row in ledger.totals() if row.calls > row.failed]
            calls = sum(row.calls - row.failed for row in replies)
            spoken = sum(row.usage.completion_tokens for row in replies)
            length = spoken / calls if calls else REPLY_TOKENS
            rows = await estimate(
                self.dataset,
                self.grader,
                Executor(ledger),
                length,
                share_equal=self.share_equal,
                generation=coming_generation(ledger, start_over=not self.resume),
            )
        print_estimate(rows, len(self.dataset))
        return 0

    async def _announced(self) -> tuple[str, ...]:
        labels = stand_ins(model.name for model in (await self.grader.desk()).models.values())
        for sentence in labels:
            print(sentence, flush=True)
        return labels

    def _write_results(self) -> None:
        judges = self.grader.recipe.described()["judges"]
        votes = VoteColumns.of({judge["judge_id"]: judge.get("repeats", 1) for judge in judges})
        for kind in self.formats:
            rows = result_rows(self.out / ITEMS_FILE, self.dataset, votes)
            write_table(self.out / f"results.{kind}", rows, columns_with(votes))

    def _status(self, run: EvaluationRun, summary: EvaluationSummary) -> int:
        if run.interrupted:
            print(f"interrupted; go on with:\n  {self.again}")
            return EXIT_INTERRUPTED
        if run.stopped:
            print(f"stopped: {run.stopped}\ngo on with:\n  {self.again}")
            return EXIT_UNFINISHED
        if len(summary.failures) or summary.ended < summary.total:
            print(f"try what failed again with:\n  {self.again}")
            return EXIT_UNFINISHED
        mean = summary.scores.mean if summary.scores.count else -math.inf
        if self.fail_under is not None and mean < self.fail_under:
            print(f"the mean score is below {self.fail_under:g}", file=sys.stderr)
            return EXIT_SCORE
        return 0


def _was_refused(run: EvaluationRun) -> bool:
    """Whether a wrong key, model name or address stopped the run before anything was paid."""
    executor = run.executor
    return run.refused and executor is not None and not any(a.paid for a in executor.snapshot().values())


def _state(run: EvaluationRun, summary: EvaluationSummary) -> RunState:
    activity = list(run.executor.snapshot().values()) if run.executor is not None else []
    stage = StageState("graded", summary.graded, sum(a.in_flight for a in activity), summary.failed)
    return RunState.of(summary.total, summary.ended, [stage], activity)
