"""The socket that the service listens at."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest
from aiohttp import web

from autorubric.errors import InputError
from autorubric.llm.http.access import listening_at
from autorubric.training.service.reward_server import accept_at, serve_connections
from tests.offenders import each


async def test_small_answers_are_sent_at_once() -> None:
    """Without TCP_NODELAY every answer to a busy caller waits 40 ms for the caller's acknowledgement."""
    seen: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = writer.get_extra_info("socket")
        seen.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listening_at("127.0.0.1", 0) as (listening, _):
        server = await asyncio.start_server(answer, sock=listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
    assert seen[0] != 0


async def test_many_callers_can_connect_while_the_service_is_busy() -> None:
    """None of them is accepted meanwhile; with the default of aiohttp, the 130th caller would wait for seconds."""
    ends: asyncio.Queue[None] = asyncio.Queue()
    connected: list[socket.socket] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response()

    with listening_at("127.0.0.1", 0) as (listening, _), ExitStack() as stack:

        def started() -> None:
            for _ in range(300):
                connected.append(stack.enter_context(socket.create_connection(listening.getsockname(), timeout=20)))
            ends.put_nowait(None)

        await serve_connections(answer, accept_at(listening), 0.0, started, ends)
    assert len(connected) == 300


@each("host", ["256.1.1.1", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(InputError, match=f"cannot listen on {host}:0"), listening_at(host, 0):
        pass
