"""The budget and the retries of an endpoint together."""

from __future__ import annotations

from autorubric.llm.budget import Budget
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Request
from autorubric.testing import LoopbackEndpoint

ASK = Request((Message("user", "Why?"),), "response")


def model_at(endpoint: LoopbackEndpoint, endpoints: Endpoints) -> ChatModel:
    config = LLMConfig(
        "m", api_base=endpoint.base_url, max_tokens=100, max_retries=5, retry_min_wait=0.01, retry_max_wait=0.02
    )
    return ChatModel(config, endpoints)


async def test_an_attempt_that_may_have_been_billed_is_paid_for_twice_in_the_budget_when_it_is_sent_again() -> None:
    async with LoopbackEndpoint(faults={"truncated-body": 1.0}) as endpoint, Endpoints() as endpoints:
        model = model_at(endpoint, endpoints)
        ceiling = model.ceiling(ASK)
        assert ceiling is not None
        with Ledger.in_memory() as ledger:
            # Room for the worst case of two attempts, and not of three.
            budget = Budget(tokens=int(2.5 * ceiling.total_tokens))
            outcome = await Executor(ledger, budget).ask(model, ASK)
            assert isinstance(outcome, Failure)
            assert outcome.kind == "budget"
            assert endpoint.counts.requests == 2
            assert ledger.spent().tokens == 2 * ceiling.total_tokens
        await model.close()


async def test_an_attempt_that_was_turned_away_costs_nothing_in_the_budget() -> None:
    async with LoopbackEndpoint(faults=["503", "503", None]) as endpoint, Endpoints() as endpoints:
        model = model_at(endpoint, endpoints)
        ceiling = model.ceiling(ASK)
        assert ceiling is not None
        with Ledger.in_memory() as ledger:
            outcome = await Executor(ledger, Budget(tokens=ceiling.total_tokens)).ask(model, ASK)
            assert not isinstance(outcome, Failure)
            assert outcome.attempts == 3
        await model.close()


async def test_one_limit_holds_over_all_endpoints() -> None:
    import asyncio

    async with (
        LoopbackEndpoint(latency="fixed:0.02") as one,
        LoopbackEndpoint(latency="fixed:0.02") as other,
        Endpoints(max_in_flight=10, total=3) as endpoints,
    ):
        models = [model_at(one, endpoints), model_at(other, endpoints)]
        asks = [Request((Message("user", f"Why {i}?"),), "response") for i in range(20)]
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, one.counts.in_flight + other.counts.in_flight)
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(models[i % 2].complete(ask) for i, ask in enumerate(asks)))
        watching.cancel()
        assert 2 <= most <= 3
        for model in models:
            await model.close()
