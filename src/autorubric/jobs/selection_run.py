"""One selection: candidates are sampled or read, graded, selected, and written for trainers."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.storage import encode_dataset
from autorubric.errors import InputError, collected, warn
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.session import SessionLimits
from autorubric.jobs.job import ReplaceableSettings
from autorubric.jobs.judges import GradingSettings, build_experiment_plan, digest_examples
from autorubric.jobs.recorded_run import open_estimate_ledger
from autorubric.jobs.submissions import check_weighed
from autorubric.llm.batches.setting import widen_window
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.failure_groups import NOT_MADE, FailureGroups
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import check_priced, find_stand_in_note, open_models
from autorubric.llm.records.accounts import UsageTotals
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Model
from autorubric.runs.another_run import Opening, locked_ledger, move_run_away, refuse_another_run
from autorubric.runs.blocks import all_records, feed
from autorubric.runs.changes import describe_change, find_item_changes, find_value_changes
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, MANIFEST_FILE, read_manifest, write_manifest
from autorubric.runs.plan import find_judging_changes
from autorubric.runs.progress import RunState, StageState
from autorubric.runs.result import EvalResult, ItemResult
from autorubric.runs.run import REPLY_TOKENS, estimate, find_next_generation
from autorubric.runs.run_folder import run_folder
from autorubric.runs.runner import run_experiment
from autorubric.runs.shard import PART, ShardPart
from autorubric.training.candidates import (
    ABSTAINED,
    ANSWER_TOKENS,
    ROLE,
    CandidateAnswer,
    SamplingRun,
    ScoredCandidate,
    build_dataset,
    describe_abstention,
    estimate_sampling,
    read_graded_run,
)
from autorubric.training.queries import RubricQuery
from autorubric.training.selection import KeepRule, compute_share
from autorubric.training.selection_summary import DECISIONS_FILE, SUMMARY_FILE, ScoredPool, Selected, write_selection
from autorubric.training.trainer_files import list_training_files

SAMPLING, GRADING = range(2)
"""The rounds of cluster workers; grading is a second round, because candidates are numbered after all are sampled."""

_GENERATION = "sampling_generation"
_MARKS = (MANIFEST_FILE, ITEMS_FILE)
_COMPARED = ("sample", "sample_temperature", "sample_max_tokens", "few_shot_examples", "share_equal", "shard")


@dataclass(frozen=True, slots=True)
class Sampling:
    """The models that write candidates, and the number of candidates of each."""

    configs: Mapping[str, LLMConfig]
    k: int


@dataclass
class SelectionResult:
    """The result of a selection.

    Attributes:
        directory: the run directory.
        queries: the number of queries.
        candidates: the number of candidates.
        written: statistics, trainer files, and what lower thresholds would keep; None if nothing was decided.
        failures: why candidates have no score, grouped by cause.
        totals: calls, tokens and cost by role and model, all sessions in the directory together.
        negotiated: for each model, what its endpoint did not accept, if that may change replies.
        stopped: why the run ended early; None if it did not.
        interrupted: whether it was interrupted.
        graded_run: the grading run that the scores come from, if any.
        again: the command that retries the failed judgments of that run.
        estimate: what a dry run found.

    Example:
        >>> SelectionResult(Path("selected"), queries=2, candidates=8).files
        ()
    """

    directory: Path
    queries: int
    candidates: int
    written: Selected | None = None
    failures: FailureGroups = field(default_factory=FailureGroups)
    totals: list[UsageTotals] = field(default_factory=list)
    negotiated: list[str] = field(default_factory=list)
    stopped: str | None = None
    interrupted: bool = False
    graded_run: Path | None = None
    again: str = ""
    estimate: list[ModelEstimate] | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files for trainers; empty if nothing was kept."""
        return () if self.written is None else self.written.files


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection, ready to run; `candidates` are answers or the models that write them, `part` is its shard."""

    queries: Sequence[RubricQuery]
    candidates: Sequence[CandidateAnswer] | Sampling
    grader: CriterionGrader
    keep: KeepRule
    skipped: Sequence[str]
    settings: GradingSettings
    trainers: tuple[str, ...]
    part: ShardPart | None = None

    @property
    def out(self) -> Path:
        """The run directory."""
        return Path(self.settings.out)

    @property
    def limits(self) -> SessionLimits:
        """The limits of spending and of concurrent calls."""
        return SessionLimits(self.settings.budget_usd, self.settings.budget_tokens, self.settings.concurrency)


def is_run_directory(data: Path) -> bool:
    """Return whether DATA is the directory of a run, rather than a file of queries.

    Example:
        >>> is_run_directory(Path("final.jsonl"))
        False
    """
    return os.path.isdir(data) and any((data / name).exists() for name in _MARKS)  # noqa: PTH112 (long names)


def select_from_run(
    folder: Path, keep: KeepRule, trainers: tuple[str, ...], settings: ReplaceableSettings
) -> SelectionResult:
    """Return the selection from a finished grading run, by its scores; sends no request.

    Args:
        folder: the directory of the grading run.
        keep: the rule for what to keep.
        trainers: the trainers to write files for.
        settings: the run directory; `limit` takes only the first queries.

    Raises:
        InputError: the run has not finished or cannot be read, or the directory contains another selection.
    """
    out = Path(settings.out)
    run = read_graded_run(folder).limit_to(getattr(settings, "limit", None))
    check_weighed((query.where or query.id, query.rubric) for query in run.queries)
    source = read_manifest(folder) or {}
    about = {"graded_run": str(folder.resolve()), "dataset_hash": source.get("dataset_hash")}
    with run_folder(out, (*_list_selection_files(), MANIFEST_FILE), [folder]):
        if refuse_another_run(out, "selection", partial(_find_other_source, about), replace=settings.replace):
            move_run_away(out)
        write_manifest(out, {"kind": "selection", "status": "running", **about})
        written = write_selection(out, ScoredPool(run.queries, run.scored, run.items), keep, trainers)
        counts = {"rows": len(run.queries), "finished": len(run.queries), "failed": 0}
        write_manifest(out, {"kind": "selection", "status": "completed", **about, "counts": counts})
    result = SelectionResult(out, len(run.queries), len(run.scored), written, graded_run=run.folder, again=run.again)
    for scored in run.scored:
        if scored.failure is not None and not scored.failure.startswith(ABSTAINED):
            result.failures.add_text(scored.failure, scored.candidate.sample_id)
    return result


def _find_other_source(about: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """List the differences between the grading run and that of an earlier selection."""
    before = {name: manifest[name] for name in about if name in manifest}
    return find_value_changes(before, {name: about[name] for name in before})


async def run_selection(selection: Selection) -> SelectionResult:
    """Sample candidates if models write them, grade them, and select.

    Raises:
        InputError: a rubric cannot be judged, or a key, model name or address was refused; nothing was paid.
    """
    labels = find_stand_in_note(await _list_model_names(selection))
    settings = selection.settings
    files = (*_list_selection_files(), DATASET_FILE, ITEMS_FILE, MANIFEST_FILE)
    sources, start_over = settings.list_sources(), settings.start_over
    with run_folder(selection.out, files, sources, start_over=start_over, parts=settings.parts):
        result = SelectionResult(selection.out, len(selection.queries), 0)
        unsampled: list[ScoredCandidate] = []
        paid = False
        candidates = selection.candidates
        if isinstance(candidates, Sampling):
            run = await _sample_candidates(selection, candidates, labels)
            paid = run.has_paid
            if run.refused and not run.interrupted and not paid:
                raise InputError(run.stopped or "the endpoint refused the run", run.advice)
            if run.interrupted or run.stopped or _find_round() == SAMPLING:
                return replace(result, stopped=run.stopped, interrupted=run.interrupted)
            unsampled = [ScoredCandidate(candidate, None, str(failure)) for candidate, failure in run.find_missing()]
            candidates = run.collect_candidates()
        graded, scored, failures = await _grade_candidates(selection, candidates, labels)
        summary = graded.summary
        assert summary is not None
        result = replace(
            result,
            candidates=len(candidates) + len(unsampled),
            failures=failures,
            totals=summary.totals,
            negotiated=summary.negotiated,
            stopped=graded.stopped,
            interrupted=summary.interrupted,
        )
        if summary.interrupted:
            return result
        if summary.refused and not paid:
            raise InputError(graded.stopped or "the endpoint refused the run", summary.advice)
        pool = ScoredPool(selection.queries, [*scored, *unsampled], selection.out / ITEMS_FILE)
        kept = (selection.keep, selection.trainers)
        result.written = write_selection(selection.out, pool, *kept, skipped=selection.skipped)
        for one in unsampled:
            failures.add_text(one.failure, one.candidate.sample_id or "", ROLE)
        return result


async def estimate_selection(selection: Selection) -> SelectionResult:
    """Return the requests and cost of the run; nothing is sent or written."""
    selection.settings.show_stand_ins(0, await _list_model_names(selection))
    rows: list[ModelEstimate] = []
    with open_estimate_ledger(selection.out) as ledger:
        replied = ((total, total.calls - total.failed) for total in ledger.add_up())
        lengths = {total.role: total.usage.completion_tokens / count for total, count in replied if count}
        candidates = selection.candidates
        if isinstance(candidates, Sampling):
            async with open_models(candidates.configs, selection.limits.in_flight) as models:
                generation = _find_generation(selection, ledger)
                run = _build_sampling_run(selection, candidates, models, Executor(ledger), generation)
                rows, candidates = await estimate_sampling(run, lengths.get(ROLE) or ANSWER_TOKENS)
        rows += await estimate(
            build_dataset(selection.queries, list(candidates), selection.out.name),
            selection.grader,
            Executor(ledger),
            lengths.get("judge") or REPLY_TOKENS,
            share_equal=selection.settings.share_equal,
            generation=find_next_generation(ledger, start_over=selection.settings.start_over),
        )
    return SelectionResult(selection.out, len(selection.queries), len(candidates), estimate=rows)


async def _list_model_names(selection: Selection) -> list[str]:
    """Return the names of all models; refuse rubrics that cannot be judged, before anything is spent."""
    session = await selection.grader.open_session()
    check_priced(session.models, selection.limits.usd)
    names = [model.name for model in session.models.values()]
    if isinstance(selection.candidates, Sampling):
        async with open_models(selection.candidates.configs, selection.limits.in_flight) as models:
            check_priced(models, selection.limits.usd)
            names += [model.name for model in models.values()]
    problems: list[str] = []
    for query in selection.queries:
        with collected(problems, f"{query.where or query.id}: "):
            session.judge.check_rubric(query.rubric.rubric)
    if problems:
        raise InputError(dict.fromkeys(problems))
    for sentence in selection.skipped[:20]:
        warn(f"left out: {sentence}")
    return names


async def _sample_candidates(selection: Selection, sampling: Sampling, labels: Sequence[str]) -> SamplingRun:
    """Let models write the candidates; return the finished sampling run."""
    settings, limits = selection.settings, selection.limits
    async with (
        open_models(sampling.configs, limits.in_flight) as models,
        locked_ledger(
            selection.out,
            "evaluation",
            partial(_find_changes, selection, sampling),
            Opening(settings.wait, settings.start_over, settings.replace, settings.parts),
        ) as ledger,
    ):
        ledger.set_costs(models.values())
        executor = Executor(ledger, limits.make_budget(ledger), detached=False)
        is_sampled = settings.parts is not None or _find_round() == GRADING
        workers = None if settings.parts is None else settings.parts.workers
        if is_sampled:
            executor.replay(
                (workers and workers.stopped) or "not in the shards that were merged", ledger.read_failures()
            )
        generation = _find_generation(selection, ledger)
        if settings.start_over:
            ledger.keep_note(_GENERATION, generation)
        run = _build_sampling_run(selection, sampling, models, executor, generation)

        def state() -> RunState:
            done, failed = len(run.answers), sum(failure.kind not in NOT_MADE for failure in run.failed.values())
            stage = StageState("sampled", done, sum(a.in_flight for a in run.activity), failed)
            return RunState.of(run.total, done + failed, [stage], run.activity, labels)

        shown = nullcontext() if is_sampled or _find_round() is not None else _show_as_sampling(selection, run)
        with shown, all_records() if is_sampled else nullcontext():
            # The candidates of workers are only read here; their calls were reported before.
            await run.run_to_end(settings.progress if workers is None else None, settings.stop, state)
        await executor.drain()
    return run


@contextmanager
def _show_as_sampling(selection: Selection, run: SamplingRun) -> Iterator[None]:
    """Record in the manifest that sampling runs and why it stopped, unless candidates were graded before."""
    if (read_manifest(selection.out) or {}).get("dataset_hash"):
        yield
        return
    part = {} if selection.part is None else {PART: selection.part.to_record()}
    settings = {"command": "select", "again": selection.settings.again, **part}
    content = {"kind": "evaluation", "total_items": run.total, "eval_config": settings}
    write_manifest(selection.out, {**content, "status": "running"})
    try:
        yield
    finally:
        write_manifest(selection.out, {**content, "status": "failed", "error": run.stopped})


async def _grade_candidates(
    selection: Selection, candidates: Sequence[CandidateAnswer], labels: Sequence[str]
) -> tuple[EvalResult, list[ScoredCandidate], FailureGroups]:
    """Grade the candidates; return the grading run, the scored candidates and the failures by cause."""
    settings, grader = selection.settings, selection.grader
    dataset = build_dataset(selection.queries, candidates, selection.out.name)
    plan = build_experiment_plan(settings, dataset, grader, selection.part, labels=labels, compared=_COMPARED)
    plan = replace(plan, same_items=not isinstance(selection.candidates, Sampling))
    found: dict[int, ScoredCandidate] = {}
    failures = FailureGroups()

    def record_score(result: ItemResult) -> None:
        share = compute_share(result.report, grader.scoring.cannot_assess)
        failure = result.error or (None if share is not None else describe_abstention(result.report))
        score = None if result.error else share
        found[result.item_idx] = ScoredCandidate(candidates[result.item_idx], score, failure, result.item_idx)
        if result.error is not None:
            failures.add_text(result.error, candidates[result.item_idx].sample_id, "judge")

    content = encode_dataset(dataset)
    graded = await run_experiment(
        plan, content, on_item=record_score, progress=settings.progress, stop=settings.stop, keep=False
    )
    for index in {*range(len(candidates))} - found.keys():
        failures.add_text(why := f"stopped: {graded.stopped}", where="judge")
        found[index] = ScoredCandidate(candidates[index], None, why, index)
    return graded, [found[index] for index in sorted(found)], failures


def _find_changes(selection: Selection, sampling: Sampling, manifest: Mapping[str, Any]) -> list[str]:
    """List changes since an earlier sampling run: judges, models, fewer samples, queries or rubrics."""
    before = manifest.get("eval_config") or {}
    now = selection.settings.to_manifest() | digest_examples(selection.grader)
    changes = find_judging_changes(manifest, selection.grader, now, _COMPARED)
    if before.get("k", 0) > sampling.k:
        changes.append(describe_change("k", before["k"], sampling.k))
    path = selection.out / DATASET_FILE
    if path.exists():
        queries = [DataItem("-", "", rubric=query.rubric, prompt=query.text) for query in selection.queries]
        answered = {item.metadata.get("query"): item for item in RubricDataset.from_stored(path).items}
        earlier = [replace(item, submission="-", id=None) for item in answered.values()]
        changes += find_item_changes(RubricDataset(items=earlier), RubricDataset(items=queries))
    return changes


def _build_sampling_run(
    selection: Selection, sampling: Sampling, models: Mapping[str, Model], executor: Executor, generation: int
) -> SamplingRun:
    pairs, window = list(models.items()), widen_window(selection.limits.in_flight)
    return SamplingRun(selection.queries, pairs, sampling.k, window, generation, executor=executor)


def _list_selection_files() -> tuple[str, ...]:
    return (*list_training_files(), DECISIONS_FILE, SUMMARY_FILE)


def _find_round() -> int | None:
    """Return the round of this cluster worker; None for every other run, which samples and then grades."""
    own = feed.get()
    return None if own is None else own.round


def _find_generation(selection: Selection, ledger: Ledger) -> int:
    """Return how often sampling will have been started over, this run included."""
    once_more = selection.settings.start_over and any(total.role == ROLE for total in ledger.add_up())
    return int(ledger.find_note(_GENERATION) or 0) + once_more
