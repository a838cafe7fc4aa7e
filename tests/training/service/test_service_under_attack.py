"""The reward service in front of callers who mean harm: a reason and a 4xx, never a 500, and nothing is asked."""

from __future__ import annotations

import asyncio
import gc
import gzip
import hmac
import json
import weakref
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiohttp.web_protocol import RequestHandler

from autorubric.training.service.reward_app import ServiceLimits
from tests.offenders import offenders
from tests.training.service.conftest import CRITERIA, Serve, Served

CALL: dict[str, Any] = {"query": "Why?", "submission": "So.", "rubric": CRITERIA}
HUGE = 10**400
DEEP: Any = "[" * 50_000 + "]" * 50_000

BODIES: dict[str, bytes] = {
    "nothing": b"",
    "blank": b"  \n",
    "no JSON": b"reward me",
    "half of it": json.dumps(CALL).encode()[:40],
    "two of them": json.dumps(CALL).encode() * 2,
    "a number": b"7",
    "null": b"null",
    "a text": b'"x"',
    "a list": json.dumps([CALL]).encode(),
    "latin-1": b'{"query": "caf\xe9"}',
    "UTF-16": json.dumps(CALL).encode("utf-16"),
    "a byte order mark alone": b"\xef\xbb\xbf",
    "NUL": b"\0" * 100,
    "gzip": gzip.compress(json.dumps(CALL).encode()),
    "a key twice": b'{"submission": "a", "submission": "b"}',
    "100,000 brackets": b"[" * 100_000,
    "brackets deep inside": json.dumps(CALL).replace('"Why?"', DEEP).encode(),
    "a rubric of brackets": json.dumps({**CALL, "rubric": DEEP}).encode(),
    "5,000 levels of objects": b'{"rubric":' * 5000 + b"1" + b"}" * 5000,
    "a million items": b'{"items": [' + b"0," * 999_999 + b"0]}",
    "a million keys": ("{" + ",".join(f'"k{n}": 0' for n in range(300_000)) + "}").encode(),
    "a number of 5,000 digits": b'{"submission": "a", "step": ' + b"9" * 5000 + b"}",
}
VALUES: dict[str, tuple[Any, ...]] = {
    "submission": (None, True, 7, [], {}, ["So."], "half \ud83d"),
    "query": (True, 7, {}, [], [7], [{}], [{"role": "user"}], [{"role": 7, "content": "x"}], "half \ud83d"),
    "rubric": (
        *(None, True, 7, "", "no JSON", [], {}, [None], [[]], [7], [{}], {"rubric": None}, {"$ref": "#/x"}),
        *([{"requirement": ""}], [{"requirement": "x", "weight": HUGE}], [{"requirement": "x", "weight": True}]),
        *([{"requirement": "x", "weight": 0}], [{"requirement": "x", "wieght": 1}], [{"requirement": 7}]),
        *([{"requirement": "x", "check": {"name": "no_such"}}], [{"requirement": "x", "check": 7}]),
        *([{"criterion": "x", "tags": {"verifier": "rule"}}], [{"criterion": "x", "tags": 7}]),
        *([{"criterion": "x", "tags": {"verifier": "rule", "function": "f", "parameters": [1]}}],),
        *([{"criterion": "x", "tags": {"verifier": "rule", "function": [], "parameters": {}}}],),
        *([{"criterion": "x", "tags": ["verifier:rule", "function:f", "parameters:[1]"]}],),
        *([{"criterion": "x", "points": []}], [{"description": 7, "title": 7}]),
        *({"rubrics": {"rubrics": {"rubrics": []}}}, {"criteria": {"criteria": 7}}, {"reward_model": 7}),
        *({"criteria": [{"requirement": "x"}], "metadata": 7}, {"criteria": [{"requirement": "x"}], "guidelines": 7}),
        *([{"requirement": "x", "options": 7}], [{"requirement": "x", "options": [{"label": "a", "value": HUGE}]}]),
    ),
    "reference": (True, 7, [], {}),
    "id": (True, 7, [], {}),
    "length": (True, 1.5, "7", [], -1, HUGE),
    "step": (True, 1.5, "7", [], HUGE),
    "deadline_seconds": (True, 0, -1, "7", [], HUGE),
    "items": (None, True, 7, [], {}, [7], [[]], [None], [{}], "x"),
    "labels": (None, True, 7, [], {}, [7], ["x"]),
    "judge": ("another",),
    "__proto__": ({},),
}


pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # the client's, of one loop


async def refused(service: Served, body: bytes, **headers: str) -> None:
    status, answer = await service.post(body, **headers)
    assert 400 <= status < 500, (status, answer, body[:300])
    assert answer["error"]["status"] == status
    assert all(isinstance(words, str) and words for words in answer["error"]["problems"])
    assert len(json.dumps(answer)) < 20_000
    assert service.judge.counts.requests == 0


async def test_a_body_that_is_no_call_is_refused_with_a_reason(serve: Serve) -> None:
    with offenders() as case:
        async with serve() as service:
            for name, body in BODIES.items():
                with case(name):
                    await refused(service, body)


async def test_a_value_that_cannot_be_is_refused_wherever_it_stands(serve: Serve) -> None:
    with offenders() as case:
        async with serve() as service:
            for key, values in VALUES.items():
                for value in values:
                    with case(f"{key}: {value!r:.60}"):
                        body = {**CALL, key: value}
                        await refused(service, json.dumps(body).encode())
                        if key not in ("items", "labels", "deadline_seconds"):
                            await refused(service, json.dumps({"items": [CALL, body]}).encode())


async def test_numbers_that_are_none_are_refused(serve: Serve) -> None:
    with offenders() as case:
        async with serve() as service:
            for key in ("step", "length", "deadline_seconds", "weight"):
                body = {**CALL, key: "@"}
                if key == "weight":
                    body = {**CALL, "rubric": [{"requirement": "x", "weight": "@"}]}
                for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000):
                    with case(f"{key}: {number[:10]}"):
                        await refused(service, json.dumps(body).replace('"@"', number).encode())


HEAVY: dict[str, Any] = {
    "100,000 wrong turns": {**CALL, "query": [{"role": "user"}] * 100_000},
    "a key of 5 MB": {**CALL, "k" * 5_000_000: 1},
    "a requirement of 5 MB and no weight": {**CALL, "rubric": [{"requirement": "x" * 5_000_000, "weight": 0}]},
}


async def test_a_body_that_is_hard_to_refuse_does_not_hold_up_the_others(serve: Serve) -> None:
    """The work for one call is bounded: the answer comes long before a caller would time out."""
    with offenders() as case:
        async with serve() as service:
            for name, body in HEAVY.items():
                with case(name):
                    async with asyncio.timeout(20):
                        await refused(service, json.dumps(body).encode())


async def exchange(service: Served, data: bytes, *, close: bool = False) -> bytes:
    """What the service answers to these bytes until it closes the connection."""
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    if close:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def head(*lines: str, method: str = "POST", path: str = "/v1/reward") -> bytes:
    first = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return (first + "".join(f"{line}\r\n" for line in (*lines, "Connection: close"))).encode("latin-1") + b"\r\n"


def told(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and JSON of an answer."""
    first, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in first.lower(), answer[:500]
    return int(first.split()[1]), json.loads(body)


WRONG_PATHS = (
    ("GET", "/v1/reward", 405),
    ("PUT", "/v1/reward", 405),
    ("DELETE", "/healthz", 405),
    ("PATCH", "/metrics", 405),
    ("OPTIONS", "/v1/reward", 405),
    ("TRACE", "/v1/reward", 405),
    ("PROPFIND", "/", 404),
    ("GET", "/", 404),
    ("GET", "/../../etc/passwd", 404),
    ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
    ("GET", "/v1/reward/../../ledger/ledger.sqlite", 404),
    ("GET", "/healthz%00", 404),
    ("GET", "/%ff%fe", 404),
    ("GET", "//evil.example/v1/reward", 404),
    ("POST", "/V1/REWARD", 404),
    ("POST", f"/v1/reward?{'q' * 8000}", 400),
    ("GET", f"/{'x' * 8000}", 404),
)


async def test_a_wrong_path_or_method_gets_a_reason_too(serve: Serve) -> None:
    with offenders() as case:
        async with serve() as service:
            for method, path, status in WRONG_PATHS:
                with case(f"{method} {path[:60]}"):
                    answer = await exchange(service, head("Content-Length: 2", method=method, path=path) + b"{}")
                    got, value = told(answer)
                    assert (got, value["error"]["status"]) == (status, status)
                    assert b"passwd" not in answer
            assert service.judge.counts.requests == 0


NOT_HTTP = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\0" * 1000,
    b"reward me\r\n\r\n",
    b"POST /v1/reward HTTP/9.9\r\n\r\n",
    head("Content-Length: -1"),
    head("Content-Length: \xb2"),
    head("Content-Length: 1, 2"),
    head("Content-Length: 2", "Transfer-Encoding: chunked") + b"zz\r\n",
    head("Transfer-Encoding: chunked") + b"fffffffffffffffffffff\r\n",
    head("Transfer-Encoding: gzip") + b"{}",
    head("X: " + "x" * 200_000),
    head(*(f"X-{n}: 1" for n in range(20_000))),
    b"GET / HTTP/1.1\r\n" + b"Host: localhost\r\n" * 2 + b"\r\n",
)


async def test_what_is_no_http_is_turned_away_and_the_service_goes_on(serve: Serve) -> None:
    with offenders() as case:
        async with serve() as service:
            for data in NOT_HTTP:
                with case(repr(data[-24:])):
                    answer = await exchange(service, data, close=True)
                    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer[:300]
                    assert (await service.read("/healthz"))[0] == 200
            assert service.judge.counts.requests == 0


async def test_chunks_past_the_cap_are_not_read_to_their_end(serve: Serve) -> None:
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    async with serve(limits=ServiceLimits(most_bytes=100_000)) as service:
        status, value = told(await exchange(service, head("Transfer-Encoding: chunked") + chunk * 3 + b"0\r\n\r\n"))
        assert status == 413
        assert value["error"]["problems"] == [
            "the body is longer than 100000 bytes; send fewer submissions in one call"
        ]


async def test_a_length_past_the_cap_is_refused_before_the_body_comes(serve: Serve) -> None:
    async with serve(limits=ServiceLimits(most_bytes=100_000), linger_seconds=0.2) as service:
        for length in ("100001", "9" * 18):
            assert told(await exchange(service, head(f"Content-Length: {length}")))[0] == 413


async def test_a_body_that_stays_away_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autorubric.training.service.reward_app._BODY_SECONDS", 0.2)
    async with serve(linger_seconds=0.2) as service:
        assert told(await exchange(service, head("Content-Length: 100") + b"{"))[0] == 408


async def test_a_caller_who_leaves_in_the_middle_of_the_body_is_no_fault(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve() as service:
        host, port = service.url.removeprefix("http://").split(":")
        for _ in range(3):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(head("Content-Length: 100") + b"{")
            await writer.drain()
            await asyncio.sleep(0.1)
            writer.transport.abort()
        await asyncio.sleep(0.2)
        assert (await service.read("/healthz"))[0] == 200
    assert "Traceback" not in capfd.readouterr().err


async def test_many_who_open_a_connection_and_say_nothing_do_not_shut_out_the_others(serve: Serve) -> None:
    async with serve() as service:
        host, port = service.url.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(200)]
        for _, writer in silent[::2]:
            writer.write(b"POST /v1/reward HTTP/1.1\r\nHost: loc")
        assert (await service.post(CALL))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_a_token_is_compared_in_constant_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def watched(sent: bytes, token: bytes) -> bool:
        compared.append((sent, token))
        return compare(sent, token)

    monkeypatch.setattr("hmac.compare_digest", watched)
    sent = [
        "",
        "Bearer",
        "Bearer s",
        "Bearer s3cre",
        "Bearer s3cret2",
        "Basic czNjcmV0",
        "Digest s3cret",
        "Bearer \xe9",
    ]
    async with serve(limits=ServiceLimits(token="s3cret")) as service:
        for words in sent:
            answer = await exchange(service, head(f"Authorization: {words}", "Content-Length: 2") + b"{}")
            assert told(answer)[0] == 401
            assert b"s3cret" not in answer
    assert len(compared) == len(sent)


def big_post(service: Served, size: int) -> tuple[int, dict[str, Any]]:
    """Status and body where a client sends its whole body before it reads, as urllib and requests do."""
    request = Request(f"{service.url}/v1/reward", b"x" * size, {"Content-Type": "application/json"})
    try:
        urlopen(request, timeout=600)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)
    raise AssertionError("the body was accepted")


@pytest.mark.parametrize("size", [100_001, 200_000_000])
async def test_a_client_that_sends_its_whole_body_first_still_reads_the_413(serve: Serve, size: int) -> None:
    async with serve(limits=ServiceLimits(most_bytes=100_000)) as service:
        status, value = await asyncio.to_thread(big_post, service, size)
        assert status == 413
        assert "longer than 100000 bytes" in value["error"]["problems"][0]


async def test_a_client_that_waits_for_100_continue_gets_it_or_the_refusal(serve: Serve) -> None:
    body = json.dumps(CALL).encode()
    async with serve(limits=ServiceLimits(most_bytes=100_000), linger_seconds=0.2) as service:
        answer = await exchange(service, head(f"Content-Length: {len(body)}", "Expect: 100-continue") + body)
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        answer = await exchange(service, head("Content-Length: 100001", "Expect: 100-continue"))
        assert answer.startswith(b"HTTP/1.1 413")


async def opened(service: Served, data: bytes, local: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(local, 0))
    writer.write(data)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("data", [b"", b"POST /v1/reward HTTP/1.1\r\nHost: loc"])
async def test_a_connection_without_a_request_is_closed(serve: Serve, data: bytes) -> None:
    async with serve(idle_seconds=0.3) as service:
        reader, writer = await opened(service, data, "127.0.0.1")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


@pytest.mark.usefixtures("only_new_collected")
async def test_a_closed_connection_is_not_kept_until_it_would_have_been_idle(serve: Serve) -> None:
    async with serve() as service:
        before = weakref.WeakSet(find_handlers())
        for data in (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
            reader, writer = await opened(service, data, "127.0.0.1")
            if data:
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(20):
            while set(find_handlers()) - set(before):
                await asyncio.sleep(0.01)


def find_handlers() -> list[RequestHandler]:
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is RequestHandler]


@pytest.mark.parametrize("data", [b"", b"POST /v1/rew", head("Content-Length: 100") + b"{"])
async def test_one_client_cannot_hold_all_connections(serve: Serve, data: bytes) -> None:
    """100 idle, half-sent or slow connections of one client, in a service that takes 20: others are answered."""
    async with serve(connections=20) as service:
        other_reader, other = await opened(service, b"", "127.0.0.3")
        held = [await opened(service, data, "127.0.0.2") for _ in range(100)]
        async with asyncio.timeout(20):
            assert (await service.read("/healthz"))[0] == 200
        other.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await other_reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        for _, writer in (*held, (None, other)):
            writer.close()
