from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig, ThinkingConfig
from autorubric.llm.http.chat import ChatModel
from autorubric.llm.http.negotiation import choose_first_terms
from autorubric.llm.http.prices import Price
from autorubric.llm.http.wire import read_reply
from autorubric.llm.request import CallError, Message, Reply, Request, Usage
from tests.offenders import each

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback


async def test_a_call_sends_what_the_configuration_says_and_nothing_else(endpoint: Loopback) -> None:
    model = endpoint.model(temperature=0.0, top_p=0.0, max_tokens=0, extra_params={"top_k": 5})
    messages = (Message("system", "Be brief."), Message("user", "你好"))
    await model.complete(Request(messages, "judge"))
    assert endpoint.bodies == [
        {
            "model": "served-name",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "你好"}],
            "temperature": 0.0,
            "top_p": 0.0,
            "max_tokens": 0,
            "top_k": 5,
        }
    ]


async def test_a_reply_carries_text_model_usage_cost_and_attempts(endpoint: Loopback) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "total_tokens": 1200,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 150},
    }
    endpoint.answer = lambda n, body: endpoint.ok("Yes.", usage=usage, message={"reasoning_content": "Hm."})
    model = endpoint.model(prices={"input": 2.0, "output": 10.0, "cached": 1.0})
    reply = await model.complete(endpoint.ask())
    assert (reply.text, reply.finish_reason, reply.reasoning) == ("Yes.", "stop", "Hm.")
    assert (reply.model, reply.attempts, reply.fresh) == ("served-name-1", 1, True)
    assert reply.usage == Usage(1000, 200, 400, 150)
    # 600 x 2 + 400 x 1 + 200 x 10 = 3600 dollars per million tokens
    assert reply.cost == pytest.approx(0.0036)
    assert reply.latency > 0


async def test_an_unknown_price_is_no_price(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(usage={"prompt_tokens": 5, "completion_tokens": 5})
    assert (await endpoint.model().complete(endpoint.ask())).cost is None


async def test_only_openrouter_is_believed_what_it_says_it_charges(endpoint: Loopback) -> None:
    usage: dict[str, Any] = {"prompt_tokens": 5, "completion_tokens": 5, "cost": 0.25}
    endpoint.answer = lambda n, body: endpoint.ok(usage=usage)
    model = endpoint.model()
    assert (await model.complete(endpoint.ask())).cost is None
    model.endpoint = dataclasses.replace(model.endpoint, provider="openrouter")
    assert (await model.complete(endpoint.ask())).cost == 0.25
    # Before the price of the built-in table, but not before one that the user gave: 5 x 2 + 5 x 10 per million.
    model._price = Price(2.0, 10.0)
    assert (await model.complete(endpoint.ask())).cost == 0.25
    usage["cost"] = 0  # billed by the user's own provider, behind OpenRouter
    assert (await model.complete(endpoint.ask())).cost == pytest.approx(0.00006)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ({"type": "text", "text": "a"}, "a"),
        ({"met": True}, '{"met":true}'),
        ("broken \ud83d pair", "broken \ufffd pair"),
        ({"why": "\ud83d"}, ' {"why":"\ufffd"}'),
        (42, ""),
    ],
)
async def test_odd_content_is_read_as_text(endpoint: Loopback, content: Any, text: str) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(content)
    assert (await endpoint.model().complete(endpoint.ask())).text == text


CALL = {"type": "function", "function": {"name": "json_tool_call", "arguments": '{"met": true}'}}


@each(
    ("message", "text"),
    [
        ({"content": None, "tool_calls": [CALL]}, '{"met": true}'),  # LiteLLM, for a schema
        ({"content": None, "tool_calls": [{"function": {"arguments": {"met": True}}}]}, '{"met":true}'),
        ({"content": None, "function_call": CALL["function"]}, '{"met": true}'),
        ({"content": "No.", "tool_calls": [CALL]}, "No."),
        ({"content": None, "tool_calls": [CALL, CALL]}, ""),
        ({"content": None, "tool_calls": [None]}, ""),
        ({"content": None, "tool_calls": "x"}, ""),
        ({"content": None, "tool_calls": [], "function_call": None}, ""),
    ],
)
def test_the_only_call_of_a_tool_that_nobody_offered_holds_the_answer(message: dict[str, Any], text: str) -> None:
    reply = read_reply(json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode(), 0.1)
    assert isinstance(reply, Reply)
    assert reply.text == text


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("guardrail_intervened", "content_filter"),  # Bedrock
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),  # Gemini
        ("RECITATION", "content_filter"),
        ("sensitive", "content_filter"),  # Zhipu
        ("model_context_window_exceeded", "length"),
        (None, "other"),
        ("weird", "other"),
    ],
)
async def test_finish_reasons_are_mapped(endpoint: Loopback, sent: str | None, read: str) -> None:
    endpoint.answer = lambda n, body: endpoint.ok("cut", choice={"finish_reason": sent})
    assert (await endpoint.model().complete(endpoint.ask())).finish_reason == read


@pytest.mark.parametrize("finish", ["error", "abort", "cancelled", "network_error", "insufficient_system_resource"])
async def test_a_reply_that_its_endpoint_gave_up_is_a_failure_and_requested_again(
    endpoint: Loopback, finish: str
) -> None:
    endpoint.answer = lambda n, body: endpoint.ok("It is M", choice={"finish_reason": finish if n < 1 else "stop"})
    assert (await endpoint.model(max_retries=1).complete(endpoint.ask())).attempts == 2
    endpoint.answer = lambda n, body: endpoint.ok("It is M", choice={"finish_reason": finish})
    with pytest.raises(CallError, match=f"broke the reply off .finish_reason '{finish}'.") as caught:
        await endpoint.model(max_retries=0).complete(endpoint.ask())
    assert (caught.value.failure.kind, caught.value.failure.sent) == ("server", True)


@pytest.mark.parametrize(
    ("finish", "completion", "read", "limit"),
    [
        ("stop", 500, "length", 500),
        (None, 500, "length", 500),
        ("stop", 499, "stop", None),
        ("stop", 501, "stop", None),
        ("content_filter", 500, "content_filter", None),
    ],
)
async def test_a_reply_that_uses_its_limit_up_was_cut_off_whatever_the_endpoint_says(
    endpoint: Loopback, finish: str | None, completion: int, read: str, limit: int | None
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": completion}
    endpoint.answer = lambda n, body: endpoint.ok("cut", choice={"finish_reason": finish}, usage=usage)
    reply = await endpoint.model(max_tokens=500).complete(endpoint.ask())
    assert (reply.finish_reason, reply.limit) == (read, limit)


async def test_a_refusal_is_kept_in_the_models_own_words(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.ok(None, message={"refusal": "I cannot."})
    reply = await endpoint.model().complete(endpoint.ask())
    assert (reply.text, reply.refusal) == ("", "I cannot.")


async def test_lone_surrogates_are_sent_as_replacement_characters(endpoint: Loopback) -> None:
    await endpoint.model().complete(endpoint.ask("half \ud83d"))
    assert endpoint.bodies[0]["messages"][0]["content"] == "half \ufffd"


async def test_a_schema_goes_out_as_a_json_schema_that_is_not_strict(endpoint: Loopback) -> None:
    await endpoint.model().complete(endpoint.ask(schema=True))
    assert endpoint.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "verdict_v1", "schema": {"type": "object"}, "strict": False},
    }


async def test_draws_of_a_seeded_model_have_seeds_of_their_own(endpoint: Loopback) -> None:
    model = endpoint.model(seed=7)
    for draw, reask in ((0, 0), (1, 0), (1, 2)):
        await model.complete(endpoint.ask(draw=draw, reask=reask))
    assert [body["seed"] for body in endpoint.bodies] == [7, 1007, 1009]


@each(
    ("model", "thinking", "sent"),
    [
        ("anthropic/claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("anthropic/claude-sonnet-4-5", "none", {}),
        ("openai/gpt-5.1", "high", {"reasoning_effort": "high"}),
        ("openai/gpt-5.1", 1500, {"reasoning_effort": "medium"}),
        ("openrouter/x/y", ThinkingConfig(budget_tokens=99), {"reasoning": {"max_tokens": 99}}),
        ("openrouter/x/y", "low", {"reasoning": {"effort": "low"}}),
        ("openrouter/x/y", "none", {"reasoning": {"enabled": False}}),
        ("volcengine/ep-1", "none", {"thinking": {"type": "disabled"}}),
        ("volcengine/ep-1", "high", {"reasoning_effort": "high"}),
    ],
)
def test_thinking_is_asked_for_in_each_providers_own_way(model: str, thinking: Any, sent: dict[str, Any]) -> None:
    chat = ChatModel(LLMConfig(model, thinking=thinking, api_key="planted-key"), environ={})
    assert chat._parameters == sent


@each(
    ("url", "model", "field"),
    [
        ("https://ark.cn-beijing.volces.com/api/v3", "ep-1", "max_completion_tokens"),
        ("https://ark.ap-southeast.bytepluses.com/api/v3", "ep-1", "max_completion_tokens"),
        ("https://api.openai.com/v1", "gpt-5.1", "max_completion_tokens"),
        ("https://api.openai.com/v1", "gpt-4o", "max_tokens"),
        ("https://volces.com.example/v1", "ep-1", "max_tokens"),
    ],
)
def test_the_first_limit_counts_reasoning_where_a_host_has_two(url: str, model: str, field: str) -> None:
    assert choose_first_terms(url, model).token_field == field


def test_the_ceiling_bounds_prompt_and_completion(endpoint: Loopback) -> None:
    model = endpoint.model(max_tokens=50)
    # 512 for the request, 16 for the message, 2 characters of 3 bytes; then max_tokens.
    assert model.ceiling(endpoint.ask("你好")) == Usage(512 + 16 + 6, 50)
    assert endpoint.model().ceiling(endpoint.ask()) is None


def test_the_identity_holds_what_shapes_a_reply_and_no_secrets(endpoint: Loopback) -> None:
    headers = {"X-Title": "run 1", "api-key": "planted-key-9"}
    model = endpoint.model(temperature=0.5, timeout=9.0, extra_headers=headers, extra_params={"top_k": 1})
    same = endpoint.model(temperature=0.5, max_retries=9, api_key="other-key-99", extra_headers=headers)
    assert model.identity() == (
        endpoint.url,
        "served-name",
        0.5,
        None,
        None,
        None,
        None,
        {"top_k": 1},
        {"X-Title": "run 1"},
    )
    assert "planted" not in repr(same.identity())
    assert same.identity()[:7] == model.identity()[:7]


def test_parameters_that_are_not_json_are_refused_at_once(endpoint: Loopback) -> None:
    with pytest.raises(ConfigError, match="extra_params that are not JSON"):
        endpoint.model(extra_params={"logit_bias": float("nan")})


def test_the_builtin_model_has_no_endpoint() -> None:
    with pytest.raises(ConfigError, match="builtin/offline"):
        ChatModel(LLMConfig("builtin/offline"), environ={})


async def test_an_error_object_in_a_200_is_a_failure(endpoint: Loopback) -> None:
    from aiohttp import web

    endpoint.answer = lambda n, body: web.json_response({"error": {"message": "upstream down", "code": 502}})
    with pytest.raises(CallError) as caught:
        await endpoint.model(max_retries=1).complete(endpoint.ask())
    assert (caught.value.failure.kind, caught.value.failure.attempts) == ("server", 2)
    assert "upstream down" in str(caught.value)


@pytest.mark.parametrize("answer", [{"choices": []}, {}, [1], {"choices": None}])
async def test_an_answer_without_choices_is_asked_again_and_then_a_failure(endpoint: Loopback, answer: Any) -> None:
    from aiohttp import web

    endpoint.answer = lambda n, body: web.json_response(answer)
    with pytest.raises(CallError) as caught:
        await endpoint.model(max_retries=1).complete(endpoint.ask())
    assert (caught.value.failure.kind, len(endpoint.bodies)) == ("server", 2)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ({"code": "InvalidParameter", "message": "Input is too long"}, "server", "Input is too long"),
        ({"detail": "no worker", "choices": []}, "server", "no worker"),
        (
            {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            "quota",
            "balance",
        ),
        ({"candidates": [{"finishReason": "STOP"}]}, "server", 'has no choices: {"candidates"'),
        ({"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"}, "rate_limit", "limit exceeded"),
        ([{"error": {"message": "no worker"}}], "server", 'is not a JSON object: [{"error": {"message": "no worker"'),
    ],
)
async def test_an_answer_without_choices_is_reported_in_its_own_words(
    endpoint: Loopback, answer: Any, kind: str, words: str
) -> None:
    from aiohttp import web

    endpoint.answer = lambda n, body: web.json_response(answer)
    with pytest.raises(CallError) as caught:
        await endpoint.model(max_retries=0).complete(endpoint.ask())
    assert caught.value.failure.kind == kind
    assert words in str(caught.value)


async def test_a_reply_that_azure_refuses_for_its_length_was_cut_off(endpoint: Loopback) -> None:
    words = "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    endpoint.answer = lambda n, body: endpoint.error(400, words, type="invalid_request_error")
    reply = await endpoint.model(max_tokens=500).complete(endpoint.ask())
    assert (reply.text, reply.finish_reason, reply.limit, reply.usage) == ("", "length", 500, None)


def stream(*chunks: str) -> bytes:
    return "".join(f"data: {chunk}\n\n" for chunk in chunks).encode()


STREAMED = (
    '{"model": "served", "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm."}}]}',
    '{"choices": [{"index": 0, "delta": {"content": "It "}, "finish_reason": null}]}',
    '{"choices": [{"index": 0, "delta": {"content": "is."}, "finish_reason": "length"}]}',
)
COUNTS = '{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}'


async def test_a_stream_that_nobody_asked_for_is_read(endpoint: Loopback) -> None:
    body = b": keep-alive\n\n" + stream(*STREAMED, COUNTS, "[DONE]")
    endpoint.answer = lambda n, asked: web.Response(body=body, content_type="text/event-stream")
    reply = await endpoint.model().complete(endpoint.ask())
    assert (reply.text, reply.reasoning, reply.finish_reason, reply.model) == ("It is.", "Hm.", "length", "served")
    assert reply.usage is not None
    assert reply.usage.total_tokens == 13


PARTS = (
    '{"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}}]}',
    '{"choices": [{"delta": {"content": [{"type": "text", "text": "It "}]}}]}',
    '{"choices": [{"delta": {"content": "is."}, "finish_reason": "stop"}]}',
)
WHOLE = '{"choices": [{"message": {"content": "It is.", "reasoning_content": "Hm."}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize("chunks", [PARTS, (WHOLE,)])
async def test_a_stream_is_read_in_the_forms_of_a_whole_message(endpoint: Loopback, chunks: tuple[str, ...]) -> None:
    endpoint.answer = lambda n, asked: web.Response(body=stream(*chunks, "[DONE]"), content_type="text/event-stream")
    reply = await endpoint.model().complete(endpoint.ask())
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("It is.", "Hm.", "stop")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (stream(*STREAMED[:2]), "the stream ended before the reply was complete"),
        (stream(*STREAMED)[:-9], "the stream ended before the reply was complete"),
        (
            stream(STREAMED[0], '{"error": {"message": "the worker died"}}'),
            "HTTP 200 with an error: 'the worker died'",
        ),
        (b" \n", "the answer is empty"),
    ],
)
async def test_a_stream_that_breaks_off_is_no_reply(endpoint: Loopback, body: bytes, words: str) -> None:
    endpoint.answer = lambda n, asked: web.Response(body=body, content_type="text/event-stream")
    with pytest.raises(CallError, match=words):
        await endpoint.model(max_retries=0).complete(endpoint.ask())
