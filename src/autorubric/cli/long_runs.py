"""What every command that runs long needs: an end in good order."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from autorubric.llm.executor import Executor
from autorubric.runs.progress import GRACE_SECONDS, Stop, Stoppable
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
        print(
            f"\nstopping: calls in flight have {GRACE_SECONDS:.0f} s to end, then everything is saved; "
            "press Ctrl-C again to leave at once",
            file=sys.stderr,
        )
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

    Only the main thread receives signals. On another one (in a notebook), whoever waits for the run cancels it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if run.interrupted:
            print(
                "leaving at once; what was answered is recorded, and the same command goes on from there",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
        print(
            f"\nstopping: calls in flight have {GRACE_SECONDS:.0f} s to end, then everything is saved; "
            "press Ctrl-C again to leave at once",
            file=sys.stderr,
        )
        run.interrupt()
        if run.executor is not None:
            loop.call_later(GRACE_SECONDS, run.executor.abandon, "interrupted")

    with ending_heard(interrupt):
        yield
