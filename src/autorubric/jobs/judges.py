"""The settings of every function that grades: judges, endpoints and budgets."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.scoring import LengthPenalty
from autorubric.dataset import RubricDataset
from autorubric.errors import ConfigError, pluralize, warn
from autorubric.graders.assembly import EscalationConfig, JudgeSpec, find_judge_kind
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.few_shot import FewShotConfig
from autorubric.graders.reporting import OnFailure
from autorubric.jobs.job import BatchSettings, DatasetSource
from autorubric.jobs.sharding import ShardedSettings
from autorubric.llm.config import LLMConfig
from autorubric.llm.endpoint_settings import EndpointSettings
from autorubric.llm.http.key_owners import check_key_owners
from autorubric.llm.http.prices import read_price_file
from autorubric.llm.http.providers import resolve_address
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.thinking import Reasoning, split_reasoning
from autorubric.prompts.judging import load_judge_prompts
from autorubric.runs.plan import ExperimentPlan, hash_dataset
from autorubric.runs.shard import PART, ShardPart
from autorubric.settings import LocalName, Names, setting


def key_variable(help: str, group: str, *, hidden: bool = True) -> Any:
    """Return a setting that names the environment variable of an API key."""
    return setting(None, help, group=group, hidden=hidden, secret=True)


def reply_limit(default: int, help: str, group: str) -> Any:
    """Return a setting with the maximum number of tokens of a reply."""
    return setting(default, help, group=group, ge=1, le=10_000_000)


_KEYS = {
    "judge_key_env": ("judge", "escalate_to", "test_judge"),
    "writer_key_env": ("writer", "evolve"),
    "sample_key_env": ("sample",),
    "audit_key_env": ("audit",),
    "reviewer_key_env": ("reviewer",),
}
"""The settings that name models, by the setting for their API key; `api_key_env` applies to all others."""


class ModelSettings(EndpointSettings):
    """The models of a command, with its endpoint settings."""

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        common: list[Any] = []
        for setting_name, roles in _KEYS.items():
            values = [getattr(self, role, None) or () for role in roles]
            names = [name for value in values for name in ([value] if isinstance(value, str) else value)]
            places = [(name, self.base_url) for name in names if name not in getattr(self, "configs", ())]
            if key_env := getattr(self, setting_name, None):
                check_key_owners(key_env, places)
            else:
                common += places
        if self.api_key_env:
            check_key_owners(self.api_key_env, common)
        return self

    def build_specs(self, names: Sequence[str], key_env: str | None, of: str = "", **own: Any) -> list[JudgeSpec]:
        """Return a judge for each `MODEL` or `MODEL@BASE_URL`; its id is the model's name.

        If several addresses serve one model, the id of the first judge is the model's name; those of the others are
        `MODEL@BASE_URL`.

        Args:
            names: the names as given.
            key_env: the environment variable with their key; None uses `api_key_env`.
            of: the prefix of their temperature flag, such as `sample-`.
            own: their temperature, token limit and further fields of `LLMConfig`.

        Raises:
            ConfigError: a model is given twice, or a setting is wrong.

        Example:
            >>> [spec] = ModelSettings().build_specs(["qwen@http://localhost:8000/v1"], None, temperature=0.0)
            >>> spec.judge_id, spec.llm_config.model, spec.llm_config.api_base
            ('qwen', 'qwen', 'http://localhost:8000/v1')
        """
        common = {
            "api_key_env": key_env or self.api_key_env,
            "allow_plain_http": self.allow_plain_http,
            "timeout": self.timeout,
            "max_retries": self.retry,
            "max_tokens_ceiling": self.max_tokens_ceiling,
            **own,
        }
        table = read_price_file(None if self.prices is None else Path(self.prices))
        specs: list[JudgeSpec] = []
        for name in names:
            model, url = resolve_address(name, self.base_url)
            try:
                config = LLMConfig(model, **{**common, "api_base": url, "prices": table.get(model)})
                is_taken = any(spec.judge_id == model for spec in specs) and names.count(name) == 1
                specs.append(JudgeSpec(config, name if is_taken else model))
            except ConfigError as error:
                raise ConfigError(_name_flag(problem, model, of) for problem in error.problems) from None
        return specs


def _check_model_names(value: Any) -> Any:
    judges = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(judge, LLMConfig | JudgeSpec | CriterionGrader) for judge in judges):
        raise ValueError("expected names of models; for a configuration or a grader, use evaluate(dataset, grader)")
    return value


def _check_calls(name: str) -> str:
    find_judge_kind(name)
    return name


class JudgeSettings(ModelSettings):
    """The judges and how they are called."""

    judge: Annotated[Names, BeforeValidator(_check_model_names)] = setting(
        (), "MODEL or MODEL@BASE_URL; several form a panel; omit for checks.", group="Judges"
    )
    judge_key_env: VariableName | None = key_variable(
        "Environment variable with the API key of the judges.", "Judges"
    )
    temperature: float = setting(0.0, "Judge temperature.", group="Judges")
    max_tokens: int = reply_limit(2048, "Maximum tokens per reply; doubled if truncated.", "Judges")
    calls: Annotated[str, AfterValidator(_check_calls)] = setting(
        "per_criterion", "per_criterion, or per_item (whole rubric).", group="Judges"
    )
    repeat: int = setting(1, "Ask each judge N times; the majority counts.", group="Judges", ge=1, le=100)
    compound: Literal["as_is", "all", "split"] = setting(
        "as_is", "Criteria with several demands: as_is, all, split.", group="Judges"
    )
    evidence: bool = setting(False, "Require quotes from the submission.", group="Judges")
    few_shot: int = setting(0, "Examples per prompt, from --training-data.", group="Judges", ge=0)
    training_data: DatasetSource | None = setting(
        None, "Labelled dataset for --few-shot.", group="Judges", reads=True
    )
    prompts: LocalName | None = setting(None, "Directory of your prompt templates.", group="Judges", reads=True)
    seed: int = setting(0, "Random seed of option order and examples.", group="Judges")
    prefix_first: bool = setting(True, "Send one call per item first.", group="Prompt cache")
    aggregation: Literal["majority", "weighted", "unanimous", "any"] = setting(
        "majority", "majority, weighted, unanimous or any.", group="Panel"
    )
    ordinal_aggregation: Literal["mean", "median", "weighted_mean", "mode", "min", "max"] = setting(
        "mean", "mean, median, weighted_mean, mode, min, max.", group="Panel"
    )
    nominal_aggregation: Literal["mode", "weighted_mode", "unanimous"] = setting(
        "mode", "mode, weighted_mode or unanimous.", group="Panel"
    )
    quorum: int | None = setting(None, "Minimum number of judges with a verdict (default: all).", group="Panel", ge=1)
    escalate_to: Names = setting((), "Stronger judge for undecided criteria; repeatable.", group="Panel")
    escalate_below: float | None = setting(
        None, "Also escalate below this confidence, in [0, 1].", group="Panel", ge=0, le=1
    )
    cannot_assess: Literal["skip", "zero", "partial", "fail"] = setting(
        "skip", "Abstentions: skip, zero, partial, fail.", group="Scoring"
    )
    reasoning: Reasoning = setting("drop", "Reasoning before an answer: drop, keep.", group="Scoring")

    @property
    def splits(self) -> bool:
        """Whether the settings name a model that can split criteria."""
        return False

    @model_validator(mode="after")
    def _check_judges(self) -> Self:
        if self.compound == "split" and not self.splits:
            raise ConfigError(
                "--compound split needs a model that writes criteria: use it with `autorubric "
                "evolve`, or with serve --evolve MODEL; --compound all judges each demand without a split"
            )
        if not self.judge:
            self.refuse_unused(self.list_judge_settings(), "--judge MODEL")
            return self
        if not self.escalate_to:
            self.refuse_unused(("escalate_below",), "--escalate-to MODEL")
        ((name, count),) = Counter(self.judge).most_common(1)
        if count > 1:
            raise ConfigError(f"--judge {name} is given more than once; --repeat N asks each judge N times")
        if self.quorum is not None and self.quorum > len(self.judge):
            judges = len(self.judge)
            raise ConfigError(f"--quorum {self.quorum} is more than the number of judges, {judges}")
        if bool(self.few_shot) != (self.training_data is not None):
            raise ConfigError("--few-shot N and --training-data FILE must be used together")
        return self

    def list_judge_settings(self) -> tuple[str, ...]:
        """Return the settings that need a judge."""
        own = (
            name
            for name, flag in JudgeSettings.list_flags().items()
            if flag.group in ("Judges", "Panel", "Prompt cache")
        )
        shared = ("base_url", "api_key_env", "allow_plain_http", "max_tokens_ceiling", "share_equal")
        return (*shared, *(name for name in own if name != "judge"))


def make_grader(
    settings: JudgeSettings,
    *,
    on_failure: OnFailure = "none",
    length_penalty: LengthPenalty | None = None,
    run_dir: Path | None = None,
) -> CriterionGrader:
    """Build the grader that the settings describe; with `run_dir`, it records replies there.

    Raises:
        ConfigError: a model, key, endpoint or price cannot be used; nothing was spent.

    Example:
        >>> make_grader(JudgeSettings(judge=["openai/gpt-5.1"])).judge_ids
        ['openai/gpt-5.1']
    """
    abstention = CannotAssessConfig(strategy=CannotAssessStrategy(settings.cannot_assess))
    shared: dict[str, Any] = {"cannot_assess_config": abstention, "reasoning": settings.reasoning}
    shared |= {"on_failure": on_failure, "length_penalty": length_penalty}
    if not settings.judge:
        return CriterionGrader.of_checks(**shared)
    training = settings.training_data
    if isinstance(training, str | Path):
        training = RubricDataset.from_file(training)
    judges, strong = (
        [
            JudgeSpec(spec.llm_config, spec.judge_id, spec.weight, repeats=settings.repeat)
            for spec in settings.build_specs(
                names,
                settings.judge_key_env,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                max_tokens_fixed="max_tokens" in settings.model_fields_set,
            )
        ]
        for names in (settings.judge, settings.escalate_to)
    )
    return CriterionGrader(
        judges=judges,
        escalation=EscalationConfig(strong, settings.escalate_below) if strong else None,
        aggregation=settings.aggregation,
        ordinal_aggregation=settings.ordinal_aggregation,
        nominal_aggregation=settings.nominal_aggregation,
        quorum=settings.quorum,
        llm_calls=settings.calls,
        evidence=settings.evidence,
        training_data=training,
        few_shot_config=FewShotConfig(n_examples=settings.few_shot) if training else None,
        budget_usd=settings.budget_usd,
        budget_tokens=settings.budget_tokens,
        max_in_flight=settings.concurrency,
        seed=settings.seed,
        prompts=None if settings.prompts is None else load_judge_prompts(Path(settings.prompts)),
        run_dir=run_dir,
        prefix_first=settings.prefix_first,
        compound="all" if settings.compound == "all" else "as_is",
        **shared,
    )


def digest_examples(grader: CriterionGrader) -> dict[str, str]:
    """Return the digest of the few-shot examples, for manifests; empty without examples."""
    few_shot = grader.recipe.options.few_shot
    if few_shot is None:
        return {}
    return {"few_shot_examples": hash_dataset(few_shot.data.to_json().encode())}


def _name_flag(problem: str, model: str, of: str) -> str:
    """Return the problem with the name of the flag in place of the field that it sets."""
    for field, flag in (("temperature", f"{of}temperature"), ("timeout", "timeout")):
        head = f"model {model!r} has {field}="
        if problem.startswith(head):
            return f"--{flag} is {problem.removeprefix(head)}"
    return problem


class GradingSettings(JudgeSettings, BatchSettings, ShardedSettings):
    """A resumable run that grades."""

    share_equal: bool = setting(False, "Reuse replies for identical submissions.", group="Run")


def build_experiment_plan(
    settings: GradingSettings,
    dataset: RubricDataset,
    grader: CriterionGrader,
    part: ShardPart | None,
    *,
    labels: Sequence[str],
    compared: tuple[str, ...],
) -> ExperimentPlan:
    """Return the plan of a run with these settings.

    Args:
        settings: the settings.
        dataset: the dataset to grade.
        grader: the grader, built from the settings.
        part: the shard, if the run is one.
        labels: the notes on stand-ins, for the manifest.
        compared: names of settings that affect results.
    """
    parts = (split_reasoning(item.submission, settings.reasoning) for item in dataset)
    if count := len(answers := [answer for reasoning, answer in parts if reasoning]):
        begin = f"{pluralize(count, 'submission')} {'begins' if count == 1 else 'begin'} with reasoning"
        bare = f" ({answers.count('')} without an answer after it)" if "" in answers else ""
        warn(f"{begin}{bare}, which is not judged; --reasoning keep (in Python: reasoning='keep') judges it too")
    return ExperimentPlan(
        dataset,
        grader,
        Path(settings.out),
        prefix_first=settings.prefix_first,
        resume=not settings.start_over,
        settings={
            "command": settings.command,
            **settings.to_manifest(),
            **digest_examples(grader),
            "stand_ins": labels,
            "again": settings.again,
            **({} if part is None else {PART: part.to_record()}),
        },
        parts=settings.parts,
        wait=settings.wait,
        share_equal=settings.share_equal,
        replace=settings.replace,
        compared=compared,
    )
