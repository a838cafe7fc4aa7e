"""`autorubric status` and `doctor`: the state of a run, and of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

from autorubric.cli import EXIT_UNFINISHED
from autorubric.cli.command import command, run
from autorubric.cli.spending import list_cost_notes
from autorubric.errors import pluralize
from autorubric.files import dump_json
from autorubric.jobs.status import DoctorSettings, StatusSettings, doctor_async
from autorubric.jobs.status import status as status_of_run
from autorubric.llm.failure_groups import format_failures
from autorubric.runs.progress import format_cost, format_count, format_duration
from autorubric.runs.run_status import RunStatus
from autorubric.runs.stopping import strip_advice

_STATUS_EXAMPLES = """
autorubric status graded
autorubric status graded --json
"""


@command(StatusSettings, _STATUS_EXAMPLES)
def status(settings: StatusSettings) -> int:
    """Report the state of a run: done, failed, spent, time left.

    Only reads the run, so it can be used at any time, also after a crash.
    """
    found = status_of_run(settings)
    print(dump_json(found.to_dict(), indent=2) if settings.as_json else "\n".join(format_status(found)))
    return 0


def format_status(found: RunStatus) -> Iterator[str]:
    """A status, as lines of text."""
    holder = f" ({found.holder})" if found.holder else ""
    yield f"{found.directory}: {found.kind}, {found.state}{holder}"
    rows, done, failed, *_ = found.row_counts
    if rows is not None:
        share = f" ({done / rows:.0%})" if rows else ""
        yield f"  done       {done:,} of {rows:,} rows{share}, {failed:,} failed, {rows - done - failed:,} left"
    noun = "judgment" if found.kind == "evaluation" else "row"
    counts = found.row_counts
    for noun_of, groups in ((noun, counts.groups), ("vote", counts.lost_votes), ("request", found.unanswered)):
        shown = (group for group in groups if not group.is_left_out(found.stopped or None))
        yield from (f"  failures   {line}" for line in format_failures(shown, noun_of, found.stopped or None))
    spent = found.spent
    cost = format_cost(None if spent.unpriced else spent.cost)
    yield f"  spent      {pluralize(spent.calls, 'call')}, {format_count(spent.tokens)} tokens, {cost}"
    for total in found.totals:
        lost = f", {total.failed:,} failed" if total.failed else ""
        price = format_cost(None if total.unpriced else total.cost)
        yield f"    {total.role:<10} {total.model}: {pluralize(total.calls, 'call')}{lost}, {price}"
    for note in list_cost_notes(found.totals):
        yield f"  note       {note}"
    yield from _format_batches(found)
    if found.calls_per_second is not None:
        ago = "" if found.idle is None else f"; the last one {format_duration(found.idle)} ago"
        yield f"  pace       {found.calls_per_second:.1f} calls per second{ago}"
    if found.eta is not None:
        yield f"  time left  about {format_duration(found.eta)}"
    if found.stopped:
        yield f"  stopped    {strip_advice(found.stopped)}"
    yield f"  next       {found.advice}"


def _format_batches(found: RunStatus) -> Iterator[str]:
    for record in found.open_batches:
        ago = format_duration(max(0.0, time.time() - (record.sent_at or record.planned_at)))
        where = f"{record.remote}, {record.word}" if record.remote else "being created"
        yield f"  batch      {pluralize(record.count, 'request')} to {record.model} ({where}), {ago} ago"
        if record.trouble:
            yield f"             {record.trouble}"
    ended = [record for record in found.batches if record.state == "collected"]
    if ended:
        replies, asked = sum(r.replies for r in ended), sum(r.count for r in ended)
        batches = pluralize(len(ended), "batch")
        yield f"  batches    {batches} collected: {pluralize(replies, 'reply')} to {pluralize(asked, 'request')}"


_MARKS = {"ok": "   ", "note": " ! ", "problem": "!! "}
_DOCTOR_EXAMPLES = """
autorubric doctor
autorubric doctor --model qwen@http://localhost:8000/v1
"""


@command(DoctorSettings, _DOCTOR_EXAMPLES)
def doctor(settings: DoctorSettings) -> int:
    """Check the installation, API keys and endpoints.

    API keys are listed by the names of their environment variables. The exit status is 1 if there is a problem.
    """
    found = run(doctor_async(settings))
    if settings.as_json:
        print(dump_json([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n{'':22}{finding.advice}" if finding.advice else ""
            print(f"{_MARKS[finding.verdict]}{finding.subject:<19}{finding.value}{advice}")
    return EXIT_UNFINISHED if any(finding.verdict == "problem" for finding in found) else 0
