"""The package's event loop, and the garbage collector and signals of the process during long runs."""

import asyncio
import atexit
import gc
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from autorubric.errors import called_at, find_caller

T = TypeVar("T")

_RARELY = 200_000
"""Net new objects before a collection. 256 calls in flight allocate 20,000; with this, 500 calls caused one."""

_STEP = 1.0
"""Seconds after which a waiting thread checks for signals."""

_listeners: ContextVar[list[Callable[[], object]] | None] = ContextVar("listeners", default=None)
_lock = threading.Lock()
_runs = 0
_frozen = False
_threshold = gc.get_threshold()
_running: tuple[int, asyncio.AbstractEventLoop, threading.Thread] | None = None


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; also works inside a running event loop (a notebook), which it blocks.

    All calls in a process share one loop, so that connections stay open between them. The first Ctrl-C calls the
    listeners (see `on_interrupt`) and is raised when the coroutine has ended; without listeners, or when repeated,
    it cancels the coroutine.

    Raises:
        RuntimeError: called from a coroutine that this function runs, which would wait for itself.

    Example:
        >>> async def answer():
        ...     return 42
        >>> wait_for(answer())
        42
    """
    loop, thread = _ensure_loop()
    if thread is threading.current_thread():
        coroutine.close()
        raise RuntimeError("a synchronous call cannot be made from within another one; await the async function")
    listeners: list[Callable[[], object]] = []
    frame = find_caller()
    token, place = _listeners.set(listeners), called_at.set((frame.f_code.co_filename, frame.f_lineno))
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)  # the task's context is a copy of this one
    _listeners.reset(token)
    called_at.reset(place)
    try:
        try:
            return _await_result(future)
        except KeyboardInterrupt as interrupt:
            current = listeners.copy()
            listeners.clear()
            for heard in current:
                loop.call_soon_threadsafe(heard)
            if current:
                interrupt.add_note("replies are saved; to resume, make the same call again")
                _await_result(future)
            raise
    except BaseException:
        future.cancel()
        raise


def _await_result(future: Future[T]) -> T:
    """Wait for a future in short steps, because a signal to another thread would not end the wait."""
    while True:
        try:
            return future.result(timeout=_STEP)
        except TimeoutError:
            if future.done():
                return future.result()


@contextmanager
def on_interrupt(heard: Callable[[], object]) -> Iterator[None]:
    """Call `heard` in the running event loop when Ctrl-C reaches the `wait_for` that runs this coroutine, if any."""
    listeners = _listeners.get()
    if listeners is None:
        yield
        return
    listeners.append(heard)
    try:
        yield
    finally:
        with suppress(ValueError):  # it was called
            listeners.remove(heard)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's if it is installed, which needs less CPU per call, else asyncio's.

    Example:
        >>> loop = new_event_loop()
        >>> loop.close()
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely, and only among new objects, until the last such block of the process ends.

    A run allocates many objects and almost no cycles; the default settings cost more than a tenth of its CPU time.

    Example:
        >>> before = gc.get_threshold()
        >>> with rare_collections():
        ...     gc.get_threshold()
        (200000, 20, 20)
        >>> gc.get_threshold() == before
        True
    """
    global _runs, _threshold, _frozen  # noqa: PLW0603 - the collector is one for the process
    with _lock:
        _runs += 1
        if _runs == 1:
            _threshold, _frozen = gc.get_threshold(), gc.get_freeze_count() == 0
            gc.set_threshold(_RARELY, 20, 20)
            if _frozen:
                gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                gc.set_threshold(*_threshold)
                if _frozen:
                    gc.unfreeze()


@contextmanager
def no_collections() -> Iterator[None]:
    """Turn off garbage collection in a block that makes millions of values and no cycles.

    Example:
        >>> with no_collections():
        ...     gc.isenabled()
        False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # The first collection would scan all new objects, which are still young. Freezing and unfreezing makes
            # them old, unless other code keeps objects frozen (slow to count).
            if not (_runs and _frozen) and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _ensure_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    global _running  # noqa: PLW0603 - one loop a process is the point
    with _lock:
        # A forked child has the loop but not its thread.
        if _running is None or _running[0] != os.getpid():
            loop = new_event_loop()
            thread = threading.Thread(target=_run, args=(loop,), name="autorubric-sync", daemon=True)
            thread.start()
            atexit.register(_stop, loop, thread)
            _running = (os.getpid(), loop, thread)
        return _running[1], _running[2]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped; `sys.exit` in a task reaches the waiter and must not end the loop."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue
        return


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Close the loop's asynchronous generators, which hold connections, then the loop."""
    if not thread.is_alive():
        return
    asyncio.run_coroutine_threadsafe(_shut_down(loop), loop).result(timeout=5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=5)
    loop.close()


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    ending = [task for task in asyncio.all_tasks(loop) if task.cancelling()]
    if ending:  # they close their own generators
        await asyncio.wait(ending, timeout=4)
    await loop.shutdown_asyncgens()


_HANG_UP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows


@contextmanager
def on_shutdown(heard: Callable[[], object], terminated: Callable[[], object] | None = None) -> Iterator[None]:
    """Call `heard` in the running event loop at each Ctrl-C and SIGTERM, instead of ending the process.

    At SIGTERM, `terminated` is called instead if it is set.

    The first SIGHUP is heard, too, unless it is ignored, as under nohup: a terminal that is closed may send several.
    Signals reach only the main thread; in other threads this is `on_interrupt`.

    Example:
        >>> async def wait():
        ...     ended = asyncio.Event()
        ...     with on_shutdown(ended.set):
        ...         signal.raise_signal(signal.SIGINT)
        ...         await ended.wait()
        ...     return "ended"
        >>> asyncio.run(wait())
        'ended'
    """
    if threading.current_thread() is not threading.main_thread():
        with on_interrupt(heard):
            yield
        return
    loop = asyncio.get_running_loop()
    listeners = {signal.SIGINT: heard, signal.SIGTERM: terminated or heard}
    with ExitStack() as stack:
        try:
            for number, listener in listeners.items():
                loop.add_signal_handler(number, listener)
                stack.callback(loop.remove_signal_handler, number)
            if _HANG_UP is not None and signal.getsignal(_HANG_UP) is signal.SIG_DFL:
                loop.add_signal_handler(_HANG_UP, _call_once, loop, _HANG_UP, heard)
                stack.callback(loop.remove_signal_handler, _HANG_UP)
        except NotImplementedError:  # as on Windows
            for number, listener in listeners.items():
                former = signal.signal(number, lambda *_, listener=listener: loop.call_soon_threadsafe(listener))
                stack.callback(signal.signal, number, former)
        yield


def _call_once(loop: asyncio.AbstractEventLoop, number: signal.Signals, heard: Callable[[], object]) -> None:
    loop.add_signal_handler(number, lambda: None)
    heard()


def ignore_ending() -> None:
    """Ignore Ctrl-C, SIGTERM and SIGHUP in a process that its parent ends."""
    for number in filter(None, (signal.SIGINT, signal.SIGTERM, _HANG_UP)):
        signal.signal(number, signal.SIG_IGN)
