"""The budget and the retries of an endpoint together."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autorubric.llm.attempts import Attempt, watched_by
from autorubric.llm.billing import Reservation
from autorubric.llm.budget import Budget
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.endpoints import Endpoints
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Message, Reply, ReplySchema, Request
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import FAULTS, Fault

ASK = Request((Message("user", "Why?"),), "response")


SHAPE = ReplySchema("verdict", {"type": "object"})
CEILING = 512 + 16 + 4 + 100  # the request, its message of four bytes ("Why?"), and max_tokens


def model_at(endpoint: LoopbackEndpoint, endpoints: Endpoints, **settings: Any) -> ChatModel:
    config = {"max_tokens": 100, "max_retries": 5, "retry_min_wait": 0.0, "retry_max_wait": 0.001, **settings}
    return ChatModel(LLMConfig("m", api_base=endpoint.base_url, **config), endpoints)


def replying(name: str, usage: Any) -> Fault:
    """An answer of a few words that states this usage."""
    choice = {"message": {"role": "assistant", "content": "It is MET."}, "finish_reason": "stop"}
    return Fault(name, body=json.dumps({"choices": [choice], "usage": usage}).encode())


async def ask_all(executor: Executor, model: ChatModel, count: int) -> list[str]:
    """Ask so many questions of four bytes at once, every third one with a schema; what became of each."""
    asks = [Request((Message("user", f"W{n:02}?"),), "response", SHAPE if n % 3 == 2 else None) for n in range(count)]
    outcomes = await asyncio.wait_for(asyncio.gather(*(executor.ask(model, ask) for ask in asks)), 60)
    return ["ok" if isinstance(outcome, Reply) else outcome.kind for outcome in outcomes]


async def test_an_attempt_that_may_have_been_billed_is_paid_for_twice_in_the_budget_when_it_is_sent_again() -> None:
    async with LoopbackEndpoint(faults={"truncated-body": 1.0}) as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints)
        ceiling = model.ceiling(ASK)
        assert ceiling is not None
        with Ledger.in_memory() as ledger:
            # Room for the worst case of two attempts, and not of three.
            budget = Budget(tokens=int(2.5 * ceiling.total_tokens))
            outcome = await Executor(ledger, budget).ask(model, ASK)
            assert isinstance(outcome, Failure)
            assert outcome.kind == "network"
            assert "not retried: budget of" in outcome.message
            assert endpoint.counts.requests == 2
            assert ledger.sum_spent().tokens == 2 * ceiling.total_tokens
        await model.close()


async def test_an_attempt_that_was_turned_away_costs_nothing_in_the_budget() -> None:
    async with LoopbackEndpoint(faults=["503", "503", None]) as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints)
        ceiling = model.ceiling(ASK)
        assert ceiling is not None
        with Ledger.in_memory() as ledger:
            outcome = await Executor(ledger, Budget(tokens=ceiling.total_tokens)).ask(model, ASK)
            assert not isinstance(outcome, Failure)
            assert outcome.attempts == 3
        await model.close()


async def test_a_call_that_is_given_up_is_charged_for_what_may_be_on_its_way_or_billed(tmp_path: Path) -> None:
    # The fault of the only attempt, and the worst cases that count when the call is given up after it.
    charged = {"429-seconds": 0, "503": 0, "truncated-body": 1, "hang": 1}
    found = {}
    for fault in charged:
        told: list[Attempt] = []
        async with LoopbackEndpoint(faults=[fault]) as endpoint, aclosing(Endpoints()) as endpoints:
            model = model_at(endpoint, endpoints, retry_min_wait=60.0, retry_max_wait=60.0)
            with Ledger.open(tmp_path / fault) as ledger, watched_by(told.append):
                executor = Executor(ledger, Budget(tokens=100 * CEILING))
                waiting = asyncio.create_task(executor.ask(model, ASK))
                while not (told or (fault == "hang" and endpoint.counts.requests)):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.01)
                executor.abandon("interrupted")
                assert isinstance(await waiting, Failure)
                await executor.drain()
            with Ledger.open(tmp_path / fault) as ledger:
                assert ledger.sum_spent().calls == 1
                found[fault] = ledger.sum_spent().tokens / CEILING
            await model.close()
    assert found == charged


async def test_a_call_that_was_never_sent_is_not_counted_when_it_is_given_up() -> None:
    async with LoopbackEndpoint() as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints, requests_per_minute=1)
        with Ledger.in_memory() as ledger:
            executor = Executor(ledger, Budget(tokens=100 * CEILING))
            assert isinstance(await executor.ask(model, ASK), Reply)
            paid = ledger.sum_spent()
            waiting = asyncio.create_task(executor.ask(model, Request((Message("user", "How?"),), "response")))
            await asyncio.sleep(0.05)
            executor.abandon("interrupted")
            assert isinstance(await waiting, Failure)
            await executor.drain()
            assert (ledger.sum_spent(), endpoint.counts.requests) == (paid, 1)
        await model.close()


async def test_one_limit_holds_over_all_endpoints() -> None:
    async with (
        LoopbackEndpoint(latency="fixed:0.1") as one,
        LoopbackEndpoint(latency="fixed:0.1") as other,
        aclosing(Endpoints(max_in_flight=10, total=3)) as endpoints,
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


@pytest.mark.parametrize("fault", ["error-in-200", "no-choices", "reset", "truncated-body", "hang", "endless-body"])
@pytest.mark.parametrize("retries", [0, 1])
async def test_every_attempt_that_may_have_been_billed_is_charged_the_last_one_too(fault: str, retries: int) -> None:
    async with LoopbackEndpoint(faults={fault: 1.0}) as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints, max_retries=retries, timeout=0.2)
        with Ledger.in_memory() as ledger:
            budget = Budget(tokens=10 * CEILING)
            assert isinstance(await Executor(ledger, budget).ask(model, ASK), Failure)
            assert endpoint.counts.requests == 1 + retries
            assert ledger.sum_spent().tokens == budget.spent.tokens == (1 + retries) * CEILING
        await model.close()


async def test_a_web_page_at_a_wrong_address_costs_nothing() -> None:
    async with LoopbackEndpoint(faults={"html": 1.0}) as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints)
        with Ledger.in_memory() as ledger:
            await Executor(ledger, Budget(tokens=10 * CEILING)).ask(model, ASK)
            assert ledger.sum_spent().tokens == 0
        await model.close()


ANSWERS: list[tuple[Fault, int]] = [
    (replying("counts", {"prompt_tokens": 30, "completion_tokens": 20}), 50),
    (replying("floats", {"prompt_tokens": 30.0, "completion_tokens": 20.0}), 50),
    (replying("strings", {"prompt_tokens": "30", "completion_tokens": "20"}), 50),
    (replying("input-output", {"input_tokens": 30, "output_tokens": 20}), 50),
    (replying("cache", {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 20}), 50),
    (replying("null", None), CEILING),
    (replying("zeros", {"prompt_tokens": 0, "completion_tokens": 0}), CEILING),
    (replying("negative", {"prompt_tokens": -30, "completion_tokens": -20}), CEILING),
    (replying("words", {"prompt_tokens": "thirty", "completion_tokens": [20]}), CEILING),
    (FAULTS["error-in-200"], CEILING),
    (FAULTS["no-choices"], CEILING),
    (FAULTS["reset"], CEILING),
    (FAULTS["truncated-body"], CEILING),
    (FAULTS["500"], 0),
    (FAULTS["503"], 0),
]
"""Answers to a request of four bytes, and what each attempt is charged."""
CHARGES = {fault.name: charge for fault, charge in ANSWERS}


@settings(deadline=None)
@given(
    limit=st.integers(0, 12 * CEILING),
    answers=st.lists(st.sampled_from([fault for fault, _ in ANSWERS]), min_size=40, max_size=40),
    retries=st.integers(0, 2),
    slots=st.integers(1, 6),
)
def test_each_attempt_is_charged_by_its_answer_and_no_mix_of_answers_overruns_the_budget(
    limit: int, answers: list[Fault], retries: int, slots: int
) -> None:
    async def main() -> None:
        async with (
            LoopbackEndpoint(faults=answers) as endpoint,
            aclosing(Endpoints(max_in_flight=slots)) as endpoints,
        ):
            model = model_at(endpoint, endpoints, max_retries=retries)
            with Ledger.in_memory() as ledger:
                budget = Budget(tokens=limit)
                await ask_all(Executor(ledger, budget), model, 12)
                charged = sum(CHARGES[name] * count for name, count in endpoint.counts.by_fault.items())
                # A schema adds its own 17 bytes to the worst case; 12 calls of at most 3 attempts.
                assert charged <= budget.spent.tokens <= charged + 12 * 3 * 17
                assert budget.spent.tokens == ledger.sum_spent().tokens <= limit
                assert budget.reserved.tokens == 0
            await model.close()

    asyncio.run(main())


counts = st.one_of(
    st.integers(-(10**30), 50),
    st.floats(max_value=50.0),
    st.integers(-5, 50).map(str),
    st.text(max_size=5),
    st.none() | st.booleans(),
)
names = st.sampled_from(
    [
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "prompt_cache_hit_tokens",
    ]
)
details = st.dictionaries(st.sampled_from(["cached_tokens", "reasoning_tokens"]), counts)
usages: st.SearchStrategy[Any] = st.none() | st.builds(
    dict,
    st.dictionaries(names, counts),
    prompt_tokens_details=details,
    completion_tokens_details=details,
    output_tokens_details=details,
)


@settings(deadline=None)
@given(limit=st.integers(0, 8 * CEILING), stated=st.lists(usages, min_size=1, max_size=12))
def test_no_usage_object_whatsoever_makes_a_budget_overrun(limit: int, stated: list[Any]) -> None:
    answers = [replying(str(number), usage) for number, usage in enumerate(stated)]

    async def main() -> None:
        async with LoopbackEndpoint(faults=answers) as endpoint, aclosing(Endpoints()) as endpoints:
            model = model_at(endpoint, endpoints)
            with Ledger.in_memory() as ledger:
                budget = Budget(tokens=limit)
                outcomes = await ask_all(Executor(ledger, budget), model, len(answers))
                assert endpoint.counts.requests == outcomes.count("ok")
                assert budget.spent.tokens == ledger.sum_spent().tokens <= limit
                # Ten characters and a prompt of four cost a token each at least.
                assert budget.spent.tokens >= 2 * outcomes.count("ok")
            await model.close()

    asyncio.run(main())


LONG = replying("long", {"prompt_tokens": 30, "completion_tokens": 5000})
SHORT = replying("short", {"prompt_tokens": 30, "completion_tokens": 20})


async def test_an_endpoint_that_ignores_max_tokens_is_found_out_by_its_first_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Room for 20 worst cases. The first call of an endpoint goes ahead alone; it takes 5,030 of 12,640, and
    # another one could then take 632 + 2 x (5,000 - 100) = 10,432, which does not fit any more.
    async with LoopbackEndpoint(faults=[LONG] * 40) as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints)
        with Ledger.in_memory() as ledger, caplog.at_level(logging.WARNING, "autorubric.llm"):
            budget = Budget(tokens=20 * CEILING)
            outcomes = await ask_all(Executor(ledger, budget), model, 40)
            assert outcomes == ["ok"] + ["budget"] * 39
            assert endpoint.counts.requests == 1
            assert budget.spent.tokens == ledger.sum_spent().tokens == 5030
        await model.close()
    (record,) = caplog.records
    assert "a reply took 5,030 tokens (30 of the prompt) where at most 532 + 100 were allowed" in record.getMessage()


@pytest.mark.parametrize("in_flight", [1, 2, 5])
async def test_an_overrun_is_at_most_what_was_in_flight_and_is_reported(
    in_flight: int, caplog: pytest.LogCaptureFixture
) -> None:
    # The first reply is short, so that others follow at once, as many as the endpoint takes. All of those that
    # are in flight when the first long one arrives may be long, and none is sent after it.
    answers = [SHORT] + [LONG] * 40
    async with LoopbackEndpoint(faults=answers, latency="fixed:0.05") as endpoint, aclosing(Endpoints()) as endpoints:
        model = model_at(endpoint, endpoints, max_parallel_requests=in_flight)
        with Ledger.in_memory() as ledger, caplog.at_level(logging.WARNING, "autorubric.llm"):
            budget = Budget(tokens=8 * CEILING)  # 5,056
            outcomes = await ask_all(Executor(ledger, budget), model, 40)
            assert outcomes.count("ok") == endpoint.counts.requests <= 1 + in_flight
            assert budget.spent.tokens == 50 + (endpoint.counts.requests - 1) * 5030
            assert ledger.sum_spent().tokens == budget.spent.tokens
            assert budget.reserved.tokens == 0
        await model.close()
    said = [record.getMessage() for record in caplog.records]
    assert len([words for words in said if "the budget is overrun" in words]) == 1
    refused = await budget.reserve(Reservation(budget, budget.compute_worst_case(model, ASK)))
    assert isinstance(refused, Failure)
    assert "a reply exceeded max_tokens, or earlier sessions had a higher budget or none)" in refused.message
