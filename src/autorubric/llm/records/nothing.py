"""No records: for callers without a run directory."""

from __future__ import annotations

from typing import Any

from autorubric.llm.records.claims import Claims
from autorubric.llm.records.departures import Departures
from autorubric.llm.records.rows import CallRow
from autorubric.llm.request import Reply


class NoRecords:
    """Stands in for a ledger where nobody asked for one: each call is made, and no reply is kept.

    Example:
        >>> import asyncio
        >>> records = NoRecords()
        >>> asyncio.run(records.record(CallRow(b"k" * 16, "", "judge", "local/tiny", 0, 0, Reply("MET"))))
        >>> records.find(b"k" * 16) is None
        True
    """

    def __init__(self) -> None:
        self._notes: dict[str, Any] = {}
        self.departures = Departures(None)
        self.claims = Claims(None)

    def find(self, key: bytes) -> Reply | None:
        """None: no reply is kept."""
        return None

    async def record(self, row: CallRow) -> None:
        """Keep nothing."""

    def record_late(self, row: CallRow) -> None:
        """Keep nothing."""

    def keep_note(self, name: str, value: Any) -> None:
        """Keep a value under a name while the process lives."""
        self._notes[name] = value

    def find_note(self, name: str) -> Any:
        """The value kept under a name, or None."""
        return self._notes.get(name)
