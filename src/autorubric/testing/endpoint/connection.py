"""One client's connection: requests in, answers out, one at a time and in order."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

from autorubric.system.files import reset_on_close
from autorubric.testing.endpoint.http import BadRequest, HttpRequest, answer_bytes, take_request
from autorubric.testing.endpoint.service import Outcome

_PIECE = b"a" * 0x10000
_ENDLESS_PIECE = b"10000\r\n" + _PIECE + b"\r\n"
_ENDLESS_PAUSE = 0.01
_HUGE_PIECES = 200 * 2**20 // len(_PIECE)


class Answering(Protocol):
    """Whoever decides what a request gets, and hears how it ended."""

    def answer(self, request: HttpRequest) -> Outcome:
        """What this request gets."""
        ...

    def finish(self, outcome: Outcome, *, sent: bool) -> None:
        """Hear that an answer went out to the last byte, or never will."""
        ...


class Connection(asyncio.Protocol):
    """A keep-alive connection.

    The next request is read only when the last answer has left: pipelined requests are answered in order.
    """

    def __init__(self, service: Answering, connections: set[Connection]) -> None:
        self._service = service
        self._connections = connections
        self._buffer = bytearray()
        self._current: Outcome | None = None
        self._closes = False
        self._timer: asyncio.TimerHandle | None = None
        self._pieces = 0  # of a huge body, still to be sent
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; every byte that the socket does not take at once counts as not sent."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Book the request that will never get its answer."""
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._current is not None:
            self._service.finish(self._current, sent=False)
            self._current = None

    def data_received(self, data: bytes) -> None:
        """Answer as many whole requests as there are."""
        self._buffer += data
        self._pump()

    def resume_writing(self) -> None:
        """The last byte of an answer has left."""
        self._send_huge()
        if self._current is not None and self._current.action == "answer":
            self._finish()
            self._pump()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._transport.abort()

    def _pump(self) -> None:
        while self._current is None and not self._transport.is_closing():
            try:
                request = take_request(self._buffer)
            except BadRequest as problem:
                self._transport.write(answer_bytes(problem.status, b"{}", (("Connection", "close"),)))
                self._transport.close()
                return
            if request is None:
                return
            self._closes = request.close
            self._current = self._service.answer(request)
            if self._current.delay > 0:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._current.delay, self._send_later)
            else:
                self._send(self._current)

    def _send_later(self) -> None:
        if self._current is not None:
            self._send(self._current)
            self._pump()

    def _send(self, outcome: Outcome) -> None:
        if outcome.action == "answer":
            self._transport.write(answer_bytes(outcome.status, outcome.body, outcome.headers))
            if self._transport.get_write_buffer_size() == 0:
                self._finish()
        elif outcome.action == "reset":
            self._reset()
        elif outcome.action == "cut":
            whole = answer_bytes(outcome.status, outcome.body, outcome.headers)
            self._transport.write(whole[: len(whole) - len(outcome.body) // 2 - 1])
            self._transport.close()
        elif outcome.action == "endless":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            self._transport.write(head)
            self._send_more()
        elif outcome.action == "huge":
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (_HUGE_PIECES * len(_PIECE)))
            self._pieces = _HUGE_PIECES
            self._send_huge()
        # "hang" sends nothing: the request stays in flight until the client gives up.

    def _send_more(self) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() == 0:
            self._transport.write(_ENDLESS_PIECE)
        self._timer = asyncio.get_running_loop().call_later(_ENDLESS_PAUSE, self._send_more)

    def _send_huge(self) -> None:
        while self._pieces and not self._transport.is_closing() and self._transport.get_write_buffer_size() == 0:
            self._transport.write(_PIECE)
            self._pieces -= 1

    def _reset(self) -> None:
        """Close so that the peer sees a reset: no lingering, no polite end."""
        sock: socket.socket = self._transport.get_extra_info("socket")
        reset_on_close(sock)
        self._transport.abort()

    def _finish(self) -> None:
        outcome, self._current = self._current, None
        if outcome is not None:
            self._service.finish(outcome, sent=True)
        if self._closes:
            self._transport.close()
