"""The stored run of the reward service: a process that is started, asked, and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from tests.stored_runs.stand import BASE_URL, Stand
from tests.warm_commands import WarmProcess

_JUDGE = f"vllm/strict@{BASE_URL}"
ARGUMENTS = ["serve", "--judge", _JUDGE, "-o", "run", "--port", "0", "--retry", "0", "--repeat", "2"]
RUBRIC = [{"requirement": "Names a cause.", "weight": 3}, {"requirement": "Is brief."}]
SUBMISSIONS = ("The moon, because unclear-at-first.", "The moon, cut-off-at-first.", "The moon.", "cut-off-always")


def serve_and_ask(folder: Path, stand: Stand) -> list[Any]:
    """Status and body of the answer to each submission, from a service in `folder`."""
    environment = {**os.environ, **stand.environment}
    pipe = subprocess.PIPE
    with WarmProcess(ARGUMENTS, stdout=pipe, stderr=pipe, env=environment, cwd=folder) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            found = [_asked(url, text) for text in SUBMISSIONS]
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=600)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                process.kill()
    return found


def _asked(url: str, submission: str) -> list[Any]:
    body = json.dumps({"query": "Explain the tides.", "submission": submission, "rubric": RUBRIC}).encode()
    request = Request(url, body, {"Content-Type": "application/json"})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=600) as answer:
            return [answer.status, json.load(answer)]
    except HTTPError as error:
        with error:
            return [error.code, json.load(error)]
