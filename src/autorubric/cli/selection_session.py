"""One `select` command: candidates sampled or read, graded, decided on, and written for trainers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autorubric.cli import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_UNFINISHED
from autorubric.cli.long_runs import interruptible
from autorubric.cli.progress import shown
from autorubric.cli.selection_report import print_selection, print_selection_estimate
from autorubric.errors import InputError
from autorubric.evaluation.estimate import REPLY_TOKENS, estimate
from autorubric.evaluation.experiment import DATASET_FILE, ITEMS_FILE
from autorubric.evaluation.plan import ExperimentPlan, coming_generation, experiment
from autorubric.evaluation.result import ItemResult
from autorubric.evaluation.run import EvaluationRun
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.desks import Limits
from autorubric.llm.call_estimate import ModelEstimate
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.model import Model
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.accounts import Totals
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.llm.records.lock import run_lock
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.run_folder import run_folder
from autorubric.runs.run_ledger import LEDGER_FOLDER, open_ledger
from autorubric.training.candidates import CandidateAnswer, graded_dataset
from autorubric.training.export import TRAINERS
from autorubric.training.queries import RubricQuery
from autorubric.training.sampling import ROLE, SamplingRun
from autorubric.training.sampling_estimate import ANSWER_TOKENS, estimate_sampling
from autorubric.training.selection import Keep, Scored, share_of
from autorubric.training.selection_files import DECISIONS_FILE, SUMMARY_FILE, TRAINING_FILES, Pool, write_selection

_FILES = (*TRAINING_FILES, DECISIONS_FILE, SUMMARY_FILE, DATASET_FILE, ITEMS_FILE, MANIFEST_FILE)
_GENERATION = "sampling_generation"


@dataclass(frozen=True, slots=True)
class Sampling:
    """Who writes the candidates, and how many each."""

    configs: Mapping[str, LLMConfig]
    k: int


@dataclass(slots=True)
class _Ending:
    """How a phase of the command ended.

    Attributes:
        interrupted: a person stopped it.
        refused: a wrong key, model name or address stopped it.
        stopped: why it stopped early; None where it did not.
        paid: whether a call was paid for.
    """

    interrupted: bool = False
    refused: bool = False
    stopped: str | None = None
    paid: bool = False

    @classmethod
    def of(cls, run: SamplingRun | EvaluationRun) -> _Ending:
        paid = run.executor is not None and any(a.paid for a in run.executor.snapshot().values())
        return cls(run.interrupted, run.refused, run.stopped, paid)


@dataclass(frozen=True, slots=True)
class SelectionSession:
    """A `select` command.

    Attributes:
        queries: what is answered.
        candidates: the answers, or who writes them.
        grader: who grades.
        keep: what is kept.
        out: the run's directory.
        limits: what may be spent, and how much is asked at a time.
        trainers: whom the files are for.
        again: the command line that goes on with this run.
        resume: False requests everything again.
        wait: wait for another process to leave the directory.
        prefix_first: let the first call of an item go ahead alone.
        share_equal: let equal candidates of a query share their replies.
        skipped: why rows were left out.
        settings: what the manifest says of the command.
        sources: files and folders that are read.
    """

    queries: Sequence[RubricQuery]
    candidates: Sequence[CandidateAnswer] | Sampling
    grader: CriterionGrader
    keep: Keep
    out: Path
    limits: Limits = field(default_factory=Limits)
    trainers: tuple[str, ...] = TRAINERS
    again: str = ""
    resume: bool = True
    wait: bool = False
    prefix_first: bool = True
    share_equal: bool = False
    skipped: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()

    async def run(self) -> int:
        """Carry the command out and return its exit status."""
        labels = await self._announced()
        with run_folder(self.out, _FILES, self.sources, start_over=not self.resume) as folder:
            status = await self._selected(labels)
            folder.refused = status == EXIT_INPUT
        return status

    async def _selected(self, labels: tuple[str, ...]) -> int:
        unsampled: list[Scored] = []
        candidates: Sequence[CandidateAnswer]
        sampled = _Ending()
        if isinstance(self.candidates, Sampling):
            candidates, unsampled, sampled = await self._sampled(self.candidates)
            if sampled.interrupted or sampled.stopped:
                return self._stopped(sampled)
        else:
            candidates = self.candidates
        scored, failures, ending, totals = await self._graded(candidates, labels)
        ending.paid |= sampled.paid
        if ending.interrupted or (ending.refused and not ending.paid):
            return self._stopped(ending)
        pool = Pool(self.queries, [*scored, *unsampled], self.out / ITEMS_FILE)
        written = write_selection(self.out, pool, self.keep, self.trainers, skipped=self.skipped)
        for one in unsampled:
            failures.add_text(one.failure, one.candidate.sample_id or "", ROLE)
        print_selection(written, totals, failures)
        print(f"  everything is in {self.out}")
        if ending.stopped:
            return self._stopped(ending)
        if len(failures):
            print(f"try what failed again with:\n  {self.again}")
            return EXIT_UNFINISHED
        return 0 if written.summary.answers else EXIT_UNFINISHED

    async def estimate(self) -> int:
        """Print what the run would ask and cost; make no call and write nothing."""
        await self._announced()
        folder = self.out / LEDGER_FOLDER
        rows: list[ModelEstimate] = []
        with Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory() as ledger:
            lengths = {total.role: _reply_length(total) for total in ledger.totals()}
            if isinstance(self.candidates, Sampling):
                async with open_models(self.candidates.configs, self.limits.in_flight) as models:
                    run = self._sampling_run(self.candidates, models, Executor(ledger), self._generation(ledger))
                    rows, candidates = estimate_sampling(run, lengths.get(ROLE) or ANSWER_TOKENS)
            else:
                candidates = list(self.candidates)
            judged = lengths.get("judge") or REPLY_TOKENS
            rows += await estimate(
                graded_dataset(self.queries, candidates, self.out.name),
                self.grader,
                Executor(ledger),
                judged,
                share_equal=self.share_equal,
                generation=coming_generation(ledger, start_over=not self.resume),
            )
        print_selection_estimate(rows, len(self.queries), len(candidates))
        return 0

    async def _announced(self) -> tuple[str, ...]:
        """Say what stands in for a model, and refuse rubrics that cannot be judged: all before a call is paid for."""
        desk = await self.grader.desk()
        names = [model.name for model in desk.models.values()]
        if isinstance(self.candidates, Sampling):
            async with open_models(self.candidates.configs, self.limits.in_flight) as models:
                self.limits.check_prices(models)
                names += [model.name for model in models.values()]
        labels = stand_ins(names)
        for sentence in labels:
            print(sentence, flush=True)
        problems: dict[str, None] = {}
        for query in self.queries:
            try:
                desk.judge.check_rubric(query.rubric.rubric)
            except InputError as error:
                problems.update(dict.fromkeys(f"{query.where or query.id}: {problem}" for problem in error.problems))
        if problems:
            raise InputError(problems)
        for sentence in self.skipped[:20]:
            print(f"left out: {sentence}")
        return labels

    async def _sampled(self, sampling: Sampling) -> tuple[list[CandidateAnswer], list[Scored], _Ending]:
        """The candidates that the models wrote, and those that they failed to write."""
        folder = self.out / LEDGER_FOLDER
        with ExitStack() as stack:
            stack.enter_context(run_lock(folder, wait=self.wait))
            ledger = stack.enter_context(open_ledger(self.out, start_over=not self.resume))
            async with open_models(sampling.configs, self.limits.in_flight) as models:
                executor = Executor(ledger, self.limits.budget(ledger))
                generation = self._generation(ledger)
                if not self.resume:
                    ledger.keep_note(_GENERATION, generation)
                run = self._sampling_run(sampling, models, executor, generation)
                with interruptible(run):
                    async with shown(
                        lambda: _state(executor, "sampled", run.total, len(run.answers), len(run.failed))
                    ):
                        await run.to_the_end()
                await executor.drain()
        unsampled = [Scored(candidate, None, str(failure)) for candidate, failure in run.unsampled()]
        return run.candidates(), unsampled, _Ending.of(run)

    async def _graded(
        self, candidates: Sequence[CandidateAnswer], labels: tuple[str, ...]
    ) -> tuple[list[Scored], FailureGroups, _Ending, list[Totals]]:
        """The score of each candidate, why judgments failed, how the run ended, and what it cost."""
        dataset = graded_dataset(self.queries, candidates, self.out.name)
        plan = ExperimentPlan(
            dataset,
            self.grader,
            self.out,
            None,
            self.prefix_first,
            self.resume,
            {**self.settings, "stand_ins": labels, "again": self.again},
            self.wait,
            self.share_equal,
        )
        found: dict[int, Scored] = {}
        failures = FailureGroups()
        config = self.grader.scoring.cannot_assess

        def take(result: ItemResult) -> None:
            share = share_of(result.report, config)
            failure = result.error or (None if share is not None else "abstained: no criterion could be assessed")
            score = None if result.error else share
            found[result.item_idx] = Scored(candidates[result.item_idx], score, failure, result.item_idx)
            if result.error is not None:
                failures.add_text(result.error, str(result.item_idx))

        async with experiment(plan, dataset.to_json().encode()) as (run, manifest):
            run.on_result = take
            with interruptible(run):
                async with shown(
                    lambda: _state(
                        run.executor, "graded", len(dataset), len(found) - failures.total(), failures.total()
                    )
                ):
                    await run.to_the_end()
            totals = run.totals()
        for note in manifest.negotiated:
            print(f"note: {note}")
        for index, candidate in enumerate(candidates):
            found.setdefault(index, Scored(candidate, None, f"stopped: {run.stopped}", index))
        return [found[index] for index in sorted(found)], failures, _Ending.of(run), totals

    def _generation(self, ledger: Ledger) -> int:
        """How often everything was sampled anew when the next run is made, that run included."""
        once_more = not self.resume and any(total.role == ROLE for total in ledger.totals())
        return int(ledger.find_note(_GENERATION) or 0) + once_more

    def _sampling_run(
        self, sampling: Sampling, models: Mapping[str, Model], executor: Executor, generation: int
    ) -> SamplingRun:
        pairs, window = list(models.items()), self.limits.in_flight
        return SamplingRun(self.queries, pairs, sampling.k, executor, window, generation)

    def _stopped(self, ending: _Ending) -> int:
        if ending.interrupted:
            print(f"interrupted; go on with:\n  {self.again}")
            return EXIT_INTERRUPTED
        if ending.refused and not ending.paid:
            print(f"autorubric: {ending.stopped}", file=sys.stderr)
            return EXIT_INPUT
        print(f"stopped: {ending.stopped}\ngo on with:\n  {self.again}")
        return EXIT_UNFINISHED


def _state(executor: Executor | None, stage: str, rows: int, done: int, failed: int) -> RunState:
    activity = list(executor.snapshot().values()) if executor is not None else []
    state = StageState(stage, done, sum(a.in_flight for a in activity), failed)
    return RunState.of(rows, done + failed, [state], activity)


def _reply_length(total: Totals) -> float | None:
    replies = total.calls - total.failed
    return total.usage.completion_tokens / replies if replies else None
