"""`EvalRunner` and `evaluate`: a dataset through a grader, in a directory that can be gone on with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from autorubric.background import wait_for
from autorubric.dataset import RubricDataset
from autorubric.errors import AutorubricError
from autorubric.evaluation.config import EvalConfig, dataset_hash, experiment_name
from autorubric.evaluation.experiment import DATASET_FILE, ITEMS_FILE, LEDGER_FOLDER, ExperimentManifest
from autorubric.evaluation.items_file import ItemsFile, read_lines
from autorubric.evaluation.progress import item_progress
from autorubric.evaluation.result import EvalResult, EvalTimingStats, ItemResult, paid, result_of
from autorubric.evaluation.run import EvaluationRun
from autorubric.files import write_atomically
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.grader import Grader
from autorubric.llm.executor import Executor
from autorubric.llm.ledger import Ledger
from autorubric.llm.lock import run_lock
from autorubric.runs.manifest import read_manifest

WINDOW = 64
"""Items open at a time where neither the settings nor the grader say."""


class FailedFast(AutorubricError, RuntimeError):
    """An item failed, and the run was told to end then."""


class EvalRunner:
    """Grades a dataset in a directory of its own.

    Every reply of a judge is recorded before anything is made of it. To run again is to go on: what is recorded
    is not asked again, items that failed are, and where submissions, criteria, judges, prompts or parameters
    changed, only what changed is asked.

    Args:
        dataset: what is graded.
        grader: who grades. Judges of a `CriterionGrader` are asked through the directory's ledger, unless the
            grader has one of its own. Of any other grader a finished item is kept if it has a `fingerprint`.
        config: settings.
    """

    def __init__(self, dataset: RubricDataset, grader: Grader[Any], config: EvalConfig | None = None) -> None:
        self.dataset = dataset
        self.grader = grader
        self.config = config or EvalConfig()

    async def run(self) -> EvalResult:
        """Grade every item and return the result, which is also on the disk.

        Raises:
            RunLockedError: another process works in the directory.
            RuntimeError: an item failed and `fail_fast` is set; no call is made any more then.
        """
        content = self.dataset.to_json().encode()
        directory = self._directory(content)
        ledger_folder = directory / LEDGER_FOLDER
        with ExitStack() as stack:
            stack.enter_context(run_lock(ledger_folder))
            write_atomically(directory / DATASET_FILE, [content, b"\n"])
            ledger = stack.enter_context(Ledger.open(ledger_folder)) if self._records_here() else None
            manifest = self._manifest(directory, dataset_hash(content))
            before = read_lines(directory / ITEMS_FILE)
            manifest.save(directory)
            with ItemsFile(directory / ITEMS_FILE) as items:
                run = EvaluationRun(
                    self.dataset,
                    self.grader,
                    self._executor(ledger),
                    items,
                    before if self.config.resume else {},
                    window=self.config.max_concurrent_items or getattr(self.grader, "max_in_flight", WINDOW),
                    prefix_first=self.config.prefix_first,
                    generation=_generation(ledger, anew=not self.config.resume),
                )
                return await self._carried_out(run, manifest, directory, ledger)

    async def _carried_out(
        self, run: EvaluationRun, manifest: ExperimentManifest, directory: Path, ledger: Ledger | None
    ) -> EvalResult:
        results: dict[int, ItemResult] = {}
        with _ended(manifest, directory, results, run), item_progress(len(self.dataset), self.config) as advance:

            def take(result: ItemResult) -> None:
                results[result.item_idx] = result
                advance()
                if self.config.fail_fast and result.error is not None:
                    raise FailedFast(f"Evaluation failed at item {result.item_idx}: {result.error}")

            run.on_result = take
            await _to_the_end(run)
        ordered = [results[index] for index in sorted(results)]
        if ledger is not None:
            usage, cost = paid(ledger.totals())
        else:
            usage, cost = paid(getattr(self.grader, "totals", list)())
        result = result_of(ordered, manifest, directory, usage, cost)
        seconds = (result.completed_at - result.started_at).total_seconds()
        durations = [item.duration_seconds for item in ordered]
        result.timing_stats = EvalTimingStats.from_durations(durations, seconds, asked=run.asked)
        return result

    def _directory(self, content: bytes) -> Path:
        name = self.config.experiment_name or experiment_name(self.dataset, content)
        return Path(self.config.experiments_dir) / name

    def _records_here(self) -> bool:
        return isinstance(self.grader, CriterionGrader) and not self.grader.has_records

    def _executor(self, ledger: Ledger | None) -> Executor | None:
        if not isinstance(self.grader, CriterionGrader):
            return None
        return self.grader.executor_on(ledger) if ledger is not None else self.grader.executor

    def _manifest(self, directory: Path, content_hash: str) -> ExperimentManifest:
        now = datetime.now(UTC)
        before = read_manifest(directory) or {}
        describe = getattr(self.grader, "describe", dict)
        return ExperimentManifest(
            experiment_name=directory.name,
            created_at=now,
            dataset_name=self.dataset.name,
            dataset_hash=content_hash,
            total_items=len(self.dataset),
            status="running",
            completed_indices=set(),
            started_at=now,
            total_duration_seconds=before.get("total_duration_seconds"),
            dataset_path=DATASET_FILE,
            grader_config={"type": type(self.grader).__name__, **describe()},
            eval_config={**asdict(self.config), "experiments_dir": str(self.config.experiments_dir)},
        )


@contextmanager
def _ended(
    manifest: ExperimentManifest, directory: Path, results: dict[int, ItemResult], run: EvaluationRun
) -> Iterator[None]:
    """Write the manifest's end, however the run ends."""
    started = time.monotonic()
    try:
        yield
    except BaseException as error:
        manifest.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise
    finally:
        manifest.error = manifest.error or run.stopped
        manifest.completed_indices = {index for index, result in results.items() if result.error is None}
        manifest.status = "completed" if len(manifest.completed_indices) == manifest.total_items else "failed"
        manifest.completed_at = datetime.now(UTC)
        manifest.total_duration_seconds = (manifest.total_duration_seconds or 0.0) + time.monotonic() - started
        manifest.save(directory)


async def _to_the_end(run: EvaluationRun) -> None:
    """Carry the run out; where it is broken off, no call goes on behind it."""
    try:
        await run.execute()
    except BaseException as error:
        if run.executor is not None:
            run.executor.abandon("the run was broken off")
            await run.executor.drain()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def _generation(ledger: Ledger | None, *, anew: bool) -> int:
    """How often everything was asked anew, this time included."""
    if ledger is None:
        return 0
    generation = int(ledger.find_note("generation") or 0)
    if anew and ledger.count:
        generation += 1
        ledger.keep_note("generation", generation)
    return generation


async def evaluate(  # noqa: PLR0913 (published signature)
    dataset: RubricDataset,
    grader: Grader[Any],
    *,
    fail_fast: bool = False,
    show_progress: bool = True,
    progress_style: Literal["simple", "detailed"] = "simple",
    max_concurrent_items: int | None = None,
    experiment_name: str | None = None,
    experiments_dir: Path | str = "experiments",
    resume: bool = True,
    prefix_first: bool = True,
) -> EvalResult:
    """The result of grading every item of a dataset; the arguments are the fields of `EvalConfig`.

    Example:
        >>> import asyncio, tempfile
        >>> from autorubric import Criterion, CriterionGrader, Rubric
        >>> from autorubric.llm.config import LLMConfig
        >>> dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Contains at most 5 words.")]))
        >>> dataset.add_item("Because of the moon.", "short")
        >>> grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
        >>> result = asyncio.run(evaluate(dataset, grader, experiments_dir=tempfile.mkdtemp()))
        >>> result.get_scores()
        [1.0]
    """
    config = EvalConfig(
        fail_fast=fail_fast,
        show_progress=show_progress,
        progress_style=progress_style,
        max_concurrent_items=max_concurrent_items,
        experiment_name=experiment_name,
        experiments_dir=experiments_dir,
        resume=resume,
        prefix_first=prefix_first,
    )
    return await EvalRunner(dataset, grader, config).run()


def evaluate_sync(dataset: RubricDataset, grader: Grader[Any], **settings: Any) -> EvalResult:
    """`evaluate` for callers who do not await; works inside a running event loop (a notebook) too.

    Example:
        >>> evaluate_sync(RubricDataset("Why?"), None, experiment_name="../up")
        Traceback (most recent call last):
        autorubric.errors.InputError: experiment_name '../up' is no plain name; expected at most 100 letters, ...
    """
    return wait_for(evaluate(dataset, grader, **settings))
