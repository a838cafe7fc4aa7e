"""Ctrl-C and SIGTERM, where the event loop hears signals and where it does not."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_heard(heard: Callable[[], object]) -> Iterator[None]:
    """Call `heard` in the running event loop at each Ctrl-C and SIGTERM, instead of ending the process.

    Signals reach the main thread only; in another thread nothing changes.

    Example:
        >>> async def wait():
        ...     ended = asyncio.Event()
        ...     with ending_heard(ended.set):
        ...         signal.raise_signal(signal.SIGINT)
        ...         await ended.wait()
        ...     return "ended"
        >>> asyncio.run(wait())
        'ended'
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        try:
            for number in _ENDING:
                loop.add_signal_handler(number, heard)
                stack.callback(loop.remove_signal_handler, number)
        except NotImplementedError:  # as on Windows
            stack.enter_context(_handled(lambda number, frame: loop.call_soon_threadsafe(heard)))
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
