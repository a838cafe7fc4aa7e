"""`autorubric.select`: training data from scored candidate answers."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, cast

from pydantic import PlainValidator, model_validator

from autorubric.errors import ConfigError, InputError, problems_at, warn
from autorubric.files.remote import make_path
from autorubric.jobs.job import Columns, blocking, column_setting, job
from autorubric.jobs.judges import GradingSettings, key_variable, make_grader, reply_limit
from autorubric.jobs.selection_run import (
    Sampling,
    Selection,
    SelectionResult,
    estimate_selection,
    is_run_directory,
    run_selection,
)
from autorubric.jobs.selection_run import select_from_run as from_run
from autorubric.jobs.submissions import check_weighed, parse_columns
from autorubric.jobs.upload import check_upload, upload_finished
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.secrets import VariableName
from autorubric.runs.manifest import load_manifest
from autorubric.runs.result import EvalResult
from autorubric.settings import FileName, Names, NewDirectory, setting
from autorubric.training.candidates import CandidateAnswer, check_candidates, list_answers, read_candidates
from autorubric.training.queries import RubricQuery, read_queries
from autorubric.training.selection import KeepRule, parse_keep
from autorubric.training.trainer_files import check_trainers

SelectData: TypeAlias = EvalResult | Path | str
"""The result or the run directory of a finished grading run, or a file of queries with rubrics."""

_ROLES = ("query", "rubric", "id", "submission")
_OF_GRADED_RUNS = frozenset({"data", "out", "replace", "upload", "threshold", "keep", "margin", "trainer", "limit"})


def _check_data(value: Any) -> Path:
    if isinstance(value, EvalResult) and value.experiment_dir is not None:
        return value.experiment_dir
    if isinstance(value, str | Path):
        return make_path(value)
    raise ValueError(
        "expected the path of queries with rubrics or of a graded run, or the EvalResult of a run with a directory"
    )


if TYPE_CHECKING:
    _Data: TypeAlias = SelectData
else:  # pydantic would inspect the fields of EvalResult
    _Data = Annotated[Path, PlainValidator(_check_data)]


class SelectSettings(GradingSettings):
    """The settings of `autorubric.select` and `autorubric select`.

    Example:
        >>> SelectSettings(data="rubrics.jsonl", k=4, sample="builtin/offline").k
        4
    """

    command: ClassVar[str] = "select"
    data: _Data = setting(
        ...,
        "Queries with rubrics (dataset or rows), or a run of `autorubric grade`.",
        argument=True,
        group="Input",
        reads=True,
    )
    candidates: FileName | None = setting(
        None, "Candidate answers: rows of id or query, and answer(s).", group="Input", reads=True
    )
    column: Columns = column_setting("Column of rows: query, rubric, id or answer; repeatable.")
    skip_bad_rows: bool = setting(False, "Skip rows that cannot be used, with a note.", group="Input")
    limit: int | None = setting(None, "Use only the first N queries.", short="-n", group="Input", ge=1, le=10**9)
    sample: Names = setting((), "Writer of candidates: MODEL[@BASE_URL]; repeatable.", group="Sampling")
    k: int = setting(6, "Candidates per query from each --sample model.", flag="-k", group="Sampling", ge=1, le=1000)
    sample_temperature: float = setting(1.0, "Temperature of the --sample models.", group="Sampling")
    sample_max_tokens: int = reply_limit(8192, "Maximum tokens per candidate.", "Sampling")
    sample_key_env: VariableName | None = key_variable(
        "Environment variable with the API key of --sample models.", "Sampling", hidden=False
    )
    threshold: float = setting(0.6, "Keep scores strictly above this, in [0, 1].", group="Selection")
    keep: str = setting("best", "best, all, top-N, or pairs (for DPO).", group="Selection")
    margin: float = setting(0.1, "Minimum score difference of a pair.", group="Selection")
    trainer: Names = setting(
        (), "Files for ruft, chat, llamafactory or trl; repeatable (default: all).", group="Output"
    )
    out: NewDirectory = setting("selection", "Run directory; the same command resumes.", short="-o", group="Run")

    needs: ClassVar = {
        "--sample MODEL": ("k", "sample_temperature", "sample_max_tokens", "sample_key_env"),
        "--keep=pairs": ("margin",),
    }

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        with problems_at("--"):  # keep and threshold, as flags
            self.build_rule()
        check_trainers(self.trainer)
        if self.sample and self.candidates is not None:
            raise InputError("--candidates and --sample are mutually exclusive; pass one of them")
        return self

    def build_rule(self) -> KeepRule:
        """Return the rule for what to keep."""
        return parse_keep(self.keep, self.threshold, self.margin)

    def list_judge_settings(self) -> tuple[str, ...]:
        """Return the settings that need a judge; models that write candidates also use endpoint settings."""
        shared = {"base_url", "api_key_env", "allow_plain_http", "max_tokens_ceiling"} if self.sample else set()
        return tuple(name for name in super().list_judge_settings() if name not in shared)


@job(SelectSettings)
async def select_async(data: SelectData, settings: SelectSettings) -> SelectionResult:
    """Select answers to train on: score candidates by their rubric, and keep the best above a threshold.

    The scores of a finished run of `grade` are used as they are; nothing is graded again. Otherwise candidates come
    from a file, from the data itself, or from the models of `sample`.

    Args:
        data: a run directory of `grade` or its result, or a file of queries with rubrics.
        settings: the keyword arguments, as a settings object.

    Returns:
        The selected answers with statistics; the files for trainers are in `settings.out`.

    Raises:
        InputError: a setting, a file or a row is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> asyncio.run(select_async("no-such-file.jsonl", out=tempfile.mkdtemp()))
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: Data not found: no-such-file.jsonl
    """
    path, trainers = cast("Path", data), check_trainers(settings.trainer)
    if is_run_directory(path):
        _refuse_unused(settings, path)
        await check_upload(settings)
        return await _upload(from_run(path, settings.build_rule(), trainers, settings), settings)
    settings = settings.with_workers()
    grader = make_grader(settings)
    sampling = Sampling(_build_samplers(settings), settings.k) if settings.sample else None
    queries, candidates, skipped = _read_inputs(settings, path)
    part = settings.build_division().build_part(partial(_serialize_inputs, queries, candidates), len(queries))
    if part is not None:
        queries = [query for query in queries if part.shard.has(query.text, None)]
        candidates = _join_candidates(queries, candidates)
    taken = candidates if sampling is None else sampling
    selection = Selection(queries, taken, grader, settings.build_rule(), skipped, settings, trainers, part)
    async with aclosing(grader):
        with settings.attempts_logged():
            await check_upload(settings)
            if settings.dry_run:
                return await estimate_selection(selection)
            return await _upload(await run_selection(selection), settings)


select = blocking(select_async)


async def _upload(result: SelectionResult, settings: SelectSettings) -> SelectionResult:
    ended_early = result.stopped or result.interrupted or result.failures
    await upload_finished(settings, complete=result.written is not None and not ended_early)
    return result


def _refuse_unused(settings: SelectSettings, run: Path) -> None:
    shown = (name for name, flag in type(settings).list_flags().items() if flag.shown and name not in _OF_GRADED_RUNS)
    if unused := settings.list_given_flags(shown):
        load_manifest(run)  # refuses a run of another kind
        raise ConfigError(
            f"{', '.join(unused)}: {run} is a finished grading run, whose answers and scores are used as they are; "
            f"leave these flags out, or pass {run / 'dataset.json'} to grade again"
        )


def _build_samplers(settings: SelectSettings) -> dict[str, LLMConfig]:
    """Return the configuration of each model that writes candidates, by name."""
    how = {"temperature": settings.sample_temperature, "max_tokens": settings.sample_max_tokens}
    configs: dict[str, LLMConfig] = {}
    for spec in settings.build_specs(settings.sample, settings.sample_key_env, "sample-", **how):
        if spec.judge_id in configs:
            raise ConfigError(f"--sample has {spec.judge_id!r} twice; to get more answers from one model, raise -k")
        configs[spec.judge_id] = spec.llm_config
    return configs


def _read_inputs(settings: SelectSettings, path: Path) -> tuple[list[RubricQuery], list[CandidateAnswer], list[str]]:
    """Read the usable queries, their candidates, and the reasons why other queries are unusable."""
    columns = parse_columns(settings.column, _ROLES)
    file = None if settings.candidates is None else Path(settings.candidates)
    answer = {role: columns.pop(role) for role in ("submission",) if file is not None and role in columns}
    found = read_queries(path, columns)
    problems, queries = found.problems, found.queries
    candidates: list[CandidateAnswer] = []
    if not settings.sample:
        candidates = (
            list_answers(queries) if file is None else read_candidates(file, queries, problems, answer, found.notes)
        )
        if file is None and queries and not candidates:
            raise InputError(
                "nothing to select from; pass --candidates FILE, or --sample MODEL (in Python: candidates, sample); "
                "FILE may be the data itself, if its rows have lists of answers"
            )
    for note in found.notes:
        warn(note)
    queries = queries[: settings.limit]
    if not settings.sample:
        queries, missing = check_candidates(queries, candidates, str(file or path))
        problems = [*problems, *missing]
    if problems and not settings.skip_bad_rows:
        raise InputError(
            problems, "correct these rows, or leave them out with --skip-bad-rows (in Python: skip_bad_rows=True)"
        )
    if not queries:
        raise InputError([f"{path}: no query can be used", *problems])
    bare = [query for query in queries if any(criterion.check is None for criterion in query.rubric)]
    if bare and not settings.judge:  # one error, not one per criterion
        count = f"{len(bare)} of {len(queries)} queries"
        raise InputError(f"{count} have criteria without a check, the first in {bare[0].where}; pass --judge MODEL")
    check_weighed((query.where or query.id, query.rubric) for query in queries)
    return queries, _join_candidates(queries, candidates), problems


def _join_candidates(queries: Sequence[RubricQuery], candidates: Sequence[CandidateAnswer]) -> list[CandidateAnswer]:
    wanted = {query.id for query in queries}
    return [candidate for candidate in candidates if candidate.query in wanted]


def _serialize_inputs(queries: Sequence[RubricQuery], candidates: Sequence[CandidateAnswer]) -> bytes:
    """Return the inputs of a selection as bytes; equal inputs give equal bytes."""
    asked = [[query.id, query.turns, query.rubric.to_dict(), query.source] for query in queries]
    return json.dumps([asked, [astuple(candidate) for candidate in candidates]]).encode()
