"""The flags that say who judges, how, and what it may cost; for every command that grades."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.errors import ConfigError

if TYPE_CHECKING:
    from autorubric.graders.criterion_grader import CriterionGrader

Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="MODEL or MODEL@BASE_URL; several sit as a panel. Not needed if all has checks."),
]
KeyEnv = Annotated[str | None, typer.Option("--judge-key-env", help="Variable that holds the key of every judge.")]
Aggregation = Annotated[str, typer.Option(help="Panel: majority, weighted, unanimous or any.")]
Ordinal = Annotated[str, typer.Option(help="Panel, ordered options: mean, median, weighted_mean, mode, min, max.")]
Nominal = Annotated[str, typer.Option(help="Panel, other options: mode, weighted_mode, unanimous.")]
Quorum = Annotated[int | None, typer.Option(help="Judges of a panel that must not fail; all by default.")]
Calls = Annotated[str, typer.Option(help="per_criterion, or per_item for one call an item.")]
Evidence = Annotated[bool, typer.Option("--evidence", help="Ask for quotes and find them in the submission.")]
FewShot = Annotated[int, typer.Option(min=0, help="Labelled examples in each prompt; needs --training-data.")]
Training = Annotated[Path | None, typer.Option("--training-data", help="Labelled dataset for --few-shot.")]
Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="--no-resume asks everything anew.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process works in the directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and cost; spend nothing.")]
Usd = Annotated[float | None, typer.Option("--budget-usd", help="Most dollars, over all runs in the directory.")]
Tokens = Annotated[int | None, typer.Option("--budget-tokens", help="Most tokens, over all runs in the directory.")]
Prices = Annotated[Path | None, typer.Option("--prices", help="YAML of dollars per million tokens by model.")]
Concurrency = Annotated[int, typer.Option("--concurrency", "-j", min=1, help="Most calls in flight.")]
Abstain = Annotated[str, typer.Option("--cannot-assess", help="An abstention: skip, zero, partial or fail.")]
Temperature = Annotated[float, typer.Option(help="Of the judges.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Longest reply of a judge.")]
Timeout = Annotated[float, typer.Option(help="Seconds one attempt may take.")]
Retry = Annotated[int, typer.Option(min=0, help="Retries of a call that failed in passing.")]
Seed = Annotated[int, typer.Option(help="Of the order of options and the choice of examples.")]
Prompts = Annotated[Path | None, typer.Option(help="Directory of judge templates that replace the package's.")]
PrefixFirst = Annotated[
    bool, typer.Option("--prefix-first/--no-prefix-first", help="First call of an item goes ahead alone, for caches.")
]


def grader_of(given: dict[str, Any]) -> CriterionGrader:
    """The grader that the flags describe."""
    from autorubric.cli.grading_inputs import judges_of
    from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy
    from autorubric.dataset import RubricDataset
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.graders.few_shot import FewShotConfig
    from autorubric.prompts.judging import load_judge_prompts

    known = [strategy.value for strategy in CannotAssessStrategy]
    if given["cannot_assess"] not in known:
        raise ConfigError(f"--cannot-assess {given['cannot_assess']!r} is not one of {', '.join(known)}")
    scoring = {
        "on_failure": given["on_failure"],
        "cannot_assess_config": CannotAssessConfig(strategy=CannotAssessStrategy(given["cannot_assess"])),
    }
    if not given["judge"]:
        return CriterionGrader.of_checks(**scoring)
    if bool(given["few_shot"]) != (given["training_data"] is not None):
        raise ConfigError("--few-shot N and --training-data FILE go together")
    common = {
        "api_key_env": given["judge_key_env"],
        "temperature": given["temperature"],
        "max_tokens": given["max_tokens"],
        "timeout": given["timeout"],
        "max_retries": given["retry"],
        "max_parallel_requests": given["concurrency"],
    }
    training = given["training_data"] and RubricDataset.from_file(given["training_data"])
    return CriterionGrader(
        judges=judges_of(given["judge"], common, given["prices"]),
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
