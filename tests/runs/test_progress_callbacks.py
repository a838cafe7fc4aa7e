"""Callbacks and graders of the user that raise while a run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, DataItem, EvaluationReport, Grader, Rubric, RubricDataset, evaluate, grade
from autorubric.background import wait_for
from autorubric.runs import progress
from autorubric.runs.progress import RunState
from autorubric.testing import Latency, LoopbackEndpoint
from tests.offenders import offenders

RUBRIC = Rubric([Criterion(name="Short", requirement="Contains at most five words.")])
ENDING = (KeyboardInterrupt(), SystemExit(3))


def raising(error: BaseException) -> Callable[[RunState], object]:
    """A callback that raises when it is called the second time, which is between the start and the end of a run."""
    calls = []

    def told(state: RunState) -> None:
        calls.append(state)
        if len(calls) == 2:
            raise error

    return told


def test_what_a_callback_raises_reaches_the_caller_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.001)
    endpoint = LoopbackEndpoint(latency=Latency(0.05))
    with endpoint.in_thread(), offenders() as case:
        for number, error in enumerate((ValueError("mine"), *ENDING), start=1):
            with case(repr(error)):
                texts, judge = ["The moon pulls.", "Nobody knows."], f"m@{endpoint.base_url}"
                with pytest.raises(type(error)):
                    grade(texts, rubric=RUBRIC, judge=judge, out=tmp_path / str(number), progress=raising(error))
                again = grade(texts, rubric=RUBRIC, judge=judge, out=tmp_path / str(number))
                assert again.successful_items == 2
                assert endpoint.counts.requests == 2 * number


class Exiting(Grader[EvaluationReport]):
    error: BaseException | None = None

    async def judge(self, *_: Any) -> Any:
        if self.error is not None:
            raise self.error

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=1.0)


def test_a_run_whose_grader_exits_is_closed_and_can_be_resumed_in_this_process(tmp_path: Path) -> None:
    data = RubricDataset(prompt="Explain tides.", rubric=RUBRIC, items=[DataItem("The moon pulls.", "moon")])
    with offenders() as case:
        for error in ENDING:
            with case(repr(error)):
                grader, where = Exiting(), tmp_path / repr(error)
                grader.error = error
                with pytest.raises(type(error)):
                    asyncio.run(evaluate(data, grader, experiment_name="run", experiments_dir=where))
                grader.error = None
                assert (
                    asyncio.run(evaluate(data, grader, experiment_name="run", experiments_dir=where)).successful_items
                    == 1
                )


def test_an_exit_in_a_coroutine_reaches_its_caller_and_later_calls_work() -> None:
    async def leave(error: BaseException) -> None:
        raise error

    async def answer() -> int:
        return 42

    for error in ENDING:
        with pytest.raises(type(error)):
            wait_for(leave(error))
        assert wait_for(answer()) == 42
