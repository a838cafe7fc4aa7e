"""Runs a plan over many records: pipelined within each record, bounded in memory, indifferent to slow replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from autorubric.llm.request import Failure
from autorubric.synthesis.plan import AnyStage, Fields, Plan
from autorubric.synthesis.queries import Query

NO_CALL_MADE = frozenset({"stopped", "budget"})
"""Failures that say nothing about the row: it was simply not asked yet."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one stage of one record ended.

    Attributes:
        value: what goes into the row; None when it failed.
        model: who made the value; empty when it failed.
        failure: why there is no value.
        notes: what had to be overlooked to read the reply.
        lost: calls that failed and that the value had to do without.
    """

    value: Any = None
    model: str = ""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    lost: tuple[Failure, ...] = ()


@dataclass(slots=True)
class Row:
    """A record on its way: the fields so far, and how each stage ended."""

    query: Query
    fields: dict[str, Any]
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def settle(self, stage: AnyStage, outcome: Outcome) -> None:
        """Write a stage's three fields."""
        self.outcomes[stage.name] = outcome
        name = stage.name
        for key in (name, f"{name}_model", f"{name}_error"):
            self.fields.pop(key, None)
        if outcome.failure is None:
            self.fields |= {name: outcome.value, f"{name}_model": outcome.model}
            if outcome.lost:
                # With an error beside it a value is not finished: the next run asks for what is missing.
                told = f"{len(outcome.lost)} calls failed, the first with {outcome.lost[0]}"
                self.fields[f"{name}_error"] = told[:500]
        elif outcome.failure.kind not in NO_CALL_MADE:
            self.fields |= {name: stage.empty, f"{name}_error": str(outcome.failure)[:500]}

    def stopped(self, stage: AnyStage) -> Outcome | None:
        """The end of a stage that reads what was not asked for yet: it was not reached either."""
        for name in stage.reads:
            failure = self.outcomes[name].failure if name in self.outcomes else None
            if failure is not None and failure.kind in NO_CALL_MADE:
                return Outcome(failure=failure)
        return None

    def failures(self) -> dict[str, Failure]:
        """The stages that failed, or lost a call, by name, in the order they ended."""
        ended = {name: o.failure or next(iter(o.lost), None) for name, o in self.outcomes.items()}
        return {name: failure for name, failure in ended.items() if failure is not None}


class Answerer(Protocol):
    """Whatever can bring one stage of one record to its end."""

    async def __call__(self, stage: AnyStage, record_id: str, fields: Fields) -> Outcome: ...  # noqa: D102


async def run_plan(
    plan: Plan,
    queries: Iterable[Query],
    answer: Answerer,
    *,
    window: int,
    finished: Callable[[Row], Awaitable[None] | None],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Bring every query through every stage of the plan.

    A stage starts the moment the fields it reads are settled, so that a slow reply delays its own record only.
    At most `window` records are open at a time; `queries` is drawn from no faster than that.

    Args:
        plan: the stages.
        queries: the records, in input order.
        answer: asks the model of a stage.
        window: the most records open at a time.
        finished: takes each row when its last stage has ended, in the order of finishing.
        stopping: polled before a record is opened; True leaves the rest of the input unopened.
    """
    room = asyncio.Semaphore(window)

    async def run_one(query: Query) -> None:
        try:
            row = Row(query, dict(query.fields))
            await _run_record(plan, row, answer)
            taken = finished(row)
            if taken is not None:
                await taken
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        for query in queries:
            await room.acquire()
            if stopping():
                break
            group.create_task(run_one(query))


async def _run_record(plan: Plan, row: Row, answer: Answerer) -> None:
    async def run(stage: AnyStage, needs: list[asyncio.Task[None]]) -> None:
        for need in needs:
            await need
        stopped = row.stopped(stage)
        row.settle(stage, stopped or await answer(stage, row.query.record_id, row.fields))

    tasks: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        for stage in plan.stages:
            needs = [tasks[name] for name in stage.reads if name in tasks]
            tasks[stage.name] = group.create_task(run(stage, needs))
