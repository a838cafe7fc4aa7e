"""`autorubric select` from a finished grading run: no call is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autorubric.cli import EXIT_UNFINISHED
from autorubric.errors import ConfigError
from autorubric.llm.failure_groups import FailureGroups

_USED = frozenset({"data", "out", "threshold", "keep", "margin", "trainer", "limit"})
_MARKS = ("manifest.json", "items.jsonl")


def is_run_directory(data: Path) -> bool:
    """Whether DATA is the directory of a run, rather than a file of queries.

    Example:
        >>> is_run_directory(Path("final.jsonl"))
        False
    """
    return os.path.isdir(data) and any((data / name).exists() for name in _MARKS)  # noqa: PTH112 (long names)


def select_graded(given: Mapping[str, Any]) -> int:
    """Decide on the candidates of a finished grading run, write what was kept, and return the exit status.

    Raises:
        ConfigError: a flag says how answers are made or judged.
        InputError: the run has not finished, or cannot be read.
    """
    from autorubric.cli.selection_report import print_selection
    from autorubric.jobs.grading_inputs import check_weighed
    from autorubric.runs.run_folder import run_folder
    from autorubric.training.export import check_trainers
    from autorubric.training.graded_run import read_graded_run
    from autorubric.training.selection import keep_of
    from autorubric.training.selection_files import (
        DECISIONS_FILE,
        SUMMARY_FILE,
        TRAINING_FILES,
        Pool,
        write_selection,
    )

    _refuse_unused(given)
    keep = keep_of(given["keep"], given["threshold"], given["margin"])
    trainers = check_trainers(given["trainer"] or ())
    run = read_graded_run(given["data"]).first(given["limit"])
    check_weighed((query.where or query.id, query.rubric) for query in run.queries)
    out = given["out"]
    with run_folder(out, (*TRAINING_FILES, DECISIONS_FILE, SUMMARY_FILE), [given["data"]]):
        written = write_selection(out, Pool(run.queries, run.scored, run.items), keep, trainers)
    failures = FailureGroups()
    for one in run.scored:
        if one.failure is not None:
            failures.add_text(one.failure, one.candidate.sample_id)
    print_selection(written, [], failures)
    print(f"  everything is in {out}; scores are those of {run.folder}")
    if len(failures) and run.again:
        print(f"judge what failed again, then select again:\n  {run.again}")
    return 0 if written.summary.answers and not len(failures) else EXIT_UNFINISHED


def _refuse_unused(given: Mapping[str, Any]) -> None:
    unused = [
        f"-{name}" if len(name) == 1 else f"--{'no-' if given[name] is False else ''}{name.replace('_', '-')}"
        for name in given
        if name in given["typed"] and name not in _USED
    ]
    if unused:
        run = given["data"]
        raise ConfigError(
            f"{', '.join(unused)}: {run} is a finished grading run, whose answers and scores are taken as they are; "
            f"leave these flags out, or pass {run / 'dataset.json'} to grade again"
        )
