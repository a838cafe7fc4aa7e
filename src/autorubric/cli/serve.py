"""`autorubric serve`: rewards over HTTP, for trainers on other machines."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autorubric.cli import judge_flags as flags
from autorubric.cli.call_log import LogJson, LogPrompts, call_log
from autorubric.cli.event_loop import run
from autorubric.cli.flags import folder_named
from autorubric.cli.judge_flags import grader_of
from autorubric.errors import ConfigError

if TYPE_CHECKING:
    from autorubric.training.reward import RewardRule
    from autorubric.training.service.judging import RewardDesk, SecondJudge

_Out = Annotated[
    Path,
    typer.Option("--out", "-o", parser=folder_named, help="Run directory; the same one goes on with what it knows."),
]
_Host = Annotated[str, typer.Option(help="Address to listen at; one that others can reach needs --token-env.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")]
_TokenEnv = Annotated[str | None, typer.Option("--token-env", help="Variable that holds the token callers send.")]
_Queue = Annotated[
    int, typer.Option(min=1, max=10**6, help="Most submissions in the service; more are sent away with 429.")
]
_Deadline = Annotated[float, typer.Option(help="Seconds a call may take; then it is answered with 504.")]
_Body = Annotated[float, typer.Option("--max-body-mb", help="Longest body of a call.")]
_Grace = Annotated[float, typer.Option(min=0, max=86_400, help="Seconds that open calls have on SIGTERM.")]
_Formula = Annotated[str, typer.Option(help="positive (RubricHub), signed (HealthBench) or clipped.")]
_Gate = Annotated[list[str] | None, typer.Option("--gate", help="Criterion that must be met, else 0; repeatable.")]
_Overlong = Annotated[bool, typer.Option("--overlong", help="Soft penalty for long submissions (DAPO), by 'length'.")]
_Longest = Annotated[int, typer.Option("--overlong-length", help="Tokens at which the penalty is whole.")]
_Buffer = Annotated[int, typer.Option("--overlong-buffer", help="Tokens below that over which it grows.")]
_Factor = Annotated[float, typer.Option("--overlong-factor", help="The whole penalty.")]
_Second = Annotated[str | None, typer.Option("--second-judge", help="MODEL or MODEL@BASE_URL to compare with.")]
_Share = Annotated[float, typer.Option("--second-share", help="Share of submissions that it sees too.")]

_StartOver = Annotated[
    bool,
    typer.Option(
        "--start-over",
        help="Go on with a new ledger where this one is lost or damaged. What was spent before still counts.",
    ),
]


def serve(
    context: typer.Context,
    judge: flags.Judge = None,
    out: _Out = Path("rewards"),
    host: _Host = "127.0.0.1",
    port: _Port = 8100,
    token_env: _TokenEnv = None,
    queue: _Queue = 4096,
    deadline: _Deadline = 300.0,
    max_body_mb: _Body = 8.0,
    grace: _Grace = 30.0,
    formula: _Formula = "positive",
    gate: _Gate = None,
    overlong: _Overlong = False,
    overlong_length: _Longest = 8192,
    overlong_buffer: _Buffer = 4096,
    overlong_factor: _Factor = 0.5,
    second_judge: _Second = None,
    second_share: _Share = 0.05,
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
    evidence: flags.Evidence = False,
    few_shot: flags.FewShot = 0,
    training_data: flags.Training = None,
    start_over: _StartOver = False,
    wait: flags.Wait = False,
    budget_usd: flags.Usd = None,
    budget_tokens: flags.Tokens = None,
    prices: flags.Prices = None,
    concurrency: flags.Concurrency = 256,
    cannot_assess: flags.Abstain = "skip",
    temperature: flags.Temperature = 0.0,
    max_tokens: flags.MaxTokens = 2048,
    max_tokens_ceiling: flags.Ceiling = 32_768,
    timeout: flags.Timeout = 120.0,
    retry: flags.Retry = 5,
    seed: flags.Seed = 0,
    prompts: flags.Prompts = None,
    prefix_first: flags.PrefixFirst = True,
    repeat: flags.Repeat = 1,
    log_json: LogJson = None,
    log_prompts: LogPrompts = False,
) -> int:
    """Serve rewards to trainers: POST /v1/reward, GET /healthz, GET /metrics.

    Every caller shares one limit, one budget and one ledger; the same question at the same time is asked once, and
    never again. A failed judgment gives no reward, and never 0. SIGTERM answers what is open, then leaves.
    """
    given = {**locals(), "typed": flags.typed(context), "on_failure": "none", "length_penalty": None}
    with call_log(log_json, log_prompts, out):
        return run(_serve(given))


async def _serve(given: dict[str, Any]) -> int:
    from autorubric.llm.models import stand_ins
    from autorubric.runs.manifest import MANIFEST_FILE
    from autorubric.runs.run_folder import run_folder
    from autorubric.training.service.access import checked_token
    from autorubric.training.service.app import Doors
    from autorubric.training.service.server import ServiceSettings, serve_rewards

    _check_numbers(given)
    token = checked_token(given["host"], given["token_env"], os.environ)
    grader, second = grader_of(given), _second(given)
    rule = _rule(given)
    for judge in (grader, second.grader if second else None):
        if judge is not None:
            models = (await judge.desk()).models
            for sentence in stand_ins(model.name for model in models.values()):
                print(sentence, flush=True)
    # A long search for cycles would be a long wait for somebody: look rarely, and never through the modules.
    gc.set_threshold(20_000, 20, 20)
    gc.freeze()
    settings = ServiceSettings(
        given["out"],
        given["host"],
        given["port"],
        given["queue"],
        Doors(token, round(given["max_body_mb"] * 2**20), given["deadline"]),
        given["grace"],
        given["prefix_first"],
        given["wait"],
        given["start_over"],
        {"formula": rule.formula, "gates": list(rule.gates), "overlong": rule.overlong and asdict(rule.overlong)},
    )
    with run_folder(given["out"], (MANIFEST_FILE,), start_over=given["start_over"]):
        desk = await serve_rewards(settings, grader, rule, second, _announced)
    _print_end(desk, given["out"])
    return 0


def _announced(url: str) -> None:
    print(f"rewards at {url}/v1/reward; stop with Ctrl-C or SIGTERM", flush=True)


def _print_end(desk: RewardDesk, out: Path) -> None:
    activity = list(desk.executor.snapshot().values())
    paid, hits = sum(a.paid for a in activity), sum(a.hits for a in activity)
    failed = sum(a.failures for a in activity)
    print(f"stopped; {paid:,} judge calls, {hits:,} answered from the ledger, {failed:,} failed")
    print(f"  how the reward moved:  autorubric drift {out}", file=sys.stdout)


def _rule(given: dict[str, Any]) -> RewardRule:
    from autorubric.core.verdict import CannotAssessConfig, CannotAssessStrategy
    from autorubric.training.overlong import SoftOverlong
    from autorubric.training.reward import RewardRule

    figures = [given[f"overlong_{name}"] for name in ("length", "buffer", "factor")]
    return RewardRule(
        given["formula"],
        cannot_assess=CannotAssessConfig(strategy=CannotAssessStrategy(given["cannot_assess"])),
        gates=tuple(given["gate"] or ()),
        overlong=SoftOverlong(*figures) if given["overlong"] else None,
    )


def _second(given: dict[str, Any]) -> SecondJudge | None:
    from autorubric.training.service.judging import SecondJudge

    share = given["second_share"]
    if not 0 < share <= 1:
        raise ConfigError(f"--second-share {share:g}; expected a share above 0, at most 1")
    if given["second_judge"] is None:
        return None
    if not given["judge"]:
        raise ConfigError("--second-judge is compared with --judge; give --judge as well")
    if given["second_judge"] in given["judge"]:
        raise ConfigError(f"--second-judge {given['second_judge']} is a --judge already; name another model")
    unset = dict.fromkeys(("quorum", "budget_usd", "budget_tokens", "escalate_to", "escalate_below"))
    return SecondJudge(grader_of({**given, **unset, "judge": [given["second_judge"]]}), share)


def _check_numbers(given: dict[str, Any]) -> None:
    if not given["host"].isprintable():
        raise ConfigError(f"--host {given['host']!a}; expected the name or the address of this machine")
    problems = [
        f"{flag} {given[name]:g}; expected a number above 0"
        for flag, name in (("--deadline", "deadline"), ("--max-body-mb", "max_body_mb"))
        if not 0 < given[name] < float("inf")
    ]
    if problems:
        raise ConfigError(problems)
