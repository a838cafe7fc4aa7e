"""The runs that can be divided into shards, by the names of their commands."""

from __future__ import annotations

from typing import Any

from autorubric.jobs.job import ShardedSettings


def load_job(command: str) -> tuple[type[ShardedSettings], Any]:
    """The settings of a command, and its function; only the modules of this command are imported.

    Raises:
        KeyError: the runs of this command cannot be divided.

    Example:
        >>> load_job("grade")[0].__name__
        'GradeSettings'
    """
    if command == "grade":
        from autorubric.jobs.grade import GradeSettings, grade_async

        return GradeSettings, grade_async
    if command == "select":
        from autorubric.jobs.select import SelectSettings, select_async

        return SelectSettings, select_async
    if command == "synthesize":
        from autorubric.jobs.synthesize import SynthesizeSettings, synthesize_async

        return SynthesizeSettings, synthesize_async
    raise KeyError(command)
