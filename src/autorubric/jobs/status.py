"""`autorubric.status`: the state of a run, from another process."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from autorubric.jobs.job import job
from autorubric.runs.status import RunStatus, grading_standing, run_status
from autorubric.settings import FileName, Settings, setting

RunDirectory: TypeAlias = Path | str


class StatusSettings(Settings):
    """The settings of `autorubric.status` and `autorubric status`."""

    run: FileName = setting(..., "Run directory of any command.", argument=True, group="Input", reads=True)
    as_json: bool = setting(False, "Print everything as JSON.", flag="--json", group="Output")


@job(StatusSettings)
def status(run: RunDirectory, settings: StatusSettings) -> RunStatus:
    """Report the state of a run: done, failed and why, spent, pace, time left, and what to do next.

    It only reads, so it can be called while the run goes on, and after it died.

    Args:
        run: the run directory.
        settings: the keyword arguments, as one model.

    Raises:
        InputError: there is no run.

    Example:
        >>> status("no-such-run")
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-run holds no run: it has neither manifest.json nor a ledger
    """
    from autorubric.synthesis.run_summary import find_progress

    return run_status(Path(run), {"evaluation": grading_standing, "synthesis": find_progress})
