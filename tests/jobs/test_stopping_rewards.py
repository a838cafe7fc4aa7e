"""`progress` and `stop` of the functions that give rewards."""

from __future__ import annotations

from pathlib import Path

import pytest

from autorubric import Criterion, Rubric, RunState, Stop, reward, serve
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
