from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from autorubric.llm.http import retry, transport
from autorubric.llm.request import CallError

if TYPE_CHECKING:
    from tests.llm.http.chat.conftest import Loopback


async def failure_of(endpoint: Loopback, **config: Any) -> Any:
    with pytest.raises(CallError) as caught:
        await endpoint.model(**config).complete(endpoint.ask())
    return caught.value.failure


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, "timeout"),
        (409, "server"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (504, "timeout"),
        (529, "server"),
    ],
)
async def test_passing_faults_are_retried_max_retries_times(endpoint: Loopback, status: int, kind: str) -> None:
    endpoint.answer = lambda n, body: endpoint.error(status, "busy", headers={"Retry-After": "0"})
    failure = await failure_of(endpoint, max_retries=2)
    assert (failure.kind, failure.status, failure.attempts) == (kind, status, 3)
    assert len(endpoint.bodies) == 3


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "bad temperature range", "rejected"),
        (400, "The model `gpt-9` does not exist", "no_model"),
        (404, "The model `gpt-9` does not exist", "no_model"),
        (413, "too large", "rejected"),
        (422, "no", "rejected"),
        (429, "Request too large for gpt-4 on tokens per min (TPM): Limit 10000, Requested 14370.", "rejected"),
        (401, "wrong key", "auth"),
        (403, "not for you", "auth"),
        (403, "Your input was flagged", "refusal"),
        (402, "pay first", "quota"),
        (429, "You exceeded your current quota, please check your plan and billing details.", "quota"),
        (400, "The response was filtered due to content management policy", "refusal"),
    ],
)
async def test_lasting_faults_cost_one_request(endpoint: Loopback, status: int, message: str, kind: str) -> None:
    endpoint.answer = lambda n, body: endpoint.error(status, message)
    failure = await failure_of(endpoint, max_retries=3)
    assert (failure.kind, failure.status, failure.attempts) == (kind, status, 1)
    assert message[:40] in failure.message
    assert len(endpoint.bodies) == 1


async def test_a_per_minute_limit_that_speaks_of_quota_is_a_rate_limit(endpoint: Loopback) -> None:
    words = "You exceeded your current quota, check your billing details. Please retry in 0.01s."
    endpoint.answer = lambda n, body: endpoint.error(429, words) if n == 0 else endpoint.ok()
    reply = await endpoint.model().complete(endpoint.ask())
    assert reply.attempts == 2


async def test_an_address_where_nothing_ever_answered_is_not_tried_again(endpoint: Loopback) -> None:
    failure = await failure_of(endpoint, api_base="http://127.0.0.1:1/v1", max_retries=5)
    assert (failure.kind, failure.attempts, failure.sent, failure.ends_run) == ("unreachable", 1, False, True)
    assert "127.0.0.1:1" in failure.message


async def test_a_reset_is_retried(endpoint: Loopback) -> None:
    async def reset_once(number: int, body: dict[str, Any]) -> web.StreamResponse:
        if number == 0:
            assert endpoint.raw_request is not None and endpoint.raw_request.transport is not None
            endpoint.raw_request.transport.abort()
        return endpoint.ok()

    endpoint.answer = reset_once
    assert (await endpoint.model().complete(endpoint.ask())).attempts == 2


async def test_a_body_that_breaks_off_is_retried(endpoint: Loopback) -> None:
    async def break_off_once(number: int, body: dict[str, Any]) -> web.StreamResponse:
        if number:
            return endpoint.ok()
        request = endpoint.raw_request
        assert request is not None
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    endpoint.answer = break_off_once
    assert (await endpoint.model().complete(endpoint.ask())).attempts == 2


async def test_a_body_that_is_not_json_is_retried_and_quoted(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: web.Response(text="gateway, try later")
    failure = await failure_of(endpoint, max_retries=1)
    assert (failure.kind, failure.attempts) == ("network", 2)
    assert "not JSON: gateway, try later" in failure.message
    endpoint.answer = lambda n, body: web.Response(body=b'{"choices": "caf\xe9"}', content_type="application/json")
    assert 'not UTF-8 at byte 16: \ufffd"}' in (await failure_of(endpoint, max_retries=0)).message


async def test_an_address_that_serves_web_pages_from_the_start_is_a_wrong_address(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: web.Response(text="<!DOCTYPE html><p>Welcome</p>", content_type="text/html")
    failure = await failure_of(endpoint, max_retries=3)
    assert (failure.kind, failure.attempts, failure.ends_run) == ("unreachable", 1, True)
    assert f"check the base URL {endpoint.url} (most end in /v1)" in failure.message


async def test_a_web_page_between_answers_is_a_gateway_in_trouble_and_is_retried(endpoint: Loopback) -> None:
    page = web.Response(text="<html>try later</html>", content_type="text/html")
    endpoint.answer = lambda n, body: page if n == 1 else endpoint.ok()
    model = endpoint.model()
    assert (await model.complete(endpoint.ask())).attempts == 1
    assert (await model.complete(endpoint.ask())).attempts == 2


async def test_a_hang_ends_as_a_timeout(endpoint: Loopback) -> None:
    async def hang(number: int, body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.sleep(30)
        return endpoint.ok()

    endpoint.answer = hang
    failure = await failure_of(endpoint, timeout=0.5, max_retries=1)
    assert (failure.kind, failure.attempts) == ("timeout", 2)
    assert "within 0.5 s" in failure.message


async def test_an_endless_body_ends_as_a_failure(endpoint: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_BODY", 2**20)

    async def endless(number: int, body: dict[str, Any]) -> web.StreamResponse:
        request = endpoint.raw_request
        assert request is not None
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    endpoint.answer = endless
    failure = await failure_of(endpoint, max_retries=0)
    assert (failure.kind, failure.message.endswith("larger than 1 MiB")) == ("network", True)


async def test_a_redirect_is_not_followed(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: web.Response(status=307, headers={"Location": endpoint.url + "/x?ticket=1"})
    failure = await failure_of(endpoint)
    assert (failure.kind, failure.attempts) == ("no_model", 1)
    assert f"to {endpoint.url}/x (redirects are not followed" in failure.message


async def test_retry_after_is_the_least_wait(endpoint: Loopback) -> None:
    wait = {"Retry-After": "0.2"}
    endpoint.answer = lambda n, body: endpoint.error(503, "", headers=wait) if n == 0 else endpoint.ok()
    await endpoint.model().complete(endpoint.ask())
    assert endpoint.times[1] - endpoint.times[0] >= 0.2


async def test_a_call_that_waits_for_its_retry_holds_no_place(endpoint: Loopback) -> None:
    # One place; of two calls the first fails and waits. The second one must be answered in the meantime. One call
    # before them has a reply: until then, calls wait for each other's retries.
    def fail_first(number: int, body: dict[str, Any]) -> web.Response:
        if number == 1:
            return endpoint.error(500, "", headers={"Retry-After": "0.3"})
        return endpoint.ok()

    endpoint.answer = fail_first
    model = endpoint.model(max_parallel_requests=1)
    await model.complete(endpoint.ask("before"))
    await asyncio.gather(model.complete(endpoint.ask("first")), model.complete(endpoint.ask("second")))
    order = [body["messages"][0]["content"] for body in endpoint.bodies]
    assert order == ["before", "first", "second", "first"]


async def test_an_endpoints_words_are_cut(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.error(422, "x" * 5000)
    failure = await failure_of(endpoint)
    assert failure.message.endswith(f"'{299 * 'x'}…'")


async def test_rate_limits_end_a_call_after_a_time(endpoint: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "REFUSED_FOR", 0.0)
    endpoint.answer = lambda n, body: endpoint.error(429, "busy", headers={"Retry-After": "0"})
    failure = await failure_of(endpoint, max_retries=2)
    assert (failure.kind, failure.status, failure.attempts) == ("rate_limit", 429, 3)


async def test_without_retries_a_rate_limit_ends_a_call_too(endpoint: Loopback) -> None:
    endpoint.answer = lambda n, body: endpoint.error(429, "busy")
    failure = await failure_of(endpoint, max_retries=0)
    assert (failure.kind, failure.attempts, len(endpoint.bodies)) == ("rate_limit", 1, 1)


ODD = "The model produced output that does not match the expected format"


@pytest.mark.parametrize(
    ("status", "words", "attempts"),
    [
        (500, [ODD], 2),
        (500, [f"{ODD} (request id 7f3a1)", f"{ODD} (request id 90c2b)"], 2),
        (500, [ODD, "another fault"], 5),
        (500, ["The engine is overloaded"], 5),
        (500, ["Internal server error"], 5),
        (500, ["The server had an error while processing your request. Sorry about that!"], 5),
        (500, ["The server had an error. You can retry your request."], 5),
        (502, [ODD], 5),
        (503, [ODD], 5),
        (529, [ODD], 5),
    ],
)
async def test_the_same_answer_twice_is_final_where_it_is_about_the_request(
    endpoint: Loopback, status: int, words: list[str], attempts: int
) -> None:
    endpoint.answer = lambda n, body: endpoint.error(status, words[n % len(words)] if n < 4 else "the end")
    failure = await failure_of(endpoint, max_retries=4)
    assert (failure.kind, failure.status, failure.attempts) == ("server", status, attempts)
    assert ("the same response twice" in failure.message) == (attempts == 2)


async def test_throttling_under_status_400_is_retried(endpoint: Loopback) -> None:
    def answer(number: int, body: dict[str, Any]) -> web.Response:
        if number < 2:
            return endpoint.error(400, "Requests rate limit exceeded", code="Throttling.RateQuota")
        return endpoint.ok()

    endpoint.answer = answer
    assert (await endpoint.model().complete(endpoint.ask())).attempts == 3


async def test_an_unknown_model_or_address_tells_the_url_and_what_base_urls_end_in(endpoint: Loopback) -> None:
    address = endpoint.url.removesuffix("/v1")
    failure = await failure_of(endpoint, api_base=address)
    assert (failure.kind, failure.attempts) == ("no_model", 1)
    assert f"the URL was {address}/chat/completions" in failure.message
    assert "usually end in /v1" in failure.message
    endpoint.answer = lambda n, body: endpoint.error(404, "The model `m` does not exist")
    failure = await failure_of(endpoint)
    assert "The model `m` does not exist" in failure.message
    assert "usually end in /v1" not in failure.message
    endpoint.answer = lambda n, body: endpoint.error(400, "model 'm' not found, try pulling it first")
    assert f"the URL was {endpoint.url}/chat/completions" in (await failure_of(endpoint)).message


async def test_a_model_that_has_replied_is_waited_for_when_a_gateway_has_no_server_for_it(endpoint: Loopback) -> None:
    words = "No available channel for model served-name under group default (distributor)"
    endpoint.answer = lambda n, body: endpoint.ok() if n in (1, 3) else endpoint.error(503, words)
    failure = await failure_of(endpoint, max_retries=2)
    assert (failure.kind, failure.attempts) == ("no_model", 1)
    model = endpoint.model(max_retries=2)
    assert [(await model.complete(endpoint.ask())).attempts for _ in range(2)] == [1, 2]
