"""One open ledger for everybody in this process who uses the same directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from autorubric.llm.records.ledger import Ledger

_Place: TypeAlias = tuple[int, Path]


@dataclass
class _Shared:
    ledger: Ledger
    users: int = 0


# Reentrant: a grader that is garbage-collected closes its ledger wherever its thread happens to be.
_lock = threading.RLock()
_open: dict[_Place, _Shared] = {}


@contextmanager
def shared_ledger(directory: Path) -> Iterator[Ledger]:
    """The ledger of a cache directory, which other graders and other processes may use at the same time.

    Within a process all users get the same ledger; the last one closes it. Processes take turns to write, and each
    finds what the others have recorded.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with shared_ledger(Path(folder)) as first, shared_ledger(Path(folder)) as second:
        ...         first is second
        True
    """
    # A forked child has its parent's entries, but not the thread that writes.
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
            last = shared.users == 0
            if last:
                del _open[place]
        if last:
            shared.ledger.close()
