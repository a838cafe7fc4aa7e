from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, CallError, Failure, Message, Reply, Request, Unreadable

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback


def unsupported(endpoint: Loopback, param: str, message: str = "") -> web.Response:
    words = message or f"Unsupported parameter: '{param}' is not supported with this model."
    return endpoint.error(400, words, param=param, code="unsupported_parameter")


async def test_a_refused_max_tokens_is_sent_under_its_other_name_from_then_on(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        return unsupported(endpoint, "max_tokens") if "max_tokens" in body else endpoint.ok()

    endpoint.answer = answer
    model = endpoint.model(max_tokens=9, max_retries=0)
    replies = [await model.complete(endpoint.ask()) for _ in range(3)]
    assert [reply.attempts for reply in replies] == [2, 1, 1]
    assert endpoint.bodies[-1]["max_completion_tokens"] == 9
    (note,) = model.list_notes()
    assert note.endswith("does not accept max_tokens for served-name; sent as max_completion_tokens")


async def test_both_names_refused_is_a_failure_and_not_a_loop(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        return unsupported(endpoint, next(name for name in body if name.startswith("max_")))

    endpoint.answer = answer
    with pytest.raises(CallError) as caught:
        await endpoint.model(max_tokens=9).complete(endpoint.ask())
    assert (caught.value.failure.kind, len(endpoint.bodies)) == ("rejected", 2)


@pytest.mark.parametrize(
    ("param", "error"),
    [
        (
            "temperature",
            {
                "message": "Unsupported value: 'temperature' does not support 0.2 with this model. "
                "Only the default (1) value is supported.",
                "param": "temperature",
                "code": "unsupported_value",
            },
        ),
        ("top_p", {"message": "`temperature` and `top_p` cannot both be specified", "param": "top_p"}),
        ("seed", {"message": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
        ("reasoning_effort", {"message": "Unrecognized request argument supplied: reasoning_effort"}),
        ("allowed_openai_params", {"message": "Unrecognized request argument supplied: allowed_openai_params"}),
    ],
)
async def test_a_refused_parameter_is_left_out_from_then_on(
    endpoint: Loopback, param: str, error: dict[str, Any]
) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        return web.json_response({"error": error}, status=422) if param in body else endpoint.ok()

    endpoint.answer = answer
    extra = {"allowed_openai_params": ["reasoning_effort"]}
    model = endpoint.model(temperature=0.2, top_p=0.9, seed=1, thinking="low", extra_params=extra, max_retries=0)
    assert (await model.complete(endpoint.ask())).attempts == 2
    assert (await model.complete(endpoint.ask())).attempts == 1
    left = {"temperature", "top_p", "seed", "reasoning_effort", *extra} - {param}
    assert left <= endpoint.bodies[-1].keys()
    assert model.list_notes() == (f"{endpoint.url} does not accept {param} for served-name; left out",)


async def test_a_value_out_of_range_is_not_left_out_in_silence(endpoint: Loopback) -> None:
    words = "temperature: Input should be less than or equal to 1"
    endpoint.answer = lambda n, body: endpoint.error(400, words, param="temperature")
    with pytest.raises(CallError, match="less than or equal"):
        await endpoint.model(temperature=1.5).complete(endpoint.ask())
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    "words",
    [
        "Input validation error: `temperature` must be strictly positive",  # TGI
        "temperature 参数非法，取值范围是(0,1]",  # Zhipu
        "invalid params, temperature should be in (0, 1]",  # MiniMax
        '[{"type":"greater_than","loc":["body","temperature"],"msg":"Input should be greater than 0","input":0.0}]',
        "temperature: 0 is less than the minimum of 0.01",
    ],
)
async def test_a_zero_that_is_outside_the_range_is_left_out(endpoint: Loopback, words: str) -> None:
    endpoint.answer = lambda n, body: endpoint.error(422, words) if "temperature" in body else endpoint.ok()
    model = endpoint.model(temperature=0.0, seed=0, max_retries=0)
    assert [(await model.complete(endpoint.ask())).attempts for _ in range(2)] == [2, 1]
    assert model.list_notes() == (f"{endpoint.url} does not accept temperature for served-name; left out",)


@pytest.mark.parametrize(("is_counted", "attempts"), [(True, [2, 1]), (False, [3, 1])])
async def test_an_endpoint_that_only_streams_gets_requests_for_streams(
    endpoint: Loopback, is_counted: bool, attempts: list[int]
) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        if not body.get("stream"):
            return endpoint.error(400, "parameter.enable_thinking must be set to false for non-streaming calls")
        if body.get("stream_options") and not is_counted:
            return endpoint.error(400, "Unknown parameter: 'stream_options'.")
        parts = [{"delta": {"content": part}, "finish_reason": None} for part in ("M", "ET")]
        chunks = [{"choices": [part]} for part in (*parts, {"delta": {}, "finish_reason": "stop"})]
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        lines = [json.dumps(chunk) for chunk in (*chunks, {"choices": [], "usage": usage if is_counted else None})]
        text = "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]"))
        return web.Response(text=f": keep-alive\n\n{text}", content_type="text/event-stream")

    endpoint.answer = answer
    model = endpoint.model(max_retries=0)
    replies = [await model.complete(endpoint.ask()) for _ in range(2)]
    assert [(reply.text, reply.attempts) for reply in replies] == [("MET", tries) for tries in attempts]
    assert (replies[0].usage is not None) == is_counted
    assert model.list_notes()[0] == (
        f"{endpoint.url} does not accept requests without streaming for served-name; requested a stream"
    )


async def test_an_unclear_refusal_after_a_schema_was_taken_fails_one_request(endpoint: Loopback) -> None:
    words = "Request contains an invalid argument."
    endpoint.answer = lambda n, body: endpoint.error(400, words) if n == 1 else endpoint.ok()
    model = endpoint.model(max_retries=0)
    await model.complete(endpoint.ask(schema=True))
    with pytest.raises(CallError, match=words):
        await model.complete(endpoint.ask(schema=True))
    assert ([body["response_format"]["type"] for body in endpoint.bodies], model.list_notes()) == (
        ["json_schema"] * 2,
        (),
    )


async def test_a_schema_steps_down_until_the_endpoint_takes_the_request(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        if "response_format" in body:
            return endpoint.error(400, "This response_format type is unavailable now")
        return endpoint.ok()

    endpoint.answer = answer
    model = endpoint.model(max_retries=0)
    assert (await model.complete(endpoint.ask(schema=True))).attempts == 3
    assert (await model.complete(endpoint.ask(schema=True))).attempts == 1
    sent = [body.get("response_format", {}).get("type") for body in endpoint.bodies]
    assert sent == ["json_schema", "json_object", None, None]
    assert len(model.list_notes()) == 2


@pytest.mark.parametrize(
    "words",
    [
        "response_format is not supported by this engine",
        "Guided decoding is not supported with speculative decoding",  # vLLM
        "xgrammar does not support some features of the JSON schema",
        "Failed to convert the JSON schema to a grammar",
        "failed to parse grammar",  # llama.cpp
        "JSON schema conversion failed: Unrecognized schema",
        "json_schema error: missing type",
        "tools param requires --jinja flag",
        "Cannot use custom grammar constraints with tools.",
        "Grammar backend is not initialized; restart with --grammar-backend",  # SGLang
        "failed to load model vocabulary required for format",  # Ollama
        "registry.ollama.ai/library/m does not support tools",
        "NotImplementedError: response_format",
    ],
)
@pytest.mark.parametrize("status", [500, 501])
async def test_a_schema_that_a_server_cannot_do_is_left_out_whatever_its_status(
    endpoint: Loopback, words: str, status: int
) -> None:
    endpoint.answer = lambda n, body: endpoint.error(status, words) if "response_format" in body else endpoint.ok()
    model = endpoint.model(max_retries=0)
    assert [(await model.complete(endpoint.ask(schema=True))).attempts for _ in range(2)] == [3, 1]
    assert len(model.list_notes()) == 2


@pytest.mark.parametrize(("fails", "attempts", "notes"), [({1}, [1, 2, 1], 0), ({1, 2, 3}, [1, 4, 1], 2)])
async def test_a_schema_that_was_accepted_is_left_out_only_if_it_fails_twice(
    endpoint: Loopback, fails: set[int], attempts: list[int], notes: int
) -> None:
    words = "failed to parse grammar"
    endpoint.answer = lambda n, body: endpoint.error(500, words) if n in fails else endpoint.ok()
    model = endpoint.model(max_retries=2)
    assert [(await model.complete(endpoint.ask(schema=True))).attempts for _ in range(3)] == attempts
    assert len(model.list_notes()) == notes


@pytest.mark.parametrize(
    ("status", "words", "attempts"),
    [
        (400, "Failed to validate JSON. Please adjust your prompt.", [1, 2, 1, 2, 2]),  # Groq
        (500, "The model produced output that does not match the grammar", [1, 3, 1, 3, 3]),  # llama.cpp
    ],
)
async def test_a_request_whose_reply_does_not_fit_its_schema_alone_is_sent_without_it(
    endpoint: Loopback, status: int, words: str, attempts: list[int]
) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        is_hard = "Hard" in body["messages"][0]["content"]
        return endpoint.error(status, words) if is_hard and "response_format" in body else endpoint.ok()

    endpoint.answer = answer
    model = endpoint.model(max_retries=1)
    asked = ["Easy.", "Hard.", "Easy.", "Hard.", "Hard."]
    replies = [
        await model.complete(replace(endpoint.ask(schema=True), messages=(Message("user", t),))) for t in asked
    ]
    assert [reply.attempts for reply in replies] == attempts
    forms = [body["response_format"]["type"] for body in endpoint.bodies if "response_format" in body]
    assert (set(forms), len(endpoint.bodies) - len(forms)) == ({"json_schema"}, 3)
    assert model.list_notes() == ()


async def test_a_parameter_is_left_out_at_once_where_schemas_were_accepted_before(endpoint: Loopback) -> None:
    refusal = endpoint.error(500, "temperature is not supported")
    model = endpoint.model(max_retries=0, temperature=0.5)
    endpoint.answer = lambda n, body: endpoint.ok()
    await model.complete(endpoint.ask(schema=True))
    endpoint.answer = lambda n, body: refusal if "temperature" in body else endpoint.ok()
    assert (await model.complete(endpoint.ask())).attempts == 2


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "The model produced invalid output",
        "Failed to parse input at pos 0: MET",
        "the server is overloaded; it is not supported to wait longer",
    ],
)
async def test_trouble_that_names_nothing_of_the_request_changes_nothing_in_it(
    endpoint: Loopback, words: str
) -> None:
    endpoint.answer = lambda n, body: endpoint.error(500, words)
    model = endpoint.model(max_retries=2, temperature=0.5)
    with pytest.raises(CallError):
        await model.complete(endpoint.ask(schema=True))
    assert model.list_notes() == ()
    assert all(body["response_format"]["type"] == "json_schema" for body in endpoint.bodies)


@pytest.mark.parametrize("status", [400, 500])  # llama.cpp: 500
@pytest.mark.parametrize(
    "words",
    [
        "System role not supported",  # the template of Gemma on vLLM
        'Error rendering prompt with jinja template: "System role not supported".',
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Only user and assistant roles are supported!",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "this model does not support the system role",
        "'system' messages are not supported by this model; system message unsupported",
    ],
)
async def test_a_system_message_that_is_refused_starts_the_users_message(
    endpoint: Loopback, words: str, status: int
) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        roles = [message["role"] for message in body["messages"]]
        return endpoint.error(status, words) if "system" in roles else endpoint.ok()

    endpoint.answer = answer
    model = endpoint.model(temperature=0.5, max_retries=0)
    asked = Request((Message("system", "Judge."), Message("user", "Is it so?")), "judge")
    assert [(await model.complete(asked)).attempts for _ in range(2)] == [2, 1]
    assert endpoint.bodies[-1]["messages"] == [{"role": "user", "content": "Judge.\n\nIs it so?"}]
    assert endpoint.bodies[-1]["temperature"] == 0.5
    (note,) = model.list_notes()
    assert note.endswith("does not accept system messages for served-name; sent at the start of the user's message")


async def test_a_refusal_that_only_names_the_system_stays_a_failure(endpoint: Loopback) -> None:
    words = "the system is not able to serve this request; system memory exceeded"
    endpoint.answer = lambda n, body: endpoint.error(400, words)
    asked = Request((Message("system", "Judge."), Message("user", "Is it so?")), "judge")
    with pytest.raises(CallError, match="memory exceeded"):
        await endpoint.model().complete(asked)
    assert len(endpoint.bodies) == 1


async def test_many_calls_at_once_pay_for_one_refusal(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        return unsupported(endpoint, "temperature") if "temperature" in body else endpoint.ok()

    endpoint.answer = answer
    model = endpoint.model(temperature=0.5)
    await asyncio.gather(*(model.complete(endpoint.ask(str(i))) for i in range(20)))
    assert len(endpoint.bodies) == 21
    assert len(model.list_notes()) == 1


async def test_calls_already_on_their_way_reuse_what_another_one_learned(endpoint: Loopback) -> None:
    # The endpoint changes its mind after the first call, so that ten calls meet the refusal together.
    both_there = asyncio.Event()

    async def answer(number: int, body: dict[str, Any]) -> web.StreamResponse:
        if number == 0 or "temperature" not in body:
            return endpoint.ok()
        if number == 10:
            both_there.set()
        await both_there.wait()
        return unsupported(endpoint, "temperature")

    endpoint.answer = answer
    model = endpoint.model(temperature=0.5, max_retries=0)
    await model.complete(endpoint.ask())
    await asyncio.gather(*(model.complete(endpoint.ask(str(i))) for i in range(10)))
    assert len(endpoint.bodies) == 1 + 10 + 10
    assert len(model.list_notes()) == 1


async def test_what_one_model_does_not_take_is_still_sent_to_others(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        refused = body["model"] == "fussy" and "temperature" in body
        return unsupported(endpoint, "temperature") if refused else endpoint.ok()

    endpoint.answer = answer
    await endpoint.model("fussy", temperature=0.5).complete(endpoint.ask())
    await endpoint.model("easy", temperature=0.5).complete(endpoint.ask())
    assert endpoint.bodies[-1]["temperature"] == 0.5


async def test_a_limit_that_cut_a_reply_off_is_not_sent_again_where_the_endpoint_allows_no_more(
    endpoint: Loopback,
) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        asked = body["max_tokens"]
        if asked > 4096:
            return endpoint.error(400, f"max_tokens is too large: {asked}. This model supports at most 4096 tokens.")
        return endpoint.ok("", choice={"finish_reason": "length"})

    def read(reply: Reply) -> Answer[str] | Unreadable:
        return Unreadable("truncated", "the reply was cut off")

    endpoint.answer = answer
    with Ledger.in_memory() as ledger:
        for _ in range(2):  # the second time all replies are on record
            executor = Executor(ledger)
            asked = [executor.ask_for(endpoint.model(max_tokens=2048), endpoint.ask(f"Q{n}"), read) for n in range(6)]
            for failure in await asyncio.gather(*asked):
                assert isinstance(failure, Failure)
                assert failure.kind == "truncated"
                assert "the endpoint allows no more than 4,096" in failure.message
    answered = [(body["messages"][0]["content"], body["max_tokens"]) for body in endpoint.bodies]
    paid = sorted(one for one in answered if one[1] <= 4096)
    assert paid == sorted((f"Q{n}", limit) for n in range(6) for limit in (2048, 4096))


@pytest.mark.parametrize(("prompt", "sent"), [(1500, [4096, 2048]), (3900, [4096, 2048, 1024, 512, 256, 128])])
async def test_a_limit_is_halved_where_vllm_tells_only_that_the_prompt_leaves_less(
    endpoint: Loopback, prompt: int, sent: list[int]
) -> None:
    endpoint.answer = vllm(endpoint, prompt)
    reply = await endpoint.model(max_tokens=4096, max_retries=0).complete(endpoint.ask())
    assert [body["max_tokens"] for body in endpoint.bodies] == sent
    assert (reply.attempts, reply.text) == (len(sent), "fine")


async def test_a_context_that_a_refusal_stated_costs_later_prompts_no_refusal(endpoint: Loopback) -> None:
    # A prompt of n words has 5n bytes and, on this server, 2n tokens.
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        if fails:
            return endpoint.error(503, f"busy {fails.pop()}")
        prompt, most = 2 * body["messages"][0]["content"].count("word"), body["max_tokens"]
        if prompt + most > 4096:
            words = f"This model's maximum context length is 4096 tokens and your request has {prompt} input tokens"
            return endpoint.error(400, f"'max_tokens' is too large: {most}. {words}.")
        return endpoint.ok(usage={"prompt_tokens": prompt, "completion_tokens": 300, "total_tokens": prompt + 300})

    async def ask(words: int, **fields: Any) -> tuple[int, int]:
        attempts = (await model.complete(endpoint.ask("word " * words, **fields))).attempts
        return attempts, endpoint.bodies[-1]["max_tokens"]

    endpoint.answer, fails = answer, list[int]()
    model = endpoint.model(max_tokens=3000, max_retries=1)
    assert await ask(100) == (1, 3000)
    assert await ask(1000) == (2, 2096)
    assert await ask(1000) == (1, 2096)
    # 1024 bytes are for the template: 2000 tokens of 6024 bytes make 1668 of 5024 and 2167 of 6524.
    assert await ask(800) == (1, 2428)
    assert await ask(1100) == (2, 1896)
    # The estimate leaves less than twice the longest reply, the reply needs more, or one was cut off: it is tried.
    assert await ask(1800) == (2, 496)
    assert await ask(1000, room=2500) == (2, 2096)
    assert await ask(900, cut_at=2000) == (2, 2296)
    fails.append(1)  # an outage in between changes nothing
    assert await ask(900, cut_at=2000) == (3, 2296)
    # A reply that was cut off where the prompt leaves no more is not paid for again.
    with pytest.raises(CallError, match="cut off at 2,296 tokens; the endpoint allows no more than 2,296"):
        await ask(900, cut_at=2296)


async def test_a_reply_that_an_estimated_limit_truncates_gets_all_that_its_prompt_leaves(endpoint: Loopback) -> None:
    # A byte of Chinese or a word of English is a token: 2400 of 3424 bytes make 2821 of 4024, which leave 1275.
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        text, most = body["messages"][0]["content"], body["max_tokens"]
        prompt, needed = 3 * text.count("字") + text.count("word"), 1500 if "word" in text else 100
        if prompt + most > 4096:
            words = f"This model's maximum context length is 4096 tokens and your request has {prompt} input tokens"
            return endpoint.error(400, f"'max_tokens' is too large: {most}. {words}.")
        usage = {"prompt_tokens": prompt, "completion_tokens": min(most, needed)}
        return endpoint.ok("x", choice={"finish_reason": "stop" if most >= needed else "length"}, usage=usage)

    def read(reply: Reply) -> Answer[str] | Unreadable:
        return Unreadable("truncated", "cut off") if reply.finish_reason == "length" else Answer(reply.text, reply)

    endpoint.answer = answer
    executor, model = Executor(Ledger.in_memory()), endpoint.model(max_tokens=2000, max_retries=0)
    for text in ("字" * 800, "word " * 600, "word " * 600):
        found = await executor.ask_for(model, endpoint.ask(text), read, lambda request, *_: request)
        assert isinstance(found, Answer)
    assert [body["max_tokens"] for body in endpoint.bodies] == [2000, 1696, 1275, 4000, 3496]


def vllm(endpoint: Loopback, prompt: int) -> Any:
    """vLLM with a context of 4096, which counts a prompt only until it is one token too long."""

    def answer(number: int, body: dict[str, Any]) -> web.Response:
        most = body["max_tokens"]
        if prompt + most <= 4096:
            return endpoint.ok()
        words = (
            f"This model's maximum context length is 4096 tokens. However, you requested {most} output tokens and "
            f"your prompt contains at least {4097 - most} input tokens, for a total of at least 4097 tokens."
        )
        return endpoint.error(400, words, type="BadRequestError", param="input_tokens", code=400)

    return answer


async def test_a_schema_that_a_server_refuses_without_a_reason_is_left_out_in_place_of_a_retry(
    endpoint: Loopback,
) -> None:
    def refuse(number: int, body: dict[str, Any]) -> web.Response:
        return web.Response(status=500) if "response_format" in body else endpoint.ok()

    endpoint.answer = refuse
    model = endpoint.model(max_retries=2)
    assert [(await model.complete(endpoint.ask(schema=True))).attempts for _ in range(3)] == [3, 3, 1]
    (note,) = model.list_notes()
    assert note.endswith("a json_schema response_format for served-name; the format is only in the prompt")


async def test_an_outage_costs_no_further_requests_and_no_schema(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.ok() if n in (2, 3) else endpoint.error(500, "Internal Server Error")
    model = endpoint.model(max_retries=3)
    replies = [await model.complete(endpoint.ask(schema=True)) for _ in range(2)]
    assert [reply.attempts for reply in replies] == [3, 1]
    with pytest.raises(CallError):
        await model.complete(endpoint.ask(schema=True))
    forms = ["response_format" in body for body in endpoint.bodies]
    assert (forms, model.list_notes()) == ([True, True, False, *[True] * 5], ())
