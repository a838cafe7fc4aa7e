"""Running a plan over records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from autorubric.llm.request import Failure
from autorubric.runs.blocks import Room
from autorubric.runs.stopping import StoppableRun
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.stage_runner import Row, run_plan
from autorubric.synthesis.stages import Fields, Plan, Stage, StageOutcome


class Run(StoppableRun):
    async def execute(self) -> None: ...


def stage(name: str, *reads: str) -> Stage:
    return Stage(name, 0, reads, lambda fields, models: [], empty="")


PLAN = Plan((stage("a", "question"), stage("b", "question"), stage("c", "a", "b")))


def queries(count: int) -> Iterator[Query]:
    for i in range(count):
        yield Query(i, f"idx:{i}", {"question": f"q{i}"})


class Answers:
    """Answers each stage with the fields it saw, after any waiting the test asks for."""

    def __init__(self, hold: dict[tuple[str, str], asyncio.Event] | None = None) -> None:
        self.hold = hold or {}
        self.started: list[tuple[str, str]] = []
        self.open = self.most_open = 0

    async def __call__(self, stage: Stage, record_id: str, fields: Fields) -> StageOutcome:
        self.started.append((record_id, stage.name))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await (
            self.hold[(record_id, stage.name)].wait() if (record_id, stage.name) in self.hold else asyncio.sleep(0)
        )
        self.open -= 1
        return StageOutcome("+".join(str(fields.get(r)) for r in stage.reads), "test")


async def test_every_stage_sees_what_it_reads() -> None:
    rows: list[Row] = []
    await run_plan(PLAN, queries(2), Answers(), room=Room(4), finished=rows.append)
    assert [(r.fields["c"], r.fields["c_model"]) for r in rows] == [("q0+q0", "test"), ("q1+q1", "test")]


async def test_a_slow_reply_delays_its_own_record_only() -> None:
    gate = asyncio.Event()
    rows: list[Row] = []

    def take(row: Row) -> None:
        rows.append(row)
        if len(rows) == 9:
            gate.set()

    answers = Answers({("idx:0", "a"): gate})
    await run_plan(PLAN, queries(10), answers, room=Room(3), finished=take)
    assert [row.query.index for row in rows] == [*range(1, 10), 0]


async def test_a_stage_waits_for_what_it_reads_and_for_nothing_else() -> None:
    gate = asyncio.Event()
    answers = Answers({("idx:0", "a"): gate})
    running = asyncio.create_task(run_plan(PLAN, queries(1), answers, room=Room(1), finished=lambda row: None))
    for _ in range(20):
        await asyncio.sleep(0)
    assert answers.started == [("idx:0", "a"), ("idx:0", "b")]
    gate.set()
    await running
    assert answers.started[-1] == ("idx:0", "c")


async def test_the_window_bounds_the_records_that_are_open() -> None:
    drawn = 0

    def counted() -> Iterator[Query]:
        nonlocal drawn
        for query in queries(50):
            drawn += 1
            yield query

    finished = 0
    most_ahead = 0

    def take(row: Row) -> None:
        nonlocal finished, most_ahead
        finished += 1
        most_ahead = max(most_ahead, drawn - finished)

    await run_plan(PLAN, counted(), Answers(), room=Room(5), finished=take)
    assert finished == 50
    assert most_ahead <= 5


async def test_stopping_opens_no_further_record_and_ends_the_open_ones() -> None:
    rows: list[Row] = []
    run = Run()

    def take(row: Row) -> None:
        rows.append(row)
        if len(rows) == 3:
            run.stop("interrupted")

    await run_plan(PLAN, queries(100), Answers(), room=Room(2), finished=take, run=run)
    assert 3 <= len(rows) <= 5


async def test_an_error_is_raised_when_the_stages_under_way_have_ended_and_none_of_their_work_is_cancelled() -> None:
    ended: list[str] = []
    run = Run()

    async def answer(stage: Stage, record_id: str, fields: Fields) -> StageOutcome:
        if (record_id, stage.name) == ("idx:1", "a"):
            raise OSError("No space left on device")
        await asyncio.sleep(0.01)
        ended.append(f"{record_id}/{stage.name}")
        return StageOutcome("text", "test")

    with pytest.raises(OSError, match="No space left"):
        await run_plan(PLAN, queries(100), answer, room=Room(3), finished=lambda row: None, run=run)
    assert run.stopped == "No space left on device"
    assert {"idx:0/a", "idx:0/b", "idx:0/c", "idx:1/b", "idx:2/a", "idx:2/b"} - {*ended} == set()
    assert len(ended) < 20


def test_a_failure_is_written_beside_the_field_and_a_stop_leaves_no_trace() -> None:
    row = Row(Query(0, "idx:0", {"question": "q"}), {"question": "q", "b": "old", "b_error": "old"})
    row.record_outcome(PLAN.stages[0], StageOutcome(failure=Failure("server", "500 again and again")))
    row.record_outcome(PLAN.stages[1], StageOutcome(failure=Failure("stopped", "interrupted")))
    fields: dict[str, Any] = row.fields
    assert fields == {"question": "q", "a": "", "a_error": "server: 500 again and again"}


async def test_a_stage_behind_one_that_was_stopped_counts_as_stopped_itself() -> None:
    async def answer(stage: Stage, record_id: str, fields: Fields) -> StageOutcome:
        return (
            StageOutcome(failure=Failure("stopped", "interrupted"))
            if stage.name == "a"
            else StageOutcome("text", "test")
        )

    rows: list[Row] = []
    await run_plan(PLAN, queries(1), answer, room=Room(1), finished=rows.append)
    assert {name: failure.kind for name, failure in rows[0].failures.items()} == {"a": "stopped", "c": "stopped"}
    assert "c_error" not in rows[0].fields
