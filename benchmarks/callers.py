"""Callers of an HTTP service, each with its own connection, like the processes of a trainer.

A client with a pool takes the connection that has been idle longest. The service's processes end full load one after
the other, so a pool then sends hundreds of calls in a row to one process, which no independent callers do. These
callers also take a tenth of the CPU, which they share with the service that is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Caller:
    """One connection that is kept open: one call at a time, in order."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        self._turn = asyncio.Lock()
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes, seconds: float = 60.0) -> tuple[int, bytes]:
        """The status and the body of the answer to a call.

        Raises:
            OSError, EOFError, TimeoutError: there was no answer; the next call opens a new connection.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(seconds):
                    return await self._answer(body)
            except BaseException:
                self.close()
                raise

    async def _answer(self, body: bytes) -> tuple[int, bytes]:
        if self._open is None:
            self._open = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._open
        writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        headers = dict(field.split(b": ", 1) for field in fields if field)
        answer = await reader.readexactly(int(headers[b"content-length"]))
        if headers.get(b"connection") == b"close":
            self.close()
        return int(first.split()[1]), answer

    def close(self) -> None:
        """Close the connection, if one is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


@contextmanager
def callers_of(url: str, count: int) -> Iterator[list[Caller]]:
    """Callers whose connections are closed at the end of the block."""
    callers = [Caller(url) for _ in range(count)]
    try:
        yield callers
    finally:
        for one in callers:
            one.close()
