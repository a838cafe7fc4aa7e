"""Calls that run in their caller's task, as runs make them, against calls in tasks of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from autorubric.core.judgment import Judgment
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import CallError, Failure, Message, Reply, Request, Usage

ASKED = Request((Message("user", "Why?"),), "judge", item="q1")


class Slow:
    """Answers when told to; counts calls and the tasks they run in."""

    name = "local/slow"

    def __init__(self) -> None:
        self.answer_now = asyncio.Event()
        self.tasks: list[asyncio.Task[object] | None] = []

    def identity(self) -> tuple[object, ...]:
        return ("slow",)

    def ceiling(self, request: Request) -> Usage | None:
        return Usage(10, 90)

    def cost(self, usage: Usage) -> float | None:
        return usage.total_tokens * 0.005

    async def complete(self, request: Request) -> Reply:
        self.tasks.append(asyncio.current_task())
        await self.answer_now.wait()
        if request.draw:
            raise CallError(Failure("server", "HTTP 503", status=503))
        return Reply("Because.", usage=Usage(10, 20))

    async def close(self) -> None: ...


async def _ask(executor: Executor, model: Slow, request: Request = ASKED) -> Reply | Failure:
    return await executor.ask(model, request)


@pytest.mark.parametrize("detached", [False, True])
async def test_those_who_ask_the_same_share_one_call_however_it_runs(detached: bool) -> None:
    model = Slow()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=detached)
        asking = [asyncio.create_task(_ask(executor, model)) for _ in range(3)]
        failing = asyncio.create_task(_ask(executor, model, Request(ASKED.messages, "judge", draw=1)))
        await asyncio.sleep(0.01)
        model.answer_now.set()
        replies = await asyncio.gather(*asking)
        assert [reply.text for reply in replies if isinstance(reply, Reply)] == ["Because."] * 3
        assert isinstance(await failing, Failure)
        judge = executor.snapshot()["judge"]
        assert (judge.paid, judge.hits, judge.failures, judge.open) == (1, 2, 1, 0)
    own = [task not in (*asking, failing) for task in model.tasks]
    assert own == [detached, detached]


async def test_who_shares_a_call_makes_it_again_if_the_caller_it_ran_in_is_cancelled() -> None:
    model = Slow()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=False)
        first, second = (asyncio.create_task(_ask(executor, model)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        model.answer_now.set()
        reply = await second
        assert first.cancelled()
        assert isinstance(reply, Reply)
        # The first call may have been billed: 100 tokens at half a cent.
        assert ledger.sum_spent() == (2, 130, 0.65, 0, 0)
    assert model.tasks == [first, second]


async def test_a_call_that_a_judge_of_the_users_own_gives_up_on_is_recorded_and_not_paid_for_again() -> None:
    class Impatient:
        judge_ids = ("own",)

        async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
            raise NotImplementedError

    model = Slow()
    with Ledger.in_memory() as ledger:
        executor = CriterionGrader(judge=Impatient()).executor_on(ledger, detached=False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await executor.ask(model, ASKED)
        model.answer_now.set()
        await executor.drain()
        reply = await executor.ask(model, ASKED)
        assert isinstance(reply, Reply)
        assert len(model.tasks) == 1


async def test_a_call_of_a_grader_goes_on_without_its_caller_unless_it_runs_in_the_callers_task() -> None:
    grader = CriterionGrader(judge_model_config="builtin/offline")
    for in_task, calls in ((False, 1), (True, 2)):
        model = Slow()
        with Ledger.in_memory() as ledger:
            executor = grader.executor_on(ledger, detached=False) if in_task else grader.executor_on(ledger)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await executor.ask(model, ASKED)
            model.answer_now.set()
            await executor.drain()
            assert isinstance(await executor.ask(model, ASKED), Reply)
        assert len(model.tasks) == calls


@pytest.mark.parametrize("detached", [False, True])
async def test_an_abandoned_call_is_a_failure_and_its_caller_goes_on(detached: bool) -> None:
    model = Slow()

    async def ask_and_go_on(executor: Executor) -> tuple[Reply | Failure, str]:
        outcome = await executor.ask(model, ASKED)
        await asyncio.sleep(0)  # raises in a task that is still marked as cancelled
        return outcome, "went on"

    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=detached)
        asking = [asyncio.create_task(ask_and_go_on(executor)) for _ in range(2)]
        await asyncio.sleep(0.01)
        executor.abandon("interrupted")
        executor.abandon("interrupted")
        await executor.drain()
        expected = (Failure("stopped", "interrupted"), "went on")
        assert await asyncio.gather(*asking) == [expected, expected]
        assert executor.snapshot()["judge"].failures == 1


async def test_a_caller_cancelled_by_someone_else_as_well_stays_cancelled() -> None:
    model = Slow()
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, detached=False)
        asking = asyncio.create_task(_ask(executor, model))
        await asyncio.sleep(0.01)
        executor.abandon("interrupted")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()


async def test_a_request_that_another_executor_has_under_way_is_waited_for_until_the_run_is_stopped(
    tmp_path: Path,
) -> None:
    model = Slow()
    with Ledger.open(tmp_path, shared=True) as ledger:
        first, second, third = (Executor(ledger) for _ in range(3))
        asked = [asyncio.create_task(first.ask(model, ASKED))]
        while not model.tasks:
            await asyncio.sleep(0)
        asked.append(asyncio.create_task(second.ask(model, ASKED)))
        stopped = asyncio.create_task(third.ask(model, ASKED))
        await asyncio.sleep(0)
        third.stop("enough")
        outcome = await stopped
        assert isinstance(outcome, Failure) and outcome.kind == "stopped"
        model.answer_now.set()
        one, other = await asyncio.gather(*asked)
        assert isinstance(one, Reply) and isinstance(other, Reply) and one.text == other.text
    assert len(model.tasks) == 1
