"""`autorubric merge`: merge the shards of a run."""

from typing import Any

from autorubric.cli import grade, select, synthesize
from autorubric.cli.command import command, run
from autorubric.jobs.merge import MergeSettings, merge_run

_EXAMPLES = """
autorubric merge graded-1 graded-2 -o graded
autorubric merge shards/* -o rubrics --partial
"""


@command(MergeSettings, _EXAMPLES)
def merge(settings: MergeSettings) -> int:
    """Merge the shards of a run into one run directory; no request is sent.

    Shards are runs of synthesize, grade or select with --shard I/N. Run the same command again to add what the shards
    have finished since.
    """
    result, of_run = run(merge_run(settings))
    commands: dict[str, Any] = {"grade": grade, "synthesize": synthesize, "select": select}
    status: int = commands[of_run.command].print_result(result, of_run)
    return status
