"""`autorubric.grade`: score submissions."""

from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BeforeValidator, PlainValidator, model_validator

from autorubric.core.rubric import Rubric
from autorubric.core.scoring import LengthPenalty
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.item import ROLES
from autorubric.dataset.label_rows import LABEL_ROLES
from autorubric.dataset.label_table import LabelTable
from autorubric.dataset.storage import encode_dataset
from autorubric.errors import InputError
from autorubric.files.json_values import is_missing
from autorubric.files.remote import make_path
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.jobs.job import Columns, RubricSource, blocking, column_setting, job
from autorubric.jobs.judges import GradingSettings, build_experiment_plan, make_grader
from autorubric.jobs.recorded_run import open_estimate_ledger
from autorubric.jobs.submissions import Rows, check_weighed, join_labels, list_rubrics, parse_columns, read_dataset
from autorubric.jobs.upload import check_upload, upload_finished
from autorubric.llm.executor import Executor
from autorubric.llm.models import check_priced, find_stand_in_note
from autorubric.rows import convert_rows
from autorubric.runs.another_run import note_another_run
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, MANIFEST_FILE
from autorubric.runs.plan import ExperimentPlan
from autorubric.runs.result import EvalResult
from autorubric.runs.run import REPLY_TOKENS, estimate, find_next_generation
from autorubric.runs.run_folder import run_folder
from autorubric.runs.runner import run_experiment
from autorubric.runs.shard import ShardPart
from autorubric.runs.summary import EvalTimingStats
from autorubric.runs.tables import FORMATS, VoteColumns, list_columns, read_result_rows, write_table
from autorubric.settings import FileNames, Names, setting

GradeData: TypeAlias = RubricDataset | Path | str | Rows
"""A dataset, the file of a dataset or of rows, or submissions in memory."""


def check_data(value: Any) -> Any:
    """Return the `data` argument with a string converted to a path and a DataFrame to rows; refuse other types."""
    if isinstance(value, str | Path):
        return make_path(value)
    if isinstance(value, RubricDataset):
        return value
    rows = convert_rows(value)
    if not isinstance(rows, list):
        raise ValueError("expected a RubricDataset, a path, a DataFrame, or a list of texts, rows or DataItems")
    for index, row in enumerate(rows):
        if not (isinstance(row, str | DataItem | Mapping) or is_missing(row)):
            kind = type(row).__name__
            raise InputError(f"item {index} is of type {kind}; expected a string, a mapping or a DataItem")
    return [row if isinstance(row, str | DataItem | Mapping) else None for row in rows]


def _check_data(value: Any) -> Any:
    return value if isinstance(value, Rubric) else check_data(value)


def _check_submissions(value: Any) -> Any:
    if isinstance(value, RubricDataset):
        raise ValueError("expected a path or rows; a RubricDataset is passed as data")
    return check_data(value)


def _read_penalty(value: Any) -> LengthPenalty:
    if isinstance(value, LengthPenalty):
        return value
    try:
        free, cap, points = value.split(",")
        return LengthPenalty(free_budget=int(free), max_cap=int(cap), penalty_at_cap=float(points))
    except (AttributeError, ValueError):
        raise ValueError(
            "expected FREE,CAP,POINTS such as 6000,8000,0.5: two numbers of words, the second not below the first, "
            "and the points lost from CAP on"
        ) from None


def _check_formats(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    wrong = [name for name in names if name not in FORMATS]
    if wrong:
        raise InputError(f"{wrong[0]!r} is not one of {', '.join(FORMATS)}")
    return names


class GradeSettings(GradingSettings):
    """The settings of `autorubric.grade` and `autorubric grade`.

    Example:
        >>> GradeSettings(rubric="rubric.json", judge="builtin/offline").judge
        ['builtin/offline']
    """

    command: ClassVar[str] = "grade"
    data: Annotated[GradeData | Rubric, PlainValidator(_check_data)] | None = setting(
        None,
        "Dataset or rows: JSON, YAML, CSV, Parquet, Arrow; - is standard input.",
        flag="DATASET",
        argument=True,
        group="Input",
        reads=True,
    )
    rubric: RubricSource | None = setting(
        None, "Rubric file for all rows of DATASET or --submissions.", group="Input", reads=True
    )
    submissions: Annotated[Path | Any, PlainValidator(_check_submissions)] | None = setting(
        None, "Submissions: rows, a text file, or a directory of texts.", group="Input", reads=True
    )
    prompt: str | None = setting(None, "Prompt of submissions that have none of their own.", group="Input")
    column: Columns = column_setting("Column of rows, or path: submission=turns[0]; repeatable.")
    labels: FileNames = setting((), "Table of labels: id, criterion, label; repeatable.", group="Input")
    annotator: str | None = setting(None, "Annotator whose labels count, or majority.", group="Input")
    limit: int | None = setting(None, "Grade only the first N items.", group="Input", ge=1, le=10**9)
    on_failure: Literal["none", "skip"] = setting("none", "Failed judgment: none (no score), skip.", group="Scoring")
    length_penalty: Annotated[LengthPenalty | str, PlainValidator(_read_penalty)] | None = setting(
        None,
        "Start and end in words; points lost at the end.",
        metavar="FREE,CAP,POINTS",
        group="Scoring",
    )
    fail_under: float | None = setting(
        None, "Exit with status 100 if the mean score is below this.", group="Scoring", ge=0, le=1
    )
    format: Annotated[Names, BeforeValidator(_check_formats)] = setting(
        (), "Write results.FORMAT: json, jsonl, csv or parquet; repeatable.", short="-f", group="Output"
    )
    keep: bool = setting(True, "Keep item results in memory; False reads them from disk when used.", cli=False)

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        roles = self.column if isinstance(self.column, Mapping) else [word.partition("=")[0] for word in self.column]
        if not self.labels and (self.annotator is not None or any(role in LABEL_ROLES for role in roles)):
            raise InputError("--annotator and --column of labels need --labels FILE")
        return self


@job(GradeSettings)
async def grade_async(data: GradeData | Rubric | None, settings: GradeSettings) -> EvalResult:
    """Grade submissions criterion by criterion: by judges, by checks, or both.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice, and failed
    requests are sent again. The keyword arguments are the fields of `GradeSettings`.

    Args:
        data: a dataset, the path of a dataset or of rows, or submissions as strings, as rows such as `{"query": ...,
            "submission": ...}`, or as a pandas DataFrame; pass `rubric=` if rows have none. A rubric is also
            accepted, together with `submissions=`.
        settings: the keyword arguments, as a settings object.

    Returns:
        Scores, reports and cost. With `dry_run=True`, `estimate` has the cost of the run.

    Raises:
        InputError: a setting, a file or a row is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import asyncio, tempfile
        >>> from autorubric import Criterion, Rubric
        >>> rubric = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
        >>> answers = ["Ice is less dense.", "Because water expands when it freezes into ice."]
        >>> graded = grade_async(answers, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> asyncio.run(graded).get_scores()
        [1.0, 0.0]
        >>> rows = [{"query": "Why does ice float?", "submission": answer} for answer in answers]
        >>> graded = grade_async(rows, rubric=rubric, judge="builtin/offline", out=tempfile.mkdtemp())
        >>> asyncio.run(graded).get_scores()
        [1.0, 0.0]
    """
    settings = settings.with_workers()
    dataset, part = _select_own_part(_read_dataset(data, settings), settings)
    penalty = cast("LengthPenalty | None", settings.length_penalty)
    grader = make_grader(settings, on_failure=settings.on_failure, length_penalty=penalty)
    out = Path(settings.out)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(grader))
        stack.enter_context(settings.attempts_logged())
        await check_upload(settings)
        if settings.dry_run:
            return await _estimate_run(dataset, grader, settings)
        files = (DATASET_FILE, ITEMS_FILE, MANIFEST_FILE, *(f"results.{kind}" for kind in FORMATS))
        sources, start_over = settings.list_sources(), settings.start_over
        stack.enter_context(run_folder(out, files, sources, start_over=start_over, parts=settings.parts))
        result = await _grade(dataset, grader, settings, part)
        summary = result.summary
        unfinished = summary is None or len(summary.failures) or summary.ended < summary.total
        await upload_finished(settings, complete=not (unfinished or result.stopped))
        return result


grade = blocking(grade_async)


def _read_dataset(data: GradeData | Rubric | None, settings: GradeSettings) -> RubricDataset:
    columns = parse_columns(settings.column, (*ROLES, *LABEL_ROLES))
    of_labels = {role: columns.pop(role) for role in LABEL_ROLES if role in columns}
    rubric = settings.rubric
    if isinstance(data, Rubric):
        if rubric is not None:
            raise InputError("the rubric is given twice, as the first argument and by name; leave one of them out")
        data, rubric = None, data
    found = read_dataset(data, rubric, settings.submissions, settings.prompt, columns)
    if settings.labels:
        found = join_labels(found, LabelTable(cast("list[Path]", settings.labels), settings.annotator, of_labels))
    check_weighed(list_rubrics(found, rubric or data))
    return found if settings.limit is None else replace(found, items=found.items[: settings.limit])


def _select_own_part(whole: RubricDataset, settings: GradeSettings) -> tuple[RubricDataset, ShardPart | None]:
    """Return the items of this run's shard, and its entry in the manifest; without a shard, all items and None."""
    part = settings.build_division().build_part(lambda: encode_dataset(whole), len(whole))
    if part is None:
        return whole, None
    return replace(whole, items=[whole[place] for place in part.shard.find_places(whole)]), part


def _build_plan(
    dataset: RubricDataset, grader: CriterionGrader, settings: GradeSettings, part: ShardPart | None = None
) -> ExperimentPlan:
    labels = find_stand_in_note(spec.llm_config.model for spec in grader.recipe.specs)
    compared = ("few_shot_examples", "share_equal", "shard")
    return build_experiment_plan(settings, dataset, grader, part, labels=labels, compared=compared)


async def _grade(
    dataset: RubricDataset, grader: CriterionGrader, settings: GradeSettings, part: ShardPart | None
) -> EvalResult:
    plan = replace(
        _build_plan(dataset, grader, settings, part), write_tables=partial(_write_tables, dataset, grader, settings)
    )
    content = encode_dataset(dataset)
    result = await run_experiment(plan, content, progress=settings.progress, stop=settings.stop, keep=settings.keep)
    if result.summary is not None and result.summary.refused:
        raise InputError(result.stopped or "the endpoint refused the run", result.summary.advice)
    return result


def _write_tables(dataset: RubricDataset, grader: CriterionGrader, settings: GradeSettings) -> None:
    """Write the requested tables, and update those of earlier sessions."""
    out = Path(settings.out)
    judges = grader.recipe.describe_settings()["judges"]
    votes = VoteColumns.from_judges({judge["judge_id"]: judge.get("repeats", 1) for judge in judges})
    for kind in (kind for kind in FORMATS if kind in settings.format or (out / f"results.{kind}").exists()):
        rows = read_result_rows(out / ITEMS_FILE, dataset, votes)
        write_table(out / f"results.{kind}", rows, list_columns(votes))


async def _estimate_run(dataset: RubricDataset, grader: CriterionGrader, settings: GradeSettings) -> EvalResult:
    """Return the result of a dry run, which sends no request and writes nothing."""
    models = (await grader.open_session()).models
    check_priced(models, settings.budget_usd)
    settings.show_stand_ins(len(dataset), [model.name for model in models.values()])
    if not settings.replace:
        changes = partial(_build_plan(dataset, grader, settings).find_changes, encode_dataset(dataset))
        note_another_run(Path(settings.out), "evaluation", changes)
    with open_estimate_ledger(Path(settings.out)) as ledger:
        replies = [row for row in ledger.add_up() if row.calls > row.failed]
        calls = sum(row.calls - row.failed for row in replies)
        length = sum(row.usage.completion_tokens for row in replies) / calls if calls else REPLY_TOKENS
        rows = await estimate(
            dataset,
            grader,
            Executor(ledger),
            length,
            share_equal=settings.share_equal,
            generation=find_next_generation(ledger, start_over=settings.start_over),
        )
    now = datetime.now(UTC)
    timing = EvalTimingStats.from_durations([], 0.0)
    return EvalResult([], len(dataset), 0, 0, None, None, timing, now, now, estimate=rows)
