"""A process that this one starts, and the talk with it: lines of JSON, both ways."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True, eq=False)
class Child:
    """A process, and what it says.

    Attributes:
        process: the last one that was started; None before the first.
        words: what it says; None when it has ended.
    """

    process: subprocess.Popen[bytes] | None = None
    words: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)

    def tell(self, **word: Any) -> None:
        """Send a word to the process; one that has ended hears nothing."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.process.stdin.write(json.dumps(word).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return

    @contextmanager
    def started(
        self, module: str, order: Mapping[str, Any], files: Iterable[int] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process that runs a module; at the end of the block it hears that nobody listens, and is waited for.

        Args:
            module: what it runs.
            order: the first word it hears.
            files: descriptors that it inherits.
        """
        command, pipe, loop = [sys.executable, "-m", module], subprocess.PIPE, asyncio.get_running_loop()
        kept = tuple(files)
        # In a session of its own: Ctrl-C reaches this process alone, which tells the others.
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, start_new_session=True, pass_fds=kept
        ) as self.process:
            self.tell(**order)
            listener = threading.Thread(target=_listen, args=(self, self.process, loop), daemon=True)
            listener.start()
            try:
                yield self.process
            finally:
                with suppress(OSError):  # it has ended
                    if self.process.stdin is not None:
                        self.process.stdin.close()
                listener.join()


def _listen(one: Child, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Pass on what a process says, and None when it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            word = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        loop.call_soon_threadsafe(one.words.put_nowait, word)
    loop.call_soon_threadsafe(one.words.put_nowait, None)
