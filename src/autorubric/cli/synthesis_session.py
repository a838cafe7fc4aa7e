"""One `synthesize` command: lock, ledger and models around the run, signals into it, figures out of it."""

from __future__ import annotations

from autorubric.synthesis.settings import SynthesisSettings

GRACE_SECONDS = 10
"""How long calls in flight may take to end after the first Ctrl-C."""

LEDGER_FOLDER = "ledger"


class Session:
    """A `synthesize` command under way.

    Args:
        settings: the run's settings.
        wait: wait for another process to leave the directory.
        export_only: make no call.
        show: how many finished rubrics to print.
        again: the command line that goes on with this run.
    """

    def __init__(self, settings: SynthesisSettings, *, wait: bool, export_only: bool, show: int, again: str) -> None:
        self._settings, self._wait, self._export_only = settings, wait, export_only
        self._show, self._again = show, again
        self._interrupts = 0
