"""A planted key is looked for in everything that a command leaves behind or shows while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from autorubric.cli.app import run
from autorubric.testing import LoopbackEndpoint
from tests.battery.bench import give_rewards, lay_out

ROOT = Path(__file__).parents[2]
KEY = "planted-key-4f1d9b7c2e8a6035"
PARTS = (KEY.encode(), KEY[8:].encode(), KEY.encode("utf-16-le"))

SELECT = ("select", "final.jsonl", "--judge", "m")
PROMPTS = ("--log-json", "calls.jsonl", "--log-prompts")
COMMANDS = {
    "synthesize": ("synthesize", "queries.jsonl", "--out", "out", "--models", "m"),
    "synthesize dry": ("synthesize", "queries.jsonl", "--out", "out", "--models", "m", "--dry-run"),
    "grade": ("grade", "essays.json", "--judge", "m", "--out", "out", "-f", "csv", "-f", "jsonl", "-f", "parquet"),
    "grade dry": ("grade", "essays.json", "--judge", "m", "--out", "out", "--dry-run"),
    "agree": ("agree", "out"),
    "select": (*SELECT, "--candidates", "candidates.jsonl", "--out", "chosen", "--log-json", "calls.jsonl"),
    "select prompts": (*SELECT, "--sample", "m", "-k", "2", "--out", "sampled", *PROMPTS),
    "select dry": (*SELECT, "--sample", "m", "--out", "sampled", "--dry-run"),
    "status": ("status", "chosen", "--json"),
    "drift": ("drift", "rewards", "--json"),
    "lint": ("lint", "final.jsonl", "--format", "sarif", "--fail-on", "never"),
    "convert": ("convert", "final.jsonl", "rows.jsonl", "--to", "verl"),
}


def environment(url: str, key: str = KEY) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": key}


Typed = Callable[..., tuple[int, bytes]]


@pytest.fixture
def typed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Types a command in the folder, with an address and a key in the environment: its status and its output."""
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)

    def type_it(words: tuple[str, ...], url: str, key: str = KEY) -> tuple[int, bytes]:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", key)
        capsys.readouterr()
        status = run(list(words))
        told = capsys.readouterr()
        return status, (told.out + told.err).encode()

    return type_it


def leaks(folder: Path, told: bytes) -> list[str]:
    places = [("output", told), *((str(path), path.read_bytes()) for path in folder.rglob("*") if path.is_file())]
    return [name for name, data in places if any(part in data for part in PARTS)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lay_out(tmp_path)
    return tmp_path


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with LoopbackEndpoint(key=KEY).in_thread() as endpoint:
        yield endpoint


OF_TRAINING = ("select", "select dry", "select prompts", "status", "drift", "lint", "convert")


@pytest.mark.parametrize("names", [("grade dry", "grade", "agree"), ("synthesize dry", "synthesize"), OF_TRAINING])
def test_no_command_that_succeeds_leaves_the_key_anywhere(
    folder: Path, endpoint: LoopbackEndpoint, typed: Typed, names: tuple[str, ...]
) -> None:
    give_rewards(folder / "rewards")
    for name in names:
        status, told = typed(COMMANDS[name], endpoint.base_url)
        assert status == 0, told.decode()
        assert leaks(folder, told) == []
    assert names != OF_TRAINING or (folder / "calls.jsonl").stat().st_size > 0
    assert endpoint.counts.requests > 0  # the endpoint lets nobody in without the key: it was used


def test_the_key_is_not_in_the_table_of_processes(folder: Path, endpoint: LoopbackEndpoint) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "autorubric", *COMMANDS["grade"]],
        cwd=folder,
        env=environment(endpoint.base_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        seen = b""
        while running.poll() is None and not seen:
            seen = Path(f"/proc/{running.pid}/cmdline").read_bytes() if Path("/proc/self").exists() else b"-"
            time.sleep(0.01)
        told = running.communicate(timeout=600)[0]
    assert running.returncode == 0, told.decode()
    assert leaks(folder, seen + told) == []
    assert endpoint.counts.requests > 0


def test_a_key_that_is_refused_is_not_shown(folder: Path, typed: Typed) -> None:
    with LoopbackEndpoint(key="another-key-entirely").in_thread() as endpoint:
        for words in (COMMANDS["synthesize"], COMMANDS["grade"], (*COMMANDS["grade"], "--debug")):
            status, told = typed(words, endpoint.base_url)
            assert status == 2
            assert b"401" in told
            assert leaks(folder, told) == []


def test_a_key_that_cannot_be_one_is_not_in_the_traceback_either(folder: Path, typed: Typed) -> None:
    for name in ("synthesize", "grade"):
        status, told = typed((*COMMANDS[name], "--debug"), "http://127.0.0.1:9/v1", f"{KEY} with blanks")
        assert status == 2
        assert b"Traceback" in told
        assert b"OPENAI_API_KEY contains characters that no key has" in told
        assert leaks(folder, told) == []


def test_a_key_in_an_address_is_refused_and_not_repeated(folder: Path, typed: Typed) -> None:
    for debug in ((), ("--debug",)):
        _, told = typed((*COMMANDS["grade"], *debug), f"http://user:{KEY}@127.0.0.1:9/v1")
        assert b"has credentials in it" in told
        assert leaks(folder, told) == []


def test_doctor_says_which_keys_are_set_and_not_what_they_are(
    folder: Path, endpoint: LoopbackEndpoint, typed: Typed
) -> None:
    words = ("doctor", "--base-url", endpoint.base_url, "--api-key-env", "OPENAI_API_KEY", "--debug")
    for more in ((), ("--json",)):
        _, told = typed((*words, *more), endpoint.base_url)
        assert b"OPENAI_API_KEY" in told
        assert leaks(folder, told) == []


def test_the_service_keeps_the_key_and_its_own_token_to_itself(folder: Path, endpoint: LoopbackEndpoint) -> None:
    token = f"token-of-callers-{KEY}"
    surroundings = {**environment(endpoint.base_url), "CALLERS": token}
    words = ("serve", "--judge", "m", "--port", "0", "--token-env", "CALLERS", "--log-json", "calls.jsonl")
    command = [sys.executable, "-m", "autorubric", *words, "--out", "served", "--log-prompts"]
    with subprocess.Popen(
        command, cwd=folder, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout is not None
        address = running.stdout.readline().split()[-1].decode()
        seen = Path(f"/proc/{running.pid}/cmdline").read_bytes() if Path("/proc/self").exists() else b""
        body = {"submission": "So.", "rubric": [{"requirement": "Is kind."}], "query": "Why?"}
        for sent, status in ((token, 200), ("guess", 401)):
            headers = {"Authorization": f"Bearer {sent}", "Content-Type": "application/json"}
            asked = Request(address, json.dumps(body).encode(), headers)
            try:
                with urlopen(asked, timeout=600) as answer:
                    got, said = answer.status, answer.read()
            except HTTPError as error:
                got, said = error.code, error.read()
            assert got == status, said
            seen += said
        running.send_signal(signal.SIGTERM)
        told = running.communicate(timeout=600)[0]
    assert leaks(folder, seen + told) == []
    assert endpoint.counts.requests > 0


KEY_WITH_SLASH = f"{KEY}/Kz+9"
SPELT = {
    "plain": (KEY, KEY),
    "one character": (KEY, KEY.replace("4", r"\u0034", 1)),
    "every character": (KEY, "".join(f"\\u{ord(c):04x}" for c in KEY)),
    "capital digits": (KEY_WITH_SLASH, KEY_WITH_SLASH.replace("K", r"\u004B").replace("z", r"\u007A")),
    "slash": (KEY_WITH_SLASH, KEY_WITH_SLASH.replace("/", r"\/")),
    "JSON in JSON": (KEY, KEY.replace("4", r"\\\\u0034")),
}


@pytest.mark.parametrize(("key", "spelt"), SPELT.values(), ids=SPELT)
def test_a_key_that_a_reply_repeats_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, spelt: str
) -> None:
    lay_out(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    reply = json.dumps({"explanation": "You sent SPELT.", "criterion_status": "MET"}).replace("SPELT", spelt)
    with LoopbackEndpoint(replier=lambda body: reply).in_thread() as endpoint:
        words = ["grade", str(tmp_path / "essays.json"), "--judge", f"m@{endpoint.base_url}", "--out"]
        log = ["--log-json", str(tmp_path / "calls.jsonl"), "--log-prompts"]
        assert run([*words, str(tmp_path / "out"), "-f", "csv", *log]) == 0
    assert "You sent <hidden>." in (tmp_path / "out" / "items.jsonl").read_text()
    for path in (tmp_path / "calls.jsonl", *(tmp_path / "out").rglob("*")):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
