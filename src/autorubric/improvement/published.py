"""AutoRubric's settings and results of an improvement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from autorubric.core.report import EnsembleEvaluationReport
from autorubric.core.rubric import Rubric
from autorubric.core.usage import TokenUsage
from autorubric.dataset import RubricDataset
from autorubric.errors import InputError, warn
from autorubric.graders.assembly import JudgeSpec
from autorubric.llm.config import LLMConfig


@dataclass
class ImprovementConfig:
    """The settings of `improve_rubric`, as published.

    The thresholds of the published loop, its history, its gate and its prompts have no effect: `autorubric.improve`
    stops when all alternatives are tested. A value other than the default causes a warning.

    Attributes:
        eval_llm: the judge, or several as a panel.
        revision_llm: the model that writes alternatives.
        mode: without `validation_data`, whether the rubric is assessed with its task or alone.
        strategy: `held_out` requires labels on every item.
        validation_data: submissions to decide on; their labels decide if they have any.
        max_iterations: rounds of writing, at most 20.
        save_artifacts: whether to keep the run directory; without it, nothing can be resumed.
        artifacts_dir: the run directory; pass the same one to resume the run without paying twice.
        display: `stdout` prints what was decided. `report.html` is always written.
        show_progress: show the progress of the run.
        max_total_cost: the budget in dollars, reserved before each call.

    Example:
        >>> judge = LLMConfig("builtin/offline")
        >>> ImprovementConfig(eval_llm=judge, revision_llm=judge, max_total_cost=2.0).max_iterations
        10
    """

    eval_llm: LLMConfig | list[JudgeSpec]
    revision_llm: LLMConfig
    mode: Literal["standalone", "in_context"] = "in_context"
    strategy: Literal["meta_rubric", "held_out"] = "meta_rubric"
    validation_data: RubricDataset | None = None
    max_iterations: int = 10
    min_quality_score: float = 0.95
    min_agreement: float = 0.85
    score_plateau_threshold: float = 0.02
    plateau_patience: int = 2
    max_exemplars_per_criterion: int = 3
    held_out_min_accuracy: float = 0.90
    cannot_assess: Literal["exclude", "as_unmet", "as_category"] = "exclude"
    history_window: int = 3
    reject_agreement_regression: bool = True
    save_artifacts: bool = True
    artifacts_dir: Path | str | None = None
    display: Literal["stdout", "html"] | None = None
    show_progress: bool = True
    max_total_cost: float | None = None
    convergence_fn: Callable[..., str | None] | None = None
    revision_system_prompt: str | None = None
    revision_user_prompt_template: str | None = None


@dataclass
class IssueDetail:
    """A principle that the rubric does not meet.

    Attributes:
        criterion_name: the name of the principle.
        requirement: what it demands.
        weight: its weight.
        is_antipattern: whether it is an antipattern that was found.
        feedback: the model's reason.

    Example:
        >>> IssueDetail("Tone", "Is concrete.", 1.0, False, "What is appropriate is not said.").criterion_name
        'Tone'
    """

    criterion_name: str
    requirement: str
    weight: float
    is_antipattern: bool
    feedback: str


@dataclass
class IterationResult:
    """One wording that was tested, together with those accepted before it; iteration 0 is the original.

    Attributes:
        iteration: its number.
        rubric: the rubric with this wording.
        quality_score: the same as `agreement`; without `validation_data` the score of the assessment.
        agreement: the mean of `per_criterion_agreement`.
        per_criterion_agreement: agreement on the test set, by tested criterion; where nothing was tested, that of the
            original on the teaching set.
        issues: without `validation_data`, the principles that the rubric does not meet.
        accepted: whether the wording was proven better.
        rejection_reason: why not.
        quality_report: the report of the assessment.
        token_usage, completion_cost: of the assessment.
        issues_fixed, issues_introduced, held_out_diagnostics: always empty.

    Example:
        >>> from autorubric import Criterion
        >>> rubric = Rubric([Criterion(requirement="Is brief")])
        >>> IterationResult(0, rubric, 0.8, 0.8, {"Is brief": 0.8}).accepted
        True
    """

    iteration: int
    rubric: Rubric
    quality_score: float | None
    agreement: float | None
    per_criterion_agreement: dict[str, float] | None
    issues: list[IssueDetail] = field(default_factory=list)
    issues_fixed: list[str] = field(default_factory=list)
    issues_introduced: list[str] = field(default_factory=list)
    accepted: bool = True
    rejection_reason: str | None = None
    quality_report: EnsembleEvaluationReport | None = None
    token_usage: TokenUsage | None = None
    completion_cost: float | None = None
    held_out_diagnostics: None = None


@dataclass
class ImprovementResult:
    """The result of `improve_rubric`.

    Attributes:
        original_rubric: the rubric as it was.
        final_rubric: the rubric with every accepted wording; the original where none was.
        iterations: the original, and each wording that was tested.
        best_rubric: the same as `final_rubric`.
        best_iteration: the last accepted iteration.
        convergence_reason: `all_tested`, `no_validation_data`, or why the run stopped early.
        total_completion_cost: dollars; unknown where a price is.

    Example:
        >>> from autorubric import Criterion
        >>> rubric = Rubric([Criterion(requirement="Is brief")])
        >>> ImprovementResult(rubric, rubric, [], rubric, 0, "all_tested", 0.02).best_iteration
        0
    """

    original_rubric: Rubric
    final_rubric: Rubric
    iterations: list[IterationResult]
    best_rubric: Rubric
    best_iteration: int
    convergence_reason: str
    total_completion_cost: float | None


_WITHOUT_EFFECT = (
    *("min_quality_score", "min_agreement", "score_plateau_threshold", "plateau_patience", "cannot_assess"),
    *("max_exemplars_per_criterion", "held_out_min_accuracy", "history_window", "reject_agreement_regression"),
    *("convergence_fn", "revision_system_prompt", "revision_user_prompt_template"),
)


def check_config(config: ImprovementConfig, task_prompt: str | None) -> None:
    """Raise an error where the published function does, and for an invalid number of rounds."""
    problems = [
        f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}"
        for name, value, allowed in (
            ("mode", config.mode, ("standalone", "in_context")),
            ("strategy", config.strategy, ("meta_rubric", "held_out")),
            ("display", config.display, (None, "stdout", "html")),
        )
        if value not in allowed
    ]
    if not config.eval_llm:
        problems.append("eval_llm has no judge; pass an LLMConfig, or a list of JudgeSpec")
    if not 1 <= config.max_iterations <= 20:
        problems.append(f"max_iterations is {config.max_iterations}; expected a number from 1 to 20")
    problems += _find_data_problems(config, task_prompt)
    if problems:
        raise InputError(problems)
    defaults = {field.name: field.default for field in fields(config)}
    if changed := [name for name in _WITHOUT_EFFECT if getattr(config, name) != defaults[name]]:
        warn(f"{', '.join(changed)} have no effect: a wording is accepted if labels show that it is better")


def _find_data_problems(config: ImprovementConfig, task_prompt: str | None) -> Iterator[str]:
    labelled = {item.ground_truth is not None for item in config.validation_data or ()}
    if config.strategy == "held_out":
        if labelled != {True}:
            yield "strategy='held_out' needs validation_data with ground truth on every item"
        return
    if config.mode == "in_context" and not task_prompt:
        yield "mode='in_context' needs task_prompt; pass it, or mode='standalone'"
    if len(labelled) > 1:
        yield "validation_data has ground truth on some items only; label all of them or none"
