"""`autorubric.improve`: change a rubric where held-out labels show a gain."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import model_validator

from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.errors import ConfigError, InputError, warn
from autorubric.graders.assembly import JudgeSpec
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.improvement.changed_wording import Wording
from autorubric.improvement.improvement_page import summarize
from autorubric.improvement.labelled import LabelledRubric, read_labelled
from autorubric.improvement.run_files import DrawnSplit
from autorubric.improvement.samples import UsedItems, group_items, split_items
from autorubric.improvement.writing import find_places, read_proposals
from autorubric.jobs.job import (
    BatchSettings,
    Columns,
    DatasetSource,
    ResumableSettings,
    RubricSource,
    blocking,
    column_setting,
    job,
)
from autorubric.jobs.judges import JudgeSettings, key_variable, make_grader, reply_limit
from autorubric.jobs.submissions import is_rows, parse_columns, read_dataset, read_rubric
from autorubric.labels.exchange import build_labelled_dataset
from autorubric.labels.label_store import find_labelled_run, read_history
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.accounts import UsageTotals
from autorubric.runs.items_file import read_run
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.plan import describe_grader
from autorubric.settings import FileName, Names, NewDirectory, setting


class ImproveSettings(JudgeSettings, BatchSettings, ResumableSettings):
    """The settings of `autorubric.improve` and `autorubric improve`.

    Example:
        >>> ImproveSettings(judge="builtin/offline", weights=True).weights
        True
    """

    rubric: RubricSource | None = setting(
        None, "Rubric to improve.", flag="RUBRIC", argument=True, group="Input", reads=True
    )
    labels: DatasetSource | None = setting(
        None,
        "Labelled dataset or run; unlabelled: panel agreement.",
        metavar="DATASET",
        group="Input",
        reads=True,
    )
    prompt: str | None = setting(None, "Prompt of submissions that have none of their own.", group="Input")
    column: Columns = column_setting("Column of rows, or path: submission=turns[0]; repeatable.")
    proposals: FileName | None = setting(
        None, "Wordings to try: a list of {criterion, requirement, reason}.", group="Input", reads=True
    )
    group_by: str | None = setting(None, "Metadata key, or prompt; equal values stay in one set.", group="Input")
    used: NewDirectory | None = setting(None, "Record of used items (default: DATASET.used.jsonl).", group="Input")
    undo: Names = setting((), "Revert the change to this criterion of RUBRIC; repeatable.", group="Input")
    writer: str | None = setting(
        None, "Model that writes alternatives: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Search"
    )
    writer_key_env: VariableName | None = key_variable("Environment variable with the writer's API key.", "Search")
    writer_temperature: float = setting(0.7, "Temperature of the writer.", group="Search")
    writer_max_tokens: int = reply_limit(4096, "Maximum tokens per reply of the writer.", "Search")
    criterion: Names = setting((), "Improve only this criterion; repeatable.", group="Search")
    most_criteria: int = setting(3, "Maximum criteria to improve, worst first.", group="Search", ge=1, le=1000)
    candidates: int = setting(4, "Alternatives per criterion and round.", group="Search", ge=1, le=50)
    rounds: int = setting(2, "Rounds of writing; one in a nested split.", group="Search", ge=1, le=20)
    weights: bool = setting(False, "Fit the weights too, as one more change to test.", group="Search")
    score: str | None = setting(None, "Metadata key of a human score (default: the labels).", group="Search")
    measure: Literal["agreement", "ac1", "score_error"] = setting(
        "agreement", "agreement, ac1 (Gwet) or score_error.", group="Statistics"
    )
    confidence_level: float = setting(
        0.95, "Joint confidence level of all accepted changes.", group="Statistics", ge=0.5, le=0.9999
    )
    split: Literal["auto", "three", "nested"] = setting(
        "auto", "three, nested, or auto: nested below 400 groups.", group="Statistics"
    )
    test_judge: Names = setting((), "Second judge, whose agreement must not fall.", group="Judges")
    configs: Mapping[str, LLMConfig] = setting(
        {}, "Full configurations of judges and writer, by the names given for them.", cli=False, record=False
    )
    start_over: bool = setting(False, "Ignore saved replies; needs labels that no run has used.", group="Run")

    def build_specs(self, names: Sequence[str], key_env: str | None, of: str = "", **own: Any) -> list[JudgeSpec]:
        """Return the judges with these model names; a name in `configs` gets the configuration there."""
        others = iter(super().build_specs([name for name in names if name not in self.configs], key_env, of, **own))
        return [JudgeSpec(self.configs[name], name) if name in self.configs else next(others) for name in names]

    @model_validator(mode="after")
    def _check_improvement(self) -> Self:
        if self.undo:
            return self
        problems = []
        if not self.judge:
            problems.append("no judge; pass --judge MODEL")
        if self.writer is None and self.proposals is None and not self.weights:
            problems.append("nothing to try; pass --writer MODEL, --proposals FILE, or --weights")
        if self.few_shot:
            problems.append("--few-shot shows labels to the judge; leave it out of improve")
        if self.calls != "per_criterion":
            problems.append(
                f"--calls {self.calls!a} judges criteria together, so a new wording changes "
                "the other verdicts too; improve needs per_criterion"
            )
        if self.score is not None and not (self.weights or self.measure == "score_error"):
            problems.append("--score needs --weights or --measure score_error")
        if problems:
            raise ConfigError(problems)
        return self

    needs: ClassVar = {
        "--writer MODEL": ("writer_key_env", "writer_temperature", "writer_max_tokens", "candidates", "rounds")
    }

    def build_writer_config(self) -> dict[str, LLMConfig]:
        """Return the configuration of the writer; empty if there is none."""
        if self.writer is None:
            return {}
        how = {"temperature": self.writer_temperature, "max_tokens": self.writer_max_tokens}
        [spec] = self.build_specs([self.writer], self.writer_key_env, "writer-", **how)
        return {"writer": spec.llm_config}

    def build_second_grader(self) -> CriterionGrader | None:
        """Return the second judge of the test set, as a grader; None if there is none.

        Raises:
            InputError: it is one of the judges.
        """
        if not self.test_judge:
            return None
        shared = sorted({*self.test_judge} & {*self.judge})
        if shared:
            raise InputError(f"--test-judge {shared[0]} is also a --judge; choose a different model")
        changed = {"judge": self.test_judge, "escalate_to": (), "escalate_below": None, "quorum": None}
        return make_grader(self.model_copy(update=changed))


@dataclass
class ImproveResult:
    """What `autorubric.improve` returns.

    Attributes:
        rubric: the rubric with the accepted changes; the original one if the run is unfinished.
        record: all trials, measurements and decisions, as in `improvement.json`; empty if unfinished.
        out: the run directory.
        totals: calls, tokens and cost of all sessions.
        estimate: of a dry run.
        stopped: why the run ended early; empty if it did not.
        interrupted: whether it was interrupted.
        again: whether the result of an earlier session was returned.
        items: labelled items that were read.

    Example:
        >>> from autorubric import Criterion
        >>> print(ImproveResult(Rubric([Criterion(requirement="Is brief")]), stopped="the budget is spent"))
        unfinished: the budget is spent
    """

    rubric: Rubric
    record: dict[str, Any] = field(default_factory=dict)
    out: Path = Path()
    totals: Sequence[UsageTotals] = ()
    estimate: list[ModelEstimate] | None = None
    stopped: str = ""
    interrupted: bool = False
    again: bool = False
    items: int = 0

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """The wordings that were accepted, with their evidence."""
        return [test for test in self.record.get("tests", ()) if test["accepted"]]

    def __str__(self) -> str:
        return summarize(self.record) if self.record else f"unfinished: {self.stopped or 'nothing was decided'}"


@dataclass(frozen=True)
class ImprovementInputs:
    """The inputs of an improvement, checked before anything is spent.

    Attributes:
        labelled: the rubric and the labels.
        proposals: the wordings from a file.
        places: the criteria to improve: the named ones or, without a writer, those with a proposal; None lets the run
            choose.
        used: the record of items that earlier runs used.
    """

    labelled: LabelledRubric
    proposals: tuple[Wording, ...]
    places: tuple[int, ...] | None
    used: UsedItems

    @classmethod
    def read(cls, source: Rubric | Path | str, settings: ImproveSettings) -> ImprovementInputs:
        """Read and check the inputs that the settings name.

        Raises:
            InputError: a file is wrong, the labels belong to another rubric or do not vary, or all items are in one
                group.
        """
        rubric = source if isinstance(source, Rubric) else read_rubric(Path(source))
        dataset = _read_labels(rubric, settings)
        labelled = read_labelled(rubric, dataset, group_items(dataset, settings.group_by), settings.score)
        places = find_places(labelled, settings.criterion)
        proposals = [] if settings.proposals is None else read_proposals(Path(settings.proposals), labelled)
        problems = [
            f"criterion {labelled.names[place]!r} has the same label on every item; label items on which it differs"
            for place in places or ()
            if labelled.has_labels and labelled.is_constant(place)
        ]
        if not labelled.has_labels:
            if overlooked := _explain_overlooked_labels(labelled):
                problems.append(overlooked)
            elif len(settings.judge) == settings.repeat == 1:
                problems.append(
                    "the items have no labels, and one judge asked once cannot disagree with itself; label items, "
                    "pass several --judge (Python: judge=), or --repeat 3 (Python: repeat=)"
                )
            if settings.weights or settings.measure != "agreement":
                problems.append(
                    f"--weights and --measure {settings.measure} (Python: measure=) need labels; there are none"
                )
        if settings.writer is None:
            proposed = {wording.place for wording in proposals}
            places = tuple(place for place in places or range(len(rubric)) if place in proposed)
            if not places and not settings.weights:
                problems.append(
                    f"no proposal is for {', '.join(settings.criterion)}, which --criterion (Python: criterion=) "
                    "names; pass --writer MODEL (Python: writer=), or leave --criterion out"
                )
        if problems:
            raise InputError(problems)
        return cls(labelled, tuple(proposals), places, UsedItems(_find_used_path(settings)))

    def draw_split(self, settings: ImproveSettings) -> DrawnSplit:
        """Return the split of the run in the directory, or a new one.

        Raises:
            InputError: too few unused labels are left.
        """
        labels = self.digest_labels()
        drawn = None if settings.start_over or settings.replace else DrawnSplit.read(Path(settings.out), labels)
        if drawn is not None:
            return drawn
        before, held = self.used.read(), self.labelled
        # The last two are in records of earlier versions.
        each = zip(held.digest_texts(), held.digest_texts("keep"), held.digests, strict=True)
        used = [item for item, digests in enumerate(each) if not before.isdisjoint(digests)]
        groups, strata = self.labelled.groups.tolist(), self.labelled.list_strata()
        split = split_items(groups, strata, kind=settings.split, used=used, seed=settings.seed)
        return DrawnSplit(uuid4().hex, split, labels)

    def digest_labels(self) -> str:
        """Return a digest of items, labels and groups."""
        return _digest([self.labelled.digests, self.labelled.truth.tolist(), self.labelled.groups.tolist()])

    def describe_run(self, grader: CriterionGrader, settings: ImproveSettings) -> dict[str, Any]:
        """Return the entries that identify this run among others in its directory."""
        own = ("writer", "candidates", "rounds", "most_criteria", "measure", "confidence_level", "split", "seed")
        return {
            "rubric": _digest(self.labelled.rubric.to_dict()),
            "labels": self.digest_labels(),
            "proposals": _digest([wording.to_dict() for wording in self.proposals]),
            "judges": sorted(grader.judge_ids),
            "grader": _digest({**describe_grader(grader), "stand_ins": None, "judges": None}),
            "test_judge": list(settings.test_judge),
            "criterion": list(settings.criterion),
            **{name: getattr(settings, name) for name in own},
            "weights": settings.weights,
            "score": settings.score,
            "temperatures": [settings.temperature, settings.writer_temperature],
            **({"configs": _digest(_list_reply_fields(settings.configs))} if settings.configs else {}),
        }


def _list_reply_fields(configs: Mapping[str, LLMConfig]) -> list[list[Any]]:
    """List the configuration fields that affect replies; addresses, keys and limits may differ in a resumed run."""
    fields = ("model", "temperature", "max_tokens", "top_p", "thinking", "seed", "extra_params")
    return [[name, *(getattr(config, field) for field in fields)] for name, config in sorted(configs.items())]


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _read_labels(rubric: Rubric, settings: ImproveSettings) -> RubricDataset:
    labels = settings.labels
    assert labels is not None
    columns = parse_columns(settings.column)
    if isinstance(labels, RubricDataset):
        return labels
    if run := _find_labelled_run(Path(labels)):
        graded, history = read_run(run).dataset, read_history(run)
        return build_labelled_dataset(history, graded) if history.labelled() else graded
    common = rubric if is_rows(Path(labels), rubric_given=True) else None
    return read_dataset(labels, common, None, settings.prompt, columns)


def _find_labelled_run(labels: Path) -> Path | None:
    """Return the run directory that `labels` names, directly or as the path of its label store; else None."""
    run = find_labelled_run(labels) or labels
    is_run = os.path.isfile(run / MANIFEST_FILE)  # noqa: PTH113 (a name that is too long is not an error)
    return run.resolve() if is_run else None


def _explain_overlooked_labels(labelled: LabelledRubric) -> str:
    """Return an error message if columns named like criteria may be overlooked labels; else an empty string."""
    columns = set[str]().union(*(item.metadata for item in labelled.dataset))
    named = [name for name in labelled.names if name in columns]
    if not named:
        return ""
    example = json.dumps(dict(zip(labelled.names, ("MET", "UNMET"), strict=False)), ensure_ascii=False)
    return (
        f"no item has labels, but the metadata has {', '.join(map(repr, named[:3]))}, named like criteria; labels "
        f"are read from ground_truth: a list in the order of the criteria, or a mapping such as {example}; name "
        "another column with --column labels=NAME (Python: column=)"
    )


def _find_used_path(settings: ImproveSettings) -> Path:
    if settings.used is not None:
        return Path(settings.used)
    own, labels = Path(settings.out) / "used.jsonl", settings.labels
    if not isinstance(labels, Path):
        return own
    source = _find_labelled_run(labels) or (labels.resolve() if labels.is_dir() else labels)
    if source.name != "-" and (source.is_file() or source.is_dir()):
        return source.with_name(f"{source.name}.used.jsonl")
    warn(f"used items are recorded in {own}; pass the same --used FILE (Python: used=) to all runs on these labels")
    return own


@job(ImproveSettings)
async def improve_async(rubric: RubricSource | None, settings: ImproveSettings) -> ImproveResult:
    """Improve a rubric's wordings and weights; a change is accepted only on labels that were not used to find it.

    The labelled items are split by group. The writer sees the judge's errors on the teaching set, its
    alternatives are compared on the choosing set, and the best of each criterion is tested once on the test set. The
    original stays unless the confidence interval of the gain lies above 0, corrected for the number of tests.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice. The test set
    is used once; the items that a run used are recorded and never decide again.

    Args:
        rubric: the rubric, or its file.
        settings: the keyword arguments, as a settings object.

    Returns:
        The rubric, all trials and decisions, and the cost. With `dry_run=True`, `estimate` has
        the cost; with `undo=`, changes of the rubric are reverted.

    Raises:
        InputError: a setting, a file or a label is wrong, there are too few labels, or a key or model was refused;
            nothing was spent.

    Example:
        >>> from autorubric import Criterion, Rubric
        >>> improve(Rubric([Criterion(requirement="Is brief")]), judge="builtin/offline", writer="builtin/offline")
        Traceback (most recent call last):
        autorubric.errors.InputError: no labelled items; pass --labels DATASET (Python: labels=)
    """
    from autorubric.jobs.improve_run import estimate_improvement, run_improvement, undo_changes

    if rubric is None:
        raise InputError("no rubric; pass RUBRIC (Python: the first argument)")
    if settings.undo:
        return undo_changes(rubric, settings.undo, Path(settings.out))
    if settings.labels is None:
        raise InputError("no labelled items; pass --labels DATASET (Python: labels=)")
    inputs = ImprovementInputs.read(rubric, settings)
    if settings.dry_run:
        return await estimate_improvement(inputs, settings)
    return await run_improvement(inputs, settings)


improve = blocking(improve_async)
