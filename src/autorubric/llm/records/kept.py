"""Where replies are kept, as the executor sees it."""

from __future__ import annotations

from typing import Any, Protocol

from autorubric.llm.records.claims import Claims
from autorubric.llm.records.departures import Departures
from autorubric.llm.records.rows import CallRow
from autorubric.llm.request import Reply


class Records(Protocol):
    """Where replies are kept and found: a `Ledger`, or `NoRecords` for callers without a run directory."""

    departures: Departures
    """The calls in flight."""
    claims: Claims
    """What is asked for now, where others may ask the same."""

    def find(self, key: bytes) -> Reply | None:
        """The reply under `key`, or None."""
        ...

    async def record(self, row: CallRow) -> None:
        """Return when `row` is kept."""
        ...

    def record_late(self, row: CallRow) -> None:
        """Keep `row` without waiting, for a caller that is being cancelled."""
        ...

    def keep_note(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name, in place of the one before."""
        ...

    def find_note(self, name: str) -> Any:
        """The value kept under a name, or None."""
        ...
