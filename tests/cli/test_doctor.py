"""`autorubric doctor`: what it finds and what it never shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.runs.doctor import environment_findings, sqlite_finding
from autorubric.runs.finding import Finding
from autorubric.testing import LoopbackEndpoint

KEY = "sk-planted-key-of-the-doctor"


def examined(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = run(["doctor", "--json", *flags])
    return status, {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_healthy_machine_has_no_problem_and_is_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        status, found = examined(capsys, "--out", str(tmp_path), "--base-url", endpoint.base_url)
        assert endpoint.counts.calls_by_body.total() == 0, "something was generated"
    assert status == 0
    assert "HTTP 200" in found["endpoint"]["value"]
    assert found["writing"]["value"].endswith(" MB/s")
    assert list(tmp_path.iterdir()) == []


def test_keys_are_shown_by_name_and_never_by_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://user:{KEY}@gateway.example/v1")
    assert run(["doctor", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "OPENAI_API_KEY" in told.out and "gateway.example" in told.out
    assert KEY not in told.out + told.err


def test_no_key_is_a_note_and_no_problem() -> None:
    found = {finding.subject: finding for finding in environment_findings({})}
    assert (found["keys"].value, found["keys"].verdict) == ("none is set", "note")


@contextmanager
def locked_endpoint() -> Iterator[str]:
    """The address of a server whose list of models wants `KEY`, and that redirects everything else away."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            right = self.headers.get("Authorization") == f"Bearer {KEY}"
            self.send_response(302 if not self.path.startswith("/v1/") else 200 if right else 401)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "key", "words"),
    [("/v1", KEY, "HTTP 200"), ("/v1", "another", "HTTP 401"), ("/v2", KEY, "HTTP 302")],
)
def test_an_endpoint_is_asked_with_the_key_it_is_given(
    path: str,
    key: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOUSE_KEY", key)
    flags = ["--out", str(tmp_path), "--key-env", "HOUSE_KEY"]
    with locked_endpoint() as url:
        status, found = examined(capsys, *flags, "--base-url", url + path)
    assert words in found["endpoint"]["value"]
    assert status == (0 if words == "HTTP 200" else 1)
    assert KEY not in json.dumps(found)


def test_an_endpoint_that_is_not_there_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = examined(capsys, "--out", str(tmp_path), "--base-url", "http://127.0.0.1:9/v1")
    assert (status, found["endpoint"]["verdict"]) == (1, "problem")


@pytest.mark.parametrize("url", ["ftp://host/v1", "http://169.254.169.254/v1", "file:///etc/passwd"])
def test_an_address_that_no_model_can_have_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--out", str(tmp_path), "--base-url", url]) == 2
    assert capsys.readouterr().err.startswith("autorubric: ")


def test_a_folder_that_is_not_there_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = examined(capsys, "--out", str(tmp_path / "nothing"))
    assert (status, found["disk"]["verdict"]) == (1, "problem")


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("3.40.1", "note"), ("3.51.2", "note"), ("3.51.3", "ok"), ("3.52.0", "note"), ("3.53.0", "ok")],
)
def test_the_faults_of_sqlite_are_known_by_version(version: str, verdict: str) -> None:
    assert isinstance(sqlite_finding(version), Finding)
    assert sqlite_finding(version).verdict == verdict
