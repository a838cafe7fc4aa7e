"""`LLMClient` and `generate`: one model asked directly, over real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from autorubric import GenerateResult, LLMClient, LLMConfig, TokenUsage, generate
from autorubric.llm.request import CallError
from autorubric.testing import LoopbackEndpoint


class Sum(BaseModel):
    result: int
    explanation: str


class Renamed(BaseModel):
    total: int = Field(alias="result")


def answer(request: dict[str, Any]) -> str:
    asked = request["messages"][-1]["content"]
    if "badly" in asked:
        return json.dumps({"result": "four"})
    return json.dumps({"result": 4, "explanation": asked}) if "response_format" in request else f"You said: {asked}"


def config(endpoint: LoopbackEndpoint, **more: Any) -> LLMConfig:
    return LLMConfig("openai/tiny", api_base=endpoint.base_url, api_key="key-1", **more)


async def test_a_reply_is_text_or_a_value_of_the_response_format() -> None:
    async with LoopbackEndpoint(replier=answer) as endpoint:
        client = LLMClient(config(endpoint))
        assert await client.generate("Be brief.", "Hello") == "You said: Hello"
        assert await client.generate("Be brief.", "2+2", Sum) == Sum(result=4, explanation="2+2")
        assert await client.generate("Be brief.", "2+2", Renamed) == Renamed(result=4)
        whole = await client.generate("Be brief.", "2+2", Sum, return_result=True)
        assert isinstance(whole, GenerateResult) and whole.parsed == Sum(result=4, explanation="2+2")
        assert json.loads(whole.content)["result"] == 4
        assert isinstance(whole.usage, TokenUsage) and whole.usage.total_tokens > 0
        assert whole.cost is None  # nobody knows the price of this model
        sent = endpoint.received[0].body
        assert (sent["model"], [turn["role"] for turn in sent["messages"]]) == ("tiny", ["system", "user"])
        assert await generate("Be brief.", "Hi", "openai/tiny", api_base=endpoint.base_url, api_key="k") == (
            "You said: Hi"
        )


async def test_a_field_of_the_configuration_may_differ_for_one_request() -> None:
    async with LoopbackEndpoint(replier=answer) as endpoint:
        client = LLMClient(config(endpoint, temperature=0.5))
        for given in ({}, {"temperature": 0.0}, {"temperature": None, "max_tokens": 9}):
            await client.generate("", "Hello", **given)
        sent = [received.body for received in endpoint.received]
    assert [(body.get("temperature"), body.get("max_tokens")) for body in sent] == [
        (0.5, None),
        (0.0, None),
        (None, 9),
    ]


async def test_a_reply_that_does_not_fit_is_requested_again_twice_and_then_an_error() -> None:
    async with LoopbackEndpoint(replier=answer) as endpoint:
        with pytest.raises(CallError, match="the reply does not fit Sum"):
            await LLMClient(config(endpoint)).generate("", "badly", Sum)
        assert endpoint.counts.requests == 3


async def test_recorded_replies_are_not_paid_for_again_until_the_cache_is_cleared(tmp_path: Path) -> None:
    async with LoopbackEndpoint(replier=answer) as endpoint:
        cached = config(endpoint, cache_enabled=True, cache_dir=tmp_path / "cache")
        with LLMClient(cached) as client:
            assert client.cache_stats() == {"size": 0, "count": 0, "directory": None}
            await asyncio.gather(*(client.generate("", "Hello") for _ in range(3)))
        with LLMClient(cached) as client, LLMClient(cached, cache_namespace="other") as other:
            await client.generate("", "Hello")
            assert endpoint.counts.requests == 1
            await other.generate("", "Hello")
            assert endpoint.counts.requests == 2
            await client.generate("", "Hello", use_cache=False)
            assert endpoint.counts.requests == 3
            stats = client.cache_stats()
            assert (stats["count"], stats["directory"]) == (2, str(tmp_path / "cache")) and stats["size"] > 0
            assert (client.clear_cache(), client.cache_stats()["count"]) == (2, 0)
            await client.generate("", "Hello")
            await client.generate("", "Hello")
            assert endpoint.counts.requests == 4
