"""The port of a service of several processes: one process accepts, and hands connections to the others in turn.

Were the port itself shared, the system would choose by a hash of the address: of eight callers, one of two processes
gets five on average, and six or more in one case of ten. A second service could take the same port without an error,
and connections that wait at a killed process would be lost.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress

from aiohttp import web

_AT_ONCE = 64
_PAUSE = 0.005  # seconds until a full process is tried again
_NO_FILES = 0.2  # seconds until a process that has too many files open accepts again


class Door:
    """Accepts connections and hands each to the next process, over the sockets (`channels`) that lead to them."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._channels: deque[socket.socket] = deque()
        self._waiting: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._closed = self._is_open = False
        listening.setblocking(False)

    def add(self, channel: socket.socket) -> None:
        """Hand connections to another process too."""
        channel.setblocking(False)
        self._channels.append(channel)
        self._resume()

    def remove(self, channel: socket.socket) -> None:
        """Hand no more connections to a process; without any, callers wait at the port."""
        if channel in self._channels:
            self._channels.remove(channel)
        if not self._channels:
            self._pause()

    def close(self) -> None:
        """Accept no more connections."""
        self._closed = True
        self._pause()
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    def _resume(self) -> None:
        if not self._is_open and not self._closed and self._channels:
            self._is_open = True
            self._loop.add_reader(self._listening, self._accept)

    def _pause(self, seconds: float | None = None) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listening)
        if seconds is not None:
            self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._waiting is None:
                try:
                    self._waiting, _ = self._listening.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    return
                except OSError:
                    self._pause(_NO_FILES)
                    return
            if not self._hand_over(self._waiting):
                self._pause(_PAUSE)
                return
            self._waiting.close()
            self._waiting = None

    def _hand_over(self, connection: socket.socket) -> bool:
        """Whether a process has room for a connection."""
        for _ in range(len(self._channels)):
            channel = self._channels[0]
            self._channels.rotate(-1)
            try:
                socket.send_fds(channel, [b"c"], [connection.fileno()])
            except OSError:  # full, or its process has ended
                continue
            return True
        return False


class HandedSite(web.BaseSite):
    """The connections that a `Door` hands to this process over a channel."""

    def __init__(self, runner: web.BaseRunner, channel: socket.socket) -> None:
        super().__init__(runner)
        channel.setblocking(False)
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()

    @property
    def name(self) -> str:
        """Where the connections come from."""
        return "handed over"

    async def start(self) -> None:
        """Serve the connections that arrive."""
        await super().start()
        self._loop.add_reader(self._channel, self._take)

    async def stop(self) -> None:
        """Serve those that have arrived, and no more."""
        self._take()
        self._loop.remove_reader(self._channel)
        await asyncio.gather(*self._opening, return_exceptions=True)
        await super().stop()

    def _take(self) -> None:
        while True:
            try:
                _, found, _, _ = socket.recv_fds(self._channel, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                found = []
            if not found:  # the door has gone
                self._loop.remove_reader(self._channel)
                return
            task = asyncio.create_task(self._open(socket.socket(fileno=found[0])))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        server = self._runner.server
        assert server is not None
        connection.setblocking(False)
        with suppress(OSError):  # the caller has gone
            await self._loop.connect_accepted_socket(server, connection)
