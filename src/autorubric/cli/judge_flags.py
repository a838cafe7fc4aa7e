"""The flags that say who judges, how, and what it may cost; for every command that grades."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from autorubric.errors import ConfigError

if TYPE_CHECKING:
    from autorubric.core.length_penalty import LengthPenalty
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.graders.judge_spec import JudgeSpec

Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="MODEL or MODEL@BASE_URL; several sit as a panel. Not needed if all has checks."),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="Endpoint of every model without an address of its own.")
]
ApiKeyEnv = Annotated[str | None, typer.Option("--api-key-env", help="Variable that holds the key of every model.")]
JudgeKeyEnv = Annotated[str | None, typer.Option("--judge-key-env", help="The same for judges alone.", hidden=True)]
PlainHttp = Annotated[
    bool, typer.Option("--allow-plain-http", help="Send keys over plain HTTP beyond private networks.")
]
Aggregation = Annotated[str, typer.Option(help="Panel: majority, weighted, unanimous or any.")]
Ordinal = Annotated[str, typer.Option(help="Panel, ordered options: mean, median, weighted_mean, mode, min, max.")]
Nominal = Annotated[str, typer.Option(help="Panel, other options: mode, weighted_mode, unanimous.")]
Quorum = Annotated[int | None, typer.Option(min=1, help="Judges of a panel that must not fail; all by default.")]
Calls = Annotated[str, typer.Option(help="per_criterion, or per_item for one call an item.")]
EscalateTo = Annotated[
    list[str] | None,
    typer.Option("--escalate-to", help="Stronger judge, asked where the others fail, abstain or split; repeatable."),
]
EscalateBelow = Annotated[
    float | None,
    typer.Option("--escalate-below", help="Ask it also where their confidence is below this, in [0, 1]."),
]
LengthPenaltyText = Annotated[
    str | None,
    typer.Option(
        "--length-penalty", metavar="FREE,CAP,POINTS", help="Words that cost nothing, words that cost most."
    ),
]
Evidence = Annotated[bool, typer.Option("--evidence", help="Ask for quotes and find them in the submission.")]
FewShot = Annotated[int, typer.Option(min=0, help="Labelled examples in each prompt; needs --training-data.")]
Training = Annotated[Path | None, typer.Option("--training-data", help="Labelled dataset for --few-shot.")]
StartOver = Annotated[
    bool,
    typer.Option("--start-over", help="Request everything again. What was spent before still counts in a budget."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process works in the directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and cost; spend nothing.")]
Usd = Annotated[float | None, typer.Option("--budget-usd", help="Most dollars, over all runs in the directory.")]
Tokens = Annotated[
    int | None,
    typer.Option("--budget-tokens", min=1, max=10**15, help="Most tokens, over all runs in the directory."),
]
Prices = Annotated[Path | None, typer.Option("--prices", help="YAML of dollars per million tokens by model.")]
Concurrency = Annotated[int, typer.Option("--concurrency", "-j", min=1, max=10_000, help="Most calls in flight.")]
Abstain = Annotated[str, typer.Option("--cannot-assess", help="An abstention: skip, zero, partial or fail.")]
Temperature = Annotated[float, typer.Option(help="Of the judges.")]
MaxTokens = Annotated[int, typer.Option(min=1, max=10_000_000, help="Longest reply of a judge, at first.")]
Ceiling = Annotated[
    int,
    typer.Option("--max-tokens-ceiling", min=1, max=10_000_000, help="Highest limit for replies that are cut off."),
]
Timeout = Annotated[float, typer.Option(help="Seconds one attempt may take.")]
Retry = Annotated[int, typer.Option(min=0, max=100, help="Retries of a call that failed in passing.")]
Seed = Annotated[int, typer.Option(help="Of the order of options and the choice of examples.")]
Prompts = Annotated[Path | None, typer.Option(help="Directory of judge templates that replace the package's.")]
Repeat = Annotated[
    int, typer.Option("--repeat", min=1, max=100, help="Ask each judge N times; the majority is its vote.")
]
ShareEqual = Annotated[bool, typer.Option("--share-equal", help="Equal submissions share replies.")]
PrefixFirst = Annotated[
    bool, typer.Option("--prefix-first/--no-prefix-first", help="First call of an item goes ahead alone, for caches.")
]


OF_MODELS = ("base_url", "api_key_env", "allow_plain_http")
"""Flags that say how models are reached, whatever they do."""

_OF_JUDGES = (
    *OF_MODELS,
    "judge_key_env",
    "aggregation",
    "ordinal_aggregation",
    "nominal_aggregation",
    "quorum",
    "calls",
    "escalate_to",
    "escalate_below",
    "evidence",
    "few_shot",
    "training_data",
    "temperature",
    "max_tokens",
    "max_tokens_ceiling",
    "seed",
    "prompts",
    "prefix_first",
    "repeat",
    "share_equal",
)
"""Flags that say how judges judge; limits and budgets hold without a judge too."""


def typed(context: typer.Context) -> frozenset[str]:
    """The parameters of a command that its command line names, also where it gives them their default."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def grader_of(given: dict[str, Any]) -> CriterionGrader:
    """The grader that the flags describe; `given["typed"]` names those that were passed."""
    from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy
    from autorubric.graders.assembly import EscalationConfig
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.graders.few_shot import FewShotConfig
    from autorubric.jobs.judges import judge_specs as judges_of
    from autorubric.jobs.submissions import dataset_in
    from autorubric.prompts.judging import load_judge_prompts

    _check(given)
    scoring = {
        "on_failure": given["on_failure"],
        "cannot_assess_config": CannotAssessConfig(strategy=CannotAssessStrategy(given["cannot_assess"])),
        "length_penalty": _length_penalty(given["length_penalty"]),
    }
    if not given["judge"]:
        return CriterionGrader.of_checks(**scoring)
    common = {
        **reached(given, "judge_key_env"),
        "temperature": given["temperature"],
        "max_tokens": given["max_tokens"],
        "max_tokens_ceiling": given["max_tokens_ceiling"],
        "max_tokens_fixed": "max_tokens" in given["typed"],
        "timeout": given["timeout"],
        "max_retries": given["retry"],
        "max_parallel_requests": given["concurrency"],
    }
    training = given["training_data"] and dataset_in(given["training_data"])
    judges, strong = (
        [_repeated(spec, given["repeat"]) for spec in judges_of(given[name] or (), common, given["prices"])]
        for name in ("judge", "escalate_to")
    )
    grader = _quietly(
        judges=judges,
        escalation=EscalationConfig(strong, given["escalate_below"]) if strong else None,
        aggregation=given["aggregation"],
        ordinal_aggregation=given["ordinal_aggregation"],
        nominal_aggregation=given["nominal_aggregation"],
        quorum=given["quorum"],
        llm_calls=given["calls"],
        evidence=given["evidence"],
        training_data=training,
        few_shot_config=FewShotConfig(n_examples=given["few_shot"]) if training else None,
        budget_usd=given["budget_usd"],
        budget_tokens=given["budget_tokens"],
        max_in_flight=given["concurrency"],
        seed=given["seed"],
        prompts=None if given["prompts"] is None else load_judge_prompts(given["prompts"]),
        **scoring,
    )
    for note in grader.recipe.notes():
        print(f"note: {note}", file=sys.stderr)
    return grader


def reached(given: Mapping[str, Any], own_key: str) -> dict[str, Any]:
    """How the models of one kind are reached, as fields of `LLMConfig`; `own_key` is the flag of their own key.

    Raises:
        ConfigError: an address cannot be used, or a flag does not name a variable. The value is not repeated, as it
            may be the key.

    Example:
        >>> reached({"base_url": None, "api_key_env": "sk-planted", "allow_plain_http": False}, "judge_key_env")
        Traceback (most recent call last):
        autorubric.errors.ConfigError: --api-key-env is not the name of an environment variable that is set; ...
    """
    from autorubric.llm.http.secrets import checked_base_url

    if given["base_url"] is not None:
        checked_base_url(given["base_url"], "--base-url")
    for name in ("api_key_env", own_key):
        check_variable(name, given.get(name))
    return {
        "api_base": given["base_url"],
        "api_key_env": given.get(own_key) or given["api_key_env"],
        "allow_plain_http": given["allow_plain_http"],
    }


def check_variable(name: str, value: str | None) -> None:
    """Refuse a flag that should name a variable and does not, without repeating what it holds."""
    from autorubric.llm.http.secrets import NO_VARIABLE, is_variable_name

    if value is not None and not is_variable_name(value):
        raise ConfigError(f"--{name.replace('_', '-')} {NO_VARIABLE}")


def _quietly(**settings: Any) -> CriterionGrader:
    """The grader, without the warnings that `grader_of` prints in its own form."""
    from autorubric.graders.criterion_grader import CriterionGrader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return CriterionGrader(**settings)


def _repeated(spec: JudgeSpec, repeats: int) -> JudgeSpec:
    from autorubric.graders.judge_spec import JudgeSpec

    return JudgeSpec(spec.llm_config, spec.judge_id, spec.weight, repeats=repeats)


def _check(given: dict[str, Any]) -> None:
    """Refuse flags that say nothing together, or that no value of theirs is."""
    _refuse_unknown_words(given)
    _refuse_no_limits(given)
    if not given["judge"]:
        _refuse_flags_of_judges(given)
        return
    if given["escalate_below"] is not None and not given["escalate_to"]:
        raise ConfigError(
            "--escalate-below says when the judge of --escalate-to is asked; pass --escalate-to MODEL too"
        )
    twice = [name for name, count in Counter(given["judge"]).items() if count > 1]
    if twice:
        raise ConfigError(f"--judge {twice[0]} is given more than once; --repeat N asks each judge N times")
    quorum, judges = given["quorum"], len(given["judge"])
    if quorum is not None and quorum > judges:
        raise ConfigError(f"--quorum {quorum} is more than the {judges} judges; pass at most {judges}")
    if bool(given["few_shot"]) != (given["training_data"] is not None):
        raise ConfigError("--few-shot N and --training-data FILE go together")


def _refuse_flags_of_judges(given: dict[str, Any]) -> None:
    """Refuse flags that say how judges judge where there is none: nobody who passes one means it to do nothing."""
    unused = [
        f"--{'no-' if given[name] is False else ''}{name.replace('_', '-')}"
        for name in _OF_JUDGES
        if name in given["typed"]
    ]
    if unused:
        verb = "says" if len(unused) == 1 else "say"
        raise ConfigError(f"{', '.join(unused)} {verb} how judges judge, and there is none; pass --judge MODEL too")


def _refuse_unknown_words(given: dict[str, Any]) -> None:
    from autorubric.core.verdict import CannotAssessStrategy
    from autorubric.files import advice
    from autorubric.graders.aggregation import BINARY, NOMINAL, ORDINAL
    from autorubric.graders.assembly import LLMCalls
    from autorubric.graders.reporting import OnFailure

    words: dict[str, tuple[str, ...]] = {
        "aggregation": tuple(BINARY),
        "ordinal_aggregation": tuple(ORDINAL),
        "nominal_aggregation": tuple(NOMINAL),
        "calls": get_args(LLMCalls),
        "on_failure": get_args(OnFailure),
        "cannot_assess": tuple(strategy.value for strategy in CannotAssessStrategy),
    }
    problems = [
        f"--{name.replace('_', '-')} {given[name]!r} is unknown; {advice(given[name], known)}"
        for name, known in words.items()
        if given[name] not in known
    ]
    if problems:
        raise ConfigError(problems)


def _refuse_no_limits(given: dict[str, Any]) -> None:
    below, dollars = given["escalate_below"], given["budget_usd"]
    if below is not None and not 0 <= below <= 1:
        raise ConfigError(f"--escalate-below {below} is no confidence; expected a number from 0 to 1")
    if dollars is not None and not 0 <= dollars < math.inf:
        raise ConfigError(f"--budget-usd {dollars} is no limit; expected a finite number from 0 up")


def _length_penalty(given: str | None) -> LengthPenalty | None:
    """The penalty that `FREE,CAP,POINTS` describes."""
    from autorubric.core.length_penalty import LengthPenalty

    if given is None:
        return None
    try:
        free, cap, points = given.split(",")
        return LengthPenalty(free_budget=int(free), max_cap=int(cap), penalty_at_cap=float(points))
    except ValueError:
        raise ConfigError(
            f"--length-penalty {given!r}: expected FREE,CAP,POINTS such as 6000,8000,0.5: two numbers of words, "
            "the second not below the first, and the points lost from CAP on"
        ) from None
