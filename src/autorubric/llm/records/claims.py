"""Requests under way on a shared ledger: whoever asks the same one meanwhile waits instead of paying again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from autorubric.system.files import lock_byte, opened, unlock_byte

FILE_NAME = "claims.lock"
_PLACES = 2**31 - 1  # Windows locks no byte beyond
_POLL = 0.02  # seconds
_LONGEST = 600.0  # seconds


class Claims:
    """The keys that are asked for now, by all graders of this process and by other processes.

    A claim is a locked byte of one file, at a place that follows from the key. The operating system releases it when
    the process ends, however it ends. Where the system has no such locks, claims hold in this process only.

    Args:
        directory: the folder of a ledger that several executors use; None claims nothing.

    Example:
        >>> import tempfile
        >>> async def main() -> list[str]:
        ...     told = []
        ...     async def ask(name: str) -> None:
        ...         async with claims.held(b"k" * 16, lambda: False):
        ...             told.append(name)
        ...             await asyncio.sleep(0)
        ...             told.append(name)
        ...     await asyncio.gather(ask("first"), ask("second"))
        ...     return told
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     claims = Claims(Path(folder))
        ...     asyncio.run(main())
        ...     claims.close()
        ['first', 'first', 'second', 'second']
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE_NAME
        self._file: int | None = None
        self._lock = threading.Lock()
        self._places: set[int] = set()

    @property
    def needed(self) -> bool:
        """Whether others may ask the same."""
        return self._path is not None

    @contextlib.asynccontextmanager
    async def held(self, key: bytes, given_up: Callable[[], bool]) -> AsyncIterator[None]:
        """Hold the claim to a key, once nobody else does.

        Nobody waits for longer than ten minutes, or after `given_up` says so: the block then runs without the claim.
        """
        place = int.from_bytes(key[:8], "little") % _PLACES
        until = time.monotonic() + _LONGEST
        while not (held := self._take(place)) and time.monotonic() < until and not given_up():
            await asyncio.sleep(_POLL)
        try:
            yield
        finally:
            if held:
                self._give_back(place)

    def close(self) -> None:
        """Close the file, which gives all claims back; closing twice is harmless."""
        with self._lock:
            self._path = None
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _take(self, place: int) -> bool:
        with self._lock:
            if place in self._places:
                return False
            if self._path is not None and not self._locked(self._path, place):
                return False
            self._places.add(place)
            return True

    def _give_back(self, place: int) -> None:
        with self._lock:
            self._places.discard(place)
            if self._file is not None:
                unlock_byte(self._file, place)

    def _locked(self, path: Path, place: int) -> bool:
        if self._file is None:
            self._file = opened(path, os.O_RDWR | os.O_CREAT)
        return lock_byte(self._file, place)
