"""`autorubric.improve`: a rubric and labelled items in, a rubric with proven changes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from autorubric.dataset import RubricDataset
from autorubric.errors import ConfigError, InputError
from autorubric.graders.assembly import JudgeSpec
from autorubric.improvement.labelled import Labelled
from autorubric.improvement.search import SHOWN_ERRORS, Case, Commission
from autorubric.improvement.wording import original
from autorubric.improvement.writing import build_request, package_writer_prompt
from autorubric.jobs.batching import BatchSettings
from autorubric.jobs.improve_inputs import Inputs, Result, second_grader, writer_config
from autorubric.jobs.improve_run import improved, undone
from autorubric.jobs.job import DatasetSource, ReplaceableSettings, RubricSource, blocking, job
from autorubric.jobs.judges import JudgeSettings, make_grader
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.llm.request import Model
from autorubric.runs.progress import RunState
from autorubric.runs.run import REPLY_TOKENS, estimate
from autorubric.runs.run_folder import LEDGER_FOLDER
from autorubric.settings import FileName, Names, NewDirectory, setting

ImproveResult = Result


class ImproveSettings(JudgeSettings, BatchSettings, ReplaceableSettings):
    """The settings of `autorubric.improve` and `autorubric improve`."""

    rubric: RubricSource | None = setting(
        None, "Rubric to improve.", flag="RUBRIC", argument=True, group="Input", reads=True
    )
    labels: DatasetSource | None = setting(
        None,
        "Labelled items: a dataset, or rows with labels. Without labels a panel's agreement counts instead.",
        metavar="DATASET",
        group="Input",
        reads=True,
    )
    prompt: str | None = setting(None, "Prompt that the submissions respond to.", group="Input")
    column: Mapping[str, str] | Sequence[str] = setting(
        (), "Column of rows, such as submission=answer; repeatable.", metavar="ROLE=NAME", group="Input"
    )
    proposals: FileName | None = setting(
        None, "Wordings to try: a list of {criterion, requirement, reason}.", group="Input", reads=True
    )
    group_by: str | None = setting(
        None, "Metadata key, or prompt: items with the same value stay in one set.", group="Input"
    )
    used: NewDirectory | None = setting(
        None, "Record of the items that earlier runs used (default: DATASET.used.jsonl).", group="Input"
    )
    undo: Names = setting((), "Take back the change of this criterion of RUBRIC; repeatable.", group="Input")
    writer: str | None = setting(
        None, "Model that writes alternatives: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Search"
    )
    writer_key_env: VariableName | None = setting(
        None, "Environment variable with the writer's API key.", group="Search", hidden=True, secret=True
    )
    writer_temperature: float = setting(0.7, "Temperature of the writer.", group="Search")
    writer_max_tokens: int = setting(4096, "Maximum reply of the writer.", group="Search", ge=1, le=10_000_000)
    criterion: Names = setting((), "Work on this criterion only; repeatable.", group="Search")
    most_criteria: int = setting(
        3, "Criteria to work on, those with the most disagreement.", group="Search", ge=1, le=1000
    )
    candidates: int = setting(4, "Alternatives per criterion and round.", group="Search", ge=1, le=50)
    rounds: int = setting(2, "Rounds of writing; with few labels one.", group="Search", ge=1, le=20)
    weights: bool = setting(False, "Fit the weights too, as one more change to test.", group="Search")
    score: str | None = setting(
        None, "Metadata key of a person's score in [0, 1] (default: labels times weights).", group="Search"
    )
    measure: Literal["agreement", "ac1", "score_error"] = setting(
        "agreement", "What has to rise: agreement, ac1 (Gwet), or score_error, which has to fall.", group="Statistics"
    )
    confidence_level: float = setting(
        0.95, "Confidence of all accepted changes together.", group="Statistics", ge=0.5, le=0.9999
    )
    split: Literal["auto", "three", "nested"] = setting(
        "auto", "Sets: three, nested (few labels), or auto by their number.", group="Statistics"
    )
    test_judge: Names = setting(
        (), "Second judge of the test set, of another family; it must not agree less.", group="Judges"
    )
    configs: Mapping[str, LLMConfig] = setting(
        {}, "Full configurations of judges and writer, by the names given for them.", cli=False, record=False
    )
    start_over: bool = setting(
        False, "Ignore saved replies and start over; needs labels that no run has used yet.", group="Run"
    )
    dry_run: bool = setting(False, "Print requests, tokens and cost; spend nothing.", group="Budget")

    def specs(self, names: Sequence[str], common: Mapping[str, Any], of: str = "") -> list[JudgeSpec]:
        """The models of these names, as `configs` describes them where it does."""
        others = iter(super().specs([name for name in names if name not in self.configs], common, of))
        return [JudgeSpec(self.configs[name], name) if name in self.configs else next(others) for name in names]

    @model_validator(mode="after")
    def _check_improvement(self) -> Self:
        if self.undo:
            return self
        problems = []
        if not self.judge:
            problems.append("no judge; pass --judge MODEL (Python: judge=)")
        if self.writer is None and self.proposals is None and not self.weights:
            problems.append("nothing to try; pass --writer MODEL (Python: writer=), --proposals FILE, or --weights")
        if self.few_shot:
            problems.append("--few-shot (Python: few_shot=) shows labels to the judge; leave it out of improve")
        if self.calls != "per_criterion":
            problems.append(
                f"--calls {self.calls!a} (Python: calls=) judges criteria together, so a new wording changes "
                "the other verdicts too; improve needs per_criterion"
            )
        if self.score is not None and not (self.weights or self.measure == "score_error"):
            problems.append("--score (Python: score=) needs --weights or --measure score_error")
        if problems:
            raise ConfigError(problems)
        return self


@job(ImproveSettings)
async def improve_async(rubric: RubricSource | None, settings: ImproveSettings) -> Result:
    """Improve a rubric's wordings and weights; a change is accepted only on labels that were not used to find it.

    The labelled items are shared out by group. The writer sees the judge's errors on the teaching set, its
    alternatives are compared on the choosing set, and the best of each criterion is tested once on the test set. The
    original stays unless the confidence interval of the gain lies above 0, corrected for the number of tests.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice. The test set
    is opened once; the items that a run used are recorded and never decide again.

    Args:
        rubric: the rubric, or its file.
        settings: the keyword arguments, as one model.

    Returns:
        The rubric, what was tried and decided, and the cost. With `dry_run=True` its `estimate` says what it would
        cost; with `undo=` the rubric has changes taken back.

    Raises:
        InputError: a setting, a file or a label is wrong, there are too few labels, or a key or model was refused;
            nothing was spent.

    Example:
        >>> from autorubric import Criterion, Rubric
        >>> improve(Rubric([Criterion(requirement="Is brief")]), judge="builtin/offline", writer="builtin/offline")
        Traceback (most recent call last):
        autorubric.errors.InputError: no labelled items; pass --labels DATASET (Python: labels=)
    """
    if rubric is None:
        raise InputError("no rubric; pass RUBRIC (Python: the first argument)")
    if settings.undo:
        return undone(rubric, settings.undo, Path(settings.out))
    if settings.labels is None:
        raise InputError("no labelled items; pass --labels DATASET (Python: labels=)")
    inputs = Inputs.read(rubric, settings)
    if settings.dry_run:
        return await estimated(inputs, settings)
    return await improved(inputs, settings)


improve = blocking(improve_async)

__all__ = ["ImproveResult", "ImproveSettings", "RubricDataset", "RubricSource", "improve", "improve_async"]


_TOKENS_AN_ALTERNATIVE = 150


async def estimated(inputs: Inputs, settings: ImproveSettings) -> Result:
    """The calls that the run would make, model by model; nothing is asked and nothing is written."""
    grader, second, out = make_grader(settings), second_grader(settings), Path(settings.out)
    split, labelled = inputs.drawn(settings).split, inputs.labelled
    criteria = len(labelled.rubric)
    worked = min(settings.most_criteria, criteria) if inputs.places is None else len(inputs.places)
    wordings, extra = _gradings(settings, worked, len(inputs.proposals), split.is_nested)
    teach, choose, test = len(split.teach), len(split.choose), len(split.test)
    scored = settings.weights or settings.measure == "score_error"
    gradings = (teach + choose) * criteria + wordings * teach + (choose or test) * worked + extra * (choose or test)
    gradings += test * ((criteria if scored else worked) + (0 if split.is_nested else worked))
    rows: list[ModelEstimate] = []
    folder = out / LEDGER_FOLDER
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory())
        for one, count in ((grader, gradings), (second, 2 * worked * test)):
            if one is None:
                continue
            await stack.enter_async_context(aclosing(one))
            each = await estimate(labelled.dataset, one, Executor(Ledger.in_memory()), REPLY_TOKENS)
            rows += [row.scale(round(row.calls * count / (len(labelled) * criteria))) for row in each]
        writers = await stack.enter_async_context(open_models(writer_config(settings), 1))
        if settings.progress is not None:
            models = [*(await grader.open_session()).models.values(), *writers.values()]
            notes = stand_ins(model.name for model in models)
            settings.progress(RunState(len(labelled), 0, [], 0, 0, 0, 0.0, stand_ins=notes))
        for model in writers.values():
            rounds = 1 if split.is_nested else settings.rounds
            rows.append(_writer_row(model, labelled, settings).scale(worked * rounds))
        recorded = ledger.count
    if recorded and rows:
        rows[0] = replace(rows[0], recorded=recorded)
    return Result(labelled.rubric, {}, out, estimate=rows, items=len(labelled))


def _gradings(settings: ImproveSettings, worked: int, proposals: int, nested: bool) -> tuple[int, float]:
    """Wordings graded on the teaching set, and how many whole choosing (or nested test) sets the survivors take."""
    written = 0 if settings.writer is None else worked * settings.candidates * (1 if nested else settings.rounds)
    wordings = written + proposals
    return wordings, wordings * 0.5 if nested else wordings * (0.5 * 0.5 + 0.25 * 0.5)


def _writer_row(model: Model, labelled: Labelled, settings: ImproveSettings) -> ModelEstimate:
    longest = sorted(range(len(labelled)), key=lambda item: -len(labelled.dataset[item].submission))
    cases = [Case(item, "MET", "UNMET", "x" * 200) for item in longest[: SHOWN_ERRORS + SHOWN_ERRORS // 2]]
    commission = Commission(original(labelled.rubric, 0), cases, [], settings.candidates, 1)
    row = ModelEstimate(model)
    row.add(
        build_request(package_writer_prompt(), labelled, commission), _TOKENS_AN_ALTERNATIVE * settings.candidates
    )
    return row
