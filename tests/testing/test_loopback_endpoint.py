from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import aiohttp
import pytest

from autorubric.errors import ConfigError
from autorubric.testing import Completion, FaultPlan, LoopbackEndpoint, RateWindow


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def asked(text: str = "Why?", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


async def said(http: aiohttp.ClientSession, endpoint: LoopbackEndpoint, text: str = "Why?", **more: Any) -> Any:
    async with http.post(f"{endpoint.base_url}/chat/completions", json=asked(text, **more)) as answer:
        return await answer.json()


async def status(http: aiohttp.ClientSession, endpoint: LoopbackEndpoint, **more: Any) -> int:
    url = f"{endpoint.base_url}/chat/completions"
    async with http.post(url, json=asked(**more), allow_redirects=False) as answer:
        return answer.status


async def test_an_answer_is_a_chat_completion_with_usage(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(replier=lambda body: "Because.") as endpoint:
        answer = await said(http, endpoint)
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Because.", "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["model"] == "m"
    # 'user\nWhy?\n' has 10 characters = 3 tokens, 'Because.' 8 = 2.
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


async def test_a_replier_sees_the_body_and_can_set_how_the_completion_ends(
    http: aiohttp.ClientSession,
) -> None:
    async with LoopbackEndpoint(replier=lambda body: Completion(body["model"], "length")) as endpoint:
        answer = await said(http, endpoint)
    assert answer["choices"][0]["message"]["content"] == "m"
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_the_models_are_listed(http: aiohttp.ClientSession) -> None:
    async with (
        LoopbackEndpoint(models=["small", "large"]) as endpoint,
        http.get(f"{endpoint.base_url}/models") as answer,
    ):
        assert [model["id"] for model in (await answer.json())["data"]] == ["small", "large"]


@pytest.mark.parametrize("name", ["401", "402", "404", "413", "422", "429", "500", "502", "503", "529"])
async def test_an_error_fault_arrives_with_its_status(http: aiohttp.ClientSession, name: str) -> None:
    async with LoopbackEndpoint(faults=[name]) as endpoint:
        assert [await status(http, endpoint), await status(http, endpoint)] == [int(name), 200]
        assert endpoint.counts.by_fault == {name: 1}


@pytest.mark.parametrize(
    ("name", "value"), [("429-seconds", "1"), ("429-nan", "NaN"), ("429-huge", "86400000"), ("429", None)]
)
async def test_a_rate_limit_names_its_wait(http: aiohttp.ClientSession, name: str, value: str | None) -> None:
    async with (
        LoopbackEndpoint(faults=[name]) as endpoint,
        http.post(f"{endpoint.base_url}/chat/completions", json=asked()) as answer,
    ):
        assert (answer.status, answer.headers.get("Retry-After")) == (429, value)


@pytest.mark.parametrize("name", ["reset", "truncated-body"])
async def test_a_broken_connection_is_broken_for_the_client_and_never_a_completed_call(
    http: aiohttp.ClientSession, name: str
) -> None:
    async with LoopbackEndpoint(faults=[name]) as endpoint:
        with pytest.raises(aiohttp.ClientError):
            await said(http, endpoint)
        await said(http, endpoint)
        summary = endpoint.counts.summarize()
    assert (summary["requests"], summary["completed_calls"]) == (2, 1)


async def test_a_hanging_call_is_in_flight_until_the_client_gives_up(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(faults=["hang"]) as endpoint:
        call = asyncio.ensure_future(said(http, endpoint))
        while endpoint.counts.in_flight == 0:
            await asyncio.sleep(0.001)
        call.cancel()
        while endpoint.counts.in_flight:
            await asyncio.sleep(0.001)
        assert endpoint.counts.by_status == {}


async def test_an_endless_body_goes_on_until_the_client_closes(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(faults=["endless-body"]) as endpoint:
        async with http.post(f"{endpoint.base_url}/chat/completions", json=asked()) as answer:
            assert len(await answer.content.readexactly(300_000)) == 300_000
            answer.close()
        while endpoint.counts.in_flight:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("name", ["html", "no-choices", "error-in-200"])
async def test_a_200_need_not_hold_a_completion(http: aiohttp.ClientSession, name: str) -> None:
    async with (
        LoopbackEndpoint(faults=[name]) as endpoint,
        http.post(f"{endpoint.base_url}/chat/completions", json=asked()) as answer,
    ):
        assert answer.status == 200
        assert b'"message": {' not in await answer.read()


async def test_a_redirect_leads_to_another_host_which_notes_a_key_that_followed() -> None:
    headers = {"Authorization": "Bearer secret"}
    async with LoopbackEndpoint(faults=["redirect", "redirect"]) as endpoint, aiohttp.ClientSession() as http:
        url = f"{endpoint.base_url}/chat/completions"
        async with http.post(url, json=asked(), headers=headers, allow_redirects=False) as answer:
            assert answer.status == 307
            assert answer.headers["Location"].startswith(f"http://localhost:{endpoint.port}/")
            target = answer.headers["Location"].replace("localhost", "127.0.0.1")
        assert endpoint.counts.elsewhere == 0
        async with http.post(target, json=asked(), headers=headers):
            pass
        async with http.post(target, json=asked()):
            pass
        assert (endpoint.counts.elsewhere, endpoint.counts.elsewhere_with_key) == (2, 1)


@pytest.mark.parametrize(
    ("rejected", "sent", "code"),
    [
        ("max_tokens", {"max_tokens": 5}, "unsupported_parameter"),
        ("max_completion_tokens", {"max_completion_tokens": 5}, "unsupported_parameter"),
        ("temperature", {"temperature": 0.2}, "unsupported_value"),
        ("response_format.json_schema", {"response_format": {"type": "json_schema"}}, None),
    ],
)
async def test_a_parameter_can_be_refused_and_is_named(
    http: aiohttp.ClientSession, rejected: str, sent: dict[str, Any], code: str | None
) -> None:
    async with LoopbackEndpoint(rejects=[rejected]) as endpoint:
        error = (await said(http, endpoint, **sent))["error"]
        assert (error["param"], error["code"]) == (rejected.partition(".")[0], code)
        assert await status(http, endpoint) == 200


async def test_other_values_of_a_refused_parameter_pass(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(rejects=["temperature", "response_format.json_schema"]) as endpoint:
        assert await status(http, endpoint, temperature=1) == 200
        assert await status(http, endpoint, response_format={"type": "json_object"}) == 200


async def test_only_the_right_key_is_let_in_and_it_is_never_shown(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(key="sk-planted") as endpoint:
        url = f"{endpoint.base_url}/chat/completions"
        statuses = []
        for sent in ("", "Bearer wrong", "Bearer sk-planted"):
            head = {"Authorization": sent}
            async with http.post(url, json=asked(), headers=head) as answer:
                statuses.append(answer.status)
            async with http.get(f"{endpoint.base_url}/models", headers=head) as answer:
                statuses.append(answer.status)
    assert statuses == [401, 401, 401, 401, 200, 200]
    assert "sk-planted" not in repr(endpoint)


async def test_more_requests_than_the_limit_are_answered_with_429(http: aiohttp.ClientSession) -> None:
    # One request a second: the bucket holds one, so of three at once two have to wait.
    async with LoopbackEndpoint(requests_per_second=1) as endpoint:
        statuses = await asyncio.gather(*(status(http, endpoint) for _ in range(3)))
        assert sorted(statuses) == [200, 429, 429]
        async with http.post(f"{endpoint.base_url}/chat/completions", json=asked()) as answer:
            assert int(answer.headers["Retry-After"]) == 1


@pytest.mark.parametrize("kind", ["fixed", "sliding"])
async def test_a_window_takes_so_many_requests_and_says_what_is_left(
    http: aiohttp.ClientSession, kind: Literal["fixed", "sliding"]
) -> None:
    window = RateWindow(requests=2, seconds=90, kind=kind, retry_after=True, ratelimit_headers=True)
    async with LoopbackEndpoint(window=window) as endpoint:
        heard = []
        for _ in range(3):
            async with http.post(f"{endpoint.base_url}/chat/completions", json=asked()) as answer:
                left = answer.headers["x-ratelimit-remaining-requests"]
                heard.append((answer.status, left, answer.headers.get("Retry-After")))
                assert answer.headers["x-ratelimit-limit-requests"] == "2"
                assert answer.headers["x-ratelimit-reset-requests"] == "1m30s" or heard[1:]
    assert heard == [(200, "1", None), (200, "0", None), (429, "0", "90")]


def test_windows_of_tokens_slide_or_begin_anew() -> None:
    # Fixed windows [0, 10) and [10, 20) of 10 tokens; the sliding one frees 6 tokens at 10 and 4 more at 18.
    # Requests of 6 tokens at 0, of 4 at 8, of 6 at 9 and 10, of 5 at 12.
    requests = [(0.0, 6), (8.0, 4), (9.0, 6), (10.0, 6), (12.0, 5)]
    fixed = RateWindow(tokens=10, seconds=10.0).open()
    assert [fixed.admit(*request)[0] for request in requests] == [0.0, 0.0, 1.0, 0.0, 8.0]
    sliding = RateWindow(tokens=10, seconds=10.0, kind="sliding").open()
    assert [sliding.admit(*request)[0] for request in requests] == [0.0, 0.0, 1.0, 0.0, 6.0]


def test_a_window_without_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="not positive"):
        RateWindow(requests=5, seconds=0)


async def test_equal_bodies_are_counted_together_and_only_when_answered_with_200(
    http: aiohttp.ClientSession,
) -> None:
    async with LoopbackEndpoint(faults=["500", None, None, None]) as endpoint:
        for text in ("one", "one", "one", "two"):
            await said(http, endpoint, text)
        # 'one' failed once and was answered twice, 'two' was answered once.
        assert sorted(endpoint.counts.calls_by_body.values()) == [1, 2]
        async with http.get(f"{endpoint.url}/__calls") as answer:
            assert await answer.json() == endpoint.counts.calls_by_body
        async with http.get(f"{endpoint.url}/__stats") as answer:
            summary = await answer.json()
    assert summary["repeated_calls"] == 1
    assert summary["by_status"] == {"200": 3, "500": 1}


async def test_calls_that_wait_together_are_in_flight_together(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(latency="fixed:0.5") as endpoint:
        await asyncio.gather(*(said(http, endpoint, str(n)) for n in range(7)))
        assert (endpoint.counts.max_in_flight, endpoint.counts.in_flight) == (7, 0)


async def test_pipelined_requests_are_answered_in_order_though_the_first_is_slower() -> None:
    slow_first = FaultPlan()
    async with LoopbackEndpoint(
        replier=lambda body: str(body["messages"][0]["content"]), latency="fixed:0.01", faults=slow_first
    ) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        for text in ("first", "second", "third"):
            body = json.dumps(asked(text)).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        contents = []
        for _ in range(3):
            head_bytes = await reader.readuntil(b"\r\n\r\n")
            length = int(head_bytes.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            answer = json.loads(await reader.readexactly(length))
            contents.append(answer["choices"][0]["message"]["content"])
        writer.close()
        await writer.wait_closed()
    assert contents == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"x" * 70_000, b"400"),
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_closed(sent: bytes, answered: bytes) -> None:
    async with LoopbackEndpoint() as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(sent)
        line = await reader.readline()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert line.split()[1] == answered


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"messages": []}', b'{"messages": "x"}', b"\xff"])
async def test_a_body_without_messages_is_a_400(http: aiohttp.ClientSession, body: bytes) -> None:
    async with (
        LoopbackEndpoint() as endpoint,
        http.post(f"{endpoint.base_url}/chat/completions", data=body) as answer,
    ):
        assert answer.status == 400


async def test_received_requests_can_be_looked_at_and_only_the_last_ones_are_kept(
    http: aiohttp.ClientSession,
) -> None:
    async with LoopbackEndpoint(keep=2) as endpoint:
        for text in ("one", "two", "three"):
            await said(http, endpoint, text)
        received = endpoint.received
    assert [one.body["messages"][0]["content"] for one in received] == ["two", "three"]
    assert received[0].headers["content-type"] == "application/json"


async def test_only_a_finished_call_warms_the_prefix_cache(http: aiohttp.ClientSession) -> None:
    # 'user\n' + 640 characters + '\n' = 646 characters: 162 tokens, 10 whole blocks of 16 tokens.
    text = "x" * 640
    async with LoopbackEndpoint(prefix_cache=True, latency="fixed:0.02", faults=["500"]) as endpoint:
        await said(http, endpoint, text)
        together = await asyncio.gather(said(http, endpoint, text), said(http, endpoint, text))
        later = await said(http, endpoint, text)
        summary = endpoint.counts.summarize()
    assert [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in together] == [0, 0]
    assert later["usage"]["prompt_tokens_details"]["cached_tokens"] == 160
    assert (summary["prompt_tokens"], summary["cached_tokens"], summary["computed_tokens"]) == (486, 160, 326)


def test_an_endpoint_in_a_thread_serves_code_without_an_event_loop() -> None:
    from urllib.request import urlopen

    with LoopbackEndpoint().in_thread() as endpoint, urlopen(f"{endpoint.base_url}/models") as answer:
        assert json.load(answer)["data"][0]["id"] == "loopback"


async def test_unanswered_calls_end_when_the_endpoint_stops(http: aiohttp.ClientSession) -> None:
    async with LoopbackEndpoint(latency="fixed:60") as endpoint:
        call = asyncio.ensure_future(said(http, endpoint))
        while endpoint.counts.in_flight == 0:
            await asyncio.sleep(0.001)
    with pytest.raises(aiohttp.ClientError):
        await call
    assert endpoint.counts.in_flight == 0


async def test_a_body_that_comes_in_chunks_is_read(http: aiohttp.ClientSession) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        whole = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Why?"}]}).encode()
        yield whole[:20]
        yield whole[20:]

    async with LoopbackEndpoint(replier=lambda body: "Because.") as endpoint:
        async with http.post(f"{endpoint.base_url}/chat/completions", data=chunks()) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] == "Because."
        assert endpoint.counts.calls_by_body.total() == 1
