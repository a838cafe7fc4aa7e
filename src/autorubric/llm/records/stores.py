"""Where replies are stored without a run directory: in a cache directory that several graders share, or nowhere."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.crash_logs import InFlightLog
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Reply


class NoRecords:
    """Stands in for a ledger where the caller wants none: every call is made, and no reply is stored."""

    def __init__(self) -> None:
        self._notes: dict[str, Any] = {}
        self.in_flight = InFlightLog(Path(), is_open=False)
        self.claims, self.version = None, -1

    def check_writable(self) -> None:
        """Nothing: what is not stored cannot fail."""

    def flush(self) -> None:
        """Nothing: there is nothing to write."""

    def find(self, key: bytes) -> Reply | None:
        """None: no reply is stored."""
        return None

    def begin_session(self) -> None:
        """Nothing: no reply is from an earlier session."""

    def was_asked(self, item: str, role: str, model: str) -> bool:
        """False: no call is stored."""
        return False

    def queue(self, row: CallRow) -> asyncio.Future[None]:
        """Store nothing; the future is done."""
        stored = asyncio.get_running_loop().create_future()
        stored.set_result(None)
        return stored

    def sum_worst_cases(self) -> Spending:
        """Nothing: no call is stored."""
        return Spending()

    def keep_note(self, name: str, value: Any, merge: Callable[[Any, Any], Any] | None = None) -> None:
        """Keep a value under a name in memory; there is never a previous one of another process."""
        self._notes[name] = value

    def find_note(self, name: str) -> Any:
        """Return the value stored under a name, or None."""
        return self._notes.get(name)


Records: TypeAlias = Ledger | NoRecords
"""Where an executor finds and records replies."""


@dataclass
class _Shared:
    ledger: Ledger
    users: int = 0


# Reentrant: a grader that is garbage-collected closes its ledger on whatever thread that happens.
_lock = threading.RLock()
_open: dict[tuple[int, Path], _Shared] = {}


@contextmanager
def shared_ledger(directory: Path) -> Iterator[Ledger]:
    """The ledger of a cache directory, which other graders and other processes may use at the same time.

    Within a process all users get the same ledger; the last one closes it. Processes write one after the other, and
    each finds what the others have recorded.
    """
    # A forked child has its parent's entries, but not the writer thread.
    place = (os.getpid(), directory.resolve())
    with _lock:
        shared = _open.get(place)
        if shared is None:
            shared = _open[place] = _Shared(Ledger.open(directory, shared=True))
        shared.users += 1
    try:
        yield shared.ledger
    finally:
        with _lock:
            shared.users -= 1
            last = shared.users == 0 and place[0] == os.getpid()  # not the parent's
            if last:
                del _open[place]
        if last:
            shared.ledger.close()
