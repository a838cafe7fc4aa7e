"""Run a grader over a dataset: `evaluate` in a run directory, `fill_ground_truth` for labels."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from autorubric.background import wait_for
from autorubric.core.criterion import CANONICAL_NA_OPTION
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.report import AnyCriterionReport, Report
from autorubric.core.rubric import Rubric, check_grader
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.ground_truth import GroundTruthReader
from autorubric.dataset.storage import encode_dataset
from autorubric.errors import AutorubricError, InputError, warn
from autorubric.files.remote import make_path
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.grader import Grader
from autorubric.llm.batches.setting import DETACHED
from autorubric.llm.sharing import sharing
from autorubric.runs.changes import digest_grader, find_grader_changes
from autorubric.runs.manifest import ITEMS_FILE, read_manifest
from autorubric.runs.plan import EvalConfig, ExperimentPlan, describe_grader, experiment, name_experiment
from autorubric.runs.progress import Progress, ProgressDisplay, RunState, StageState, reported
from autorubric.runs.result import EvalResult, ItemResult, StoredItems, make_result
from autorubric.runs.run import EvaluationRun
from autorubric.runs.status_text import merge_negotiated
from autorubric.runs.stopping import Stop
from autorubric.runs.summary import EvalTimingStats, EvaluationSummary, fold_query, sum_paid

_LOG_DELAY = 10.0
"""Seconds until the first line of progress in a log."""


class FailedFast(AutorubricError, RuntimeError):
    """An item failed, and `fail_fast` is set."""


async def run_experiment(
    plan: ExperimentPlan,
    content: bytes,
    *,
    on_item: Callable[[ItemResult], object] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    keep: bool = True,
) -> EvalResult:
    """Grade every item of a plan's dataset in its directory.

    Args:
        plan: what to run.
        content: the dataset as it is written to a file.
        on_item: called with the result of each item as it ends.
        progress: called with the state of the run.
        stop: can end the run early.
        keep: False leaves the item results on disk and reads them on first use.

    Raises:
        InputError: a criterion has neither judge nor check; nothing was requested.
        RunLockedError: another process works in the directory.
    """
    sizes = [len(item.rubric or plan.dataset.rubric or ()) for item in plan.dataset]
    summary = EvaluationSummary(len(plan.dataset), expected=sum(sizes))
    if 1 < len({fold_query(item.prompt) for item in plan.dataset}) < len(plan.dataset):
        summary.scores.clusters = {}
    kept: dict[int, ItemResult] = {}
    seen: dict[int, tuple[float, str | None]] = {}
    # The main process of a run adds up all results; its workers only count them.
    add = summary.add if sharing.get() is None else summary.count

    def record_result(result: ItemResult) -> None:
        add(result)
        seen[result.item_idx] = result.duration_seconds, result.error
        if keep:
            kept[result.item_idx] = result
        if on_item is not None:
            on_item(result)

    async with experiment(plan, content) as (run, manifest):
        run.on_result = record_result
        stand_ins: list[str] = (manifest.grader_config or {}).get("stand_ins", [])
        by_workers = plan.parts is not None and plan.parts.workers is not None  # the workers have reported progress
        shown = None if by_workers else progress
        await run.run_to_end(shown, stop, lambda: _build_state(run, summary, stand_ins))
        _count_left(summary, run, sum(size for index, size in enumerate(sizes) if index not in seen))
        summary.totals, summary.interrupted = run.totals(), run.interrupted
        summary.refused, summary.advice = run.refused and not run.has_paid, run.advice
    summary.negotiated = merge_negotiated(manifest.negotiated)
    items = (
        [kept[index] for index in sorted(kept)] if keep else StoredItems(plan.directory / ITEMS_FILE, plan.dataset)
    )
    own = () if isinstance(plan.grader, CriterionGrader) else (item.report for item in items)
    result = make_result(items, manifest, plan.directory, *sum_paid(summary.totals, own), seen=seen)
    seconds = (result.completed_at - result.started_at).total_seconds()
    durations = [seen[index][0] for index in sorted(seen)]
    result.timing_stats = EvalTimingStats.from_durations(durations, seconds, asked=run.asked)
    result.summary = summary
    return result


def _count_left(summary: EvaluationSummary, run: EvaluationRun, left: int) -> None:
    """Count the judgments of items that had not started when the run was stopped."""
    if left and run.stopped and not run.stopped.startswith(DETACHED):
        summary.failures.add("stopped", run.stopped, count=left)


def _build_state(run: EvaluationRun, summary: EvaluationSummary, stand_ins: Sequence[str]) -> RunState:
    failed, ended = summary.failed - summary.not_asked, summary.ended - summary.not_asked
    stage = StageState("graded", summary.graded, sum(a.in_flight for a in run.activity), failed)
    return RunState.of(summary.total, ended, [stage], run.activity, stand_ins)


@contextmanager
def _display(*, shown: bool) -> Iterator[Progress | None]:
    """Show the progress of a published function; a short run writes no lines to a log."""
    if not shown:
        yield None
        return
    with ProgressDisplay(delay=_LOG_DELAY) as progress:
        yield progress


class EvalRunner:
    """Grades a dataset in its own directory.

    Every reply of a judge is recorded before it is used. Running it again resumes: recorded requests are not sent
    again, and failed ones are. Items may be added. If earlier items, judges or settings changed, the run is refused
    unless `replace` is set; then only what changed is requested.

    Args:
        dataset: the dataset to grade.
        grader: the grader. A `CriterionGrader` records its judges' replies in the directory's ledger, unless it has
            its own. Finished items of any other grader are kept if it has a `fingerprint`.
        config: settings.

    Example:
        >>> import asyncio
        >>> from autorubric import Criterion, CriterionGrader, LLMConfig, Rubric
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
        >>> dataset = RubricDataset("Answer.", rubric)
        >>> dataset.add_item("Yes", "")
        >>> grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
        >>> import tempfile
        >>> config = EvalConfig(experiments_dir=tempfile.mkdtemp())
        >>> asyncio.run(EvalRunner(dataset, grader, config).run()).item_results[0].report.score
        1.0
    """

    def __init__(self, dataset: RubricDataset, grader: Grader[Any], config: EvalConfig | None = None) -> None:
        if not isinstance(dataset, RubricDataset):
            raise InputError(f"dataset is {dataset!r:.100}; expected a RubricDataset")
        check_grader(grader)
        self.dataset = dataset
        self.grader = grader
        self.config = config or EvalConfig()

    async def run(self) -> EvalResult:
        """Grade every item and return the result, which is also on the disk.

        Raises:
            RunLockedError: another process works in the directory.
            RuntimeError: an item failed and `fail_fast` is set; no further call is made.
        """
        config, dataset = self.config, self.dataset
        content = encode_dataset(dataset)
        plan = ExperimentPlan(
            dataset,
            self.grader,
            self._choose_directory(content),
            window=config.max_concurrent_items,
            prefix_first=config.prefix_first,
            resume=config.resume,
            share_equal=config.share_equal,
            replace=config.replace,
            compared=("share_equal",),
            settings={**asdict(config), "experiments_dir": str(config.experiments_dir)},
        )

        def raise_failure(result: ItemResult) -> None:
            if config.fail_fast and result.error is not None:
                raise FailedFast(f"Evaluation failed at item {result.item_idx}: {result.error}")

        with _display(shown=config.show_progress) as progress:
            return await run_experiment(plan, content, on_item=raise_failure, progress=progress)

    def _choose_directory(self, content: bytes) -> Path:
        """Choose the directory of the run; without a name, each grader of a dataset gets its own."""
        folder, named = make_path(self.config.experiments_dir), self.config.experiment_name
        if named is not None:
            return folder / named
        plain = folder / name_experiment(self.dataset, content)
        made_of = describe_grader(self.grader)
        changes = find_grader_changes((read_manifest(plain) or {}).get("grader_config"), made_of)
        if not changes or self.config.replace:
            return plain
        return plain.with_name(f"{plain.name}-{digest_grader(made_of)}")

    def run_sync(self) -> EvalResult:
        """Return the synchronous version of `run`; also works inside a running event loop (a notebook)."""
        return wait_for(self.run())


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
    share_equal: bool = False,
    replace: bool = False,
) -> EvalResult:
    """Grade every item of a dataset; the keyword arguments are the fields of `EvalConfig`.

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
        share_equal=share_equal,
        replace=replace,
    )
    return await EvalRunner(dataset, grader, config).run()


def evaluate_sync(dataset: RubricDataset, grader: Grader[Any], **settings: Any) -> EvalResult:
    """Return the synchronous version of `evaluate`; also works inside a running event loop (a notebook).

    Example:
        >>> evaluate_sync(RubricDataset("Why?"), None, experiment_name="../up")
        Traceback (most recent call last):
        autorubric.errors.InputError: experiment_name '../up' is not a plain name; expected at most 100 letters, ...
    """
    return wait_for(evaluate(dataset, grader, **settings))


_MOST_OPEN = 64


class FillError(AutorubricError):
    """No item could be graded."""


async def fill_ground_truth(
    dataset: RubricDataset,
    grader: Grader[Any],
    *,
    force: bool = False,
    show_progress: bool = True,
    max_concurrent_items: int | None = None,
) -> RubricDataset:
    """Return a copy of the dataset with the grader's verdicts as ground truth.

    Items that could not be graded are left out, with a warning that says why. So are items on which a judge chose
    the "not applicable" option that graders add, if the criterion itself has no such option.

    Args:
        dataset: at least one item.
        grader: the grader that labels.
        force: relabel items that have ground truth; their reasons are dropped.
        show_progress: show progress; see `ProgressDisplay`.
        max_concurrent_items: the maximum number of items in progress.

    Raises:
        ValueError: the dataset has no items, or a setting is wrong.
        AutorubricError: no item could be graded; the message says why.
    """
    if not len(dataset):
        raise InputError("Dataset has no items")
    EvalConfig(max_concurrent_items=max_concurrent_items)  # refuses a wrong number
    room = asyncio.Semaphore(max_concurrent_items or _MOST_OPEN)
    problems: dict[int, str] = {}
    filled: dict[int, DataItem] = {}

    async def fill(index: int) -> None:
        item, rubric = dataset[index], dataset.get_item_rubric(index)
        prompt, reference = dataset.get_item_prompt(index), dataset.get_item_reference_submission(index)
        try:
            report = await rubric.grade(item.submission, grader, prompt, reference)
            filled[index] = replace(item, ground_truth=_read_labels(report, rubric), ground_truth_reasons=None)
        except Exception as error:
            problems[index] = str(error)
        finally:
            room.release()

    def build_state() -> RunState:
        ended = len(filled) + len(problems)
        stage = StageState("labelled", len(filled), opened - ended, len(problems))
        return RunState.of(len(dataset), ended, [stage], ())

    opened = 0
    with _display(shown=show_progress) as progress:
        async with reported(progress, build_state), asyncio.TaskGroup() as group:
            for index, item in enumerate(dataset):
                opened += 1
                if item.ground_truth is not None and not force:
                    filled[index] = item
                    continue
                await room.acquire()
                group.create_task(fill(index))
    _report_problems(problems, len(filled))
    return replace(dataset, items=[filled[index] for index in sorted(filled)])


def fill_ground_truth_sync(dataset: RubricDataset, grader: Grader[Any], **settings: Any) -> RubricDataset:
    """Return the synchronous version of `fill_ground_truth`; also works inside a running event loop (a notebook).

    Example:
        >>> from autorubric import Criterion, CriterionGrader, LLMConfig
        >>> dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Contains at most 5 words.")]))
        >>> dataset.add_item("Because of the moon.", "short")
        >>> grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
        >>> fill_ground_truth_sync(dataset, grader)[0].ground_truth
        [<CriterionVerdict.MET: 'MET'>]
    """
    return wait_for(fill_ground_truth(dataset, grader, **settings))


def _read_labels(report: Report, rubric: Rubric) -> list[CriterionVerdict | str]:
    """Return the final verdicts of a report, as labels of the rubric's own criteria."""
    if report.report is None:
        raise InputError(report.error or "the report has no criteria")
    problems: list[str] = []
    found = [_read_verdict(criterion) for criterion in report.report]
    labels = GroundTruthReader(rubric).read(found, problems)
    if labels is None:
        if CANONICAL_NA_OPTION.label in found:
            problems.append("give the criterion an option with na: true, and such items are labelled with it")
        raise InputError(problems)
    return labels


def _read_verdict(report: AnyCriterionReport) -> CriterionVerdict | str:
    verdict, choice = report.final()
    found = verdict if choice is None else choice.selected_label
    if report.error is not None or found is None:
        raise InputError(report.error or "an abstention has no option for it")
    return found


def _report_problems(problems: dict[int, str], kept: int) -> None:
    if not problems:
        return
    first = min(problems)
    message = f"{len(problems)} of {len(problems) + kept} items could not be graded; item {first}: {problems[first]}"
    if not kept:
        raise FillError(message)
    warn(message)
