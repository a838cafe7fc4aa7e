"""`autorubric serve` as a process: started, drained, killed, started again, refused."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from autorubric.cli.app import run
from tests.cli.in_process import NearEndpoint
from tests.processes import announced

RUBRIC = [{"requirement": "Is kind."}]


@contextmanager
def serving(*flags: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of a service, and its address; it is killed at the end if it still runs."""
    with announced(["serve", *flags], "stop with Ctrl-C or SIGTERM; rewards at ", **variables) as found:
        yield found


def asked(url: str, submission: str, **headers: str) -> tuple[int, Any]:
    return posted(url, json.dumps({"query": "Why?", "submission": submission, "rubric": RUBRIC}).encode(), **headers)


def posted(url: str, body: bytes, **headers: str) -> tuple[int, Any]:
    request = Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request, timeout=600) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_on_sigterm_open_calls_are_answered_and_the_next_start_pays_for_nothing_twice(tmp_path: Path) -> None:
    found: list[Any] = []
    with NearEndpoint("--latency", "fixed:1.0") as judge:
        flags = ["--judge", f"j@{judge.base_url}", "-o", str(tmp_path / "run")]
        with serving(*flags) as (process, url):
            caller = threading.Thread(target=lambda: found.append(asked(url, "slow")))
            caller.start()
            while not judge.stats()["requests"]:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            caller.join()
            told, _ = process.communicate(timeout=600)
            assert process.returncode == 0
        assert found[0][0] == 200 and found[0][1]["reward"] == 1.0
        assert "stopped; 1 judge call, 0 answered from the ledger, 0 failed" in told
        assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "completed"
        prices, spent = tmp_path / "prices.json", tmp_path / "run" / "spent.json"
        prices.write_text(json.dumps({"j": {"input": 1.0, "output": 10.0}}))
        assert json.loads(spent.read_bytes())["cost"] == 0
        with serving(*flags, "--prices", str(prices)) as (process, url):
            assert asked(url, "slow") == found[0]
            process.kill()
        assert judge.stats()["requests"] == 1
        assert json.loads(spent.read_bytes())["cost"] > 0


def test_a_killed_service_resumes_and_starts_over_where_its_ledger_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with NearEndpoint() as judge:
        flags = ["--judge", f"j@{judge.base_url}", "-o", str(out)]
        with serving(*flags) as (process, url):
            assert [asked(url, f"text {n}")[0] for n in range(3)] == [200] * 3
            process.kill()
        assert run(["status", str(out)]) == 0
        with serving(*flags) as (process, url):
            assert [asked(url, f"text {n}")[1]["reward"] for n in range(3)] == [1.0] * 3
            process.kill()
        assert judge.stats()["requests"] == 3
        (out / "ledger" / "ledger.sqlite").unlink()
        capsys.readouterr()
        assert run(["serve", *flags, "--port", "0"]) == 1
        told = r"is missing, but spent\.json records 3 calls; .*--start-over"
        assert re.search(told, capsys.readouterr().err)
        counts = judge.stats()
        spent = counts["prompt_tokens"] + counts["completion_tokens"]
        with serving(*flags, "--start-over", "--budget-tokens", str(spent)) as (process, url):
            status, answer = asked(url, "another text")
            assert f"{spent:,} spent, and the next call may cost" in json.dumps(answer), status
            process.kill()
        assert judge.stats()["requests"] == 3


def test_a_service_asks_for_its_token_and_takes_what_dapo_takes_and_its_directory_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, out = "planted-token-of-the-service", tmp_path / "run"
    body = {"query": "Why?", "submission": "Yes.", "rubric": RUBRIC}
    known = {"Authorization": f"Bearer {token}"}
    with NearEndpoint() as judge:
        flags = ["--judge", f"j@{judge.base_url}", "-o", str(out), "--token-env", "HOUSE_TOKEN", "--overlong"]
        flags += ["--host", "0.0.0.0", "--log-json", str(tmp_path / "calls.jsonl")]
        with serving(*flags, HOUSE_TOKEN=token) as (process, everywhere):
            url = everywhere.replace("0.0.0.0", "127.0.0.1")
            assert asked(url, "text")[0] == 401
            lengths: list[dict[str, int]] = [{}, {"length": 6144}, {"length": 9000}]
            found = [posted(url, json.dumps({**body, **length}).encode(), **known) for length in lengths]
            assert run(["serve", "--judge", "builtin/offline", "-o", str(out), "--port", "0"]) == 1
            assert "is in use by process" in capsys.readouterr().err
            process.send_signal(signal.SIGINT)
            told = "".join(process.communicate(timeout=600))
    assert token not in told
    assert all(token.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert json.loads((tmp_path / "calls.jsonl").read_text())["role"] == "judge"
    # Nothing up to 4096 tokens, half of 0.5 in the middle of the next 4096, all of it beyond.
    assert found[0][0] == 400 and "length in tokens" in found[0][1]["error"]["problems"][0]
    rewards = [(status, said["reward"], said["penalty"]) for status, said in found[1:]]
    assert rewards == [(200, 0.75, 0.25), (200, 0.5, 0.5)]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines; pass --token-env"),
        (["--host", "::"], "can be reached from other machines"),
        (["--token-env", "NO_SUCH_TOKEN"], "--token-env NO_SUCH_TOKEN: the variable is not set or empty"),
        (["--formula", "mean"], "--formula is 'mean'; expected one of clipped, positive, signed"),
        (["--overlong", "--overlong-buffer", "9000"], "overlong buffer=9000 is longer than max_length=8192"),
        (["--audit", "builtin/offline"], "is also a --judge"),
        (["--audit", "vllm/m", "--audit-budget", "1"], "or set a budget in tokens instead\n"),
        (["--audit", "vllm/m", "--audit-share", "0"], "--audit-share is 0.0; expected a number above 0"),
        (
            ["--audit-share", "0.1", "--on-gap", "stop"],
            "--audit-share, --on-gap have no effect without --audit MODEL",
        ),
        (["--deadline", "nan"], "--deadline is nan; expected a finite number"),
        (["--max-body-mb", "-1"], "--max-body-mb is -1.0; expected a number above 0"),
        (["--judge", "openai/gpt-5.1", "--judge-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
    ],
)
def test_wrong_flags_are_refused_before_anything_listens(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--judge", "builtin/offline", "--port", "0", "-o", str(tmp_path / "run"), *flags]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["serve", "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run([*command, "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on 127.0.0.1:" in capsys.readouterr().err


def test_a_second_signal_ends_open_requests_and_the_service_says_that_it_was_interrupted(tmp_path: Path) -> None:
    for processes in ((), ("--processes", "2")):
        out = tmp_path / f"run{len(processes)}"
        with NearEndpoint("--latency", "fixed:60") as judge:
            flags = ["--judge", f"j@{judge.base_url}", "-o", str(out), *processes]
            with serving(*flags) as (process, url):
                caller = threading.Thread(target=lambda url=url: unanswered(url))
                caller.start()
                while not judge.stats()["requests"]:
                    time.sleep(0.02)
                for number in (signal.SIGTERM, signal.SIGINT):
                    process.send_signal(number)
                    time.sleep(0.5)  # one signal that is delivered twice at the same moment is one
                told, _ = process.communicate(timeout=600)
                caller.join()
                assert process.returncode == 130
            assert "\ninterrupted\n" in told and "resume with:\n" in told
            manifest = json.loads((out / "manifest.json").read_text())
            assert (manifest["status"], manifest["error"]) == ("stopped", "interrupted")


def unanswered(url: str) -> None:
    with suppress(OSError):
        assert asked(url, "slow")[1].get("reward") is None
