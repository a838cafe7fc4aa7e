"""When a connection serves no other request, and what its faults say."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field

import pytest

from autorubric.llm.http.transport import HttpReply, Transport
from tests.llm.http.test_transport import HEADERS, RESET, answer, outcome
from tests.offenders import offenders


@dataclass
class Peer:
    """Answers each request with its number, or with `said` and no more; `late` is sent after the first answer.

    Attributes:
        said: the one answer of a connection, whose request has its body unread; None for the numbers.
        ending: what follows `said`: wait until the client hangs up, a reset, or an end.
    """

    said: bytes | None = None
    late: bytes = b""
    ending: str = "wait"
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if self.said is not None:
                    await self.say_no_more(writer, self.said)
                    return
                length = self.heads[-1].lower().partition(b"content-length:")[2].split()[0]
                await reader.readexactly(int(length))
                writer.write(answer(b"%d" % len(self.heads)))
                if self.late and len(self.heads) == 1:
                    await asyncio.sleep(0.05)
                    writer.write(self.late)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def say_no_more(self, writer: asyncio.StreamWriter, said: bytes) -> None:
        writer.write(said)
        if self.ending == "wait":
            await self.is_over.wait()
        if self.ending == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if self.ending != "end":
            writer.transport.abort()

    async def listen(self) -> tuple[asyncio.Server, str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


UNASKED = {
    "a whole one": answer(b"stale", status="404 Not Found"),
    "a part of one": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
    "a change of protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


async def test_a_response_that_nobody_asked_for_is_not_the_answer_to_the_next_request() -> None:
    transport = Transport()
    with offenders() as case:
        for name, unasked in UNASKED.items():
            with case(name):
                peer = Peer(late=unasked)
                server, url = await peer.listen()
                async with server:
                    found = [await outcome(transport, url)]
                    await asyncio.sleep(0.2)  # it arrives while the connection is idle
                    found += [await outcome(transport, url) for _ in range(2)]
                    bodies = [reply.body if isinstance(reply, HttpReply) else reply for reply in found]
                    assert bodies == [b"1", b"2", b"3"]
                    assert (peer.connections, len(peer.heads)) == (2, 3)
                    await transport.close()


async def test_no_request_follows_one_that_was_answered_before_all_of_it_was_sent() -> None:
    transport = Transport()
    peer = Peer(said=answer(b"{}", status="413 Payload Too Large"))
    server, url = await peer.listen()
    async with server:
        for body in (bytes(32 * 2**20), b"{}"):
            assert (await transport.post(url, HEADERS, body, 5.0)).status == 413
        assert peer.connections == 2
        peer.is_over.set()
        await transport.close()


async def test_a_connection_that_is_reset_is_told_like_one_that_is_closed() -> None:
    transport = Transport()
    with offenders() as case:
        for ending in ("reset", "end"):
            with case(ending):
                server, url = await Peer(said=b"", ending=ending).listen()
                async with server:
                    assert await outcome(transport, url) == RESET
                    await transport.close()


REFUSALS = {
    "a status": answer(b"", status="407 Proxy Authentication Required"),
    "nothing": b"",
    "no HTTP": b"SSH-2.0\r\n\r\n",
}


async def test_a_proxy_that_does_not_connect_has_passed_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    transport = Transport()
    with offenders() as case:
        for name, refusal in REFUSALS.items():
            with case(name):
                proxy = Peer(said=refusal, ending="end")
                server, url = await proxy.listen()
                async with server:
                    monkeypatch.setenv("https_proxy", url)
                    found = await outcome(transport, "https://gpu.example/v1")
                    assert isinstance(found, tuple)
                    assert found[:2] == ("network", False)
                    assert "proxy" in found[2] or name != "a status", found
                    assert [head.split()[:2] for head in proxy.heads] == [[b"CONNECT", b"gpu.example:443"]]
                    assert b"sk-planted" not in proxy.heads[0]
                    await transport.close()
