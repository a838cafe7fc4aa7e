"""Many writes to one transaction, on one thread, acknowledged after the commit."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from autorubric.errors import LedgerError

T = TypeVar("T")
_Waiter: TypeAlias = "asyncio.Future[Any] | Future[Any]"

PATIENCE = 0.005
"""Seconds for which a write that nobody awaits waits for one that somebody does."""


class GroupCommit:
    """Writes batches on its own thread, and resolves each write's future once it is on the disk.

    An idle thread commits a write at once; writes that arrive during a commit form the next batch of up to `rows`.
    After a batch of several, the next one waits up to `linger` seconds for more. A write that nobody awaits leaves
    with the next one that somebody does, after `PATIENCE` at most: a sync of its own would delay the next
    one. When a batch fails, all its writes and all later ones get a `LedgerError`: after a full disk, nothing may
    look recorded that is not.

    `write` puts a batch into the tables and returns its results, which `after_commit` gets before futures resolve;
    `turn` is held during each transaction. Only the thread uses the connection until `close` returns. `broken` says
    why a batch could not be written, `unusable` why nothing more can be: that, or the ledger is closed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        write: Callable[[list[Any]], list[Any]],
        after_commit: Callable[[list[Any]], None],
        turn: AbstractContextManager[object],
        *,
        rows: int = 256,
        linger: float = 0.005,
    ) -> None:
        self._connection = connection
        self._write = write
        self._after_commit = after_commit
        self._turn = turn
        self._rows = rows
        self._linger = linger
        self._crowded = False
        self._awaited = 0  # of the queue
        self._changed = threading.Condition()
        self._queue: list[tuple[Any, _Waiter]] = []
        self._closing = False
        self.broken: str | None = None
        self.unusable: str | None = None
        self._thread = threading.Thread(target=self._run, name="autorubric-ledger", daemon=True)
        self._thread.start()

    def submit(self, thing: Any, waiter: Future[Any] | None = None, *, awaited: bool = True) -> asyncio.Future[Any]:
        """A future of the running loop that resolves to the result of writing `thing` once that is durable.

        A caller without a loop gives a `waiter` of its own.
        """
        future: Any = asyncio.get_running_loop().create_future() if waiter is None else waiter
        with self._changed:
            if self.unusable is not None:
                raise LedgerError(self.unusable)
            self._queue.append((thing, future))
            self._awaited += awaited
            if len(self._queue) in {1, self._rows} or (awaited and self._awaited == 1):
                self._changed.notify()
        return future  # type: ignore[no-any-return]

    def write(self, thing: Any) -> Any:
        """Write `thing`, and block until it is durable."""
        future: Future[Any] = Future()
        self.submit(thing, future)
        return future.result()

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        with self._changed:
            self._closing = True
            self.unusable = self.broken or "the ledger is closed"
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait():
            batch: list[tuple[Any, _Waiter]] = []
            results, problem = self._commit(batch)
            if problem is not None:
                with self._changed:
                    self.broken = self.unusable = problem
                    batch += self._queue
                    self._queue = []
            _acknowledge([waiter for _, waiter in batch], results, problem)
            if problem is not None:
                return

    def _wait(self) -> bool:
        """Whether there is something to commit now; False at the end."""

        def full() -> bool:
            return self._closing or len(self._queue) >= self._rows

        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._queue)
            if not self._awaited:
                self._changed.wait_for(lambda: self._awaited or full(), PATIENCE)
            if self._crowded and not full():
                self._changed.wait_for(full, self._linger)
            return bool(self._queue)

    def _take(self) -> list[tuple[Any, _Waiter]]:
        with self._changed:
            batch, self._queue = self._queue[: self._rows], self._queue[self._rows :]
            self._crowded, self._awaited = self._awaited > 1, len(self._queue)
        return batch

    def _commit(self, batch: list[tuple[Any, _Waiter]]) -> tuple[list[Any], str | None]:
        """Commit the next writes, which it adds to `batch`: those too that came while another process wrote."""
        try:
            with translate_write_errors(self._connection), self._turn:
                batch += self._take()
                results = run_transaction(self._connection, lambda: self._write([thing for thing, _ in batch]))
                self._after_commit(results)
        except LedgerError as error:
            return [], str(error)
        return results, None


def run_transaction(connection: sqlite3.Connection, work: Callable[[], T]) -> T:
    """Run `work` as one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    result = work()
    connection.execute("COMMIT")
    return result


@contextlib.contextmanager
def translate_write_errors(connection: sqlite3.Connection) -> Iterator[None]:
    """Turn any error of a transaction into a `LedgerError`, after a rollback."""
    try:
        yield
    except Exception as error:  # no waiter may hang, and nothing may look recorded
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        advice = "what it holds is safe; fix this and run the same command again"
        raise LedgerError(f"the ledger cannot be written: {error}; {advice}") from error


def _acknowledge(waiters: list[_Waiter], results: list[Any], problem: str | None) -> None:
    outcomes = results if problem is None else [LedgerError(problem) for _ in waiters]
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiter, Any]]] = defaultdict(list)
    for waiter, outcome in zip(waiters, outcomes, strict=True):
        if isinstance(waiter, Future):
            _settle([(waiter, outcome)])
        else:
            by_loop[waiter.get_loop()].append((waiter, outcome))
    for loop, settled in by_loop.items():
        # Nobody waits on a closed loop.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: list[tuple[_Waiter, Any]]) -> None:
    for waiter, outcome in settled:
        if waiter.done():
            continue
        if isinstance(outcome, LedgerError):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
