"""The port of a service with several processes: one process accepts connections and hands them to the others in turn.

If the processes shared the port, the system would choose a process by a hash of the address: of eight callers, one of
two processes would get five on average, and six or more in one of ten cases. A second service could bind the same
port without an error, and connections waiting at a killed process would be lost.

The processes share their current counts on a `Board`, in memory that outlives a kill.
"""

from __future__ import annotations

import asyncio
import mmap
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from aiohttp import web

from autorubric.files.descriptors import lock_byte, unlock_byte
from autorubric.llm.sharing import Amount

_AT_ONCE = 64
_PAUSE = 0.005  # seconds until a full process is tried again
_NO_FILES = 0.2  # seconds until a process with too many open files accepts again


class Door:
    """Accepts connections and hands each to the next process over its socket (`channels`)."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._channels: deque[socket.socket] = deque()
        self._waiting: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._closed = self._is_open = False
        listening.setblocking(False)

    def add(self, channel: socket.socket) -> None:
        """Hand connections to one more process."""
        channel.setblocking(False)
        self._channels.append(channel)
        self._resume()

    def remove(self, channel: socket.socket) -> None:
        """Hand no more connections to a process; if none is left, callers wait at the port."""
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
        """Hand a connection to the next process that has room; False if none has."""
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
        """The origin of the connections."""
        return "handed over"

    async def start(self) -> None:
        """Serve the connections that arrive."""
        await super().start()
        self._loop.add_reader(self._channel, self._receive)

    async def stop(self) -> None:
        """Serve the connections that have arrived, and no more."""
        self._receive()
        self._loop.remove_reader(self._channel)
        await asyncio.gather(*self._opening, return_exceptions=True)
        await super().stop()

    def _receive(self) -> None:
        while True:
            try:
                _, found, _, _ = socket.recv_fds(self._channel, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                found = []
            if not found:  # the door is closed
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


_OPEN = struct.Struct("<q")
_USED = struct.Struct("<qq")
_SIZE = 64
"""Bytes per process: its open submissions, and the tokens and picodollars it has used."""


class Board:
    """Counts of each process of a service, in a file that all processes share.

    Args:
        file: the descriptor of the file that they share.
        processes: the number of processes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     board = Board.create(file, 2)
        ...     one, other = SharedSeats(board, 0), SharedSeats(board, 1)
        ...     one.reserve(3, room=4), other.reserve(2, room=4), other.reserve(1, room=4), one.open
        (0, 1, 0, 4)
    """

    def __init__(self, file: int, processes: int) -> None:
        self._file = file
        self._processes = processes
        self._memory = mmap.mmap(file, _SIZE * processes)

    @classmethod
    def create(cls, file: IO[bytes], processes: int) -> Board:
        """Return a new board in an empty file."""
        file.truncate(_SIZE * processes)
        return cls(file.fileno(), processes)

    def clear(self, place: int) -> None:
        """Clear the row of a process that has ended."""
        self._memory[_SIZE * place : _SIZE * (place + 1)] = bytes(_SIZE)

    def note_used(self, place: int, used: Amount) -> None:
        """Note the tokens and money that a process has spent and reserved."""
        _USED.pack_into(self._memory, _SIZE * place + _OPEN.size, int(used.tokens), int(used.pico))

    def read_used(self, place: int) -> Amount:
        """Return what a process has spent and reserved, even if it was killed."""
        return Amount(*_USED.unpack_from(self._memory, _SIZE * place + _OPEN.size))

    def count_open(self) -> int:
        """Return the number of open submissions in all processes."""
        return sum(self.count_open_at(place) for place in range(self._processes))

    def count_open_at(self, place: int) -> int:
        """Return the number of open submissions in one process."""
        [count] = _OPEN.unpack_from(self._memory, _SIZE * place)
        return int(count)

    def note_open(self, place: int, count: int) -> None:
        """Note the number of open submissions in one process."""
        _OPEN.pack_into(self._memory, _SIZE * place, count)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent other processes from reserving until the end of the `with` block; a kill releases the lock."""
        lock_byte(self._file, 0, wait=True)
        try:
            yield
        finally:
            unlock_byte(self._file, 0)


class SharedSeats:
    """The count of open submissions in a service with several processes, as one of them sees it."""

    def __init__(self, board: Board, place: int) -> None:
        self._board = board
        self._place = place

    @property
    def open(self) -> int:
        """The number of open submissions in all processes."""
        return self._board.count_open()

    def reserve(self, count: int, room: int) -> int:
        """Add `count` open submissions and return 0; if they exceed the room, add none and return the excess."""
        with self._board.locked():
            over = self._board.count_open() + count - room
            if over <= 0:
                self._board.note_open(self._place, self._board.count_open_at(self._place) + count)
        return max(0, over)

    def release(self, count: int) -> None:
        """Subtract `count` open submissions."""
        self._board.note_open(self._place, self._board.count_open_at(self._place) - count)
