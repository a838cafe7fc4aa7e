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
from autorubric.runs.doctor import DoctorFinding, check_environment, check_sqlite
from autorubric.testing import LoopbackEndpoint
from tests.offenders import each

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
    (tmp_path / ".env").write_text(f"GROQ_API_KEY={KEY}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "GROQ_API_KEY, OPENAI_API_KEY" in told.out and "gateway.example" in told.out
    assert "used instead of https://api.openai.com/v1" in told.out
    assert KEY not in told.out + told.err


@pytest.mark.parametrize(
    ("name", "file"), [("autorubric", "other/__init__.py"), ("some_rubrics", "autorubric/__init__.py")]
)
def test_another_project_that_installs_the_same_package_is_a_problem(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "site" / f"{name}-1.4.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.4\n", encoding="utf-8")
    (other / "RECORD").write_text(f"{file},,\n", encoding="utf-8")
    assert examined(capsys, "--out", str(tmp_path))[0] == 0
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    status, found = examined(capsys, "--out", str(tmp_path))
    finding = found[name.replace("_", "-")]
    assert status == 1
    assert (finding["value"], finding["verdict"]) == ("1.4", "problem")
    assert f"pip uninstall {name.replace('_', '-')}, then: pip install" in finding["advice"]
    assert "--force-reinstall --no-deps autorubric-hub" in finding["advice"]


def test_no_key_is_a_note_and_no_problem() -> None:
    found = {finding.subject: finding for finding in check_environment({})}
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
        thread = Thread(target=server.serve_forever, args=(0.02,))
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
    flags = ["--out", str(tmp_path), "--api-key-env", "HOUSE_KEY"]
    with locked_endpoint() as url:
        status, found = examined(capsys, *flags, "--base-url", url + path)
    assert words in found["endpoint"]["value"]
    assert status == (0 if words == "HTTP 200" else 1)
    assert KEY not in json.dumps(found)


def test_an_endpoint_that_is_not_there_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = examined(capsys, "--out", str(tmp_path), "--base-url", "http://127.0.0.1:9/v1")
    assert (status, found["endpoint"]["verdict"]) == (1, "problem")


def test_https_where_a_server_speaks_plain_http_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server({}) as url:
        address = f"https{url.removeprefix('http')}/v1"
        status, found = examined(capsys, "--out", str(tmp_path), "--base-url", address)
    assert (status, found["endpoint"]["value"].endswith("; the server may expect http://")) == (1, True)


@pytest.mark.parametrize("url", ["ftp://host/v1", "http://169.254.169.254/v1", "file:///etc/passwd"])
def test_an_address_that_no_model_can_have_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--out", str(tmp_path), "--base-url", url]) == 2
    assert capsys.readouterr().err.startswith("autorubric: ")


def test_a_folder_that_is_not_there_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = examined(capsys, "--out", str(tmp_path / "nothing"))
    assert (status, found["disk"]["verdict"]) == (1, "problem")


@each(
    ("version", "verdict"),
    # Repaired in 3.51.3, 3.44.6 and 3.50.7: https://sqlite.org/wal.html#walresetbug
    [
        *(("3.40.1", "note"), ("3.51.2", "note"), ("3.51.3", "ok"), ("3.52.0", "note"), ("3.53.0", "ok")),
        *(("3.44.5", "note"), ("3.44.6", "ok"), ("3.45.0", "note"), ("3.50.6", "note"), ("3.50.7", "ok")),
    ],
)
def test_the_faults_of_sqlite_are_known_by_version(version: str, verdict: str) -> None:
    assert isinstance(check_sqlite(version), DoctorFinding)
    assert check_sqlite(version).verdict == verdict


@contextmanager
def server(routes: dict[str, tuple[int, str]]) -> Iterator[str]:
    """The address of a server that answers each `METHOD /path` as given, and everything else with 404."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if sent == b"{}" and "CUT" in routes:
                return  # the connection is closed without an answer
            status, body = routes.get(f"{self.command} {self.path}", (404, '{"detail": "Not Found"}'))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


LIST = (200, '{"object": "list", "data": [{"id": "qwen"}, {"id": "llama:latest"}]}')
ASKED = (422, '{"detail": "messages is required"}')
SAID = (200, '{"model": "qwen", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}')


@pytest.mark.parametrize(
    ("models", "chat", "status", "verdict", "words"),
    [
        (LIST, ASKED, 0, "ok", "2 models"),
        ((404, ""), ASKED, 0, "ok", "takes chat completions; has no list of models"),
        ((500, "Internal Server Error"), ASKED, 0, "ok", "has no list of models (HTTP 500)"),
        ((500, "Internal Server Error"), (500, ""), 0, "note", "--model"),
        ((401, "{}"), ASKED, 1, "problem", "--api-key-env"),
        (LIST, (401, "{}"), 1, "problem", "--api-key-env"),
        (LIST, (400, '[{"error": {"message": "API key not valid."}}]'), 1, "problem", "--api-key-env"),  # Gemini
        (LIST, (404, "{}"), 1, "problem", "no chat completions endpoint"),
        ((200, "<html>Sign in</html>"), (200, "<html>Sign in</html>"), 1, "problem", "no chat completions endpoint"),
        ((200, "<html>Welcome</html>"), (405, ""), 1, "problem", "no chat completions endpoint"),
    ],
)
def test_an_endpoint_is_judged_by_whether_it_takes_chat_completions(
    *,
    models: tuple[int, str],
    chat: tuple[int, str],
    status: int,
    verdict: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with server({"GET /v1/models": models, "POST /v1/chat/completions": chat}) as url:
        ended, found = examined(capsys, "--out", str(tmp_path), "--base-url", f"{url}/v1")
    assert (ended, found["endpoint"]["verdict"]) == (status, verdict)
    assert words in found["endpoint"]["value"] + found["endpoint"]["advice"]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [("", (404, "")), ("", (200, '{"error": "Unexpected endpoint or method. (POST)"}')), ("/api/chat", (404, ""))],
)  # vLLM, LM Studio, Ollama
def test_a_base_url_without_v1_is_corrected(
    path: str, wrong: tuple[int, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server({"POST /v1/chat/completions": ASKED, "POST /chat/completions": wrong}) as url:
        status, found = examined(capsys, "--out", str(tmp_path), "--base-url", url + path)
    assert status == 1
    assert found["endpoint"]["advice"] == f"the base URL is probably {url}/v1, which answers"


@pytest.mark.parametrize(
    ("model", "routes", "status", "verdict", "words"),
    [
        ("qwen", {"GET /v1/models": LIST, "POST /v1/chat/completions": SAID}, 0, "ok", "answers at"),
        ("llama", {"GET /v1/models": LIST, "POST /v1/chat/completions": SAID}, 0, "ok", "answers at"),
        ("qwen", {"GET /v1/models": LIST, "POST /v1/chat/completions": (402, "Pay first.")}, 1, "problem", "credit"),
        (
            "qwen",
            {"GET /v1/models": LIST, "POST /v1/chat/completions": (503, "Loading")},
            1,
            "problem",
            "server's log",
        ),
        ("qwem", {"GET /v1/models": LIST, "POST /v1/chat/completions": ASKED}, 1, "problem", "lists qwen and 1 more"),
        ("qwem", {"GET /v1/models": LIST, "POST /v1/chat/completions": SAID}, 0, "note", "as 'qwen'"),
        ("qwem", {"POST /v1/chat/completions": SAID}, 0, "ok", "answers at"),
        ("qwem", {"POST /v1/chat/completions": SAID, "CUT": (0, "")}, 0, "ok", "answers at"),
        ("qwem", {"POST /v1/chat/completions": (422, "no such model")}, 1, "problem", "no such model"),
    ],
)
def test_a_named_model_is_looked_up_and_asked(
    *,
    model: str,
    routes: dict[str, tuple[int, str]],
    status: int,
    verdict: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with server(routes) as url:
        ended, found = examined(capsys, "--out", str(tmp_path), "--model", f"{model}@{url}/v1")
    assert (ended, found["model"]["verdict"]) == (status, verdict)
    assert words in found["model"]["value"] + found["model"]["advice"]


def test_optional_packages_are_listed_and_not_warned_of() -> None:
    found = [finding for finding in check_environment({}) if "optional" in finding.value]
    assert all(finding.verdict == "ok" for finding in found)


def test_a_model_without_a_provider_or_an_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert run(["doctor", "--model", "nope"]) == 2
    assert "has no provider" in capsys.readouterr().err
