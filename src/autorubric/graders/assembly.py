"""Judges built from settings: the parts of a `CriterionGrader`, before any model is opened."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

from autorubric.errors import AutorubricError, ConfigError
from autorubric.files.keys import suggest_name
from autorubric.graders.aggregation import Rules
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.cascade import Cascade, refuse_thresholds
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.demands import Compound, PerDemand, load_demands_prompt
from autorubric.graders.judge import CopiesApart, Judge
from autorubric.graders.panel import Panel, Repeated
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.graders.without_model import ChecksFirst, EmptyFirst
from autorubric.llm.config import LLMConfig, find_changed_fields
from autorubric.llm.http.secrets import drop_secret_headers
from autorubric.llm.request import Model
from autorubric.llm.thinking import Reasoning
from autorubric.plugins import find_plugins, load_plugin

MOST_REPEATS = 100


@dataclass(init=False)
class JudgeSpec:
    """A judge of a panel: its model, its id and its weight.

    Attributes:
        llm_config: the model, as a configuration or a string (`MODEL` or `MODEL@BASE_URL`); `judge_model_config` is
            another name for it.
        judge_id: the id of its votes.
        weight: its weight in weighted votes; above 0.
        repeats: how often it is asked each question; see `Repeated`.

    Raises:
        ValueError: the weight or the number of repeats is out of range, or the model or the id is missing.

    Example:
        >>> JudgeSpec(LLMConfig("openai/gpt-5.1"), "strict", weight=2).judge_model_config.model
        'openai/gpt-5.1'
        >>> JudgeSpec(LLMConfig("openai/gpt-5.1"), "strict", weight=0)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: judge 'strict' has weight=0; expected a finite number above 0
    """

    llm_config: LLMConfig
    judge_id: str
    weight: float = 1.0
    repeats: int = 1

    def __init__(
        self,
        llm_config: LLMConfig | str | None = None,
        judge_id: str = "",
        weight: float = 1.0,
        *,
        judge_model_config: LLMConfig | str | None = None,
        repeats: int = 1,
    ) -> None:
        config = judge_model_config if llm_config is None else llm_config
        config = LLMConfig(config) if isinstance(config, str) else config
        problems = []
        if (llm_config is None) == (judge_model_config is None):
            problems.append(f"judge {judge_id!r} needs one of judge_model_config and llm_config")
        elif not isinstance(config, LLMConfig):
            problems.append(
                f"judge {judge_id!r} has a model of type {type(config).__name__}; expected LLMConfig or a string"
            )
        if not isinstance(judge_id, str) or not judge_id.strip():
            problems.append(f"judge_id={judge_id!r}; expected a non-empty string")
        problems += _find_weight_problems(judge_id, weight)
        if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= MOST_REPEATS:
            problems.append(
                f"judge {judge_id!r} has repeats={repeats!r}; expected a whole number from 1 to {MOST_REPEATS}"
            )
        if problems or config is None:
            raise ConfigError(problems)
        self.llm_config = config
        self.judge_id = judge_id
        self.weight = weight
        self.repeats = repeats

    @property
    def judge_model_config(self) -> LLMConfig:
        """The model."""
        return self.llm_config

    @judge_model_config.setter
    def judge_model_config(self, config: LLMConfig) -> None:
        self.llm_config = config


def _find_weight_problems(judge_id: str, weight: object) -> list[str]:
    if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < math.inf:
        return []
    return [f"judge {judge_id!r} has weight={weight!r}; expected a finite number above 0"]


LLMCalls: TypeAlias = Literal["per_criterion", "per_item"]
_JUDGES: Mapping[str, Callable[..., Judge]] = {"per_criterion": CriterionJudge, "per_item": RubricJudge}


def find_judge_kind(name: str) -> Callable[..., Judge]:
    """Return the judge class that `llm_calls` names, from this package or registered in `autorubric.judges`."""
    kind = _JUDGES.get(name) or load_plugin("judges", name)
    if kind is None:
        raise ConfigError(f"{name!r} is unknown; {suggest_name(name, (*_JUDGES, *find_plugins('judges')))}")
    if not callable(kind):
        raise ConfigError(
            f"the judge {name!r} in group 'autorubric.judges' is a {type(kind).__name__}; expected a class"
        )
    return cast("Callable[..., Judge]", kind)


@dataclass(frozen=True)
class EscalationConfig:
    """Stronger judges for criteria on which the first judges are not sure; see `Cascade`.

    Attributes:
        judges: a model, or several judges that form a panel.
        threshold: the confidence of the first judges below which a criterion is escalated, in [0, 1]; None escalates
            failed, abstained and split verdicts.
        per_criterion: other thresholds, by the criterion's name.

    Raises:
        ConfigError: a threshold is outside [0, 1].

    Example:
        >>> strong = EscalationConfig(LLMConfig("openai/gpt-5.1"), threshold=0.8)
        >>> [spec.judge_id for spec in strong.specs()]
        ['escalation']
    """

    judges: LLMConfig | str | list[JudgeSpec]
    threshold: float | None = None
    per_criterion: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        refuse_thresholds(self.threshold, self.per_criterion)

    def specs(self) -> tuple[JudgeSpec, ...]:
        """Return the stronger judges; a single model has the id `escalation`."""
        if isinstance(self.judges, LLMConfig | str):
            return (JudgeSpec(self.judges, "escalation"),)
        return tuple(self.judges)


@dataclass(frozen=True)
class Recipe:
    """The settings from which judges are built.

    Attributes:
        specs: the judges; none if a rubric's checks decide everything, or if `judge` is given.
        rules: how a panel's votes are combined.
        quorum: the minimum number of judges of a panel that must not fail.
        escalation: stronger judges for what the others cannot decide.
        llm_calls: a call for each criterion, one for the whole rubric, or the name of an installed judge.
        options: how the judges make their requests.
        judge: a ready-made judge instead of `specs`.
        compound: how criteria with several demands are graded.
        reasoning: whether the reasoning at the beginning of submissions is graded.

    Raises:
        ConfigError: a judge id is not unique, a name is unknown, or settings contradict each other.

    Example:
        >>> Recipe((), llm_calls="per_rubric")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: llm_calls: 'per_rubric' is unknown; expected one of per_criterion, per_item
    """

    specs: tuple[JudgeSpec, ...]
    rules: Rules = field(default_factory=Rules)
    quorum: int | None = None
    escalation: EscalationConfig | None = None
    llm_calls: LLMCalls | str = "per_criterion"
    options: JudgeOptions = field(default_factory=JudgeOptions)
    judge: Judge | None = None
    compound: Compound = "as_is"
    reasoning: Reasoning = "drop"

    @property
    def asks_at_once(self) -> bool:
        """Whether every request for an item is known before any reply."""
        plain = self.compound == "as_is" and self.llm_calls == "per_criterion"
        return plain and self.escalation is None and self.judge is None

    @property
    def has_own_judge(self) -> bool:
        """Whether a custom judge, or one of another package, calls the models."""
        return self.judge is not None or self.llm_calls not in get_args(LLMCalls)

    def __post_init__(self) -> None:
        problems = []
        try:
            find_judge_kind(self.llm_calls)
        except AutorubricError as error:
            problems.append(f"llm_calls: {error}")
        ids = [spec.judge_id for spec in self._list_specs()]
        problems += [
            f"two judges have the id {name!r}; in Python give each its own id: JudgeSpec(config, id)"
            for name in dict.fromkeys(ids)
            if ids.count(name) > 1
        ]
        if self.escalation is not None and not self.specs:
            problems.append("escalation needs judges to escalate from")
        problems += self._find_compound_problems()
        if self.reasoning not in get_args(Reasoning):
            problems.append(f"reasoning={self.reasoning!r} is not one of {', '.join(get_args(Reasoning))}")
        if self.llm_calls == "per_item" and (self.options.binary_schema or self.options.choice_schema):
            problems.append("response formats are for one criterion; they cannot be used with llm_calls='per_item'")
        panels = [size for size in (len(self.specs), len(ids) - len(self.specs)) if size > 1]
        most = min(panels, default=1)
        if self.quorum is not None and (isinstance(self.quorum, bool) or self.quorum not in range(1, most + 1)):
            judges = "the one judge" if most == 1 else f"the {most} judges"
            problems.append(f"quorum={self.quorum!r}; expected a whole number from 1 to {judges}")
        if problems:
            raise ConfigError(problems)

    def _find_compound_problems(self) -> list[str]:
        if self.compound not in get_args(Compound):
            return [f"compound={self.compound!r} is not one of {', '.join(get_args(Compound))}"]
        if self.compound == "as_is":
            return []
        if not self.specs:
            return ["compound='all' (--compound) needs a judge given by its model, which lists the demands"]
        if self.options.few_shot is not None:
            return [
                "compound='all' (--compound) judges each demand, but few-shot examples have labels for whole criteria"
            ]
        return []

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of all simple judges, in order."""
        return self.judge.judge_ids if self.judge is not None else tuple(s.judge_id for s in self._list_specs())

    def find_warnings(self) -> list[str]:
        """Return warnings about these settings, before anything is paid for.

        Example:
            >>> Recipe((JudgeSpec(LLMConfig("openai/gpt-5.1", temperature=0.0), "a", repeats=3),)).find_warnings()[0]
            "judge 'a' is asked 3 times at temperature 0, where replies are likely to be identical; ..."
        """
        found = [
            f"judge {spec.judge_id!r} is asked {spec.repeats} times at temperature 0, where replies are likely to be "
            "identical; set a temperature above 0 (--temperature, LLMConfig(temperature=...))"
            for spec in self._list_specs()
            if spec.repeats > 1 and spec.llm_config.temperature == 0
        ]
        once = [spec.repeats for spec in self.specs] == [1] and not self.has_own_judge
        if once and self.escalation is not None and self.escalation.threshold is not None:
            found.append(
                f"judge {self.specs[0].judge_id!r} is asked once, so it has no confidence, and all its verdicts are "
                "escalated; repeat it (--repeat, JudgeSpec(repeats=...)), or leave the threshold out"
            )
        return found

    def collect_configs(self) -> dict[str, LLMConfig]:
        """Return the model of every judge, by judge id."""
        return {spec.judge_id: spec.llm_config for spec in self._list_specs()}

    def build_judge(self, models: Mapping[str, Model]) -> ChecksFirst:
        """Build the judge: checks run first, and an empty submission causes no call."""
        if self.judge is not None:
            return self.judge if isinstance(self.judge, ChecksFirst) else ChecksFirst(CopiesApart(self.judge))
        judge = self._build_panel(self.specs, models)
        if self.escalation is not None:
            then = self._build_panel(self.escalation.specs(), models)
            judge = Cascade(judge, then, self.escalation.threshold, self.escalation.per_criterion)
        if self.compound == "all":
            judge = PerDemand(judge, models[self.specs[0].judge_id])
        return ChecksFirst(EmptyFirst(judge))

    def describe_settings(self) -> dict[str, Any]:
        """Return the settings that affect results, for manifests; no secrets."""
        options = self.options
        few_shot = options.few_shot
        return {
            "judges": [
                {"judge_id": s.judge_id, "weight": s.weight, "model": _describe_config(s.llm_config)}
                | ({} if s.repeats == 1 else {"repeats": s.repeats})
                for s in self._list_specs()
            ],
            "aggregation": dataclasses.asdict(self.rules),
            "quorum": self.quorum,
            "escalation": None
            if self.escalation is None
            else {"threshold": self.escalation.threshold, "per_criterion": dict(self.escalation.per_criterion or {})},
            "llm_calls": self.llm_calls,
            "shuffle_options": options.shuffle_options,
            "auto_na_option": options.auto_na_option,
            "seed": options.seed,
            "evidence": options.evidence,
            "few_shot": None if few_shot is None else dataclasses.asdict(few_shot.config),
            "templates": options.prompts.fingerprints(),
            **({} if self.compound == "as_is" else {"compound": [self.compound, load_demands_prompt().fingerprint]}),
            **({} if self.reasoning == "drop" else {"reasoning": self.reasoning}),
        }

    def _list_specs(self) -> tuple[JudgeSpec, ...]:
        return self.specs if self.escalation is None else (*self.specs, *self.escalation.specs())

    def _build_panel(self, specs: tuple[JudgeSpec, ...], models: Mapping[str, Model]) -> Judge:
        kind = find_judge_kind(self.llm_calls)
        judges: list[Judge] = []
        for spec in specs:
            judge = kind(models[spec.judge_id], spec.judge_id, spec.weight, options=self.options)
            judge = judge if self.llm_calls in _JUDGES else CopiesApart(judge)
            judges.append(judge if spec.repeats == 1 else Repeated(judge, spec.repeats))
        if len(judges) == 1:
            return judges[0]
        rules = self.rules
        return Panel(judges, rules.binary, rules.ordinal, rules.nominal, self.quorum)


def resolve_judge_specs(
    judge_model_config: LLMConfig | str | None,
    llm_config: LLMConfig | str | None,
    judges: list[JudgeSpec] | None,
    judge: Judge | None,
) -> tuple[JudgeSpec, ...]:
    """Return the judges from the four arguments that can name them; a single model has the id `default`."""
    if llm_config is not None:
        if judge_model_config is not None:
            raise ConfigError("judge_model_config and llm_config are the same setting; pass only judge_model_config")
        warnings.warn("llm_config is deprecated; use judge_model_config", DeprecationWarning, stacklevel=3)
        judge_model_config = llm_config
    given = {"judge_model_config": judge_model_config, "judges": judges, "judge": judge}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} are given; pass only one of them")
    if judges is not None:
        problems = [
            f"judges[{index}] is of type {type(spec).__name__}; expected JudgeSpec"
            for index, spec in enumerate(judges)
            if not isinstance(spec, JudgeSpec)
        ] or [problem for spec in judges for problem in _find_weight_problems(spec.judge_id, spec.weight)]
        if problems or not judges:
            raise ConfigError(problems or "judges is an empty list; pass at least one JudgeSpec")
        return tuple(judges)
    if judge_model_config is None and judge is None:
        raise ConfigError("no judge; pass judge_model_config, judges or judge")
    if judge is not None and (
        isinstance(judge, type) or not (hasattr(judge, "judge") and hasattr(judge, "judge_ids"))
    ):
        raise ConfigError(
            f"judge is {judge!r:.100}; expected an object with judge_ids and judge; a model is a judge_model_config"
        )
    return () if judge_model_config is None else (JudgeSpec(judge_model_config, "default"),)


_NOT_SHOWN = frozenset({"api_key", "cache_enabled", "cache_dir", "cache_ttl"})


def _describe_config(config: LLMConfig) -> dict[str, Any]:
    shown = {name: value for name, value in find_changed_fields(config) if name not in _NOT_SHOWN}
    if "extra_headers" in shown:
        shown["extra_headers"] = drop_secret_headers(shown["extra_headers"])
    return {
        name: value if isinstance(value, str | int | float | dict) else str(value) for name, value in shown.items()
    }
