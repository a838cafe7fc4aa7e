from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.errors import ConfigError
from autorubric.llm.billing import current_reservation
from autorubric.llm.budget import Budget
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, CallError, Failure, FailureKind, Message, Reply, Request, Unreadable, Usage
from autorubric.llm.sharing import turn
from tests.warm_commands import WarmPython

Outcome: TypeAlias = "Reply | Failure"


class MeteredModel:
    """A call can cost 100 tokens at $0.01; `rule` says what comes of it, after some resends."""

    name = "test/metered"

    def __init__(
        self,
        rule: Callable[[Request], Outcome],
        *,
        resends: int = 0,
        bounded: bool = True,
        priced: bool = True,
    ) -> None:
        self.asked = 0
        self._rule = rule
        self._resends = resends
        self._bounded = bounded
        self._priced = priced

    def identity(self) -> tuple[Any, ...]:
        return (self.name,)

    def ceiling(self, request: Request) -> Usage | None:
        return Usage(10, 90) if self._bounded else None

    def cost(self, usage: Usage) -> float | None:
        return usage.total_tokens * 0.01 if self._priced else None

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        for _ in range(self._resends):
            await asyncio.sleep(0)
            reservation = current_reservation.get()
            assert reservation is not None
            await reservation.extend()
        await asyncio.sleep(0)
        outcome = self._rule(request)
        if isinstance(outcome, Failure):
            raise CallError(outcome)
        return outcome

    async def close(self) -> None: ...


def question(number: int) -> Request:
    return Request((Message("user", f"question {number}"),), "judge", item=f"q{number}")


def paid_30(request: Request) -> Outcome:
    return Reply("MET", usage=Usage(10, 20))


async def ask_all(executor: Executor, model: MeteredModel, count: int, slots: int | None = None) -> list[str]:
    places = asyncio.Semaphore(slots or count)

    async def ask(number: int) -> Outcome:
        async with places:
            return await executor.ask(model, question(number))

    outcomes = await asyncio.gather(*map(ask, range(count)))
    return ["ok" if isinstance(outcome, Reply) else outcome.kind for outcome in outcomes]


async def test_the_budget_ends_a_run_before_it_is_overrun(tmp_path: Path) -> None:
    # Each call needs 100 free tokens and takes 30: the 31st would find 1000 - 30 * 30 = 100, which it needs,
    # and the 32nd 1000 - 31 * 30 = 70, which are not enough.
    model = MeteredModel(paid_30)
    with Ledger.open(tmp_path) as ledger:
        outcomes = await ask_all(Executor(ledger, Budget(tokens=1000)), model, 40)
        assert outcomes == ["ok"] * 31 + ["budget"] * 9
        assert ledger.sum_spent().tokens == 930
    with Ledger.open(tmp_path) as ledger:
        # The same command again, with the same budget: hits are free, nothing new is sent.
        executor = Executor(ledger, Budget(tokens=1000, spent=ledger.sum_spent()))
        assert await ask_all(executor, model, 40) == outcomes
        assert executor.snapshot()["judge"].refused == 9
    assert model.asked == 31


@pytest.mark.parametrize(
    "failure",
    [
        Failure("server", "HTTP 500"),
        Failure("rate_limit", "HTTP 429"),
        Failure("rejected", "HTTP 400"),
        Failure("network", "connection refused", sent=False),
    ],
)
async def test_a_failure_that_was_never_billed_costs_the_budget_nothing(failure: Failure) -> None:
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, Budget(usd=1.0))
        await executor.ask(MeteredModel(lambda request: failure), question(0))
        assert ledger.sum_spent() == (1, 0, 0.0, 0, 0)
        assert await ask_all(executor, MeteredModel(paid_30), 1) == ["ok"]


@pytest.mark.parametrize("kind", ["timeout", "network", "empty"])
def test_a_failure_that_may_have_been_billed_keeps_its_worst_case_over_a_restart(
    kind: FailureKind, tmp_path: Path
) -> None:
    model = MeteredModel(lambda request: Failure(kind, "nobody knows"))
    for _ in range(2):
        with Ledger.open(tmp_path) as ledger:
            executor = Executor(ledger, Budget(usd=1.5, spent=ledger.sum_spent()))
            outcomes = asyncio.run(ask_all(executor, model, 2))
            # $1.00 of $1.50 may be gone with the first; the second needs $1.00 more.
            assert "budget" in outcomes
            assert (ledger.sum_spent().tokens, ledger.sum_spent().cost) == (100, 1.0)
    assert model.asked == 1


async def test_the_usage_of_a_reply_that_could_not_be_used_counts_instead_of_the_worst_case() -> None:
    filtered = Failure("refusal", "content filter", reply=Reply("", usage=Usage(10, 5)))
    with Ledger.in_memory() as ledger:
        await Executor(ledger, Budget(usd=1.5)).ask(MeteredModel(lambda request: filtered), question(1))
        assert ledger.sum_spent() == (1, 15, 0.15, 0, 0)


async def test_a_reply_without_usage_counts_with_its_worst_case() -> None:
    with Ledger.in_memory() as ledger:
        await Executor(ledger, Budget(usd=1.5)).ask(MeteredModel(lambda request: Reply("MET")), question(1))
        assert ledger.sum_spent() == (1, 100, 1.0, 0, 0)


async def test_attempts_that_were_sent_again_count_with_their_worst_case_beside_the_reply() -> None:
    # Two silent attempts at 100 tokens, then a reply of 30.
    with Ledger.in_memory() as ledger:
        budget = Budget(tokens=300)
        await Executor(ledger, budget).ask(MeteredModel(paid_30, resends=2), question(1))
        assert (ledger.sum_spent().tokens, budget.spent.tokens) == (230, 230)


async def test_an_attempt_that_the_budget_does_not_cover_is_not_sent_again() -> None:
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, Budget(tokens=250))
        outcomes = await ask_all(executor, MeteredModel(paid_30, resends=2), 1)
        # Two attempts may have been billed; the third would make 300.
        assert (outcomes, ledger.sum_spent().tokens) == (["budget"], 200)


async def test_a_reask_comes_before_the_items_that_begin_after_its_own(tmp_path: Path) -> None:
    # Each item takes two calls of 30 tokens, with 100 free tokens each: 2000 tokens pay for 64 calls, of 32 items.
    model = MeteredModel(lambda request: Reply("MET" if request.reask else "?", usage=Usage(10, 20)))

    async def ask(executor: Executor, number: int) -> bool:
        turn.set(number)
        found = await executor.ask_for(
            model,
            question(number),
            lambda reply: Unreadable("unreadable", "?") if reply.text == "?" else Answer(reply.text, reply),
        )
        return isinstance(found, Answer)

    with Ledger.open(tmp_path) as ledger:
        executor = Executor(ledger, Budget(tokens=2000))
        found = await asyncio.gather(*(ask(executor, number) for number in range(90)))
    # The last timer may find a reply that is not read yet.
    assert sum(found) >= 20 and model.asked == 64, sum(found)


async def test_worst_cases_are_recorded_without_a_budget_too() -> None:
    # A later session may have one.
    with Ledger.in_memory() as ledger:
        timeout = Failure("timeout", "no answer in 60 s")
        await Executor(ledger).ask(MeteredModel(lambda request: timeout, resends=1), question(1))
        assert ledger.sum_spent() == (1, 200, 2.0, 0, 0)


async def test_what_no_budget_can_bound_is_refused_before_it_is_sent() -> None:
    unpriced, unbounded = MeteredModel(paid_30, priced=False), MeteredModel(paid_30, bounded=False)
    with Ledger.in_memory() as ledger:
        with pytest.raises(ConfigError, match="has no known price"):
            await Executor(ledger, Budget(usd=1.0)).ask(unpriced, question(1))
        with pytest.raises(ConfigError, match="puts no bound on the length"):
            await Executor(ledger, Budget(tokens=500)).ask(unbounded, question(1))
        assert ledger.count == 0
    assert (unpriced.asked, unbounded.asked) == (0, 0)


outcomes_of_a_call = st.sampled_from(
    [
        Reply("MET", usage=Usage(10, 20)),
        Reply("MET", usage=Usage(10, 90)),
        Reply("MET"),
        Failure("timeout", "no answer"),
        Failure("server", "HTTP 500"),
        Failure("refusal", "no", reply=Reply("", usage=Usage(10, 1))),
    ]
)


@given(
    limit=st.integers(0, 1500),
    calls=st.lists(outcomes_of_a_call, min_size=1, max_size=15),
    resends=st.integers(0, 2),
    slots=st.integers(1, 4),
)
def test_no_mix_of_outcomes_and_resends_overruns_the_budget(
    limit: int, calls: list[Outcome], resends: int, slots: int
) -> None:
    model = MeteredModel(lambda request: calls[int(request.item[1:])], resends=resends)

    async def main() -> None:
        with Ledger.in_memory() as ledger:
            budget = Budget(tokens=limit)
            executor = Executor(ledger, budget)
            await asyncio.wait_for(ask_all(executor, model, len(calls), slots), 10)
            assert ledger.sum_spent().tokens == budget.spent.tokens <= limit
            assert budget.reserved.tokens == 0

    asyncio.run(main())


async def test_a_200_that_held_no_reply_may_have_been_billed() -> None:
    broken = Failure("server", "HTTP 200 with an error: upstream down", 200)
    with Ledger.in_memory() as ledger:
        await Executor(ledger, Budget(tokens=500)).ask(MeteredModel(lambda request: broken), question(0))
        assert ledger.sum_spent().tokens == 100


@given(
    limit=st.integers(0, 3000),
    long=st.lists(st.booleans(), min_size=1, max_size=15),
    resends=st.integers(0, 1),
    slots=st.integers(1, 4),
)
def test_replies_beyond_their_ceiling_overrun_the_budget_by_what_is_in_flight_at_most(
    limit: int, long: list[bool], resends: int, slots: int
) -> None:
    # 510 tokens where 100 are allowed: the ceiling becomes 100 + 2 x 410 = 920, for attempts without a count too.
    def outcome(request: Request) -> Outcome:
        return Reply("MET", usage=Usage(10, 500 if long[int(request.item[1:])] else 20))

    async def main() -> None:
        with Ledger.in_memory() as ledger:
            budget = Budget(tokens=limit)
            executor = Executor(ledger, budget)
            model = MeteredModel(outcome, resends=resends)
            await asyncio.wait_for(ask_all(executor, model, len(long), slots), 10)
            in_flight = slots * (510 + resends * 920)
            assert ledger.sum_spent().tokens == budget.spent.tokens <= limit + in_flight
            assert budget.reserved.tokens == 0

    asyncio.run(main())


@pytest.mark.parametrize("tokens, asked", [(1500, 1), (2000, 2)])
def test_a_later_session_knows_the_raised_ceiling(tokens: int, asked: int, tmp_path: Path) -> None:
    # 510 tokens where 100 are allowed: the ceiling becomes 920. 510 + 920 fit under 1,500; 1,020 + 920 do not.
    model = MeteredModel(lambda request: Reply("MET", usage=Usage(10, 500)))
    with Ledger.open(tmp_path) as ledger:
        asyncio.run(ask_all(Executor(ledger, Budget(tokens=600)), model, 1))
    for number in (1, 2):
        with Ledger.open(tmp_path) as ledger:
            executor = Executor(ledger, Budget(tokens=tokens, spent=ledger.sum_spent()))
            asyncio.run(executor.ask(MeteredModel(model._rule), question(number)))
    with Ledger.open(tmp_path) as ledger:
        assert ledger.sum_spent()[:2] == (1 + asked, 510 * (1 + asked))


async def test_a_call_that_the_budget_refuses_before_it_is_sent_is_no_call() -> None:
    long_reply_came = asyncio.Event()

    class Careful(MeteredModel):
        async def complete(self, request: Request) -> Reply:
            if request.item == "q0":
                long_reply_came.set()
                return Reply("MET", usage=Usage(10, 500))
            reservation = current_reservation.get()
            assert reservation is not None
            reservation.waits_to_be_sent = True
            await long_reply_came.wait()
            await asyncio.sleep(0.01)
            await reservation.cover()
            raise AssertionError("the budget does not cover the call")

    with Ledger.in_memory() as ledger:
        executor = Executor(ledger, Budget(tokens=600))
        assert await ask_all(executor, Careful(paid_30), 2) == ["ok", "budget"]
        assert ledger.sum_spent().calls == 1
        activity = executor.snapshot()["judge"]
        assert (activity.open, activity.paid, activity.failures, activity.refused) == (0, 1, 0, 1)


async def test_a_failure_that_may_have_been_billed_at_an_unknown_price_did_not_cost_nothing() -> None:
    model = MeteredModel(lambda request: Failure("network", "broke off"), priced=False)
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        await executor.ask(model, question(0))
        assert [total.unpriced for total in ledger.add_up()] == [1]
        assert executor.snapshot()["judge"].unpriced == 1


KILLED_IN_FLIGHT = """
import asyncio, os, signal, sys
from pathlib import Path
from autorubric import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Message, Request
from autorubric.testing import LoopbackEndpoint

async def main():
    faults = [None, "429", "hang", "hang"]
    async with LoopbackEndpoint(replier=lambda body: "MET", faults=faults) as endpoint:
        with Ledger.open(Path(sys.argv[1])) as ledger:
            model = ChatModel(LLMConfig("m", api_base=endpoint.base_url, max_tokens=90), environ={})
            executor = Executor(ledger)
            asked = [Request((Message("user", f"{number}"),), "judge", item=f"q{number}") for number in range(3)]
            await executor.ask(model, asked[0])
            calls = [asyncio.create_task(executor.ask(model, one)) for one in asked[1:]]
            while endpoint.counts.requests < 4:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_calls_in_flight_at_a_kill_count_at_their_worst_case_in_the_next_session(tmp_path: Path) -> None:
    assert WarmPython(["-c", KILLED_IN_FLIGHT, str(tmp_path)]).wait() == -signal.SIGKILL
    worst = 512 + 16 + 1 + 90  # per request, per message, bytes of the prompt, max_tokens
    for _ in range(2):  # counted once, however often the ledger is opened
        with Ledger.open(tmp_path) as ledger:
            [total] = ledger.add_up()
            assert (total.calls, total.failed) == (3, 2)
            assert ledger.sum_spent().tokens == total.usage.total_tokens + 2 * worst
            assert sorted(call.item for call in ledger.read_failures()) == ["q1", "q2"]
    assert not (tmp_path / "departures").exists()
