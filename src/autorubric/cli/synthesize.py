"""`autorubric synthesize`: queries in, rubrics out."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from autorubric.cli.call_log import LogJson, LogPrompts, call_log
from autorubric.cli.event_loop import run
from autorubric.cli.flags import FLAGS, folder_named, settings_tree
from autorubric.cli.judge_flags import StartOver
from autorubric.errors import ConfigError

_Input = Annotated[
    Path | None,
    typer.Argument(
        metavar="INPUT",
        help="File of queries: CSV, TSV, JSON, JSONL, YAML, Parquet, Arrow, a dataset folder, or - (standard input).",
    ),
]
_Config = Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file of settings.")]
_Models = Annotated[
    str | None, typer.Option("--models", "-m", help="MODEL or MODEL@BASE_URL for every role not named otherwise.")
]
_Refresh = Annotated[list[str] | None, typer.Option("--refresh", help="Role to ask anew; repeatable.")]
_Skip = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out input rows that cannot be used.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and cost; spend nothing.")]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process works in the directory.")]
_ExportOnly = Annotated[
    bool, typer.Option("--export-only", help="Write the files from what is recorded; make no call.")
]
_Show = Annotated[int, typer.Option("--show", min=0, max=10**9, help="Print so many finished rubrics at the end.")]


def synthesize(
    context: typer.Context,
    input: _Input = None,
    config: _Config = None,
    models: _Models = None,
    refresh: _Refresh = None,
    skip_bad_rows: _Skip = False,
    dry_run: _DryRun = False,
    wait: _Wait = False,
    export_only: _ExportOnly = False,
    start_over: StartOver = False,
    show: _Show = 0,
    log_json: LogJson = None,
    log_prompts: LogPrompts = False,
    **given: Any,
) -> int:
    """Turn queries into rubrics: reference, responses, candidate rubrics, merge, harder criteria, export.

    The same command again goes on where the last one stopped and pays for nothing twice.
    """
    from autorubric.synthesis.settings import read_settings, settings_from
    from autorubric.synthesis.slots import slots_of

    held = read_settings(config) if config else {}
    tree = settings_tree(given, held, models)
    tree |= {"input": str(input)} if input else {}
    tree |= {"refresh": refresh} if refresh else {}
    tree |= {"skip_bad_rows": True} if skip_bad_rows else {}
    for name in ("input", "out"):
        if name not in tree:
            flag = "INPUT" if name == "input" else "--out DIR"
            raise ConfigError(f"no {name}; pass {flag} or set it in {config or 'a config'}")
    where = str(config or "command line")
    try:
        settings = settings_from(tree, where)
    except ConfigError as error:
        raise ConfigError(_under_its_flag(problem, where, given) for problem in error.problems) from None
    _refuse_unused(settings.profile, given)

    from autorubric.cli.synthesis_session import Session
    from autorubric.runs.resuming import command_again

    if start_over:
        settings = settings.model_copy(update={"refresh": tuple(slot.name for slot in slots_of(settings))})
    once = ("--export-only", "--start-over")
    again = command_again(context.obj or sys.argv[1:], without=once, without_values=("--refresh",))
    session = Session(settings, wait, export_only, show, again, start_over)
    with call_log(log_json, log_prompts, settings.out):
        return run(session.estimate() if dry_run else session.run())


def _under_its_flag(problem: str, where: str, given: Mapping[str, Any]) -> str:
    """What is wrong with a setting, named as its flag where a flag has set it."""
    for flag in FLAGS:
        head = f"{where}: {flag.setting} is "
        if given.get(flag.parameter) is not None and problem.startswith(head):
            return f"--{flag.name} is {problem.removeprefix(head)}"
    return problem


def _refuse_unused(profile: str, given: Mapping[str, Any]) -> None:
    """Refuse flags of the full method where it is not run: nobody who passes one means it to do nothing."""
    unused = [f"--{flag.name}" for flag in FLAGS if flag.only_full and given.get(flag.parameter) is not None]
    if unused and profile != "full":
        verb = "needs" if len(unused) == 1 else "need"
        raise ConfigError(f"{', '.join(unused)} {verb} the full method; pass --profile full")


def _with_flags(function: Any) -> None:
    """Give the command the parameters of the flag table, in the place of its keyword catch-all."""
    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    made = [
        inspect.Parameter(
            flag.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                flag.type | None,
                typer.Option(
                    *filter(None, (f"--{flag.name}", flag.short)),
                    help=flag.help,
                    show_default=False,
                    parser=folder_named if flag.type is Path else None,
                ),
            ],
        )
        for flag in FLAGS
    ]
    function.__signature__ = signature.replace(parameters=[*own, *made])
    function.__annotations__ = {p.name: p.annotation for p in (*own, *made)} | {"return": int}


_with_flags(synthesize)
