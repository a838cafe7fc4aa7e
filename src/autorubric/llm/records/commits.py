"""Group commit: many writes at once, on one thread, acknowledged once they are durable."""

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from autorubric.errors import LedgerError
from autorubric.llm.records.database import build_write_error

_Waiter: TypeAlias = "asyncio.Future[None] | Future[None]"

PATIENCE = 0.005
"""Maximum seconds that a write which nobody awaits waits for one that is awaited."""


class GroupCommit:
    """Writes batches on its own thread, and resolves each write's future once it is on the disk.

    An idle thread writes at once; what arrives meanwhile forms the next batch of up to `rows`. After a batch of
    several, the next one waits up to `linger` seconds for more. A write that nobody awaits joins the next one that is
    awaited, after `PATIENCE` at the latest: a sync of its own would delay that one. When a batch fails, all its
    writes and all later ones get a `LedgerError`: after a full disk, nothing may look recorded that is not.

    `write` makes a batch durable, on the thread; `turn` is held meanwhile. `broken` says why a batch could not be
    written, `unusable` why nothing more can be: that, or the ledger is closed.
    """

    def __init__(
        self,
        write: Callable[[list[Any]], None],
        turn: AbstractContextManager[object],
        *,
        rows: int = 256,
        linger: float = 0.005,
    ) -> None:
        self._write = write
        self._turn = turn
        self._rows = rows
        self._linger = linger
        self._crowded = False
        self._awaited = 0  # in the queue
        self._changed = threading.Condition()
        self._queue: list[tuple[Any, _Waiter]] = []
        self._closing = False
        self.broken: str | None = None
        self.unusable: str | None = None
        self._thread = threading.Thread(target=self._run, name="autorubric-ledger", daemon=True)
        self._thread.start()

    def submit(self, thing: Any, waiter: Future[None] | None = None, *, awaited: bool = True) -> asyncio.Future[None]:
        """Return a future of the running loop that resolves once `thing` is durable.

        A caller without a loop gives a `waiter` of its own.
        """
        future: Any = asyncio.get_running_loop().create_future() if waiter is None else waiter
        with self._changed:
            if not self._thread.is_alive():
                self.unusable = self.unusable or "the ledger was opened in another process; open it in this one"
            if self.unusable is not None:
                raise LedgerError(self.unusable)
            self._queue.append((thing, future))
            self._awaited += awaited
            if len(self._queue) in {1, self._rows} or (awaited and self._awaited == 1):
                self._changed.notify()
        return future  # type: ignore[no-any-return]

    def write(self, thing: Any) -> None:
        """Write `thing`, and block until it is durable."""
        future: Future[None] = Future()
        self.submit(thing, future)
        future.result()

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        with self._changed:
            self._closing = True
            self.unusable = self.broken or "the ledger is closed"
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait_for_batch():
            batch: list[tuple[Any, _Waiter]] = []
            problem = None
            try:
                with self._turn:
                    with self._changed:  # including what came while another process wrote
                        batch, self._queue = self._queue[: self._rows], self._queue[self._rows :]
                        self._crowded, self._awaited = self._awaited > 1, len(self._queue)
                    self._write([thing for thing, _ in batch])
            except Exception as error:  # no waiter may hang, and nothing may look recorded
                problem = str(error if isinstance(error, LedgerError) else build_write_error(error))
                with self._changed:
                    self.broken = self.unusable = problem
                    batch += self._queue
                    self._queue = []
            _acknowledge([waiter for _, waiter in batch], problem)
            if problem is not None:
                return

    def _wait_for_batch(self) -> bool:
        """Return whether there is something to commit now; False at the end."""

        def is_due() -> bool:
            return self._closing or len(self._queue) >= self._rows

        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._queue)
            if not self._awaited:
                self._changed.wait_for(lambda: self._awaited or is_due(), PATIENCE)
            if self._crowded and not is_due():
                self._changed.wait_for(is_due, self._linger)
            return bool(self._queue)


def _acknowledge(waiters: list[_Waiter], problem: str | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop | None, list[_Waiter]] = defaultdict(list)
    for waiter in waiters:
        by_loop[None if isinstance(waiter, Future) else waiter.get_loop()].append(waiter)
    for loop, settled in by_loop.items():
        if loop is None:
            _settle(settled, problem)
            continue
        # Nobody waits on a closed loop.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled, problem)


def _settle(waiters: list[_Waiter], problem: str | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if problem is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(LedgerError(problem))
