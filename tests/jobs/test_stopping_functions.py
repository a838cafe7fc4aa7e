"""Stopping the public functions: by `progress`, by `stop` and by cancelling an async call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RunState, Stop, grade_async, reward, reward_async, serve, synthesize_async
from autorubric.testing import LoopbackEndpoint
from tests.offenders import offenders

RUBRIC = Rubric([Criterion(name="Kind", requirement="Is kind.")])
TEXTS = [f"Dear reader {number}" for number in range(8)]


def test_rewards_report_their_progress_and_a_stopped_run_resumes_without_paying_twice(tmp_path: Path) -> None:
    stop, states = Stop(), list[RunState]()

    def progress(state: RunState) -> None:
        states.append(state)
        if state.calls:
            stop()

    with LoopbackEndpoint(latency="fixed:0.4").in_thread() as endpoint:
        model, out = f"judge@{endpoint.base_url}", tmp_path / "rewards"
        first = reward(
            TEXTS, rubric=RUBRIC, judge=model, out=out, concurrency=2, progress=progress, stop=stop, timeout=600
        )
        paid = endpoint.counts.requests
        assert 0 < paid < len(TEXTS)
        assert sum(one.value is not None for one in first) == paid
        assert {one.failure for one in first if one.value is None} == {"criterion 'Kind': stopped: interrupted"}
        states.clear()
        again = reward(TEXTS, rubric=RUBRIC, judge=model, out=out, progress=states.append)
        assert [one.value for one in again] == [1.0] * len(TEXTS)
        assert endpoint.counts.requests == len(TEXTS)
    assert (states[0].rows, states[0].finished) == (8, 0)
    last = states[-1]
    assert (last.rows, last.finished, last.calls, last.reused) == (8, 8, 8 - paid, paid)


@pytest.mark.usefixtures("forked")
def test_a_service_ends_when_it_is_stopped(tmp_path: Path) -> None:
    with offenders() as case:
        for processes in (None, 2):
            with case(f"{processes} processes"):
                stop, said = Stop(), list[str]()

                def announce(text: str, stop: Stop = stop, said: list[str] = said) -> None:
                    said.append(text)
                    stop()

                out = tmp_path / str(processes)
                serve(judge="builtin/offline", port=0, out=out, processes=processes, announce=announce, stop=stop)
                assert [text.partition(" at ")[0] for text in said] == ["rewards"]


async def _cancel(call: Any, sent: Callable[[], int], *, times: int = 1) -> None:
    task = asyncio.ensure_future(call)
    while not sent() and not task.done():
        await asyncio.sleep(0.01)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_ends_the_requests_in_flight_and_resumes_without_paying_twice(tmp_path: Path) -> None:
    judged = {"rubric": RUBRIC, "concurrency": 2}
    table: list[tuple[Callable[..., Any], Any, str, dict[str, Any], int]] = [
        (grade_async, TEXTS, "judge", judged, 8),
        (reward_async, TEXTS, "judge", judged, 8),
        (synthesize_async, [{"prompt": text} for text in TEXTS[:3]], "models", {"concurrency": 2}, 3 * 7),
    ]
    with offenders() as case:
        for function, data, models, settings, calls in table:
            with case(function.__name__), LoopbackEndpoint(latency="fixed:0.05").in_thread() as endpoint:
                given = {**settings, models: f"m@{endpoint.base_url}", "out": tmp_path / function.__name__}
                await _cancel(function(data, **given), lambda: endpoint.counts.requests)
                before = endpoint.counts.requests
                await function(data, **given)
                assert before < endpoint.counts.requests == calls


async def test_a_call_that_is_cancelled_twice_ends_at_once(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:60").in_thread() as endpoint:
        given: dict[str, Any] = {"rubric": RUBRIC, "judge": f"m@{endpoint.base_url}", "out": tmp_path / "run"}
        await asyncio.wait_for(_cancel(grade_async(TEXTS, **given), lambda: endpoint.counts.requests, times=2), 5)
