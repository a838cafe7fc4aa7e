"""How a run ends that a person or an error breaks off."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Protocol

from autorubric.background import interrupt_heard
from autorubric.llm.executor import Executor
from autorubric.system.signals import ending_heard

GRACE_SECONDS = 10.0
"""How long calls in flight may take to end after the first Ctrl-C."""


@asynccontextmanager
async def no_call_left_behind(executor: Executor | None) -> AsyncIterator[None]:
    """A block behind which no call goes on: where it raises, calls in flight are given up and waited for.

    What comes out is the error itself, not the group that tasks raised it in.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     async with no_call_left_behind(None), asyncio.TaskGroup() as tasks:
        ...         tasks.create_task(asyncio.sleep(0))
        ...         raise OSError("the disk is full")
        >>> asyncio.run(main())
        Traceback (most recent call last):
        OSError: the disk is full
    """
    try:
        yield
    except BaseException as error:
        if executor is not None:
            executor.abandon("the run was broken off")
            await executor.drain()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


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
def interruptible(run: Interruptible, *, signals: bool = True) -> Iterator[None]:
    """Let Ctrl-C (or SIGTERM) end the run in good order, and a second one at once.

    Only the main thread receives signals. On another one (in a notebook), the synchronous call that waits for the run
    passes the first Ctrl-C on, and cancels the run at the second one.

    Args:
        run: what is interrupted.
        signals: take signals over on the main thread, which then is this package's own.
    """
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

    is_main = threading.current_thread() is threading.main_thread()
    with interrupt_heard(interrupt), ending_heard(interrupt) if signals and is_main else nullcontext():
        yield
