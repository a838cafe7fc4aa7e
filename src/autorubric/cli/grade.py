"""`autorubric grade`: submissions in, scores out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli import judge_flags as flags
from autorubric.cli.call_log import LogJson, LogPrompts, call_log
from autorubric.cli.event_loop import run
from autorubric.cli.flags import folder_named
from autorubric.cli.judge_flags import grader_of
from autorubric.errors import InputError

if TYPE_CHECKING:
    from autorubric.cli.grading_session import GradingSession

_Dataset = Annotated[
    Path | None,
    typer.Argument(metavar="DATASET", help="Dataset, or rows: JSON, YAML, JSONL, CSV, Parquet, Arrow, a folder, -."),
]
_Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", parser=folder_named, help="Run directory; the same command again goes on from there."
    ),
]
_Rubric = Annotated[
    Path | None, typer.Option("--rubric", help="Rubric file for all rows of --submissions or DATASET.")
]
_Submissions = Annotated[
    Path | None,
    typer.Option("--submissions", help="Submissions: rows of any kind, a text, or a folder of texts."),
]
_Prompt = Annotated[str | None, typer.Option("--prompt", help="What the submissions answer.")]
_Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Column of rows, such as submission=answer; repeatable."),
]
_Labels = Annotated[
    list[Path] | None,
    typer.Option("--labels", help="Labels for the items: rows of id, criterion, label[, annotator]; repeatable."),
]
_Annotator = Annotated[
    str | None, typer.Option("--annotator", help="Whose labels of --labels count, or majority, where they disagree.")
]
_Limit = Annotated[int | None, typer.Option(min=1, max=10**9, help="Grade the first N items only.")]
_OnFailure = Annotated[
    str, typer.Option(help="Item with a failed judgment: none (no score) or skip (score the rest).")
]
_Format = Annotated[
    list[str] | None, typer.Option("--format", "-f", help="Write results.FORMAT: json, jsonl, csv or parquet.")
]
_FailUnder = Annotated[
    float | None, typer.Option(min=0, max=1, help="Leave with status 100 if the mean score is lower.")
]


def grade(
    context: typer.Context,
    dataset: _Dataset = None,
    out: _Out = Path("run"),
    rubric: _Rubric = None,
    submissions: _Submissions = None,
    prompt: _Prompt = None,
    column: _Column = None,
    labels: _Labels = None,
    annotator: _Annotator = None,
    judge: flags.Judge = None,
    base_url: flags.BaseUrl = None,
    api_key_env: flags.ApiKeyEnv = None,
    judge_key_env: flags.JudgeKeyEnv = None,
    allow_plain_http: flags.PlainHttp = False,
    aggregation: flags.Aggregation = "majority",
    ordinal_aggregation: flags.Ordinal = "mean",
    nominal_aggregation: flags.Nominal = "mode",
    quorum: flags.Quorum = None,
    calls: flags.Calls = "per_criterion",
    escalate_to: flags.EscalateTo = None,
    escalate_below: flags.EscalateBelow = None,
    length_penalty: flags.LengthPenaltyText = None,
    evidence: flags.Evidence = False,
    few_shot: flags.FewShot = 0,
    training_data: flags.Training = None,
    limit: _Limit = None,
    start_over: flags.StartOver = False,
    wait: flags.Wait = False,
    dry_run: flags.DryRun = False,
    budget_usd: flags.Usd = None,
    budget_tokens: flags.Tokens = None,
    prices: flags.Prices = None,
    concurrency: flags.Concurrency = 256,
    on_failure: _OnFailure = "none",
    cannot_assess: flags.Abstain = "skip",
    format: _Format = None,
    fail_under: _FailUnder = None,
    temperature: flags.Temperature = 0.0,
    max_tokens: flags.MaxTokens = 2048,
    max_tokens_ceiling: flags.Ceiling = 32_768,
    timeout: flags.Timeout = 300.0,
    retry: flags.Retry = 5,
    seed: flags.Seed = 0,
    prompts: flags.Prompts = None,
    prefix_first: flags.PrefixFirst = True,
    repeat: flags.Repeat = 1,
    share_equal: flags.ShareEqual = False,
    log_json: LogJson = None,
    log_prompts: LogPrompts = False,
) -> int:
    """Grade submissions criterion by criterion: by judges, by checks, or both.

    The same command again goes on where the last one stopped, asks what failed once more and pays for nothing
    twice.
    """
    given = {**locals(), "typed": flags.typed(context)}
    session = _session(given, context.obj or sys.argv[1:])
    with call_log(log_json, log_prompts, out):
        return run(session.estimate() if dry_run else session.run())


_READ = ("dataset", "rubric", "submissions", "training_data", "prices", "prompts")


def _session(given: dict[str, Any], arguments: Sequence[str]) -> GradingSession:
    """The session that the flags describe."""
    from autorubric.cli.grading_inputs import check_weighed, dataset_of, rubrics_in
    from autorubric.cli.grading_session import GradingSession
    from autorubric.cli.long_runs import command_again
    from autorubric.cli.submissions import columns_named, labelled
    from autorubric.dataset.item_rows import ROLES
    from autorubric.dataset.label_rows import LABEL_ROLES, LabelTable
    from autorubric.evaluation.tables import FORMATS

    formats, limit = tuple(given["format"] or ()), given["limit"]
    wrong = [name for name in formats if name not in FORMATS]
    if wrong:
        raise InputError(f"--format {wrong[0]!r} is not one of {', '.join(FORMATS)}")
    columns = columns_named(given["column"], (*ROLES, *LABEL_ROLES))
    of_labels = {role: columns.pop(role) for role in LABEL_ROLES if role in columns}
    if not given["labels"] and (of_labels or given["annotator"] is not None):
        raise InputError("--annotator and --column of labels need --labels FILE")
    found = dataset_of(given["dataset"], given["rubric"], given["submissions"], given["prompt"], columns)
    if given["labels"]:
        found = labelled(found, LabelTable(given["labels"], given["annotator"], of_labels))
    check_weighed(rubrics_in(found, given["rubric"] or given["dataset"]))
    return GradingSession(
        found if limit is None else replace(found, items=found.items[:limit]),
        grader_of(given),
        given["out"],
        again=command_again(arguments, without=("--start-over",)),
        resume=not given["start_over"],
        wait=given["wait"],
        formats=formats,
        fail_under=given["fail_under"],
        prefix_first=given["prefix_first"],
        share_equal=given["share_equal"],
        settings={"command": "grade", "limit": limit, "concurrency": given["concurrency"]},
        sources=tuple(path for name in _READ if (path := given[name]) is not None),
    )
