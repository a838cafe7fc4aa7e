from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor, abandon_on_error
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Reply, Request, Usage
from autorubric.runs.progress import RunState
from autorubric.runs.stopping import StoppableRun
from autorubric.testing import ScriptedModel


class SleepingModel:
    """Answers only when it is woken, and notes how its calls ended."""

    name = "test/sleeping"

    def __init__(self) -> None:
        self.started, self.woken = asyncio.Event(), asyncio.Event()
        self.given_up = 0

    def identity(self) -> tuple[Any, ...]:
        return (self.name,)

    def ceiling(self, request: Request) -> Usage | None:
        return None

    def cost(self, usage: Usage) -> float | None:
        return None

    async def complete(self, request: Request) -> Reply:
        self.started.set()
        try:
            await self.woken.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return Reply("MET")

    async def close(self) -> None: ...


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), asyncio.CancelledError("the disk is full")])
async def test_an_error_waits_for_calls_in_flight_and_a_cancellation_gives_them_up(error: BaseException) -> None:
    model = SleepingModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        waiting = asyncio.create_task(executor.ask(model, Request((Message("user", "Why?"),), "judge", item="q")))
        await model.started.wait()
        asyncio.get_running_loop().call_later(0.05, model.woken.set)
        with pytest.raises(type(error), match="disk"):
            async with abandon_on_error(executor):
                raise BaseExceptionGroup("tasks", [BaseExceptionGroup("inner", [error])])
        outcome = await waiting
        assert model.given_up == (not isinstance(error, LedgerError))
        assert isinstance(outcome, Failure if model.given_up else Reply)


def test_a_block_that_ends_well_leaves_calls_in_flight_alone_and_new_ones_are_made() -> None:
    async def run() -> None:
        model = ScriptedModel(lambda request: request.item.upper())
        with Ledger.in_memory() as ledger:
            executor = Executor(ledger)
            async with abandon_on_error(executor):
                question = Request((Message("user", "Why?"),), "judge", item="q")
                waiting = asyncio.create_task(executor.ask(model, question))
            later = await executor.ask(model, Request((Message("user", "How?"),), "judge", item="r"))
            first = await waiting
            assert [one.text for one in (first, later) if isinstance(one, Reply)] == ["Q", "R"]

    asyncio.run(run())


async def test_a_cancelled_call_is_recorded_as_interrupted() -> None:
    model = SleepingModel()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=False)
        waiting = asyncio.create_task(executor.ask(model, Request((Message("user", "Why?"),), "judge")))
        await model.started.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        ledger.flush()
        assert [call.failure.message for call in ledger.read_failures() if call.failure] == ["interrupted"]


class Careless(StoppableRun):
    """Discards the outcome of its only call."""

    async def execute(self) -> None:
        assert self.executor is not None
        model = ScriptedModel(lambda request: Failure("auth", "the key is wrong"))
        await self.executor.ask(model, Request((Message("user", "Why?"),), "judge"))


async def test_a_refused_key_stops_a_run_that_does_not_read_the_failure() -> None:
    """Of calls that are gathered, a run may read another failure first, such as that of one that was not sent."""
    with Ledger.in_memory() as ledger:
        run = Careless(executor=Executor(ledger, detached=False))
        await run.run_to_end(None, None, lambda: RunState.of(1, 0, [], run.activity, ()))
    assert (run.stopped, run.refused) == ("the key is wrong", True)
    assert run.advice.startswith("check the key")


class Broken(StoppableRun):
    """Makes calls until the budget is reached; the first two break off after they were sent."""

    async def execute(self) -> None:
        assert self.executor is not None
        broken = Failure("network", "the process was killed while the call was in flight")
        lines: list[Reply | Failure] = [broken, broken, *[Reply("MET", usage=Usage(1, 99))] * 2]
        model = ScriptedModel(lambda request: lines.pop(0), max_tokens=1000)
        for text in ("Why", "How", "Who", "Yes", "No" * 2000):  # 4 bytes count as a token
            await self.executor.ask(model, Request((Message("user", text),), "judge", item=text[:3]))


async def test_the_advised_budget_expects_no_further_call_to_break_off() -> None:
    with Ledger.in_memory() as ledger:
        run = Broken(executor=Executor(ledger, Budget(tokens=3500), detached=False))
        await run.run_to_end(None, None, lambda: RunState.of(4, 2, [], run.activity, ()))
    told = run.stopped or ""
    # Twice 1,001 of the worst case and twice 100; another 200 are left to do.
    assert " 2,202 spent, and the next call may cost 2,000;" in told
    assert told.endswith("resume with a budget of 4,500 tokens (estimated: 2 of 4 are done)")
