"""`autorubric.synthesize`: rubrics from queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any, ClassVar, cast

from autorubric.background import rare_collections
from autorubric.errors import InputError, problems_at
from autorubric.files.strict_json import dump_json, parse_json
from autorubric.jobs.job import BatchSettings, blocking, job
from autorubric.jobs.recorded_run import open_estimate_ledger
from autorubric.jobs.sharding import ShardedSettings
from autorubric.jobs.upload import check_upload, upload_finished
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.models import check_priced, collect_notes, open_models, preload_http
from autorubric.llm.request import Model
from autorubric.rows import Record
from autorubric.runs.another_run import Opening, locked_ledger, note_another_run
from autorubric.runs.manifest import MANIFEST_FILE, read_manifest
from autorubric.runs.run_folder import run_folder
from autorubric.runs.shard import Division, measure_seconds
from autorubric.runs.status_text import merge_negotiated
from autorubric.settings import setting
from autorubric.synthesis.final_files import FINAL_FILES, FULL_FILES, find_other_queries
from autorubric.synthesis.run_summary import UNFINISHED_FILE, SynthesisResult
from autorubric.synthesis.slots import build_configs, find_slots
from autorubric.synthesis.stages import STEP_FILES
from autorubric.synthesis.steps import append_step_rows, import_steps
from autorubric.synthesis.synthesis_run import Prepared, SynthesisRun, prepare
from autorubric.synthesis.synthesis_settings import Queries, SynthesisSettings, resolve_protocol


class SynthesizeSettings(SynthesisSettings, BatchSettings, ShardedSettings):
    """The settings of `autorubric.synthesize` and `autorubric synthesize`.

    Example:
        >>> SynthesizeSettings(input="queries.csv", models="builtin/offline").models
        'builtin/offline'
    """

    command: ClassVar[str] = "synthesize"
    export_only: bool = setting(False, "Write the output files from saved replies; send nothing.", group="Output")
    show: int = setting(0, "Print the first N finished rubrics.", group="Output", ge=0, le=10**9)
    notice: Callable[[str], object] | None = setting(None, "Called with each note on the input.", cli=False)

    def _dump_common(self) -> dict[str, Any]:
        # The directory of a shard does not contain the protocol version of the whole run.
        return super()._dump_common() | {"protocol": resolve_protocol(self).protocol}


@job(SynthesizeSettings)
async def synthesize_async(queries: Queries | None, settings: SynthesizeSettings) -> SynthesisResult:
    """Turn queries into rubrics in steps: answers, candidate rubrics, a merge, harder criteria.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice, and failed
    requests are sent again. The keyword arguments are the fields of `SynthesizeSettings`.

    Args:
        queries: the path of a file of rows, or queries as strings, conversations or rows.
        settings: the keyword arguments, as a settings object.

    Returns:
        Rubrics, counts and cost. With `dry_run=True`, `estimate` has the cost of the run.

    Raises:
        InputError: a setting, a file or a row is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> run = synthesize_async(["Why is the sky blue?"], models="builtin/offline", out=tempfile.mkdtemp())
        >>> result = asyncio.run(run)
        >>> result.rows[0]["question"], result.complete
        ('Why is the sky blue?', True)
    """
    if settings.processes or settings.engine:
        settings = settings.with_workers()
    rows = None
    if not isinstance(queries, str | Path):
        rows, queries = list(_read_rows(cast(Any, queries))), "the queries"
    run, division = settings.model_copy(update={"input": Path(queries)}), settings.build_division()
    with settings.attempts_logged() if settings.log_json is not None else nullcontext():
        await check_upload(settings)
        if settings.dry_run:
            return await _estimate(run, division, rows)
        result = await _run(run, division, rows)
        await upload_finished(settings, complete=result.complete)
        return result


synthesize = blocking(synthesize_async)


def _read_rows(queries: Sequence[Any]) -> Iterator[Record]:
    """Yield queries in memory as rows of a file."""
    for index, query in enumerate(queries):
        where, row = f"item {index}", dict(query) if isinstance(query, Mapping) else {"question": query}
        with problems_at(f"{where}: "):
            text = dump_json(row)
        yield Record(where, index + 1, parse_json(text, where))


async def _run(settings: SynthesizeSettings, division: Division, rows: Sequence[Record] | None) -> SynthesisResult:
    settings = resolve_protocol(settings, start_over=settings.start_over)
    if settings.start_over:
        settings = settings.model_copy(update={"refresh": tuple(slot.name for slot in find_slots(settings))})
    prepared, made, parts = prepare(settings, division, rows), build_configs(settings), division.parts
    async with AsyncExitStack() as stack:
        stack.enter_context(rare_collections())
        models = await stack.enter_async_context(open_models(made, settings.concurrency))
        check_priced(models, settings.budget_usd)
        preload_http(models.values() if parts is None and not settings.export_only else ())
        _announce(prepared, models, settings.notice)
        full = (*FULL_FILES, "README.md") if settings.profile == "full" else ()
        files = (*STEP_FILES[:5], *FINAL_FILES, UNFINISHED_FILE, MANIFEST_FILE, *full)
        sources, start_over = settings.list_sources(), settings.start_over
        stack.enter_context(run_folder(prepared.folder, files, sources, start_over=start_over, parts=parts))
        ledger = await stack.enter_async_context(
            locked_ledger(
                prepared.folder,
                "synthesis",
                lambda _: find_other_queries(prepared.folder, prepared.source),
                Opening(settings.wait, settings.start_over, settings.replace, parts),
            )
        )
        workers = None if parts is None else parts.workers
        if workers is not None:
            workers.clear()
        elif parts is not None and parts.is_partial:
            append_step_rows(prepared.folder, parts.folders.values())
        ledger.set_costs(models.values())
        usd, tokens = settings.budget_usd, settings.budget_tokens
        budget = None if usd is None and tokens is None else Budget(usd=usd, tokens=tokens, spent=ledger.sum_spent())
        executor = Executor(ledger, budget, detached=False)
        again = settings.again or ""
        run = SynthesisRun(prepared=prepared, models=models, ledger=ledger, executor=executor, again=again)
        if parts is not None:
            run.seconds_before = measure_seconds(parts)
            run.negotiated = collect_notes((), run.negotiated, parts.negotiated)
            if workers is not None:
                run.ended_early, run.needed = workers.stopped or "", workers.needed
                run.interrupted = workers.interrupted
        if settings.export_only or parts is not None:
            executor.replay("export only", ledger.read_failures())
        # The workers have ended; this run only writes files from their records.
        told = (settings.progress, settings.stop) if workers is None else (None, None)
        await run.run_to_end(*told, run.state)
        if run.refused and not run.has_paid:
            raise InputError(run.summary.stopped, run.advice)
    advice = run.advice if workers is None else workers.advice
    negotiated = merge_negotiated(run.negotiated)
    return SynthesisResult(prepared.folder, run.summary, None, negotiated, run.interrupted, advice)


async def _estimate(
    settings: SynthesizeSettings, division: Division, rows: Sequence[Record] | None
) -> SynthesisResult:
    """Estimate the requests, tokens and cost of the run; sends no request and writes nothing."""
    from autorubric.synthesis.plan_estimate import estimate_run

    settings = resolve_protocol(settings)
    prepared = prepare(settings, division, rows)
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(open_models(build_configs(settings), 1))
        check_priced(models, settings.budget_usd)
        settings.show_stand_ins(prepared.report.rows, [model.name for model in models.values()])
        _announce(prepared, models, settings.notice)
        note_another_run(prepared.folder, "synthesis", lambda _: find_other_queries(prepared.folder, prepared.source))
        ledger = stack.enter_context(open_estimate_ledger(prepared.folder))
        if ledger.folder is None:
            import_steps(prepared.folder, prepared.plan, ledger)
        estimate = await estimate_run(prepared, models, ledger)
    return SynthesisResult(prepared.folder, estimate=estimate)


def _announce(prepared: Prepared, models: Mapping[str, Model], notice: Callable[[str], object] | None) -> None:
    """Pass notes on the input, and on changes since the last run, to `notice`."""
    if notice is None:
        return
    for note in prepared.notes:
        notice(f"note: {note}")
    for problem in prepared.report.skipped:
        notice(f"left out: {problem}")
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
        notice(f"since the last run here, {change}: its requests will be sent again")
