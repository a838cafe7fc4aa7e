"""`autorubric show`: one item of a run in full."""

from dataclasses import asdict

from autorubric.cli.command import command, run
from autorubric.files import dump_json
from autorubric.jobs.status import ShowSettings, show_async

_EXAMPLES = """
autorubric show graded e7
autorubric show graded e7 --criterion Accuracy --brief
autorubric show rubrics q3 --json
"""


@command(ShowSettings, _EXAMPLES)
def show(settings: ShowSettings) -> int:
    """Show one item of a run: verdicts, votes, quotes, prompts and raw replies.

    For a synthesis run, shows one query: its rubric, and the history of each criterion.
    """
    found = run(show_async(settings))
    print(dump_json({**asdict(found), "directory": str(found.directory)}, 2) if settings.as_json else found)
    return 0
