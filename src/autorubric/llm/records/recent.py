"""Replies kept in memory, for callers who have no run directory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from autorubric.llm.records.rows import CallRow
from autorubric.llm.request import Reply


class RecentReplies:
    """The last replies of this process; stands where a ledger would, and keeps nothing on a disk.

    Asking the same thing again soon costs nothing, and memory stays bounded however long the process lives.

    Args:
        most: replies kept; the one that was not asked for the longest goes first.

    Example:
        >>> import asyncio
        >>> recent = RecentReplies()
        >>> asyncio.run(recent.record(CallRow(b"k" * 16, "", "judge", "local/tiny", 0, 0, Reply("MET"))))
        >>> recent.find(b"k" * 16).text, recent.find(b"?" * 16)
        ('MET', None)
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._replies: OrderedDict[bytes, Reply] = OrderedDict()
        self._notes: dict[str, Any] = {}

    def find(self, key: bytes) -> Reply | None:
        """The reply under `key`, or None where it was never there or is forgotten."""
        reply = self._replies.get(key)
        if reply is not None:
            self._replies.move_to_end(key)
        return reply

    async def record(self, row: CallRow) -> None:
        """Keep a reply; failures are not kept."""
        self.record_late(row)

    def record_late(self, row: CallRow) -> None:
        """Keep a reply; failures are not kept."""
        if isinstance(row.outcome, Reply):
            self._replies[row.key] = row.outcome
            if len(self._replies) > self._most:
                self._replies.popitem(last=False)

    def keep_note(self, name: str, value: Any) -> None:
        """Keep a value under a name, in place of the one before."""
        self._notes[name] = value

    def find_note(self, name: str) -> Any:
        """The value kept under a name, or None."""
        return self._notes.get(name)
