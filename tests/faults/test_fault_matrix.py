"""The fault matrix: each way of failing, at every command that calls a model, through to the finished resume."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from autorubric.cli.app import run
from autorubric.testing import FAULTS
from tests.faults.commands import BAD, COMMANDS, Command, names
from tests.faults.scene import ENDING, REFUSED, RETRIES, SENT_AGAIN, UNUSABLE, Scene, in_one_row
from tests.offenders import offenders

every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


ONE_ANSWER = (("429-seconds", "429-date", "429-nan"), ("502", "503", "529"))
"""Read by the client as `429` or `500` is, so that no command sees a difference: each meets one of a row."""


def passing(command: Command) -> set[str]:
    """The faults that may pass, as a command meets them; every fault is met by one of the commands."""
    turn = COMMANDS.index(command)
    return {*SENT_AGAIN} - {fault for same in ONE_ANSWER for fault in same if fault != same[turn % len(same)]}


def test_the_tables_name_every_fault_there_is() -> None:
    assert set().union(*map(passing, COMMANDS)) == {*SENT_AGAIN}
    negotiated = {"400-max-tokens", "400-max-completion-tokens", "400-temperature", "400-response-format"}
    read_all_the_same = {"prose-around", "fenced", "think"}
    assert {*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE, *negotiated, *read_all_the_same} == set(FAULTS)


@every_command
def test_a_fault_that_may_pass_is_tried_again_a_bounded_number_of_times(scene: Scene, command: Command) -> None:
    """Each fault meets the run directory that the one before left."""
    with offenders() as case:
        # A page that is all that an address sends ends a run as a wrong address does. So the page comes where other
        # rows are answered first; the writer of improve is asked once.
        for fault in sorted(passing(command) - ({"html"} if command.name == "improve" else set()), key="html".__ne__):
            with case(fault):
                assert_failed_in_one_row(scene, command, fault, SENT_AGAIN[fault], RETRIES + 1)
        with case("no fault"):
            scene.assert_finishes(command)


@every_command
def test_a_request_that_is_not_acceptable_is_sent_once(scene: Scene, command: Command) -> None:
    with offenders() as case:
        for fault, kind in REFUSED.items():
            with case(fault):
                assert_failed_in_one_row(scene, command, fault, kind, 1)
        with case("no fault"):
            scene.assert_finishes(command)


def assert_failed_in_one_row(scene: Scene, command: Command, fault: str, kind: str, attempts: int) -> None:
    known = len(scene.failures()) if scene.out.exists() else 0
    scene.meets = in_one_row(fault, command.asks_about_bad)
    scene.timeout = 0.4 if kind == "timeout" else 30.0
    assert scene.run(command) == 1
    failures = scene.failures()[known:]
    assert failures
    assert {(failure.kind, failure.attempts) for failure in failures} == {(kind, attempts)}
    assert scene.endpoint.counts.by_fault[fault] == len(failures) * attempts
    assert command.failed(scene.out) == [BAD]
    assert command.scores(scene.out).get(BAD) is None


@every_command
def test_what_every_request_would_meet_ends_the_run_at_its_first_call(scene: Scene, command: Command) -> None:
    with offenders() as case:
        for fault, status in ENDING.items():
            with case(fault):
                before = scene.endpoint.counts.requests
                scene.meets = lambda body, fault=fault: fault  # type: ignore[misc]
                assert scene.run(command) == status
                assert scene.endpoint.counts.requests == before + 1
                assert command.whole(scene.out) == []
        with case("no fault"):
            scene.assert_finishes(command)


@every_command
@pytest.mark.parametrize("fault", ["401", "402"])
def test_a_key_or_credit_that_fails_on_the_way_stops_the_run_and_keeps_what_is_paid(
    scene: Scene, command: Command, fault: str
) -> None:
    scene.meets = in_one_row(fault, command.asks_about_bad)
    assert scene.run(command) == 1
    # Four calls are in flight at most; those behind them are not sent any more.
    assert 1 <= scene.endpoint.counts.by_fault[fault] <= 4
    assert "stopped: " in scene.told
    scene.assert_finishes(command)


@every_command
def test_a_reply_that_cannot_be_used_is_a_failure_and_not_a_value(scene: Scene, command: Command) -> None:
    folder = scene.folder
    with offenders() as case:
        for fault in UNUSABLE:
            with case(fault):
                scene.folder = folder / fault
                scene.folder.mkdir()
                scene.meets = in_one_row(fault, command.asks_about_bad)
                assert scene.run(command) == 1
                assert BAD not in command.whole(scene.out)
                assert command.failed(scene.out) == [BAD]
                assert command.scores(scene.out).get(BAD) is None
                # A reply that cannot be read is asked for again twice.
                assert scene.endpoint.counts.by_fault[fault] <= 3 * command.calls // len(names())


@every_command
def test_a_dry_run_after_first_replies_that_were_unusable_has_no_call_left(scene: Scene, command: Command) -> None:
    folder = scene.folder
    with offenders() as case:
        for fault in ("empty", "prose", "length"):
            with case(fault):
                scene.folder, met = folder / fault, set[str]()
                scene.folder.mkdir()
                scene.meets = (
                    lambda body, fault=fault, met=met: (  # type: ignore[misc]
                        None if (asked := str(body["messages"][:2])) in met else met.add(asked) or fault
                    )
                )
                assert scene.run(command) == 0, scene.told[-2000:]
                asked = scene.endpoint.counts.requests
                assert run([*command.words(scene.folder, scene.flags), "--dry-run"]) == 0
                planned = [line for line in scene.read().out.splitlines() if " to make, " in line]
                assert all(": 0 calls to make, " in line for line in planned), planned
                assert scene.endpoint.counts.by_fault[fault] > 0 and scene.endpoint.counts.requests == asked


@every_command
def test_all_faults_mixed_end_in_a_finished_run(scene: Scene, command: Command) -> None:
    # Eleven requests meet a fault, the twelfth none; what ends a run comes too, so the command is typed again.
    scene.timeout = 0.4
    mixed = [*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE]
    Random(7).shuffle(mixed)
    waiting = [None if turn % 12 == 11 else mixed.pop() for turn in range(len(mixed) * 12 // 11)][::-1]
    scene.meets = lambda body: waiting.pop() if waiting else None
    statuses = [scene.run(command)]
    while waiting and len(statuses) < 40:
        statuses.append(scene.run(command))
    assert len(scene.endpoint.counts.by_fault) == len({*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE})
    assert {1, 2} <= set(statuses) <= {0, 1, 2}
    assert scene.run(command) == 0, scene.told[-2000:]
    assert command.whole(scene.out) == names()
    scene.assert_no_secret()


@every_command
def test_a_plain_endpoint_behind_an_https_address_ends_the_run_at_its_first_call(
    scene: Scene, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scene.endpoint.base_url.replace("http://", "https://"))
    assert scene.run(command) == 2
    assert "check the address" in scene.told
    assert scene.endpoint.counts.requests == 0


@every_command
def test_a_certificate_that_nobody_has_signed_ends_the_run_before_the_key_is_sent(
    scene: Scene, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(scene.folder) as (address, received):
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("SSL_CERT_FILE", "missing.pem")
        assert scene.run(command) == 2
    assert "certificate" in scene.told
    assert "SSL_CERT_FILE is 'missing.pem', which does not exist" in scene.told
    assert received == []
    monkeypatch.setenv("OPENAI_BASE_URL", scene.endpoint.base_url)
    scene.assert_finishes(command)


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """A server whose certificate it signed itself: its address, and what it was sent after the handshake."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate")
    key, certificate = str(folder / "tls.pem"), str(folder / "certificate.pem")
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
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
