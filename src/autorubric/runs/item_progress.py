"""How far an evaluation is, for callers of the library; the command line has its own display."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from autorubric.runs.config import EvalConfig

LINE_SECONDS = 10.0
"""Between two lines where standard error is not a terminal; a shorter run prints nothing."""

_UPDATE_SECONDS = 0.25


class Advance(Protocol):
    """Called for each item that ended."""

    def __call__(self, *, failed: bool = False) -> None: ...  # noqa: D102


@contextmanager
def item_progress(total: int, config: EvalConfig) -> Iterator[Advance]:
    """A function to call for each item that ended, whose progress is shown while the block runs.

    A notebook shows an output that updates, a terminal a bar, and any other standard error (a log) plain lines, the
    first one after ten seconds. `show_progress=False` shows nothing.
    """
    if not config.show_progress:
        yield _silent
    elif (display := _notebook_display()) is not None:
        with _counted(total, _NotebookOutput(display), _UPDATE_SECONDS, live=True) as advance:
            yield advance
    elif sys.stderr.isatty():
        with _bar(total) as advance:
            yield advance
    else:
        with _counted(total, _print_line, LINE_SECONDS) as advance:
            yield advance


def _silent(*, failed: bool = False) -> None:
    pass


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _NotebookOutput:
    """One output of a notebook's cell, replaced each time it is called."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` where this process is a notebook's kernel, else None."""
    if "IPython" not in sys.modules:
        return None
    from importlib import import_module

    shell = import_module("IPython").get_ipython()
    display: Callable[..., Any] = import_module("IPython.display").display
    return display if getattr(shell, "kernel", None) is not None else None


@contextmanager
def _counted(total: int, show: Callable[[str], None], seconds: float, *, live: bool = False) -> Iterator[Advance]:
    """Show a line at most every so many seconds, and a last one after others; a live display also shows the start."""
    started = shown = time.monotonic()
    done = failures = 0
    last = -1 if live else 0

    def told() -> str:
        failed = f" ({failures} failed)" if failures else ""
        return f"{done}/{total} items graded{failed}, {time.monotonic() - started:.0f} s"

    def advance(*, failed: bool = False) -> None:
        nonlocal done, failures, last, shown
        done, failures = done + 1, failures + failed
        if time.monotonic() - shown >= seconds:
            last, shown = done, time.monotonic()
            show(told())

    if live:
        show(told())
    try:
        yield advance
    finally:
        if last not in (0, done):
            show(told())


@contextmanager
def _bar(total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("Grading", total=total)

        def advance(*, failed: bool = False) -> None:
            bar.advance(task)

        yield advance
