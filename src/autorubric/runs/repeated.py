"""A finished run that is repeated: where nothing that shapes its files has changed, they stand as they are.

The ledger holds a digest of all of it, so that a lost or replaced ledger makes no run finished.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from autorubric import __version__
from autorubric.llm.records.ledger import Ledger

_NOTE = "finished"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What a run is made of, and the files that it leaves.

    Attributes:
        ledger: of the run.
        made_of: everything that shapes the files except the code, as JSON values; of any other value the text counts.
        files: that the run writes; a missing one differs from an empty one.
    """

    ledger: Ledger
    made_of: Any
    files: tuple[Path, ...]

    def find(self) -> Any:
        """What was kept when the same run finished, if its files and replies are what they were; None otherwise."""
        found = self.ledger.find_note(_NOTE)
        if found is None or found["digest"] != self._digest() or not self.ledger.is_intact:
            return None
        return found["kept"]

    def keep(self, value: Any) -> None:
        """Record that the run has finished, with a value for `find`."""
        self.ledger.keep_note(_NOTE, {"digest": self._digest(), "kept": value})

    def _digest(self) -> str:
        calls = [[total.role, total.model, total.calls, total.failed] for total in self.ledger.totals()]
        made_of = [__version__, _code(), calls, self.made_of]
        digest = blake2b(json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=16)
        for path in self.files:
            digest.update(_content(path))
        return digest.hexdigest()


def _content(path: Path) -> bytes:
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        return b"missing"
    return digest.digest()


@cache
def _code() -> list[list[Any]]:
    """Names, sizes and times of this package's files: a working copy changes without a new version."""
    folder = Path(__file__).parents[1]
    files = [path for path in folder.rglob("*") if path.suffix != ".pyc" and path.is_file()]
    states = [path.stat() for path in files]
    return sorted(
        [str(path.relative_to(folder)), state.st_size, state.st_mtime_ns]
        for path, state in zip(files, states, strict=True)
    )
