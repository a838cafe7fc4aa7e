from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.executor import Executor, abandon_on_error
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Reply, Request, Usage
from autorubric.testing import ScriptedModel


class SleepingModel:
    """Never answers, and notes how its calls ended."""

    name = "test/sleeping"

    def __init__(self) -> None:
        self.started = asyncio.Event()
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
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        raise AssertionError("nothing wakes it")

    async def close(self) -> None: ...


def test_an_error_gives_up_calls_in_flight_and_comes_out_without_its_group(tmp_path: Path) -> None:
    async def run() -> None:
        model = SleepingModel()
        with Ledger.open(tmp_path) as ledger:
            executor = Executor(ledger)
            waiting = asyncio.create_task(executor.ask(model, Request((Message("user", "Why?"),), "judge", item="q")))
            await model.started.wait()
            with pytest.raises(LedgerError, match="disk"):
                async with abandon_on_error(executor):
                    raise ExceptionGroup("tasks", [ExceptionGroup("inner", [LedgerError("the disk is full")])])
            assert model.given_up == 1
            outcome = await waiting
            assert isinstance(outcome, Failure) and "broken off" in outcome.message

    asyncio.run(run())


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
