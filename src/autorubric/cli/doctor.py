"""`autorubric doctor`: what this machine offers a run, and what would get in its way."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.flags import folder_named
from autorubric.cli.event_loop import run
from autorubric.errors import ConfigError

if TYPE_CHECKING:
    from autorubric.runs.doctor import Finding

_BaseUrl = Annotated[
    list[str] | None, typer.Option("--base-url", help="Endpoint to reach, repeatable; nothing is generated there.")
]
_KeyEnv = Annotated[str | None, typer.Option("--key-env", help="Variable that holds the key of --base-url.")]
_Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=folder_named,
        metavar="<path>",
        help="Where runs will be written; its disk is measured.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="All findings as JSON.")]

_MARKS = {"ok": "   ", "note": " ! ", "problem": "!! "}


def doctor(base_url: _BaseUrl = None, key_env: _KeyEnv = None, out: _Out = Path(), json: _Json = False) -> int:
    """Look at versions, keys (by name), disk, SQLite and endpoints; leave with status 1 where there is a problem."""
    from autorubric.files import dump_json
    from autorubric.runs.doctor import disk_findings, endpoint_finding, environment_findings, sqlite_finding

    if key_env is not None and not key_env.strip():
        raise ConfigError("--key-env names no variable")
    if key_env is not None and not base_url:
        raise ConfigError("--key-env names the key of --base-url; give --base-url URL as well")

    async def reached() -> list[Finding]:
        return await asyncio.gather(*(endpoint_finding(url, key_env) for url in base_url or ()))

    endpoints = run(reached())
    found = [*environment_findings(), sqlite_finding(), *disk_findings(out), *endpoints]
    if json:
        print(dump_json([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n{'':22}{finding.advice}" if finding.advice else ""
            print(f"{_MARKS[finding.verdict]}{finding.subject:<19}{finding.value}{advice}")
    return EXIT_UNFINISHED if any(finding.verdict == "problem" for finding in found) else 0
