"""The socket that the service listens at."""

from __future__ import annotations

import asyncio
import socket

import pytest

from autorubric.errors import InputError
from autorubric.llm.http.access import listening_at
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


@each("host", ["256.1.1.1", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(InputError, match=f"cannot listen at {host}:0"), listening_at(host, 0):
        pass
