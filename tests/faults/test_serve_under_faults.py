"""The fault matrix at the reward service: what POST /v1/reward answers while the judge's endpoint fails."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from autorubric.cli.app import run
from tests.faults.commands import BAD, names
from tests.faults.scene import ENDING, REFUSED, RETRIES, SENT_AGAIN, UNUSABLE, Scene, in_one_row
from tests.processes import free_port

CRITERIA = [{"name": "Cause", "requirement": "Names a cause."}, {"name": "Brief", "requirement": "Is short."}]
CALLS = len(names()) * len(CRITERIA)


@pytest.fixture(autouse=True)
def _the_collector_is_as_before() -> Iterator[None]:
    before = gc.get_threshold(), gc.get_freeze_count()
    yield
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def batch() -> dict[str, Any]:
    rows = [(f"How do tides arise? ({name})", f"The moon pulls. ({name})") for name in names()]
    return {"items": [{"query": query, "submission": text, "rubric": CRITERIA} for query, text in rows]}


def answers(scene: Scene, calls: int = 1, ends: tuple[int, ...] = (0,)) -> list[list[dict[str, Any]]]:
    """What `autorubric serve` answers to a trainer that asks for the same three rewards so many times.

    Args:
        ends: the statuses with which it may exit; it says why where it is not 0.
    """
    found: list[list[dict[str, Any]]] = []
    port, ended = free_port(), Event()
    trainer = Thread(target=ask, args=(port, calls, found, ended))
    trainer.start()
    status = run(["serve", "--judge", "openai/m", "-o", str(scene.out), "--port", str(port), *scene.flags])
    ended.set()
    trainer.join()
    printed = scene.read()
    scene.told += printed.out + printed.err + json.dumps(found)
    assert status in ends, scene.told
    assert status == ("\nstopped: " in printed.out), scene.told
    assert "Traceback" not in scene.told
    return found


def ask(port: int, calls: int, found: list[list[dict[str, Any]]], ended: Event) -> None:
    """Ask, and end the service that runs in the main thread of this process."""
    try:
        for _ in range(calls):
            found.append(posted(port, ended)["rewards"])
    finally:
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)


def posted(port: int, ended: Event) -> dict[str, Any]:
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            connection.request("POST", "/v1/reward", json.dumps(batch()), {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer
        except ConnectionRefusedError:  # it does not listen yet
            if ended.is_set():
                raise
            time.sleep(0.02)
        finally:
            connection.close()


def rewards(found: list[dict[str, Any]]) -> list[float | None]:
    # The endpoint finds every criterion met: a reward that is not 1 would come from a failure.
    assert all(one["reward"] in (1.0, None) and (one["failure"] is None) is (one["reward"] == 1.0) for one in found)
    return [one["reward"] for one in found]


def assert_finishes(scene: Scene, calls: int = CALLS) -> None:
    """Without faults the next service answers all, and what was answered is not asked again."""
    scene.meets = lambda body: None
    assert [rewards(found) for found in answers(scene, 2)] == [[1.0] * 3] * 2
    assert scene.good_answers() == calls
    scene.assert_no_secret()


@pytest.mark.parametrize("fault", [*SENT_AGAIN, *REFUSED])
def test_a_failed_judgment_gives_null_after_at_most_one_call_more_than_retries(scene: Scene, fault: str) -> None:
    attempts = RETRIES + 1 if fault in SENT_AGAIN else 1
    kind = {**SENT_AGAIN, **REFUSED}[fault]
    scene.meets, scene.timeout = in_one_row(fault), 0.4 if kind == "timeout" else 30.0
    [found] = answers(scene)
    assert rewards(found) == [1.0, 1.0, None]
    failures = scene.failures()
    assert {(failure.kind, failure.attempts) for failure in failures} == {(kind, attempts)}
    assert scene.endpoint.counts.by_fault[fault] == len(failures) * attempts
    assert_finishes(scene)


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_reply_that_cannot_be_used_gives_null(scene: Scene, fault: str) -> None:
    scene.meets = in_one_row(fault)
    [found] = answers(scene)
    assert rewards(found) == [1.0, 1.0, None]
    assert scene.endpoint.counts.by_fault[fault] <= 3 * len(CRITERIA)
    assert_finishes(scene)


@pytest.mark.parametrize("fault", ENDING)
def test_what_every_request_would_meet_is_asked_about_once(scene: Scene, fault: str) -> None:
    scene.meets = lambda body: fault
    found = answers(scene, 2, ends=(1,))
    assert [rewards(each) for each in found] == [[None] * 3] * 2
    assert scene.endpoint.counts.requests == 1
    assert_finishes(scene)


@pytest.mark.parametrize("fault", ["401", "402"])
def test_a_key_or_credit_that_fails_on_the_way_takes_no_reward_away_that_was_paid_for(
    scene: Scene, fault: str
) -> None:
    scene.meets = in_one_row(fault)
    [found] = answers(scene, ends=(0, 1))
    assert rewards(found)[names().index(BAD)] is None
    assert 1 <= scene.endpoint.counts.by_fault[fault] <= 4
    assert_finishes(scene)


def test_all_faults_mixed_give_rewards_or_null_and_in_the_end_rewards(scene: Scene) -> None:
    scene.timeout = 0.4
    mixed = [*SENT_AGAIN, *REFUSED, *ENDING, *UNUSABLE]
    kinds = len(mixed)
    Random(7).shuffle(mixed)
    waiting = [None if turn % 12 == 11 else mixed.pop() for turn in range(len(mixed) * 12 // 11)][::-1]
    scene.meets = lambda body: waiting.pop() if waiting else None
    services = 0
    while waiting and services < 40:
        for found in answers(scene, 2, ends=(0, 1)):
            rewards(found)
        services += 1
    assert len(scene.endpoint.counts.by_fault) == kinds
    assert rewards(answers(scene)[0]) == [1.0] * 3
    scene.assert_no_secret()
