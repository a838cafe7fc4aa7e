"""What the processes of one service show each other at every moment, in memory that outlives a kill."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from autorubric.files.descriptors import lock_byte, unlock_byte
from autorubric.llm.sharing import Sum

_OPEN = struct.Struct("<q")
_USED = struct.Struct("<qq")
_SIZE = 64
"""Bytes of one process: its open submissions, and the tokens and picodollars that it has used."""


class Board:
    """A row of numbers for each process of a service.

    Args:
        file: shared by all of them.
        processes: how many.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     board = Board.made(file, 2)
        ...     one, other = Seat(board, 0), Seat(board, 1)
        ...     one.take(3, room=4), other.take(2, room=4), other.take(1, room=4), one.open
        (0, 1, 0, 4)
    """

    def __init__(self, file: int, processes: int) -> None:
        self._file = file
        self._processes = processes
        self._memory = mmap.mmap(file, _SIZE * processes)

    @classmethod
    def made(cls, file: IO[bytes], processes: int) -> Board:
        """A new board in an empty file."""
        file.truncate(_SIZE * processes)
        return cls(file.fileno(), processes)

    def clear(self, place: int) -> None:
        """Forget what a process that has ended had written."""
        self._memory[_SIZE * place : _SIZE * (place + 1)] = bytes(_SIZE)

    def note_used(self, place: int, used: Sum) -> None:
        """Note what a process has spent and reserved."""
        _USED.pack_into(self._memory, _SIZE * place + _OPEN.size, int(used.tokens), int(used.pico))

    def used(self, place: int) -> Sum:
        """What a process had spent and reserved, also one that was killed."""
        return Sum(*_USED.unpack_from(self._memory, _SIZE * place + _OPEN.size))

    def open(self) -> int:
        """The submissions in all processes."""
        return sum(self.open_at(place) for place in range(self._processes))

    def open_at(self, place: int) -> int:
        """The submissions in one process."""
        [count] = _OPEN.unpack_from(self._memory, _SIZE * place)
        return int(count)

    def note_open(self, place: int, count: int) -> None:
        """Note the submissions in one process."""
        _OPEN.pack_into(self._memory, _SIZE * place, count)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from counting in until the end of the block; a kill releases it."""
        lock_byte(self._file, 0, wait=True)
        try:
            yield
        finally:
            unlock_byte(self._file, 0)


class Seat:
    """The submissions of a service of several processes, as one of them counts them in and out."""

    def __init__(self, board: Board, place: int) -> None:
        self._board = board
        self._place = place

    @property
    def open(self) -> int:
        """See `Seats`."""
        return self._board.open()

    def take(self, count: int, room: int) -> int:
        """See `Seats`."""
        with self._board.locked():
            over = self._board.open() + count - room
            if over <= 0:
                self._board.note_open(self._place, self._board.open_at(self._place) + count)
        return max(0, over)

    def give(self, count: int) -> None:
        """See `Seats`."""
        self._board.note_open(self._place, self._board.open_at(self._place) - count)
