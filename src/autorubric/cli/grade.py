"""`autorubric grade`: submissions in, scores out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli.call_log import LogJson, LogPrompts, call_log
from autorubric.errors import ConfigError, InputError

if TYPE_CHECKING:
    from autorubric.cli.grading_session import GradingSession
    from autorubric.graders.criterion_grader import CriterionGrader

_Dataset = Annotated[Path | None, typer.Argument(metavar="DATASET", help="Dataset: JSON, YAML or JSONL.")]
_Out = Annotated[Path, typer.Option("--out", "-o", help="Run directory; the same command again goes on from there.")]
_Rubric = Annotated[Path | None, typer.Option("--rubric", help="Rubric, in the place of DATASET.")]
_Submissions = Annotated[
    Path | None,
    typer.Option("--submissions", help="Their submissions: JSONL, JSON, YAML, a text, a folder of texts."),
]
_Prompt = Annotated[str | None, typer.Option("--prompt", help="What the submissions answer.")]
_Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="MODEL or MODEL@BASE_URL; several sit as a panel. Not needed if all has checks."),
]
_KeyEnv = Annotated[str | None, typer.Option("--judge-key-env", help="Variable that holds the key of every judge.")]
_Aggregation = Annotated[str, typer.Option(help="Panel: majority, weighted, unanimous or any.")]
_Ordinal = Annotated[str, typer.Option(help="Panel, ordered options: mean, median, weighted_mean, mode, min, max.")]
_Nominal = Annotated[str, typer.Option(help="Panel, other options: mode, weighted_mode, unanimous.")]
_Quorum = Annotated[int | None, typer.Option(help="Judges of a panel that must not fail; all by default.")]
_Calls = Annotated[str, typer.Option(help="per_criterion, or per_item for one call an item.")]
_Evidence = Annotated[bool, typer.Option("--evidence", help="Ask for quotes and find them in the submission.")]
_FewShot = Annotated[int, typer.Option(min=0, help="Labelled examples in each prompt; needs --training-data.")]
_Training = Annotated[Path | None, typer.Option("--training-data", help="Labelled dataset for --few-shot.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Grade the first N items only.")]
_Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="--no-resume asks everything anew.")]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process works in the directory.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and cost; spend nothing.")]
_Usd = Annotated[float | None, typer.Option("--budget-usd", help="Most dollars, over all runs in the directory.")]
_Tokens = Annotated[int | None, typer.Option("--budget-tokens", help="Most tokens, over all runs in the directory.")]
_Prices = Annotated[Path | None, typer.Option("--prices", help="YAML of dollars per million tokens by model.")]
_Concurrency = Annotated[int, typer.Option("--concurrency", "-j", min=1, help="Most calls in flight.")]
_OnFailure = Annotated[
    str, typer.Option(help="Item with a failed judgment: none (no score) or skip (score the rest).")
]
_Abstain = Annotated[str, typer.Option("--cannot-assess", help="An abstention: skip, zero, partial or fail.")]
_Format = Annotated[
    list[str] | None, typer.Option("--format", "-f", help="Write results.FORMAT: json, jsonl, csv or parquet.")
]
_FailUnder = Annotated[float | None, typer.Option(help="Leave with status 100 if the mean score is lower.")]
_Temperature = Annotated[float, typer.Option(help="Of the judges.")]
_MaxTokens = Annotated[int, typer.Option(min=1, help="Longest reply of a judge.")]
_Timeout = Annotated[float, typer.Option(help="Seconds one attempt may take.")]
_Retry = Annotated[int, typer.Option(min=0, help="Retries of a call that failed in passing.")]
_Seed = Annotated[int, typer.Option(help="Of the order of options and the choice of examples.")]
_Prompts = Annotated[Path | None, typer.Option(help="Directory of judge templates that replace the package's.")]
_PrefixFirst = Annotated[
    bool, typer.Option("--prefix-first/--no-prefix-first", help="First call of an item goes ahead alone, for caches.")
]


def grade(
    context: typer.Context,
    dataset: _Dataset = None,
    out: _Out = Path("run"),
    rubric: _Rubric = None,
    submissions: _Submissions = None,
    prompt: _Prompt = None,
    judge: _Judge = None,
    judge_key_env: _KeyEnv = None,
    aggregation: _Aggregation = "majority",
    ordinal_aggregation: _Ordinal = "mean",
    nominal_aggregation: _Nominal = "mode",
    quorum: _Quorum = None,
    calls: _Calls = "per_criterion",
    evidence: _Evidence = False,
    few_shot: _FewShot = 0,
    training_data: _Training = None,
    limit: _Limit = None,
    resume: _Resume = True,
    wait: _Wait = False,
    dry_run: _DryRun = False,
    budget_usd: _Usd = None,
    budget_tokens: _Tokens = None,
    prices: _Prices = None,
    concurrency: _Concurrency = 256,
    on_failure: _OnFailure = "none",
    cannot_assess: _Abstain = "skip",
    format: _Format = None,
    fail_under: _FailUnder = None,
    temperature: _Temperature = 0.0,
    max_tokens: _MaxTokens = 2048,
    timeout: _Timeout = 300.0,
    retry: _Retry = 5,
    seed: _Seed = 0,
    prompts: _Prompts = None,
    prefix_first: _PrefixFirst = True,
    log_json: LogJson = None,
    log_prompts: LogPrompts = False,
) -> int:
    """Grade submissions criterion by criterion: by judges, by checks, or both.

    The same command again goes on where the last one stopped, asks what failed once more and pays for nothing
    twice.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    session = _session(given, context.obj or sys.argv[1:])
    with call_log(log_json, log_prompts, out):
        return asyncio.run(session.estimate() if dry_run else session.run())


def _session(given: dict[str, Any], arguments: Sequence[str]) -> GradingSession:
    """The session that the flags describe."""
    from autorubric.cli.grading_inputs import dataset_of
    from autorubric.cli.grading_session import GradingSession
    from autorubric.cli.long_runs import command_again
    from autorubric.evaluation.tables import FORMATS

    formats, limit = tuple(given["format"] or ()), given["limit"]
    wrong = [name for name in formats if name not in FORMATS]
    if wrong:
        raise InputError(f"--format {wrong[0]!r} is not one of {', '.join(FORMATS)}")
    found = dataset_of(given["dataset"], given["rubric"], given["submissions"], given["prompt"])
    return GradingSession(
        found if limit is None else replace(found, items=found.items[:limit]),
        _grader(given),
        given["out"],
        again=command_again(arguments, without=("--no-resume",)),
        resume=given["resume"],
        wait=given["wait"],
        formats=formats,
        fail_under=given["fail_under"],
        prefix_first=given["prefix_first"],
        settings={"command": "grade", "limit": limit, "concurrency": given["concurrency"]},
    )


def _grader(given: dict[str, Any]) -> CriterionGrader:
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
