from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from autorubric.errors import ConfigError
from autorubric.testing import LoopbackProcess
from tests.offenders import each

PYTHON = sys.executable
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Why?"}]}).encode()


pytestmark = pytest.mark.usefixtures("forked")


def ask(base_url: str, key: str = "") -> int:
    request = Request(f"{base_url}/chat/completions", ASKED, {"Authorization": f"Bearer {key}"})
    try:
        with urlopen(request) as answer:
            return int(answer.status)
    except HTTPError as refused:
        refused.close()
        return refused.code


def until(reached: Callable[[], bool]) -> None:
    for _ in range(2000):
        if reached():
            return
        time.sleep(0.01)
    pytest.fail("the endpoint never got there")


def test_an_endpoint_in_another_process_counts_for_itself() -> None:
    with LoopbackProcess("--reply-chars", "300") as endpoint:
        assert endpoint.pid != os.getpid()
        assert [ask(endpoint.base_url), ask(endpoint.base_url)] == [200, 200]
        assert endpoint.stats()["repeated_calls"] == 1
        assert list(endpoint.calls_by_body().values()) == [2]


def test_faults_and_keys_are_set_by_options_and_the_key_by_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted")
    with LoopbackProcess("--fault", "503=1", "--key-env", "PLANTED_KEY") as endpoint:
        assert [ask(endpoint.base_url), ask(endpoint.base_url, "sk-planted")] == [401, 503]


def test_it_survives_a_client_that_is_killed() -> None:
    client = "import sys, time, urllib.request as u; u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode()))"
    with LoopbackProcess("--latency", "fixed:30") as endpoint:
        url = f"{endpoint.base_url}/chat/completions"
        process = subprocess.Popen([PYTHON, "-c", client, url, ASKED.decode()])
        until(lambda: endpoint.stats()["in_flight"] == 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: endpoint.stats()["in_flight"] == 0)
        # The call was asked for and never finished.
        assert (endpoint.stats()["requests"], endpoint.stats()["completed_calls"]) == (1, 0)


def test_sigterm_ends_it_with_its_counts_as_the_last_line() -> None:
    command = [sys.executable, "-m", "autorubric.testing.endpoint", "--latency", "fixed:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ask(process.stdout.readline().strip())
        process.terminate()
        assert json.loads(process.stdout.read())["completed_calls"] == 1
    assert process.returncode == 0


def test_sigterm_ends_it_as_well_while_it_waits_for_stdin_to_close() -> None:
    command = [PYTHON, "-m", "autorubric.testing.endpoint", "--until-stdin-closes"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait() == 0 and process.stderr.read() == ""


@each(
    ("options", "problem"),
    [
        (["--latency", "soon"], "latency 'soon' is not"),
        (["--fault", "500"], "--fault '500' has no rate"),
        (["--fault", "418=0.1"], "unknown fault '418'"),
        (["--key-env", "NO_SUCH_VARIABLE"], "the environment variable NO_SUCH_VARIABLE is empty"),
    ],
)
def test_wrong_options_exit_with_status_2_and_say_what_is_wrong(options: list[str], problem: str) -> None:
    command = [sys.executable, "-m", "autorubric.testing.endpoint", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, problem in ended.stderr) == (2, True)


def test_a_process_that_does_not_start_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(ConfigError, match="did not start with '--latency soon'"),
        LoopbackProcess("--latency", "soon"),
    ):
        pass
    assert "latency 'soon'" in capfd.readouterr().err
