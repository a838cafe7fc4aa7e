"""The experiment directory of a run: lock, ledger, files, and the manifest at start and end."""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from autorubric.background import rare_collections
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, format_first, warn
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.grader import Grader
from autorubric.llm.models import collect_notes
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import hold_run
from autorubric.llm.request import Model
from autorubric.runs.another_run import merge_shards, move_run_away, refuse_another_run
from autorubric.runs.blocks import feed
from autorubric.runs.changes import (
    FinishedRun,
    find_dataset_changes,
    find_grader_changes,
    find_places,
    find_value_changes,
    write_dataset,
)
from autorubric.runs.items_file import ItemsFile, MergedLines, StoredLines
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, ExperimentManifest, read_manifest
from autorubric.runs.run import EvaluationRun, begin_generation, find_next_generation, number_copies
from autorubric.runs.run_folder import LEDGER_FOLDER, open_ledger
from autorubric.runs.shard import ShardParts, measure_seconds

WINDOW = 64
"""Items in progress at a time, if neither the caller nor the grader sets a limit."""


@dataclass(frozen=True)
class ExperimentPlan:
    """The dataset, the grader, the directory and the settings of a run.

    Attributes:
        dataset: what is graded.
        grader: the grader.
        directory: the experiment directory.
        window: the maximum number of items in progress; None takes the grader's calls in flight.
        prefix_first: send the first call of an item alone.
        resume: False ignores recorded replies and sends all requests again.
        settings: the run's settings, as the manifest records them.
        wait: wait while another process uses the directory, instead of failing.
        share_equal: let equal items share their replies, instead of asking about each.
        replace: replace another run in the directory; its files move to their own folder.
        compared: names in `settings` that affect results.
        parts: the shards that this run merges without sending requests; None for every other run.
        same_items: whether the items must be those of the earlier run; False if models write them.
        write_tables: called once the items are on disk, while no other process works in the directory.
    """

    dataset: RubricDataset
    grader: Grader[Any]
    directory: Path
    window: int | None = None
    prefix_first: bool = True
    resume: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    wait: bool = False
    share_equal: bool = False
    replace: bool = False
    compared: tuple[str, ...] = ()
    parts: ShardParts | None = None
    same_items: bool = True
    write_tables: Callable[[], object] | None = None

    def find_changes(self, content: bytes, manifest: Mapping[str, Any]) -> list[str]:
        """List the differences that affect results from the run recorded in a manifest.

        Args:
            content: the dataset as it is written to a file.
            manifest: the manifest of the earlier run in the directory.
        """
        if manifest.get("status") == "failed" and not manifest.get("completed_indices"):
            return []  # no item has a result: a corrected model name or file may use the directory
        changes = find_judging_changes(manifest, self.grader, self.settings, self.compared)
        if self.same_items:
            changes += find_dataset_changes(self.directory, manifest, content, hash_dataset(content))
        return changes


def describe_grader(grader: Grader[Any]) -> dict[str, Any]:
    """Return the configuration of a grader, as manifests record it."""
    describe = getattr(grader, "describe", dict)
    own = grader.fingerprint() if isinstance(grader, Grader) and not isinstance(grader, CriterionGrader) else None
    return {"type": type(grader).__name__, **describe(), **({} if own is None else {"fingerprint": own})}


def find_judging_changes(
    manifest: Mapping[str, Any], grader: Grader[Any], settings: Mapping[str, Any], compared: Iterable[str]
) -> list[str]:
    """List the differences of the grader and the `compared` settings from those in the manifest of an earlier run."""
    recorded = manifest.get("eval_config") or {}
    before = {name: recorded[name] for name in compared if name in recorded}
    changes = find_grader_changes(manifest.get("grader_config"), describe_grader(grader))
    return changes + find_value_changes(before, {name: settings.get(name) for name in before})


@asynccontextmanager
async def experiment(plan: ExperimentPlan, content: bytes) -> AsyncIterator[tuple[EvaluationRun, ExperimentManifest]]:
    """Prepare a run and yield it ready to execute; its end is recorded when the block exits.

    Args:
        plan: what to run.
        content: the dataset as it is written to a file.

    Raises:
        InputError: a criterion has neither judge nor check, a check cannot be run, or the directory contains
            another run; nothing was requested.
        RunLockedError: another process works in the directory.
    """
    folder, grader = plan.directory / LEDGER_FOLDER, plan.grader
    own = isinstance(grader, CriterionGrader) and not grader.has_records
    await _check_rubrics(plan)
    with ExitStack() as stack:
        stack.enter_context(rare_collections())
        stack.enter_context(await hold_run(folder, wait=plan.wait))
        changes = partial(plan.find_changes, content)
        replaces = refuse_another_run(plan.directory, "evaluation", changes, replace=plan.replace)
        if own and plan.parts is not None and plan.parts.workers is not None:
            with open_ledger(plan.directory) as calls:
                again = find_next_generation(calls, start_over=not plan.resume)
                earlier = await _build_finished_run(plan, content, calls, again)
                plan = replace(plan, parts=plan.parts if earlier is None or earlier.find() is None else None)
        await merge_shards(plan.directory, plan.parts, plan.dataset)
        ledger = stack.enter_context(open_ledger(plan.directory, start_over=not plan.resume)) if own else None
        places = find_places(plan.directory, plan.dataset, content)
        before = _read_earlier_lines(plan, places, replaces=replaces)
        stored = {} if replaces and plan.parts is None else before
        if replaces:
            move_run_away(plan.directory)
        write_dataset(plan.directory, content, places, stored)
        manifest = _build_manifest(plan, hash_dataset(content))
        manifest.calls = None if ledger is None else ledger.count
        manifest.save(plan.directory)
        generation = 0 if ledger is None else begin_generation(ledger, start_over=not plan.resume)
        finished = await _build_finished_run(plan, content, ledger, generation)
        ended = stack.enter_context(ExitStack())  # exits once the file of the items is closed
        items = stack.enter_context(ItemsFile(plan.directory / ITEMS_FILE, stored))
        run = EvaluationRun(
            plan.dataset,
            grader,
            items,
            before,
            window=plan.window or (grader.max_in_flight if isinstance(grader, CriterionGrader) else WINDOW),
            prefix_first=plan.prefix_first,
            generation=generation,
            copies={} if plan.share_equal or plan.parts else number_copies(plan.dataset, grader),
            parts=plan.parts,
            is_finished=finished is not None and finished.find() is not None,
        )
        ended.push(partial(_write_tables, plan, run))
        ended.callback(_record_finished, finished, run, manifest)
        models: Mapping[str, Model] = {}
        if isinstance(grader, CriterionGrader):
            models = (await grader.open_session()).models
            await _attach_executor(run, grader, ledger)
        stack.enter_context(_record_end(manifest, plan, run, models, ledger))
        yield run, manifest


async def _attach_executor(run: EvaluationRun, grader: CriterionGrader, ledger: Ledger | None) -> None:
    """Attach the grader's executor, which records in the run's own ledger if there is one."""
    session = await grader.open_session()
    run.executor, run.totals = session.executor, grader.totals
    if ledger is not None:
        ledger.set_costs(session.models.values())
        run.executor, run.totals = grader.executor_on(ledger, detached=False), ledger.add_up


async def _build_finished_run(
    plan: ExperimentPlan, content: bytes, ledger: Ledger | None, generation: int
) -> FinishedRun | None:
    """Build the record of a finished run; None without a ledger, in merges and workers, or with custom code."""
    grader = plan.grader
    if ledger is None or (plan.parts is not None and plan.parts.workers is None) or feed.get() is not None:
        return None
    if not isinstance(grader, CriterionGrader) or not grader.is_described:
        return None
    if any(criterion.check is not None for rubric in _find_rubrics(plan.dataset).values() for criterion in rubric):
        return None
    made_of = {
        "grader": describe_grader(grader),
        "models": {name: model.identity() for name, model in (await grader.open_session()).models.items()},
        "first": len(grader.recipe.specs),
        "dataset": hash_dataset(content),
        "generation": generation,
        "settings": {name: plan.settings.get(name) for name in plan.compared},
    }
    return FinishedRun(ledger, made_of, (plan.directory / ITEMS_FILE,))


def _record_finished(finished: FinishedRun | None, run: EvaluationRun, manifest: ExperimentManifest) -> None:
    has_ended_well = manifest.status == "completed" and manifest.error is None and run.is_whole
    if finished is not None and has_ended_well and not run.is_finished:
        finished.keep(True)


def _write_tables(plan: ExperimentPlan, run: EvaluationRun, failed: object, *_: object) -> None:
    if failed is None and plan.write_tables is not None and (run.has_paid or not run.refused):
        plan.write_tables()


def _read_earlier_lines(plan: ExperimentPlan, places: Sequence[int], *, replaces: bool) -> MergedLines:
    """Read the duration and the line of each finished item, from the shards or this directory's earlier sessions."""
    here = [(StoredLines(plan.directory / ITEMS_FILE), places)] if plan.resume else []
    if plan.parts is None:
        return MergedLines(here)
    found = MergedLines([*([] if replaces else here), *plan.parts.read_lines(plan.dataset)])
    if plan.parts.workers is not None:
        plan.parts.workers.clear()
    return found


@contextmanager
def _record_end(
    manifest: ExperimentManifest,
    plan: ExperimentPlan,
    run: EvaluationRun,
    models: Mapping[str, Model],
    ledger: Ledger | None,
) -> Iterator[None]:
    """Record the end in the manifest, however the run ends."""
    started = time.monotonic() - measure_seconds(plan.parts)
    try:
        yield
    except Exception as error:
        manifest.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise
    finally:
        manifest.error = manifest.error or run.stopped
        manifest.negotiated = collect_notes(models.values(), manifest.negotiated)
        manifest.completed_indices = run.completed
        manifest.calls = None if ledger is None else ledger.count
        manifest.status = "completed" if len(run.completed) == manifest.total_items else "failed"
        manifest.completed_at, manifest.items_digest = datetime.now(UTC), run.digest_items()
        manifest.total_duration_seconds = (manifest.total_duration_seconds or 0.0) + time.monotonic() - started
        manifest.save(plan.directory)


def _build_manifest(plan: ExperimentPlan, content_hash: str) -> ExperimentManifest:
    now = datetime.now(UTC)
    before = read_manifest(plan.directory) or {}
    return ExperimentManifest(
        experiment_name=plan.directory.name,
        created_at=now,
        dataset_name=plan.dataset.name,
        dataset_hash=content_hash,
        total_items=len(plan.dataset),
        status="running",
        completed_indices=set(),
        started_at=now - timedelta(seconds=measure_seconds(plan.parts)),
        total_duration_seconds=before.get("total_duration_seconds"),
        dataset_path=DATASET_FILE,
        grader_config=describe_grader(plan.grader),
        eval_config=plan.settings,
        negotiated=collect_notes((), before.get("negotiated"), plan.parts and plan.parts.negotiated),
    )


async def _check_rubrics(plan: ExperimentPlan) -> None:
    """Refuse rubrics that the grader cannot judge, before anything is spent."""
    if not isinstance(plan.grader, CriterionGrader):
        return
    judge, few_shot = (await plan.grader.open_session()).judge, plan.grader.recipe.options.few_shot
    places: dict[str, list[int]] = {}
    rubrics = _find_rubrics(plan.dataset)
    for index, rubric in rubrics.items():
        try:
            judge.check_rubric(rubric.rubric)
        except InputError as error:
            for problem in error.problems:
                places.setdefault(problem, []).append(index)
    if places:
        raise InputError(_locate_problem(problem, indices, plan.dataset) for problem, indices in places.items())
    if few_shot and (missing := few_shot.find_missing(chain.from_iterable(rubrics.values()))):
        warn(f"no few-shot example for {format_first(missing)}: name, requirement and options must be the same")


def _find_rubrics(dataset: RubricDataset) -> dict[int, Rubric]:
    """Return each distinct rubric of the dataset, by the index of its first item."""
    seen: dict[int, int] = {}
    rubrics = {index: dataset.get_item_rubric(index) for index in range(len(dataset))}
    return {index: rubric for index, rubric in rubrics.items() if seen.setdefault(id(rubric), index) == index}


def _locate_problem(problem: str, indices: list[int], dataset: RubricDataset) -> str:
    """Return the problem, prefixed with the item if the rubric is the item's own."""
    first = indices[0]
    if dataset[first].rubric is None:
        return problem
    others = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
    return f"item {first}{others}: {problem}"


_NAME = re.compile(r"\w[\w.-]{0,99}")


@dataclass(frozen=True)
class EvalConfig:
    """Settings of an `EvalRunner`.

    Attributes:
        fail_fast: at the first item that fails, cancel the calls in flight and raise.
        show_progress: show progress; see `ProgressDisplay`.
        progress_style: kept for compatibility; both styles show the same.
        max_concurrent_items: the maximum number of items in progress; None takes the grader's calls in flight.
        experiment_name: the directory's name; None derives one from the dataset, and from the grader if another
            grader has that name. A name whose directory contains a run with other items, judges or settings is
            refused without `replace`.
        experiments_dir: the parent of experiment directories.
        resume: False requests everything again; earlier replies stay on record and count toward the budget.
        prefix_first: send the first call of an item alone, so that endpoints with a prefix cache compute the item's
            prompt prefix only once.
        share_equal: let items with the same prompt, submission, reference and criteria share their replies. By
            default, each item has its own requests.
        replace: replace another run in the directory; its files move to `replaced-N` there, and its saved replies
            stay usable.

    Raises:
        ValueError: the name could leave the directory, or a number is not valid.

    Example:
        >>> EvalConfig(experiment_name="../elsewhere")
        Traceback (most recent call last):
        autorubric.errors.InputError: experiment_name '../elsewhere' is not a plain name; expected at most ...
    """

    fail_fast: bool = False
    show_progress: bool = True
    progress_style: Literal["simple", "detailed"] = "simple"
    max_concurrent_items: int | None = None
    experiment_name: str | None = None
    experiments_dir: Path | str = "experiments"
    resume: bool = True
    prefix_first: bool = True
    share_equal: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        problems = []
        if self.experiment_name is not None and not _NAME.fullmatch(self.experiment_name):
            problems.append(
                f"experiment_name {self.experiment_name!r} is not a plain name; expected at most 100 letters, "
                "digits, '_', '-' and '.', the first one a letter, digit or '_'"
            )
        most = self.max_concurrent_items
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            problems.append(f"max_concurrent_items={most!r}; expected a whole number of at least 1, or None")
        if self.progress_style not in ("simple", "detailed"):
            problems.append(f"progress_style={self.progress_style!r}; expected 'simple' or 'detailed'")
        if problems:
            raise InputError(problems)


def name_experiment(dataset: RubricDataset, content: bytes) -> str:
    """Return the default name of an experiment: the dataset's name and a digest of its content.

    Args:
        dataset: what is evaluated.
        content: the dataset as it is written to a file.

    Example:
        >>> name_experiment(RubricDataset("Explain", name="Essays, week 3"), b"{}")
        'Essays-week-3-44136fa3'
    """
    plain = re.sub(r"[^\w.]+", "-", dataset.name or "").strip("-.")[:80]
    return f"{plain or 'evaluation'}-{hash_dataset(content)[:8]}"


def hash_dataset(content: bytes) -> str:
    """Return the first 16 digits of the SHA-256 of a dataset as it is written to a file.

    Example:
        >>> hash_dataset(b"{}")
        '44136fa355b3678a'
    """
    return sha256(content).hexdigest()[:16]
