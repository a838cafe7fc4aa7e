"""The records that a run processes at a time, and the blocks of records that a driver assigns to cluster workers."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from autorubric.llm.sharing import Amount, sharing, turn, turns

if TYPE_CHECKING:
    from autorubric.llm.budget import Budget
    from autorubric.runs.stopping import StoppableRun

T = TypeVar("T")

BLOCK = 64
"""Number of groups of records per block; equal records share requests and form one group."""


@dataclass
class BlockQueue:
    """Hands out consecutive block numbers from 0; the unfinished blocks of a lost worker come first.

    Example:
        >>> blocks = BlockQueue()
        >>> blocks.take(), blocks.take()
        (0, 1)
        >>> blocks.put_back({0})
        >>> blocks.end_at(2)
        >>> len(blocks), blocks.take(), blocks.take()
        (1, 0, None)
    """

    _next: int = 0
    _end: float = math.inf
    _returned: list[int] = field(default_factory=list)

    def take(self) -> int | None:
        """Return the next block; None if there is no more."""
        if self._returned:
            return heapq.heappop(self._returned)
        if self._next >= self._end:
            return None
        self._next += 1
        return self._next - 1

    def put_back(self, blocks: Iterable[int]) -> None:
        """Return blocks to the queue, for other workers."""
        for block in blocks:
            heapq.heappush(self._returned, block)

    def end_at(self, block: int) -> None:
        """Note that this block lies beyond the last record, so no further blocks are handed out."""
        self._end = min(self._end, block)

    def __len__(self) -> int:
        """Return the number of blocks that were put back and not taken again."""
        return len(self._returned)


class Feed:
    """The blocks assigned to a cluster worker, and its finished records. Use it only in the event loop of its run.

    Args:
        say: sends a message to the driver.

    Attributes:
        round: the number of completed passes over all records.
    """

    def __init__(self, say: Callable[..., None]) -> None:
        self.round = 0
        self._say = say
        self._given: asyncio.Queue[int | None] = asyncio.Queue()
        self._block_of: dict[int, int] = {}
        self._left: dict[int, int] = {}
        self._lines: deque[bytes] = deque()

    def give(self, block: int | None) -> None:
        """Queue the next block; None if there is no more work."""
        self._given.put_nowait(block)

    def mark_ended(self, key: int, line: bytes | None = None) -> None:
        """Note that a record has ended and all of its replies are durable.

        Args:
            key: the record's key.
            line: the line of its result, if the run writes one.
        """
        if line is not None:
            self._lines.append(line)
        block = self._block_of.pop(key)
        self._left[block] -= 1
        self._report_if_done(block)

    def take_lines(self) -> list[bytes]:
        """Return the result lines of records that ended since the last call. Thread-safe."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    async def receive_records(
        self, grouped: Callable[[], Iterable[Sequence[T]]], key: Callable[[T], int]
    ) -> AsyncGenerator[T, None]:
        """Yield the records of each assigned block in turn, until the driver has no more blocks."""
        self._say(ready=True)
        reading, position = iter(grouped()), 0
        while True:
            self._say(want=True)
            block = await self._given.get()
            if block is None:
                return
            if block * BLOCK < position:  # of a worker that was lost
                reading, position = iter(grouped()), 0
            met = list(islice(reading, block * BLOCK - position, (block + 1) * BLOCK - position))
            position = (block + 1) * BLOCK
            if not met:
                self._say(beyond=block)
            found = [record for group in met for record in group]
            self._left[block] = len(found)
            self._block_of.update(dict.fromkeys(map(key, found), block))
            self._report_if_done(block)
            for record in found:
                yield record

    def _report_if_done(self, block: int) -> None:
        if not self._left[block]:
            del self._left[block]
            self._say(done=block)


feed: ContextVar[Feed | None] = ContextVar("feed", default=None)


@contextmanager
def all_records() -> Iterator[None]:
    """Within the `with` block, let a cluster worker read all records, as every other run does."""
    before = feed.set(None)
    try:
        yield
    finally:
        feed.reset(before)


class Room:
    """Limits how many records may be in progress at a time.

    With a budget, a record is started only if the budget covers the expected cost of this and all open records.
    Otherwise a small budget would be spent on many records, few of them finished.

    Args:
        window: the maximum number of open records.
        budget: what the run may spend.
        expected: the assumed cost of a record until the first one has ended; then the mean cost is used. Records that
            cost nothing because their replies were recorded do not count.
    """

    def __init__(self, window: int, budget: Budget | None = None, expected: Amount | None = None) -> None:
        self._window, self._budget = window, budget
        self._expected = expected or Amount()
        self._total, self._ended = Amount(), 0
        self._costs: dict[int, Amount] = {} if budget is None else budget.costs
        self._change = asyncio.Event()

    async def wait(self) -> None:
        """Return once there is room for another record."""
        while self._costs and not self._has_room():
            self._change.clear()
            await self._change.wait()

    def enter(self, number: int) -> Callable[[object], None]:
        """Note that record `number` begins; return the function to call when it has ended."""
        self._costs[number] = Amount()
        return lambda _: self._leave(number)

    def _leave(self, number: int) -> None:
        cost = self._costs.pop(number)
        if cost != Amount():
            self._total, self._ended = self._total.plus(cost), self._ended + 1
            self._expected = self._total.split(self._ended)
        self._change.set()

    def _has_room(self) -> bool:
        if len(self._costs) >= self._window:
            return False
        return self._budget is None or self._is_covered(self._budget)

    def _is_covered(self, budget: Budget) -> bool:
        """Return whether the budget, or this process's share, covers the rest of all open records and a new one.

        The worst case of the last call counts too, because it is sent only if the budget covers that.
        """
        unspent, shared = budget.compute_left().plus(budget.reserved).minus(budget.admitted), sharing.get()
        if shared is not None and shared.left is not None:
            unspent = unspent.plus(shared.left.split(shared.processes))
        if self._expected.times(len(self._costs) + 1).is_within(unspent):
            return True  # without a look at each open record, of which there may be thousands
        needed = self._expected
        for cost in self._costs.values():
            needed = needed.plus(self._expected.minus(cost).clip())
        return needed.is_within(unspent)


async def work_through(
    records: AsyncGenerator[T, None],
    work: Callable[[T], Coroutine[Any, Any, None]],
    room: Room,
    run: StoppableRun | None = None,
) -> None:
    """Process all records, as many at a time as there is room for.

    Once the `run` is stopped, no further record is started. The first error, also one raised by `records`, stops it
    and is raised when the open records have ended: a call in flight may be billed, so its reply must be recorded.
    """
    errors: list[Exception] = []

    async def attempt(part: Callable[..., Coroutine[Any, Any, None]], *given: T) -> None:
        try:
            await part(*given)
        except Exception as error:
            errors.append(error)
            opening.cancel()  # it may wait for a block that a driver only assigns when this record has ended
            if run is not None:
                run.stop(str(error))

    async def open_records() -> None:
        async with aclosing(records) as given:
            async for record in given:
                await room.wait()
                if run is not None and run.stopped is not None:
                    break
                leave = room.enter(number := next(turns))
                (own := copy_context()).run(turn.set, number)
                task = group.create_task(attempt(work, record), context=own)
                task.add_done_callback(leave)
                await asyncio.sleep(0)  # sends its first call before the next prompts are built

    async with asyncio.TaskGroup() as group:
        opening = group.create_task(attempt(open_records))
    if errors:
        raise errors[0]


def feed_records(
    records: Iterable[T], key: Callable[[T], int], grouped: Callable[[], Iterable[Sequence[T]]]
) -> AsyncGenerator[T, None]:
    """Yield the records of a run: all of them or, in a cluster worker, those assigned to it.

    Args:
        records: the records of the whole run.
        key: identifies a record.
        grouped: returns the records in groups of equal ones; called again to repeat a lost block.
    """
    own = feed.get()
    return _iter_records(records) if own is None else own.receive_records(grouped, key)


async def _iter_records(records: Iterable[T]) -> AsyncGenerator[T, None]:
    for record in records:
        yield record


def note_ended(key: int, line: str | bytes | None = None) -> None:
    """Tell the driver of a cluster that a record has ended; does nothing in other runs."""
    if (own := feed.get()) is not None:
        own.mark_ended(key, line.encode() if isinstance(line, str) else line)
