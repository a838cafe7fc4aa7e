"""The fault matrix: each way of failing, at every command that calls a model, through to the finished resume."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.llm.http import pace, retry, traffic
from autorubric.llm.records.accounts import FailedCall
from autorubric.llm.records.ledger import Ledger
from autorubric.testing import FAULTS, LoopbackEndpoint
from tests.faults.commands import BAD, COMMANDS, Command, names

KEY = "sk-planted-in-the-fault-matrix"
RETRIES = 1
FLAGS = ["--retry", str(RETRIES), "--timeout", "0.4", "-j", "4"]

SENT_AGAIN = {
    **dict.fromkeys(("429", "429-seconds", "429-date", "429-nan", "429-huge"), "rate_limit"),
    **dict.fromkeys(("500", "502", "503", "529", "no-choices", "error-in-200"), "server"),
    **dict.fromkeys(("reset", "truncated-body", "huge-body", "html"), "network"),
    **dict.fromkeys(("hang", "endless-body"), "timeout"),
}
"""Faults that pass, by what they are called when they do not."""
REFUSED = {"413": "rejected", "422": "rejected", "400-content-filter": "refusal"}
"""Faults of one request that no second attempt mends."""
ENDING = {"401": 2, "403": 2, "404": 2, "redirect": 2, "402": 1, "429-quota": 1}
"""Faults that every request would meet, and the exit status: 2 where the command line is wrong."""
UNUSABLE = ("wrong-schema", "broken-json", "prose", "refusal", "content-filter", "empty", "null", "length")
"""Replies that were paid for and do not hold what was asked."""

every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


@dataclass
class Scene:
    """One endpoint, one run directory, and what commands have printed so far."""

    folder: Path
    endpoint: LoopbackEndpoint
    meets: Callable[[dict[str, Any]], str | None]
    read: Callable[[], Any]
    told: str = ""

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def fault(self, body: dict[str, Any]) -> str | None:
        return self.meets(body)

    def run(self, command: Command) -> int:
        status = run(command.words(self.folder, FLAGS))
        printed = self.read()
        self.told += printed.out + printed.err
        assert "Traceback" not in self.told
        return status

    def failures(self) -> list[FailedCall]:
        with Ledger.open(self.out / "ledger") as ledger:
            return list(ledger.failures())

    def good_answers(self) -> int:
        counts = self.endpoint.counts
        return counts.requests - counts.by_fault.total()

    def assert_finishes(self, command: Command) -> None:
        """Without faults the same command completes every row, and what was answered is not asked again."""
        self.meets = lambda body: None
        assert self.run(command) == 0, self.told
        assert command.whole(self.out) == names()
        assert command.failed(self.out) == []
        assert self.good_answers() == command.calls
        self.assert_no_secret()

    def assert_no_secret(self) -> None:
        assert KEY not in self.told
        for path in self.folder.rglob("*"):
            assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
        assert self.endpoint.counts.elsewhere == 0


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    # The waits are what test_retry and test_pace are about; here they would take minutes.
    monkeypatch.setattr(retry.Backoff, "wait", lambda *_: 0.01)
    monkeypatch.setattr(retry, "LONGEST_RETRY_AFTER", 0.1)
    monkeypatch.setattr(pace, "EVIDENCE", 0.1)
    monkeypatch.setattr(pace, "FIRST_RATE", 200.0)
    monkeypatch.setattr(traffic, "LEAST_SPAN", 0.1)
    made = Scene(tmp_path, LoopbackEndpoint(key=KEY), lambda body: None, capsys.readouterr)
    endpoint = made.endpoint = LoopbackEndpoint(key=KEY, faults=made.fault)
    with endpoint.in_thread():
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        yield made


def in_one_row(fault: str) -> Callable[[dict[str, Any]], str | None]:
    return lambda body: fault if BAD in str(body["messages"]) else None


def test_the_tables_name_every_fault_there_is() -> None:
    negotiated = {"400-max-tokens", "400-max-completion-tokens", "400-temperature", "400-response-format"}
    read_all_the_same = {"prose-around", "fenced", "think"}
    assert {*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE, *negotiated, *read_all_the_same} == set(FAULTS)


@every_command
@pytest.mark.parametrize("fault", SENT_AGAIN)
def test_a_fault_that_may_pass_is_tried_again_a_bounded_number_of_times(
    scene: Scene, command: Command, fault: str
) -> None:
    scene.meets = in_one_row(fault)
    assert scene.run(command) == 1
    failures = scene.failures()
    assert failures
    assert {call.failure.kind for call in failures} == {SENT_AGAIN[fault]}
    assert {call.failure.attempts for call in failures} == {RETRIES + 1}
    assert scene.endpoint.counts.by_fault[fault] == len(failures) * (RETRIES + 1)
    assert command.failed(scene.out) == [BAD]
    scene.assert_finishes(command)


@every_command
@pytest.mark.parametrize("fault", REFUSED)
def test_a_request_that_is_not_acceptable_is_sent_once(scene: Scene, command: Command, fault: str) -> None:
    scene.meets = in_one_row(fault)
    assert scene.run(command) == 1
    failures = scene.failures()
    assert {(call.failure.kind, call.failure.attempts) for call in failures} == {(REFUSED[fault], 1)}
    assert scene.endpoint.counts.by_fault[fault] == len(failures)
    assert command.failed(scene.out) == [BAD]
    scene.assert_finishes(command)


@every_command
@pytest.mark.parametrize("fault", ENDING)
def test_what_every_request_would_meet_ends_the_run_at_its_first_call(
    scene: Scene, command: Command, fault: str
) -> None:
    scene.meets = lambda body: fault
    assert scene.run(command) == ENDING[fault]
    assert scene.endpoint.counts.requests == 1
    assert command.whole(scene.out) == []
    scene.assert_finishes(command)


@every_command
@pytest.mark.parametrize("fault", ["401", "402"])
def test_a_key_or_credit_that_fails_on_the_way_stops_the_run_and_keeps_what_is_paid(
    scene: Scene, command: Command, fault: str
) -> None:
    scene.meets = in_one_row(fault)
    assert scene.run(command) == 1
    # Four calls are in flight at most; those behind them are not sent any more.
    assert 1 <= scene.endpoint.counts.by_fault[fault] <= 4
    assert "stopped: " in scene.told
    scene.assert_finishes(command)


@every_command
@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_reply_that_cannot_be_used_is_a_failure_and_not_a_value(scene: Scene, command: Command, fault: str) -> None:
    scene.meets = in_one_row(fault)
    assert scene.run(command) == 1
    assert BAD not in command.whole(scene.out)
    assert command.failed(scene.out) == [BAD]
    # A reply that cannot be read is asked for again twice.
    assert scene.endpoint.counts.by_fault[fault] <= 3 * command.calls // len(names())


@every_command
def test_all_faults_mixed_end_in_a_finished_run(scene: Scene, command: Command) -> None:
    # Eleven requests meet a fault, the twelfth none; what ends a run comes too, so the command is typed again.
    mixed = [*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE]
    Random(7).shuffle(mixed)
    waiting = [None if turn % 12 == 11 else mixed.pop() for turn in range(len(mixed) * 12 // 11)][::-1]
    scene.meets = lambda body: waiting.pop() if waiting else None
    statuses = [scene.run(command)]
    while waiting and len(statuses) < 40:
        statuses.append(scene.run(command))
    assert len(scene.endpoint.counts.by_fault) == len({*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE})
    assert {1, 2} <= set(statuses) <= {0, 1, 2}
    assert scene.run(command) == 0
    assert command.whole(scene.out) == names()
    scene.assert_no_secret()


@every_command
def test_a_plain_endpoint_behind_an_https_address_ends_the_run_at_its_first_call(
    scene: Scene, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scene.endpoint.base_url.replace("http://", "https://"))
    assert scene.run(command) == 2
    assert "is the address right" in scene.told
    assert scene.endpoint.counts.requests == 0


@every_command
def test_a_certificate_that_nobody_has_signed_ends_the_run_before_the_key_is_sent(
    scene: Scene, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(scene.folder) as (address, received):
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        assert scene.run(command) == 2
    assert "certificate" in scene.told
    assert received == []
    monkeypatch.setenv("OPENAI_BASE_URL", scene.endpoint.base_url)
    scene.assert_finishes(command)


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """A server whose certificate it signed itself: its address, and what it was sent after the handshake."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate")
    key, certificate = str(folder / "tls.pem"), str(folder / "certificate.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                received.append(secure.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/v1", received
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
