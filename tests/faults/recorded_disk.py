"""A process that runs `autorubric` commands and writes down what it does to the disk.

`python -m tests.faults.recorded_disk LOG FAILING COMMAND...`: each line of LOG is one event, as JSON. A sync of a
path that holds the text FAILING (if it is not empty) fails with EIO.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

_sync, _connect = os.fsync, sqlite3.connect


class Recorded(sqlite3.Connection):
    """A connection that says what it wrote, and under which settings, when it is closed."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.path = str(args[0])
        self.statements: list[str] = []
        self.set_trace_callback(self.statements.append)

    def close(self) -> None:
        try:
            written = sum(one.startswith("INSERT INTO calls") for one in self.statements)
            self.set_trace_callback(None)
            names = ("synchronous", "journal_mode")
            found = {name: self.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
        except sqlite3.ProgrammingError:  # closed before
            return
        write({"event": "close", "path": self.path, "calls": written, **found})
        super().close()


def write(event: dict[str, Any]) -> None:
    event["thread"] = threading.get_ident()
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps(event) + "\n")


def fsync(descriptor: int) -> None:
    path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    if FAILING and FAILING in path:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    _sync(descriptor)
    write({"event": "sync", "path": path, "size": os.fstat(descriptor).st_size})


def watch(event: str, args: tuple[Any, ...]) -> None:
    if event == "os.rename":
        source, target = (os.path.realpath(os.fsdecode(one)) for one in args[:2])
        if Path(target).is_relative_to(Path.cwd()):  # Python renames what it compiles
            write({"event": "rename", "path": source, "to": target, "size": Path(source).stat().st_size})


if __name__ == "__main__":
    LOG, FAILING = Path(sys.argv[1]), sys.argv[2]
    os.fsync = fsync  # type: ignore[assignment]
    sqlite3.connect = lambda *args, **settings: _connect(*args, factory=Recorded, **settings)  # type: ignore[assignment]
    sys.addaudithook(watch)

    from autorubric.cli.app import run

    sys.exit(run(sys.argv[3:]))
