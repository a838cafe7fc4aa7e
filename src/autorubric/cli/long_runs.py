"""What every command that runs long needs: an end in good order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from autorubric.background import interrupt_heard
from autorubric.llm.executor import Executor
from autorubric.runs.progress import GRACE_SECONDS, STOPPING, Stop, Stoppable
from autorubric.system.signals import ending_heard


class KeyboardStop(Stop):
    """Stops a run at Ctrl-C or SIGTERM in good order, and at a second one at once."""

    @contextmanager
    def bound(self, run: Stoppable) -> Iterator[None]:
        """Hear signals while the run goes on."""
        with super().bound(run), ending_heard(self._heard):
            yield

    def _heard(self) -> None:
        if self.requested:
            print(
                "leaving at once; what was answered is recorded, and the same command goes on from there",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
        print(STOPPING, file=sys.stderr)
        self()


class Interruptible(Protocol):
    """A run that can be stopped by a person."""

    @property
    def interrupted(self) -> bool:
        """Whether it was."""
        ...

    @property
    def executor(self) -> Executor | None:
        """Who makes its calls."""
        ...

    def interrupt(self) -> None:
        """Open nothing more; what is in flight ends by itself."""
        ...


@contextmanager
def interruptible(run: Interruptible) -> Iterator[None]:
    """Let Ctrl-C (or SIGTERM) end the run in good order, and a second one at once.

    Only the main thread receives signals. On another one (in a notebook), the synchronous call that
    waits for the run passes the first Ctrl-C on, and cancels the run at the second one.
    """
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if run.interrupted:
            print(
                "leaving at once; what was answered is recorded, and the same command goes on from there",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
        print(STOPPING, file=sys.stderr)
        run.interrupt()
        if run.executor is not None:
            loop.call_later(GRACE_SECONDS, run.executor.abandon, "interrupted")

    with interrupt_heard(interrupt), ending_heard(interrupt):
        yield
