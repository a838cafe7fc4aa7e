"""The blocks of a run that no worker of a cluster works on."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class BlockQueue:
    """Numbers blocks from 0 on, and gives back first what a lost worker had not finished.

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
        """The next block; None where there is no more."""
        if self._returned:
            return heapq.heappop(self._returned)
        if self._next >= self._end:
            return None
        self._next += 1
        return self._next - 1

    def put_back(self, blocks: Iterable[int]) -> None:
        """Give these blocks to others."""
        for block in blocks:
            heapq.heappush(self._returned, block)

    def end_at(self, block: int) -> None:
        """Note that a block lies beyond the last record."""
        self._end = min(self._end, block)

    def __len__(self) -> int:
        """How many blocks were put back and not taken again."""
        return len(self._returned)
