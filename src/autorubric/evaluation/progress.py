"""A progress bar for callers of the library; the command line has its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autorubric.evaluation.config import EvalConfig


@contextmanager
def item_progress(total: int, config: EvalConfig) -> Iterator[Callable[[], None]]:
    """A function to call for each item that ended; shows a bar where standard error is a terminal."""
    if not (config.show_progress and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("Grading", total=total)
        yield lambda: bar.advance(task)
