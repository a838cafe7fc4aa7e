"""`autorubric report` and `verify`: write a run as one file, and check that file."""

import sys
from collections.abc import Iterator
from dataclasses import asdict

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command
from autorubric.errors import pluralize
from autorubric.files import dump_json
from autorubric.view.report.report_job import ReportSettings, VerifySettings
from autorubric.view.report.report_job import report as made_report
from autorubric.view.report.report_job import verify as verified
from autorubric.view.report.verification import Verification

_REPORT_EXAMPLES = """
autorubric report graded -o report.html
autorubric report graded --against graded-before --format md
"""


@command(ReportSettings, _REPORT_EXAMPLES)
def report(settings: ReportSettings) -> int:
    """Write a run as one file, to send or print.

    The HTML file has no scripts and loads nothing. The same run always gives the same bytes. Markdown is a short
    table for a pull request; JSON has every number.
    """
    made = made_report(settings)
    if made.path is None:
        sys.stdout.write(made.text)
    else:
        print(f"wrote {made.path}")
    return 0


_MOST = 20
_VERIFY_EXAMPLES = """
autorubric verify report.html graded
autorubric verify report.html graded --against graded-before
"""


@command(VerifySettings, _VERIFY_EXAMPLES)
def verify(settings: VerifySettings) -> int:
    """Recompute every number of a report from its run.

    Lists the numbers that differ, and exits with status 1 if there are any. It also compares the text that an HTML
    report shows.
    """
    found = verified(settings)
    whole = {**asdict(found), "is_verified": found.is_verified}
    print(dump_json(whole, 2) if settings.as_json else "\n".join(_format_verification(found)))
    return 0 if found.is_verified else EXIT_UNFINISHED


def _format_verification(found: Verification) -> Iterator[str]:
    if found.is_verified:
        yield f"verified: {pluralize(found.numbers, 'number')} and all texts match the run"
        return
    if found.differences:
        yield f"{pluralize(len(found.differences), 'difference')} between the report and the run:"
    for difference in found.differences[:_MOST]:
        yield f"  {difference.where}: the report says {difference.reported}, the run {difference.found}"
    if len(found.differences) > _MOST:
        yield f"  and {len(found.differences) - _MOST:,} more (--json)"
    if found.differences:
        yield "another version of autorubric may compute other numbers; verify with the one that made the report"
    if found.note:
        yield f"not verified: {found.note}"
