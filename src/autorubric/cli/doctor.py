"""`autorubric doctor`: what this machine offers a run, and what would get in its way."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.event_loop import run
from autorubric.cli.flags import folder_named
from autorubric.cli.judge_flags import PlainHttp, check_variable
from autorubric.errors import ConfigError

if TYPE_CHECKING:
    from autorubric.runs.finding import Finding

_BaseUrl = Annotated[
    list[str] | None, typer.Option("--base-url", help="Endpoint to reach, repeatable; nothing is generated there.")
]
_Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="MODEL or MODEL@BASE_URL to check, repeatable; one not listed is asked for 16 tokens."
    ),
]
_KeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", help="Variable that holds the key of --base-url or --model.")
]
_OldKeyEnv = Annotated[str | None, typer.Option("--key-env", help="The same as --api-key-env.", hidden=True)]
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


def doctor(
    base_url: _BaseUrl = None,
    model: _Model = None,
    api_key_env: _KeyEnv = None,
    key_env: _OldKeyEnv = None,
    allow_plain_http: PlainHttp = False,
    out: _Out = Path(),
    json: _Json = False,
) -> int:
    """Check versions, keys (by name), disk, SQLite, endpoints and models; exit with 1 if there is a problem."""
    from autorubric.files import dump_json
    from autorubric.llm.http.secrets import split_address
    from autorubric.runs.doctor import disk_findings, environment_findings, sqlite_finding
    from autorubric.runs.endpoint_check import endpoint_findings

    check_variable("key_env", key_env)
    check_variable("api_key_env", api_key_env)
    variable = api_key_env or key_env
    if variable is not None and not base_url and not model:
        raise ConfigError("--api-key-env names the key of an endpoint; give --base-url URL as well, or --model MODEL")
    places = _places(base_url or [], [split_address(name) for name in model or ()])

    async def reached() -> list[list[Finding]]:
        return await asyncio.gather(
            *(endpoint_findings(url, names, variable, plain_http=allow_plain_http) for url, names in places)
        )

    endpoints = (finding for findings in run(reached()) for finding in findings)
    found = [*environment_findings(), sqlite_finding(), *disk_findings(out), *endpoints]
    if json:
        print(dump_json([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n{'':22}{finding.advice}" if finding.advice else ""
            print(f"{_MARKS[finding.verdict]}{finding.subject:<19}{finding.value}{advice}")
    return EXIT_UNFINISHED if any(finding.verdict == "problem" for finding in found) else 0


def _places(urls: list[str], named: list[tuple[str, str | None]]) -> list[tuple[str | None, list[str]]]:
    """Each address with the models to look for there; None for models at the address of their provider."""
    found: dict[str, list[str]] = {url: [] for url in urls}
    at_providers: list[tuple[str | None, list[str]]] = []
    for name, own in named:
        for url in [own] if own else urls:
            found.setdefault(url, []).append(name)
        if not own and not urls:
            at_providers.append((None, [name]))
    return [*found.items(), *at_providers]
