"""The module of AutoRubric 1.6 for rubric improvement, as thin code over `autorubric.improve`.

A meta-rubric assesses a rubric; `autorubric.review` gives more.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from autorubric.core.judgment import CriterionVerdict
from autorubric.core.report import EnsembleEvaluationReport
from autorubric.core.rubric import Rubric
from autorubric.core.usage import UnknownCost
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError
from autorubric.files import write_atomically
from autorubric.graders.assembly import JudgeSpec
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.improvement.improvement_record import build_improved_rubric
from autorubric.improvement.published import (
    ImprovementConfig,
    ImprovementResult,
    IssueDetail,
    IterationResult,
    check_config,
)
from autorubric.jobs.improve import ImproveResult, improve_async
from autorubric.llm.config import LLMConfig
from autorubric.reviewing.principles import as_submission, build_meta_rubric, list_principles
from autorubric.runs.progress import ProgressDisplay

_TASK = "Assess the rubric in the submission: would LLM judges grade with it reliably?"


class ImprovementRunner:
    """Improves a rubric as `config` says; see `improve_rubric`.

    Example:
        >>> from autorubric import Criterion
        >>> judge = LLMConfig("builtin/offline")
        >>> config = ImprovementConfig(eval_llm=judge, revision_llm=judge)
        >>> ImprovementRunner(Rubric([Criterion(requirement="Is brief")]), config=config).config.mode
        'in_context'
    """

    def __init__(
        self, rubric: Rubric, task_prompt: str | None = None, *, config: ImprovementConfig | None = None
    ) -> None:
        if config is None:
            raise InputError("ImprovementRunner needs config=ImprovementConfig(eval_llm=…, revision_llm=…)")
        self.rubric = rubric
        self.task_prompt = task_prompt
        self.config = config

    async def run(self) -> ImprovementResult:
        """Return the improved rubric, or the original if no wording was proven better.

        Raises:
            InputError: an argument or label is wrong, or there are too few labels; nothing was spent.
        """
        config = self.config
        check_config(config, self.task_prompt)
        with ExitStack() as stack:
            kept = config.save_artifacts
            out = _choose_directory(config) if kept else Path(stack.enter_context(TemporaryDirectory()), "run")
            if config.validation_data is None:
                return await self._assess(out)
            progress = stack.enter_context(ProgressDisplay(delay=5.0)) if config.show_progress else None
            found = await improve_async(
                self.rubric,
                labels=self._prepare_items(config.validation_data),
                **_build_models(config),
                rounds=config.max_iterations,
                budget_usd=config.max_total_cost,
                out=out,
                progress=progress,
            )
        if config.display == "stdout":
            print(found)
        return _build_result(self.rubric, found)

    def _prepare_items(self, items: RubricDataset) -> RubricDataset:
        """Return the items with the given prompt; their own rubric is used only if they have labels on it."""
        own = items.rubric if any(item.ground_truth is not None for item in items) else self.rubric
        return replace(items, prompt=self.task_prompt or items.prompt, rubric=own)

    async def _assess(self, out: Path) -> ImprovementResult:
        """Return the rubric with its issues; without submissions, no wording can be proven better."""
        config = self.config
        judge = config.eval_llm if isinstance(config.eval_llm, LLMConfig) else config.eval_llm[0].llm_config
        judge = _limit_tokens(judge, 2048)
        grader = CriterionGrader(judge_model_config=judge, run_dir=out, budget_usd=config.max_total_cost)
        try:
            task = self.task_prompt if config.mode == "in_context" else None
            report = await _grade_rubric(self.rubric, task, grader)
        finally:
            await grader.aclose()
        if report.score is None:
            raise RuntimeError(f"the rubric could not be assessed: {report.error}")
        first = IterationResult(
            0,
            self.rubric,
            report.score,
            None,
            None,
            issues=list(_find_issues(report)),
            quality_report=report,
            token_usage=report.token_usage,
            completion_cost=report.completion_cost,
        )
        if config.display == "stdout":
            print(f"score {report.score:.2f}, {len(first.issues)} issues; no validation_data, so nothing was changed")
        rubric, cost = self.rubric, report.completion_cost
        return ImprovementResult(rubric, rubric, [first], rubric, 0, "no_validation_data", cost)


_SETTINGS = frozenset(field.name for field in fields(ImprovementConfig))


async def improve_rubric(  # noqa: PLR0913 (published signature)
    rubric: Rubric,
    task_prompt: str | None = None,
    *,
    config: ImprovementConfig | None = None,
    eval_llm: LLMConfig | list[JudgeSpec] | None = None,
    revision_llm: LLMConfig | None = None,
    validation_data: RubricDataset | None = None,
    max_iterations: int | None = None,
    display: Literal["stdout", "html"] | None = None,
    artifacts_dir: Path | str | None = None,
    save_artifacts: bool | None = None,
    show_progress: bool | None = None,
    mode: Literal["standalone", "in_context"] | None = None,
    max_total_cost: float | None = None,
    strategy: Literal["meta_rubric", "held_out"] | None = None,
) -> ImprovementResult:
    """Improve a rubric; a wording is accepted only on labels that were not used to find it.

    Labelled `validation_data` is split into teaching, choosing and test sets. Without labels, a panel's agreement
    decides; without submissions, the rubric is only assessed.

    Args:
        rubric: the rubric to improve.
        task_prompt: the task that submissions respond to.
        config: the settings; keyword arguments other than None override its fields.
        eval_llm: the judge, or several as a panel.
        revision_llm: the model that writes alternatives.
        validation_data: submissions to decide on.
        max_iterations: rounds of writing.
        display: `stdout` prints what was decided.
        artifacts_dir: the run directory.
        save_artifacts: whether to keep it.
        show_progress: show the progress of the run.
        mode: see `ImprovementConfig`.
        max_total_cost: the budget in dollars.
        strategy: `held_out` requires labels on every item.

    Raises:
        InputError: an argument or label is wrong, or there are too few labels; nothing was spent.

    Example:
        >>> import asyncio
        >>> from autorubric import Criterion
        >>> offline = LLMConfig("builtin/offline")
        >>> made = asyncio.run(improve_rubric(
        ...     Rubric([Criterion(requirement="Names the year 1926.")]), "When was it founded?",
        ...     eval_llm=offline, revision_llm=offline, save_artifacts=False))
        >>> made.convergence_reason, made.final_rubric[0].requirement
        ('no_validation_data', 'Names the year 1926.')
    """
    given = {name: value for name, value in locals().items() if name in _SETTINGS and value is not None}
    if config is None:
        if missing := [name for name in ("eval_llm", "revision_llm") if name not in given]:
            raise InputError(f"improve_rubric needs config=, or eval_llm= and revision_llm=; missing: {missing}")
        config = ImprovementConfig(**given)
    else:
        config = replace(config, **given)
    return await ImprovementRunner(rubric, task_prompt, config=config).run()


def _choose_directory(config: ImprovementConfig) -> Path:
    if config.artifacts_dir is not None:
        return Path(config.artifacts_dir)
    return Path("experiments") / f"rubric_improvement_{datetime.now():%Y%m%d_%H%M%S}"


def _build_models(config: ImprovementConfig) -> dict[str, Any]:
    """Judges and writer as arguments of `improve`."""
    judges = config.eval_llm
    if isinstance(judges, LLMConfig):
        judges = [JudgeSpec(judges, judges.model)]
    configs = {judge.judge_id: _limit_tokens(judge.llm_config, 2048) for judge in judges}
    writer = config.revision_llm.model
    while writer in configs:
        writer += " (revision)"
    configs[writer] = _limit_tokens(config.revision_llm, 4096)
    return {"judge": [judge.judge_id for judge in judges], "writer": writer, "configs": configs}


def _limit_tokens(config: LLMConfig, max_tokens: int) -> LLMConfig:
    """Return the configuration with a limit on its replies, which a budget needs for reservations."""
    return config if config.max_tokens else replace(config, max_tokens=max_tokens, max_tokens_fixed=False)


def _find_issues(report: EnsembleEvaluationReport) -> Iterator[IssueDetail]:
    for entry in report.report or ():
        fault = entry.criterion.weight < 0
        if entry.final_verdict is (CriterionVerdict.MET if fault else CriterionVerdict.UNMET):
            criterion = entry.criterion
            yield IssueDetail(
                criterion.name or "", criterion.requirement, criterion.weight, fault, entry.final_reason or ""
            )


def _build_result(original: Rubric, found: ImproveResult) -> ImprovementResult:
    iterations = list(_build_iterations(original, found.record)) if found.record else []
    best = max((iteration.iteration for iteration in iterations if iteration.accepted), default=0)
    known = not any(totals.unpriced for totals in found.totals)
    cost = sum(totals.cost for totals in found.totals) if known else UnknownCost()
    reason = "all_tested" if found.record else found.stopped or "interrupted"
    return ImprovementResult(original, found.rubric, iterations, found.rubric, best, reason, cost)


def _build_iterations(original: Rubric, record: Mapping[str, Any]) -> Iterator[IterationResult]:
    """Yield the original, then each tested wording together with those accepted before it."""
    tests: Sequence[Mapping[str, Any]] = record["tests"]
    reached = {test["criterion"]: test["before"] for test in tests} or dict(record["agreement"])
    yield _build_iteration(0, original, reached)
    accepted = list[Mapping[str, Any]]()
    for number, test in enumerate(tests, 1):
        tried = [*accepted, test]
        after = {**reached, test["criterion"]: test["after"]}
        made = {**record, "tests": [{**test, "accepted": True} for test in tried], "weights": None}
        iteration = _build_iteration(number, build_improved_rubric(original, made), after)
        if test["accepted"]:
            accepted, reached = tried, after
            yield iteration
        else:
            yield replace(iteration, accepted=False, rejection_reason=test["reason"])


def _build_iteration(number: int, rubric: Rubric, reached: Mapping[str, float | None]) -> IterationResult:
    known = {name: value for name, value in reached.items() if value is not None}
    mean = sum(known.values()) / len(known) if known else None
    return IterationResult(number, rubric, mean, mean, known)


def get_standalone_meta_rubric() -> Rubric:
    """Return the meta-rubric for a rubric without its task.

    Example:
        >>> rubric = get_standalone_meta_rubric()
        >>> len(rubric), any(criterion.weight < 0 for criterion in rubric)
        (21, True)
    """
    return build_meta_rubric(list_principles(in_context=False))


def get_in_context_meta_rubric() -> Rubric:
    """Return the meta-rubric for a rubric with its task.

    Example:
        >>> len(get_in_context_meta_rubric())
        28
    """
    return build_meta_rubric(list_principles(in_context=True))


async def evaluate_rubric_standalone(
    rubric: Rubric,
    llm_config: LLMConfig,
    *,
    display: Literal["stdout", "html"] | None = None,
    output_html_path: str | Path | None = None,
) -> EnsembleEvaluationReport:
    """Return a report on how well a rubric meets the standalone principles, with a verdict on each and a score.

    `autorubric.review` also quotes, proposes wordings, and resumes.

    Args:
        rubric: the rubric.
        llm_config: the model that assesses it.
        display: `stdout` prints the report, `html` writes it to `output_html_path`.
        output_html_path: the file of `html`.

    Example:
        >>> import asyncio
        >>> from autorubric import Criterion
        >>> rubric = Rubric([Criterion(requirement="Names the year 1926.")])
        >>> report = asyncio.run(evaluate_rubric_standalone(rubric, LLMConfig("builtin/offline")))
        >>> len(report.report)
        21
    """
    return await _evaluate(rubric, None, llm_config, display, output_html_path)


async def evaluate_rubric_in_context(
    rubric: Rubric,
    task_prompt: str,
    llm_config: LLMConfig,
    *,
    display: Literal["stdout", "html"] | None = None,
    output_html_path: str | Path | None = None,
) -> EnsembleEvaluationReport:
    """Return a report on how well a rubric fits its task; see `evaluate_rubric_standalone`.

    Args:
        rubric: the rubric.
        task_prompt: the task.
        llm_config: the model that assesses it.
        display: `stdout` prints the report, `html` writes it to `output_html_path`.
        output_html_path: the file of `html`.

    Example:
        >>> import asyncio
        >>> from autorubric import Criterion
        >>> rubric = Rubric([Criterion(requirement="Names the year 1926.")])
        >>> judge = LLMConfig("builtin/offline")
        >>> report = asyncio.run(evaluate_rubric_in_context(rubric, "When did he die?", judge))
        >>> len(report.report) > 21
        True
    """
    return await _evaluate(rubric, task_prompt, llm_config, display, output_html_path)


async def _evaluate(
    rubric: Rubric, task: str | None, llm_config: LLMConfig, display: str | None, path: str | Path | None
) -> EnsembleEvaluationReport:
    if display not in (None, "stdout", "html"):
        raise InputError(f"display is {display!r}; expected None, 'stdout' or 'html'")
    if display == "html" and path is None:
        raise InputError("display='html' needs output_html_path=")
    report = await _grade_rubric(rubric, task, CriterionGrader(judge_model_config=llm_config))
    if display == "stdout":
        for entry in report.report or ():
            criterion = entry.criterion
            print(f"{entry.word or 'failed':<13} {criterion.weight:+g} {criterion.name}: {entry.final_reason}")
        print(f"score: {report.score}")
    if display == "html" and path is not None:
        write_atomically(Path(path), [report._repr_html_()])
    return report


async def _grade_rubric(rubric: Rubric, task: str | None, grader: CriterionGrader) -> EnsembleEvaluationReport:
    """Return the report on a rubric by the meta-rubric, in the context of its task if there is one."""
    meta = get_standalone_meta_rubric() if task is None else get_in_context_meta_rubric()
    report = await meta.grade(as_submission(rubric, task), grader, _TASK)
    assert isinstance(report, EnsembleEvaluationReport)
    return report


__all__ = [
    "ImprovementConfig",
    "ImprovementResult",
    "ImprovementRunner",
    "IssueDetail",
    "IterationResult",
    "evaluate_rubric_in_context",
    "evaluate_rubric_standalone",
    "get_in_context_meta_rubric",
    "get_standalone_meta_rubric",
    "improve_rubric",
]
